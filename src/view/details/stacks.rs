//! The kernel and user stacks on the pages of a thread and of a process.

use super::page::Page;
use crate::interval::Interval;
use crate::interval::task::visible_wait_class;
use crate::safe;
use crate::sample::Absent;
use crate::sample::stacks::{ThreadStack, UNKNOWN_CALLERS, UserStack, find_stack, find_user_stack, stack_functions};
use crate::sample::task::{Process, TaskState, Thread};
use crate::sample::waits::WaitClass;
use crate::view::safe_text::SafeText;
use crate::view::theme::StyleRole;

const KERNEL_STACK: &str = "KERNEL STACK";
const USER_STACK: &str = "USER STACK";
/// errno
const ETIMEDOUT: i32 = 110;

/// The stacks of a thread, or why those of a stuck one are not known.
pub fn of_thread(interval: &Interval, process: &Process, thread: &Thread, page: &mut Page) {
    let is_stuck = is_stuck(interval, process, thread);
    let task = process.task_id(thread);
    match interval.newer.stacks.as_ref().ok().and_then(|stacks| find_stack(stacks, task)) {
        Some(row) => {
            page.heading(KERNEL_STACK);
            functions(row, page);
        }
        None if is_stuck => not_read(interval, page),
        None => {}
    }
    match interval.newer.user_stacks.as_ref().ok().and_then(|stacks| find_user_stack(stacks, task)) {
        Some(row) => {
            page.heading(USER_STACK);
            user_functions(row, page);
        }
        None if is_stuck => user_stack_not_read(interval, page),
        None => {}
    }
}

/// The stacks of one thread of a process, best one in D or behind no lock; or why those of stuck ones are not known.
pub fn of_process(interval: &Interval, process: &Process, page: &mut Page) {
    if let [thread] = &*process.threads {
        return of_thread(interval, process, thread, page);
    }
    let has_stuck_thread = || process.threads.iter().any(|thread| is_stuck(interval, process, thread));
    let stacks = interval.newer.stacks.as_deref().unwrap_or_default();
    let own: Vec<&ThreadStack> = stacks.iter().filter(|row| row.task.pid == process.pid).collect();
    let shown = choose(interval, process, own.iter().map(|row| row.task.tid));
    match own.iter().find(|row| Some(row.task.tid) == shown) {
        Some(row) => {
            page.heading(KERNEL_STACK);
            name_thread(process, row.task.tid, own.len(), page);
            functions(row, page);
        }
        None if has_stuck_thread() => not_read(interval, page),
        None => {}
    }
    let stacks = interval.newer.user_stacks.as_deref().unwrap_or_default();
    let own: Vec<&UserStack> = stacks.iter().filter(|row| row.task.pid == process.pid).collect();
    // That of the same thread, if it was read.
    let same = own.iter().find(|row| Some(row.task.tid) == shown).map(|row| row.task.tid);
    let shown = same.or_else(|| choose(interval, process, own.iter().map(|row| row.task.tid)));
    match own.iter().find(|row| Some(row.task.tid) == shown) {
        Some(row) => {
            page.heading(USER_STACK);
            name_thread(process, row.task.tid, own.len(), page);
            user_functions(row, page);
        }
        None if has_stuck_thread() => user_stack_not_read(interval, page),
        None => {}
    }
}

/// One of these threads.
fn choose(interval: &Interval, process: &Process, tids: impl Iterator<Item = u32> + Clone) -> Option<u32> {
    let in_d = |tid: &u32| process.thread(*tid).is_some_and(|thread| thread.state == TaskState::Blocked);
    let is_no_waiter = |tid: &u32| {
        let thread = process.thread(*tid);
        thread.is_some_and(|thread| visible_wait_class(&interval.host, process, thread) != WaitClass::Lock)
    };
    let mut all = tids.clone();
    tids.clone().find(in_d).or_else(|| tids.clone().find(is_no_waiter)).or_else(|| all.next())
}

fn name_thread(process: &Process, tid: u32, rows: usize, page: &mut Page) {
    let comm = process.thread(tid).map(|thread| SafeText::from_name(&thread.comm)).unwrap_or_default();
    let others = match rows.saturating_sub(1) {
        0 => SafeText::default(),
        others => safe!("; {others} more threads have one"),
    };
    page.line(2, safe!("{comm}/{tid}{others}"), StyleRole::Dim);
}

fn functions(row: &ThreadStack, page: &mut Page) {
    match &row.kernel {
        Ok(text) => {
            stack_functions(text).for_each(|function| page.line(2, SafeText::from_bytes(function), StyleRole::Plain));
        }
        Err(Absent::NoPermission) => page.line(2, "- no permission, in spite of CAP_SYS_ADMIN".into(), StyleRole::Dim),
        Err(why) => page.line(2, safe!("- {why}"), StyleRole::Dim),
    }
}

fn user_functions(row: &UserStack, page: &mut Page) {
    match &row.functions {
        Ok(text) => stack_functions(text).for_each(|function| {
            let role = if function.starts_with(UNKNOWN_CALLERS) { StyleRole::Dim } else { StyleRole::Plain };
            page.line(2, SafeText::from_bytes(function), role);
        }),
        Err(Absent::NoPermission) => {
            page.line(2, "- no permission: needs CAP_SYS_PTRACE, or for own ones yama.ptrace_scope=0".into(), StyleRole::Dim);
        }
        Err(Absent::Os(ETIMEDOUT)) => page.line(2, "- its memory, or a file of it, did not answer".into(), StyleRole::Dim),
        Err(why) => page.line(2, safe!("- {why}"), StyleRole::Dim),
    }
}

/// Recordings of earlier versions have no user stacks.
fn user_stack_not_read(interval: &Interval, page: &mut Page) {
    let words: SafeText = match &interval.newer.user_stacks {
        Ok(_) => "- not read at this sample: it ran, or others came first".into(),
        Err(Absent::NotRead) => return,
        // Of the program that recorded, which may be another.
        Err(Absent::Unsupported) if interval.host.machine.as_bytes() != b"x86_64" => "- of programs for x86-64 only".into(),
        Err(Absent::Unsupported) => "- built without them: --features user-stacks, or take a package, which has them".into(),
        Err(Absent::Os(ETIMEDOUT)) => "- processes or file systems do not answer; read again when they do".into(),
        Err(why) => safe!("- {why}"),
    };
    page.heading(USER_STACK);
    page.line(2, words, StyleRole::Dim);
}

/// Recordings of earlier versions have no stacks, which is no news.
fn not_read(interval: &Interval, page: &mut Page) {
    let words: SafeText = match &interval.newer.stacks {
        Err(Absent::NotRead) => return,
        Err(Absent::NoPermission) => "- needs root (CAP_SYS_ADMIN)".into(),
        Err(why) => safe!("- {why}"),
        Ok(_) => "- not read at this sample: it ran, or others came first".into(),
    };
    page.heading(KERNEL_STACK);
    page.line(2, words, StyleRole::Dim);
}

fn is_stuck(interval: &Interval, process: &Process, thread: &Thread) -> bool {
    let class = visible_wait_class(&interval.host, process, thread);
    match thread.state {
        TaskState::Blocked => !matches!(class, WaitClass::Vfork | WaitClass::Frozen),
        TaskState::Sleeping => matches!(class, WaitClass::Lock | WaitClass::Disk),
        _ => false,
    }
}
