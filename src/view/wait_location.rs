//! Short texts for what a thread waits on: system call, device and file, kernel function. Names of threads and disks.

use super::safe_text::SafeText;
use super::text::format_number;
use crate::ids::{DiskId, TaskId};
use crate::interval::Interval;
use crate::interval::blocked_threads::{BlockedThread, find_blocked};
use crate::interval::idle_blocked::BlockedGroup;
use crate::interval::process_groups::ProcessGroup;
use crate::interval::task::visible_wait_class;
use crate::safe;
use crate::sample::disk::find_disk;
use crate::sample::task::{Process, RawSyscall, TaskState, Thread};
use crate::sample::waits::{Syscall, WaitClass};
use crate::sample::{Absent, Name, Sample};

/// What a thread does or waits on.
pub fn thread_location(interval: &Interval, task: TaskId) -> SafeText {
    let sample = &interval.newer;
    if let Some(thread) = find_blocked(&interval.blocked_threads, task) {
        return blocked_location(interval, thread);
    }
    let Some((process, thread)) = sample.tasks.as_ref().ok().and_then(|tasks| tasks.thread(task)) else {
        return SafeText::default();
    };
    match thread.state {
        TaskState::Running => return "on CPU".into(),
        TaskState::Zombie => return "zombie: not reaped by its parent".into(),
        TaskState::Idle => return "idle (kernel thread)".into(),
        _ => {}
    }
    let class = visible_wait_class(&interval.host, process, thread);
    let call = thread.wait.syscall().ok().and_then(|call| syscall_name(interval, call));
    match (&thread.wait.wchan, call) {
        (Ok(channel), call) => {
            let channel = SafeText::from_name(channel);
            // `futex` is left out beside futex_do_wait, `poll` beside poll_schedule_timeout.
            let mut words = vec![class.as_str()];
            words.extend(call.filter(|&call| call != class.as_str() && !channel.as_str().contains(call)));
            if words.len() == 1 && channel.as_str().starts_with(class.as_str()) {
                words.clear();
            }
            words.push(channel.as_str());
            SafeText::sanitize(words.join(" "))
        }
        (Err(Absent::Hidden | Absent::NoPermission), _) if thread.state == TaskState::Blocked => "blocked, hidden".into(),
        (Err(Absent::Hidden | Absent::NoPermission), _) => "asleep, hidden".into(),
        (Err(_), Some(call)) => safe!("in {call}"),
        (Err(_), None) if thread.state == TaskState::Sleeping && class == WaitClass::Hidden => "asleep, hidden".into(),
        (Err(_), None) if thread.state == TaskState::Sleeping => "asleep".into(),
        (Err(_), None) => safe!("state {}", thread.state.as_char()),
    }
}

/// What a blocked thread waits on: `fsync sdb wal (jbd2_log_wait_commit)`.
pub fn blocked_location(interval: &Interval, thread: &BlockedThread) -> SafeText {
    let mut words = Vec::with_capacity(4);
    words.push(thread.syscall.and_then(|call| syscall_name(interval, call)).unwrap_or(thread.class.as_str()).to_owned());
    words.extend(thread.disk.map(|disk| disk_name(&interval.newer, disk).as_str().to_owned()));
    words.extend(thread.file.as_ref().map(|file| SafeText::from_name(&base_name(file)).as_str().to_owned()));
    words.push(thread.wchan.as_ref().map_or("(hidden)".to_owned(), |channel| format!("({})", SafeText::from_name(channel))));
    SafeText::sanitize(words.join(" "))
}

/// What a group of tasks waits on: `lock ← fsync sdb (jbd2_log_wait_commit)`.
pub fn group_location(interval: &Interval, group: &BlockedGroup) -> Option<SafeText> {
    let end = group.holder.as_ref().map(|holder| blocked_location(interval, holder));
    match (group.behind_lock() >= 0.5, end) {
        (true, Some(end)) => Some(safe!("lock ← {end}")),
        (true, None) => Some("lock, behind storage".into()),
        (false, Some(end)) => Some(end),
        (false, None) if group.aio >= 0.5 => Some("asynchronous I/O".into()),
        (false, None) if group.memory >= 0.5 => Some("memory reclaim".into()),
        (false, None) => None,
    }
}

/// What most threads of a process group wait on.
pub fn process_group_location(interval: &Interval, group: &ProcessGroup) -> SafeText {
    let blocked = group.blocked.filter(|blocked| blocked.blocked_threads() >= group.cpu);
    blocked
        .and_then(|blocked| group_location(interval, blocked))
        .or_else(|| group.busiest_thread.map(|task| thread_location(interval, task)))
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
    if call.number == -1 {
        return Some("page fault");
    }
    Syscall::from_number(interval.host.machine.as_bytes(), call).map(|call| call.name)
}

fn base_name(path: &Name) -> Name {
    let base = path.as_bytes().rsplit(|&byte| byte == b'/').next();
    base.filter(|base| !base.is_empty()).map_or_else(|| path.clone(), Name::from)
}

/// Whether this user may not read the waits of a process.
pub fn waits_are_hidden(interval: &Interval, process: &Process) -> bool {
    !interval.host.privilege.can_inspect_tasks_of(process.uid)
}

/// Average number of threads in lock waits; `-` if they are hidden.
pub fn lock_waits_text(threads: f64, hidden: bool) -> SafeText {
    if hidden && threads <= 0.0 { "-".into() } else { safe!("{}", format_number(threads, 5)) }
}

/// What a thread in a wait class does, continuing "a thread that …".
pub fn wait_class_description(class: WaitClass) -> &'static str {
    match class {
        WaitClass::Running => "runs, or is ready to run and waits for a CPU",
        WaitClass::Disk => "waits for a storage device or a file system; counted in the load",
        WaitClass::Aio => "waits for asynchronous I/O to complete",
        WaitClass::Lock => "waits for a lock that another thread holds; not counted in the load",
        WaitClass::Net => "waits for data or a connection on a socket",
        WaitClass::Pipe => "waits for the other end of a pipe",
        WaitClass::Timer => "sleeps until a time",
        WaitClass::Poll => "waits for any of several events: usually idle",
        WaitClass::Child => "waits for a child process",
        WaitClass::Vfork => "waits for its vfork child to exec; counted in the load, harmless",
        WaitClass::Memory => "waits for memory to be reclaimed",
        WaitClass::Frozen => "is stopped, traced or frozen",
        WaitClass::Hidden => "has a wait channel that this user may not read",
        WaitClass::Other => "waits for something else, or sleeps with an unread wait channel",
        WaitClass::Futex => "sleeps on a futex: waits for work or a lock, no holder is known",
    }
}
