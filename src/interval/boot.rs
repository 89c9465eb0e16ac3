//! The time since boot as one interval, as in the first report of vmstat, iostat and mpstat. The kernel counts from 0 at boot,
//! so all counters of the older sample are 0. Figures that do not start at boot (cgroups) or that need sub-samples
//! (idle-but-blocked, queues) are absent.

use std::sync::Arc;

use super::network::LinkOverrides;
use super::{Interval, IntervalContext};
use crate::sample::cpu::{Cpu, CpuTimes};
use crate::sample::disk::{Disk, OpCounters};
use crate::sample::memory::Memory;
use crate::sample::network::{DirectionCounters, Nic, Protocols, Qdisc, Tcp, TcpExt, Udp};
use crate::sample::pressure::{Pressure, Stall, StallLine};
use crate::sample::task::Tasks;
use crate::sample::{Absent, Host, Instant, Reading, Sample};
use crate::units::Counter;

/// The interval from boot to this sample; `None` if its CLOCK_BOOTTIME is 0.
pub fn since_boot(host: &Arc<Host>, links: &LinkOverrides, sample: &Arc<Sample>) -> Option<Interval> {
    let older = Arc::new(zero_sample_at_boot(sample));
    let context = IntervalContext { links: Arc::clone(links), ..IntervalContext::default() };
    let mut interval = Interval::with_context(host, &older, sample, context)?;
    interval.idle_blocked = None;
    interval.short_lived = None;
    if let Some(tasks) = &mut interval.tasks {
        // These would cover only tasks that still run.
        (tasks.run_queue_wait, tasks.busy_cpus) = (None, None);
    }
    Some(interval)
}

/// A sample at boot with every counter 0.
fn zero_sample_at_boot(sample: &Sample) -> Sample {
    let up_ns = i64::try_from(sample.at.boottime_ns).unwrap_or(i64::MAX);
    let at = Instant { boottime_ns: 0, monotonic_ns: 0, realtime_ns: sample.at.realtime_ns.saturating_sub(up_ns) };
    Sample {
        cpu: sample.cpu.as_ref().map(cpu).map_err(|why| *why),
        memory: sample.memory.map(memory),
        pressure: pressure(&sample.pressure),
        disks: sample.disks.as_ref().map(|disks| disks.iter().map(disk).collect()).map_err(|why| *why),
        nics: sample.nics.as_ref().map(|nics| nics.iter().map(nic).collect()).map_err(|why| *why),
        protocols: protocols(&sample.protocols),
        tasks: sample.tasks.as_ref().map(|_| Tasks::default()).map_err(|why| *why),
        ..Sample::empty(at)
    }
}

const ZERO: Counter = Counter(0);

/// 0 where it is counted.
fn zeroed(counter: Option<Counter>) -> Option<Counter> {
    counter.map(|_| ZERO)
}

fn cpu(now: &Cpu) -> Cpu {
    let times = |now: &CpuTimes| CpuTimes {
        steal_ticks: zeroed(now.steal_ticks),
        guest_ticks: zeroed(now.guest_ticks),
        guest_nice_ticks: zeroed(now.guest_nice_ticks),
        ..CpuTimes::default()
    };
    Cpu {
        total: times(&now.total),
        cpus: now.cpus.iter().map(|(id, now)| (*id, times(now))).collect(),
        context_switches: zeroed(now.context_switches),
        interrupts: zeroed(now.interrupts),
        forks: zeroed(now.forks),
        running: None,
        blocked: None,
    }
}

fn memory(now: Memory) -> Memory {
    Memory {
        swapped_in_pages: zeroed(now.swapped_in_pages),
        swapped_out_pages: zeroed(now.swapped_out_pages),
        paged_in_kb: zeroed(now.paged_in_kb),
        paged_out_kb: zeroed(now.paged_out_kb),
        faults: zeroed(now.faults),
        major_faults: zeroed(now.major_faults),
        scanned_kswapd_pages: zeroed(now.scanned_kswapd_pages),
        scanned_direct_pages: zeroed(now.scanned_direct_pages),
        reclaimed_pages: zeroed(now.reclaimed_pages),
        refaulted_pages: zeroed(now.refaulted_pages),
        allocation_stalls: zeroed(now.allocation_stalls),
        thp_fault_fallbacks: zeroed(now.thp_fault_fallbacks),
        compaction_stalls: zeroed(now.compaction_stalls),
        oom_kills: zeroed(now.oom_kills),
        ..now
    }
}

fn pressure(now: &Pressure) -> Pressure {
    let line = |now: Option<StallLine>| now.map(|_| StallLine::default());
    let stall = |now: Reading<Stall>| now.map(|now| Stall { some: line(now.some), full: line(now.full) });
    Pressure { cpu: stall(now.cpu), io: stall(now.io), memory: stall(now.memory), irq: stall(now.irq) }
}

fn disk(now: &Disk) -> Disk {
    Disk {
        reads: OpCounters::default(),
        writes: OpCounters::default(),
        discards: now.discards.map(|_| OpCounters::default()),
        flushes: zeroed(now.flushes),
        flush_time_ms: zeroed(now.flush_time_ms),
        io_ticks_ms: ZERO,
        time_in_queue_ms: ZERO,
        ..now.clone()
    }
}

fn nic(now: &Nic) -> Nic {
    let qdisc = |now: &Qdisc| Qdisc {
        dropped: ZERO,
        overlimits: ZERO,
        requeues: ZERO,
        ingress_dropped: zeroed(now.ingress_dropped),
        ..now.clone()
    };
    Nic {
        id: now.id.clone(),
        facts: Arc::clone(&now.facts),
        rx: DirectionCounters::default(),
        tx: DirectionCounters::default(),
        multicast: ZERO,
        collisions: ZERO,
        carrier_losses: ZERO,
        rx_missed: zeroed(now.rx_missed),
        rx_nohandler: zeroed(now.rx_nohandler),
        qdisc: now.qdisc.as_ref().map(qdisc),
    }
}

fn protocols(now: &Protocols) -> Protocols {
    Protocols {
        tcp: now.tcp.map(|_| Tcp::default()),
        tcp_ext: now.tcp_ext.map(|now| TcpExt {
            listen_overflows: zeroed(now.listen_overflows),
            listen_drops: zeroed(now.listen_drops),
            syn_retransmits: zeroed(now.syn_retransmits),
            timeouts: zeroed(now.timeouts),
            lost_retransmits: zeroed(now.lost_retransmits),
            backlog_drops: zeroed(now.backlog_drops),
            syn_cookies_sent: zeroed(now.syn_cookies_sent),
            syn_cookies_received: zeroed(now.syn_cookies_received),
            syn_cookies_failed: zeroed(now.syn_cookies_failed),
            syn_queue_full_cookies: zeroed(now.syn_queue_full_cookies),
            syn_queue_full_drops: zeroed(now.syn_queue_full_drops),
        }),
        udp: now.udp.map(|now| Udp {
            receive_buffer_errors: zeroed(now.receive_buffer_errors),
            send_buffer_errors: zeroed(now.send_buffer_errors),
            ..Udp::default()
        }),
        ip_octets: now.ip_octets.map(|_| (ZERO, ZERO)),
        ..Protocols::absent(Absent::NotRead)
    }
}
