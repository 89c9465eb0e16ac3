//! Rule limit-reached: a limit of the kernel is used up, so that calls fail or packets are dropped, while everything looks idle.

use crate::findings::finding::{FILE_SYSTEM_LIMITS, Kind, Severity, Subject};
use crate::findings::formatting::{bytes, lossy_name, percent, significant_digits};
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{Candidate, RuleContext, evidence_number, evidence_optional, evidence_text};
use crate::ids::TaskId;
use crate::interval::limits::LimitSpan;
use crate::sample::Name;
use crate::sample::limits::{Limit, LimitKind};
use crate::units::SmallSort;

pub const LIMIT_REACHED: Rule = Rule {
    kind: Kind::LimitReached,
    title: "Limit reached",
    meaning: "A limit of the kernel is used up: tasks of a cgroup, file descriptors of a process, files or tasks of the host, entries \
              of connection tracking or of the table of neighbours, local ports towards one destination, reserved memory, memory of TCP \
              sockets, space or inodes of a file system. Calls fail, or packets are dropped, while CPUs, disks \
              and memory look idle.",
    computed: "Used ÷ limit at least 95 % at both ends of the interval, or refusals that the kernel counts: pids.events (fork, \
               clone), drops of connection tracking while its table is that full, table_fulls of the neighbours. File systems: \
               only with less than 1 GiB, or 65,536 inodes, left. A warning; critical if refusals are counted again while it is active. \
               Tasks of a cgroup: pids.current and pids.max, v1 and v2. Descriptors of a process: st_size of /proc/PID/fd and \
               the soft limit of /proc/PID/limits; not if it has 1.25 times as many open, since it has lowered the limit itself. Local \
               ports: TCP connections from one address to one address and port, those in TIME_WAIT included unless \
               tcp_tw_reuse allows them to be used again, and net.ipv4.ip_local_port_range. File systems: statfs of those on devices of this host, tmpfs, and an overlay that is the root, \
               unless read-only; as df, without what is reserved for root. Everything is read every 5 s, and \
               each second while it is near.",
    caveats: "A program may open descriptors up to its limit by design. Failed calls at RLIMIT_NOFILE, and connects without a free \
              port, are counted by no file of the kernel: that they fail follows from the numbers. Processes with fewer than 40 \
              descriptors that use less than half of a CPU, RLIMIT_NPROC, and connection tracking and ports of other network namespaces are not read. \
              File systems of servers (NFS, SMB) and of FUSE, and what is mounted below them or by autofs, are not asked, since the call may \
              never return; nor those of other mount namespaces, or at /home with the shipped units (ProtectHome=). Quotas of users and \
              projects are not read. A file system may be full by design (`[ignore] file-systems` of the configuration). Root can still \
              write what is reserved for it.",
    next_steps: &[
        "tasks of a cgroup: pids.max (systemd: TasksMax=, Docker: --pids-limit); what forks: systemd-cgls, ps -eLo pid,comm --sort pid",
        "descriptors: ls -l /proc/PID/fd shows what is open; LimitNOFILE= or ulimit -n; prlimit --pid PID --nofile=N at once",
        "connection tracking: sysctl net.netfilter.nf_conntrack_max; conntrack -L; timeouts of nf_conntrack_tcp_timeout_*",
        "neighbours: sysctl net.ipv4.neigh.default.gc_thresh3; ip neigh show; the size of the subnet",
        "reserved memory: Committed_AS and CommitLimit of /proc/meminfo; vm.overcommit_memory, vm.overcommit_ratio",
        "memory of TCP: /proc/net/sockstat, net.ipv4.tcp_mem; ss -tm shows which sockets hold it",
        "file systems: df -h, df -i; what has grown: du -xh --max-depth 1 DIRECTORY; deleted files that are open: lsof +L1",
        "local ports: connections that are kept open and used again; net.ipv4.ip_local_port_range; ss -tan state time-wait",
    ],
    reference: "Limits",
    hysteresis: Hysteresis::Immediate,
    evaluate: limit_reached,
};

/// A process with more descriptors than this share of its limit has lowered the limit itself. docs/metrics.md, "Fixed thresholds".
const MAX_USED_SHARE: f64 = 1.25;

/// A file system has reached its limit only with less than this left: 5 % of a large one is much. docs/metrics.md, "Fixed thresholds".
const MIN_FREE_KILOBYTES: u64 = 1_048_576;
const MIN_FREE_INODES: u64 = 65_536;

/// Limits that are reported one by one.
const MAX_REPORTED_LIMITS: usize = 8;

