//! Reads a thread's registers (/proc/PID/task/TID/syscall), and the memory of its stack (process_vm_readv).

use crate::ids::TaskId;
use crate::kernel::fields::parse_prefixed_hexadecimal;
use crate::kernel::root::{Root, absent_from_errno};
use crate::kernel::task::memory::read_mapped;
use crate::sample::{Absent, Reading};

/// Read at a time: more than most stacks need.
const PIECE_BYTES: usize = 16 << 10;
/// Read of one stack at most.
pub const MAX_STACK_BYTES: usize = 64 << 10;

/// Stack pointer and program counter of a thread that sleeps in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    pub stack_pointer: u64,
    pub program_counter: u64,
}

/// The registers of a thread; `Vanished` if it runs. Needs the permission to trace it: the same user, or CAP_SYS_PTRACE.
pub fn read_registers(root: &Root, task: TaskId, buffer: &mut Vec<u8>) -> Reading<Registers> {
    root.read(format!("proc/{}/task/{}/syscall", task.pid, task.tid), buffer)?;
    parse_registers(buffer)
}

/// `202 0x7f… 0x80 … 0x7ffd… 0x7f…`: the last two words. In a page fault the number is -1 and no argument stands there.
fn parse_registers(text: &[u8]) -> Reading<Registers> {
    let text = text.trim_ascii();
    if text == b"running" {
        return Err(Absent::Vanished);
    }
    let mut words = text.rsplit(|&byte| byte == b' ').map(parse_prefixed_hexadecimal);
    match (words.next().flatten(), words.next().flatten()) {
        (Some(program_counter), Some(stack_pointer)) => Ok(Registers { stack_pointer, program_counter }),
        _ => Err(Absent::Malformed),
    }
}

/// The memory of a process.
#[derive(Clone, Copy, Debug)]
pub struct ProcessMemory {
    pid: u32,
}

impl ProcessMemory {
    pub fn new(pid: u32) -> ProcessMemory {
        ProcessMemory { pid }
    }

    /// Fills the beginning of `buffer`; how many bytes.
    pub fn read(self, address: u64, buffer: &mut [u8]) -> Reading<usize> {
        read_mapped(self.pid, address, buffer).map_err(absent_from_errno)
    }
}

/// A stack from its stack pointer on, read as far as it is asked for.
#[derive(Debug)]
pub struct StackMemory {
    memory: ProcessMemory,
    start: u64,
    /// Bytes to the end of the mapping, at most `MAX_STACK_BYTES`
    length: usize,
    bytes: Vec<u8>,
    is_exhausted: bool,
    /// Why nothing of it could be read
    error: Option<Absent>,
}

impl StackMemory {
    /// `end`: of the mapping in which the stack is. `bytes`: an earlier buffer.
    pub fn new(memory: ProcessMemory, start: u64, end: u64, mut bytes: Vec<u8>) -> StackMemory {
        bytes.clear();
        let length = usize::try_from(end.saturating_sub(start)).map_or(MAX_STACK_BYTES, |length| length.min(MAX_STACK_BYTES));
        StackMemory { memory, start, length, bytes, is_exhausted: false, error: None }
    }

    /// The word at an address; `None` outside.
    pub fn word(&mut self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.start)?).ok()?;
        let end = at.checked_add(8)?;
        if end > self.length {
            self.is_exhausted |= self.length == MAX_STACK_BYTES && at < MAX_STACK_BYTES * 16;
            return None;
        }
        while self.bytes.len() < end {
            self.read_piece()?;
        }
        Some(u64::from_le_bytes(*self.bytes.get(at..)?.first_chunk()?))
    }

    /// Whether a word beyond what is read was asked for.
    pub fn is_exhausted(&self) -> bool {
        self.is_exhausted
    }

    /// Why nothing could be read, if something was wanted.
    pub fn error(&self) -> Option<Absent> {
        self.error
    }

    /// Whether the address is on this stack, as far as it may be read.
    pub fn contains(&self, address: u64) -> bool {
        address.checked_sub(self.start).is_some_and(|at| at < self.length as u64)
    }

    pub fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }

    /// `None` if nothing more can be read.
    fn read_piece(&mut self) -> Option<()> {
        let known = self.bytes.len();
        let wanted = (known + PIECE_BYTES).min(self.length);
        self.bytes.resize(wanted, 0);
        let room = self.bytes.get_mut(known..)?;
        let read = self.memory.read(self.start + known as u64, room).unwrap_or_else(|why| {
            // Where nothing is mapped the stack ends.
            self.error = (known == 0 && why != Absent::Os(libc::EFAULT)).then_some(why);
            0
        });
        self.bytes.truncate(known + read);
        (read > 0).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_two_words_are_stack_pointer_and_program_counter() {
        let registers = Registers { stack_pointer: 0x7ffd_1000, program_counter: 0x7f00_beef };
        let call = b"202 0x7f01 0x80 0x2 0x0 0x0 0x0 0x7ffd1000 0x7f00beef\n";
        assert_eq!(parse_registers(call), Ok(registers));
        assert_eq!(parse_registers(b"-1 0x7ffd1000 0x7f00beef\n"), Ok(registers));
        assert_eq!(parse_registers(b"running\n"), Err(Absent::Vanished));
        for text in [&b""[..], b"0x7ffd1000", b"202 x y", b"-1 0x1 0x11111111111111111"] {
            assert_eq!(parse_registers(text), Err(Absent::Malformed), "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn a_stack_is_read_up_to_the_end_of_its_mapping() {
        let words: Vec<u64> = (0..100).collect();
        let start = words.as_ptr() as u64;
        let memory = ProcessMemory::new(std::process::id());
        let mut stack = StackMemory::new(memory, start, start + 80, Vec::new());
        if memory.read(start, &mut [0; 8]).is_err() {
            return println!("skipped: no process_vm_readv here");
        }
        assert_eq!([stack.word(start), stack.word(start + 72)], [Some(0), Some(9)]);
        assert_eq!([stack.word(start + 80), stack.word(start - 8), stack.word(u64::MAX)], [None; 3]);
        assert!(!stack.is_exhausted() && stack.error().is_none(), "the mapping ends there");
    }

    #[test]
    fn why_a_stack_cannot_be_read_is_kept() {
        let mut stack = StackMemory::new(ProcessMemory::new(u32::MAX), 0x1000, 0x2000, Vec::new());
        assert_eq!((stack.word(0x1000), stack.error()), (None, Some(Absent::Vanished)));
    }
}
