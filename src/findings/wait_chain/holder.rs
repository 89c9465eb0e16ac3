//! The thread at the end of a wait chain: `wait_location` names its system call and wait channel for sentences.

use crate::findings::formatting::{count, duration, lossy_name};
use crate::findings::wait_chain::reported_threads::MIN_SEVERAL_THREADS;
use crate::ids::GroupId;
use crate::interval::Interval;
use crate::interval::blocked_threads::{BlockedThread, LONG_WAIT_NS};
use crate::interval::group_label::GroupLabel;
use crate::interval::idle_blocked::BlockedGroup;
use crate::interval::stuck_servers::Halt;
use crate::sample::task::{RawSyscall, TaskState};
use crate::sample::waits::Syscall;

/// `postgres (64 processes)`, `convoy (4711)`
pub fn describe_group(group: &BlockedGroup) -> String {
    let label = GroupLabel { name: group.name.clone(), processes: group.processes, pid: group.pid };
    describe_process_group(&group.group, &label)
}

/// The same, distinguished from others of the sentence that have the same words: `fio (4 processes of parent 4711)`.
pub fn describe_group_among(group: &BlockedGroup, listed: &[&BlockedGroup]) -> String {
    let label = describe_group(group);
    let is_ambiguous = listed.iter().any(|other| other.group != group.group && describe_group(other) == label);
    match &group.group {
        GroupId::Siblings { parent, .. } if is_ambiguous => {
            format!("{} ({} processes of parent {parent})", lossy_name(&group.name), group.processes)
        }
        _ => label,
    }
}

/// The same of any process group.
pub fn describe_process_group(group: &GroupId, label: &GroupLabel) -> String {
    let alone = match group {
        GroupId::Process(process) => Some(process.pid),
        GroupId::Siblings { .. } => label.pid,
    };
    match (label.processes, alone) {
        (_, Some(pid)) if label.name.as_bytes().is_empty() => format!("process {pid}"),
        (0 | 1, Some(pid)) => format!("{} ({pid})", lossy_name(&label.name)),
        (0 | 1, None) => lossy_name(&label.name),
        (many, _) => format!("{} ({many} processes)", lossy_name(&label.name)),
    }
}

/// The system call: `in fdatasync`; where none is known `waiting for a page`, or the wait channel.
pub fn blocked_call(interval: &Interval, holder: &BlockedThread) -> String {
    let for_a_page = || holder.wait.wchan.as_ref().is_some_and(|channel| channel.as_bytes().starts_with(b"folio_wait_bit"));
    match syscall_name(interval, holder) {
        Some(call) => format!("in {call}"),
        None if for_a_page() => "waiting for a page".into(),
        None => wait_location(interval, holder),
    }
}

/// System call and wait channel: `in fdatasync (jbd2_log_wait_commit)`
pub fn wait_location(interval: &Interval, holder: &BlockedThread) -> String {
    match (syscall_name(interval, holder), &holder.wait.wchan) {
        (Some(call), Some(channel)) => format!("in {call} ({})", lossy_name(channel)),
        (Some(call), None) => format!("in {call}"),
        (None, Some(channel)) => format!("in {}", lossy_name(channel)),
        (None, None) => "on storage".into(),
    }
}

/// The system call that the thread is blocked in, or `a page fault`; `None` if it is unknown.
pub fn syscall_name(interval: &Interval, thread: &BlockedThread) -> Option<&'static str> {
    syscall_of(interval, thread.wait.syscall?)
}

/// The name of a system call, or `a page fault`; `None` if it is unknown.
pub fn syscall_of(interval: &Interval, call: RawSyscall) -> Option<&'static str> {
    match call.number {
        -1 => Some("a page fault"),
        _ => Syscall::from_number(interval.host.machine.as_bytes(), call).map(|call| call.name),
    }
}

/// `stopped (SIGSTOP)`
pub fn describe_halt(halt: Halt) -> &'static str {
    match halt {
        Halt::Signal => "stopped (SIGSTOP)",
        Halt::Debugger => "stopped by a debugger (ptrace)",
        Halt::Freezer => "frozen by its cgroup (freezer)",
    }
}

/// `worker/4755 in fsync (jbd2_log_wait_commit), one of 9 seen there in turn`
pub fn describe_holder(interval: &Interval, group: &BlockedGroup, holder: &BlockedThread) -> String {
    let mut words = format!("{}/{} {}", lossy_name(&holder.wait.comm), holder.wait.task.tid, wait_location(interval, holder));
    match current_wait_seconds(interval, holder).filter(|&length| length >= LONG_WAIT_NS as f64 / 1e9) {
        Some(length) => words.push_str(&format!(", for {}", duration(length))),
        None if f64::from(group.seen_on_storage) >= group.storage + 1.0 => {
            words.push_str(&format!(", one of {} seen there in turn", group.seen_on_storage));
        }
        None if group.storage >= MIN_SEVERAL_THREADS => words.push_str(&format!(", one of {} there", count(group.storage))),
        None => {}
    }
    words
}

/// Length of the current wait of a thread; `None` if it is in another wait by now.
pub fn current_wait_seconds(interval: &Interval, thread: &BlockedThread) -> Option<f64> {
    if let Ok(tasks) = &interval.newer.tasks {
        let (_, now) = tasks.thread(thread.wait.task)?;
        let same = (now.state == TaskState::Blocked || thread.is_non_block_storage())
            && now.last_timeslice_ns.is_none_or(|at| at <= thread.wait.blocked_since_ns)
            // In a lock convoy it may be waiting for the lock again.
            && now.wait.wchan.as_ref().ok().is_none_or(|channel| thread.wait.wchan.as_ref().is_none_or(|there| there == channel));
        if !same {
            return None;
        }
    }
    Some(interval.at().boottime_ns.saturating_sub(thread.wait.blocked_since_ns) as f64 / 1e9)
}
