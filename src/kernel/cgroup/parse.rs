//! Parses the files of a group. v1 and v2 have the same counters with different names and units.

use crate::ids::DiskId;
use crate::kernel::fields::{lines, parse_named_u64, parse_single_u64, parse_u32, parse_u64, words};
use crate::kernel::memory::checked_sum;
use crate::sample::cgroup::{Cgroup, IoMax, IoStat};
use crate::units::Counter;

/// No limit in v1: the largest number of pages, in bytes, a little below 2^63.
const UNLIMITED_BYTES: u64 = 1 << 60;

/// cpu.max: `50000 100000`, quota and period. `None` without a quota (`max`).
pub fn parse_cpu_max(bytes: &[u8]) -> Option<(u64, u64)> {
    let mut words = words(lines(bytes).next()?);
    Some((parse_u64(words.next()?)?, parse_u64(words.next()?)?))
}

/// memory.max, memory.high, memory.limit_in_bytes; `None` without a limit.
pub fn parse_limit(bytes: &[u8]) -> Option<u64> {
    parse_single_u64(bytes).filter(|limit| *limit < UNLIMITED_BYTES)
}

/// Parses cpu.stat of either version.
pub fn parse_cpu_stat(bytes: &[u8], cgroup: &mut Cgroup) {
    for (name, value) in lines(bytes).filter_map(parse_named_u64) {
        let nanoseconds = || value.checked_mul(1000).map(Counter);
        match name {
            b"nr_periods" => cgroup.periods = Some(Counter(value)),
            b"nr_throttled" => cgroup.throttled_periods = Some(Counter(value)),
            b"throttled_time" => cgroup.throttled_ns = Some(Counter(value)),
            b"throttled_usec" => cgroup.throttled_ns = nanoseconds(),
            b"usage_usec" => cgroup.usage_ns = nanoseconds(),
            _ => {}
        }
    }
}

/// Parses memory.stat of either version. v1 has the sums over descendants as `total_…`; v2 always includes them.
pub fn parse_memory_stat(bytes: &[u8], cgroup: &mut Cgroup) {
    let (mut own, mut total) = (MemoryStat::default(), MemoryStat::default());
    for (name, value) in lines(bytes).filter_map(parse_named_u64) {
        match name.strip_prefix(b"total_") {
            Some(name) => total.set_field(name, value),
            None => own.set_field(name, value),
        }
    }
    cgroup.major_faults = total.major_faults.or(own.major_faults);
    cgroup.refaulted_pages = total.refaulted_pages().or_else(|| own.refaulted_pages());
}

#[derive(Default)]
struct MemoryStat {
    major_faults: Option<Counter>,
    refault: Option<Counter>,
    refault_anon: Option<Counter>,
    refault_file: Option<Counter>,
}

impl MemoryStat {
    fn set_field(&mut self, name: &[u8], value: u64) {
        let field = match name {
            b"pgmajfault" => &mut self.major_faults,
            b"workingset_refault" => &mut self.refault,
            b"workingset_refault_anon" => &mut self.refault_anon,
            b"workingset_refault_file" => &mut self.refault_file,
            _ => return,
        };
        *field = Some(Counter(value));
    }

    fn refaulted_pages(&self) -> Option<Counter> {
        self.refault.or_else(|| checked_sum(self.refault_anon, self.refault_file))
    }
}

/// A field of a file with `name value` lines: memory.events, memory.oom_control.
pub fn parse_named_counter(bytes: &[u8], wanted: &[u8]) -> Option<Counter> {
    let mut fields = lines(bytes).filter_map(parse_named_u64);
    fields.find(|(name, _)| *name == wanted).map(|(_, value)| Counter(value))
}

/// v2 io.max: `8:16 rbps=2097152 wbps=max riops=max wiops=120`, a line for each device that has a limit.
pub fn parse_io_max(bytes: &[u8]) -> Vec<(DiskId, IoMax)> {
    let limit = |line| {
        let (disk, fields) = parse_device_line(line)?;
        let mut rates = IoMax::default();
        for (name, value) in fields {
            match name {
                b"rbps" => rates.read_bytes = parse_u64(value),
                b"wbps" => rates.write_bytes = parse_u64(value),
                b"riops" => rates.reads = parse_u64(value),
                b"wiops" => rates.writes = parse_u64(value),
                _ => {}
            }
        }
        (rates != IoMax::default()).then_some((disk, rates))
    };
    lines(bytes).filter_map(limit).collect()
}

