//! `doctor`: what this user can and cannot read on this kernel, and what would change it. One line each.

mod remedies;

use std::fmt::Write;

use remedies::Remedies;

use crate::app::baseline_learner::{LOAD_TIMEOUT, write_obstacle};
use crate::app::config::{FILE_TIMEOUT, Settings, file::ConfigFile};
use crate::app::program::exit::{Exit, Failure, without_error_numbers};
use crate::app::program::priority::{self, ThreadPriority};
use crate::app::program::stdio::print_localized;
use crate::app::program::threads::{self, TimedOut, with_timeout};
use crate::baseline::store::{BaselineStore, StoreError};
use crate::cli::{Configuration, ProbeMode};
use crate::kernel::exits::OTHER_NETWORK_NAMESPACE;
use crate::kernel::host::bounding_set;
use crate::kernel::probe::{TaskIterator, block_latencies, loader_process};
use crate::kernel::sys::capget;
use crate::kernel::{Root, Sampler, wake_trace};
use crate::report::formatting::pluralize;
use crate::report::formatting::printable;
use crate::sample::exits::Exits;
use crate::sample::{Absent, Host, Name, Reading, Sample};
use crate::units::format::plural;

const WITH_USER_STACKS: &str = "build it with --features user-stacks, or take a package, which has them";

/// One kind of reading.
struct DoctorLine {
    what: &'static str,
    /// Why it cannot be read, and what would change it; `None` if it can
    obstacle: Option<Obstacle>,
}

