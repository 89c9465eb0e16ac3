//! The machine of a scenario: keeps cumulative counters as a kernel does, and makes samples of them. `synthetic` builds their
//! rows; this is what the words of a scenario file mean.

mod connections;
mod devices;
mod growth;
mod owners;
mod tasks;
mod thread_waits;
mod waits;

use std::collections::BTreeMap;
use std::sync::Arc;

use owners::{add_owners, add_socket_waiters};
use stalltop::ids::CpuId;
use stalltop::sample::cgroup::owner::ContainerRuntime;
use stalltop::sample::cgroup::{CgroupWeight, ContainerName};
use stalltop::sample::cpu::{Cpu, CpuFrequency, CpuTimes, Load};
use stalltop::sample::host::{Host, Privilege};
use stalltop::sample::limits::Limits;
use stalltop::sample::memory::{Memory, MemoryNode};
use stalltop::sample::network::remote_hosts::RemoteHosts;
use stalltop::sample::pressure::{Stall, StallLine};
use stalltop::sample::waits::{SubSample, Waits};
use stalltop::sample::{Absent, Instant, Name, Sample};
use stalltop::units::Counter;
use tasks::groups;
use thread_waits::queuing;
use waits::{
    add_core_dumps, add_ipc_peers, add_pipes, add_queues, add_tracers, add_unread_connections, add_unread_sockets, rows,
};

use crate::format::{self, Case, Phase};
use crate::network::Network;
use crate::synthetic;

const TICKS: f64 = 100.0;
const SUB_SAMPLES: u32 = 10;
const PAGE: f64 = 4096.0;

/// Counters by name, such as `disk sdb reads`; whole numbers only when read, so that fractions are not lost.
#[derive(Default)]
pub struct Machine {
    counters: BTreeMap<String, f64>,
    boottime_ns: u64,
    monotonic_ns: u64,
    cpus: u32,
    hidepid: bool,
    hypervisor: Option<bool>,
    samples: u32,
    /// The last scan of the connections
    peers: Option<RemoteHosts>,
}

impl Machine {
    pub fn new(case: &Case) -> Machine {
        let &Case { cpus, hidepid, hypervisor, .. } = case;
        Machine {
            cpus,
            hidepid,
            hypervisor,
            boottime_ns: 1_000_000_000_000,
            monotonic_ns: 1_000_000_000_000,
            ..Machine::default()
        }
    }

    pub fn host(&self) -> Arc<Host> {
        Arc::new(Host {
            hostname: "scenario".into(),
            boot_time_s: Some(1_700_000_000),
            privilege: Privilege {
                effective_uid: 0,
                has_cap_sys_ptrace: !self.hidepid,
                delay_accounting: Ok(false),
                hidepid: self.hidepid,
            },
            has_hypervisor: self.hypervisor,
            ..synthetic::host()
        })
    }

    /// Time passes and nothing is counted.
    pub fn skip(&mut self, seconds: f64) {
        self.boottime_ns += (seconds * 1e9) as u64;
        self.monotonic_ns += (seconds * 1e9) as u64;
    }

    /// What a sample shows before anything has passed.
    pub fn first(&self, phase: &Phase) -> Arc<Sample> {
        Arc::new(self.sample(phase, Waits::default()))
    }

