//! Causes before consequences: which active finding follows from which.
//! docs/metrics.md, "Causes and order".

mod blocked_groups;

use std::sync::Arc;

use blocked_groups::{
    has_group_of_unknown_device, is_in_chain, is_most_blocked_group, is_mostly_in_kernel_locks, waits_for_busy_fuse_server,
    waits_for_device,
};

use super::cgroups::{contains, limit_applies};
use super::device_waiters::{leads_to_device, may_lead_to_device, with_lower_devices};
use super::disk_latency::{SLOWER_DEVICE, TAIL};
use super::finding::{Finding, FindingKey, Kind, Severity, Subject, Value};
use super::hung_threads::hung_threads;
use super::page_waits::waits_for_page;
use super::remote_host_limits::OWN_QUEUE;
use super::rule_context::RuleContext;
use super::rules::{waits_for_thaw, works_for_memory};
use super::server_causes::{BEHIND_FILE_LOCK, BEHIND_MUTEX, is_behind_kernel_lock, namespace, servers_of, stops_process};
use crate::ids::cpu_list::parse_cpu_list;
use crate::ids::{DiskId, GroupId, NicId, TaskId};
use crate::interval::blocked_threads::BlockedThread;
use crate::interval::runnable::is_throttled_by;
use crate::sample::Name;
use crate::sample::cgroup::Controller;
use crate::units::reaches_threshold;

/// Share of a CPU's busy time from which its top thread is the cause that the CPU is saturated, and decides the severity.
pub const DOMINANT_SHARE: f64 = 0.5;

/// Share of the blocked threads that must wait for pages, so that a lack of memory is the cause.
const MIN_PAGE_WAIT_SHARE: f64 = 0.5;

/// Share of the retransmitted segments that must be connection requests, so that a remote host which answers none is the cause.
const MIN_REQUEST_SHARE: f64 = 0.5;

/// Share of the threads that wait for a CPU for which there would be one if the hypervisor had stolen none, so that it is the cause.
const MIN_STOLEN_WAIT_SHARE: f64 = 0.5;

/// System time of a busy thread, as a share of the time, from which its calls may be those that fail.
const MIN_FAILING_CALLS_SHARE: f64 = 0.1;

/// Kinds that can be the cause of another finding, the root causes first: memory before devices before the threads that wait.
const CAUSES: [Kind; 17] = [
    Kind::MemoryPressure,
    Kind::IoThrottled,
    Kind::DiskStalled,
    Kind::DiskLatency,
    Kind::NicSaturated,
    Kind::ConnectBlocked,
    Kind::LimitReached,
    Kind::Deadlock,
    Kind::IdleButBlocked,
    Kind::KernelLockContention,
    Kind::StuckServer,
    Kind::HungTask,
    Kind::CpuThrottled,
    Kind::CpuStolen,
    Kind::SaturatedThread,
    Kind::CpuSaturated,
    Kind::AnswerBlocked,
];

/// Whether other findings can follow from one of this kind.
pub fn may_be_cause(kind: Kind) -> bool {
    CAUSES.contains(&kind)
}

/// The most direct cause of a finding among these, as this interval shows it.
pub fn direct_cause(context: &RuleContext, finding: &Finding, causes: &[Arc<Finding>]) -> Option<FindingKey> {
    let found = causes.iter().filter(|cause| {
        // A note does not explain more than a note.
        let explains = cause.severity > Severity::Note || finding.severity == Severity::Note;
        let is_itself = || cause.kind == finding.kind && cause.subject == finding.subject;
        explains && follows(context, finding, cause) && !is_itself()
    });
    let rank = |kind: Kind| CAUSES.iter().position(|&cause| cause == kind);
    found.min_by_key(|cause| (rank(cause.kind), std::cmp::Reverse(cause.severity))).map(|cause| cause.key())
}

