//! Columns of what the machine as a whole counts: CPU times, memory, pressure, disks, interfaces, protocols, cgroups.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use crate::ids::{CgroupId, CgroupVersion, CpuId, DiskId, NicId, ProcessId};
use crate::recording::payload::cells::{Cells, cells, put_at, take_at};
use crate::recording::payload::strings::{Interner, Names};
use crate::recording::wire::Malformed;
use crate::sample::cgroup::{Cgroup, CgroupPressure, IoLimit, IoMax, IoStat};
use crate::sample::cpu::{CpuTimes, Load};
use crate::sample::disk::{Disk, OpCounters};
use crate::sample::memory::Memory;
use crate::sample::network::{Direction, Listener, Nic, Qdisc, Softnet, Tcp, TcpExt, Udp};
use crate::sample::pressure::{Pressure, Stall, StallLine};

cells! { CpuTimes, 16 {
    user_ticks @ 0, nice_ticks @ 1, system_ticks @ 2, idle_ticks @ 3, iowait_ticks @ 4, irq_ticks @ 5, softirq_ticks @ 6,
    steal_ticks @ 7, guest_ticks @ 9, guest_nice_ticks @ 11,
} }

cells! { Load, 15 { one @ 0, five @ 2, fifteen @ 4, runnable @ 6, entities @ 7 } }

cells! { Memory, 95 {
    total_kb @ 0, free_kb @ 2, available_kb @ 4, buffers_kb @ 6, cached_kb @ 8, shmem_kb @ 10,
    slab_reclaimable_kb @ 12, slab_unreclaimable_kb @ 14, swap_total_kb @ 16, swap_free_kb @ 18,
    dirty_kb @ 20, writeback_kb @ 22,
    swapped_in_pages @ 24, swapped_out_pages @ 26, paged_in_kb @ 28, paged_out_kb @ 30, faults @ 32, major_faults @ 34,
    scanned_kswapd_pages @ 36, scanned_direct_pages @ 38, reclaimed_pages @ 40, refaulted_pages @ 42,
    allocation_stalls @ 44, oom_kills @ 46,
} }

cells! { Pressure, 96 { cpu @ 0, io @ 24, memory @ 48, irq @ 72 } }
cells! { Stall, 23 { some @ 0, full @ 10 } }
cells! { StallLine, 9 { avg10 @ 0, avg60 @ 2, avg300 @ 4, total_us @ 6 } }

cells! { Disk, 40 {
    id @ 0, name @ 2, facts @ 3, in_flight @ 4, io_ticks_ms @ 5, time_in_queue_ms @ 6,
    reads @ 8, writes @ 16, discards @ 24, flushes @ 33, flush_time_ms @ 35,
} }
cells! { OpCounters, 8 { completed @ 0, merged @ 1, sectors @ 2, time_ms @ 3 } }

cells! { Nic, 40 {
    id @ 0, facts @ 2, multicast @ 3, collisions @ 4, carrier_losses @ 5,
    rx @ 8, tx @ 16, rx_missed @ 24, rx_nohandler @ 26, qdisc @ 28,
} }
cells! { Direction, 8 { bytes @ 0, packets @ 1, errors @ 2, dropped @ 3, fifo_errors @ 4 } }
cells! { Qdisc, 8 {
    kind @ 0, backlog_bytes @ 1, backlog_packets @ 2, dropped @ 3, overlimits @ 4, requeues @ 5,
} }

cells! { Tcp, 15 {
    active_opens @ 0, passive_opens @ 1, attempt_fails @ 2, established_resets @ 3, established @ 4,
    segments_in @ 5, segments_out @ 6, segments_retransmitted @ 7, errors_in @ 8, resets_out @ 9,
} }
cells! { TcpExt, 31 {
    listen_overflows @ 0, listen_drops @ 2, syn_retransmits @ 4, timeouts @ 6, lost_retransmits @ 8, backlog_drops @ 10,
} }
cells! { Udp, 15 {
    datagrams_in @ 0, no_ports @ 1, errors_in @ 2, datagrams_out @ 3, receive_buffer_errors @ 4, send_buffer_errors @ 6,
} }
cells! { Listener, 16 { local_address @ 0, accept_queue @ 8, backlog_limit @ 9, owner @ 10 } }
cells! { Softnet, 16 {
    cpu @ 0, processed @ 2, dropped @ 3, time_squeeze @ 4, received_rps @ 5, flow_limited @ 7,
} }

