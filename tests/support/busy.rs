//! A process that uses a CPU.

#![allow(dead_code, reason = "each test binary uses a part of this file")]

use std::process::{Command, Stdio};

use crate::child_guard::ChildGuard;

/// It ends when it is dropped.
pub struct Busy(ChildGuard);

impl Busy {
    pub fn start() -> Busy {
        Busy::run(Command::new("sh").args(["-c", "while :; do :; done"]))
    }

    /// Starts another program that computes.
    pub fn run(command: &mut Command) -> Busy {
        Busy(ChildGuard(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()))
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}