/// Whether a finding is a consequence of another one.
fn follows(context: &RuleContext, finding: &Finding, cause: &Finding) -> bool {
    let blocked = context.interval.idle_blocked.as_ref();
    let is_waited_for = |device: DiskId| blocked.is_some_and(|blocked| waits_for_device(context, blocked, device));
    let may_be_waited_for = |device: DiskId| is_waited_for(device) || blocked.is_some_and(has_group_of_unknown_device);
    match (finding.kind, cause.kind) {
        (Kind::SaturatedCore, Kind::SaturatedThread) => is_core_of(context, finding, &cause.subject),
        (Kind::SaturatedThread, Kind::MemoryPressure) => {
            matches!(&finding.subject, Subject::Task { id, name } if is_memory_thread(context, *id, name))
                && matches!(cause.subject, Subject::Host)
        }
        (Kind::SaturatedThread, Kind::LimitReached) => repeats_failing_calls(finding, cause),
        (Kind::SaturatedCore, Kind::CpuSaturated) => is_among_allowed_cpus(finding, cause),
        (Kind::IdleButBlocked, Kind::MemoryPressure) => is_short_of_memory(context, &cause.subject),
        (Kind::DiskLatency | Kind::DiskBusyNotSaturated, Kind::MemoryPressure) => {
            is_short_of_memory(context, &cause.subject) && disk(&finding.subject).is_some_and(is_waited_for)
        }
        (Kind::Swapping, Kind::MemoryPressure) => matches!(cause.subject, Subject::Host),
        (Kind::IdleButBlocked, Kind::DiskStalled) => disk(&cause.subject).is_some_and(is_waited_for),
        (Kind::IdleButBlocked, Kind::DiskLatency) => is_slower_device(cause) && disk(&cause.subject).is_some_and(is_waited_for),
        (Kind::DiskLatency, Kind::IdleButBlocked) => {
            !is_slower_device(finding) && disk(&finding.subject).is_some_and(may_be_waited_for)
        }
        (Kind::DiskBusyNotSaturated, Kind::IdleButBlocked) => disk(&finding.subject).is_some_and(may_be_waited_for),
        (Kind::DiskLatency | Kind::DiskBusyNotSaturated | Kind::DiskDrift, Kind::DiskStalled)
        | (Kind::DiskLatency | Kind::DiskBusyNotSaturated | Kind::DiskStalled | Kind::DiskDrift, Kind::DiskLatency) => {
            is_above(context, &finding.subject, &cause.subject)
        }
        (Kind::IdleButBlocked, Kind::IoThrottled | Kind::Deadlock) => is_most_blocked_group(blocked, &cause.subject),
        (Kind::IdleButBlocked, Kind::SaturatedThread) => {
            let top = blocked.and_then(|blocked| blocked.groups.first());
            top.is_some_and(|top| waits_for_busy_fuse_server(context, top, &cause.subject))
        }
        (Kind::IdleButBlocked | Kind::KernelLockContention, Kind::CpuThrottled) => {
            let holder = match finding.kind {
                Kind::IdleButBlocked => blocked.and_then(|blocked| blocked.groups.first()?.lock_holder.as_ref()),
                _ => blocked.and_then(|blocked| blocked.kernel_locks.as_ref()?.groups.first()?.holder.as_ref()),
            };
            let Subject::Cgroup(cgroup) = &cause.subject else { return false };
            holder.is_some_and(|holder| is_throttled_by(context.interval, holder, cgroup))
        }
        (Kind::StuckServer, Kind::IdleButBlocked) => is_most_blocked_group(blocked, &finding.subject),
        (Kind::HungTask, Kind::DiskStalled) => {
            disk(&cause.subject).is_some_and(|device| may_hang_on_device(context, &finding.subject, device))
        }
        (Kind::HungTask, Kind::KernelLockContention) => {
            let locks = blocked.and_then(|blocked| blocked.kernel_locks.as_ref());
            locks.is_some_and(|locks| subject_group(context, &finding.subject).is_some_and(|id| waits_for_thaw(locks, &id)))
        }
        (Kind::DiskLatency | Kind::DiskBusyNotSaturated, Kind::IoThrottled) => {
            disk(&finding.subject).is_some_and(|device| is_limited_below(context, cause, device))
        }
        // Threads that sleep behind a lock are not in the load average.
        (Kind::LoadNotCpu, Kind::IdleButBlocked) => !blocked.is_some_and(is_mostly_in_kernel_locks),
        (Kind::LoadNotCpu, Kind::KernelLockContention) => blocked.is_some_and(is_mostly_in_kernel_locks),
        (Kind::LoadNotCpu, Kind::HungTask | Kind::DiskStalled | Kind::MemoryPressure) => true,
        (Kind::TcpRetransmits, Kind::NicSaturated) => {
            let of_same = |inode| namespace(&finding.subject) == inode;
            nic(&cause.subject).is_some_and(|(inode, nic)| {
                of_same(inode) && context.state.network(inode).had_local_drop(nic, context.interval.at().boottime_ns)
            })
        }
        (Kind::TcpRetransmits, Kind::ConnectBlocked) => are_mostly_requests(finding),
        (Kind::SaturatedCore, Kind::CpuStolen) => is_full_by_steal(context, finding),
        (Kind::CpuSaturated, Kind::CpuStolen) => is_mostly_stolen(context, finding),
        (Kind::NetworkLatency, Kind::NicSaturated) => {
            let is_backlogged = |nic| context.state.network(None).backlogged_samples(nic) > 0;
            nic(&cause.subject)
                .is_some_and(|(inode, nic)| inode.is_none() && is_in_queue_of(finding, nic) && is_backlogged(nic))
        }
        (Kind::AnswerBlocked, Kind::IdleButBlocked)
            if blocked.is_some_and(|blocked| is_in_chain(blocked, &finding.subject)) =>
        {
            true
        }
        // The server at the other end, on this host, waits for the same answer.
        (Kind::AnswerBlocked, Kind::AnswerBlocked) => {
            matches!(&cause.subject, Subject::RemoteHost(address) if has_evidence(finding, "server_waits_for", address.as_bytes()))
        }
        (Kind::ListenOverflow, Kind::LimitReached) => {
            matches!(&cause.subject, Subject::Task { id, .. } if servers_of(context, finding).contains(&id.pid))
        }
        (
            Kind::ListenOverflow | Kind::UdpOverflow | Kind::SendBlocked | Kind::AnswerBlocked,
            Kind::Deadlock
            | Kind::IdleButBlocked
            | Kind::KernelLockContention
            | Kind::StuckServer
            | Kind::CpuThrottled
            | Kind::SaturatedThread,
        ) => servers_of(context, finding).iter().any(|&pid| stops_process(context, cause, pid)),
        (Kind::StuckServer, Kind::Deadlock) => is_behind_lock(finding) && is_same_group(&finding.subject, &cause.subject),
        (Kind::StuckServer, Kind::KernelLockContention) => {
            is_behind_lock(finding)
                && matches!(&finding.subject, Subject::Group { id, .. } if is_behind_kernel_lock(context, id))
        }
        (Kind::OomKill, Kind::MemoryPressure) => ran_out_of_memory(context, finding, &cause.subject),
        _ => false,
    }
}

