//! Reads the files of one group that has a limit.

use std::path::{Path, PathBuf};

use super::parse::{parse_cpu_stat, parse_io_serviced, parse_io_stat, parse_memory_stat, parse_named_counter};
use crate::ids::{CgroupId, CgroupVersion, DiskId};
use crate::kernel::fields::{parse_single_line, parse_single_u64};
use crate::kernel::pressure::parse_pressure;
use crate::kernel::root::{FileHandle, Root};
use crate::sample::Name;
use crate::sample::cgroup::{Cgroup, IoLimit, IoMax, IoStat, StallAverages};
use crate::sample::pressure::StallLine;
use crate::units::{Counter, delta};

/// memory.stat is read only when the group uses this share of its limit, in percent: the kernel sums it over all CPUs.
const NEAR_LIMIT_PERCENT: u64 = 80;

/// The limits of a group, and the directories of its files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CgroupLimits {
    pub quota_us: Option<u64>,
    pub period_us: Option<u64>,
    pub memory_bytes: Option<u64>,
    pub cpus: Option<Name>,
    pub io: Vec<(DiskId, IoMax)>,
    pub directories: ControllerDirectories,
}

/// The group's directory in each hierarchy where it has a limit. v2 has only one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControllerDirectories {
    pub cpu: Option<PathBuf>,
    pub cpuacct: Option<PathBuf>,
    pub memory: Option<PathBuf>,
    pub cpuset: Option<PathBuf>,
    pub io: Option<PathBuf>,
}

impl CgroupLimits {
    /// Whether there is any limit.
    pub fn is_limited(&self) -> bool {
        self.quota_us.is_some() || self.memory_bytes.is_some() || self.cpus.is_some() || !self.io.is_empty()
    }

    /// In v1 each controller has a hierarchy, in which the group has the same path.
    pub fn merge(&mut self, other: CgroupLimits) {
        self.quota_us = self.quota_us.or(other.quota_us);
        self.period_us = self.period_us.or(other.period_us);
        self.memory_bytes = self.memory_bytes.or(other.memory_bytes);
        self.cpus = self.cpus.take().or(other.cpus);
        if self.io.is_empty() {
            self.io = other.io;
        }
        let (places, others) = (&mut self.directories, other.directories);
        places.cpu = places.cpu.take().or(others.cpu);
        places.cpuacct = places.cpuacct.take().or(others.cpuacct);
        places.memory = places.memory.take().or(others.memory);
        places.cpuset = places.cpuset.take().or(others.cpuset);
        places.io = places.io.take().or(others.io);
    }
}

/// A group that has a limit, with its open files.
#[derive(Debug)]
pub struct Group {
    id: CgroupId,
    limits: CgroupLimits,
    cpu_stat: Option<FileHandle>,
    cpu_usage: Option<FileHandle>,
    memory_usage: Option<FileHandle>,
    /// Throttled periods, memory limit hits and I/O operations at the last reading.
    limit_counters: [Option<Counter>; 3],
    /// One of these grew, or the group is near its memory limit.
    is_constrained: bool,
    is_throttled: bool,
    was_near_limit: bool,
    /// Its OOM kills, and those of the host when they were read: they change together.
    oom_counts: Option<(OomCounts, Counter)>,
}

/// `Cgroup::oom_kills` and `Cgroup::limit_ooms`.
#[derive(Clone, Copy, Debug, Default)]
struct OomCounts {
    kills: Option<Counter>,
    limit_ooms: Option<Counter>,
}

impl Group {
    pub fn new(id: CgroupId, limits: CgroupLimits) -> Group {
        let memory_usage = match id.version {
            CgroupVersion::V1 => "memory.usage_in_bytes",
            CgroupVersion::V2 => "memory.current",
        };
        let kept = |directory: &Option<PathBuf>, file: &str| directory.as_ref().map(|path| FileHandle::new(path.join(file)));
        Group {
            cpu_stat: kept(&limits.directories.cpu, "cpu.stat"),
            cpu_usage: kept(&limits.directories.cpuacct, "cpuacct.usage"),
            memory_usage: kept(&limits.directories.memory, memory_usage),
            id,
            limits,
            limit_counters: [None; 3],
            is_constrained: false,
            is_throttled: false,
            was_near_limit: false,
            oom_counts: None,
        }
    }

    pub fn id(&self) -> &CgroupId {
        &self.id
    }

    /// Whether a limit took effect between the last two readings, or the group is near its memory limit.
    pub fn is_constrained(&self) -> bool {
        self.is_constrained
    }

    /// Whether its CPU quota throttled it between the last two readings.
    pub fn is_throttled(&self) -> bool {
        self.is_throttled
    }

    /// Takes over the open files and the name of the same group from an earlier walk.
    pub fn inherit_from(&mut self, older: &mut Group) {
        self.id = older.id.clone();
        (self.is_constrained, self.is_throttled) = (older.is_constrained, older.is_throttled);
        (self.limit_counters, self.was_near_limit, self.oom_counts) =
            (older.limit_counters, older.was_near_limit, older.oom_counts);
        if self.limits.directories == older.limits.directories {
            self.cpu_stat = older.cpu_stat.take();
            self.cpu_usage = older.cpu_usage.take();
            self.memory_usage = older.memory_usage.take();
        }
    }