fn limit_reached(context: &RuleContext) -> Vec<Candidate> {
    let mut reached: Vec<&LimitSpan> = context.interval.limits.iter().filter(|span| is_reached(context, span)).collect();
    let full: Vec<_> = (reached.iter().filter(|span| span.limit.kind == LimitKind::FileSystemSpace))
        .map(|span| span.limit.mount_point.clone())
        .collect();
    // XFS and others count as inodes only those that fit into the space that is left.
    reached.retain(|span| span.limit.kind != LimitKind::FileSystemInodes || !full.contains(&span.limit.mount_point));
    reached.small_sort_by_key(|span| !is_refusing(span));
    reached.into_iter().take(MAX_REPORTED_LIMITS).map(|span| candidate(context, span)).collect()
}

fn is_reached(context: &RuleContext, span: &LimitSpan) -> bool {
    let is_near = |share: f64| share >= context.thresholds.limit_used_ratio;
    // It keeps what it had open. A descriptor above the limit may also be inherited.
    let is_lowered = span.limit.kind == LimitKind::OpenFiles && span.used_share > MAX_USED_SHARE;
    // The kernel counts packets that it drops for other reasons in the same column.
    let may_refuse = span.limit.kind != LimitKind::TrackedConnections
        || is_near(span.used_share)
        || span.used_share_before.is_some_and(is_near);
    // The kernel counts entries in the table that it does not limit: permanent ones, and those of routing daemons.
    let may_be_exempt = matches!(span.limit.kind, LimitKind::Neighbours | LimitKind::Neighbours6);
    let free = span.limit.max.saturating_sub(span.limit.used);
    let has_room = match span.limit.kind {
        LimitKind::FileSystemSpace => free >= MIN_FREE_KILOBYTES,
        LimitKind::FileSystemInodes => free >= MIN_FREE_INODES,
        _ => false,
    };
    if has_room {
        return false;
    }
    (is_refusing(span) && may_refuse)
        || (!may_be_exempt && !is_lowered && is_near(span.used_share) && span.used_share_before.is_some_and(is_near))
}

fn is_refusing(span: &LimitSpan) -> bool {
    span.refused.is_some_and(|rate| rate.0 > 0.0)
}

fn candidate(context: &RuleContext, span: &LimitSpan) -> Candidate {
    let limit = &span.limit;
    let subject = subject(limit);
    let is_active = context.active.iter().any(|key| key.kind == Kind::LimitReached && key.subject == subject);
    Candidate {
        severity: if is_active && is_refusing(span) { Severity::Critical } else { Severity::Warning },
        subject,
        value: span.used_share,
        threshold: context.thresholds.limit_used_ratio,
        unit: "ratio",
        sentence: format!("{}: {}", usage(context, limit), consequence(span)),
        evidence: [
            evidence_number("used", limit.used as f64),
            evidence_number("limit", limit.max as f64),
            evidence_number("used_ratio", span.used_share),
            evidence_optional("refused_per_second", span.refused.map(|rate| rate.0)),
        ]
        .into_iter()
        .chain(limit.mount_point.is_none().then(|| evidence_text("setting", setting(limit.kind))))
        .collect(),
        explained_share: 0.0,
    }
}

fn subject(limit: &Limit) -> Subject {
    if let Some(mount_point) = &limit.mount_point {
        let [space, inodes] = FILE_SYSTEM_LIMITS;
        let what = if limit.kind == LimitKind::FileSystemInodes { inodes } else { space };
        return Subject::Limit(Name::from([what.as_bytes(), mount_point.as_bytes()].concat().as_slice()));
    }
    match (&limit.cgroup, &limit.process, limit.remote) {
        (Some(group), _, _) => Subject::Cgroup(group.clone()),
        (_, Some((process, name)), _) => Subject::Task {
            id: TaskId { pid: process.pid, tid: process.pid, start_ticks: process.start_ticks },
            name: name.clone(),
        },
        (_, _, Some(remote)) => Subject::Limit(Name::from(format!("local ports to {remote}").as_str())),
        (None, None, None) => Subject::Limit(Name::from(setting(limit.kind))),
    }
}

/// The name of the file, or of the resource limit, that sets the limit; of file systems the command that shows it.
fn setting(kind: LimitKind) -> &'static str {
    match kind {
        LimitKind::CgroupTasks => "pids.max",
        LimitKind::OpenFiles => "RLIMIT_NOFILE",
        LimitKind::HostFiles => "fs.file-max",
        LimitKind::TrackedConnections => "net.netfilter.nf_conntrack_max",
        LimitKind::LocalPorts => "net.ipv4.ip_local_port_range",
        LimitKind::HostTasks => "kernel.threads-max",
        LimitKind::TaskIds => "kernel.pid_max",
        LimitKind::Neighbours => "net.ipv4.neigh.default.gc_thresh3",
        LimitKind::Neighbours6 => "net.ipv6.neigh.default.gc_thresh3",
        LimitKind::CommittedMemory => "vm.overcommit_memory",
        LimitKind::TcpMemory => "net.ipv4.tcp_mem",
        LimitKind::FileSystemSpace => "df",
        LimitKind::FileSystemInodes => "df -i",
    }
}

