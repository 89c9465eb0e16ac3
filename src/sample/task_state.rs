//! The state of a task in stat, and the system call that it is in.

use serde::{Deserialize, Serialize};

/// The state letter of stat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TaskState {
    /// R: on a CPU or waiting for one
    Running,
    /// S
    #[default]
    Sleeping,
    /// D: uninterruptible
    Blocked,
    /// I: a kernel thread with nothing to do
    Idle,
    /// T
    Stopped,
    /// t
    Traced,
    /// Z
    Zombie,
    /// X, x
    Dead,
    /// P and any other letter
    Other,
}

impl TaskState {
    /// From the letter in stat.
    pub fn from_stat_char(letter: u8) -> TaskState {
        match letter {
            b'R' => TaskState::Running,
            b'S' => TaskState::Sleeping,
            b'D' => TaskState::Blocked,
            b'I' => TaskState::Idle,
            b'T' => TaskState::Stopped,
            b't' => TaskState::Traced,
            b'Z' => TaskState::Zombie,
            b'X' | b'x' => TaskState::Dead,
            _ => TaskState::Other,
        }
    }

    /// The letter in stat.
    pub fn as_char(self) -> char {
        match self {
            TaskState::Running => 'R',
            TaskState::Sleeping => 'S',
            TaskState::Blocked => 'D',
            TaskState::Idle => 'I',
            TaskState::Stopped => 'T',
            TaskState::Traced => 't',
            TaskState::Zombie => 'Z',
            TaskState::Dead => 'X',
            TaskState::Other => '?',
        }
    }
}

/// /proc/PID/task/TID/syscall.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RawSyscall {
    /// The number on this architecture, with `IN_32_BIT_PROGRAM` of a 32-bit program on a 64-bit kernel; −1 if it is blocked outside a
    /// system call (in a page fault)
    pub number: i64,
    /// Its first three arguments
    pub arguments: [u64; 3],
}

/// Bit of `RawSyscall::number`: no kernel has calls with such numbers.
const IN_32_BIT_PROGRAM: i64 = 1 << 32;

impl RawSyscall {
    /// The same call of a 32-bit program, whose calls have other numbers.
    pub fn of_32_bit_program(self) -> RawSyscall {
        if self.is_page_fault() {
            return self;
        }
        RawSyscall { number: self.number | IN_32_BIT_PROGRAM, ..self }
    }

    /// The number in the table of 32-bit programs; `None` of another program.
    pub fn number_in_32_bit_program(self) -> Option<i64> {
        (self.number > 0 && self.number & IN_32_BIT_PROGRAM != 0).then_some(self.number & !IN_32_BIT_PROGRAM)
    }

    pub fn is_page_fault(self) -> bool {
        self.number == -1
    }
}