/// Whether the server waits for a lock; otherwise it is stopped (`rules::blocked_tasks::stuck_server`).
fn is_behind_lock(server: &Finding) -> bool {
    has_evidence(server, "cause", BEHIND_MUTEX.as_bytes()) || has_evidence(server, "cause", BEHIND_FILE_LOCK.as_bytes())
}

fn is_same_group(a: &Subject, b: &Subject) -> bool {
    matches!((a, b), (Subject::Group { id: a, .. }, Subject::Group { id: b, .. }) if a == b)
}

/// Whether the process was killed in the cgroup that lacks memory, or in none with a limit if that is the host
/// (`rules::memory::oom_kill`).
fn ran_out_of_memory(context: &RuleContext, kill: &Finding, short: &Subject) -> bool {
    let path = kill.evidence.iter().find_map(|evidence| match &evidence.value {
        Value::Text(path) if evidence.name == "cgroup" => Some(path),
        _ => None,
    });
    let group = path.and_then(|path| context.interval.cgroups.iter().find(|group| group.id.path == *path));
    match (short, group) {
        (Subject::Cgroup(short), Some(group)) => contains(short, &group.id),
        (Subject::Host, Some(group)) => group.memory_limit.is_none() || group.limit_ooms == Some(0),
        (Subject::Host, None) => path.is_none(),
        _ => false,
    }
}