/// Why, and what would change it ("" if nothing would).
type Obstacle = (String, String);

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
        for line in lines(&root, sampler.host(), &sample, remedies) {
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
            text.push_str(&bpf_iterator_line(sampler.is_in_initial_pid_namespace()));
            let probes = Settings::load(&root, configuration).map_or(ProbeMode::default(), |(settings, _)| settings.probes());
            text.push_str(&block_latencies_line(&root, probes));
            text.push_str(&super::probe::doctor_lines(&root));
            text.push_str(&trace_line(&root, probes));
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

fn lines(root: &Root, host: &Host, sample: &Sample, remedies: Remedies) -> Vec<DoctorLine> {
    let privilege = &host.privilege;
    let mut lines = Vec::new();
    let mut line = |what, obstacle| lines.push(DoctorLine { what, obstacle });
    line("CPU times (/proc/stat)", absent_reason(&sample.cpu, ""));
    line("load average (/proc/loadavg)", absent_reason(&sample.load, ""));
    line("memory (/proc/meminfo)", absent_reason(&sample.memory, ""));
    line("disks (/proc/diskstats)", absent_reason(&sample.disks, ""));
    let other_network = matches!(&sample.exits, Err(why) if *why == OTHER_NETWORK_NAMESPACE)
        .then(|| ("only those of this network namespace".to_owned(), remedies::OTHER_NETWORK.to_owned()));
    line("network interfaces (/proc/net/dev)", absent_reason(&sample.nics, "").or(other_network));
    line("TCP (/proc/net/snmp)", absent_reason(&sample.protocols.tcp, ""));
    let sockets = "a kernel with CONFIG_INET_DIAG (module tcp_diag)";
    line("listening sockets and their queues (sock_diag)", absent_reason(&sample.protocols.listeners, sockets));
    line("connections of remote hosts (sock_diag)", absent_reason(&sample.protocols.remote_hosts, sockets));
    line("receive queues of the kernel (/proc/net/softnet_stat)", absent_reason(&sample.protocols.softnet, ""));
    line("pressure stall shares (/proc/pressure)", absent_reason(&sample.pressure.io, "boot with psi=1 (CONFIG_PSI)"));
    let other_cgroups = remedies::in_own_cgroup_namespace(root)
        .then(|| ("only those below this container's own".to_owned(), remedies::OTHER_CGROUPS.to_owned()));
    line("limits of control groups", absent_reason(&sample.cgroups, "mount a cgroup file system").or(other_cgroups));
    line("tasks", absent_reason(&sample.tasks, ""));
    let hidden = sample.tasks.as_ref().map(|tasks| tasks.hidden).unwrap_or_default();
    let hidden_if = |hidden: bool, why: &str, remedy: &str| hidden.then(|| (why.to_owned(), remedy.to_owned()));
    // The number in /proc/loadavg is that of the whole machine; in a container, an emulated /proc may show fewer.
    let seen = sample.tasks.as_ref().map_or(0, |tasks| tasks.processes.iter().map(|process| process.threads.len()).sum());
    let entities = sample.load.as_ref().map_or(0, |load| load.entities as usize);
    let gap = entities
        .checked_sub(seen)
        .filter(|&gap| gap > 0)
        .map(|gap| format!("{gap} of {} hidden: ", pluralize(entities as u64, "thread")));
    line(
        "processes of all users",
        hidden_if(
            hidden.processes || privilege.hidepid,
            &format!("{}/proc is mounted with hidepid, or this is a container", gap.unwrap_or_default()),
            remedies.other_processes(),
        ),
    );
    let hidden_files = |why: &str| hidden_if(!privilege.has_cap_sys_ptrace, why, remedies.sys_ptrace());
    let waits = hidden_files("other users' are hidden: figures of waits are lower bounds");
    line("wait channels and system calls of all tasks", waits.or_else(|| denied_to_root(root, sample)));
    line(
        "kernel stacks of stuck threads (/proc/PID/stack)",
        match sample.stacks {
            Err(Absent::NoPermission) => Some(("no permission".to_owned(), remedies.stacks().to_owned())),
            _ => absent_reason(&sample.stacks, "a kernel with CONFIG_STACKTRACE"),
        },
    );
    line(
        "user stacks of stuck threads (docs/stacks.md)",
        match sample.user_stacks {
            Err(_) if cfg!(not(target_arch = "x86_64")) => Some(("of programs for x86-64 only".to_owned(), String::new())),
            Err(Absent::Unsupported) => Some(("built without them".to_owned(), WITH_USER_STACKS.to_owned())),
            Err(why) => Some((why.to_string(), String::new())),
            Ok(_) => remedies
                .tracing_obstacle(root, privilege.has_cap_sys_ptrace)
                .or_else(|| hidden_files("other users' are hidden")),
        },
    );
    line("disk I/O and files of all processes", hidden_files("other users' are hidden"));
    line(
        "run-queue wait of threads (schedstat)",
        hidden_if(
            hidden.schedstats > 0,
            "switched off",
            "sysctl kernel.sched_schedstats=1, or a kernel with CONFIG_SCHED_INFO",
        ),
    );
    line(
        "delays of tasks: block I/O, swap-in, reclaim, thrashing",
        match privilege.delay_accounting {
            Ok(true) => match sample.delays {
                Err(Absent::NoPermission) => {
                    Some(("taskstats needs CAP_NET_ADMIN".to_owned(), remedies.net_admin().to_owned()))
                }
                Err(why) if why != Absent::NotRead => Some((why.to_string(), "a kernel with CONFIG_TASKSTATS".to_owned())),
                _ => None,
            },
            Ok(false) => Some((
                "delay accounting is off".to_owned(),
                "sysctl kernel.task_delayacct=1, which counts for tasks that start afterwards (delayacct on the kernel's \
                 command line counts for all)"
                    .to_owned(),
            )),
            Err(why) => {
                Some((why.to_string(), "Linux 5.14 or later, with CONFIG_TASK_DELAY_ACCT, shows whether it is on".to_owned()))
            }
        },
    );
    line("ends of short-lived processes (taskstats)", exits_obstacle(&sample.exits, remedies));
    line("other network namespaces (/proc/PID/net)", hidden_namespaces(sample, privilege.has_cap_sys_ptrace, remedies));
    line(
        "their queueing disciplines, accept queues and SYN queues (setns)",
        closed_namespaces(sample, privilege.has_cap_sys_ptrace, remedies),
    );
    lines
}

/// Processes whose system call cannot be read although this user has CAP_SYS_PTRACE.
fn denied_to_root(root: &Root, sample: &Sample) -> Option<Obstacle> {
    let processes = &sample.tasks.as_ref().ok()?.processes;
    let refuses = |pid: u32| matches!(root.read_once(format!("proc/{pid}/syscall")), Err(Absent::NoPermission));
    let denied: Vec<_> = processes.iter().filter(|process| !process.kernel_thread && refuses(process.pid)).collect();
    let first = denied.first()?;
    let name = printable(&String::from_utf8_lossy(first.comm.as_bytes()));
    let (many, all) = (denied.len(), processes.len());
    Some((
        format!("those of {many} of {all} processes, such as {name} ({}), are denied in spite of CAP_SYS_PTRACE", first.pid),
        remedies::security_profile(root).unwrap_or_default(),
    ))
}

/// Which network namespaces are not read.
fn hidden_namespaces(sample: &Sample, has_cap_sys_ptrace: bool, remedies: Remedies) -> Option<Obstacle> {
    let namespaces = match &sample.network_namespaces {
        Err(why) => return Some((why.to_string(), String::new())),
        Ok(namespaces) => namespaces,
    };
    if namespaces.hidden_processes > 0 {
        let processes = plural(namespaces.hidden_processes, "process", "processes");
        if has_cap_sys_ptrace {
            return Some((format!("those of {processes} are denied in spite of CAP_SYS_PTRACE"), String::new()));
        }
        return Some((format!("those of {processes} are hidden"), remedies.sys_ptrace().to_owned()));
    }
    let unread = namespaces.unread_count();
    (unread > 0).then(|| (format!("{unread} of {} are not read, with the highest inodes", namespaces.count), String::new()))
}

/// In which network namespaces no socket could be opened.
fn closed_namespaces(sample: &Sample, has_cap_sys_ptrace: bool, remedies: Remedies) -> Option<Obstacle> {
    let namespaces = sample.network_namespaces.as_ref().ok()?;
    let closed = namespaces.closed_count();
    if namespaces.count == 0 && namespaces.hidden_processes > 0 && !has_cap_sys_ptrace {
        let processes = plural(namespaces.hidden_processes, "process", "processes");
        return Some((
            format!("it is not known which there are: those of {processes} are hidden"),
            remedies.sys_admin().to_owned(),
        ));
    }
    let all = pluralize(namespaces.count, "network namespace");
    (closed > 0).then(|| (format!("no permission in {closed} of {all}"), remedies.sys_admin().to_owned()))
}

/// Why the ends of tasks are not received: tasks that live between two samples then have no name.
fn exits_obstacle(reading: &Reading<Exits>, remedies: Remedies) -> Option<Obstacle> {
    let why = reading.as_ref().err()?;
    let (why, remedy) = match why {
        Absent::NoPermission => ("no permission".to_owned(), remedies.net_admin()),
        Absent::Os(libc::EINVAL) => ("this is a container".to_owned(), remedies.other_processes()),
        _ if *why == OTHER_NETWORK_NAMESPACE => {
            ("the kernel reports them only in the network namespace of PID 1".to_owned(), remedies::OTHER_NETWORK)
        }
        Absent::NoSuchFile => ("not on this kernel".to_owned(), "a kernel with CONFIG_TASKSTATS"),
        Absent::Unsupported => ("this kernel does not distinguish threads from processes".to_owned(), "Linux 5.19 or later"),
        why => (why.to_string(), ""),
    };
    Some((format!("{why}: only their number, their CPU time and their parents are known"), remedy.to_owned()))
}

fn absent_reason<T>(reading: &Reading<T>, remedy: &str) -> Option<Obstacle> {
    let why: &Absent = reading.as_ref().err()?;
    let remedy = if *why == Absent::NoPermission && remedy.is_empty() { "run as root" } else { remedy };
    Some((why.to_string(), remedy.to_owned()))
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

/// Whether eBPF programs can be loaded: loads the task iterator.
fn bpf_iterator_line(in_initial_pid_namespace: bool) -> String {
    if !in_initial_pid_namespace {
        return "eBPF      holders of locks inside the kernel are not named: this is a pid namespace of its own, and the kernel names \
                threads by their numbers on the host: docker run --pid=host, hostPID: true\n"
            .to_owned();
    }
    match TaskIterator::load(&loader_process::own_executable()) {
        Ok(_) => {
            "eBPF      programs can be loaded: holders of locks inside the kernel are named where the kernel has the fields\n"
                .to_owned()
        }
        Err(why) => {
            let why = printable(&why.to_string());
            format!(
                "eBPF      programs cannot be loaded, and holders of locks inside the kernel are not named: {why}: root, or CAP_BPF and CAP_PERFMON\n"
            )
        }
    }
}

/// Whether the latencies of single disk requests can be measured: attaches the program, and detaches it again.
fn block_latencies_line(root: &Root, probes: ProbeMode) -> String {
    if probes == ProbeMode::Off {
        return "eBPF      latencies of single disk requests are not measured: probes = \"off\"\n".to_owned();
    }
    match block_latencies::try_to_attach(root, &loader_process::own_executable()) {
        Ok(()) => "eBPF      latencies of single disk requests are measured: p50, p99 and others of each disk and operation\n"
            .to_owned(),
        Err(why) => {
            let why = printable(&why.to_string());
            format!(
                "eBPF      latencies of single disk requests are not measured: {why}: root, or CAP_BPF and CAP_PERFMON, and a kernel with CONFIG_DEBUG_INFO_BTF\n"
            )
        }
    }
}

/// Whether wake-ups can be traced: attaches the programs, for no process, and detaches them again.
fn trace_line(root: &Root, probes: ProbeMode) -> String {
    let why = match probes {
        ProbeMode::Off => "probes = \"off\"".to_owned(),
        _ => match wake_trace::try_to_attach(root, &loader_process::own_executable()) {
            Ok(()) => {
                return "eBPF      wake-ups show which thread holds a mutex of Rust that others queue for; stalltop trace can tell which thread wakes which\n"
                    .to_owned();
            }
            Err(why) => {
                let why = printable(&why.to_string());
                format!("{why}: root, or CAP_BPF and CAP_PERFMON, and Linux 5.15 with CONFIG_DEBUG_INFO_BTF")
            }
        },
    };
    format!(
        "eBPF      wake-ups do not show which thread holds a mutex of Rust, and stalltop trace cannot tell which thread wakes which: {why}\n"
    )
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

    #[test]
    fn a_line_has_the_words_of_an_error_without_its_number() {
        let tree = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(tree.path().join("proc/loadavg")).unwrap();
        std::fs::write(tree.path().join("proc/stat"), "cpu  1 0 1 9 0 0 0 0 0 0\n").unwrap();
        let root = Root::at_directory(tree.path().to_path_buf());
        let lines = DoctorReport::new(root, &Configuration::default()).unwrap().lines;
        assert!(lines.contains("load average (/proc/loadavg): Is a directory\n"), "{lines}");
    }
}
