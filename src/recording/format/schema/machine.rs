//! Columns of CPU times, load, memory, pressure, disks, interfaces, protocols and cgroups.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use crate::ids::{CgroupId, CgroupVersion, CpuId, DiskId, NicId, ProcessId};
use crate::recording::format::columns::{Columns, columns, read_at, write_at};
use crate::recording::format::names::{Interner, Names};
use crate::recording::format::wire::{LATER_KIND, Malformed};
use crate::sample::block_latencies::{BlockLatencies, LatencyBucket};
use crate::sample::cgroup::owner::ContainerRuntime;
use crate::sample::cgroup::{
    Cgroup, CgroupPressure, CgroupPressureAverages, CgroupWeight, ContainerName, IoLimit, IoMax, IoStat, StallAverages,
};
use crate::sample::cpu::{Cpu, CpuFrequency, CpuTimes, Load};
use crate::sample::disk::{Disk, OpCounters, Operation};
use crate::sample::limits::{Limit, LimitKind, Limits};
use crate::sample::memory::{Memory, MemoryNode};
use crate::sample::network::{DirectionCounters, Listener, Nic, Qdisc, Softnet, SynQueue, Tcp, TcpExt, Udp};
use crate::sample::operations::Operations;
use crate::sample::pressure::{Pressure, Stall, StallLine};

columns! { CpuTimes: 16 {
    user_ticks,
    nice_ticks,
    system_ticks,
    idle_ticks,
    iowait_ticks,
    irq_ticks,
    softirq_ticks,
    steal_ticks,
    guest_ticks,
    guest_nice_ticks,
} }

columns! { Cpu: 63 { total, context_switches, interrupts, forks, running, blocked, cpus } }

columns! { CpuFrequency: 4 { cpu, khz, max_khz, read_s } }

columns! { Load: 15 { one, five, fifteen, runnable, entities } }

columns! { Memory: 95 {
    total_kb,
    free_kb,
    available_kb,
    buffers_kb,
    cached_kb,
    shmem_kb,
    slab_reclaimable_kb,
    slab_unreclaimable_kb,
    swap_total_kb,
    swap_free_kb,
    dirty_kb,
    writeback_kb,
    swapped_in_pages,
    swapped_out_pages,
    paged_in_kb,
    paged_out_kb,
    faults,
    major_faults,
    scanned_kswapd_pages,
    scanned_direct_pages,
    reclaimed_pages,
    refaulted_pages,
    allocation_stalls,
    oom_kills,
    thp_fault_fallbacks,
    compaction_stalls,
    dirty_threshold_pages,
    dirty_background_threshold_pages,
} }

columns! { MemoryNode: 8 { node, total_kb, free_kb, file_kb, slab_reclaimable_kb } }

columns! { Limits: 4 { has_descriptor_counts, rows, has_unanswered_statfs } }
columns! { Limit: 32 { kind, process, cgroup, remote, used, max, in_time_wait, refused, mount_point } }

impl Columns for LimitKind {
    const WIDTH: usize = 1;

    fn write(&self, row: &mut [u64], names: &mut Interner) {
        let number: u64 = match self {
            LimitKind::CgroupTasks => 0,
            LimitKind::OpenFiles => 1,
            LimitKind::HostFiles => 2,
            LimitKind::TrackedConnections => 3,
            LimitKind::LocalPorts => 4,
            LimitKind::HostTasks => 5,
            LimitKind::TaskIds => 6,
            LimitKind::Neighbours => 7,
            LimitKind::Neighbours6 => 8,
            LimitKind::CommittedMemory => 9,
            LimitKind::TcpMemory => 10,
            LimitKind::FileSystemSpace => 11,
            LimitKind::FileSystemInodes => 12,
        };
        number.write(row, names);
    }

    fn read(row: &[u64], names: &Names<'_>) -> Result<Self, Malformed> {
        match u64::read(row, names)? {
            0 => Ok(LimitKind::CgroupTasks),
            1 => Ok(LimitKind::OpenFiles),
            2 => Ok(LimitKind::HostFiles),
            3 => Ok(LimitKind::TrackedConnections),
            4 => Ok(LimitKind::LocalPorts),
            5 => Ok(LimitKind::HostTasks),
            6 => Ok(LimitKind::TaskIds),
            7 => Ok(LimitKind::Neighbours),
            8 => Ok(LimitKind::Neighbours6),
            9 => Ok(LimitKind::CommittedMemory),
            10 => Ok(LimitKind::TcpMemory),
            11 => Ok(LimitKind::FileSystemSpace),
            12 => Ok(LimitKind::FileSystemInodes),
            _ => Err(LATER_KIND),
        }
    }
}