/// Whether one of the hung threads waits for the device, or may: its device is not known, and its wait is that of block devices.
fn may_hang_on_device(context: &RuleContext, hung: &Subject, device: DiskId) -> bool {
    let is_subject = |thread: &BlockedThread| match hung {
        Subject::Task { id, .. } => thread.wait.task == *id,
        Subject::Group { id, .. } => context.interval.newer.waits.groups.get(usize::from(thread.wait.group)) == Some(id),
        _ => false,
    };
    let may_wait = |thread: &BlockedThread| match thread.wait.disk {
        Some(disk) => may_lead_to_device(context.interval, disk, device),
        None => !thread.is_non_block_storage(),
    };
    context.interval.blocked_threads.iter().any(|thread| is_subject(thread) && may_wait(thread))
}

/// The group of a thread or process.
fn subject_group(context: &RuleContext, subject: &Subject) -> Option<GroupId> {
    match subject {
        Subject::Task { id, .. } => Some(context.process(id.pid)?.group()),
        Subject::Group { id, .. } => Some(id.clone()),
        _ => None,
    }
}

/// Whether the I/O limit that is used up is that of a device below this one (dm, md), whose latency then includes it.
fn is_limited_below(context: &RuleContext, throttled: &Finding, device: DiskId) -> bool {
    let below = with_lower_devices(context.interval, device);
    let below = below.get(1..).unwrap_or_default();
    let mut limits = context.interval.io_limits.iter().filter(|limit| below.contains(&limit.disk));
    limits.any(|limit| has_evidence(throttled, "limiting_cgroup", limit.cgroup.path.as_bytes()))
}

/// Whether the CPU would not be full without the time that the hypervisor gave to others.
fn is_full_by_steal(context: &RuleContext, core: &Finding) -> bool {
    let Subject::Cpu(id) = &core.subject else { return false };
    let usage = context.interval.cpu.as_ref().and_then(|cpu| cpu.cpus.iter().find(|usage| usage.id == *id));
    usage.is_some_and(|usage| usage.busy() < context.thresholds.core_busy_ratio && usage.shares.steal > 0.0)
}

/// Whether the saturated CPU is one of those to which the threads of the other finding are restricted.
fn is_among_allowed_cpus(core: &Finding, restricted: &Finding) -> bool {
    let Subject::Cpu(id) = &core.subject else { return false };
    let allowed = restricted.evidence.iter().find_map(|evidence| match &evidence.value {
        Value::Text(list) if evidence.name == "allowed_cpus" => Some(list),
        _ => None,
    });
    allowed.is_some_and(|list| parse_cpu_list(list.as_bytes()).any(|range| range.contains(&id.0)))
}

fn disk(subject: &Subject) -> Option<DiskId> {
    if let Subject::Disk { id, .. } = subject { Some(*id) } else { None }
}

/// The interface, and the inode of its network namespace; `None`: that of stalltop.
fn nic(subject: &Subject) -> Option<(Option<u64>, &NicId)> {
    match subject {
        Subject::Nic(id) => Some((None, id)),
        Subject::NetworkNamespace { inode, nic: Some(id), .. } => Some((Some(*inode), id)),
        _ => None,
    }
}

/// Whether the thread, or a thread of the process, uses most of the CPU, and the CPU was not saturated before the thread came there.
fn is_core_of(context: &RuleContext, finding: &Finding, threads: &Subject) -> bool {
    let (Some(cpu), Subject::Cpu(id)) = (&context.interval.cpu, &finding.subject) else { return false };
    let Some(core) = cpu.cpus.iter().find(|core| core.id == *id) else { return false };
    let is_of = |task: TaskId| match threads {
        Subject::Task { id, .. } => *id == task,
        Subject::Group { id: GroupId::Process(process), .. } => process.pid == task.pid,
        _ => false,
    };
    // The time of a move is known to an interval.
    let interval_ns = (context.interval.seconds * 1e9) as u64;
    let was_there = |task| context.state.last_moved_ns(task).is_none_or(|at| finding.since.boottime_ns + 2 * interval_ns >= at);
    core.top_thread.is_some_and(|(task, share)| is_of(task) && share.0 >= core.busy() * DOMINANT_SHARE && was_there(task))
}

/// Whether the thread is one of the kernel that frees or moves memory.
fn is_memory_thread(context: &RuleContext, task: TaskId, name: &Name) -> bool {
    works_for_memory(name.as_bytes()) && context.process(task.pid).is_some_and(|process| process.kernel_thread)
}

