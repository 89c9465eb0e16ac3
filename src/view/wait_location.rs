//! Short texts for what a thread does or waits for: words, system call, file and device. The kernel's function is in the details
//! of a task. Names of threads and disks.

use super::safe_text::SafeText;
use super::text::{format_number, format_optional};
use crate::findings::{self, short_path};
use crate::ids::{DiskId, TaskId};
use crate::interval::Interval;
use crate::interval::blocked_threads::{BlockedThread, find_blocked};
use crate::interval::cpu_runs::cpu_shares;
use crate::interval::idle_blocked::{BlockedGroup, MIN_NAMED_THREADS};
use crate::interval::lock_holders::{HolderActivity, LockHolder};
use crate::interval::process_groups::ProcessGroup;
use crate::interval::runnable::RunnableThread;
use crate::interval::task::{ThreadSpan, visible_wait_class};
use crate::interval::throttling::Throttling;
use crate::safe;
use crate::sample::disk::find_disk;
use crate::sample::task::{Process, RawSyscall, TaskState, Thread};
use crate::sample::waits::class::{self, KernelLock};
use crate::sample::waits::{Syscall, WaitClass};
use crate::sample::{Absent, Name, Sample};
use crate::units::Ratio;

/// How much a location says.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    Full,
    /// Without the file
    Short,
}

/// A location in a cell of a table: the short one where the full one does not fit.
pub fn fitting(cells: u16, location: impl Fn(Detail) -> SafeText) -> SafeText {
    let full = location(Detail::Full);
    if full.width() <= usize::from(cells) { full } else { location(Detail::Short) }
}

/// What a thread does or waits for, in words: `waits for events`, `fsync, wal on sdb`.
pub fn thread_location(interval: &Interval, task: TaskId, detail: Detail) -> SafeText {
    let sample = &interval.newer;
    if let Some(thread) = find_blocked(&interval.blocked_threads, task) {
        return blocked_location(interval, thread, detail);
    }
    let Some((process, thread)) = sample.tasks.as_ref().ok().and_then(|tasks| tasks.thread(task)) else {
        return SafeText::default();
    };
    match thread.state {
        TaskState::Running => return running_location(interval, task, detail),
        TaskState::Zombie => return "zombie: not reaped by its parent".into(),
        TaskState::Idle => return "idle (kernel thread)".into(),
        _ => {}
    }
    let class = visible_wait_class(&interval.host, process, thread);
    let call = thread.wait.syscall().ok().and_then(|call| syscall_name(interval, call));
    match (&thread.wait.wchan, call) {
        (Ok(channel), _) => wait_words(class, channel),
        (Err(Absent::Hidden | Absent::NoPermission), _) if thread.state == TaskState::Blocked => {
            "in D, wait not readable".into()
        }
        (Err(Absent::Hidden | Absent::NoPermission), _) => "asleep, wait not readable".into(),
        (Err(_), Some(call)) => safe!("in {call}"),
        (Err(_), None) if thread.state == TaskState::Sleeping && class == WaitClass::Hidden => {
            "asleep, wait not readable".into()
        }
        (Err(_), None) if thread.state == TaskState::Sleeping => "asleep".into(),
        (Err(_), None) => safe!("state {}", thread.state.as_char()),
    }
}

/// A runnable thread runs, waits for a CPU, or is throttled: whichever took most of the interval.
fn running_location(interval: &Interval, task: TaskId, detail: Detail) -> SafeText {
    match RunnableThread::new(interval, task) {
        RunnableThread::Runs => "on CPU".into(),
        RunnableThread::WaitsForCpu => "waits for a CPU".into(),
        RunnableThread::Throttled(Throttling { quota_cpus: Some(quota), .. }) => {
            let words = if detail == Detail::Full { "throttled by its quota" } else { "throttled, quota" };
            safe!("‖{words} {}", format_number(quota, 5))
        }
        RunnableThread::Throttled(_) => "‖throttled by its quota".into(),
    }
}

/// Words for a wait of this class in this function of the kernel.
fn wait_words(class: WaitClass, channel: &Name) -> SafeText {
    let symbol = class::strip_compiler_suffix(channel.as_bytes());
    match (class, KernelLock::of_function(symbol)) {
        (WaitClass::Lock, Some(lock)) => return safe!("waits for {}", lock.description()),
        (WaitClass::Lock, None) if WaitClass::wchan_is_interruptible(channel.as_bytes()) => return "waits for a mutex".into(),
        _ => {}
    }
    match findings::wait_words(channel.as_bytes()) {
        Some(words) => words.into(),
        None if class == WaitClass::Other => safe!("asleep ({})", SafeText::from_name(channel)),
        None => findings::class_words(class).into(),
    }
}

