//! The files of one group. v1 and v2 have the same figures under other names and in other units.

use std::path::PathBuf;

use crate::ids::{CgroupId, CgroupVersion};
use crate::kernel::fields::{lines, named_number, number, sole_number, words};
use crate::kernel::memory::both;
use crate::kernel::root::{KeptFile, Root};
use crate::sample::cgroup::Cgroup;
use crate::units::Counter;

/// v1 has no word for "no limit": it is the largest count of pages, in bytes, a little below 2^63.
const UNLIMITED_BYTES: u64 = 1 << 60;

/// memory.stat makes the kernel add up all CPUs: it is read only where the group is this near to its limit, in per cent.
const NEAR_LIMIT: u64 = 80;

/// What limits a group, and where its files are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    pub quota_us: Option<u64>,
    pub period_us: Option<u64>,
    pub memory_bytes: Option<u64>,
    pub cpu_directory: Option<PathBuf>,
    pub cpuacct_directory: Option<PathBuf>,
    pub memory_directory: Option<PathBuf>,
}

impl Limits {
    pub fn any(&self) -> bool {
        self.quota_us.is_some() || self.memory_bytes.is_some()
    }

    /// In v1 CPU and memory are hierarchies of their own, in which a group has the same path.
    pub fn merge(&mut self, other: Limits) {
        self.quota_us = self.quota_us.or(other.quota_us);
        self.period_us = self.period_us.or(other.period_us);
        self.memory_bytes = self.memory_bytes.or(other.memory_bytes);
        self.cpu_directory = self.cpu_directory.take().or(other.cpu_directory);
        self.cpuacct_directory = self.cpuacct_directory.take().or(other.cpuacct_directory);
        self.memory_directory = self.memory_directory.take().or(other.memory_directory);
    }
}

/// A limited group with its open files.
#[derive(Debug)]
pub struct Group {
    id: CgroupId,
    limits: Limits,
    cpu_stat: Option<KeptFile>,
    cpu_usage: Option<KeptFile>,
    memory_usage: Option<KeptFile>,
    memory_stat: Option<PathBuf>,
}

impl Group {
    pub fn new(id: CgroupId, limits: Limits) -> Group {
        let memory_usage = match id.version {
            CgroupVersion::V1 => "memory.usage_in_bytes",
            CgroupVersion::V2 => "memory.current",
        };
        let in_memory = |file: &str| limits.memory_directory.as_ref().map(|directory| directory.join(file));
        Group {
            cpu_stat: limits.cpu_directory.as_ref().map(|directory| KeptFile::new(directory.join("cpu.stat"))),
            cpu_usage: limits.cpuacct_directory.as_ref().map(|directory| KeptFile::new(directory.join("cpuacct.usage"))),
            memory_usage: in_memory(memory_usage).map(KeptFile::new),
            memory_stat: in_memory("memory.stat"),
            id,
            limits,
        }
    }

    pub fn id(&self) -> &CgroupId {
        &self.id
    }

    /// Goes on with the open files, and the name, of the same group as found before.
    pub fn take_over(&mut self, older: &mut Group) {
        self.id = older.id.clone();
        let same_place = |one: &Limits, other: &Limits| {
            (&one.cpu_directory, &one.cpuacct_directory, &one.memory_directory)
                == (&other.cpu_directory, &other.cpuacct_directory, &other.memory_directory)
        };
        if same_place(&self.limits, &older.limits) {
            self.cpu_stat = older.cpu_stat.take();
            self.cpu_usage = older.cpu_usage.take();
            self.memory_usage = older.memory_usage.take();
        }
    }

    /// Closes its files until they are read again.
    pub fn release(&mut self) {
        for file in [&mut self.cpu_stat, &mut self.cpu_usage, &mut self.memory_usage].into_iter().flatten() {
            file.release();
        }
    }

