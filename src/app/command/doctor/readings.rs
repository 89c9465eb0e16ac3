//! What of /proc, /sys and netlink a sample could not read, why, and what would change it.

use nix::errno::Errno;

use super::remedies::{self, Remedies};
use crate::kernel::Root;
use crate::kernel::exits::OTHER_NETWORK_NAMESPACE;
use crate::kernel::task::memory::is_readable;
use crate::kernel::task::wait_channel::WaitChannelFile;
use crate::report::formatting::{pluralize, printable};
use crate::sample::exits::Exits;
use crate::sample::host::Privilege;
use crate::sample::{Absent, Host, Reading, Sample};
use crate::units::format::plural;

const WITH_USER_STACKS: &str = "build it with --features user-stacks, or take a package, which has them";

/// One kind of reading.
pub struct DoctorLine {
    pub what: &'static str,
    /// Why it cannot be read, and what would change it; `None` if it can
    pub obstacle: Option<Obstacle>,
}

/// Why, and what would change it ("" if nothing would).
pub type Obstacle = (String, String);

/// A line for each kind of reading.
pub fn lines(root: &Root, host: &Host, sample: &Sample, remedies: Remedies) -> Vec<DoctorLine> {
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
    let no_channels = (WaitChannelFile::detect(root) == WaitChannelFile::Unavailable).then(|| {
        let why = "this kernel gives no wait channels (x86-64 before Linux 5.16): waits are known by system call alone";
        (why.to_owned(), remedies.stacks().to_owned())
    });
    let waits = no_channels.or(waits).or_else(|| denied_to_root(root, sample, remedies));
    line("wait channels and system calls of all tasks", waits);
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
    if root.is_host() {
        line(
            "holders of mutexes and locks of Java of all processes (process_vm_readv)",
            unreadable_memory(root, sample, privilege, remedies),
        );
    }
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
fn denied_to_root(root: &Root, sample: &Sample, remedies: Remedies) -> Option<Obstacle> {
    let processes = &sample.tasks.as_ref().ok()?.processes;
    let refuses = |pid: u32| matches!(root.read_once(format!("proc/{pid}/syscall")), Err(Absent::NoPermission));
    let denied: Vec<_> = processes.iter().filter(|process| !process.kernel_thread && refuses(process.pid)).collect();
    let first = denied.first()?;
    let name = printable(&String::from_utf8_lossy(first.comm.as_bytes()));
    let (many, all) = (denied.len(), processes.len());
    Some((
        format!("those of {many} of {all} processes, such as {name} ({}), are denied in spite of CAP_SYS_PTRACE", first.pid),
        remedies.dac_read_search().or_else(|| remedies::security_profile(root)).unwrap_or_default(),
    ))
}

/// The processes whose memory cannot be read, where a mutex names its holder: tries each of them.
fn unreadable_memory(root: &Root, sample: &Sample, privilege: &Privilege, remedies: Remedies) -> Option<Obstacle> {
    let is_own = |uid: u32| uid == privilege.effective_uid;
    let mut denied = Vec::new();
    for process in sample.tasks.as_ref().ok()?.processes.iter().filter(|process| !process.kernel_thread) {
        match is_readable(process.pid) {
            Ok(true) => {}
            Ok(false) => denied.push(process),
            Err(Errno::ENOSYS) => {
                let why = "this kernel does not read the memory of processes: which thread holds a mutex is not known";
                return Some((why.to_owned(), "a kernel with CONFIG_CROSS_MEMORY_ATTACH".to_owned()));
            }
            // It has ended.
            Err(_) => {}
        }
    }
    let first = denied.first()?;
    if privilege.has_cap_sys_ptrace {
        if let Some(obstacle) = remedies.tracing_obstacle(root, true) {
            return Some(obstacle);
        }
        let name = printable(&String::from_utf8_lossy(first.comm.as_bytes()));
        let why = format!(
            "those of {} are denied in spite of CAP_SYS_PTRACE, such as {name} ({})",
            of_processes(denied.len()),
            first.pid
        );
        return Some((why, remedies::security_profile(root).unwrap_or_default()));
    }
    let own = denied.iter().filter(|process| is_own(process.uid)).count();
    match remedies.tracing_obstacle(root, false).filter(|_| own > 0) {
        Some(obstacle) => Some(obstacle),
        None if own > 0 => {
            Some((format!("not in {}, {own} of this user", of_processes(denied.len())), remedies.sys_ptrace().to_owned()))
        }
        None => {
            Some((format!("in own processes only, not in {}", of_processes(denied.len())), remedies.sys_ptrace().to_owned()))
        }
    }
}

fn of_processes(count: usize) -> String {
    plural(count, "process", "processes")
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
