//! The kernel stack of the thread at the end of a wait chain, as a line.

use std::fmt::Write;

use crate::findings::formatting::lossy_name;
use crate::findings::wait_chain::holder::blocked_call;
use crate::findings::wait_chain::named_holder::thread_name;
use crate::interval::Interval;
use crate::interval::blocked_threads::BlockedThread;
use crate::interval::idle_blocked::BlockedGroup;
use crate::interval::lock_holders::LockHolder;
use crate::sample::Name;
use crate::sample::stacks::{ThreadStack, find_stack, stack_functions, without_module};

/// Functions of a line.
const MAX_FUNCTIONS: usize = 8;

/// The functions in which a system call, a page fault or a kernel thread begins: a line ends before them.
const ENTRIES: [&str; 12] = [
    "__x64_sys_",
    "__ia32_sys_",
    "__arm64_sys_",
    "__do_sys_",
    "x64_sys_call",
    "do_syscall_64",
    "entry_",
    "invoke_syscall",
    "asm_exc_",
    "el0",
    "kthread",
    "ret_from_fork",
];

/// `jbd2_log_wait_commit ← ext4_sync_file ← do_fsync`: from the function in which a blocked thread waits outwards to its system call.
/// Where it was elsewhere at the sample, the stack of another thread of its group that was there. `None`: no stack was read there.
pub fn stack_of(interval: &Interval, thread: &BlockedThread) -> Option<String> {
    let stack = find_stack_of(interval, thread)?;
    Some(call_line(stack.kernel.as_ref().ok()?))
}

/// `cp/701: rwsem_down_write_slowpath ← lock_rename; mv/702: …`: that of each of these threads of which it was read.
pub fn stacks_of_threads<'a>(interval: &Interval, threads: impl Iterator<Item = &'a BlockedThread>) -> Option<String> {
    let stacks = interval.newer.stacks.as_ref().ok()?;
    let line = |thread: &BlockedThread| Some(call_line(find_stack(stacks, thread.wait.task)?.kernel.as_ref().ok()?));
    lines_of_threads(threads, line)
}

/// `app/701: …; app/702: …`: the line of each of these threads that has one, of a few; `None` if none has.
pub fn lines_of_threads<'a>(
    threads: impl Iterator<Item = &'a BlockedThread>,
    line: impl Fn(&BlockedThread) -> Option<String>,
) -> Option<String> {
    const MAX_THREADS: usize = 8;
    let named = threads.filter_map(|thread| Some(format!("{}: {}", thread_name(thread), line(thread)?)));
    let lines: Vec<String> = named.take(MAX_THREADS).collect();
    (!lines.is_empty()).then(|| lines.join("; "))
}

/// The same of a process of which only one stack was read.
pub fn stack_of_process(interval: &Interval, pid: u32) -> Option<String> {
    let mut rows = interval.newer.stacks.as_ref().ok()?.iter().filter(|stack| stack.task.pid == pid);
    let (row, None) = (rows.next()?, rows.next()) else { return None };
    Some(call_line(row.kernel.as_ref().ok()?))
}

/// `holder: worker/4755 in fdatasync: jbd2_log_wait_commit ← ext4_sync_file ← do_fsync`
pub fn holder_line(interval: &Interval, group: &BlockedGroup) -> Option<String> {
    let holder = end_of_chain(group)?;
    let stack = find_stack_of(interval, holder)?;
    let sampled = interval.newer.tasks.as_ref().ok().and_then(|tasks| tasks.thread(stack.task));
    let comm = sampled.map_or(&holder.wait.comm, |(_, thread)| &thread.comm);
    let call = blocked_call(interval, holder);
    let word = if group.has_lock_queue() { "holder" } else { "thread" };
    Some(format!("{word}: {}/{} {call}: {}", lossy_name(comm), stack.task.tid, call_line(stack.kernel.as_ref().ok()?)))
}

/// The thread for which the others of a group wait in the end.
pub fn end_of_chain(group: &BlockedGroup) -> Option<&BlockedThread> {
    group.holder.as_ref().or_else(|| group.holder_off_storage().map(LockHolder::last_thread))
}

fn find_stack_of<'a>(interval: &'a Interval, thread: &BlockedThread) -> Option<&'a ThreadStack> {
    let sample = &interval.newer;
    let stacks = sample.stacks.as_ref().ok()?;
    let is_there = |stack: &&ThreadStack| {
        let Ok(text) = &stack.kernel else { return false };
        thread
            .wait
            .wchan
            .as_ref()
            .is_none_or(|wchan| stack_functions(text).any(|function| without_module(function) == wchan.as_bytes()))
    };
    let own = find_stack(stacks, thread.wait.task).filter(is_there);
    own.or_else(|| {
        let group = sample.waits.groups.get(usize::from(thread.wait.group)).filter(|_| thread.wait.wchan.is_some())?;
        let is_member =
            |stack: &&ThreadStack| interval.process(stack.task.pid).is_some_and(|process| process.group() == *group);
        stacks.iter().filter(is_there).find(is_member)
    })
}

fn call_line(stack: &Name) -> String {
    let is_entry = |function: &&[u8]| ENTRIES.iter().any(|entry| function.starts_with(entry.as_bytes()));
    let functions = stack_functions(stack).map(without_module);
    let mut line = String::new();
    for (number, function) in functions.take_while(|function| !is_entry(function)).enumerate() {
        if number == MAX_FUNCTIONS {
            line.push_str(" ← …");
            break;
        }
        let arrow = if number == 0 { "" } else { " ← " };
        // Into memory: cannot fail.
        let _ = write!(line, "{arrow}{}", String::from_utf8_lossy(function));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_at_the_system_call() {
        let stack = "jbd2_log_wait_commit [jbd2]\next4_sync_file [ext4]\ndo_fsync\n__x64_sys_fdatasync\ndo_syscall_64";
        assert_eq!(call_line(&Name::from(stack)), "jbd2_log_wait_commit ← ext4_sync_file ← do_fsync");
    }

    #[test]
    fn a_long_line_is_cut() {
        let stack = (0..20).map(|number| format!("f{number}")).collect::<Vec<_>>().join("\n");
        assert_eq!(call_line(&Name::from(stack.as_str())), "f0 ← f1 ← f2 ← f3 ← f4 ← f5 ← f6 ← f7 ← …");
    }
}