    /// One interval of a phase passes; the sample at its end.
    pub fn interval(&mut self, phase: &Phase, index: u32) -> Arc<Sample> {
        let mut waits = Waits { groups: groups(phase), ..Waits::default() };
        if index == 0 && phase.suspended_seconds > 0.0 {
            self.boottime_ns += (phase.suspended_seconds * 1e9) as u64;
        }
        for sub_sample in 0..SUB_SAMPLES {
            self.pass(phase, phase.seconds / f64::from(SUB_SAMPLES));
            waits.sub_samples.push(SubSample {
                boottime_ns: self.boottime_ns,
                cpu: Some(self.cpu().total),
                in_flight: Some(phase.disk.iter().map(|disk| disk.in_flight).sum()),
                waits: rows(phase, &waits.groups, sub_sample),
            });
        }
        if index == 0 {
            self.add("oom", phase.memory.as_ref().map_or(0.0, |memory| memory.oom_kills as f64));
            for group in &phase.cgroup {
                self.add(&format!("cgroup {} oom", group.path), group.oom_kills.unwrap_or(0) as f64);
                self.add(&format!("cgroup {} limit oom", group.path), group.limit_ooms.unwrap_or(0) as f64);
            }
        }
        waits.blocked = self.blocked(phase, index, &waits.groups);
        waits.observed = synthetic::waits::observed();
        waits.threads = queuing(phase, &waits.groups);
        add_ipc_peers(phase, &mut waits);
        add_queues(phase, &mut waits);
        add_owners(phase, &mut waits);
        add_socket_waiters(phase, &mut waits);
        add_unread_connections(phase, &mut waits);
        add_unread_sockets(phase, &mut waits);
        add_pipes(phase, &mut waits);
        add_tracers(phase, &mut waits);
        add_core_dumps(phase, &mut waits);
        self.samples += 1;
        if (index + 1).is_multiple_of(phase.connection_scan_interval) {
            self.scan_connections(phase);
        }
        let mut sample = self.sample(phase, waits);
        if let (Ok(tasks), true) = (&mut sample.tasks, index + 1 == phase.intervals) {
            let ended = phase.process.iter().filter(|process| process.ends);
            let ended: Vec<_> = ended.map(|process| process.pid..process.pid + process.count).collect();
            tasks.processes.retain(|process| !ended.iter().any(|pids| pids.contains(&process.pid)));
        }
        Arc::new(sample)
    }

