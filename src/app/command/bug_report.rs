//! `bug-report`: one archive for those who look into a wrong figure or finding: version, kernel, what can be read here, and a
//! short recording. It asks first, sends nothing, and leaves out the host name, arguments of commands and names of containers.

use std::fs::File;
use std::io::{self, Seek};
use std::path::Path;
use std::time::Duration;

use jiff::Zoned;

use super::doctor::DoctorReport;
use super::output::Output;
use crate::app::baseline_learner::BaselineLearner;
use crate::app::config::Settings;
use crate::app::live_pipeline::LiveEvaluations;
use crate::app::program::exit::{Exit, Failure, quoted};
use crate::app::program::question;
use crate::app::program::stdio::print_stderr;
use crate::app::recorder::{self, Session};
use crate::app::sampling::{SamplerThread, SamplingPlan};
use crate::cli::{BugReport, Configuration};
use crate::kernel::Root;
use crate::recording::{Meta, Redaction};
use crate::report::formatting::printable;
use crate::report::missing::missing_readings;
use crate::sample::{Host, Name};
use crate::units::format;

/// The archive's README.
const CONTENTS: &str = "\
version.txt         the version of stalltop and what it was built for
kernel.txt          the kernel, the distribution, the CPU and the memory
doctor.txt          what stalltop can and cannot read here
recording.stalltop  a recording: stalltop replay recording.stalltop

";

/// What the archive has and has not, for the question and the README.
const PRIVACY: &str = "\
It has names of processes, users, cgroups, mount points, disks (with serial
numbers) and network interfaces, and addresses of remote hosts. It has not
the host name, arguments of commands or names of containers.
";

/// What stands for the host name.
const HOST_NAME: &str = "host";

pub fn bug_report(root: Root, configuration: &Configuration, options: &BugReport) -> Result<Exit, Failure> {
    let path = options.output.clone().unwrap_or_else(|| default_name().into());
    let output = Output::for_path(&path)?;
    if !options.yes && !is_confirmed(&path, options.span)? {
        print_stderr("nothing was recorded or written");
        return Ok(Exit::Success);
    }
    let (mut recording, host) = record(root.clone(), configuration, options.span)?;
    let doctor = DoctorReport::new(root.clone(), configuration)?;
    let archive = archive(
        &mut recording,
        &[
            ("README.txt", format!("{CONTENTS}{PRIVACY}")),
            ("version.txt", version()),
            ("kernel.txt", kernel(&root, &host)),
            ("doctor.txt", without_home(&doctor.lines)),
        ],
    );
    let archive = archive.map_err(|error| Failure::new(Exit::Failed, "cannot make the archive", error, "set TMPDIR"))?;
    output.write(&archive)?;
    if path != Path::new("-") {
        let size = format::bytes(archive.len() as f64);
        print_stderr(&format!("{size} written to {}: 'tar --zstd -xf' unpacks it", quoted(&path)));
    }
    Ok(Exit::Success)
}

fn default_name() -> String {
    format!("stalltop-bug-report-{}.tar.zst", Zoned::now().strftime("%Y%m%dT%H%M%S"))
}

/// Says what is written, and reads the answer.
fn is_confirmed(path: &Path, span: Duration) -> Result<bool, Failure> {
    let question = format!(
        "This records for {} s, and writes\n{}. Nothing is sent.\n{PRIVACY}Write it? [y/N] ",
        span.as_secs_f64(),
        printable(&quoted(path))
    );
    question::is_confirmed(&question, "cannot ask whether to write a bug report")
}

/// Records into a file without a name, which is gone whatever happens.
fn record(root: Root, configuration: &Configuration, span: Duration) -> Result<(File, Host), Failure> {
    let settings = Settings::load_and_warn(&root, configuration)?;
    let temporary = || tempfile::tempfile().and_then(|file| Ok((file.try_clone()?, file)));
    let (sink, file) =
        temporary().map_err(|error| Failure::new(Exit::Failed, "cannot write a temporary file", error, "set TMPDIR"))?;
    let learner = BaselineLearner::for_root(&root);
    let interval = Duration::from_secs(1).min(span / 2).max(Duration::from_millis(100));
    let sampler = SamplerThread::start(SamplingPlan::new(root, interval, Some(span), settings.probes()))?;
    let host = Host { hostname: Name::from(HOST_NAME), ..Host::clone(&sampler.host) };
    let rule_config = settings.rule_config_for(&sampler.host);
    let mut evaluations = LiveEvaluations::new(sampler, rule_config, learner)?;
    let Some(first) = evaluations.next_sample() else { return Err(Failure::already_reported(Exit::Failed)) };
    let absent = missing_readings(&first.sample).into_iter().map(|(what, why)| (what.to_owned(), why)).collect();
    let meta = Meta { absent, ..recorder::meta(&host, interval, Redaction::Arguments) };
    let baselines = evaluations.pipeline().evaluator().baselines_for_recording(&first.sample);
    let mut session = Session::stream(None, sink, &meta, &baselines).map_err(recorder::failure)?;
    let mut next = Some(first);
    while let Some(sample) = next {
        let evaluation = evaluations.evaluate(&sample);
        session.offer(sample, recorder::frame_summary(evaluation.as_ref()));
        next = evaluations.next_sample();
    }
    evaluations.finish()?;
    match session.finish_patiently().failure() {
        Some(line) => Err(Failure::new(Exit::CannotWrite, line, "", "set TMPDIR")),
        None => Ok((file, host)),
    }
}

