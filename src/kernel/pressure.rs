//! Reads pressure stall information, /proc/pressure: missing before Linux 4.20, EOPNOTSUPP when booted with psi=0.

use super::fields::{lines, parse_non_negative_f64, parse_u64, words};
use super::root::{FileHandle, Root};
use crate::sample::pressure::{Pressure, Stall, StallLine};
use crate::sample::{Absent, Reading};
use crate::units::Counter;

/// Reads the files of /proc/pressure; keeps them open.
#[derive(Debug)]
pub struct PressureReader {
    cpu: FileHandle,
    io: FileHandle,
    memory: FileHandle,
    irq: FileHandle,
    buffer: Vec<u8>,
    /// Whether /proc/pressure/irq is missing, as on kernels before 6.1 and without interrupt time accounting: then it is not
    /// tried again
    irq_is_missing: bool,
}

impl Default for PressureReader {
    fn default() -> PressureReader {
        PressureReader {
            cpu: FileHandle::new("proc/pressure/cpu"),
            io: FileHandle::new("proc/pressure/io"),
            memory: FileHandle::new("proc/pressure/memory"),
            irq: FileHandle::new("proc/pressure/irq"),
            buffer: Vec::new(),
            irq_is_missing: false,
        }
    }
}

impl PressureReader {
    /// Reads each resource by itself: one may be missing where another is not.
    pub fn sample(&mut self, root: &Root) -> Pressure {
        let irq = match self.irq_is_missing {
            true => Err(Absent::NoSuchFile),
            false => read_stall(&mut self.irq, root, &mut self.buffer),
        };
        self.irq_is_missing = irq == Err(Absent::NoSuchFile);
        Pressure {
            cpu: read_stall(&mut self.cpu, root, &mut self.buffer),
            io: read_stall(&mut self.io, root, &mut self.buffer),
            memory: read_stall(&mut self.memory, root, &mut self.buffer),
            irq,
        }
    }
}

/// Parses a file of /proc/pressure (or a cgroup's). `None` when neither line can be parsed.
pub fn parse_pressure(bytes: &[u8]) -> Option<Stall> {
    let mut stall = Stall::default();
    for line in lines(bytes) {
        let mut words = words(line);
        let field = match words.next() {
            Some(b"some") => &mut stall.some,
            Some(b"full") => &mut stall.full,
            _ => continue,
        };
        *field = parse_stall_line(words);
    }
    (stall != Stall::default()).then_some(stall)
}

fn read_stall(file: &mut FileHandle, root: &Root, buffer: &mut Vec<u8>) -> Reading<Stall> {
    file.read(root, buffer)?;
    parse_pressure(buffer).ok_or(Absent::Malformed)
}

fn parse_stall_line<'a>(words: impl Iterator<Item = &'a [u8]>) -> Option<StallLine> {
    let (mut avg10, mut avg60, mut avg300, mut total) = (None, None, None, None);
    for word in words {
        let mut sides = word.splitn(2, |byte| *byte == b'=');
        let (Some(name), Some(value)) = (sides.next(), sides.next()) else { continue };
        match name {
            b"avg10" => avg10 = parse_non_negative_f64(value),
            b"avg60" => avg60 = parse_non_negative_f64(value),
            b"avg300" => avg300 = parse_non_negative_f64(value),
            b"total" => total = parse_u64(value),
            _ => {}
        }
    }
    Some(StallLine { avg10: avg10? as f32, avg60: avg60? as f32, avg300: avg300? as f32, total_us: Counter(total?) })
}
