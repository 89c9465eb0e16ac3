//! The machine of a scenario: keeps cumulative counters as a kernel does, and makes samples of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use stalltop::ids::{CgroupId, CgroupVersion, CpuId, DiskId, GroupId, ProcessId, TaskId};
use stalltop::interval::wait_counts::GroupWaits;
use stalltop::sample::block_io::{BlockIo, LatencyBucket, bucket_ns};
use stalltop::sample::cgroup::owner::ContainerRuntime;
use stalltop::sample::cgroup::{Cgroup, CgroupPressure, CgroupWeight, ContainerName, IoLimit, IoMax, IoStat};
use stalltop::sample::cpu::{Cpu, CpuTimes, Load};
use stalltop::sample::disk::Operation::{Flush, Read, Write};
use stalltop::sample::disk::{Disk, DiskFacts, OpCounters};
use stalltop::sample::exits::{ExitCpuTime, ExitedTasks, Exits};
use stalltop::sample::host::{Host, Privilege};
use stalltop::sample::limits::{Limit, LimitKind, Limits};
use stalltop::sample::network::Softnet;
use stalltop::sample::network::remote_hosts::{RemoteHost, RemoteHosts, RttSums, SendLimitTimes};
use stalltop::sample::network::unix_senders::UnixSenders;
use stalltop::sample::network::waiting_connections::{ConnectionWait, WaitingConnections};
use stalltop::sample::pressure::{Stall, StallLine};
use stalltop::sample::task::{ChildrenCpuTime, HiddenTasks, Process, ProcessFacts, RawSyscall, Scheduling, TaskState, Tasks};
use stalltop::sample::waits::{
    BlockedWait, GroupWait, IpcHolder, IpcWaiter, KernelLockOwner, LockOwner, ObservedWait, OwnerField, OwnerPeer, PipeLink,
    ServerSocket, SocketWaiter, SubSample, ThreadWait, TracedProcess, UnreadServer, WaitClass, WaitQueue, Waits,
};
use stalltop::sample::{Absent, Instant, Name, Reading, Sample, memory::Memory};
use stalltop::units::Counter;

use super::network::{Network, ifindex};
use super::synthetic;
use crate::format::{self, Case, Phase, Shares};

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
    samples: u32,
    /// The last scan of the connections
    peers: Option<RemoteHosts>,
}

