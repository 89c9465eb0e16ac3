//! `probe`: counts what the kernel does while it is asked, by eBPF programs. They are detached when this program ends.

mod query;

pub use query::queries;

use std::io::ErrorKind;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use jiff::tz::TimeZone;

use crate::app::config::FILE_TIMEOUT;
use crate::app::program::exit::{Exit, Failure, quoted};
use crate::app::program::privileges::bpf_remedy;
use crate::app::program::stdio::{ReaderState, print, print_localized, print_stderr};
use crate::app::program::threads::{TimedOut, with_timeout};
use crate::cli::probe::{FileSystems, RunQueue};
use crate::ids::{DiskId, ProcessId};
use crate::interval::file_systems::FileSystemInterval;
use crate::interval::run_queue::RunQueueInterval;
use crate::kernel::mounts::MountTable;
use crate::kernel::probe::file_systems::{FileSystemsLayout, FileSystemsProbe, SLOTS, TaskFilter, device_at};
use crate::kernel::probe::run_queue::{PROCESS_SLOTS, RunQueueLayout, RunQueueProbe};
use crate::kernel::probe::{load_obstacle, loader_process, possible_cpus, probe_error::ProbeError};
use crate::kernel::task::files::is_in_initial_pid_namespace;
use crate::kernel::task::{parse_stat, parse_tgid};
use crate::kernel::{self, Root};
use crate::report;
use crate::report::formatting::printable;
use crate::sample::task::TaskState;
use crate::units::format::plural;
use crate::units::time::{next_end, time_of_day};

/// Time between tables without INTERVAL.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);

/// What would make it possible.
fn remedy() -> String {
    bpf_remedy(true)
}

/// `probe fs`
pub fn file_systems(root: &Root, options: &FileSystems) -> Result<Exit, Failure> {
    let process = options.pid.map(|pid| process_with(root, pid)).transpose()?;
    let filter = TaskFilter { pid: options.pid, uid: options.user.as_deref().map(uid_of).transpose()? };
    let mut mounts = MountTable::default();
    mounts.refresh(root).map_err(|why| Failure::new(Exit::NoProc, "cannot read the mount table", why, ""))?;
    let only = options.mount.as_deref().map(|directory| device_of(&mounts, directory)).transpose()?;
    permitted(root)?;
    let layout = FileSystemsLayout::new(possible_cpus(root), filter);
    let program = loader_process::own_executable();
    let mut probe = FileSystemsProbe::attach(&program, layout, mounts, only).map_err(|why| refused(&why.to_string()))?;
    if !probe.missing().is_empty() {
        print_stderr(&format!("not counted, since this kernel lacks the tracepoints: {}", probe.missing().join(", ")));
    }
    for (name, why) in probe.refused() {
        print_stderr(&match name.as_str() {
            "mount_points" => format!("calls on paths count at the file system above for {why}"),
            tracepoint => format!("not counted: the tracepoint {tracepoint}: {why}"),
        });
    }
    let unread = |why| Failure::new(Exit::Failed, "cannot read the mount table", why, "");
    let mut older = probe.read(root, kernel::now).map_err(unread)?;
    let mut tell_uncounted = tell_once(|count| {
        let all = plural(count, "file system is", "file systems are");
        format!("{all} not counted: there is place for {SLOTS} at most: choose one by --mount")
    });
    tell_uncounted(probe.uncounted());
    let zone = TimeZone::system();
    each_interval(root, process, options.interval, options.count, || {
        let newer = probe.read(root, kernel::now).map_err(unread)?;
        tell_uncounted(probe.uncounted());
        let interval = FileSystemInterval::between(&older, &newer);
        older = newer;
        let Some(interval) = interval else { return Ok(ReaderState::Open) };
        if options.json {
            return print(&report::file_systems::json(&interval, only.is_some()));
        }
        let time = time_of_day(interval.at.realtime_ns, &zone);
        print_localized(&report::file_systems::tables(&interval, &time, only.is_some()))
    })
}

