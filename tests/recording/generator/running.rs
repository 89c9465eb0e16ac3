//! A machine that is simply running: its counters move as those of a real one do, by random amounts.

use std::sync::Arc;

use stalltop::ids::{CpuId, DiskId};
use stalltop::sample::cpu::{Cpu, CpuTimes, Load};
use stalltop::sample::disk::{Disk, DiskFacts, OpCounters};
use stalltop::sample::memory::Memory;
use stalltop::sample::network::{Nic, Tcp, TcpExt, Udp};
use stalltop::sample::pressure::{Pressure, Stall, StallLine};
use stalltop::sample::task::{HiddenTasks, Tasks};
use stalltop::sample::{Absent, Instant, Name, Sample, SamplingCost};
use stalltop::units::Counter;

use super::super::synthetic;
use super::dice::Dice;
use super::running_tasks;
use super::running_tasks::plain_process;

/// A machine of which some processes do something each second.
pub struct Machine {
    dice: Dice,
    now: Sample,
    busy: usize,
    cpus: u32,
}

impl Machine {
    /// `busy` of its `processes` do something each second; a few more wake up now and then.
    pub fn new(seed: u64, processes: u32, threads: u32, busy: usize, cpus: u32) -> Machine {
        let mut dice = Dice::new(seed);
        let at = Instant {
            boottime_ns: 987_654_321_000_000,
            monotonic_ns: 987_654_000_000_000,
            realtime_ns: 1_760_000_000_123_456_789,
        };
        let mut now = Sample::empty(at);
        let ticks = |dice: &mut Dice| Counter(dice.below(10_000_000));
        let times = |dice: &mut Dice| CpuTimes {
            user_ticks: ticks(dice),
            nice_ticks: ticks(dice),
            system_ticks: ticks(dice),
            idle_ticks: ticks(dice),
            iowait_ticks: ticks(dice),
            irq_ticks: Counter(0),
            softirq_ticks: ticks(dice),
            steal_ticks: Some(Counter(0)),
            guest_ticks: Some(Counter(0)),
            guest_nice_ticks: Some(Counter(0)),
        };
        now.cpu = Ok(Cpu {
            total: times(&mut dice),
            cpus: (0..cpus).map(|cpu| (CpuId(cpu), times(&mut dice))).collect(),
            context_switches: Some(Counter(123_456_789_012)),
            interrupts: Some(Counter(98_765_432_101)),
            forks: Some(Counter(7_654_321)),
            running: Some(2),
            blocked: Some(0),
        });
        now.load = Ok(Load { one: 1.25, five: 1.01, fifteen: 0.5, runnable: 2, entities: processes });
        now.memory = Ok(Memory {
            swapped_in_pages: Some(Counter(0)),
            swapped_out_pages: Some(Counter(0)),
            total_kb: Some(64 << 20),
            free_kb: Some(7_654_321),
            available_kb: Some(30 << 20),
            buffers_kb: Some(123_456),
            cached_kb: Some(12_345_678),
            swap_total_kb: Some(0),
            swap_free_kb: Some(0),
            dirty_kb: Some(1234),
            writeback_kb: Some(0),
            faults: Some(Counter(98_765_432_109)),
            major_faults: Some(Counter(87_654)),
            paged_in_kb: Some(Counter(876_543_210)),
            paged_out_kb: Some(Counter(876_543_210)),
            ..Memory::default()
        });
        let stall = Stall {
            some: Some(StallLine { avg10: 0.0, avg60: 0.03, avg300: 0.11, total_us: Counter(123_456_789) }),
            full: Some(StallLine { avg10: 0.0, avg60: 0.0, avg300: 0.02, total_us: Counter(12_345_678) }),
        };
        now.pressure = Pressure { cpu: Ok(stall), io: Ok(stall), memory: Ok(stall), irq: Err(Absent::NoSuchFile) };
        now.disks = Ok((0..2)
            .map(|minor| {
                let facts = DiskFacts { rotational: Some(false), size_bytes: Some(1 << 40), ..DiskFacts::default() };
                let disk = synthetic::disk(format!("nvme{minor}n1").as_str()).id(259, minor).facts(facts).flushes(0, 0);
                disk.with(|disk| disk.discards = Some(OpCounters::default())).build()
            })
            .collect());
        now.nics = Ok(["lo", "eth0"].iter().map(|name| plain_nic(name)).collect());
        now.protocols.tcp = Ok(Tcp { segments_in: Counter(98_765_432), segments_out: Counter(87_654_321), ..Tcp::default() });
        now.protocols.tcp_ext = Ok(TcpExt { listen_overflows: Some(Counter(4)), ..TcpExt::default() });
        now.protocols.udp = Ok(Udp { datagrams_in: Counter(9_876_543), ..Udp::default() });
        now.protocols.ip_octets = Ok((Counter(9_876_543_210_987), Counter(8_765_432_109_876)));
        now.protocols.listeners = Ok(Vec::new());
        now.cgroups = Ok(Vec::new());
        let each = (threads / processes.max(1)).max(1);
        now.tasks = Ok(Tasks {
            processes: (1..=processes).map(|pid| Arc::new(plain_process(&mut dice, pid * 7, each))).collect(),
            users: Arc::new([(0, Name::from("root")), (1000, Name::from("ann"))].into_iter().collect()),
            hidden: HiddenTasks::default(),
            read_times: Vec::new(),
            run_times: Vec::new(),
        });
        Machine { dice, now, busy, cpus }
    }

