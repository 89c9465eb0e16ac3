//! /proc/pressure: missing before 4.20, and present but unsupported when booted with psi=0.

use super::fields::{fraction, lines, number, words};
use super::root::{KeptFile, Root};
use crate::sample::pressure::{Pressure, Stall, StallLine};
use crate::sample::{Absent, Reading};
use crate::units::Counter;

/// Reads pressure figures again and again.
#[derive(Debug)]
pub struct PressureReader {
    cpu: KeptFile,
    io: KeptFile,
    memory: KeptFile,
    irq: KeptFile,
    buffer: Vec<u8>,
    /// Kernels before 6.1 and those that do not account for interrupts have no such file, and never will: it is not looked
    /// for each time
    no_irq: bool,
}

impl Default for PressureReader {
    fn default() -> PressureReader {
        PressureReader {
            cpu: KeptFile::new("proc/pressure/cpu"),
            io: KeptFile::new("proc/pressure/io"),
            memory: KeptFile::new("proc/pressure/memory"),
            irq: KeptFile::new("proc/pressure/irq"),
            buffer: Vec::new(),
            no_irq: false,
        }
    }
}

impl PressureReader {
    /// Each resource by itself: one may lack where another is there.
    pub fn sample(&mut self, root: &Root) -> Pressure {
        let irq = match self.no_irq {
            true => Err(Absent::NoSuchFile),
            false => stall(&mut self.irq, root, &mut self.buffer),
        };
        self.no_irq = irq == Err(Absent::NoSuchFile);
        Pressure {
            cpu: stall(&mut self.cpu, root, &mut self.buffer),
            io: stall(&mut self.io, root, &mut self.buffer),
            memory: stall(&mut self.memory, root, &mut self.buffer),
            irq,
        }
    }
}

/// One file of /proc/pressure (or a cgroup's). `None` when neither line can be read.
pub fn parse(bytes: &[u8]) -> Option<Stall> {
    let mut stall = Stall::default();
    for line in lines(bytes) {
        let mut words = words(line);
        let field = match words.next() {
            Some(b"some") => &mut stall.some,
            Some(b"full") => &mut stall.full,
            _ => continue,
        };
        *field = averages_and_total(words);
    }
    (stall != Stall::default()).then_some(stall)
}

fn stall(file: &mut KeptFile, root: &Root, buffer: &mut Vec<u8>) -> Reading<Stall> {
    file.read(root, buffer)?;
    parse(buffer).ok_or(Absent::Malformed)
}

fn averages_and_total<'a>(words: impl Iterator<Item = &'a [u8]>) -> Option<StallLine> {
    let (mut avg10, mut avg60, mut avg300, mut total) = (None, None, None, None);
    for word in words {
        let mut sides = word.splitn(2, |byte| *byte == b'=');
        let (Some(name), Some(value)) = (sides.next(), sides.next()) else { continue };
        match name {
            b"avg10" => avg10 = fraction(value),
            b"avg60" => avg60 = fraction(value),
            b"avg300" => avg300 = fraction(value),
            b"total" => total = number(value),
            _ => {}
        }
    }
    Some(StallLine { avg10: avg10? as f32, avg60: avg60? as f32, avg300: avg300? as f32, total_us: Counter(total?) })
}