/// `probe runq`
pub fn run_queue(root: &Root, options: &RunQueue) -> Result<Exit, Failure> {
    let process = options.pid.map(|pid| process_with(root, pid)).transpose()?;
    permitted(root)?;
    let layout = RunQueueLayout::new(possible_cpus(root), options.pid);
    let mut probe =
        RunQueueProbe::attach(&loader_process::own_executable(), layout).map_err(|why| refused(&why.to_string()))?;
    let unread = |why| Failure::new(Exit::NoProc, "cannot read /proc", why, "");
    let mut older = probe.read(root, kernel::now).map_err(unread)?;
    let mut tell_uncounted = tell_once(|count| {
        let all = plural(count, "process is", "processes are");
        format!("{all} counted by CPU only: there is place for {PROCESS_SLOTS} at most: choose one by --pid")
    });
    tell_uncounted(probe.uncounted());
    let zone = TimeZone::system();
    each_interval(root, process, options.interval, options.count, || {
        let newer = probe.read(root, kernel::now).map_err(unread)?;
        tell_uncounted(probe.uncounted());
        let interval = RunQueueInterval::between(&older, &newer);
        older = newer;
        let Some(interval) = interval else { return Ok(ReaderState::Open) };
        if options.json {
            return print(&report::run_queue::json(&interval));
        }
        print_localized(&report::run_queue::table(&interval, &time_of_day(interval.at.realtime_ns, &zone)))
    })
}

/// Prints what is left out when there was nothing before.
fn tell_once(message: impl Fn(usize) -> String) -> impl FnMut(usize) {
    let mut before = 0;
    move |count| {
        if before == 0 && count > 0 {
            print_stderr(&message(count));
        }
        before = count;
    }
}

/// Calls `body` after each interval, until the reader has closed. Intervals that end while it writes are left out: the next one covers
/// their time. An error after that in which `process` has ended.
fn each_interval(
    root: &Root,
    process: Option<ProcessId>,
    interval: Option<Duration>,
    count: Option<u32>,
    mut body: impl FnMut() -> Result<ReaderState, Failure>,
) -> Result<Exit, Failure> {
    let begin = Instant::now();
    let length = interval.unwrap_or(DEFAULT_INTERVAL);
    let mut due = length;
    for _ in 0..count.unwrap_or(if interval.is_some() { u32::MAX } else { 1 }) {
        thread::sleep(due.saturating_sub(begin.elapsed()));
        let has_ended = process.filter(|&process| !is_running(root, process));
        if body()? == ReaderState::Closed {
            break;
        }
        if let Some(ProcessId { pid, .. }) = has_ended {
            return Err(Failure::new(Exit::Failed, format!("cannot count process {pid} any more"), "it has ended", ""));
        }
        due = next_end(begin.elapsed(), length);
    }
    Ok(Exit::Success)
}

/// The lines of `doctor`: attaches the programs of each command, and detaches them again.
pub fn doctor_lines(root: &Root) -> String {
    let program = loader_process::own_executable();
    let cpus = possible_cpus(root);
    let attach_file_systems = || {
        let layout = FileSystemsLayout::new(cpus, TaskFilter::default());
        let probe = FileSystemsProbe::attach(&program, layout, MountTable::default(), None)?;
        let refused = probe.refused().iter().map(|(name, why)| format!("{name} ({why})"));
        Ok(probe.missing().iter().cloned().chain(refused).collect())
    };
    let attach_run_queue = || RunQueueProbe::attach(&program, RunQueueLayout::new(cpus, None)).map(|_| Vec::new());
    let mut text = doctor_line(root, "operations of file systems", "stalltop probe fs", &remedy(), attach_file_systems);
    text.push_str(&doctor_line(root, "waits for a CPU", "stalltop probe runq", &remedy(), attach_run_queue));
    text.push_str(&query::queries_line(root));
    text
}

/// `attach` returns what is not counted.
fn doctor_line(
    root: &Root,
    what: &str,
    command: &str,
    remedy: &str,
    attach: impl FnOnce() -> Result<Vec<String>, ProbeError>,
) -> String {
    let attached = match load_obstacle(root) {
        Some((_, why)) => Err(ProbeError::NotPossible(why)),
        None => attach(),
    };
    match attached {
        Ok(missing) if missing.is_empty() => format!("eBPF      {what} can be counted: {command}\n"),
        Ok(missing) => {
            let missing = printable(&missing.join(", "));
            format!("eBPF      {what} can be counted ({command}), without {missing}\n")
        }
        Err(why) => {
            let why = printable(&why.to_string());
            format!("eBPF      {what} cannot be counted: {why}: {remedy}\n")
        }
    }
}