/// What a blocked thread waits on: system call, file and device: `fsync, wal on sdb`.
pub fn blocked_location(interval: &Interval, thread: &BlockedThread, detail: Detail) -> SafeText {
    let call = thread.wait.syscall.and_then(|call| syscall_name(interval, call));
    let mut words = match (call, &thread.wait.wchan) {
        (Some(call), _) => call.to_owned(),
        (None, Some(channel)) => wait_words(thread.class, channel).as_str().to_owned(),
        (None, None) => "in D, wait not readable".to_owned(),
    };
    // A device file is the device.
    let is_named = |file: &&Name| match thread.wait.disk {
        Some(_) => detail == Detail::Full && !file.as_bytes().starts_with(b"/dev/"),
        None => true,
    };
    if let Some(file) = thread.wait.file.as_ref().filter(is_named) {
        words += &format!(", {}", short_path(file));
    }
    if let Some(disk) = thread.wait.disk {
        words += &format!(" on {}", disk_name(&interval.newer, disk));
    }
    SafeText::sanitize(words)
}

/// The kernel function in which a thread sleeps, for pages of details; empty if it is not known.
pub fn wait_channel(interval: &Interval, task: TaskId) -> SafeText {
    if let Some(thread) = find_blocked(&interval.blocked_threads, task) {
        return thread.wait.wchan.as_ref().map(SafeText::from_name).unwrap_or_default();
    }
    let thread = interval.newer.tasks.as_ref().ok().and_then(|tasks| tasks.thread(task));
    thread.and_then(|(_, thread)| thread.wait.wchan.as_ref().ok()).map(SafeText::from_name).unwrap_or_default()
}

/// What a group of tasks waits on: `lock ← fsync, wal on sdb`, `lock ← clock_nanosleep`.
pub fn group_location(interval: &Interval, group: &BlockedGroup, detail: Detail) -> Option<SafeText> {
    let end = match group.holder_off_storage().filter(|_| group.has_lock_queue()) {
        Some(holder) => Some(holder_location(interval, holder, detail)),
        None => group.holder.as_ref().map(|holder| blocked_location(interval, holder, detail)),
    };
    match (group.has_lock_queue(), end) {
        (true, Some(end)) => Some(safe!("lock ← {end}")),
        (true, None) => Some("lock, behind storage".into()),
        (false, Some(end)) => Some(end),
        (false, None) if group.aio >= MIN_NAMED_THREADS => Some("waits for asynchronous I/O".into()),
        (false, None) if group.memory >= MIN_NAMED_THREADS => Some("waits for memory reclaim".into()),
        (false, None) => None,
    }
}

/// What the thread at the end of a chain of locks does.
fn holder_location(interval: &Interval, holder: &LockHolder, detail: Detail) -> SafeText {
    let thread = holder.last_thread();
    match holder.last_activity() {
        HolderActivity::Running => match RunnableThread::new(interval, thread.wait.task) {
            RunnableThread::Runs => "computes".into(),
            _ => running_location(interval, thread.wait.task, detail),
        },
        HolderActivity::Stopped => "stopped".into(),
        HolderActivity::Deadlock => "deadlock".into(),
        HolderActivity::TimedCycle => "cycle of locks".into(),
        HolderActivity::Ended => "a thread that has ended".into(),
        _ => blocked_location(interval, thread, detail),
    }
}

/// What most threads of a process group wait on; before it the most frequent title, if it has several processes.
pub fn process_group_location(interval: &Interval, group: &ProcessGroup, detail: Detail) -> SafeText {
    let blocked = group.blocked.filter(|blocked| blocked.blocked_threads() >= group.cpu);
    blocked
        .and_then(|blocked| group_location(interval, blocked, detail))
        .or_else(|| group.busiest_thread.map(|task| thread_location(interval, task, detail)))
        .unwrap_or_default()
}

/// The kernel's name of a device, or major:minor if the sample lacks it.
pub fn disk_name(sample: &Sample, id: DiskId) -> SafeText {
    let disk = sample.disks.as_ref().ok().and_then(|disks| find_disk(disks, id));
    disk.map_or_else(|| safe!("{}:{}", id.major, id.minor), |disk| SafeText::from_name(&disk.name))
}

/// `name/tid`, or the tid alone if the thread has exited.
pub fn thread_name(sample: &Sample, task: TaskId) -> SafeText {
    match sample.tasks.as_ref().ok().and_then(|tasks| tasks.thread(task)) {
        Some((_, thread)) => safe!("{}/{}", SafeText::from_name(&thread.comm), task.tid),
        None => safe!("{}", task.tid),
    }
}

/// The name of a thread without its tid, if it is known.
pub fn thread_comm(sample: &Sample, task: TaskId) -> SafeText {
    let thread = sample.tasks.as_ref().ok().and_then(|tasks| tasks.thread(task));
    thread.map_or_else(|| safe!("{}", task.tid), |(_, thread)| SafeText::from_name(&thread.comm))
}

/// `process:thread/tid`, or `name/tid` if both names are the same.
pub fn process_thread_and_tid(sample: &Sample, task: TaskId) -> SafeText {
    match sample.tasks.as_ref().ok().and_then(|tasks| tasks.thread(task)) {
        Some((process, thread)) => safe!("{}/{}", process_and_thread_name(process, thread), task.tid),
        None => thread_name(sample, task),
    }
}

