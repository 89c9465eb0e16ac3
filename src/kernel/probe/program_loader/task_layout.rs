//! Where members of `task_struct` lie in a kernel that does not describe its types (BTF): found in copies that eBPF programs make
//! of threads of which the values are known (assets/probe/task_layout.bpf.c; `copies` makes them).
//!
//! The fields of the tracepoints do not suffice for the programs of wake-ups: they have a thread id, but neither its process nor its
//! system call. What is not found in all copies at one place, and at no other, is an error.

pub mod copies;

use std::ops::Range;

use thiserror::Error;

/// As in task_layout.bpf.c: threads, and words of 64 bits that are copied of each.
pub const THREADS: usize = 4;
const TASK_WORDS: usize = 1024;
/// `struct thread`, in words
pub const TID: usize = 0;
const IDS: usize = 1;
const CALL_NUMBER: usize = 2;
const REGISTERS_ADDRESS: usize = 3;
const CALL_IN_REGISTERS: usize = 4;
const HAS_SLEPT: usize = 6;
const AT_ENTRY: usize = 7;
const ASLEEP: usize = AT_ENTRY + TASK_WORDS;
pub const THREAD_WORDS: usize = ASLEEP + TASK_WORDS;

/// Size of a kernel stack at most: of arm64 with pages of 64 KB.
const MAX_STACK_BYTES: u64 = 65_536;
/// Alignment of a kernel stack at least, by which it differs from a saved stack pointer.
const STACK_ALIGNMENT: u64 = 4096;
/// States of a task
const TASK_RUNNING: u32 = 0;
const TASK_INTERRUPTIBLE: u32 = 1;
const TASK_UNINTERRUPTIBLE: u32 = 2;

/// Offsets in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskLayout {
    /// `task_struct.__state`
    pub state_at: u32,
    /// `task_struct.pid`, which `tgid` follows
    pub pid_at: u32,
    /// `task_struct.stack`
    pub stack_at: u32,
    /// From the beginning of the kernel stack to `struct pt_regs`
    pub registers_at: u32,
}

/// `struct pt_regs`, which ptrace(2) has, too: offsets in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterLayout {
    /// The number of the system call, of 32 bits
    pub call_number_at: u32,
    /// Its first four arguments
    pub argument_at: [u32; 4],
}

impl RegisterLayout {
    /// That of this architecture.
    #[cfg(target_arch = "x86_64")]
    pub fn native() -> Option<RegisterLayout> {
        use libc::user_regs_struct;
        use std::mem::offset_of;
        let arguments = [
            offset_of!(user_regs_struct, rdi),
            offset_of!(user_regs_struct, rsi),
            offset_of!(user_regs_struct, rdx),
            offset_of!(user_regs_struct, r10),
        ];
        let call_number_at = offset_of!(user_regs_struct, orig_rax) as u32;
        Some(RegisterLayout { call_number_at, argument_at: arguments.map(|at| at as u32) })
    }

    /// That of this architecture.
    #[cfg(target_arch = "aarch64")]
    pub fn native() -> Option<RegisterLayout> {
        // Behind `struct user_pt_regs`, of 272 bytes, and `orig_x0`
        Some(RegisterLayout { call_number_at: 280, argument_at: [0, 8, 16, 24] })
    }

    /// That of this architecture.
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    pub fn native() -> Option<RegisterLayout> {
        None
    }
}

/// Why it is not known where the members lie.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum LayoutError {
    #[error("not known for this architecture")]
    Architecture,
    /// tracepoints sys_enter and sched_switch
    #[error("a thread was not seen to sleep")]
    NotSeen,
    /// Or at several places
    #[error("{0} is not found")]
    NotFound(&'static str),
}

/// The copies of one thread.
struct ThreadCopy<'words> {
    words: &'words [u64],
}

impl ThreadCopy<'_> {
    fn word(&self, at: usize) -> u64 {
        self.words.get(at).copied().unwrap_or_default()
    }

    /// The number of 32 bits at this offset of a part.
    fn half(&self, part: Range<usize>, offset: u32) -> Option<u32> {
        let bytes = self.words.get(part)?.get(offset as usize / 8)?.to_ne_bytes();
        let first = offset as usize % 8;
        bytes.get(first..first + 4)?.try_into().ok().map(u32::from_ne_bytes)
    }

    fn at_entry(&self, offset: u32) -> Option<u32> {
        self.half(AT_ENTRY..ASLEEP, offset)
    }

    fn asleep(&self, offset: u32) -> Option<u32> {
        self.half(ASLEEP..THREAD_WORDS, offset)
    }

    fn has_ids_at(&self, offset: u32) -> bool {
        let ids = self.word(IDS);
        self.at_entry(offset) == Some(ids as u32) && self.at_entry(offset + 4) == Some((ids >> 32) as u32)
    }

    /// How far behind the address at this offset the registers are, if it may be that of the stack.
    fn registers_behind(&self, offset: u32) -> Option<u32> {
        let stack = self.word(AT_ENTRY + offset as usize / 8);
        let distance = self.word(REGISTERS_ADDRESS).checked_sub(stack)?;
        let is_stack = stack.is_multiple_of(STACK_ALIGNMENT) && (1..MAX_STACK_BYTES).contains(&distance);
        u32::try_from(distance).ok().filter(|_| is_stack)
    }

    fn is_state_at(&self, offset: u32) -> bool {
        let kind = |state| state & (TASK_INTERRUPTIBLE | TASK_UNINTERRUPTIBLE);
        self.at_entry(offset) == Some(TASK_RUNNING) && self.asleep(offset).map(kind) == Some(TASK_INTERRUPTIBLE)
    }
}

