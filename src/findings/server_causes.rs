//! Findings that stop or saturate a server, as causes of those about its queues. docs/metrics.md, "Causes and order".

use std::net::SocketAddr;

use super::cgroups::limit_applies;
use super::finding::{Finding, Kind, Subject};
use super::network_scope::NetworkScope;
use super::pipe_writers::pipe_write_waits;
use super::remote_end_waits::remote_end_waits;
use super::rule_context::RuleContext;
use super::unix_senders::{unix_connect_waits, unix_send_waits};
use crate::ids::{GroupId, ProcessId};
use crate::sample::Name;
use crate::sample::cgroup::Controller;
use crate::units::reaches_threshold;

/// Mean number of threads of a server's group that must be blocked, on storage or behind a lock, so that this is the cause.
const MIN_BLOCKED_SERVER_THREADS: f64 = 0.5;

/// The words in the evidence of stuck-server for a lock as its cause.
pub const BEHIND_MUTEX: &str = "mutex";
pub const BEHIND_FILE_LOCK: &str = "file lock";

/// Whether the finding is about what stops or saturates the process with this pid.
pub fn stops_process(context: &RuleContext, cause: &Finding, pid: u32) -> bool {
    let Some(process) = context.process(pid) else { return false };
    match (cause.kind, &cause.subject) {
        (Kind::IdleButBlocked, _) => is_blocked(context, &process.group()),
        (Kind::KernelLockContention, _) => is_behind_kernel_lock(context, &process.group()),
        (Kind::SaturatedThread, Subject::Task { id, .. }) => id.pid == pid,
        (Kind::StuckServer | Kind::Deadlock | Kind::SaturatedThread, Subject::Group { id, .. }) => *id == process.group(),
        (Kind::CpuThrottled, Subject::Cgroup(group)) => limit_applies(Controller::Cpu, group, process),
        _ => false,
    }
}

/// Whether threads of the group wait for locks inside the kernel.
pub fn is_behind_kernel_lock(context: &RuleContext, group: &GroupId) -> bool {
    let locks = context.interval.idle_blocked.iter().filter_map(|blocked| blocked.kernel_locks.as_ref());
    let mut groups = locks.flat_map(|locks| &locks.groups).filter(|locks| locks.group == *group);
    groups.any(|locks| reaches_threshold(locks.threads, MIN_BLOCKED_SERVER_THREADS))
}

fn is_blocked(context: &RuleContext, group: &GroupId) -> bool {
    let groups = context.interval.idle_blocked.iter().flat_map(|blocked| &blocked.groups);
    let mut groups = groups.filter(|blocked| blocked.group == *group);
    groups.any(|blocked| reaches_threshold(blocked.blocked_threads(), MIN_BLOCKED_SERVER_THREADS))
}

/// The processes that a finding about an accept queue, a UDP socket, blocked senders or an answer waits for, as far as they are known.
pub fn servers_of(context: &RuleContext, finding: &Finding) -> Vec<u32> {
    let pids: Vec<Option<ProcessId>> = match finding.kind {
        Kind::ListenOverflow => {
            let unix = unix_connect_waits(context.interval).into_iter().filter(|wait| wait.subject() == finding.subject);
            let unix = unix.filter_map(|wait| wait.receiver()).map(|(process, _)| Some(*process));
            listening_processes(context, &finding.subject).into_iter().chain(unix).collect()
        }
        Kind::UdpOverflow => vec![udp_reader(context, &finding.subject)],
        Kind::SendBlocked | Kind::AnswerBlocked => vec![receiver(context, &finding.subject)],
        _ => Vec::new(),
    };
    pids.into_iter().flatten().map(|process| process.pid).collect()
}

/// Those that have the listening socket open, now or lately; of another network namespace its fullest one.
fn listening_processes(context: &RuleContext, socket: &Subject) -> Vec<Option<ProcessId>> {
    let is_it = |local: &SocketAddr| match socket {
        Subject::Socket(address) => address.as_bytes() == local.to_string().as_bytes(),
        Subject::NetworkNamespace { .. } => true,
        _ => false,
    };
    let queues = context.state.network(namespace(socket)).full_queues().iter();
    queues.filter(|queue| queue.is_accept_queue && is_it(&queue.local_address)).map(|queue| queue.owner).collect()
}

/// The process whose UDP socket drops most datagrams in the network namespace of the finding.
fn udp_reader(context: &RuleContext, subject: &Subject) -> Option<ProcessId> {
    let scope = NetworkScope::all(context.interval).find(|scope| scope.inode() == namespace(subject))?;
    scope.top_udp_socket()?.0.owner.as_ref().map(|(process, _)| *process)
}

/// The process at the other end of the blocked connections, Unix sockets or pipes, if it is one of this machine.
fn receiver(context: &RuleContext, blocked: &Subject) -> Option<ProcessId> {
    let receiver = |receiver: Option<&(ProcessId, Name)>| receiver.map(|(process, _)| *process);
    if matches!(blocked, Subject::RemoteHost(_)) {
        let waits = remote_end_waits(context.interval);
        let mut waits = waits.iter().filter(|wait| wait.subject() == *blocked);
        return waits.find_map(|wait| receiver(wait.local_receiver()?.receiver.as_ref()));
    }
    let waits = unix_send_waits(context.interval);
    if let Some(wait) = waits.iter().find(|wait| wait.subject() == *blocked) {
        return receiver(wait.receiver());
    }
    let waits = pipe_write_waits(context.interval, context.thresholds.unix_send_blocked_seconds);
    waits.iter().find(|wait| wait.subject() == *blocked).map(|wait| wait.reader.0)
}

/// The inode of the network namespace; `None`: that of stalltop.
pub fn namespace(subject: &Subject) -> Option<u64> {
    if let Subject::NetworkNamespace { inode, .. } = subject { Some(*inode) } else { None }
}