    /// The group's counters; `None` when none of its files is there any more, or when they are those of another group that
    /// has its name now: that one is found by the next walk, so that no figure stands between the two.
    pub fn sample(&mut self, root: &Root, buffer: &mut Vec<u8>) -> Option<Cgroup> {
        let mut cgroup = Cgroup {
            id: self.id.clone(),
            quota_us: self.limits.quota_us,
            period_us: self.limits.period_us,
            periods: None,
            throttled_periods: None,
            throttled_ns: None,
            usage_ns: None,
            memory_limit_bytes: self.limits.memory_bytes,
            memory_usage_bytes: None,
            refaulted_pages: None,
            major_faults: None,
        };
        let (mut alive, mut another) = (false, false);
        let mut read = |file: &mut Option<KeptFile>, buffer: &mut Vec<u8>| {
            let Some(file) = file else { return false };
            let done = file.read(root, buffer).is_ok();
            alive |= done;
            another |= file.is_another();
            done
        };
        if read(&mut self.cpu_stat, buffer) {
            parse_cpu_stat(buffer, &mut cgroup);
        }
        if read(&mut self.cpu_usage, buffer) {
            cgroup.usage_ns = sole_number(buffer).map(Counter);
        }
        if read(&mut self.memory_usage, buffer) {
            cgroup.memory_usage_bytes = sole_number(buffer);
        }
        if is_near_limit(&cgroup) && self.memory_stat.as_ref().is_some_and(|file| root.read(file, buffer).is_ok()) {
            parse_memory_stat(buffer, &mut cgroup);
        }
        (alive && !another).then_some(cgroup)
    }
}

/// cpu.max: `50000 100000`, quota and period. `None` without a quota (`max`).
pub fn parse_cpu_max(bytes: &[u8]) -> Option<(u64, u64)> {
    let mut words = words(lines(bytes).next()?);
    Some((number(words.next()?)?, number(words.next()?)?))
}

/// memory.max, memory.high, memory.limit_in_bytes; `None` without a limit.
pub fn parse_limit(bytes: &[u8]) -> Option<u64> {
    sole_number(bytes).filter(|limit| *limit < UNLIMITED_BYTES)
}

/// Fills in cpu.stat of either version.
pub fn parse_cpu_stat(bytes: &[u8], cgroup: &mut Cgroup) {
    for (name, value) in lines(bytes).filter_map(named_number) {
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

/// Fills in memory.stat of either version. v1 gives the sums with the groups below as `total_…`, v2 gives them always.
pub fn parse_memory_stat(bytes: &[u8], cgroup: &mut Cgroup) {
    let (mut own, mut total) = (MemoryStat::default(), MemoryStat::default());
    for (name, value) in lines(bytes).filter_map(named_number) {
        match name.strip_prefix(b"total_") {
            Some(name) => total.see(name, value),
            None => own.see(name, value),
        }
    }
    cgroup.major_faults = total.major_faults.or(own.major_faults);
    cgroup.refaulted_pages = total.refaulted().or_else(|| own.refaulted());
}

#[derive(Default)]
struct MemoryStat {
    major_faults: Option<Counter>,
    refault: Option<Counter>,
    refault_anon: Option<Counter>,
    refault_file: Option<Counter>,
}

impl MemoryStat {
    fn see(&mut self, name: &[u8], value: u64) {
        let field = match name {
            b"pgmajfault" => &mut self.major_faults,
            b"workingset_refault" => &mut self.refault,
            b"workingset_refault_anon" => &mut self.refault_anon,
            b"workingset_refault_file" => &mut self.refault_file,
            _ => return,
        };
        *field = Some(Counter(value));
    }

    fn refaulted(&self) -> Option<Counter> {
        self.refault.or_else(|| both(self.refault_anon, self.refault_file))
    }
}

fn is_near_limit(cgroup: &Cgroup) -> bool {
    let (Some(usage), Some(limit)) = (cgroup.memory_usage_bytes, cgroup.memory_limit_bytes) else { return false };
    usage / NEAR_LIMIT >= limit / 100
}