columns! { Pressure: 96 { cpu, io, memory, irq } }
columns! { Stall: 23 { some, full } }
columns! { StallLine: 9 { avg10, avg60, avg300, total_us } }

columns! { Disk: 40 {
    id,
    name,
    facts,
    in_flight,
    io_ticks_ms,
    time_in_queue_ms,
    reads,
    writes,
    discards,
    flushes,
    flush_time_ms,
} }
columns! { OpCounters: 8 { completed, merged, sectors, time_ms } }

columns! { BlockLatencies: 4 { since_boottime_ns, buckets } }
columns! { LatencyBucket: 12 { disk, operation, bucket, completed, sequential, queued, on_device } }

columns! { Nic: 40 {
    id,
    facts,
    multicast,
    collisions,
    carrier_losses,
    rx,
    tx,
    rx_missed,
    rx_nohandler,
    qdisc,
} }
columns! { DirectionCounters: 8 { bytes, packets, errors, dropped, fifo_errors } }
columns! { Qdisc: 12 {
    kind,
    backlog_bytes,
    backlog_packets,
    dropped,
    overlimits,
    requeues,
    ingress_dropped,
    rate_bytes_per_second,
} }

columns! { Tcp: 15 {
    active_opens,
    passive_opens,
    attempt_fails,
    established_resets,
    established,
    segments_in,
    segments_out,
    segments_retransmitted,
    errors_in,
    resets_out,
} }
columns! { TcpExt: 31 {
    listen_overflows,
    listen_drops,
    syn_retransmits,
    timeouts,
    lost_retransmits,
    backlog_drops,
    syn_cookies_sent,
    syn_cookies_received,
    syn_cookies_failed,
    syn_queue_full_cookies,
    syn_queue_full_drops,
} }
columns! { Udp: 15 {
    datagrams_in,
    no_ports,
    errors_in,
    datagrams_out,
    receive_buffer_errors,
    send_buffer_errors,
} }
columns! { Listener: 16 { local_address, accept_queue, backlog_limit, owner } }
columns! { SynQueue: 24 { local_address, requests, limit, remote_hosts, top_remote_host, top_requests, owner } }
columns! { Softnet: 16 { cpu, processed, dropped, time_squeeze, received_rps, flow_limited } }

columns! { Cgroup: 48 {
    id,
    quota_us,
    period_us,
    periods,
    throttled_periods,
    throttled_ns,
    usage_ns,
    memory_limit_bytes,
    memory_usage_bytes,
    refaulted_pages,
    major_faults,
    memory_limit_hits,
    oom_kills,
    cpus,
    pressure,
    pressure_averages,
    limit_ooms,
} }
columns! { CgroupPressure: 12 { cpu_some_us, io_some_us, io_full_us, memory_some_us, memory_full_us } }
columns! { CgroupWeight: 4 { id, weight } }
columns! { ContainerName: 16 { id, runtime, name, pod_uid, pod, namespace } }
columns! { IoLimit: 24 { cgroup, disk, max, stat } }
columns! { IoMax: 8 { read_bytes, write_bytes, reads, writes } }
columns! { IoStat: 8 { read_bytes, write_bytes, reads, writes } }

columns! { Operations: 2 { total, printed_boottime_ns } }

columns! { DiskId: 2 { major, minor } }
columns! { NicId: 2 { ifindex, name } }
columns! { CgroupId: 2 { version, path } }
columns! { ProcessId: 2 { pid, start_ticks } }

impl Columns for CpuId {
    const WIDTH: usize = 1;

    fn write(&self, row: &mut [u64], names: &mut Interner) {
        self.0.write(row, names);
    }

    fn read(row: &[u64], names: &Names<'_>) -> Result<Self, Malformed> {
        u32::read(row, names).map(CpuId)
    }
}

impl Columns for Operation {
    const WIDTH: usize = 1;

    fn write(&self, row: &mut [u64], names: &mut Interner) {
        let number: u64 = match self {
            Operation::Read => 0,
            Operation::Write => 1,
            Operation::Flush => 2,
            Operation::Discard => 3,
        };
        number.write(row, names);
    }

    fn read(row: &[u64], names: &Names<'_>) -> Result<Self, Malformed> {
        match u64::read(row, names)? {
            0 => Ok(Operation::Read),
            1 => Ok(Operation::Write),
            2 => Ok(Operation::Flush),
            3 => Ok(Operation::Discard),
            _ => Err(LATER_KIND),
        }
    }
}

