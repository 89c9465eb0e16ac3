//! Kernel and user stacks of stuck threads: of threads that hold a lock for which others wait, of threads in D or on storage, and of threads that
//! wait for a lock.

use super::{Name, Reading};
use crate::ids::TaskId;

/// Rows of `Sample::stacks` at most: holders of locks first, then threads in D or on storage, then threads that wait for a lock.
pub const MAX_STACKS: usize = 64;

/// The kernel stack of one thread at the end of the interval. Threads with the same stack share its text.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadStack {
    pub task: TaskId,
    /// /proc/PID/task/TID/stack without addresses and offsets: a function a line, the innermost first. One of a module is
    /// `function [module]`; one without a symbol is `?`.
    pub kernel: Reading<Name>,
}

/// The user stack of one thread: which functions led into the system call in which it is stuck.
#[derive(Clone, Debug, PartialEq)]
pub struct UserStack {
    pub task: TaskId,
    /// A function a line, the innermost first, demangled. One of a library is `function [library]`, one without a symbol
    /// `library+0x1a2b` (an address in the file). A last line `[unknown: why]` says why the callers are not known.
    pub functions: Reading<Name>,
}

/// Begins the last line of a user stack whose outer functions are not known.
pub const UNKNOWN_CALLERS: &[u8] = b"[unknown";

/// The functions of a kernel or user stack, the innermost first.
pub fn stack_functions(stack: &Name) -> impl DoubleEndedIterator<Item = &[u8]> {
    stack.as_bytes().split(|&byte| byte == b'\n').filter(|function| !function.is_empty())
}

/// A function without its module.
pub fn without_module(function: &[u8]) -> &[u8] {
    function.split(|&byte| byte == b' ').next().unwrap_or(function)
}

/// The user stack of a thread, in a list sorted by `task`.
pub fn find_user_stack(stacks: &[UserStack], task: TaskId) -> Option<&UserStack> {
    let at = stacks.binary_search_by_key(&task, |stack| stack.task).ok()?;
    stacks.get(at)
}

/// The stack of a thread in a list that is sorted by task.
pub fn find_stack(stacks: &[ThreadStack], task: TaskId) -> Option<&ThreadStack> {
    let at = stacks.binary_search_by_key(&task, |stack| stack.task).ok()?;
    stacks.get(at)
}
