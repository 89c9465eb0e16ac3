//! Reads /proc/stat and /proc/loadavg: CPU times since boot, as the kernel counts them.

use super::fields::{lines, next_counter, parse_named_u64, parse_non_negative_f64, parse_u32, words};
use super::root::{FileHandle, Root};
use crate::ids::CpuId;
use crate::sample::cpu::{Cpu, CpuTimes, Load};
use crate::sample::{Absent, Reading};
use crate::units::{Counter, SmallSort};

/// Reads CPU times and the load; keeps both files open.
#[derive(Debug)]
pub struct CpuReader {
    stat: FileHandle,
    loadavg: FileHandle,
    buffer: Vec<u8>,
    last_pid: Option<u32>,
}

impl Default for CpuReader {
    fn default() -> CpuReader {
        CpuReader {
            stat: FileHandle::new("proc/stat"),
            loadavg: FileHandle::new("proc/loadavg"),
            buffer: Vec::new(),
            last_pid: None,
        }
    }
}

impl CpuReader {
    /// Reads /proc/stat.
    pub fn sample(&mut self, root: &Root) -> Reading<Cpu> {
        self.stat.read(root, &mut self.buffer)?;
        parse_stat(&self.buffer).ok_or(Absent::Malformed)
    }

    /// Reads only the first line of /proc/stat, the sum over all CPUs; for sub-samples.
    pub fn read_total(&mut self, root: &Root) -> Reading<CpuTimes> {
        // The kernel formats the whole file, but the rest need not be copied and parsed.
        let mut start = [0; 512];
        let length = self.stat.read_prefix(root, &mut start)?;
        let first = lines(start.get(..length).unwrap_or_default()).next().ok_or(Absent::Malformed)?;
        parse_total_line(first).ok_or(Absent::Malformed)
    }

    /// Reads /proc/loadavg.
    pub fn load(&mut self, root: &Root) -> Reading<Load> {
        self.last_pid = None;
        self.loadavg.read(root, &mut self.buffer)?;
        self.last_pid = lines(&self.buffer).next().and_then(|line| words(line).last()).and_then(parse_u32);
        parse_loadavg(&self.buffer).ok_or(Absent::Malformed)
    }

    /// Last pid that the kernel gave to a process or thread: the fifth field of /proc/loadavg when the load was last read.
    pub fn last_pid(&self) -> Option<u32> {
        self.last_pid
    }
}

/// Parses /proc/stat. `None` when its first line, the sum, is damaged; other damaged lines are left out.
pub fn parse_stat(bytes: &[u8]) -> Option<Cpu> {
    let mut lines = lines(bytes);
    let mut cpu = Cpu { total: parse_total_line(lines.next()?)?, ..Cpu::default() };
    for line in lines {
        if let Some(rest) = line.strip_prefix(b"cpu") {
            let mut words = words(rest);
            if let (Some(id), Some(times)) = (words.next().and_then(parse_u32), parse_cpu_times(&mut words)) {
                cpu.cpus.push((CpuId(id), times));
            }
            continue;
        }
        // `intr` has a number for each interrupt line, thousands on some machines: only the first, the sum, is parsed.
        match parse_named_u64(line) {
            Some((b"ctxt", value)) => cpu.context_switches = Some(Counter(value)),
            Some((b"intr", value)) => cpu.interrupts = Some(Counter(value)),
            Some((b"processes", value)) => cpu.forks = Some(Counter(value)),
            Some((b"procs_running", value)) => cpu.running = u32::try_from(value).ok(),
            Some((b"procs_blocked", value)) => cpu.blocked = u32::try_from(value).ok(),
            _ => {}
        }
    }
    cpu.cpus.small_sort_by_key(|(id, _)| *id);
    cpu.cpus.dedup_by_key(|(id, _)| *id);
    Some(cpu)
}

/// Parses /proc/loadavg: `0.20 0.18 0.12 1/80 11206`.
pub fn parse_loadavg(bytes: &[u8]) -> Option<Load> {
    let mut words = words(lines(bytes).next()?);
    let mut average = || words.next().and_then(parse_non_negative_f64);
    let (one, five, fifteen) = (average()?, average()?, average()?);
    let mut entities = words.next()?.split(|byte| *byte == b'/');
    let mut count = || entities.next().and_then(parse_u32);
    Some(Load { one, five, fifteen, runnable: count()?, entities: count()? })
}

/// `btime` of /proc/stat: seconds since the epoch at boot. Containers may lack it.
pub fn parse_boot_time(bytes: &[u8]) -> Option<u64> {
    lines(bytes).filter_map(parse_named_u64).find(|(name, _)| *name == b"btime").map(|(_, value)| value)
}

fn parse_total_line(line: &[u8]) -> Option<CpuTimes> {
    let mut words = words(line);
    (words.next()? == b"cpu").then_some(())?;
    parse_cpu_times(&mut words)
}

/// The columns of a `cpu` line. Every kernel since 2.6.0 has the first seven; a line without them is damaged.
fn parse_cpu_times<'a>(words: &mut impl Iterator<Item = &'a [u8]>) -> Option<CpuTimes> {
    Some(CpuTimes {
        user_ticks: next_counter(words)?,
        nice_ticks: next_counter(words)?,
        system_ticks: next_counter(words)?,
        idle_ticks: next_counter(words)?,
        iowait_ticks: next_counter(words)?,
        irq_ticks: next_counter(words)?,
        softirq_ticks: next_counter(words)?,
        steal_ticks: next_counter(words),
        guest_ticks: next_counter(words),
        guest_nice_ticks: next_counter(words),
    })
}