/// v2 io.stat: `8:16 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0`, a line for each device.
pub fn parse_io_stat(bytes: &[u8], wanted: DiskId) -> IoStat {
    let mut counts = IoStat::default();
    let Some((_, fields)) = lines(bytes).filter_map(parse_device_line).find(|(disk, _)| *disk == wanted) else { return counts };
    for (name, value) in fields {
        let value = parse_u64(value).map(Counter);
        match name {
            b"rbytes" => counts.read_bytes = value,
            b"wbytes" => counts.write_bytes = value,
            b"rios" => counts.reads = value,
            b"wios" => counts.writes = value,
            _ => {}
        }
    }
    counts
}

/// v1 blkio.throttle.*_device: `8:16 1048576`, a line for each device that has a limit.
pub fn parse_device_limits(bytes: &[u8]) -> Vec<(DiskId, u64)> {
    let limit = |line| {
        let mut words = words(line);
        Some((parse_device(words.next()?)?, parse_u64(words.next()?)?))
    };
    lines(bytes).filter_map(limit).collect()
}

/// v1 blkio.throttle.io_serviced and io_service_bytes: `8:16 Read 5`, `8:16 Write 7`, …: reads and writes of a device.
pub fn parse_io_serviced(bytes: &[u8], wanted: DiskId) -> (Option<Counter>, Option<Counter>) {
    let mut found = (None, None);
    for line in lines(bytes) {
        let mut words = words(line);
        let (Some(disk), Some(what), Some(value)) = (words.next().and_then(parse_device), words.next(), words.next()) else {
            continue;
        };
        match what {
            b"Read" if disk == wanted => found.0 = parse_u64(value).map(Counter),
            b"Write" if disk == wanted => found.1 = parse_u64(value).map(Counter),
            _ => {}
        }
    }
    found
}

/// `name=value`
type KeyValue<'a> = (&'a [u8], &'a [u8]);

/// A device number and the pairs after it.
fn parse_device_line(line: &[u8]) -> Option<(DiskId, Vec<KeyValue<'_>>)> {
    let mut words = words(line);
    let disk = parse_device(words.next()?)?;
    let pair = |word: &'_ [u8]| word.iter().position(|&byte| byte == b'=');
    let pairs = words.filter_map(|word| {
        let (name, value) = word.split_at_checked(pair(word)?)?;
        Some((name, value.get(1..)?))
    });
    Some((disk, pairs.collect()))
}

/// `8:16`
fn parse_device(word: &[u8]) -> Option<DiskId> {
    let mut parts = word.splitn(2, |&byte| byte == b':');
    Some(DiskId { major: parse_u32(parts.next()?)?, minor: parse_u32(parts.next()?)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SDB: DiskId = DiskId { major: 8, minor: 16 };

    #[test]
    fn io_limits_are_parsed() {
        let text = b"8:0 rbps=max wbps=max riops=max wiops=max\n8:16 rbps=2097152 wbps=max riops=max wiops=120\nx:1 riops=1\n";
        let rates = IoMax { read_bytes: Some(2_097_152), writes: Some(120), ..IoMax::default() };
        assert_eq!(parse_io_max(text), [(SDB, rates)]);
        assert_eq!(parse_device_limits(b"8:16 50\n7:0\n\n7:0 x\n8:16 60"), [(SDB, 50)], "and no line without its end");
    }

    #[test]
    fn io_of_a_device_is_parsed() {
        let text = b"8:0 rbytes=1 rios=1\n8:16 rbytes=90112 wbytes=0 rios=22 wios=x dbytes=0 dios=0\n";
        let done =
            IoStat { read_bytes: Some(Counter(90112)), write_bytes: Some(Counter(0)), reads: Some(Counter(22)), writes: None };
        assert_eq!(parse_io_stat(text, SDB), done);
        assert_eq!(parse_io_stat(b"", SDB), IoStat::default());
        let text = b"7:0 Read 9\n8:16 Read 5\n8:16 Write 7\n8:16 Sync 12\n8:16 Total 12\nTotal 21\n";
        assert_eq!(parse_io_serviced(text, SDB), (Some(Counter(5)), Some(Counter(7))));
    }

    #[test]
    fn memory_events_are_parsed() {
        let events = b"low 0\nhigh 3\nmax 17\noom 1\noom_kill 1\n";
        assert_eq!(
            (parse_named_counter(events, b"max"), parse_named_counter(events, b"oom")),
            (Some(Counter(17)), Some(Counter(1)))
        );
    }
}
