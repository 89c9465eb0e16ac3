//! `probe`: counts what the kernel does while it is asked, by eBPF programs. They are detached when this program ends.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use jiff::tz::TimeZone;

use crate::app::config::FILE_TIMEOUT;
use crate::app::program::exit::{Exit, Failure, quoted};
use crate::app::program::stdio::{ReaderState, print, print_localized, print_stderr};
use crate::app::program::threads::with_timeout;
use crate::cli::probe::{FileSystems, RunQueue};
use crate::ids::DiskId;
use crate::interval::file_systems::FileSystemInterval;
use crate::interval::run_queue::RunQueueInterval;
use crate::kernel::mounts::MountTable;
use crate::kernel::probe::file_systems::{FileSystemsLayout, FileSystemsProbe, SLOTS, TaskFilter, device_at};
use crate::kernel::probe::run_queue::{RunQueueLayout, RunQueueProbe};
use crate::kernel::probe::{block_latencies, loader_process};
use crate::kernel::scan::INITIAL_PID_NAMESPACE;
use crate::kernel::{self, Root};
use crate::report;
use crate::report::formatting::{pluralize, printable};
use crate::units::time::time_of_day;

/// Time between tables without INTERVAL.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);

/// What would make it possible.
const REMEDY: &str = "run as root, or with CAP_BPF and CAP_PERFMON, on a kernel with CONFIG_DEBUG_INFO_BTF";