impl Columns for CgroupVersion {
    const WIDTH: usize = 1;

    fn write(&self, row: &mut [u64], names: &mut Interner) {
        let number: u64 = match self {
            CgroupVersion::V1 => 1,
            CgroupVersion::V2 => 2,
        };
        number.write(row, names);
    }

    fn read(row: &[u64], names: &Names<'_>) -> Result<Self, Malformed> {
        match u64::read(row, names)? {
            1 => Ok(CgroupVersion::V1),
            2 => Ok(CgroupVersion::V2),
            _ => Err(Malformed("a cgroup version is neither 1 nor 2")),
        }
    }
}

/// A column for each line: 0 unknown, else 1 above the three averages in 16 bits each, avg10 lowest.
impl Columns for CgroupPressureAverages {
    const WIDTH: usize = 5;

    fn write(&self, row: &mut [u64], names: &mut Interner) {
        let pack = |line: Option<StallAverages>| {
            line.map_or(0, |line| 1 << 48 | u64::from(line.avg300) << 32 | u64::from(line.avg60) << 16 | u64::from(line.avg10))
        };
        [self.cpu_some, self.io_some, self.io_full, self.memory_some, self.memory_full].map(pack).write(row, names);
    }

    fn read(row: &[u64], names: &Names<'_>) -> Result<Self, Malformed> {
        let unpack = |cell: u64| {
            let part = |shift: u32| (cell >> shift & 0xffff) as u16;
            (cell != 0).then(|| StallAverages { avg10: part(0), avg60: part(16), avg300: part(32) })
        };
        let [cpu_some, io_some, io_full, memory_some, memory_full] = <[u64; 5]>::read(row, names)?.map(unpack);
        Ok(CgroupPressureAverages { cpu_some, io_some, io_full, memory_some, memory_full })
    }
}

impl Columns for ContainerRuntime {
    const WIDTH: usize = 1;

    fn write(&self, row: &mut [u64], names: &mut Interner) {
        let number: u64 = match self {
            ContainerRuntime::Other => 0,
            ContainerRuntime::Docker => 1,
            ContainerRuntime::Containerd => 2,
            ContainerRuntime::CriO => 3,
            ContainerRuntime::Podman => 4,
            ContainerRuntime::Lxc => 5,
        };
        number.write(row, names);
    }

    fn read(row: &[u64], names: &Names<'_>) -> Result<Self, Malformed> {
        Ok(match u64::read(row, names)? {
            1 => ContainerRuntime::Docker,
            2 => ContainerRuntime::Containerd,
            3 => ContainerRuntime::CriO,
            4 => ContainerRuntime::Podman,
            5 => ContainerRuntime::Lxc,
            _ => ContainerRuntime::Other,
        })
    }
}

/// Family (4 or 6), the address in two halves, port, flow label, scope.
impl Columns for SocketAddr {
    const WIDTH: usize = 6;

    fn write(&self, row: &mut [u64], names: &mut Interner) {
        let (family, address, flow, scope) = match self {
            SocketAddr::V4(v4) => (4u64, u128::from(v4.ip().to_bits()), 0, 0),
            SocketAddr::V6(v6) => (6, v6.ip().to_bits(), v6.flowinfo(), v6.scope_id()),
        };
        let halves = [(address >> 64) as u64, address as u64];
        write_at(&family, row, 0, names);
        write_at(&halves, row, 1, names);
        write_at(&self.port(), row, 3, names);
        write_at(&flow, row, 4, names);
        write_at(&scope, row, 5, names);
    }

    fn read(row: &[u64], names: &Names<'_>) -> Result<Self, Malformed> {
        let [high, low]: [u64; 2] = read_at(row, 1, names)?;
        let port: u16 = read_at(row, 3, names)?;
        match read_at::<u64>(row, 0, names)? {
            4 => {
                let bits = u32::try_from(low).map_err(|_| Malformed("an IPv4 address is too long"))?;
                Ok(SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::from_bits(bits), port)))
            }
            6 => {
                let address = Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low));
                let (flow, scope) = (read_at(row, 4, names)?, read_at(row, 5, names)?);
                Ok(SocketAddr::V6(SocketAddrV6::new(address, port, flow, scope)))
            }
            // An unknown address family of a later version: the socket without its address.
            _ => Ok(SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port)),
        }
    }
}