impl Machine {
    pub fn new(case: &Case) -> Machine {
        let &Case { cpus, hidepid, .. } = case;
        Machine { cpus, hidepid, boottime_ns: 1_000_000_000_000, monotonic_ns: 1_000_000_000_000, ..Machine::default() }
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
                cpu: Some(self.cpu_times(None)),
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
        add_unread_connections(phase, &mut waits);
        add_unread_sockets(phase, &mut waits);
        add_pipes(phase, &mut waits);
        add_tracers(phase, &mut waits);
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

    fn pass(&mut self, phase: &Phase, seconds: f64) {
        self.boottime_ns += (seconds * 1e9).round() as u64;
        self.monotonic_ns += (seconds * 1e9).round() as u64;
        for cpu in 0..self.cpus {
            let shares = phase.core.iter().find(|core| core.cpu == cpu).map_or(&phase.cpu, |core| &core.shares);
            for (field, share) in parts(shares) {
                self.add(&format!("cpu {cpu} {field}"), share * seconds * TICKS);
            }
        }
        for process in &phase.process {
            for pid in process.pid..process.pid + process.count {
                self.add(&format!("task {pid} run"), process.cpu * seconds * 1e9);
                self.add(&format!("task {pid} ended"), process.ended * seconds * TICKS);
                self.add(&format!("task {pid} delay"), process.run_queue * seconds * 1e9);
                self.add(&format!("task {pid} major"), process.major_faults * seconds);
                self.add(
                    &format!("task {pid} slices"),
                    match process.switches {
                        Some(rate) => rate * seconds,
                        None if process.cpu + process.run_queue > 0.0 => 10.0 * seconds,
                        None => 0.0,
                    },
                );
            }
        }
        self.add("forks", phase.forks.unwrap_or(0.0) * seconds);
        self.add("lost", phase.lost * seconds);
        for disk in &phase.disk {
            let name = &disk.name;
            let mut queue = 0.0;
            for (word, op) in operations(disk) {
                let Some(op) = op else { continue };
                for (per_second, ms) in &op.measured {
                    self.add(&format!("disk {name} {word} bucket {}", bucket(*ms)), per_second * seconds);
                }
                self.add(&format!("disk {name} {word}"), op.per_second * seconds);
                self.add(&format!("disk {name} {word} sectors"), op.per_second * seconds * op.kib * 2.0);
                self.add(&format!("disk {name} {word} ms"), op.per_second * seconds * op.await_ms);
                queue += op.per_second * op.await_ms * seconds;
            }
            self.add(&format!("disk {name} queue"), queue);
            self.add(&format!("disk {name} busy"), disk.busy / 100.0 * seconds * 1000.0);
        }
        self.add_network("", &Network::of_phase(phase), seconds);
        for namespace in &phase.namespace {
            self.add_network(&format!("{} ", namespace.pid), &Network::of_namespace(namespace), seconds);
        }
        for peer in &phase.peer {
            let mut add = |word: &str, by: f64| self.add(&format!("peer {} {word}", peer.address), by * seconds);
            add("acked", peer.sent_kb * 1024.0);
            add("segments", peer.sent_kb * 1024.0 / 1448.0);
            add("again", peer.retransmitted);
            let watched = f64::from(peer.active) * 1e6;
            add("watched", watched);
            add("busy", watched * (1.0 - peer.application / 100.0));
            add("receiver", watched * peer.receiver / 100.0);
            add("send buffer", watched * peer.send_buffer / 100.0);
        }
        for softnet in &phase.softnet {
            let mut add = |word: &str, by: f64| self.add(&format!("softnet {} {word}", softnet.cpu), by * seconds);
            add("packets", softnet.packets);
            add("squeezed", softnet.squeezed);
            add("dropped", softnet.dropped);
        }
        for group in &phase.cgroup {
            let path = &group.path;
            self.add(&format!("cgroup {path} used"), group.used_cpus * seconds * 1e9);
            self.add(&format!("cgroup {path} throttled"), group.throttled * seconds * 1e9);
            self.add(&format!("cgroup {path} periods"), 10.0 * seconds);
            let throttled = if group.throttled > 0.0 { group.throttled_periods.unwrap_or(1.0) } else { 0.0 };
            self.add(&format!("cgroup {path} throttled periods"), throttled * 10.0 * seconds);
            self.add(&format!("cgroup {path} refaults"), group.refaults * seconds);
            self.add(&format!("cgroup {path} major"), group.major_faults * seconds);
            self.add(&format!("cgroup {path} hits"), group.limit_hits.unwrap_or(0.0) * seconds);
            self.add(&format!("cgroup {path} memory stall"), group.memory_stall.unwrap_or(0.0) / 100.0 * seconds * 1e6);
            for limit in &group.io {
                self.add(&format!("cgroup {path} {} reads", limit.disk), limit.reads * seconds);
                self.add(&format!("cgroup {path} {} writes", limit.disk), limit.writes * seconds);
            }
        }
        if let Some(memory) = &phase.memory {
            self.add("memory in", memory.swap_in_mib * 1_048_576.0 / PAGE * seconds);
            self.add("memory out", memory.swap_out_mib * 1_048_576.0 / PAGE * seconds);
            self.add("memory refaults", memory.refaults * seconds);
            self.add("memory reclaimed", memory.reclaimed.unwrap_or(0.0) * seconds);
            self.add("memory direct", memory.direct.unwrap_or(0.0) * seconds);
            self.add("memory major", memory.major_faults * seconds);
        }
        for limit in &phase.limit {
            self.add(&format!("refused {}", limit.kind), limit.refused.unwrap_or(0.0) * seconds);
        }
        for (word, percent) in [("cpu", phase.pressure.cpu), ("io", phase.pressure.io), ("memory", phase.pressure.memory)] {
            self.add(&format!("pressure {word}"), percent / 100.0 * seconds * 1e6);
        }
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

    /// The times of one CPU, or of all.
    fn cpu_times(&self, cpu: Option<u32>) -> CpuTimes {
        let of = |field: &str| match cpu {
            Some(cpu) => self.read(&format!("cpu {cpu} {field}")),
            None => Counter((0..self.cpus).map(|cpu| self.read(&format!("cpu {cpu} {field}")).0).sum()),
        };
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

    fn sample(&self, phase: &Phase, waits: Waits) -> Sample {
        let mut sample = Sample::empty(self.at());
        sample.cpu = Ok(Cpu {
            total: self.cpu_times(None),
            cpus: (0..self.cpus).map(|cpu| (CpuId(cpu), self.cpu_times(Some(cpu)))).collect(),
            forks: phase.forks.map(|_| self.read("forks")),
            running: phase.runnable,
            ..Cpu::default()
        });
        sample.exits = phase.exits.as_ref().map(|ends| self.exits(phase, ends)).ok_or(Absent::NoPermission);
        sample.load = Ok(Load { one: phase.load, ..Load::default() });
        sample.disks = Ok(phase.disk.iter().map(|disk| self.disk(phase, disk)).collect());
        sample.block_io = self.block_io(phase);
        sample.tasks = Ok(self.tasks(phase));
        sample.cgroups = Ok(phase.cgroup.iter().map(|group| self.cgroup(group)).collect());
        sample.io_limits = phase.cgroup.iter().flat_map(|group| self.io_limits(phase, group)).collect();
        let weight = |weight: &format::Weight| CgroupWeight { id: cgroup_id(&weight.path), weight: weight.weight };
        sample.cgroup_weights = phase.weight.iter().map(weight).collect();
        let container = |container: &format::Container| ContainerName {
            id: container.id.as_str().into(),
            runtime: if container.pod.is_some() { ContainerRuntime::Containerd } else { ContainerRuntime::Docker },
            name: container.name.as_str().into(),
            pod_uid: None,
            pod: container.pod.as_deref().map(Name::from),
            namespace: container.namespace.as_deref().map(Name::from),
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
        if let Some(memory) = &phase.memory {
            sample.memory = Ok(Memory {
                total_kb: Some(memory.total_mib * 1024),
                available_kb: Some(memory.available_mib * 1024),
                swapped_in_pages: Some(self.read("memory in")),
                swapped_out_pages: Some(self.read("memory out")),
                refaulted_pages: Some(self.read("memory refaults")),
                reclaimed_pages: memory.reclaimed.is_some().then(|| self.read("memory reclaimed")),
                scanned_direct_pages: memory.direct.map(|_| self.read("memory direct")),
                allocation_stalls: memory.direct.map(|_| self.read("memory direct")),
                compaction_stalls: memory.direct.map(|_| self.read("memory direct")),
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
        sample.limits =
            Ok(Limits { has_descriptor_counts: true, rows: phase.limit.iter().map(|limit| self.limit(limit)).collect() });
        let line = |softnet: &format::Softnet| {
            let read = |word: &str| self.read(&format!("softnet {} {word}", softnet.cpu));
            Softnet {
                cpu: Some(CpuId(softnet.cpu)),
                processed: read("packets"),
                dropped: read("dropped"),
                time_squeeze: read("squeezed"),
                ..Softnet::default()
            }
        };
        sample.protocols.softnet = Ok(phase.softnet.iter().map(line).collect());
        sample.waits = waits;
        sample
    }

    fn exits(&self, phase: &Phase, ends: &[format::Exit]) -> Exits {
        let row = |end: &format::Exit| ExitedTasks {
            owner: Some(ProcessId { pid: end.of, start_ticks: 1 }),
            owner_name: end.of_name.as_str().into(),
            name: end.name.as_str().into(),
            are_threads: end.threads,
            count: (end.per_second * phase.seconds) as u32,
            // A clock that lacks the last moments, and one that is right on average.
            cpu: ExitCpuTime {
                run_ns: (end.cpu * 0.1 * phase.seconds * 1e9) as u64,
                tick_ns: (end.cpu * phase.seconds * 1e9) as u64,
            },
        };
        Exits { rows: ends.iter().map(row).collect(), lost_messages: self.read("lost"), ..Exits::default() }
    }

    fn disk(&self, phase: &Phase, disk: &format::Disk) -> Disk {
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
    fn block_io(&self, phase: &Phase) -> Reading<BlockIo> {
        let mut buckets = Vec::new();
        for disk in &phase.disk {
            for ((word, op), operation) in operations(disk).into_iter().zip([Read, Write, Flush]) {
                if op.is_none_or(|op| op.measured.is_empty()) {
                    continue;
                }
                for bucket in 0..=u8::MAX {
                    let completed = self.read(&format!("disk {} {word} bucket {bucket}", disk.name));
                    let disk = disk_id(phase, &disk.name);
                    let none = Counter(0);
                    let row =
                        LatencyBucket { disk, operation, bucket, completed, sequential: none, queued: none, on_device: none };
                    buckets.extend((completed.0 > 0).then_some(row));
                }
            }
        }
        buckets.sort_by_key(|row| (row.disk, row.operation, row.bucket));
        let is_measured =
            |disk: &format::Disk| operations(disk).iter().any(|(_, op)| op.is_some_and(|op| !op.measured.is_empty()));
        match phase.disk.iter().any(is_measured) {
            true => Ok(BlockIo { since_boottime_ns: 1, buckets }),
            false => Err(Absent::NotRead),
        }
    }

    /// A scan of the connections, summed as the reader does.
    fn scan_connections(&mut self, phase: &Phase) {
        for peer in &phase.peer {
            for (word, count) in [("active", peer.active), ("pressed", peer.pressed)] {
                let mut add = |what: &str, by: f64| self.add(&format!("peer {} {word} {what}", peer.address), by);
                add("scans", f64::from(count));
                add("smoothed", f64::from(count) * peer.rtt_ms * 1000.0);
                add("minimum", f64::from(count) * peer.min_ms * 1000.0);
            }
        }
        self.peers = Some(self.peers(phase));
    }

    fn waiting(&self, waiting: &format::Waiting) -> WaitingConnections {
        let process = |name: &String, pid| (ProcessId { pid, start_ticks: 1 }, Name::from(name.as_str()));
        WaitingConnections {
            remote_host: waiting.remote.ip(),
            remote_port: Some(waiting.remote.port()),
            local_port: None,
            wait: match waiting.wait.as_str() {
                "connect" => ConnectionWait::Connect,
                "name-server" => ConnectionWait::NameServer,
                "acknowledgement" => ConnectionWait::Acknowledgement,
                "closed-window" => ConnectionWait::ClosedWindow,
                "full-window" => ConnectionWait::FullWindow,
                "send-buffer" => ConnectionWait::SendBuffer,
                "answer" => ConnectionWait::Answer,
                other => panic!("no wait {other}"),
            },
            connections: waiting.connections,
            owner: waiting.owner.as_ref().map(|name| process(name, 900)),
            threads: waiting.threads,
            since_boottime_ns: self.boottime_ns.saturating_sub((waiting.seconds * 1e9) as u64),
            queued_bytes: waiting.queued_kb * 1024,
            retries: waiting.retries,
            receiver: waiting.receiver.as_ref().map(|name| process(name, 901)),
            unread_bytes: waiting.unread_kb * 1024,
            receiving_threads: waiting.receiving_threads,
            polling_threads: waiting.polling_threads,
            longest_answer_ms: waiting.longest_answer_ms,
        }
    }

    fn limit(&self, limit: &format::Limit) -> Limit {
        let kind = match limit.kind.as_str() {
            "cgroup-tasks" => LimitKind::CgroupTasks,
            "open-files" => LimitKind::OpenFiles,
            "host-files" => LimitKind::HostFiles,
            "tracked-connections" => LimitKind::TrackedConnections,
            "local-ports" => LimitKind::LocalPorts,
            "host-tasks" => LimitKind::HostTasks,
            "task-ids" => LimitKind::TaskIds,
            other => panic!("{other} is no kind of limit"),
        };
        let owner = |name: &String| (ProcessId { pid: 900, start_ticks: 1 }, Name::from(name.as_str()));
        Limit {
            process: limit.owner.as_ref().map(owner),
            cgroup: limit.cgroup.as_deref().map(|path| CgroupId { version: CgroupVersion::V2, path: Name::from(path) }),
            remote: limit.remote.as_ref().map(|remote| remote.parse().unwrap()),
            in_time_wait: limit.time_wait,
            refused: limit.refused.map(|_| self.read(&format!("refused {}", limit.kind))),
            ..Limit::new(kind, limit.used, limit.max)
        }
    }

    fn unix_sender(&self, sender: &format::UnixSender) -> UnixSenders {
        let process = |name: &String, pid| (ProcessId { pid, start_ticks: 1 }, Name::from(name.as_str()));
        UnixSenders {
            owner: process(&sender.owner, sender.pid),
            receiver: sender.receiver.as_ref().map(|name| process(name, 901)),
            are_datagrams: sender.datagrams,
            address: sender.address.as_deref().map(Name::from),
            sockets: sender.sockets,
            threads: sender.threads,
            polling_threads: sender.polling_threads,
            since_boottime_ns: self.boottime_ns.saturating_sub((sender.seconds * 1e9) as u64),
            unread_bytes: sender.unread_kb * 1024,
        }
    }

    fn peers(&self, phase: &Phase) -> RemoteHosts {
        let mut rows: Vec<RemoteHost> = phase.peer.iter().map(|peer| self.peer(phase, peer)).collect();
        rows.sort_by_key(|peer| peer.address);
        RemoteHosts {
            scan_boottime_ns: self.boottime_ns,
            scan_cpu_ns: 1_000_000,
            connection_count: rows.iter().map(|peer| peer.connections).sum(),
            host_count: u32::try_from(rows.len()).unwrap(),
            rows,
        }
    }

    fn peer(&self, phase: &Phase, peer: &format::Peer) -> RemoteHost {
        let read = |word: &str| self.read(&format!("peer {} {word}", peer.address));
        let round_trips = |word: &str| RttSums {
            count: read(&format!("{word} scans")),
            srtt_us: read(&format!("{word} smoothed")),
            min_rtt_us: Some(read(&format!("{word} minimum"))),
        };
        RemoteHost {
            address: peer.address,
            local: peer.local,
            ifindex: peer.via.as_ref().map(|via| ifindex(phase.nic.iter().position(|nic| nic.name == *via).unwrap_or(0))),
            connections: peer.connections,
            bytes_acked: Some(read("acked")),
            bytes_received: Some(Counter(0)),
            data_segments_out: Some(read("segments")),
            segments_retransmitted: read("again"),
            active: round_trips("active"),
            send_backlogged: round_trips("pressed"),
            send_limits: Some(SendLimitTimes {
                observed_us: read("watched"),
                busy_us: read("busy"),
                rwnd_limited_us: read("receiver"),
                sndbuf_limited_us: read("send buffer"),
            }),
            worst_process: peer.process.as_deref().map(crate::network::owner),
        }
    }

    fn cgroup(&self, group: &format::Cgroup) -> Cgroup {
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
            ..Cgroup::new(cgroup_id(path))
        }
    }

    fn io_limits(&self, phase: &Phase, group: &format::Cgroup) -> Vec<IoLimit> {
        let path = &group.path;
        let limit = |limit: &format::IoLimit| IoLimit {
            cgroup: cgroup_id(path),
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

    fn tasks(&self, phase: &Phase) -> Tasks {
        let mut processes: Vec<Arc<Process>> = Vec::new();
        for process in &phase.process {
            processes.extend((process.pid..process.pid + process.count).map(|pid| Arc::new(self.process(process, pid))));
        }
        processes.sort_by_key(|process| process.pid);
        let pids: BTreeSet<u32> = processes.iter().map(|process| process.pid).collect();
        assert_eq!(pids.len(), processes.len(), "two processes of one pid");
        Tasks { processes, hidden: HiddenTasks { processes: self.hidepid, ..HiddenTasks::default() }, ..Tasks::default() }
    }

    fn process(&self, process: &format::Process, pid: u32) -> Process {
        let age_ns = process.renewed.map(|age| (age * 1e9) as u64);
        let start_ticks = age_ns.map_or(1, |age| ((self.boottime_ns - age) as f64 / 1e9 * TICKS) as u64);
        let run_ns = match process.renewed {
            Some(age) => Counter((process.cpu * age * 1e9) as u64),
            None => self.read(&format!("task {pid} run")),
        };
        let thread = |index: u32| {
            let timeslices = process.timeslices;
            let thread = synthetic::thread(pid + index, process.name.as_str()).started(start_ticks);
            let thread = match index {
                0 if !process.spread => thread.ran(
                    run_ns.0,
                    self.read(&format!("task {pid} delay")).0,
                    timeslices + self.read(&format!("task {pid} slices")).0,
                ),
                _ => thread.ran(if process.spread { run_ns.0 / u64::from(process.threads) } else { 0 }, 0, timeslices),
            };
            thread.state(TaskState::from_stat_char(process.state as u8)).with(|thread| {
                let (first, cpus) = process.moves_on.unwrap_or((0, self.cpus));
                thread.processor = first + (process.on_cpu - first + if process.moves { self.samples } else { 0 }) % cpus;
                thread.user_ticks = Counter(0);
                if index == 0 {
                    thread.major_faults = self.read(&format!("task {pid} major"));
                }
                thread.background = process.background;
                thread.scheduling = (process.policy.is_some() || process.nice.is_some()).then(|| Scheduling {
                    policy: process.policy.unwrap_or(0),
                    nice: process.nice.unwrap_or(0),
                    rt_priority: 0,
                });
                thread.last_timeslice_ns = match process.asleep_seconds {
                    Some(seconds) => Some(self.boottime_ns - (seconds * 1e9) as u64),
                    None => (process.cpu > 0.0).then_some(self.boottime_ns),
                };
                thread.wait.wchan = process.channel.as_deref().map(Name::from).ok_or(Absent::NotRead);
                thread.cpus_allowed_list = process.allowed.as_deref().map(Name::from);
            })
        };
        synthetic::process(pid, process.name.as_str())
            .started(start_ticks)
            .parent(process.parent)
            .ran(run_ns.0)
            .facts(ProcessFacts {
                executable: Ok(format!("/usr/bin/{}", process.name).as_str().into()),
                cgroup: process.cgroup.as_deref().map(cgroup_id).ok_or(Absent::NoSuchFile),
                cmdline: process.title.as_deref().map(Name::from).ok_or(Absent::NotRead),
                ..ProcessFacts::default()
            })
            .threads((0..process.threads).map(thread))
            .with(|row| {
                row.kernel_thread = process.kernel_thread;
                row.children_cpu =
                    Some(ChildrenCpuTime { user_ticks: self.read(&format!("task {pid} ended")), system_ticks: Counter(0) });
                row.major_faults = self.read(&format!("task {pid} major"));
                row.resident_pages = 100;
                row.io = Err(Absent::NotRead);
            })
            .build()
    }

    fn blocked(&self, phase: &Phase, index: u32, groups: &[GroupId]) -> Vec<BlockedWait> {
        let holders = phase.process.iter().filter_map(|process| Some((process, process.holder.as_ref()?)));
        let thread = |(process, holder): (&format::Process, &format::Holder)| {
            let grown = if holder.stays { f64::from(index) * phase.seconds } else { 0.0 };
            BlockedWait {
                task: TaskId { pid: process.pid, tid: process.pid, start_ticks: 1 },
                group: group_index(process, groups),
                comm: process.name.as_str().into(),
                state: TaskState::Blocked,
                wchan: holder.channel.as_deref().map(Name::from),
                syscall: holder.call.map(|number| RawSyscall { number, arguments: [3, 0, 0] }),
                seen_count: holder.times,
                last_sub_sample: 9,
                blocked_since_ns: self.boottime_ns - ((holder.seconds + grown) * 1e9) as u64,
                file: holder.file.as_deref().map(Name::from),
                disk: holder.disk.as_deref().map(|name| disk_id(phase, name)),
                mount: holder.mount.as_deref().map(Name::from),
                file_system: holder.file_system.as_deref().map(Name::from),
            }
        };
        holders.map(thread).collect()
    }
}

fn operations(disk: &format::Disk) -> [(&'static str, Option<&format::Operation>); 3] {
    [("reads", disk.reads.as_ref()), ("writes", disk.writes.as_ref()), ("flushes", disk.flushes.as_ref())]
}

/// The bucket of a latency.
fn bucket(ms: f64) -> u8 {
    let ns = (ms * 1e6) as u64;
    (0..=u8::MAX).find(|bucket| bucket_ns(*bucket).contains(&ns)).unwrap_or(u8::MAX)
}

/// Threads at the end of a chain that wait for the lock themselves in other sub-samples.
fn queuing(phase: &Phase, groups: &[GroupId]) -> Vec<ThreadWait> {
    let holders = phase.process.iter().filter_map(|process| Some((process, process.holder.as_ref()?)));
    let rows = holders.filter(|(_, holder)| holder.queues > 0).flat_map(|(process, holder)| {
        let seen = [(WaitClass::Lock, holder.queues), (WaitClass::Disk, holder.times)];
        let task = TaskId { pid: process.pid, tid: process.pid, start_ticks: 1 };
        synthetic::waits::thread(task, group_index(process, groups), &seen)
    });
    let sleepers = phase.process.iter().filter_map(|process| Some((process, process.sleeps_in?)));
    let asleep = sleepers.flat_map(|(process, class)| {
        let task = |pid| TaskId { pid, tid: pid, start_ticks: 1 };
        let seen = [(WaitClass::Running, 5), (class, 5)];
        let pids = process.pid..process.pid + process.count;
        pids.flat_map(move |pid| synthetic::waits::thread(task(pid), group_index(process, groups), &seen))
    });
    let turns = phase.process.iter().flat_map(|process| {
        let task = |at| TaskId { pid: process.pid, tid: process.pid + at, start_ticks: 1 };
        let seen = [(WaitClass::Lock, 9), (WaitClass::Timer, 1)];
        (0..process.turns).flat_map(move |at| synthetic::waits::thread(task(at), group_index(process, groups), &seen))
    });
    let on_storage = phase.process.iter().flat_map(|process| {
        let task = |at| TaskId { pid: process.pid, tid: process.pid + at, start_ticks: 1 };
        let seen = [(WaitClass::Disk, 10)];
        (0..process.seen_on_storage).flat_map(move |at| synthetic::waits::thread(task(at), group_index(process, groups), &seen))
    });
    let mut rows: Vec<ThreadWait> = rows
        .chain(on_storage)
        .chain(asleep)
        .chain(turns)
        .chain(beside_storage(phase, groups))
        .chain(running_siblings(phase, groups))
        .collect();
    rows.sort_by_key(|row| (row.task, row.wait));
    rows
}

/// In groups of several processes: those that run, all sightings of a process as those of one thread.
fn running_siblings(phase: &Phase, groups: &[GroupId]) -> Vec<ThreadWait> {
    let is_sibling = |process: &&format::Process| {
        let group = group_index(process, groups);
        phase.process.iter().filter(|other| group_index(other, groups) == group).count() > 1
            && !process.waits.running.is_empty()
    };
    let siblings = phase.process.iter().filter(is_sibling);
    siblings
        .map(|process| {
            let seen_count = (0..SUB_SAMPLES as usize).map(|at| process.waits.running[at % process.waits.running.len()]).sum();
            let task = TaskId { pid: process.pid, tid: process.pid, start_ticks: 1 };
            ThreadWait { task, wait: WaitClass::Running as u32, group: group_index(process, groups), seen_count }
        })
        .collect()
}

/// In groups with threads that may wait for a lock, by inference, and threads on storage: each of them, in one sub-sample on storage if
/// they take turns there.
fn beside_storage(phase: &Phase, groups: &[GroupId]) -> Vec<ThreadWait> {
    let mut rows = Vec::new();
    for process in &phase.process {
        let group = group_index(process, groups);
        let of_group = || phase.process.iter().filter(|other| group_index(other, groups) == group);
        let storage: u16 = of_group().map(|other| other.waits.storage).sum();
        let by_call = |waits: &format::Waits| if waits.private { waits.lock_by_call } else { 0 };
        let crowd: u16 = of_group().map(|other| other.waits.lock_by_inference + by_call(&other.waits)).sum();
        let waits = &process.waits;
        let times = waits.storage_times.unwrap_or(10);
        if storage == 0 || crowd == 0 {
            continue;
        }
        let takes_turns = waits.lock_by_inference > 0 && !waits.no_turns;
        for at in 0..u32::from(waits.storage) {
            let task = TaskId { pid: process.pid, tid: process.pid + 50_000 + at, start_ticks: 1 };
            if !takes_turns {
                rows.extend(synthetic::waits::thread(task, group, &[(WaitClass::Disk, times)]));
            }
        }
        for at in 0..u32::from(waits.lock_by_inference) {
            let task = TaskId { pid: process.pid, tid: process.pid + 60_000 + at, start_ticks: 1 };
            let turn = u16::from(takes_turns && at < u32::from(times));
            rows.extend(synthetic::waits::thread(task, group, &[(WaitClass::Disk, turn)]));
            let of_queue = lock_queues(phase).find(|(_, other, queue)| other.pid == process.pid && queue.kind == "rust-mutex");
            let wait = match of_queue {
                Some((id, ..)) => id,
                None if waits.private => synthetic::waits::PRIVATE_FUTEX,
                None => WaitClass::Futex as u32,
            };
            rows.push(ThreadWait { task, wait, group, seen_count: 10 - turn });
        }
        for at in 0..u32::from(by_call(waits)) {
            let task = TaskId { pid: process.pid, tid: process.pid + 70_000 + at, start_ticks: 1 };
            rows.push(ThreadWait { task, wait: synthetic::waits::MUTEX, group, seen_count: 10 });
        }
    }
    rows
}

/// Threads that wait in a pipe whose other end is held by a process on storage, and other threads in the same pipes.
fn add_ipc_peers(phase: &Phase, waits: &mut Waits) {
    for process in phase.process.iter().filter(|process| process.waits.peer > 0) {
        let group = group_index(process, &waits.groups);
        for at in 0..process.waits.peer {
            let task = TaskId { pid: process.pid + 50_000, tid: u32::from(at), start_ticks: 1 };
            waits.threads.extend(synthetic::waits::thread(task, group, &[(WaitClass::Pipe, 10)]));
            if at < process.waits.behind_peer {
                waits.ipc_waiters.push(IpcWaiter { task, group, peer: 0 });
            }
        }
        if process.waits.behind_peer > 0 {
            let holder = TaskId { pid: process.pid, tid: process.pid, start_ticks: 1 };
            waits.threads.extend(synthetic::waits::thread(holder, group, &[(WaitClass::Disk, 10)]));
            waits.ipc_holders.push(IpcHolder { group, peer: 0, pid: process.pid });
        }
    }
    waits.threads.sort_by_key(|thread| (thread.task, thread.wait));
    waits.ipc_waiters.sort_by_key(|waiter| waiter.task);
    waits.ipc_holders.sort_by_key(|holder| (holder.group, holder.peer, holder.pid));
}

/// Groups whose sockets may not be read.
fn add_unread_sockets(phase: &Phase, waits: &mut Waits) {
    for process in phase.process.iter().filter(|process| process.unread_sockets) {
        let group = group_index(process, &waits.groups);
        waits.unread_servers.push(UnreadServer { group, reason: Absent::NoPermission });
    }
}

/// Connections whose requests are unread; the first thread of the process is on storage, behind a lock, running, or stopped.
fn add_unread_connections(phase: &Phase, waits: &mut Waits) {
    for process in phase.process.iter().filter(|process| process.unread_connections > 0) {
        let group = group_index(process, &waits.groups);
        let class = match &process.waits {
            waits if waits.storage > 0 => WaitClass::Disk,
            waits if waits.lock_by_call > 0 => WaitClass::Lock,
            _ => WaitClass::Running,
        };
        let task = TaskId { pid: process.pid, tid: process.pid, start_ticks: 1 };
        // Sub-samples do not see stopped threads.
        if !matches!(process.state, 'T' | 't') {
            waits.threads.extend(synthetic::waits::thread(task, group, &[(class, 10)]));
        }
        let connection =
            ServerSocket { group, pid: process.pid, local_port: Some(6379), unread_bytes: 14, ..ServerSocket::default() };
        waits.server_sockets.extend((0..process.unread_connections).map(|_| connection));
    }
    waits.threads.sort_by_key(|thread| (thread.task, thread.wait));
}

/// Processes whose first thread waits in a pipe, and the pipes.
fn add_pipes(phase: &Phase, waits: &mut Waits) {
    for (process, pipe) in phase.process.iter().filter_map(|process| Some((process, process.pipe.as_ref()?))) {
        let (wait, link) = match pipe.call.as_str() {
            "write" => {
                (synthetic::waits::PIPE_WRITE, PipeLink { writer: process.pid, reader: pipe.other, is_full: pipe.is_full })
            }
            "read" => (WaitClass::Pipe as u32, PipeLink { writer: pipe.other, reader: process.pid, is_full: false }),
            other => panic!("no call {other} of a pipe"),
        };
        let task = TaskId { pid: process.pid, tid: process.pid, start_ticks: 1 };
        waits.threads.push(ThreadWait { task, wait, group: group_index(process, &waits.groups), seen_count: pipe.times });
        waits.pipe_links.push(link);
    }
    waits.threads.sort_by_key(|thread| (thread.task, thread.wait));
    waits.pipe_links.sort_unstable();
}

/// Processes whose first thread a tracer stops.
fn add_tracers(phase: &Phase, waits: &mut Waits) {
    for (process, tracer) in phase.process.iter().filter_map(|process| Some((process, process.tracer?))) {
        let task = TaskId { pid: process.pid, tid: process.pid, start_ticks: 1 };
        let group = group_index(process, &waits.groups);
        let runs = (WaitClass::Running as u32, 10 - process.stopped);
        let rows = [(synthetic::waits::TRACED, process.stopped), runs];
        waits.threads.extend(rows.map(|(wait, seen_count)| ThreadWait { task, wait, group, seen_count }));
        waits.traced.push(TracedProcess { pid: process.pid, tracer });
    }
    waits.threads.sort_by_key(|thread| (thread.task, thread.wait));
}

fn parts(shares: &Shares) -> Vec<(&'static str, f64)> {
    let used = shares.user + shares.nice + shares.system + shares.irq + shares.softirq + shares.steal + shares.iowait;
    let idle = shares.idle.unwrap_or((100.0 - used).max(0.0));
    let whole = used + idle + shares.unaccounted;
    let parts = [
        ("user", shares.user),
        ("nice", shares.nice),
        ("system", shares.system),
        ("irq", shares.irq),
        ("softirq", shares.softirq),
        ("steal", shares.steal),
        ("iowait", shares.iowait),
        ("idle", idle),
    ];
    parts.map(|(field, share)| (field, share / whole)).to_vec()
}

fn disk_id(phase: &Phase, name: &str) -> DiskId {
    let at = phase.disk.iter().position(|disk| disk.name == name).unwrap_or_else(|| panic!("no disk {name} in this phase"));
    DiskId { major: 8, minor: u32::try_from(at).unwrap() * 16 }
}

fn cgroup_id(path: &str) -> CgroupId {
    CgroupId { version: CgroupVersion::V2, path: path.into() }
}

/// `ObservedWait::id` of the wait in the first `queue` of a phase; the next ones follow.
const FIRST_QUEUE: u32 = 200;

/// The queues of a phase that are for locks, numbered, with their process.
fn lock_queues(phase: &Phase) -> impl Iterator<Item = (u32, &format::Process, &format::Queue)> {
    let all = phase.process.iter().flat_map(|process| process.queue.iter().map(move |queue| (process, queue)));
    let locks = all.filter(|(_, queue)| queue.kind != "remote" && queue.kind != "pipe");
    (FIRST_QUEUE..).zip(locks).map(|(id, (process, queue))| (id, process, queue))
}

fn add_queues(phase: &Phase, waits: &mut Waits) {
    for (id, process, queue) in lock_queues(phase) {
        let call = |number| RawSyscall { number, arguments: [0; 3] };
        let futex = |operation, value| Some(RawSyscall { number: 202, arguments: [0, operation, value] });
        let (state, wchan, syscall) = match queue.kind.as_str() {
            "mutex" => (TaskState::Sleeping, "futex_do_wait", futex(0x80, 2)),
            "futex" => (TaskState::Sleeping, "futex_do_wait", futex(0x189, 0)),
            "rust-mutex" => (TaskState::Sleeping, "futex_do_wait", futex(0x189, 2)),
            "file-lock" => (TaskState::Sleeping, "locks_lock_inode_wait", None),
            "kernel-lock" => (TaskState::Blocked, "rwsem_down_write_slowpath", queue.call.map(call)),
            "storage" => (TaskState::Blocked, "folio_wait_bit_common", queue.call.map(call)),
            other => panic!("no kind of queue {other}"),
        };
        let wchan = Some(Name::from(queue.channel.as_deref().unwrap_or(wchan)));
        waits.observed.push(ObservedWait { id, state, wchan, syscall, has_timeout: false });
        let at_one = u32::from(queue.at_one);
        waits.wait_queues.push(WaitQueue {
            group: group_index(process, &waits.groups),
            wait: id,
            futex_address: (at_one > 0).then_some(0x1000),
            seen_count: if at_one > 0 { at_one } else { u32::from(queue.threads) } * SUB_SAMPLES,
            file: queue.file.as_deref().map(Name::from),
            lock_holder: queue.holder,
        });
    }
    for process in &phase.process {
        for owner in &process.owner {
            let futex = |lock| RawSyscall { number: 202, arguments: [lock, 0x80, 2] };
            let call = owner.call.map(|number| RawSyscall { number, arguments: [0; 3] });
            let group = group_index(process, &waits.groups);
            let seen = owner.sub_samples.map_or(SUB_SAMPLES, u32::from);
            let wait = BlockedWait {
                task: TaskId { pid: owner.pid.unwrap_or(process.pid), tid: owner.tid, start_ticks: 1 },
                group,
                comm: Name::from(owner.name.as_deref().unwrap_or(process.name.as_str())),
                state: TaskState::from_stat_char(owner.state.as_bytes()[0]),
                wchan: owner.channel.as_deref().map(Name::from),
                syscall: owner.waits_for.filter(|_| owner.field.is_none()).map(futex).or(call),
                seen_count: seen as u16,
                last_sub_sample: SUB_SAMPLES as u16 - 1,
                blocked_since_ns: 0,
                file: None,
                disk: None,
                mount: None,
                file_system: None,
            };
            if let Some(remote) = &owner.remote {
                waits.socket_waiters.push(SocketWaiter {
                    task: wait.task,
                    group,
                    remote: remote.parse().expect("address and port of the remote host"),
                    local_port_listens: false,
                    last_data_sent_ms: 100,
                    last_data_received_ms: 200,
                });
            }
            if let Some(peer) = &owner.peer {
                let row = OwnerPeer { owner: wait.task, peer: peer.pid, is_pipe: peer.pipe, may_answer: !peer.only_sends };
                waits.owner_peers.push(row);
                let call = peer.call.map(|number| RawSyscall { number, arguments: [0; 3] });
                waits.peer_waits.push(BlockedWait {
                    task: TaskId { pid: peer.pid, tid: peer.pid, start_ticks: 1 },
                    comm: phase
                        .process
                        .iter()
                        .find(|process| process.pid == peer.pid)
                        .map_or_else(Name::default, |process| Name::from(process.name.as_str())),
                    state: TaskState::from_stat_char(peer.state.as_bytes()[0]),
                    wchan: peer.channel.as_deref().map(Name::from),
                    syscall: peer.waits_for.map(futex).or(call),
                    disk: peer.disk.as_deref().map(|name| disk_id(phase, name)),
                    file: peer.file.as_deref().map(Name::from),
                    ..wait.clone()
                });
            }
            let Some(field) = &owner.field else {
                waits.lock_owners.push(LockOwner {
                    group,
                    futex_address: owner.lock,
                    is_shared: false,
                    field: OwnerField::GlibcMutex,
                    waiters: owner.waiters * seen,
                    owner: wait,
                    kernel_lock: owner.kernel_lock,
                });
                continue;
            };
            waits.kernel_lock_readings = SUB_SAMPLES;
            waits.kernel_lock_owners.push(KernelLockOwner {
                group,
                lock: owner.lock as u32,
                field: match field.as_str() {
                    "mutex" => OwnerField::KernelMutex,
                    "semaphore" => OwnerField::KernelSemaphore,
                    "writer" => OwnerField::KernelWriter,
                    "reader" => OwnerField::KernelReader,
                    other => panic!("no owner field {other}"),
                },
                waiters: owner.waiters * seen,
                waits_for: owner.waits_for.map(|lock| lock as u32),
                owner: wait,
            });
        }
        for queue in process.queue.iter().filter(|queue| queue.kind == "remote") {
            let group = group_index(process, &waits.groups);
            let remote = queue.file.as_deref().and_then(|file| file.parse().ok()).expect("address and port of the remote host");
            for at in 0..queue.threads {
                assert_eq!(queue.at_one, queue.threads, "one remote host");
                let task = TaskId { pid: process.pid, tid: 60_000 + u32::from(at), start_ticks: 1 };
                waits.threads.extend(synthetic::waits::thread(task, group, &[(WaitClass::Net, 10)]));
                let (last_data_sent_ms, last_data_received_ms) = (100, 200);
                let local_port_listens = false;
                waits.socket_waiters.push(SocketWaiter {
                    task,
                    group,
                    remote,
                    local_port_listens,
                    last_data_sent_ms,
                    last_data_received_ms,
                });
            }
        }
    }
    waits.threads.sort_by_key(|thread| (thread.task, thread.wait));
    waits.socket_waiters.sort_by_key(|waiter| waiter.task);
}

fn group_of(process: &format::Process) -> GroupId {
    match process.parent > 2 && !process.kernel_thread {
        true => GroupId::Siblings { parent: process.parent, executable: format!("/usr/bin/{}", process.name).as_str().into() },
        false => GroupId::Process(ProcessId { pid: process.pid, start_ticks: 1 }),
    }
}

fn groups(phase: &Phase) -> Vec<GroupId> {
    let mut groups: Vec<GroupId> = Vec::new();
    for group in phase.process.iter().map(group_of) {
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    groups
}

fn group_index(process: &format::Process, groups: &[GroupId]) -> u16 {
    let id = group_of(process);
    u16::try_from(groups.iter().position(|group| *group == id).expect("its group")).unwrap()
}

fn rows(phase: &Phase, groups: &[GroupId], sub_sample: u32) -> Vec<GroupWait> {
    let mut rows: Vec<GroupWait> = Vec::new();
    for (wait, process, queue) in lock_queues(phase) {
        let at_shared_address = if queue.at_one > 0 { queue.threads } else { 0 };
        let group = group_index(process, groups);
        rows.push(GroupWait { group, wait, active: true, threads: queue.threads, at_shared_address });
    }
    for process in &phase.process {
        let waits = &process.waits;
        let queued = |kinds: &[&str]| {
            let queues = process.queue.iter().filter(|queue| kinds.contains(&queue.kind.as_str()));
            queues.map(|queue| queue.threads).sum::<u16>()
        };
        let by_futex_call = waits.lock_by_call - waits.file_lock - queued(&["mutex", "kernel-lock"]);
        rows.push(synthetic::waits::mutex(group_index(process, groups), by_futex_call));
        let is_on_storage = sub_sample < u32::from(waits.storage_times.unwrap_or(10));
        let inferred = waits.lock_by_inference - queued(&["futex", "rust-mutex"]);
        if waits.private {
            let (group, wait) = (group_index(process, groups), synthetic::waits::PRIVATE_FUTEX);
            rows.push(GroupWait { group, wait, active: true, threads: inferred, at_shared_address: 0 });
        }
        rows.extend(synthetic::waits::group(&GroupWaits {
            group: group_index(process, groups),
            running: waits.running.get(sub_sample as usize % waits.running.len().max(1)).copied().unwrap_or(0),
            storage: if is_on_storage { waits.storage - queued(&["storage"]) } else { 0 },
            aio: waits.aio,
            memory: waits.memory,
            other_blocked: waits.other + waits.hidden,
            hidden_blocked: waits.hidden,
            lock_contended: waits.file_lock - queued(&["file-lock"]),
            lock_inferred: if waits.private { 0 } else { inferred },
            ipc_peer: waits.peer,
            file_lock: waits.file_lock - queued(&["file-lock"]),
            ..GroupWaits::default()
        }));
    }
    rows.retain(|row| row.threads > 0);
    rows.sort_by_key(|row| (row.group, row.wait));
    rows
}
