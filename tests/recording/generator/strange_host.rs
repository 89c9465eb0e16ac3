//! CPUs, memory, disks, cgroups and limits of strange samples.

use std::sync::Arc;

use stalltop::ids::{CgroupId, CgroupVersion, DiskId};
use stalltop::sample::block_latencies::LatencyBucket;
use stalltop::sample::cgroup::owner::ContainerRuntime;
use stalltop::sample::cgroup::{
    Cgroup, CgroupPressure, CgroupPressureAverages, ContainerName, IoLimit, IoMax, IoStat, StallAverages,
};
use stalltop::sample::cpu::CpuTimes;
use stalltop::sample::disk::{Disk, DiskFacts, OpCounters, Operation};
use stalltop::sample::limits::{Limit, LimitKind};
use stalltop::sample::memory::Memory;
use stalltop::sample::pressure::{Stall, StallLine};

use super::dice::Dice;
use super::strange_network::socket_address;
use super::strange_tasks::process_id;

pub fn cpu_times(d: &mut Dice) -> CpuTimes {
    CpuTimes {
        user_ticks: d.counter(),
        nice_ticks: d.counter(),
        system_ticks: d.counter(),
        idle_ticks: d.counter(),
        iowait_ticks: d.counter(),
        irq_ticks: d.counter(),
        softirq_ticks: d.counter(),
        steal_ticks: d.maybe(Dice::counter),
        guest_ticks: d.maybe(Dice::counter),
        guest_nice_ticks: d.maybe(Dice::counter),
    }
}

pub fn memory(d: &mut Dice) -> Memory {
    Memory {
        total_kb: d.maybe(Dice::u64),
        free_kb: d.maybe(Dice::u64),
        available_kb: d.maybe(Dice::u64),
        buffers_kb: d.maybe(Dice::u64),
        cached_kb: d.maybe(Dice::u64),
        shmem_kb: d.maybe(Dice::u64),
        slab_reclaimable_kb: d.maybe(Dice::u64),
        slab_unreclaimable_kb: d.maybe(Dice::u64),
        swap_total_kb: d.maybe(Dice::u64),
        swap_free_kb: d.maybe(Dice::u64),
        dirty_kb: d.maybe(Dice::u64),
        writeback_kb: d.maybe(Dice::u64),
        swapped_in_pages: d.maybe(Dice::counter),
        swapped_out_pages: d.maybe(Dice::counter),
        paged_in_kb: d.maybe(Dice::counter),
        paged_out_kb: d.maybe(Dice::counter),
        faults: d.maybe(Dice::counter),
        major_faults: d.maybe(Dice::counter),
        scanned_kswapd_pages: d.maybe(Dice::counter),
        scanned_direct_pages: d.maybe(Dice::counter),
        reclaimed_pages: d.maybe(Dice::counter),
        refaulted_pages: d.maybe(Dice::counter),
        allocation_stalls: d.maybe(Dice::counter),
        thp_fault_fallbacks: d.maybe(Dice::counter),
        oom_kills: d.maybe(Dice::counter),
        compaction_stalls: d.maybe(Dice::counter),
        dirty_threshold_pages: d.maybe(Dice::u64),
        dirty_background_threshold_pages: d.maybe(Dice::u64),
    }
}

pub fn stall(d: &mut Dice) -> Stall {
    let line = |d: &mut Dice| StallLine {
        avg10: d.small_float(),
        avg60: d.small_float(),
        avg300: d.small_float(),
        total_us: d.counter(),
    };
    Stall { some: d.maybe(line), full: d.maybe(line) }
}

pub fn disk(d: &mut Dice) -> Disk {
    Disk {
        id: disk_id(d),
        name: d.name(),
        facts: Arc::new(DiskFacts {
            rotational: d.maybe(Dice::bool),
            scheduler: d.maybe(Dice::name),
            model: d.maybe(Dice::name),
            serial: d.maybe(Dice::name),
            size_bytes: d.maybe(Dice::u64),
            backing_file: d.maybe(Dice::name),
            sysfs_path: d.maybe(Dice::name),
            slaves: d.list(3, disk_id),
            partitions: d.list(3, disk_id),
            mount_points: d.list(3, Dice::name),
            suspended: d.maybe(Dice::bool),
            timeout_s: d.maybe(Dice::u64),
            sync_action: d.maybe(Dice::name),
        }),
        reads: operations(d),
        writes: operations(d),
        discards: d.maybe(operations),
        flushes: d.maybe(Dice::counter),
        flush_time_ms: d.maybe(Dice::counter),
        in_flight: d.u32(),
        io_ticks_ms: d.counter(),
        time_in_queue_ms: d.counter(),
    }
}