    /// Closes its files until the next reading.
    pub fn close_files(&mut self) {
        for file in [&mut self.cpu_stat, &mut self.cpu_usage, &mut self.memory_usage].into_iter().flatten() {
            file.close();
        }
    }

    /// The group's counters, and its I/O on devices where it is limited (into `io`). `None` when its files are gone, or belong
    /// to another group that now has its name: the next walk finds that one, and no interval spans both.
    /// `host_kills`: oom_kill of /proc/vmstat, if the kernel has it.
    pub fn sample(
        &mut self,
        root: &Root,
        host_kills: Option<Counter>,
        buffer: &mut Vec<u8>,
        io: &mut Vec<IoLimit>,
    ) -> Option<Cgroup> {
        let before = io.len();
        let mut cgroup = Cgroup {
            quota_us: self.limits.quota_us,
            period_us: self.limits.period_us,
            memory_limit_bytes: self.limits.memory_bytes,
            ..Cgroup::new(self.id.clone())
        };
        let (mut alive, mut another) = (false, false);
        let mut read = |file: &mut Option<FileHandle>, buffer: &mut Vec<u8>| {
            let Some(file) = file else { return false };
            let done = file.read(root, buffer).is_ok();
            alive |= done;
            another |= file.take_was_replaced();
            done
        };
        if read(&mut self.cpu_stat, buffer) {
            parse_cpu_stat(buffer, &mut cgroup);
        }
        if read(&mut self.cpu_usage, buffer) {
            cgroup.usage_ns = parse_single_u64(buffer).map(Counter);
        }
        if read(&mut self.memory_usage, buffer) {
            cgroup.memory_usage_bytes = parse_single_u64(buffer);
        }
        let mut files = GroupFiles { root, buffer, version: self.id.version };
        let near = is_near_limit(&cgroup);
        // An OOM kill moves the group away from its limit: it is read once more.
        if let Some(directory) = self.limits.directories.memory.as_ref().filter(|_| near || self.was_near_limit) {
            files.read_memory(directory, &mut cgroup);
        }
        self.was_near_limit = near;
        if let Some(directory) = self.limits.directories.memory.as_ref().filter(|_| near || host_kills.is_some()) {
            // A group is far from its limit after a kill.
            let counts = match self.oom_counts {
                Some((known, then)) if host_kills == Some(then) => known,
                _ => files.read_oom_counts(directory),
            };
            self.oom_counts = host_kills.map(|host| (counts, host));
            (cgroup.oom_kills, cgroup.limit_ooms) = (counts.kills, counts.limit_ooms);
        }
        if let Some(directory) = &self.limits.directories.cpuset {
            cgroup.cpus = files.read_cpus(directory);
            alive |= cgroup.cpus.is_some();
        }
        if let Some(directory) = &self.limits.directories.cpu {
            let stalls = files.read_pressure(directory, "cpu.pressure");
            (cgroup.pressure.cpu_some_us, cgroup.pressure_averages.cpu_some) = stalls.some;
        }
        let mut operations = 0_u64;
        if let Some(directory) = &self.limits.directories.io {
            let stalls = files.read_pressure(directory, "io.pressure");
            (cgroup.pressure.io_some_us, cgroup.pressure_averages.io_some) = stalls.some;
            (cgroup.pressure.io_full_us, cgroup.pressure_averages.io_full) = stalls.full;
            for &(disk, most) in &self.limits.io {
                let Some(done) = files.read_io(directory, disk) else { continue };
                alive = true;
                operations = operations.saturating_add(done.reads.map_or(0, |count| count.0));
                operations = operations.saturating_add(done.writes.map_or(0, |count| count.0));
                io.push(IoLimit { cgroup: self.id.clone(), disk, max: most, stat: done });
            }
        }
        let held_back = [cgroup.throttled_periods, cgroup.memory_limit_hits, Some(Counter(operations))];
        let has_grown = |new: Option<Counter>, old: Option<Counter>| delta(new, old).is_some_and(|more| more > 0);
        let [throttled_before, ..] = self.limit_counters;
        self.is_throttled = has_grown(cgroup.throttled_periods, throttled_before);
        self.is_constrained = near || held_back.iter().zip(self.limit_counters).any(|(new, old)| has_grown(*new, old));
        self.limit_counters = held_back;
        if !alive || another {
            io.truncate(before);
            return None;
        }
        Some(cgroup)
    }
}

/// The files of a group, opened only where it has the limit.
struct GroupFiles<'a> {
    root: &'a Root,
    buffer: &'a mut Vec<u8>,
    version: CgroupVersion,
}