    /// With so many disks and interfaces, of which those of before are the busy ones.
    pub fn with_devices(mut self, disks: usize, nics: usize) -> Machine {
        if let Ok(list) = &mut self.now.disks {
            let model = list[0].clone();
            list.extend((list.len()..disks).map(|minor| Disk {
                id: DiskId { major: 259, minor: minor as u32 },
                name: Name::from(format!("nvme{minor}n1").as_str()),
                ..model.clone()
            }));
        }
        if let Ok(list) = &mut self.now.nics {
            list.extend((list.len()..nics).map(|at| plain_nic(&format!("eth{at}-{}", "x".repeat(at)))));
        }
        self
    }

    /// One second later.
    pub fn next(&mut self) -> Arc<Sample> {
        let Machine { dice: d, now, busy, cpus } = self;
        let jitter = d.below(200_000);
        now.at.boottime_ns += 1_000_000_000 + jitter;
        now.at.monotonic_ns += 1_000_000_000 + jitter;
        now.at.realtime_ns += 1_000_000_000 + i64::try_from(jitter + d.below(50)).unwrap();
        let times_before = now.cpu.as_ref().map(|cpu| cpu.total).unwrap_or_default();
        grow_system(now, d, *busy);
        grow_devices(now, d, *busy);
        running_tasks::run(now, d, *busy, *cpus, times_before);
        now.cost = SamplingCost {
            process_cpu_ns: Counter(now.cost.process_cpu_ns.0 + 10_000_000 + d.below(3_000_000)),
            scan_cpu_ns: 8_000_000 + d.below(1_000_000),
            sub_samples_cpu_ns: 1_000_000 + d.below(100_000),
            start_delay_ns: d.below(100_000),
            tasks_read: *busy as u32,
            skipped_samples: 0,
        };
        Arc::new(now.clone())
    }
}

/// CPU time, load, memory and pressure of one second.
fn grow_system(now: &mut Sample, d: &mut Dice, busy: usize) {
    if let Ok(cpu) = &mut now.cpu {
        let load = busy.min(40) as u64;
        let step = |times: &mut CpuTimes, d: &mut Dice, scale: u64| {
            d.grow(&mut times.user_ticks, (1 + load) * scale);
            d.grow(&mut times.system_ticks, (1 + load / 2) * scale);
            times.idle_ticks.0 += 60 * scale;
            d.grow(&mut times.idle_ticks, 40 * scale);
            d.grow(&mut times.iowait_ticks, load / 8 * scale);
            d.grow(&mut times.softirq_ticks, load.min(1) * scale);
        };
        for (_, times) in &mut cpu.cpus {
            step(times, d, 1);
        }
        step(&mut cpu.total, d, cpu.cpus.len() as u64);
        for (counter, most) in [(&mut cpu.context_switches, 30_000), (&mut cpu.interrupts, 20_000), (&mut cpu.forks, 5)] {
            d.grow(counter.as_mut().unwrap(), most);
        }
        cpu.running = Some(1 + d.below(4) as u32);
    }
    if let Ok(load) = &mut now.load {
        if d.one_in(5) {
            load.one = (load.one * 92.0 + d.below(300) as f64 * 0.08).round() / 100.0;
        }
        load.runnable = 1 + d.below(4) as u32;
    }
    if let Ok(memory) = &mut now.memory {
        memory.free_kb = Some(7_000_000 + d.below(100_000));
        memory.available_kb = Some(30_000_000 + d.below(100_000));
        memory.cached_kb = Some(12_000_000 + d.below(3000));
        memory.dirty_kb = Some(d.below(3000));
        for (counter, most) in [(&mut memory.faults, 20_000), (&mut memory.paged_out_kb, 2000)] {
            d.grow(counter.as_mut().unwrap(), most);
        }
    }
    for resource in [&mut now.pressure.cpu, &mut now.pressure.io] {
        if let Ok(Stall { some: Some(some), full: Some(full) }) = resource {
            some.avg10 = d.below(300) as f32 / 100.0;
            d.grow(&mut some.total_us, 20_000);
            d.grow(&mut full.total_us, 5000);
        }
    }
}

/// Requests and packets of one second.
fn grow_devices(now: &mut Sample, d: &mut Dice, busy: usize) {
    if let Ok(disks) = &mut now.disks {
        for disk in disks.iter_mut().take(busy.min(1)) {
            for operations in [&mut disk.reads, &mut disk.writes] {
                d.grow(&mut operations.completed, 300);
                d.grow(&mut operations.merged, 20);
                d.grow(&mut operations.sectors, 20_000);
                d.grow(&mut operations.time_ms, 900);
            }
            disk.in_flight = d.below(5) as u32;
            d.grow(&mut disk.io_ticks_ms, 500);
            d.grow(&mut disk.time_in_queue_ms, 900);
        }
    }
    if let Ok(nics) = &mut now.nics {
        for nic in nics {
            for direction in [&mut nic.rx, &mut nic.tx] {
                d.grow(&mut direction.bytes, 1_000_000);
                d.grow(&mut direction.packets, 2000);
            }
        }
    }
    if let Ok(tcp) = &mut now.protocols.tcp {
        tcp.segments_in.0 = tcp.segments_in.0.wrapping_add(d.below(3000));
        tcp.segments_out.0 = tcp.segments_out.0.wrapping_add(d.below(3000));
    }
    if let Ok((octets_in, octets_out)) = &mut now.protocols.ip_octets {
        d.grow(octets_in, 1_000_000);
        d.grow(octets_out, 1_000_000);
    }
}

fn plain_nic(name: &str) -> Nic {
    let direction = synthetic::traffic(987_654_321_987, 987_654_321);
    synthetic::nic(name.len() as u32, name)
        .speed_mbps(10_000)
        .facts(|facts| facts.loopback = name == "lo")
        .rx(direction)
        .tx(direction)
        .with(|nic| (nic.rx_missed, nic.rx_nohandler) = (Some(Counter(0)), Some(Counter(0))))
        .build()
}
