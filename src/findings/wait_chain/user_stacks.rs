//! The functions of a program that led the thread at the end of a wait chain into its system call, as a line.

use crate::findings::formatting::lossy_name;
use crate::findings::wait_chain::holder::syscall_name;
use crate::findings::wait_chain::stacks::{end_of_chain, lines_of_threads};
use crate::ids::TaskId;
use crate::interval::Interval;
use crate::interval::blocked_threads::BlockedThread;
use crate::interval::idle_blocked::BlockedGroup;
use crate::sample::Name;
use crate::sample::stacks::{UNKNOWN_CALLERS, UserStack, find_stack, find_user_stack, stack_functions, without_module};

/// Functions of the program in a line, beside the library's that it called.
const MAX_FUNCTIONS: usize = 3;

/// Libraries between a program and the kernel, by the beginning of their names.
const RUNTIME_LIBRARIES: [&str; 17] = [
    "libc.so",
    "libc-2.",
    "libc.musl",
    "libpthread",
    "librt",
    "libaio",
    "liburing",
    "ld-linux",
    "ld-musl",
    "libstdc++",
    "libgcc_s",
    "libjvm",
    "libjava.",
    "libjli.",
    "libnet.",
    "libnio.",
    "[vdso]",
];

/// The same in programs that are linked statically, and functions in which a thread begins.
const RUNTIME_FUNCTIONS: [&str; 17] = [
    "std::",
    "core::",
    "alloc::",
    "<std::",
    "<core::",
    "<alloc::",
    "<&std::",
    "__rust_",
    "runtime.",
    "internal/",
    "syscall.",
    "os.(*File)",
    "_start",
    "start_thread",
    "__libc_start",
    "__pthread",
    "[JIT]",
];

/// `Db::commit → Wal::append → fdatasync`: the functions of its program next to the system call of a blocked thread, and the library's
/// that they called. Where no stack of that thread was read, of another thread of its group in the same place. `None`: of none.
pub fn user_stack_of(interval: &Interval, thread: &BlockedThread) -> Option<String> {
    call_line(find_stack_of(interval, thread)?.functions.as_ref().ok()?)
}

/// `app/701: Db::commit → Wal::lock → pthread_mutex_lock; app/702: …`: that of each of these threads of which it was read.
pub fn user_stacks_of_threads<'a>(interval: &Interval, threads: impl Iterator<Item = &'a BlockedThread>) -> Option<String> {
    let stacks = interval.newer.user_stacks.as_ref().ok()?;
    lines_of_threads(threads, |thread| call_line(find_user_stack(stacks, thread.wait.task)?.functions.as_ref().ok()?))
}

/// The same of a process of which only one stack was read.
pub fn user_stack_of_process(interval: &Interval, pid: u32) -> Option<String> {
    let mut rows = interval.newer.user_stacks.as_ref().ok()?.iter().filter(|stack| stack.task.pid == pid);
    let (row, None) = (rows.next()?, rows.next()) else { return None };
    call_line(row.functions.as_ref().ok()?)
}

/// `holder: worker/4755: Db::commit → Wal::append → fdatasync`
pub fn user_holder_line(interval: &Interval, group: &BlockedGroup) -> Option<String> {
    let holder = end_of_chain(group)?;
    let stack = find_stack_of(interval, holder)?;
    let sampled = interval.newer.tasks.as_ref().ok().and_then(|tasks| tasks.thread(stack.task));
    let comm = sampled.map_or(&holder.wait.comm, |(_, thread)| &thread.comm);
    let word = if group.has_lock_queue() { "holder" } else { "thread" };
    Some(format!("{word}: {}/{}: {}", lossy_name(comm), stack.task.tid, call_line(stack.functions.as_ref().ok()?)?))
}

