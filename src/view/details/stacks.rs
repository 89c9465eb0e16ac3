//! The kernel stacks on the pages of a thread and of a process.

use super::Page;
use crate::interval::Interval;
use crate::interval::task::visible_wait_class;
use crate::safe;
use crate::sample::Absent;
use crate::sample::stacks::{ThreadStack, find_stack, kernel_functions};
use crate::sample::task::{Process, TaskState, Thread};
use crate::sample::waits::WaitClass;
use crate::view::safe_text::SafeText;
use crate::view::theme::StyleRole;

/// The stack of a thread, or why that of a stuck one is not known.
pub fn of_thread(interval: &Interval, process: &Process, thread: &Thread, page: &mut Page) {
    let row = interval.newer.stacks.as_ref().ok().and_then(|stacks| find_stack(stacks, process.task_id(thread)));
    match row {
        Some(row) => {
            page.heading("KERNEL STACK");
            functions(row, page);
        }
        None if is_stuck(interval, process, thread) => not_read(interval, page),
        None => {}
    }
}

/// The stack of a thread of a process, of one in D or of one that waits for no lock if there is one; or why those of stuck ones are not known.
pub fn of_process(interval: &Interval, process: &Process, page: &mut Page) {
    if let [thread] = &*process.threads {
        return of_thread(interval, process, thread, page);
    }
    let stacks = interval.newer.stacks.as_deref().unwrap_or_default();
    let own: Vec<&ThreadStack> = stacks.iter().filter(|row| row.task.pid == process.pid).collect();
    let in_d = |row: &&&ThreadStack| process.thread(row.task.tid).is_some_and(|thread| thread.state == TaskState::Blocked);
    let is_no_waiter = |row: &&&ThreadStack| {
        let thread = process.thread(row.task.tid);
        thread.is_some_and(|thread| visible_wait_class(&interval.host, process, thread) != WaitClass::Lock)
    };
    match own.iter().find(in_d).or_else(|| own.iter().find(is_no_waiter)).or(own.first()) {
        Some(row) => {
            page.heading("KERNEL STACK");
            let comm = process.thread(row.task.tid).map(|thread| SafeText::from_name(&thread.comm)).unwrap_or_default();
            let others = match own.len() - 1 {
                0 => SafeText::default(),
                others => safe!("; {others} more threads have one"),
            };
            page.line(2, safe!("{comm}/{}{others}", row.task.tid), StyleRole::Dim);
            functions(row, page);
        }
        None if process.threads.iter().any(|thread| is_stuck(interval, process, thread)) => not_read(interval, page),
        None => {}
    }
}

fn functions(row: &ThreadStack, page: &mut Page) {
    match &row.kernel {
        Ok(text) => {
            kernel_functions(text).for_each(|function| page.line(2, SafeText::from_bytes(function), StyleRole::Plain));
        }
        Err(Absent::NoPermission) => page.line(2, "- no permission, in spite of CAP_SYS_ADMIN".into(), StyleRole::Dim),
        Err(why) => page.line(2, safe!("- {why}"), StyleRole::Dim),
    }
}

/// Recordings of earlier versions have no stacks, which is no news.
fn not_read(interval: &Interval, page: &mut Page) {
    let words: SafeText = match &interval.newer.stacks {
        Err(Absent::NotRead) => return,
        Err(Absent::NoPermission) => "- needs root (CAP_SYS_ADMIN)".into(),
        Err(why) => safe!("- {why}"),
        Ok(_) => "- not read at this sample: it ran, or others came first".into(),
    };
    page.heading("KERNEL STACK");
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