cells! { Cgroup, 48 {
    id @ 0, quota_us @ 2, period_us @ 4, periods @ 6, throttled_periods @ 8, throttled_ns @ 10, usage_ns @ 12,
    memory_limit_bytes @ 14, memory_usage_bytes @ 16, refaulted_pages @ 18, major_faults @ 20,
    memory_limit_hits @ 22, oom_kills @ 24, cpus @ 26, pressure @ 28,
} }
cells! { CgroupPressure, 12 {
    cpu_some_us @ 0, io_some_us @ 2, io_full_us @ 4, memory_some_us @ 6, memory_full_us @ 8,
} }
cells! { IoLimit, 24 { cgroup @ 0, disk @ 2, max @ 4, stat @ 12 } }
cells! { IoMax, 8 { read_bytes @ 0, write_bytes @ 2, reads @ 4, writes @ 6 } }
cells! { IoStat, 8 { read_bytes @ 0, write_bytes @ 2, reads @ 4, writes @ 6 } }

cells! { DiskId, 2 { major @ 0, minor @ 1 } }
cells! { NicId, 2 { ifindex @ 0, name @ 1 } }
cells! { CgroupId, 2 { version @ 0, path @ 1 } }
cells! { ProcessId, 2 { pid @ 0, start_ticks @ 1 } }

impl Cells for CpuId {
    const WIDTH: usize = 1;

    fn put(&self, row: &mut [u64], strings: &mut Interner) {
        self.0.put(row, strings);
    }

    fn take(row: &[u64], names: &Names<'_>) -> Result<Self, Malformed> {
        u32::take(row, names).map(CpuId)
    }
}

impl Cells for CgroupVersion {
    const WIDTH: usize = 1;

    fn put(&self, row: &mut [u64], strings: &mut Interner) {
        let number: u64 = match self {
            CgroupVersion::V1 => 1,
            CgroupVersion::V2 => 2,
        };
        number.put(row, strings);
    }

    fn take(row: &[u64], names: &Names<'_>) -> Result<Self, Malformed> {
        match u64::take(row, names)? {
            1 => Ok(CgroupVersion::V1),
            2 => Ok(CgroupVersion::V2),
            _ => Err(Malformed("a cgroup version is neither 1 nor 2")),
        }
    }
}

/// Family (4 or 6), the address in two halves, port, flow label, scope.
impl Cells for SocketAddr {
    const WIDTH: usize = 6;

    fn put(&self, row: &mut [u64], strings: &mut Interner) {
        let (family, address, flow, scope) = match self {
            SocketAddr::V4(v4) => (4u64, u128::from(v4.ip().to_bits()), 0, 0),
            SocketAddr::V6(v6) => (6, v6.ip().to_bits(), v6.flowinfo(), v6.scope_id()),
        };
        let halves = [(address >> 64) as u64, address as u64];
        put_at(&family, row, 0, strings);
        put_at(&halves, row, 1, strings);
        put_at(&self.port(), row, 3, strings);
        put_at(&flow, row, 4, strings);
        put_at(&scope, row, 5, strings);
    }

    fn take(row: &[u64], names: &Names<'_>) -> Result<Self, Malformed> {
        let [high, low]: [u64; 2] = take_at(row, 1, names)?;
        let port: u16 = take_at(row, 3, names)?;
        match take_at::<u64>(row, 0, names)? {
            4 => {
                let bits = u32::try_from(low).map_err(|_| Malformed("an IPv4 address is too long"))?;
                Ok(SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::from_bits(bits), port)))
            }
            6 => {
                let address = Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low));
                let (flow, scope) = (take_at(row, 4, names)?, take_at(row, 5, names)?);
                Ok(SocketAddr::V6(SocketAddrV6::new(address, port, flow, scope)))
            }
            // A family of a later version: keep the socket, not its address.
            _ => Ok(SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port)),
        }
    }
}
