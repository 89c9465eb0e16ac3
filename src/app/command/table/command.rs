//! `table WHAT -- COMMAND`: the figures of the machine and the resource usage of a command, from its start to its end.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};

use super::{DEFAULT_INTERVAL, TableOutput};
use crate::app::config::Settings;
use crate::app::program::exit::{Exit, Failure};
use crate::app::program::{signals, threads};
use crate::app::sampling::SamplerCommand;
use crate::app::sys;
use crate::cli::table::Table;
use crate::kernel::Root;
use crate::report::table::ResourceUsage;

/// The exit codes of a shell.
const EXIT_NOT_FOUND: u8 = 127;
const EXIT_NOT_EXECUTABLE: u8 = 126;
const EXIT_SIGNAL_BASE: i32 = 128;

pub(super) fn measure(root: Root, settings: &Settings, options: &Table, lines: &mut TableOutput) -> Result<Exit, Failure> {
    let [program, arguments @ ..] = options.command.as_slice() else { return Ok(Exit::Success) };
    // The terminal sends an interrupt to the command too: the total is printed when that has ended. A second signal ends this.
    let stop = signals::TerminationSignals::block();
    let stop = stop.map_err(|error| Failure::new(Exit::Failed, "cannot wait for signals", error, ""))?;
    stop.on_signal(|| ())?;
    let mut evaluations =
        super::start(root, settings, options.interval.unwrap_or(DEFAULT_INTERVAL), (options, &lines.selection))?;
    // The first sample comes before the command.
    let Some(first) = evaluations.next_sample() else { return Err(Failure::already_reported(Exit::Failed)) };
    evaluations.evaluate(&first);
    let control = evaluations.sampler.control();
    let started = Instant::now();
    let child = signals::restore_default_signals(Command::new(program).args(arguments))
        .spawn()
        .map_err(|error| cannot_run(program, &error))?;
    let wait = move || {
        let ended = wait_with_rusage(&child);
        let elapsed = started.elapsed();
        control.send(SamplerCommand::FinalSample);
        (ended, elapsed)
    };
    let failed = |why: &str| Failure::new(Exit::Failed, "cannot wait for the command", why, "");
    let waiting = threads::spawn("command", wait)?;
    while let Some(sample) = evaluations.next_sample() {
        let Some(evaluation) = evaluations.evaluate(&sample) else { continue };
        if !lines.add(&evaluation)? {
            lines.total_only = true;
        }
    }
    let (ended, elapsed) = waiting.join().map_err(|_| failed("the waiting thread has panicked"))?;
    let ended = ended.map_err(|error| failed(&error.to_string()))?;
    let total = lines.print_total()?;
    let cpus = total.map_or(0, |total| total.interval.online_cpus());
    let cost = cost(&ended, elapsed, cpus);
    let format = lines.printer.format();
    lines.stream.print(format, &cost.render(format))?;
    evaluations.finish()?;
    Ok(Exit::CommandExit(cost.exit_code))
}

fn cannot_run(program: &OsString, error: &io::Error) -> Failure {
    let code = if error.kind() == io::ErrorKind::NotFound { EXIT_NOT_FOUND } else { EXIT_NOT_EXECUTABLE };
    Failure::new(Exit::CommandExit(code), format!("cannot run '{}'", program.to_string_lossy()), error, "")
}

fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| EXIT_SIGNAL_BASE + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

/// The exit status of the command, and the resources that it and its waited-for children used.
struct WaitResult {
    status: ExitStatus,
    usage: libc::rusage,
}

/// Waits for this child only: the loader of the BPF iterator is another one.
fn wait_with_rusage(child: &Child) -> io::Result<WaitResult> {
    let pid = child.id().try_into().map_err(|_| io::ErrorKind::InvalidInput)?;
    let (status, usage) = sys::wait4(pid)?;
    Ok(WaitResult { status: ExitStatus::from_raw(status), usage })
}

fn cost(ended: &WaitResult, elapsed: Duration, cpus: usize) -> ResourceUsage {
    const KB: u64 = 1024;
    const BLOCK: u64 = 512;
    let usage = &ended.usage;
    let count = |number: libc::c_long| u64::try_from(number).unwrap_or(0);
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    let (user, system, elapsed) = (seconds(usage.ru_utime), seconds(usage.ru_stime), elapsed.as_secs_f64());
    let share = |of: f64| (of > 0.0).then(|| (user + system) / of);
    // Between fork and exec the child has the memory of stalltop, and ru_maxrss includes it.
    let own = getrusage(UsageWho::RUSAGE_SELF).map_or(0, |own| own.max_rss());
    ResourceUsage {
        exit_code: exit_code(ended.status),
        elapsed_seconds: elapsed,
        user_seconds: user,
        system_seconds: system,
        cpu_ratio: share(elapsed),
        host_ratio: share(elapsed * cpus as f64),
        max_resident_bytes: Some(usage.ru_maxrss).filter(|&most| most > own).map(|most| count(most) * KB),
        minor_faults: count(usage.ru_minflt),
        major_faults: count(usage.ru_majflt),
        voluntary_switches: count(usage.ru_nvcsw),
        involuntary_switches: count(usage.ru_nivcsw),
        read_bytes: count(usage.ru_inblock) * BLOCK,
        written_bytes: count(usage.ru_oublock) * BLOCK,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::zombie_processes, reason = "it is waited for by its pid")]
    fn the_usage_of_another_child_is_not_counted() {
        let other = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done";
        // Far more CPU time than the shell of the command needs, on any machine.
        while getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().user_time().tv_sec() < 1 {
            assert!(Command::new("sh").args(["-c", other]).status().unwrap().success());
        }
        let child = Command::new("sh").args(["-c", "exit 7"]).spawn().unwrap();
        let cost = cost(&wait_with_rusage(&child).unwrap(), Duration::from_secs(1), 2);
        assert_eq!(cost.exit_code, 7);
        assert!(cost.user_seconds < 0.5, "{cost:?}");
        assert_eq!(cost.max_resident_bytes, None, "a shell takes less than this test");
    }
}