pub fn disk_id(d: &mut Dice) -> DiskId {
    DiskId { major: d.u32(), minor: d.u32() }
}

fn operations(d: &mut Dice) -> OpCounters {
    OpCounters { completed: d.counter(), merged: d.counter(), sectors: d.counter(), time_ms: d.counter() }
}

pub fn latency_bucket(d: &mut Dice) -> LatencyBucket {
    let operations = [Operation::Read, Operation::Write, Operation::Flush, Operation::Discard];
    LatencyBucket {
        disk: DiskId { major: d.u32(), minor: d.u32() },
        operation: operations[d.below(4) as usize],
        bucket: d.below(256) as u8,
        completed: d.counter(),
        sequential: d.counter(),
        queued: d.counter(),
        on_device: d.counter(),
    }
}

pub fn cgroup(d: &mut Dice) -> Cgroup {
    Cgroup {
        id: cgroup_id(d),
        quota_us: d.maybe(Dice::u64),
        period_us: d.maybe(Dice::u64),
        periods: d.maybe(Dice::counter),
        throttled_periods: d.maybe(Dice::counter),
        throttled_ns: d.maybe(Dice::counter),
        usage_ns: d.maybe(Dice::counter),
        memory_limit_bytes: d.maybe(Dice::u64),
        memory_usage_bytes: d.maybe(Dice::u64),
        refaulted_pages: d.maybe(Dice::counter),
        major_faults: d.maybe(Dice::counter),
        memory_limit_hits: d.maybe(Dice::counter),
        oom_kills: d.maybe(Dice::counter),
        limit_ooms: d.maybe(Dice::counter),
        cpus: d.maybe(Dice::name),
        pressure: CgroupPressure {
            cpu_some_us: d.maybe(Dice::counter),
            io_some_us: d.maybe(Dice::counter),
            io_full_us: d.maybe(Dice::counter),
            memory_some_us: d.maybe(Dice::counter),
            memory_full_us: d.maybe(Dice::counter),
        },
        pressure_averages: CgroupPressureAverages {
            cpu_some: d.maybe(averages),
            io_some: d.maybe(averages),
            io_full: d.maybe(averages),
            memory_some: d.maybe(averages),
            memory_full: d.maybe(averages),
        },
    }
}

pub fn cgroup_id(d: &mut Dice) -> CgroupId {
    CgroupId { version: if d.bool() { CgroupVersion::V1 } else { CgroupVersion::V2 }, path: d.name() }
}

fn averages(d: &mut Dice) -> StallAverages {
    let [avg10, avg60, avg300] = [d.u32() as u16, d.u32() as u16, d.u32() as u16];
    StallAverages { avg10, avg60, avg300 }
}

pub fn container_name(d: &mut Dice) -> ContainerName {
    ContainerName {
        id: d.name(),
        runtime: if d.bool() { ContainerRuntime::Podman } else { ContainerRuntime::Containerd },
        name: d.name(),
        pod_uid: d.maybe(Dice::name),
        pod: d.maybe(Dice::name),
        namespace: d.maybe(Dice::name),
    }
}

pub fn io_limit(d: &mut Dice) -> IoLimit {
    IoLimit {
        cgroup: cgroup_id(d),
        disk: DiskId { major: d.u32(), minor: d.u32() },
        max: IoMax {
            read_bytes: d.maybe(Dice::u64),
            write_bytes: d.maybe(Dice::u64),
            reads: d.maybe(Dice::u64),
            writes: d.maybe(Dice::u64),
        },
        stat: IoStat {
            read_bytes: d.maybe(Dice::counter),
            write_bytes: d.maybe(Dice::counter),
            reads: d.maybe(Dice::counter),
            writes: d.maybe(Dice::counter),
        },
    }
}

pub fn limit(d: &mut Dice) -> Limit {
    const KINDS: [LimitKind; 9] = [
        LimitKind::CgroupTasks,
        LimitKind::OpenFiles,
        LimitKind::HostFiles,
        LimitKind::TrackedConnections,
        LimitKind::LocalPorts,
        LimitKind::HostTasks,
        LimitKind::TaskIds,
        LimitKind::FileSystemSpace,
        LimitKind::FileSystemInodes,
    ];
    Limit {
        kind: KINDS[d.below(9) as usize],
        process: d.maybe(|d| (process_id(d), d.name())),
        cgroup: d.maybe(cgroup_id),
        remote: d.maybe(socket_address),
        used: d.u64(),
        max: d.u64(),
        in_time_wait: d.u64(),
        refused: d.maybe(Dice::counter),
        mount_point: d.maybe(Dice::name),
    }
}