/// `nginx (4711) has 1020 of 1024 file descriptors open (RLIMIT_NOFILE)`
fn usage(context: &RuleContext, limit: &Limit) -> String {
    let Limit { used, max, .. } = limit;
    let setting = setting(limit.kind);
    match limit.kind {
        LimitKind::CgroupTasks => {
            let group = limit.cgroup.as_ref().map_or_else(|| "a cgroup".to_owned(), |group| context.cgroup_name(group));
            format!("{group} has {used} of {max} tasks ({setting})")
        }
        LimitKind::OpenFiles => {
            let process = limit.process.as_ref().map(|(process, name)| format!("{} ({})", lossy_name(name), process.pid));
            format!(
                "{} has {used} of {max} file descriptors open ({setting})",
                process.unwrap_or_else(|| "a process".to_owned())
            )
        }
        LimitKind::HostFiles => format!("the host has {used} of {max} files open ({setting})"),
        LimitKind::TrackedConnections => {
            format!("the connection tracking table has {used} of {max} entries ({setting})")
        }
        LimitKind::LocalPorts => {
            let remote = limit.remote.map_or_else(|| "one destination".to_owned(), |remote| remote.to_string());
            let waiting = match limit.in_time_wait {
                0 => String::new(),
                count => format!("{count} of them in TIME_WAIT, "),
            };
            format!("{used} of {max} local ports are in use for connections to {remote} ({waiting}{setting})")
        }
        LimitKind::HostTasks | LimitKind::TaskIds => format!("the host has {used} of {max} tasks ({setting})"),
        LimitKind::Neighbours => format!("the table of neighbours (ARP) has {used} of {max} entries ({setting})"),
        LimitKind::Neighbours6 => format!("the table of IPv6 neighbours has {used} of {max} entries ({setting})"),
        LimitKind::CommittedMemory => {
            let [used, max] = [*used, *max].map(|kilobytes| bytes(kilobytes as f64 * 1024.0));
            format!("programs have reserved {used} of {max} of memory ({setting} is 2)")
        }
        LimitKind::FileSystemSpace => {
            let [free, max] = [max.saturating_sub(*used), *max].map(|kilobytes| bytes(kilobytes as f64 * 1024.0));
            format!("the file system {} has {free} of {max} left ({setting})", mount_point(limit))
        }
        LimitKind::FileSystemInodes => {
            let free = max.saturating_sub(*used);
            format!("the file system {} has {free} of {max} inodes left ({setting})", mount_point(limit))
        }
        LimitKind::TcpMemory => format!("TCP sockets have {used} of {max} pages of memory ({setting})"),
    }
}

fn mount_point(limit: &Limit) -> String {
    limit.mount_point.as_ref().map(lossy_name).unwrap_or_default()
}

/// `fork and clone fail (EAGAIN), 14.0 per second`; with some left: `at the limit fork and clone fail (EAGAIN)`
fn consequence(span: &LimitSpan) -> String {
    let what = match span.limit.kind {
        LimitKind::CgroupTasks | LimitKind::HostTasks | LimitKind::TaskIds => "fork and clone fail (EAGAIN)",
        LimitKind::OpenFiles => "open, socket and accept fail (EMFILE)",
        LimitKind::HostFiles => "open, socket and accept fail (ENFILE)",
        LimitKind::TrackedConnections => "packets of new connections are dropped",
        LimitKind::LocalPorts => "connect fails (EADDRNOTAVAIL)",
        LimitKind::Neighbours | LimitKind::Neighbours6 => "packets to hosts that are not in it are dropped (ENOBUFS)",
        LimitKind::CommittedMemory => "malloc, mmap and fork fail (ENOMEM), however much is free",
        LimitKind::TcpMemory => "sockets drop what they receive, and sends wait",
        LimitKind::FileSystemSpace => "writes fail (ENOSPC)",
        LimitKind::FileSystemInodes => "new files fail (ENOSPC)",
    };
    match span.refused {
        Some(rate) if rate.0 > 0.0 => format!("{what}, {} per second", significant_digits(rate.0)),
        _ if span.used_share >= 1.0 => what.to_owned(),
        _ => format!("{} used; at the limit {what}", percent(span.used_share)),
    }
}