/// Whether a thread may be busy because its calls fail: its process has no descriptor left, so that accept, open or socket fail at once
/// and are called again. A thread that computes needs few system calls.
fn repeats_failing_calls(thread: &Finding, limit: &Finding) -> bool {
    let is_of = |process: &TaskId| match &thread.subject {
        Subject::Task { id, .. } => id.pid == process.pid,
        _ => false,
    };
    let is_used_up = number(limit, "used_ratio").is_some_and(|share| share >= 1.0);
    let in_calls = number(thread, "system_ratio").is_some_and(|share| share >= MIN_FAILING_CALLS_SHARE);
    is_used_up && in_calls && matches!(&limit.subject, Subject::Task { id, .. } if is_of(id))
}

/// Whether most blocked threads wait for pages or for memory, and are in the cgroup that lacks memory. Threads that hang are a finding of
/// their own.
fn is_short_of_memory(context: &RuleContext, subject: &Subject) -> bool {
    let is_inside = |pid: u32| match subject {
        Subject::Cgroup(group) => context.process(pid).is_none_or(|process| limit_applies(Controller::Memory, group, process)),
        _ => true,
    };
    let lacks = |thread: &BlockedThread| waits_for_page(context, thread) && is_inside(thread.wait.task.pid);
    let hung: Vec<TaskId> = hung_threads(context.interval, context.thresholds).map(|thread| thread.wait.task).collect();
    let sightings = |for_pages: bool| -> u64 {
        let threads = context.interval.blocked_threads.iter().filter(|thread| !hung.contains(&thread.wait.task));
        threads.filter(|thread| !for_pages || lacks(thread)).map(|thread| u64::from(thread.wait.seen_count)).sum()
    };
    let (for_pages, all) = (sightings(true), sightings(false));
    all > 0 && reaches_threshold(for_pages as f64 / all as f64, MIN_PAGE_WAIT_SHARE)
}

/// Whether both are one device, or the requests of the first become requests of the second. A finding is not above itself.
fn is_above(context: &RuleContext, finding: &Subject, cause: &Subject) -> bool {
    let (Some(above), Some(below)) = (disk(finding), disk(cause)) else { return false };
    leads_to_device(context.interval, above, below)
}

/// Whether the latency is the device's own, not that of more load (`rules::disk::latency`).
fn is_slower_device(latency: &Finding) -> bool {
    has_evidence(latency, "cause", SLOWER_DEVICE.as_bytes()) || has_evidence(latency, "cause", TAIL.as_bytes())
}

/// Whether the packets wait in this host's queue of that interface (`rules::network::network_latency`).
fn is_in_queue_of(latency: &Finding, nic: &NicId) -> bool {
    has_evidence(latency, "limited_by", OWN_QUEUE.as_bytes()) && has_evidence(latency, "interface", nic.name.as_bytes())
}

/// Whether most of the segments that were sent again are connection requests (`rules::network::tcp_retransmits`).
fn are_mostly_requests(retransmits: &Finding) -> bool {
    let requests = number(retransmits, "syn_retransmits_per_second").zip(number(retransmits, "retransmitted_per_second"));
    requests.is_some_and(|(requests, all)| requests >= all * MIN_REQUEST_SHARE)
}

/// Whether the threads that wait for a CPU of the host mostly wait because the hypervisor runs other guests.
fn is_mostly_stolen(context: &RuleContext, saturated: &Finding) -> bool {
    let Some((stolen, waiting)) = number(saturated, "steal_ratio").zip(number(saturated, "waiting_threads")) else {
        return false;
    };
    stolen * context.cpu_count() >= waiting * MIN_STOLEN_WAIT_SHARE
}

fn number(finding: &Finding, name: &str) -> Option<f64> {
    finding.evidence.iter().find_map(|evidence| match evidence.value {
        Value::Number(number) if evidence.name == name => Some(number),
        _ => None,
    })
}

fn has_evidence(finding: &Finding, name: &str, words: &[u8]) -> bool {
    let value = finding.evidence.iter().find(|evidence| evidence.name == name).map(|evidence| &evidence.value);
    matches!(value, Some(Value::Text(text)) if text.as_bytes() == words)
}
