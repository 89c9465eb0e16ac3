//! Disks, cgroups and limits of the machine of a scenario, as a sample shows them.

use stalltop::ids::DiskId;
use stalltop::sample::block_latencies::BlockLatencies;
use stalltop::sample::cgroup::{Cgroup, CgroupPressure, IoLimit, IoMax, IoStat};
use stalltop::sample::disk::Operation::{Flush, Read, Write};
use stalltop::sample::disk::{Disk, DiskFacts, OpCounters};
use stalltop::sample::limits::{Limit, LimitKind};
use stalltop::sample::{Absent, Name, Reading};
use stalltop::units::Counter;

use super::Machine;
use super::growth::operations;
use crate::format::{self, Phase};
use crate::synthetic;

impl Machine {
    pub(super) fn disk(&self, phase: &Phase, disk: &format::Disk) -> Disk {
        let name = &disk.name;
        let op = |word: &str| OpCounters {
            completed: self.read(&format!("disk {name} {word}")),
            merged: Counter(0),
            sectors: self.read(&format!("disk {name} {word} sectors")),
            time_ms: self.read(&format!("disk {name} {word} ms")),
        };
        let id = disk_id(phase, name);
        synthetic::disk(name.as_str())
            .id(id.major, id.minor)
            .facts(DiskFacts {
                rotational: disk.rotational,
                serial: disk.serial.as_deref().map(Name::from),
                suspended: disk.suspended,
                timeout_s: disk.timeout,
                sync_action: disk.sync_action.as_deref().map(Name::from),
                slaves: disk.stands_on.iter().map(|below| disk_id(phase, below)).collect(),
                ..DiskFacts::default()
            })
            .reads(op("reads"))
            .writes(op("writes"))
            .flushes(self.read(&format!("disk {name} flushes")).0, self.read(&format!("disk {name} flushes ms")).0)
            .in_flight(disk.in_flight)
            .busy_ms(self.read(&format!("disk {name} busy")).0, self.read(&format!("disk {name} queue")).0)
            .with(|disk| disk.discards = Some(OpCounters::default()))
            .build()
    }

    /// The histograms of the disks with measured requests; none where no disk has any.
    pub(super) fn block_latencies(&self, phase: &Phase) -> Reading<BlockLatencies> {
        let mut buckets = Vec::new();
        for disk in &phase.disk {
            for ((word, op), operation) in operations(disk).into_iter().zip([Read, Write, Flush]) {
                if op.is_none_or(|op| op.measured.is_empty()) {
                    continue;
                }
                for bucket in 0..=u8::MAX {
                    let completed = self.read(&format!("disk {} {word} bucket {bucket}", disk.name));
                    let disk = disk_id(phase, &disk.name);
                    let row = synthetic::latency_bucket(disk, operation, bucket, completed.0);
                    buckets.extend((completed.0 > 0).then_some(row));
                }
            }
        }
        buckets.sort_by_key(|row| (row.disk, row.operation, row.bucket));
        let is_measured =
            |disk: &format::Disk| operations(disk).iter().any(|(_, op)| op.is_some_and(|op| !op.measured.is_empty()));
        match phase.disk.iter().any(is_measured) {
            true => Ok(BlockLatencies { since_boottime_ns: 1, buckets }),
            false => Err(Absent::NotRead),
        }
    }

    pub(super) fn cgroup(&self, group: &format::Cgroup) -> Cgroup {
        let path = &group.path;
        let read = |word: &str| Some(self.read(&format!("cgroup {path} {word}")));
        Cgroup {
            quota_us: group.quota_cpus.map(|cpus| (cpus * 100_000.0) as u64),
            period_us: Some(100_000),
            periods: read("periods"),
            throttled_periods: read("throttled periods"),
            throttled_ns: read("throttled"),
            usage_ns: read("used"),
            memory_limit_bytes: group.memory_limit_mib.map(|mib| mib << 20),
            memory_usage_bytes: Some(group.memory_used_mib << 20),
            refaulted_pages: read("refaults"),
            major_faults: read("major"),
            memory_limit_hits: group.limit_hits.is_some().then(|| self.read(&format!("cgroup {path} hits"))),
            oom_kills: group.oom_kills.is_some().then(|| self.read(&format!("cgroup {path} oom"))),
            limit_ooms: group.limit_ooms.is_some().then(|| self.read(&format!("cgroup {path} limit oom"))),
            cpus: group.cpus.as_deref().map(Name::from),
            pressure: CgroupPressure {
                memory_some_us: group.memory_stall.and_then(|_| read("memory stall")),
                ..CgroupPressure::default()
            },
            ..Cgroup::new(synthetic::cgroup_id(path))
        }
    }

    pub(super) fn io_limits(&self, phase: &Phase, group: &format::Cgroup) -> Vec<IoLimit> {
        let path = &group.path;
        let limit = |limit: &format::IoLimit| IoLimit {
            cgroup: synthetic::cgroup_id(path),
            disk: disk_id(phase, &limit.disk),
            max: IoMax { reads: limit.most_reads, writes: limit.most_writes, ..IoMax::default() },
            stat: IoStat {
                reads: Some(self.read(&format!("cgroup {path} {} reads", limit.disk))),
                writes: Some(self.read(&format!("cgroup {path} {} writes", limit.disk))),
                ..IoStat::default()
            },
        };
        group.io.iter().map(limit).collect()
    }

    pub(super) fn limit(&self, limit: &format::Limit) -> Limit {
        let kind = match limit.kind.as_str() {
            "cgroup-tasks" => LimitKind::CgroupTasks,
            "open-files" => LimitKind::OpenFiles,
            "host-files" => LimitKind::HostFiles,
            "tracked-connections" => LimitKind::TrackedConnections,
            "local-ports" => LimitKind::LocalPorts,
            "host-tasks" => LimitKind::HostTasks,
            "task-ids" => LimitKind::TaskIds,
            "neighbours" => LimitKind::Neighbours,
            "committed-memory" => LimitKind::CommittedMemory,
            "tcp-memory" => LimitKind::TcpMemory,
            "file-system-space" => LimitKind::FileSystemSpace,
            "file-system-inodes" => LimitKind::FileSystemInodes,
            other => panic!("{other} is no kind of limit"),
        };
        let owner = |name: &String| (synthetic::process_id(900), Name::from(name.as_str()));
        Limit {
            process: limit.owner.as_ref().map(owner),
            cgroup: limit.cgroup.as_deref().map(synthetic::cgroup_id),
            remote: limit.remote.as_ref().map(|remote| remote.parse().unwrap()),
            in_time_wait: limit.time_wait,
            mount_point: limit.mount_point.as_deref().map(Name::from),
            refused: limit.refused.map(|_| self.read(&format!("refused {}", limit.kind))),
            ..Limit::new(kind, limit.used, limit.max)
        }
    }
}

pub(super) fn disk_id(phase: &Phase, name: &str) -> DiskId {
    let at = phase.disk.iter().position(|disk| disk.name == name).unwrap_or_else(|| panic!("no disk {name} in this phase"));
    DiskId { major: 8, minor: u32::try_from(at).unwrap() * 16 }
}