/// `probe fs`
pub fn file_systems(root: &Root, options: &FileSystems) -> Result<Exit, Failure> {
    let filter = TaskFilter {
        pid: options.pid.map(|pid| known_pid(root, pid)).transpose()?,
        uid: options.user.as_deref().map(uid_of).transpose()?,
    };
    let mut mounts = MountTable::default();
    mounts.refresh(root).map_err(|why| Failure::new(Exit::NoProc, "cannot read the mount table", why, ""))?;
    let only = options.mount.as_deref().map(|directory| device_of(&mounts, directory)).transpose()?;
    permitted(root)?;
    let layout = FileSystemsLayout::new(block_latencies::possible_cpus(root), filter);
    let program = loader_process::own_executable();
    let mut probe = FileSystemsProbe::attach(&program, layout, mounts, only).map_err(|why| refused(&why))?;
    if !probe.missing().is_empty() {
        print_stderr(&format!("not counted, since this kernel lacks the tracepoints: {}", probe.missing().join(", ")));
    }
    let unread = |why| Failure::new(Exit::Failed, "cannot read the mount table", why, "");
    let mut older = probe.read(root, kernel::now).map_err(unread)?;
    if probe.uncounted() > 0 {
        let all = pluralize(probe.uncounted() as u64, "file system");
        print_stderr(&format!("{all} not counted: there are more than {SLOTS}: choose one by --mount"));
    }
    let zone = TimeZone::system();
    each_interval(options.interval, options.count, || {
        let newer = probe.read(root, kernel::now).map_err(unread)?;
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
    let pid = options.pid.map(|pid| known_pid(root, pid)).transpose()?;
    permitted(root)?;
    let layout = RunQueueLayout::new(block_latencies::possible_cpus(root), pid);
    let mut probe = RunQueueProbe::attach(&loader_process::own_executable(), layout).map_err(|why| refused(&why))?;
    let unread = |why| Failure::new(Exit::NoProc, "cannot read /proc", why, "");
    let mut older = probe.read(root, kernel::now).map_err(unread)?;
    let zone = TimeZone::system();
    each_interval(options.interval, options.count, || {
        let newer = probe.read(root, kernel::now).map_err(unread)?;
        let interval = RunQueueInterval::between(&older, &newer);
        older = newer;
        let Some(interval) = interval else { return Ok(ReaderState::Open) };
        if options.json {
            return print(&report::run_queue::json(&interval));
        }
        print_localized(&report::run_queue::table(&interval, &time_of_day(interval.at.realtime_ns, &zone)))
    })
}

/// Calls `body` after each interval, until the reader has closed.
fn each_interval(
    interval: Option<Duration>,
    count: Option<u32>,
    mut body: impl FnMut() -> Result<ReaderState, Failure>,
) -> Result<Exit, Failure> {
    let begin = Instant::now();
    let length = interval.unwrap_or(DEFAULT_INTERVAL);
    for number in 1..=count.unwrap_or(if interval.is_some() { u32::MAX } else { 1 }) {
        // A late table must not make all later ones late.
        thread::sleep((begin + length.saturating_mul(number)).saturating_duration_since(Instant::now()));
        if body()? == ReaderState::Closed {
            break;
        }
    }
    Ok(Exit::Success)
}

/// The line of `doctor`: attaches the programs, and detaches them again.
pub fn file_systems_line(root: &Root) -> String {
    let what = "operations of file systems and waits for a CPU";
    let layout = FileSystemsLayout::new(block_latencies::possible_cpus(root), TaskFilter::default());
    let attach = || FileSystemsProbe::attach(&loader_process::own_executable(), layout, MountTable::default(), None);
    let attached = match block_latencies::obstacle(root) {
        Some((_, why)) => Err(why.to_owned()),
        None => attach(),
    };
    match attached {
        Ok(probe) if probe.missing().is_empty() => {
            format!("eBPF      {what} can be counted: stalltop probe fs, stalltop probe runq\n")
        }
        Ok(probe) => {
            let missing = probe.missing().join(", ");
            format!(
                "eBPF      {what} can be counted (stalltop probe fs, stalltop probe runq), without the tracepoints {missing}\n"
            )
        }
        Err(why) => {
            let why = printable(&why);
            format!("eBPF      {what} cannot be counted: {why}: {REMEDY}\n")
        }
    }
}

fn permitted(root: &Root) -> Result<(), Failure> {
    match block_latencies::obstacle(root) {
        None => Ok(()),
        Some((_, why)) => Err(refused(why)),
    }
}

fn refused(why: &str) -> Failure {
    Failure::new(Exit::Refused, "cannot attach eBPF programs", why, REMEDY)
}

/// eBPF programs see the numbers of the initial pid namespace.
fn known_pid(root: &Root, pid: u32) -> Result<u32, Failure> {
    let what = format!("cannot count process {pid}");
    if root.read_link("proc/self/ns/pid").is_ok_and(|namespace| namespace.as_os_str() != INITIAL_PID_NAMESPACE) {
        let remedy = "run on the host, or in a container with --pid=host";
        return Err(Failure::new(Exit::Refused, what, "this is a pid namespace of its own", remedy));
    }
    if root.exists(format!("proc/{pid}")) {
        Ok(pid)
    } else {
        Err(Failure::new(Exit::Failed, what, "there is no such process", ""))
    }
}

/// From a name or a number.
fn uid_of(user: &str) -> Result<u32, Failure> {
    if let Ok(uid) = user.parse() {
        return Ok(uid);
    }
    let name = user.to_owned();
    // The name service may block.
    let found = with_timeout(FILE_TIMEOUT, move || nix::unistd::User::from_name(&name).ok().flatten());
    let uid = found.ok().flatten().map(|user| user.uid.as_raw());
    uid.ok_or_else(|| Failure::new(Exit::Usage, format!("unknown user '{user}'"), "", "give its uid"))
}

fn device_of(mounts: &MountTable, directory: &Path) -> Result<DiskId, Failure> {
    let path = directory.to_path_buf();
    // A file system that does not answer is found by its name alone.
    let resolved = with_timeout(FILE_TIMEOUT, move || path.canonicalize()).ok().and_then(Result::ok);
    let absolute = resolved.or_else(|| std::path::absolute(directory).ok()).unwrap_or_else(|| directory.to_path_buf());
    let remedy = "give a mount point as in /proc/self/mountinfo";
    device_at(mounts.mounts(), &absolute)
        .ok_or_else(|| Failure::new(Exit::Usage, quoted(directory), "is in no mounted file system", remedy))
}
