//! `doctor`: what this user can and cannot read on this kernel, and what would change it. One line each: `readings`, `probes`, and here
//! the rest.

mod probes;
mod readings;
mod remedies;

use std::fmt::Write;

use probes::{block_latencies_line, bpf_iterator_line, trace_line};
use remedies::Remedies;

use crate::app::baseline_learner::{LOAD_TIMEOUT, write_obstacle};
use crate::app::config::{FILE_TIMEOUT, Settings, file::ConfigFile};
use crate::app::program::exit::{Exit, Failure, without_error_numbers};
use crate::app::program::priority::{self, ThreadPriority};
use crate::app::program::stdio::print_localized;
use crate::app::program::threads::{self, TimedOut, with_timeout};
use crate::baseline::store::{BaselineStore, StoreError};
use crate::cli::{Configuration, ProbeMode};
use crate::kernel::host::bounding_set;
use crate::kernel::sys::capget;
use crate::kernel::{Root, Sampler};
use crate::report::formatting::printable;
use crate::sample::{Host, Name};

pub fn doctor(root: Root, configuration: &Configuration) -> Result<Exit, Failure> {
    let DoctorReport { heading, lines } = DoctorReport::new(root, configuration)?;
    print_localized(&(heading + &lines)).map(|_| Exit::Success)
}

/// What this user can and cannot read.
pub struct DoctorReport {
    /// The host, its kernel and the user
    pub heading: String,
    /// A line for each kind of reading
    pub lines: String,
}

impl DoctorReport {
    pub fn new(root: Root, configuration: &Configuration) -> Result<DoctorReport, Failure> {
        let on_host = root.is_host();
        let mut sampler = Sampler::new(root.clone()).map_err(|error| {
            Failure::new(Exit::NoProc, "cannot sample this machine", error, "mount it: mount -t proc proc /proc")
        })?;
        let sample = sampler.sample();
        let remedies = Remedies { is_root: sampler.host().privilege.effective_uid == 0 };
        let mut text = String::new();
        for line in readings::lines(&root, sampler.host(), &sample, remedies) {
            // Into memory: cannot fail.
            let _ = match line.obstacle {
                None => writeln!(text, "seen      {}", line.what),
                Some((why, remedy)) if remedy.is_empty() => writeln!(text, "not seen  {}: {why}", line.what),
                Some((why, remedy)) => writeln!(text, "not seen  {}: {why}: {remedy}", line.what),
            };
        }
        text.push_str(&priority_line(remedies));
        text.push_str(&configuration_lines(on_host, configuration));
        if on_host {
            let probes = Settings::load(&root, configuration).map_or(ProbeMode::default(), |(settings, _)| settings.probes());
            text.push_str(&bpf_iterator_line(sampler.is_in_initial_pid_namespace(), probes));
            text.push_str(&block_latencies_line(&root, probes));
            text.push_str(&super::probe::doctor_lines(&root));
            text.push_str(&trace_line(&root, sampler.is_in_initial_pid_namespace(), probes));
            text.push_str(&baselines_line());
        }
        let permitted = capget().map_or(u64::MAX, |sets| sets.permitted);
        let bounding_set = bounding_set(&root).unwrap_or(u64::MAX);
        text.push_str(&remedies.capabilities_line(permitted, bounding_set));
        Ok(DoctorReport { heading: heading(sampler.host()), lines: without_error_numbers(&text) })
    }
}

fn heading(host: &Host) -> String {
    let lossy = |name: &Name| printable(&String::from_utf8_lossy(name.as_bytes()));
    let user =
        if host.privilege.effective_uid == 0 { "root".to_owned() } else { format!("user {}", host.privilege.effective_uid) };
    format!("host      {}, Linux {}, {}, as {user}\n", lossy(&host.hostname), lossy(&host.kernel), lossy(&host.machine))
}