/// `process:thread`, or one name if both are the same.
pub fn process_and_thread_name(process: &Process, thread: &Thread) -> SafeText {
    if process.comm == thread.comm {
        return SafeText::from_name(&thread.comm);
    }
    safe!("{}:{}", SafeText::from_name(&process.comm), SafeText::from_name(&thread.comm))
}

fn syscall_name(interval: &Interval, call: RawSyscall) -> Option<&'static str> {
    if call.is_page_fault() {
        return Some("page fault");
    }
    Syscall::from_number(interval.host.machine.as_bytes(), call).map(|call| call.name)
}

/// The CPU that a thread ran on last; of one that moved the one before, too: `0+1`.
pub fn cpus_of_thread(interval: &Interval, span: &ThreadSpan) -> SafeText {
    match cpu_shares(interval, span.id).as_slice() {
        [(first, _), (second, _)] => return safe!("{}+{}", first.0, second.0),
        [_, _, _, ..] => return safe!("{} CPUs", cpu_shares(interval, span.id).len()),
        _ => {}
    }
    let now = span.processor.0;
    let before = interval.older.tasks.as_ref().ok().and_then(|tasks| tasks.thread(span.id)).map(|(_, thread)| thread.processor);
    match before.filter(|&before| span.migrated && before != now) {
        Some(before) => safe!("{}+{}", before.min(now), before.max(now)),
        None => safe!("{now}"),
    }
}

/// The share of its run time that a thread was on each of its CPUs, in the order of `cpus_of_thread`; `moved` where that is not
/// known.
pub fn cpu_shares_of_thread(interval: &Interval, span: &ThreadSpan) -> SafeText {
    let percent = |share: Ratio| format!("{:.0}", share.percent());
    match cpu_shares(interval, span.id).as_slice() {
        [(_, first), (_, second)] => safe!("{}/{}%", percent(*first), percent(*second)),
        [] | [_] if span.migrated => "moved".into(),
        [] | [_] => SafeText::default(),
        several => {
            let most = several.iter().map(|(_, share)| *share).max_by(|a, b| a.0.total_cmp(&b.0));
            safe!("max {}%", most.map(percent).unwrap_or_default())
        }
    }
}

/// Whether this user may not read the waits of a process.
pub fn waits_are_hidden(interval: &Interval, process: &Process) -> bool {
    !interval.host.privilege.can_inspect_tasks_of(process.uid)
}

/// Average number of threads in lock waits, in at most this number of cells; `-` if it is unknown or they are hidden.
pub fn lock_waits_text(threads: Option<f64>, hidden: bool, cells: usize) -> SafeText {
    safe!("{}", format_optional(threads.filter(|&threads| !hidden || threads > 0.0), cells))
}

/// What a thread in a wait class does, continuing "a thread that …".
pub fn wait_class_description(class: WaitClass) -> &'static str {
    match class {
        WaitClass::Running => "runs, or is ready to run and waits for a CPU",
        WaitClass::Disk => "waits for a storage device or a file system; counted in the load",
        WaitClass::Aio => "waits for asynchronous I/O to complete",
        WaitClass::Lock => "waits for a lock that another thread holds; in the load only if D",
        WaitClass::Net => "waits for data or a connection on a socket",
        WaitClass::Pipe => "waits for the other end of a pipe",
        WaitClass::Timer => "sleeps until a time",
        WaitClass::Poll => "waits for any of several events: usually idle",
        WaitClass::Child => "waits for a child process",
        WaitClass::Vfork => "waits for its vfork child to exec; counted in the load, harmless",
        WaitClass::Memory => "waits for memory to be reclaimed",
        WaitClass::Frozen => "is stopped, traced or frozen",
        WaitClass::Hidden => "has a wait channel that is not readable",
        WaitClass::Other => "waits for something else, or sleeps with an unread wait channel",
        WaitClass::Futex => "sleeps on a futex: waits for work, or for a lock",
        WaitClass::CoreDump => "waits until another thread has written the core dump of its process, which has crashed",
    }
}

/// What a thread in a wait class waits for, in at most 27 cells.
pub fn wait_class_object(class: WaitClass) -> &'static str {
    match class {
        WaitClass::Running => "runs, or a CPU",
        WaitClass::Disk => "storage or a file system",
        WaitClass::Aio => "asynchronous I/O",
        WaitClass::Lock => "a lock that another holds",
        WaitClass::Net => "a socket",
        WaitClass::Pipe => "the other end of a pipe",
        WaitClass::Timer => "a time",
        WaitClass::Poll => "events: usually idle",
        WaitClass::Child => "a child process",
        WaitClass::Vfork => "exec of a vfork child",
        WaitClass::Memory => "memory to be reclaimed",
        WaitClass::Frozen => "stopped, traced or frozen",
        WaitClass::Hidden => "unknown: not readable",
        WaitClass::Other => "something else",
        WaitClass::Futex => "work or a lock (futex)",
        WaitClass::CoreDump => "the core dump: it crashed",
    }
}