fn version() -> String {
    let target = [std::env::consts::ARCH, std::env::consts::OS, if cfg!(target_env = "musl") { "musl" } else { "gnu" }];
    format!("stalltop {}, {}\n", env!("CARGO_PKG_VERSION"), target.join("-"))
}

/// A line each: the kernel, the distribution, the CPUs, the memory. What cannot be read is left out.
fn kernel(root: &Root, host: &Host) -> String {
    let lossy = |name: &Name| String::from_utf8_lossy(name.as_bytes()).into_owned();
    let read = |path: &str| root.read_once(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let first = |text: String, start: &str| text.lines().find(|line| line.starts_with(start)).map(str::to_owned);
    let cpus = read("proc/cpuinfo");
    let processors = cpus.lines().filter(|line| line.starts_with("processor")).count();
    let lines = [
        Some(format!("Linux {} {}", lossy(&host.kernel), lossy(&host.machine))),
        first(read("proc/version"), "Linux").map(|line| without_builder(&line)),
        first(read("etc/os-release"), "PRETTY_NAME"),
        first(cpus, "model name"),
        Some(format!("{processors} CPUs in /proc/cpuinfo")),
        first(read("proc/meminfo"), "MemTotal"),
    ];
    lines.into_iter().flatten().map(|line| line + "\n").collect()
}

/// Without the user and the host that built the kernel, which are the first parenthesis of /proc/version: a kernel of one's own
/// names oneself.
fn without_builder(version: &str) -> String {
    match version.split_once(" (").and_then(|(before, rest)| Some((before, rest.split_once(')')?))) {
        Some((before, (builder, after))) if builder.contains('@') => format!("{before}{after}"),
        _ => version.to_owned(),
    }
}

/// A home directory often has the name of a person.
fn without_home(text: &str) -> String {
    match std::env::var("HOME") {
        Ok(home) if home.len() > 1 => text.replace(&home, "~"),
        _ => text.to_owned(),
    }
}

/// A compressed tar archive of the texts and the recording.
fn archive(recording: &mut File, texts: &[(&str, String)]) -> io::Result<Vec<u8>> {
    const DIRECTORY: &str = "stalltop-bug-report";
    let modified = jiff::Timestamp::now().as_second().try_into().unwrap_or(0);
    let header = |length: u64| {
        let mut header = tar::Header::new_gnu();
        header.set_size(length);
        header.set_mode(0o644);
        header.set_mtime(modified);
        header
    };
    let mut archive = tar::Builder::new(zstd::Encoder::new(Vec::new(), zstd::DEFAULT_COMPRESSION_LEVEL)?);
    for (name, text) in texts {
        archive.append_data(&mut header(text.len() as u64), format!("{DIRECTORY}/{name}"), text.as_bytes())?;
    }
    recording.rewind()?;
    let length = recording.metadata()?.len();
    archive.append_data(&mut header(length), format!("{DIRECTORY}/recording.stalltop"), recording)?;
    archive.into_inner()?.finish()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn who_built_the_kernel_is_left_out() {
        let line = "Linux version 6.1.0 (ada@thinkpad) (gcc (Debian 12.2.0) 12.2.0, GNU ld 2.40) #1 SMP";
        assert_eq!(without_builder(line), "Linux version 6.1.0 (gcc (Debian 12.2.0) 12.2.0, GNU ld 2.40) #1 SMP");
        assert_eq!(without_builder("Linux version 6.1.0 (gcc 12) #1"), "Linux version 6.1.0 (gcc 12) #1");
    }

    #[test]
    fn an_archive_is_read_back() {
        let mut recording = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut recording, b"samples").unwrap();
        let bytes = archive(&mut recording, &[("version.txt", "1\n".to_owned())]).unwrap();
        let mut files = tar::Archive::new(zstd::Decoder::new(bytes.as_slice()).unwrap());
        let read: Vec<(String, String)> = files
            .entries()
            .unwrap()
            .map(|entry| {
                let mut entry = entry.unwrap();
                let (name, mut text) = (entry.path().unwrap().display().to_string(), String::new());
                entry.read_to_string(&mut text).unwrap();
                (name, text)
            })
            .collect();
        let file = |name: &str, text: &str| (format!("stalltop-bug-report/{name}"), text.to_owned());
        assert_eq!(read, [file("version.txt", "1\n"), file("recording.stalltop", "samples")]);
    }
}