fn find_stack_of<'a>(interval: &'a Interval, thread: &BlockedThread) -> Option<&'a UserStack> {
    let sample = &interval.newer;
    let (stacks, tasks) = (sample.user_stacks.as_ref().ok()?, sample.tasks.as_ref().ok()?);
    let kernel = sample.stacks.as_deref().unwrap_or_default();
    let is_in = |task: TaskId, wchan: &Name| match find_stack(kernel, task).and_then(|row| row.kernel.as_ref().ok()) {
        Some(text) => stack_functions(text).any(|function| without_module(function) == wchan.as_bytes()),
        // Without root; that of a thread that has slept for long is not read in each sample.
        None => match tasks.thread(task).and_then(|(_, sampled)| sampled.wait.wchan.as_ref().ok()) {
            Some(there) => there == wchan,
            None => task == thread.wait.task,
        },
    };
    // It is read a moment after the kernel stacks: the thread may have entered or left the system call in between.
    let call = syscall_name(interval, thread).unwrap_or_default();
    let is_there = |stack: &&UserStack| {
        let Ok(functions) = &stack.functions else { return false };
        let innermost = stack_functions(functions).next().unwrap_or_default();
        let is_in_call = without_module(innermost) == call.as_bytes();
        is_in_call || thread.wait.wchan.as_ref().is_none_or(|wchan| is_in(stack.task, wchan))
    };
    let own = find_user_stack(stacks, thread.wait.task).filter(is_there);
    own.or_else(|| {
        let group = sample.waits.groups.get(usize::from(thread.wait.group)).filter(|_| thread.wait.wchan.is_some())?;
        let is_member = |stack: &&UserStack| interval.process(stack.task.pid).is_some_and(|process| process.group() == *group);
        stacks.iter().filter(is_there).find(is_member)
    })
}

/// `None`: no function of the program is known.
fn call_line(stack: &Name) -> Option<String> {
    let known = stack_functions(stack).take_while(|function| !function.starts_with(UNKNOWN_CALLERS));
    let functions: Vec<String> = known.map(|function| String::from_utf8_lossy(function).into_owned()).collect();
    let first = functions.iter().position(|function| !is_of_runtime(function))?;
    let own = functions.iter().skip(first).filter(|function| !is_of_runtime(function)).take(MAX_FUNCTIONS);
    let mut names: Vec<&str> = own.map(|function| split_library(function).0).collect();
    names.reverse();
    // What the program calls, not what the library calls on its behalf.
    let called = functions.iter().take(first).rev().map(|function| split_library(function));
    let named = |&(name, _): &(&str, Option<&str>)| !name.contains("+0x");
    let libraries = called.clone().filter(|(_, library)| library.is_some_and(|library| library.starts_with("libc")));
    names.extend(libraries.chain(called).find(named).map(|(name, _)| name));
    Some(names.join(" → "))
}

fn is_of_runtime(function: &str) -> bool {
    let (name, library) = split_library(function);
    let starts = |text: &str, list: &[&str]| list.iter().any(|beginning| text.starts_with(beginning));
    starts(library.unwrap_or(name), &RUNTIME_LIBRARIES) || starts(name, &RUNTIME_FUNCTIONS)
}

/// `fdatasync [libc.so.6]`: the name, and the library.
fn split_library(function: &str) -> (&str, Option<&str>) {
    match function.strip_suffix(']').and_then(|function| function.rsplit_once(" [")) {
        Some((name, library)) => (name, Some(library)),
        None => (function, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(functions: &str) -> Option<String> {
        call_line(&Name::from(functions))
    }

    #[test]
    fn a_line_has_the_programs_functions_next_to_the_system_call() {
        let stack = "fdatasync [libc.so.6]\nWal::append\nDb::commit\nSession::run\nmain\n__libc_start_main [libc.so.6]\n_start";
        assert_eq!(line(stack).unwrap(), "Session::run → Db::commit → Wal::append → fdatasync");
        let lock = "libc.so.6+0x8f3d2\n__lll_lock_wait [libc.so.6]\npthread_mutex_lock [libc.so.6]\nwork\n[unknown: cut]";
        assert_eq!(line(lock).unwrap(), "work → pthread_mutex_lock");
    }

    #[test]
    fn functions_of_a_language_are_left_out() {
        let rust = "fsync [libc.so.6]\nstd::fs::File::sync_all\ndb::Wal::append\nstd::thread::local\ndb::commit";
        assert_eq!(line(rust).unwrap(), "db::commit → db::Wal::append → fsync");
        let go =
            "internal/runtime/syscall.Syscall6\nsyscall.fsync\nos.(*File).Sync\nmain.(*Wal).Append\nmain.main\nruntime.main";
        assert_eq!(line(go).unwrap(), "main.main → main.(*Wal).Append → os.(*File).Sync");
    }

    #[test]
    fn a_static_or_stripped_program_has_a_line_too() {
        assert_eq!(line("read\nwal_append\nmain\n_start").unwrap(), "main → wal_append → read");
        assert_eq!(line("read [libc.so.6]\ndb+0x1a2b\n[unknown: x]").unwrap(), "db+0x1a2b → read");
        assert_eq!(line("read [libc.so.6]\nlibc.so.6+0x10\n[unknown: x]"), None);
        assert_eq!(line("read [libc.so.6]\nreadBytes [libjava.so]\n[JIT]\nJavaCalls::call_helper [libjvm.so]"), None);
        assert_eq!(line(""), None);
    }
}