/// The layout, from the words that the programs wrote.
pub fn find_layout(words: &[u64]) -> Result<TaskLayout, LayoutError> {
    let copies: Vec<ThreadCopy> = words.chunks_exact(THREAD_WORDS).map(|words| ThreadCopy { words }).collect();
    if copies.is_empty() || copies.iter().any(|copy| copy.word(HAS_SLEPT) == 0) {
        return Err(LayoutError::NotSeen);
    }
    if copies.iter().any(|copy| copy.word(CALL_IN_REGISTERS) as u32 != copy.word(CALL_NUMBER) as u32) {
        return Err(LayoutError::NotFound("the number of the system call"));
    }
    let end = TASK_WORDS as u32 * 8;
    let pid_at = only((0..end).step_by(4).filter(|&at| copies.iter().all(|copy| copy.has_ids_at(at))))
        .ok_or(LayoutError::NotFound("task_struct.pid"))?;
    let distance = |at: u32| {
        let mut all = copies.iter().map(|copy| copy.registers_behind(at));
        let first = all.next().flatten()?;
        all.all(|other| other == Some(first)).then_some((at, first))
    };
    let (stack_at, registers_at) =
        only((0..end).step_by(8).filter_map(distance)).ok_or(LayoutError::NotFound("task_struct.stack"))?;
    // `__state`, or before 5.14 `state`, is the member before `stack`, or there is `saved_state` of 32 bits between them.
    let state_at = stack_at.checked_sub(8).filter(|&at| copies.iter().all(|copy| copy.is_state_at(at)));
    let state_at = state_at.ok_or(LayoutError::NotFound("task_struct.__state"))?;
    Ok(TaskLayout { state_at, pid_at, stack_at, registers_at })
}

/// The item, if there is one and no other.
fn only<Item>(mut items: impl Iterator<Item = Item>) -> Option<Item> {
    let item = items.next()?;
    items.next().is_none().then_some(item)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::probe::map_words::join_halves;

    const SLEEP: u64 = 230;
    const WHERE: TaskLayout = TaskLayout { state_at: 24, pid_at: 1400, stack_at: 32, registers_at: 16_216 };

    /// As the programs write it of `THREADS` threads of process 700.
    fn copies() -> Vec<u64> {
        let thread = |number: u64| {
            let mut words = vec![0; THREAD_WORDS];
            let stack = 0xffff_c900_0000_0000 + number * 0x8000;
            words[TID] = 701 + number;
            words[IDS] = 700 << 32 | (701 + number);
            words[CALL_NUMBER] = SLEEP;
            words[REGISTERS_ADDRESS] = stack + u64::from(WHERE.registers_at);
            words[HAS_SLEPT - 1] = 1;
            words[HAS_SLEPT] = 1;
            words[CALL_IN_REGISTERS] = SLEEP;
            for part in [AT_ENTRY, ASLEEP] {
                words[part + 4] = stack;
                words[part + 175] = join_halves(701 + number as u32, 700);
                // A saved stack pointer, and the address of another stack
                words[part + 300] = stack + 0x3d48;
                words[part + 301] = 0xffff_c900_0000_0000;
                // The id of the process alone
                words[part + 400] = 700;
            }
            words[ASLEEP + 3] = join_halves(0x2001, 0);
            words
        };
        (0..THREADS as u64).flat_map(thread).collect()
    }

    fn found_after(change: impl Fn(&mut [u64], usize)) -> Result<TaskLayout, LayoutError> {
        let mut words = copies();
        words.chunks_mut(THREAD_WORDS).enumerate().for_each(|(number, words)| change(words, number));
        find_layout(&words)
    }

    #[test]
    fn members_are_found_by_their_values_in_all_threads() {
        assert_eq!(find_layout(&copies()), Ok(WHERE));
    }

    #[test]
    fn what_is_at_no_place_or_at_several_is_an_error() {
        let twice = |words: &mut [u64], _| words[AT_ENTRY + 500] = words[AT_ENTRY + 175];
        assert_eq!(found_after(twice), Err(LayoutError::NotFound("task_struct.pid")));
        let apart = |words: &mut [u64], _| words[AT_ENTRY + 175] &= 0xffff_ffff;
        assert_eq!(found_after(apart), Err(LayoutError::NotFound("task_struct.pid")));
        let in_one_thread = |words: &mut [u64], number| words[AT_ENTRY + 4] -= if number == 2 { 0x1000 } else { 0 };
        assert_eq!(found_after(in_one_thread), Err(LayoutError::NotFound("task_struct.stack")));
        let not_asleep = |words: &mut [u64], _| words[ASLEEP + 3] = 0;
        assert_eq!(found_after(not_asleep), Err(LayoutError::NotFound("task_struct.__state")));
        let other_call = |words: &mut [u64], _| words[CALL_NUMBER] = 1;
        assert_eq!(found_after(other_call), Err(LayoutError::NotFound("the number of the system call")));
        let one_unseen = |words: &mut [u64], number| words[HAS_SLEPT] = u64::from(number != 3);
        assert_eq!(found_after(one_unseen), Err(LayoutError::NotSeen));
        assert_eq!(find_layout(&[]), Err(LayoutError::NotSeen));
    }
}