    fn sample(&self, phase: &Phase, waits: Waits) -> Sample {
        let mut sample = synthetic::sample_at(self.at()).build();
        let forks = phase.forks.map(|_| self.read("forks"));
        sample.cpu = Ok(Cpu { forks, running: phase.runnable, ..self.cpu() });
        sample.exits = phase.exits.as_ref().map(|ends| self.exits(phase, ends)).ok_or(Absent::NoPermission);
        sample.load = Ok(Load { one: phase.load, ..Load::default() });
        sample.disks = Ok(phase.disk.iter().map(|disk| self.disk(phase, disk)).collect());
        sample.block_latencies = self.block_latencies(phase);
        sample.tasks = Ok(self.tasks(phase));
        sample.cgroups = Ok(phase.cgroup.iter().map(|group| self.cgroup(group)).collect());
        sample.io_limits = phase.cgroup.iter().flat_map(|group| self.io_limits(phase, group)).collect();
        let weight = |weight: &format::Weight| CgroupWeight { id: synthetic::cgroup_id(&weight.path), weight: weight.weight };
        sample.cgroup_weights = phase.weight.iter().map(weight).collect();
        let container = |container: &format::Container| ContainerName {
            runtime: if container.pod.is_some() { ContainerRuntime::Containerd } else { ContainerRuntime::Docker },
            pod: container.pod.as_deref().map(Name::from),
            namespace: container.namespace.as_deref().map(Name::from),
            ..synthetic::docker_name(container.id.as_str(), container.name.as_str())
        };
        sample.container_names = phase.container.iter().map(container).collect();
        let stall = |word: &str| {
            if phase.pressure.absent {
                return Err(Absent::NoSuchFile);
            }
            let line = StallLine { total_us: self.read(&format!("pressure {word}")), ..StallLine::default() };
            Ok(Stall { some: Some(line), full: None })
        };
        sample.pressure.cpu = stall("cpu");
        sample.pressure.io = stall("io");
        sample.pressure.memory = stall("memory");
        if let Some(format::Frequency { mhz, max_mhz, age_seconds }) = phase.frequency {
            let read_s = u32::try_from(self.boottime_ns / 1_000_000_000).unwrap() - age_seconds;
            let row = |cpu| CpuFrequency { cpu: CpuId(cpu), khz: mhz * 1000, max_khz: max_mhz * 1000, read_s };
            sample.cpu_frequencies = (0..self.cpus).map(row).collect();
        }
        if let Some(memory) = &phase.memory {
            let node = |(node, &(total, free)): (usize, &(u64, u64))| MemoryNode {
                node: u32::try_from(node).unwrap(),
                total_kb: total * 1024,
                free_kb: free * 1024,
                ..MemoryNode::default()
            };
            sample.memory_nodes = memory.nodes_mib.iter().enumerate().map(node).collect();
            sample.memory = Ok(Memory {
                total_kb: Some(memory.total_mib * 1024),
                available_kb: Some(memory.available_mib * 1024),
                swapped_in_pages: Some(self.read("memory in")),
                swapped_out_pages: Some(self.read("memory out")),
                refaulted_pages: Some(self.read("memory refaults")),
                reclaimed_pages: memory.reclaimed.is_some().then(|| self.read("memory reclaimed")),
                scanned_direct_pages: memory.direct.map(|_| self.read("memory direct")),
                allocation_stalls: memory.direct.map(|_| self.read("memory direct")),
                compaction_stalls: memory.compaction_stalls.or(memory.direct).map(|_| self.read("memory compacted")),
                major_faults: Some(self.read("memory major")),
                oom_kills: Some(self.read("oom")),
                dirty_kb: Some(memory.dirty_mib * 1024),
                writeback_kb: Some(0),
                dirty_threshold_pages: memory.dirty_limit_mib.map(|limit| limit * 256),
                dirty_background_threshold_pages: memory.dirty_limit_mib.map(|limit| limit * 128),
                ..Memory::default()
            });
        }
        self.fill_network(&mut sample, &Network::of_phase(phase));
        sample.network_namespaces = Ok(self.namespaces(phase));
        sample.protocols.remote_hosts = Ok(self.peers.clone().unwrap_or_else(|| self.peers(phase)));
        let waiting: Vec<_> = phase.waiting.iter().map(|waiting| self.waiting(waiting)).collect();
        sample.protocols.waiting_connections = Ok(waiting);
        sample.protocols.unix_senders = Ok(phase.unix_sender.iter().map(|sender| self.unix_sender(sender)).collect());
        sample.limits = Ok(Limits {
            has_descriptor_counts: true,
            rows: phase.limit.iter().map(|limit| self.limit(limit)).collect(),
            ..Limits::default()
        });
        let line = |softnet: &format::Softnet| {
            let read = |word: &str| self.read(&format!("softnet {} {word}", softnet.cpu)).0;
            synthetic::softnet(softnet.cpu, read("packets"), read("dropped"), read("squeezed"))
        };
        sample.protocols.softnet = Ok(phase.softnet.iter().map(line).collect());
        sample.waits = waits;
        sample
    }

    pub(super) fn add(&mut self, name: &str, growth: f64) {
        *self.counters.entry(name.to_owned()).or_default() += growth;
    }

    pub(super) fn read(&self, name: &str) -> Counter {
        // Rounding: ten times a tenth must be one.
        Counter((self.counters.get(name).copied().unwrap_or(0.0) + 1e-6) as u64)
    }

    fn at(&self) -> Instant {
        Instant {
            boottime_ns: self.boottime_ns,
            monotonic_ns: self.monotonic_ns,
            realtime_ns: 1_700_000_000_000_000_000 + i64::try_from(self.boottime_ns).unwrap(),
        }
    }

    fn cpu(&self) -> Cpu {
        synthetic::cpu((0..self.cpus).map(|cpu| self.cpu_times(cpu)))
    }

    fn cpu_times(&self, cpu: u32) -> CpuTimes {
        let of = |field: &str| self.read(&format!("cpu {cpu} {field}"));
        CpuTimes {
            user_ticks: of("user"),
            nice_ticks: of("nice"),
            system_ticks: of("system"),
            idle_ticks: of("idle"),
            iowait_ticks: of("iowait"),
            irq_ticks: of("irq"),
            softirq_ticks: of("softirq"),
            steal_ticks: Some(of("steal")),
            guest_ticks: Some(Counter(0)),
            guest_nice_ticks: Some(Counter(0)),
        }
    }
}