/// The priority that the sampling thread gets: tried on a thread of its own.
fn priority_line(remedies: Remedies) -> String {
    let tried = threads::spawn("priority", priority::raise).ok().and_then(|thread| thread.join().ok());
    match tried {
        Some(ThreadPriority::Raised) => {
            "priority  the sampling thread runs with nice -20: samples are on time while all CPUs are busy\n".to_owned()
        }
        Some(ThreadPriority::Kept) => {
            "priority  the sampling thread keeps the nice value or the policy that this program was started with\n".to_owned()
        }
        Some(ThreadPriority::Normal) | None => {
            let remedy = remedies.sys_nice();
            format!("priority  the sampling thread has nice 0: samples are late while all CPUs are busy: {remedy}\n")
        }
    }
}

/// Which configuration files are read.
fn configuration_lines(on_host: bool, requested: &Configuration) -> String {
    let options = requested.clone();
    let read = move || -> Vec<(ConfigFile, Result<bool, Failure>)> {
        let places = if on_host || ConfigFile::explicit_path(&options).is_some() {
            ConfigFile::candidates(&options)
        } else {
            Vec::new()
        };
        places.into_iter().map(|place| (place.validate(), place)).map(|(found, place)| (place, found)).collect()
    };
    let found = match with_timeout(FILE_TIMEOUT, read) {
        Ok(found) => found,
        Err(TimedOut::NoAnswer) => return "not read  configuration: its file system does not answer\n".to_owned(),
        Err(TimedOut::NoCpu) => return "not read  configuration: this process gets no CPU to read it\n".to_owned(),
    };
    let mut text = String::new();
    for (place, found) in found {
        let path = printable(&place.path.display().to_string());
        text += &match found {
            Ok(true) => format!("read      configuration {path}\n"),
            Ok(false) => format!("no file   configuration {path}\n"),
            Err(failure) => format!("not read  {failure}\n"),
        };
    }
    if let Some(failure) = Settings::command_line_error(requested) {
        text += &format!("not read  {failure}\n");
    }
    let sudoer = std::env::var_os("SUDO_USER").filter(|_| nix::unistd::geteuid().is_root() && !text.is_empty());
    if let Some(user) = sudoer {
        let user = printable(&user.to_string_lossy());
        text += &format!("by sudo   root's configuration is used, not {user}'s\n");
    }
    text
}

/// Where learned latencies are stored, and whether they can be; writes nothing.
fn baselines_line() -> String {
    const WHAT: &str = "learned latencies of disks";
    let found = with_timeout(LOAD_TIMEOUT, || {
        let store = BaselineStore::at_default_path(nix::unistd::geteuid().as_raw());
        let obstacle = write_obstacle(store.as_ref());
        (obstacle, store.map(|store| (printable(&store.path().display().to_string()), store.read())))
    });
    let unread = |why| match why {
        TimedOut::NoAnswer => "the state directory does not answer",
        TimedOut::NoCpu => "this process gets no CPU to read the state directory",
    };
    match found.unwrap_or_else(|why| (Some(unread(why).to_owned()), None)) {
        (_, Some((path, Err(why)))) => {
            let remedy = match why {
                StoreError::Malformed(_) => "the next run renames it to .bad and learns again",
                StoreError::Io(_) => "move it away, or set XDG_STATE_HOME",
            };
            format!("not kept  {WHAT}: {path}: {}: {remedy}\n", printable(&why.to_string()))
        }
        (Some(why), _) => format!("not kept  {WHAT}: {}: set XDG_STATE_HOME to a directory of this user\n", printable(&why)),
        (None, Some((path, Ok(known)))) => format!("kept      {} {WHAT} in {path}\n", known.iter().count()),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc_tree::ProcTree;

    #[test]
    fn a_line_has_the_words_of_an_error_without_its_number() {
        let tree = ProcTree::new();
        std::fs::create_dir_all(tree.path("proc/loadavg")).unwrap();
        let lines = DoctorReport::new(tree.root(), &Configuration::default()).unwrap().lines;
        assert!(lines.contains("load average (/proc/loadavg): Is a directory\n"), "{lines}");
    }
}