impl GroupFiles<'_> {
    fn read(&mut self, directory: &Path, file: &str) -> Option<&[u8]> {
        self.root.read(directory.join(file), self.buffer).ok()?;
        Some(self.buffer)
    }

    /// Page faults, limit hits, pressure.
    fn read_memory(&mut self, directory: &Path, cgroup: &mut Cgroup) {
        if let Some(bytes) = self.read(directory, "memory.stat") {
            parse_memory_stat(bytes, cgroup);
        }
        match self.version {
            CgroupVersion::V1 => {
                cgroup.memory_limit_hits = self.read(directory, "memory.failcnt").and_then(parse_single_u64).map(Counter);
            }
            CgroupVersion::V2 => {
                let both = |bytes: &[u8]| {
                    let (high, max) = (parse_named_counter(bytes, b"high")?, parse_named_counter(bytes, b"max")?);
                    high.0.checked_add(max.0).map(Counter)
                };
                // The group's own, without those of its descendants.
                cgroup.memory_limit_hits = self.read(directory, "memory.events.local").and_then(both);
                if cgroup.memory_limit_hits.is_none() {
                    cgroup.memory_limit_hits = self.read(directory, "memory.events").and_then(both);
                }
                let stalls = self.read_pressure(directory, "memory.pressure");
                (cgroup.pressure.memory_some_us, cgroup.pressure_averages.memory_some) = stalls.some;
                (cgroup.pressure.memory_full_us, cgroup.pressure_averages.memory_full) = stalls.full;
            }
        }
    }

    fn read_oom_counts(&mut self, directory: &Path) -> OomCounts {
        let file = match self.version {
            CgroupVersion::V1 => "memory.oom_control",
            CgroupVersion::V2 => "memory.events",
        };
        let Some(bytes) = self.read(directory, file) else { return OomCounts::default() };
        let kills = parse_named_counter(bytes, b"oom_kill");
        OomCounts { kills, limit_ooms: parse_named_counter(bytes, b"oom").filter(|_| self.version == CgroupVersion::V2) }
    }

    fn read_cpus(&mut self, directory: &Path) -> Option<Name> {
        let file = effective_cpus_file(self.version);
        self.read(directory, file).and_then(parse_single_line)
    }

    /// The lines `some` and `full`.
    fn read_pressure(&mut self, directory: &Path, file: &str) -> Stalls {
        if self.version == CgroupVersion::V1 {
            return Stalls::default();
        }
        let stall = self.read(directory, file).and_then(parse_pressure).unwrap_or_default();
        let line = |line: Option<StallLine>| line.map(|line| (line.total_us, averages(line))).unzip();
        Stalls { some: line(stall.some), full: line(stall.full) }
    }

    fn read_io(&mut self, directory: &Path, disk: DiskId) -> Option<IoStat> {
        match self.version {
            CgroupVersion::V2 => self.read(directory, "io.stat").map(|bytes| parse_io_stat(bytes, disk)),
            CgroupVersion::V1 => {
                let (reads, writes) = parse_io_serviced(self.read(directory, "blkio.throttle.io_serviced")?, disk);
                let (read_bytes, write_bytes) =
                    parse_io_serviced(self.read(directory, "blkio.throttle.io_service_bytes")?, disk);
                Some(IoStat { read_bytes, write_bytes, reads, writes })
            }
        }
    }
}

/// The lines of a pressure file: total and averages.
#[derive(Default)]
struct Stalls {
    some: (Option<Counter>, Option<StallAverages>),
    full: (Option<Counter>, Option<StallAverages>),
}

fn averages(line: StallLine) -> StallAverages {
    let hundredths = |percent: f32| (f64::from(percent) * 100.0).round().min(10_000.0) as u16;
    StallAverages { avg10: hundredths(line.avg10), avg60: hundredths(line.avg60), avg300: hundredths(line.avg300) }
}

/// The file with the CPUs that the group's tasks may use.
pub fn effective_cpus_file(version: CgroupVersion) -> &'static str {
    match version {
        CgroupVersion::V1 => "cpuset.effective_cpus",
        CgroupVersion::V2 => "cpuset.cpus.effective",
    }
}

fn is_near_limit(cgroup: &Cgroup) -> bool {
    let (Some(usage), Some(limit)) = (cgroup.memory_usage_bytes, cgroup.memory_limit_bytes) else { return false };
    usage / NEAR_LIMIT_PERCENT >= limit / 100
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc_tree::ProcTree;

    #[test]
    fn a_group_that_is_not_read_after_a_walk_is_throttled_as_before() {
        let tree = ProcTree::empty();
        let id = CgroupId { version: CgroupVersion::V2, path: "/lab".into() };
        let group = || {
            let directories = ControllerDirectories { cpu: Some(PathBuf::from("lab")), ..ControllerDirectories::default() };
            Group::new(id.clone(), CgroupLimits { directories, ..CgroupLimits::default() })
        };
        let mut known = group();
        for periods in [7, 8] {
            let text = format!("usage_usec 1\nnr_periods {periods}\nnr_throttled {periods}\nthrottled_usec {periods}\n");
            tree.write("lab/cpu.stat", text);
            known.sample(&tree.root(), None, &mut Vec::new(), &mut Vec::new()).unwrap();
        }
        let mut found = group();
        found.inherit_from(&mut known);
        assert!(known.is_throttled() && found.is_throttled());
    }
}