fn permitted(root: &Root) -> Result<(), Failure> {
    match load_obstacle(root) {
        None => Ok(()),
        Some((_, why)) => Err(refused(why)),
    }
}

fn refused(why: &str) -> Failure {
    Failure::new(Exit::Refused, "cannot attach eBPF programs", why, remedy())
}

/// The process with this number, which must be that of the initial pid namespace: eBPF programs see no other.
fn process_with(root: &Root, pid: u32) -> Result<ProcessId, Failure> {
    let fail = |exit, why: &str, remedy: &str| Failure::new(exit, format!("cannot count process {pid}"), why, remedy);
    if is_in_initial_pid_namespace(root) == Ok(false) {
        let remedy = "run on the host, or in a container with --pid=host";
        return Err(fail(Exit::Refused, "this is a pid namespace of its own", remedy));
    }
    let status = root.read_once(format!("proc/{pid}/status")).unwrap_or_default();
    match (parse_tgid(&status), start_of(root, pid)) {
        (Some(tgid), _) if tgid != pid => {
            Err(fail(Exit::Failed, &format!("it is a thread of process {tgid}"), &format!("give --pid {tgid}")))
        }
        (Some(_), Some(start_ticks)) => Ok(ProcessId { pid, start_ticks }),
        _ => Err(fail(Exit::Failed, "there is no such process", "")),
    }
}

/// Another process may have its number.
fn is_running(root: &Root, process: ProcessId) -> bool {
    start_of(root, process.pid) == Some(process.start_ticks)
}

/// The start time of a process, in clock ticks after boot; `None` if all its threads have ended, whether or not its parent has waited for
/// it.
fn start_of(root: &Root, pid: u32) -> Option<u64> {
    let stat = root.read_once(format!("proc/{pid}/stat")).ok()?;
    let stat = parse_stat(&stat)?;
    let has_ended = stat.state == TaskState::Zombie && stat.thread_count <= 1;
    (!has_ended).then_some(stat.start_ticks)
}

/// From a name or a number.
fn uid_of(user: &str) -> Result<u32, Failure> {
    if let Ok(uid) = user.parse() {
        return Ok(uid);
    }
    let name = user.to_owned();
    let remedy = "give its uid";
    // The name service may block.
    match with_timeout(FILE_TIMEOUT, move || nix::unistd::User::from_name(&name)) {
        Ok(Ok(Some(found))) => Ok(found.uid.as_raw()),
        Ok(Ok(None)) => Err(Failure::new(Exit::Usage, format!("unknown user '{user}'"), "", remedy)),
        Ok(Err(why)) => Err(Failure::new(Exit::Failed, format!("cannot look up the user '{user}'"), why, remedy)),
        Err(why) => {
            let why = match why {
                TimedOut::NoAnswer => "the name service does not answer",
                TimedOut::NoCpu => "no CPU was free for it",
            };
            Err(Failure::new(Exit::Failed, format!("cannot look up the user '{user}'"), why, remedy))
        }
    }
}

fn device_of(mounts: &MountTable, directory: &Path) -> Result<DiskId, Failure> {
    let path = directory.to_path_buf();
    let absolute = match with_timeout(FILE_TIMEOUT, move || path.canonicalize()) {
        Ok(Ok(absolute)) => absolute,
        Ok(Err(why)) if why.kind() == ErrorKind::NotFound => {
            return Err(Failure::new(Exit::Usage, quoted(directory), "there is no such directory", ""));
        }
        // A file system that does not answer is found by its name alone.
        Ok(Err(_)) | Err(_) => std::path::absolute(directory).unwrap_or_else(|_| directory.to_path_buf()),
    };
    let remedy = "give a mount point as in /proc/self/mountinfo";
    device_at(mounts.mounts(), &absolute)
        .ok_or_else(|| Failure::new(Exit::Usage, quoted(directory), "is in no mounted file system", remedy))
}
