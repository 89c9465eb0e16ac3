//! Samples for tests and benchmarks, the same ones for the same seed: strange ones that hold any value a field can, and
//! plausible ones that move as a machine's do.

// Each user of this file takes what it needs.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::sync::Arc;
use std::time::Duration;

use stalltop::ids::{CgroupId, CgroupVersion, CpuId, DiskId, GroupId, NicId, ProcessId, TaskId};
use stalltop::recording::{Meta, Redaction};
use stalltop::sample::block_io::{BlockIo, LatencyBucket};
use stalltop::sample::cgroup::owner::ContainerRuntime;
use stalltop::sample::cgroup::{
    Cgroup, CgroupPressure, CgroupPressureAverages, CgroupWeight, ContainerName, IoLimit, IoMax, IoStat, Memberships,
    StallAverages,
};
use stalltop::sample::cpu::{Cpu, CpuFrequency, CpuTimes, Load};
use stalltop::sample::delays::{Delay, TaskDelays};
use stalltop::sample::disk::{Disk, DiskFacts, OpCounters, Operation};
use stalltop::sample::exits::{ExitCpuTime, ExitedTasks, Exits, UnlistedExits};
use stalltop::sample::host::{CpuTopology, Privilege};
use stalltop::sample::limits::{Limit, LimitKind, Limits};
use stalltop::sample::memory::Memory;
use stalltop::sample::network::namespaces::{NamespaceNic, NetworkNamespace, NetworkNamespaces, RetransmitHost};
use stalltop::sample::network::remote_hosts::{RemoteHost, RemoteHosts, RttSums, SendLimitTimes};
use stalltop::sample::network::unix_senders::UnixSenders;
use stalltop::sample::network::waiting_connections::{ConnectionWait, WaitingConnections};
use stalltop::sample::network::{
    Direction, Duplex, Listener, Nic, NicFacts, Protocols, Qdisc, Softnet, SynQueue, Tcp, TcpExt, Udp, Udp6, UdpSocket,
};
use stalltop::sample::operations::Operations;
use stalltop::sample::pressure::{Pressure, Stall, StallLine};
use stalltop::sample::stacks::{ThreadStack, UserStack};
use stalltop::sample::task::{
    ChildrenCpuTime, CpuRun, HiddenTasks, Process, ProcessFacts, RawSyscall, ReadTime, Schedstat, Scheduling, TaskIo,
    TaskState, Tasks, Thread, WaitState,
};
use stalltop::sample::waits::{
    BlockedWait, GroupWait, IpcHolder, IpcWaiter, KernelLockOwner, LockOwner, ObservedWait, OwnerField, OwnerPeer, PipeLink,
    ServerSocket, SocketWaiter, SubSample, ThreadWait, TracedProcess, UnreadServer, WaitClass, WaitQueue, Waits, WakerChecks,
};
use stalltop::sample::{Absent, Host, Instant, Name, ReadDelays, Reading, Sample, SamplingCost};
use stalltop::units::Counter;

use super::synthetic;

/// SplitMix64: small, and the same everywhere.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.roll() % end.max(1)
    }

    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    /// Any value, and the edges often.
    fn u64(&mut self) -> u64 {
        match self.below(8) {
            0 => 0,
            1 => u64::MAX,
            2 => self.roll(),
            3 => 1 << self.below(64),
            _ => self.below(100_000),
        }
    }

    fn u32(&mut self) -> u32 {
        if self.one_in(8) { u32::MAX } else { (self.u64() & 0xffff_ffff) as u32 }
    }

    fn u16(&mut self) -> u16 {
        if self.one_in(8) { u16::MAX } else { (self.u64() & 0xffff) as u16 }
    }

    fn counter(&mut self) -> Counter {
        Counter(self.u64())
    }

    fn bool(&mut self) -> bool {
        self.one_in(2)
    }

    fn float(&mut self) -> f64 {
        match self.below(6) {
            0 => 0.0,
            1 => -0.0,
            2 => f64::INFINITY,
            3 => self.below(u64::MAX) as f64 / 7.0,
            4 => -1.25,
            _ => self.below(10_000) as f64 / 100.0,
        }
    }

    fn small_float(&mut self) -> f32 {
        match self.below(4) {
            0 => self.float() as f32,
            _ => format!("{}.{:02}", self.below(100), self.below(100)).parse().unwrap(),
        }
    }

    fn name(&mut self) -> Name {
        let words: [&[u8]; 6] = [b"", b"bash", b"mysqld", b"\x1b]0;evil\x07", b"\xff\xfe\0arg", "größe".as_bytes()];
        let word = words[self.below(6) as usize];
        if self.bool() { Name::from(word) } else { Name::from([word, &self.below(50).to_le_bytes()].concat().as_slice()) }
    }

    fn maybe<T>(&mut self, make: impl FnOnce(&mut Dice) -> T) -> Option<T> {
        if self.one_in(3) { None } else { Some(make(self)) }
    }

    fn absent(&mut self) -> Absent {
        match self.below(9) {
            0 => Absent::NotRead,
            1 => Absent::NoSuchFile,
            2 => Absent::NoPermission,
            3 => Absent::Hidden,
            4 => Absent::Vanished,
            5 => Absent::Unsupported,
            6 => Absent::Malformed,
            7 => Absent::Os(-5),
            _ => Absent::Os(i32::MAX),
        }
    }

    fn reading<T>(&mut self, make: impl FnOnce(&mut Dice) -> T) -> Reading<T> {
        if self.one_in(4) { Err(self.absent()) } else { Ok(make(self)) }
    }

    fn list<T>(&mut self, most: u64, mut make: impl FnMut(&mut Dice) -> T) -> Vec<T> {
        (0..self.below(most + 1)).map(|_| make(self)).collect()
    }
}

/// Any sample: every field may hold anything, be missing, or be missing for any reason.
pub fn strange_sample(dice: &mut Dice) -> Sample {
    let d = dice;
    Sample {
        at: Instant { boottime_ns: d.u64(), monotonic_ns: d.u64(), realtime_ns: i64::from_ne_bytes(d.u64().to_ne_bytes()) },
        cpu: d.reading(|d| Cpu {
            total: cpu_times(d),
            cpus: d.list(4, |d| (CpuId(d.u32()), cpu_times(d))),
            context_switches: d.maybe(Dice::counter),
            interrupts: d.maybe(Dice::counter),
            forks: d.maybe(Dice::counter),
            running: d.maybe(Dice::u32),
            blocked: d.maybe(Dice::u32),
        }),
        load: d.reading(|d| Load { one: d.float(), five: d.float(), fifteen: d.float(), runnable: d.u32(), entities: d.u32() }),
        memory: d.reading(memory),
        pressure: Pressure { cpu: d.reading(stall), io: d.reading(stall), memory: d.reading(stall), irq: d.reading(stall) },
        disks: d.reading(|d| d.list(3, disk)),
        block_io: d.reading(|d| BlockIo { since_boottime_ns: d.u64(), buckets: d.list(5, latency_bucket) }),
        nics: d.reading(|d| d.list(3, nic)),
        protocols: Protocols {
            tcp: d.reading(tcp),
            tcp_ext: d.reading(tcp_ext),
            udp: d.reading(udp),
            ip_octets: d.reading(|d| (d.counter(), d.counter())),
            listeners: d.reading(|d| d.list(3, listener)),
            syn_queues: d.reading(|d| d.list(3, syn_queue)),
            waiting_connections: d.reading(|d| d.list(3, waiting_connections)),
            udp_sockets: d.reading(|d| d.list(3, udp_socket)),
            unix_senders: d.reading(|d| d.list(3, unix_senders)),
            udp6: d.reading(udp6),
            softnet: d.reading(|d| d.list(4, softnet)),
            remote_hosts: d.reading(|d| RemoteHosts {
                scan_boottime_ns: d.u64(),
                scan_cpu_ns: d.u64(),
                connection_count: d.u32(),
                host_count: d.u32(),
                rows: d.list(4, peer),
            }),
        },
        limits: d.reading(|d| Limits { has_descriptor_counts: d.bool(), rows: d.list(3, limit) }),
        network_namespaces: d.reading(|d| NetworkNamespaces {
            count: d.u32(),
            hidden_processes: d.u32(),
            rows: d.list(3, network_namespace),
            nics: d.list(3, |d| NamespaceNic { namespace: d.u64(), nic: nic(d) }),
        }),
        cgroups: d.reading(|d| d.list(3, cgroup)),
        io_limits: d.list(3, io_limit),
        delays: d.reading(|d| d.list(3, task_delays)),
        stacks: d.reading(|d| d.list(3, |d| ThreadStack { task: task(d), kernel: d.reading(Dice::name) })),
        user_stacks: d.reading(|d| d.list(3, |d| UserStack { task: task(d), functions: d.reading(Dice::name) })),
        cpu_frequencies: d.list(3, |d| CpuFrequency { cpu: CpuId(d.u32()), khz: d.u32() }),
        cgroup_weights: d.list(3, |d| CgroupWeight { id: cgroup(d).id, weight: d.u64() }),
        read_delays: ReadDelays { disks_us: d.u32(), nics_us: d.u32(), cgroups_us: d.u32(), network_namespaces_us: d.u32() },
        container_names: d.list(3, container_name),
        // No recording has them.
        context_switches: Err(Absent::NotRead),
        tasks: d.reading(|d| {
            let mut processes = d.list(6, strange_process);
            processes.sort_by_key(|process| process.pid);
            processes.dedup_by_key(|process| process.pid);
            Tasks {
                processes: processes.into_iter().map(Arc::new).collect(),
                users: Arc::new(d.list(3, |d| (d.u32(), d.name())).into_iter().collect()),
                hidden: HiddenTasks { wait_channels: d.u32(), schedstats: d.u32(), processes: d.bool() },
                read_times: d.list(3, |d| ReadTime { pid: d.u32(), boottime_ns: d.u64() }),
                cpu_runs: d.list(3, |d| CpuRun { task: task(d), cpu: CpuId(d.u32()), run_ns: d.u64() }),
            }
        }),
        waits: Waits {
            sub_samples: d.list(4, |d| SubSample {
                boottime_ns: d.u64(),
                cpu: d.maybe(cpu_times),
                in_flight: d.maybe(Dice::u32),
                waits: d.list(3, group_wait),
            }),
            groups: d.list(4, group),
            observed: d.list(4, |d| ObservedWait {
                id: d.u32(),
                state: TaskState::from_stat_char(b"RSDITtZX?"[d.below(9) as usize]),
                wchan: d.maybe(Dice::name),
                syscall: d.maybe(call),
                has_timeout: d.bool(),
            }),
            threads: d.list(4, |d| ThreadWait { task: task(d), wait: d.u32(), group: d.u16(), seen_count: d.u16() }),
            ipc_waiters: d.list(2, |d| IpcWaiter { task: task(d), group: d.u16(), peer: d.u16() }),
            ipc_holders: d.list(2, |d| IpcHolder { group: d.u16(), peer: d.u16(), pid: d.u32() }),
            blocked: d.list(4, blocked_wait),
            wait_queues: d.list(4, |d| WaitQueue {
                group: d.u16(),
                wait: d.u32(),
                futex_address: d.maybe(Dice::u64),
                seen_count: d.u32(),
                file: d.maybe(Dice::name),
                lock_holder: d.maybe(Dice::u32),
            }),
            lock_owners: d.list(3, |d| LockOwner {
                group: d.u16(),
                futex_address: d.u64(),
                is_shared: d.bool(),
                field: match d.u32() % 3 {
                    0 => OwnerField::GlibcMutex,
                    1 => OwnerField::FutexWord,
                    _ => OwnerField::Waker(WakerChecks { made: d.u32() % 65, confirmed: d.u32() % 65 }),
                },
                waiters: d.u32(),
                owner: blocked_wait(d),
                kernel_lock: d.maybe(Dice::u32),
            }),
            kernel_lock_owners: d.list(3, |d| KernelLockOwner {
                group: d.u16(),
                lock: d.u32(),
                field: if d.bool() { OwnerField::KernelMutex } else { OwnerField::KernelReader },
                waiters: d.u32(),
                waits_for: d.maybe(Dice::u32),
                owner: blocked_wait(d),
            }),
            kernel_lock_readings: d.u32(),
            owner_peers: d.list(2, |d| OwnerPeer { owner: task(d), peer: d.u32(), is_pipe: d.bool(), may_answer: d.bool() }),
            peer_waits: d.list(2, blocked_wait),
            socket_waiters: d.list(2, |d| SocketWaiter {
                task: task(d),
                group: d.u16(),
                remote: socket_address(d),
                local_port_listens: d.bool(),
                last_data_sent_ms: d.u32(),
                last_data_received_ms: d.u32(),
            }),
            traced: d.list(2, |d| TracedProcess { pid: d.u32(), tracer: d.u32() }),
            pipe_links: d.list(2, |d| PipeLink { writer: d.u32(), reader: d.u32(), is_full: d.bool() }),
            server_sockets: d.list(2, |d| ServerSocket {
                group: d.u16(),
                pid: d.u32(),
                local_port: d.maybe(Dice::u16),
                accept_queue: d.u32(),
                unread_bytes: d.u32(),
                last_data_sent_ms: d.maybe(Dice::u32),
                last_data_received_ms: d.maybe(Dice::u32),
                data_segments_in: d.maybe(Dice::u32),
                data_segments_out: d.maybe(Dice::u32),
            }),
            unread_servers: d.list(2, |d| UnreadServer { group: d.u16(), reason: d.absent() }),
            skipped_sub_samples: d.u32(),
        },
        exits: d.reading(|d| Exits {
            rows: d.list(4, exited),
            unlisted: UnlistedExits { processes: d.u32(), cpu: used(d), threads: d.u32() },
            previously_sampled: d.u32(),
            lost_messages: d.counter(),
        }),
        operations: d.reading(|d| Operations { total: d.counter(), printed_boottime_ns: d.u64() }),
        cost: SamplingCost {
            process_cpu_ns: d.counter(),
            scan_cpu_ns: d.u64(),
            sub_samples_cpu_ns: d.u64(),
            start_delay_ns: d.u64(),
            tasks_read: d.u32(),
            skipped_samples: d.u32(),
        },
    }
}

fn blocked_wait(d: &mut Dice) -> BlockedWait {
    BlockedWait {
        task: task(d),
        group: d.u16(),
        comm: d.name(),
        state: TaskState::Blocked,
        wchan: d.maybe(Dice::name),
        syscall: d.maybe(call),
        seen_count: d.u16(),
        last_sub_sample: d.u16(),
        blocked_since_ns: d.u64(),
        file: d.maybe(Dice::name),
        disk: d.maybe(disk_id),
        mount: d.maybe(Dice::name),
        file_system: d.maybe(Dice::name),
    }
}

fn cpu_times(d: &mut Dice) -> CpuTimes {
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

fn memory(d: &mut Dice) -> Memory {
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

fn stall(d: &mut Dice) -> Stall {
    let line = |d: &mut Dice| StallLine {
        avg10: d.small_float(),
        avg60: d.small_float(),
        avg300: d.small_float(),
        total_us: d.counter(),
    };
    Stall { some: d.maybe(line), full: d.maybe(line) }
}

fn disk_id(d: &mut Dice) -> DiskId {
    DiskId { major: d.u32(), minor: d.u32() }
}

fn operations(d: &mut Dice) -> OpCounters {
    OpCounters { completed: d.counter(), merged: d.counter(), sectors: d.counter(), time_ms: d.counter() }
}

fn latency_bucket(d: &mut Dice) -> LatencyBucket {
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

fn disk(d: &mut Dice) -> Disk {
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

fn nic(d: &mut Dice) -> Nic {
    let direction = |d: &mut Dice| Direction {
        bytes: d.counter(),
        packets: d.counter(),
        errors: d.counter(),
        dropped: d.counter(),
        fifo_errors: d.counter(),
    };
    Nic {
        id: NicId { ifindex: d.u32(), name: d.name() },
        facts: Arc::new(NicFacts {
            speed_mbps: d.reading(Dice::u32),
            duplex: d.reading(|d| if d.bool() { Duplex::Half } else { Duplex::Full }),
            up: d.maybe(Dice::bool),
            loopback: d.bool(),
            virtual_device: d.bool(),
        }),
        rx: direction(d),
        tx: direction(d),
        multicast: d.counter(),
        collisions: d.counter(),
        carrier_losses: d.counter(),
        rx_missed: d.maybe(Dice::counter),
        rx_nohandler: d.maybe(Dice::counter),
        qdisc: d.maybe(|d| Qdisc {
            kind: d.name(),
            backlog_bytes: d.u64(),
            backlog_packets: d.u64(),
            dropped: d.counter(),
            overlimits: d.counter(),
            requeues: d.counter(),
            ingress_dropped: d.maybe(Dice::counter),
            rate_bytes_per_second: d.maybe(Dice::u64),
        }),
    }
}

fn tcp(d: &mut Dice) -> Tcp {
    Tcp {
        active_opens: d.counter(),
        passive_opens: d.counter(),
        attempt_fails: d.counter(),
        established_resets: d.counter(),
        established: d.u64(),
        segments_in: d.counter(),
        segments_out: d.counter(),
        segments_retransmitted: d.counter(),
        errors_in: d.counter(),
        resets_out: d.counter(),
    }
}

fn socket_address(d: &mut Dice) -> SocketAddr {
    let port = d.u16();
    match d.bool() {
        true => SocketAddr::from((Ipv4Addr::from_bits(d.u32()), port)),
        false => {
            let bits = u128::from(d.u64()) << 64 | u128::from(d.u64());
            SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::from_bits(bits), port, d.u32(), d.u32()))
        }
    }
}

fn waiting_connections(d: &mut Dice) -> WaitingConnections {
    use ConnectionWait::{Acknowledgement, Answer, ClosedWindow, Connect, FullWindow, NameServer, SendBuffer};
    let waits = [Connect, Acknowledgement, ClosedWindow, FullWindow, SendBuffer, NameServer, Answer];
    WaitingConnections {
        remote_host: socket_address(d).ip(),
        remote_port: d.maybe(Dice::u16),
        local_port: d.maybe(Dice::u16),
        wait: waits[usize::from(d.u16()) % waits.len()],
        connections: d.u32(),
        owner: d.maybe(|d| (process_id(d), d.name())),
        threads: d.maybe(Dice::u32),
        since_boottime_ns: d.u64(),
        queued_bytes: d.u64(),
        retries: d.u32(),
        receiver: d.maybe(|d| (process_id(d), d.name())),
        unread_bytes: d.u64(),
        receiving_threads: d.u32(),
        polling_threads: d.u32(),
        longest_answer_ms: d.maybe(Dice::u32),
    }
}

fn limit(d: &mut Dice) -> Limit {
    const KINDS: [LimitKind; 7] = [
        LimitKind::CgroupTasks,
        LimitKind::OpenFiles,
        LimitKind::HostFiles,
        LimitKind::TrackedConnections,
        LimitKind::LocalPorts,
        LimitKind::HostTasks,
        LimitKind::TaskIds,
    ];
    Limit {
        kind: KINDS[d.below(7) as usize],
        process: d.maybe(|d| (process_id(d), d.name())),
        cgroup: d.maybe(cgroup_id),
        remote: d.maybe(socket_address),
        used: d.u64(),
        max: d.u64(),
        in_time_wait: d.u64(),
        refused: d.maybe(Dice::counter),
    }
}

fn unix_senders(d: &mut Dice) -> UnixSenders {
    UnixSenders {
        owner: (process_id(d), d.name()),
        receiver: d.maybe(|d| (process_id(d), d.name())),
        are_datagrams: d.bool(),
        address: d.maybe(Dice::name),
        sockets: d.u32(),
        threads: d.u32(),
        polling_threads: d.u32(),
        since_boottime_ns: d.u64(),
        unread_bytes: d.u64(),
    }
}

fn udp6(d: &mut Dice) -> Udp6 {
    Udp6 {
        datagrams_in: d.counter(),
        errors_in: d.counter(),
        datagrams_out: d.counter(),
        receive_buffer_errors: d.maybe(Dice::counter),
        send_buffer_errors: d.maybe(Dice::counter),
    }
}

fn network_namespace(d: &mut Dice) -> NetworkNamespace {
    NetworkNamespace {
        inode: d.u64(),
        process: process_id(d),
        comm: d.name(),
        has_socket: d.bool(),
        tcp: d.reading(tcp),
        tcp_ext: d.reading(tcp_ext),
        udp: d.reading(udp),
        udp6: d.reading(udp6),
        ip_octets: d.reading(|d| (d.counter(), d.counter())),
        fullest_listener: d.maybe(listener),
        fullest_syn_queue: d.maybe(syn_queue),
        top_udp_socket: d.maybe(udp_socket),
        top_retransmit_host: d.maybe(|d| RetransmitHost {
            address: socket_address(d).ip(),
            segments_retransmitted: d.counter(),
            process: d.maybe(|d| (process_id(d), d.name())),
        }),
    }
}

fn tcp_ext(d: &mut Dice) -> TcpExt {
    TcpExt {
        listen_overflows: d.maybe(Dice::counter),
        listen_drops: d.maybe(Dice::counter),
        syn_retransmits: d.maybe(Dice::counter),
        timeouts: d.maybe(Dice::counter),
        lost_retransmits: d.maybe(Dice::counter),
        backlog_drops: d.maybe(Dice::counter),
        syn_cookies_sent: d.maybe(Dice::counter),
        syn_cookies_received: d.maybe(Dice::counter),
        syn_cookies_failed: d.maybe(Dice::counter),
        syn_queue_full_cookies: d.maybe(Dice::counter),
        syn_queue_full_drops: d.maybe(Dice::counter),
    }
}

fn udp(d: &mut Dice) -> Udp {
    Udp {
        datagrams_in: d.counter(),
        no_ports: d.counter(),
        errors_in: d.counter(),
        datagrams_out: d.counter(),
        receive_buffer_errors: d.maybe(Dice::counter),
        send_buffer_errors: d.maybe(Dice::counter),
    }
}

fn udp_socket(d: &mut Dice) -> UdpSocket {
    UdpSocket {
        local_address: socket_address(d),
        inode: d.u64(),
        queued_bytes: d.u64(),
        drops: d.counter(),
        owner: d.maybe(|d| (process_id(d), d.name())),
    }
}

fn syn_queue(d: &mut Dice) -> SynQueue {
    SynQueue {
        local_address: socket_address(d),
        requests: d.u32(),
        limit: d.maybe(Dice::u32),
        remote_hosts: d.u32(),
        top_remote_host: socket_address(d).ip(),
        top_requests: d.u32(),
        owner: d.maybe(|d| (process_id(d), d.name())),
    }
}

fn listener(d: &mut Dice) -> Listener {
    Listener {
        local_address: socket_address(d),
        accept_queue: d.u32(),
        backlog_limit: d.u32(),
        owner: d.maybe(|d| (process_id(d), d.name())),
    }
}

fn softnet(d: &mut Dice) -> Softnet {
    Softnet {
        cpu: d.maybe(|d| CpuId(d.u32())),
        processed: d.counter(),
        dropped: d.counter(),
        time_squeeze: d.counter(),
        received_rps: d.maybe(Dice::counter),
        flow_limited: d.maybe(Dice::counter),
    }
}

fn peer(d: &mut Dice) -> RemoteHost {
    let round_trips = |d: &mut Dice| RttSums { count: d.counter(), srtt_us: d.counter(), min_rtt_us: d.maybe(Dice::counter) };
    RemoteHost {
        address: match d.bool() {
            true => IpAddr::V4(Ipv4Addr::from_bits(d.u32())),
            false => IpAddr::V6(Ipv6Addr::from_bits(u128::from(d.u64()) << 64 | u128::from(d.u64()))),
        },
        local: d.bool(),
        ifindex: d.maybe(Dice::u32),
        connections: d.u32(),
        bytes_acked: d.maybe(Dice::counter),
        bytes_received: d.maybe(Dice::counter),
        data_segments_out: d.maybe(Dice::counter),
        segments_retransmitted: d.counter(),
        active: round_trips(d),
        send_backlogged: round_trips(d),
        send_limits: d.maybe(|d| SendLimitTimes {
            observed_us: d.counter(),
            busy_us: d.counter(),
            rwnd_limited_us: d.counter(),
            sndbuf_limited_us: d.counter(),
        }),
        worst_process: d.maybe(|d| (process_id(d), d.name())),
    }
}

fn ended(d: &mut Dice) -> ChildrenCpuTime {
    ChildrenCpuTime { user_ticks: d.counter(), system_ticks: d.counter() }
}

fn used(d: &mut Dice) -> ExitCpuTime {
    ExitCpuTime { run_ns: d.u64(), tick_ns: d.u64() }
}

fn exited(d: &mut Dice) -> ExitedTasks {
    ExitedTasks {
        owner: d.maybe(process_id),
        owner_name: d.name(),
        name: d.name(),
        are_threads: d.bool(),
        count: d.u32(),
        cpu: used(d),
    }
}

fn process_id(d: &mut Dice) -> ProcessId {
    ProcessId { pid: d.u32(), start_ticks: d.u64() }
}

fn task(d: &mut Dice) -> TaskId {
    TaskId { pid: d.u32(), tid: d.u32(), start_ticks: d.u64() }
}

fn cgroup_id(d: &mut Dice) -> CgroupId {
    CgroupId { version: if d.bool() { CgroupVersion::V1 } else { CgroupVersion::V2 }, path: d.name() }
}

fn cgroup(d: &mut Dice) -> Cgroup {
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

fn averages(d: &mut Dice) -> StallAverages {
    let [avg10, avg60, avg300] = [d.u32() as u16, d.u32() as u16, d.u32() as u16];
    StallAverages { avg10, avg60, avg300 }
}

/// A container with a name.
pub fn container_names() -> Vec<ContainerName> {
    let id = Name::from("4f797c539e6c745de61a93ca3ff892358ecbcaccd8414d5db545c38428142970");
    let runtime = ContainerRuntime::Docker;
    vec![ContainerName { id, runtime, name: "web-1".into(), pod_uid: None, pod: None, namespace: None }]
}

fn container_name(d: &mut Dice) -> ContainerName {
    ContainerName {
        id: d.name(),
        runtime: if d.bool() { ContainerRuntime::Podman } else { ContainerRuntime::Containerd },
        name: d.name(),
        pod_uid: d.maybe(Dice::name),
        pod: d.maybe(Dice::name),
        namespace: d.maybe(Dice::name),
    }
}

fn io_limit(d: &mut Dice) -> IoLimit {
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

fn task_delays(d: &mut Dice) -> TaskDelays {
    let delay = |d: &mut Dice| Delay { count: d.counter(), total_ns: d.counter() };
    TaskDelays {
        task: task(d),
        block_io: delay(d),
        swap_in: delay(d),
        reclaim: d.maybe(delay),
        thrashing: d.maybe(delay),
        compaction: d.maybe(delay),
        write_protect_copy: d.maybe(delay),
        irq: d.maybe(delay),
    }
}

fn memberships(d: &mut Dice) -> Memberships {
    Memberships { memory: d.maybe(cgroup_id), io: d.maybe(cgroup_id), cpuset: d.maybe(cgroup_id), pids: d.maybe(cgroup_id) }
}

fn group(d: &mut Dice) -> GroupId {
    match d.bool() {
        true => GroupId::Process(process_id(d)),
        false => GroupId::Siblings { parent: d.u32(), executable: d.name() },
    }
}

fn group_wait(d: &mut Dice) -> GroupWait {
    GroupWait { group: d.u16(), wait: d.u32(), active: d.bool(), threads: d.u16(), at_shared_address: d.u16() }
}

fn call(d: &mut Dice) -> RawSyscall {
    RawSyscall { number: i64::from_ne_bytes(d.u64().to_ne_bytes()), arguments: [d.u64(), d.u64(), d.u64()] }
}

fn strange_process(d: &mut Dice) -> Process {
    let mut threads = d.list(4, |d| Thread {
        tid: d.u32(),
        start_ticks: d.u64(),
        comm: d.name(),
        state: TaskState::from_stat_char(b"RSDITtZXP"[d.below(9) as usize]),
        processor: d.u32(),
        user_ticks: d.counter(),
        system_ticks: d.counter(),
        minor_faults: d.counter(),
        major_faults: d.counter(),
        block_io_delay_ticks: d.counter(),
        guest_ticks: d.counter(),
        background: d.bool(),
        schedstat: d.maybe(|d| Schedstat { run_ns: d.counter(), run_delay_ns: d.counter(), timeslices: d.counter() }),
        last_timeslice_ns: d.maybe(Dice::u64),
        wait: WaitState { wchan: d.reading(Dice::name), syscall: d.reading(|d| call(d).into()) },
        cpus_allowed_list: d.maybe(Dice::name),
        scheduling: d.maybe(|d| Scheduling {
            policy: d.below(256) as u8,
            nice: (d.below(256) as u8).cast_signed(),
            rt_priority: d.below(100) as u8,
        }),
    });
    // The kernel lists them in order, but nothing here may depend on that.
    if d.bool() {
        threads.sort_by_key(|thread| thread.tid);
    }
    Process {
        pid: d.below(12) as u32,
        start_ticks: d.u64(),
        ppid: d.u32(),
        uid: d.u32(),
        comm: d.name(),
        kernel_thread: d.bool(),
        facts: Arc::new(ProcessFacts {
            cmdline: d.reading(Dice::name),
            executable: d.reading(Dice::name),
            cgroup: d.reading(cgroup_id),
            memberships: d.maybe(memberships).map(Arc::new),
        }),
        user_ticks: d.counter(),
        system_ticks: d.counter(),
        guest_ticks: d.counter(),
        children_cpu: d.maybe(ended),
        cpu_ns: d.maybe(Dice::counter),
        minor_faults: d.counter(),
        major_faults: d.counter(),
        resident_pages: d.u64(),
        virtual_bytes: d.maybe(Dice::u64),
        shared_pages: d.maybe(Dice::u64),
        io: d.reading(|d| TaskIo {
            read_bytes: d.counter(),
            write_bytes: d.counter(),
            cancelled_write_bytes: d.counter(),
            read_syscalls: d.counter(),
            write_syscalls: d.counter(),
        }),
        threads: threads.into(),
    }
}

/// Samples in which much stays, some changes, comes and goes, and now and then nothing is as it was.
pub fn strange_samples(dice: &mut Dice, count: usize) -> Vec<Arc<Sample>> {
    let mut samples: Vec<Arc<Sample>> = Vec::new();
    for _ in 0..count {
        let mut next = strange_sample(dice);
        if let Some(last) = samples.last().filter(|_| !dice.one_in(5)) {
            if let (Ok(new), Ok(old)) = (&mut next.tasks, &last.tasks) {
                let mut processes: BTreeMap<u32, Arc<Process>> = BTreeMap::new();
                for process in &old.processes {
                    if dice.one_in(5) {
                        continue;
                    }
                    let kept = match dice.below(4) {
                        0 => {
                            let mut process = Process::clone(process);
                            process.user_ticks = dice.counter();
                            if let Some(thread) = process.threads_mut().first_mut() {
                                thread.user_ticks = dice.counter();
                                thread.wait = WaitState {
                                    wchan: dice.reading(Dice::name),
                                    syscall: dice.reading(|dice| call(dice).into()),
                                };
                            }
                            Arc::new(process)
                        }
                        1 => Arc::new(Process::clone(process)),
                        _ => process.clone(),
                    };
                    processes.insert(process.pid, kept);
                }
                for process in std::mem::take(&mut new.processes) {
                    processes.entry(process.pid).or_insert(process);
                }
                new.processes = processes.into_values().collect();
                if dice.bool() {
                    new.users = old.users.clone();
                }
            }
            if dice.bool() {
                next.disks = last.disks.clone();
                next.memory = last.memory;
                next.waits = last.waits.clone();
            }
        }
        samples.push(Arc::new(next));
    }
    samples
}

/// A machine that is simply running.
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
            cpu_runs: Vec::new(),
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
        let d = &mut self.dice;
        let jitter = d.below(200_000);
        let now = &mut self.now;
        now.at.boottime_ns += 1_000_000_000 + jitter;
        now.at.monotonic_ns += 1_000_000_000 + jitter;
        now.at.realtime_ns += 1_000_000_000 + i64::try_from(jitter + d.below(50)).unwrap();
        let at_ns = now.at.boottime_ns;
        let mut total_before = CpuTimes::default();
        let grow = |counter: &mut Counter, d: &mut Dice, most: u64| counter.0 += d.below(most + 1);
        if let Ok(cpu) = &mut now.cpu {
            total_before = cpu.total;
            let load = self.busy.min(40) as u64;
            let step = |times: &mut CpuTimes, d: &mut Dice, scale: u64| {
                grow(&mut times.user_ticks, d, (1 + load) * scale);
                grow(&mut times.system_ticks, d, (1 + load / 2) * scale);
                times.idle_ticks.0 += 60 * scale;
                grow(&mut times.idle_ticks, d, 40 * scale);
                grow(&mut times.iowait_ticks, d, load / 8 * scale);
                grow(&mut times.softirq_ticks, d, load.min(1) * scale);
            };
            for (_, times) in &mut cpu.cpus {
                step(times, d, 1);
            }
            step(&mut cpu.total, d, u64::from(self.cpus));
            for (counter, most) in [(&mut cpu.context_switches, 30_000), (&mut cpu.interrupts, 20_000), (&mut cpu.forks, 5)] {
                grow(counter.as_mut().unwrap(), d, most);
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
                grow(counter.as_mut().unwrap(), d, most);
            }
        }
        for resource in [&mut now.pressure.cpu, &mut now.pressure.io] {
            if let Ok(Stall { some: Some(some), full: Some(full) }) = resource {
                some.avg10 = d.below(300) as f32 / 100.0;
                grow(&mut some.total_us, d, 20_000);
                grow(&mut full.total_us, d, 5000);
            }
        }
        if let Ok(disks) = &mut now.disks {
            for disk in disks.iter_mut().take(self.busy.min(1)) {
                for operations in [&mut disk.reads, &mut disk.writes] {
                    grow(&mut operations.completed, d, 300);
                    grow(&mut operations.merged, d, 20);
                    grow(&mut operations.sectors, d, 20_000);
                    grow(&mut operations.time_ms, d, 900);
                }
                disk.in_flight = d.below(5) as u32;
                grow(&mut disk.io_ticks_ms, d, 500);
                grow(&mut disk.time_in_queue_ms, d, 900);
            }
        }
        if let Ok(nics) = &mut now.nics {
            for nic in nics {
                for direction in [&mut nic.rx, &mut nic.tx] {
                    grow(&mut direction.bytes, d, 1_000_000);
                    grow(&mut direction.packets, d, 2000);
                }
            }
        }
        if let Ok(tcp) = &mut now.protocols.tcp {
            tcp.segments_in.0 = tcp.segments_in.0.wrapping_add(d.below(3000));
            tcp.segments_out.0 = tcp.segments_out.0.wrapping_add(d.below(3000));
        }
        if let Ok((octets_in, octets_out)) = &mut now.protocols.ip_octets {
            grow(octets_in, d, 1_000_000);
            grow(octets_out, d, 1_000_000);
        }
        if let Ok(tasks) = &mut now.tasks {
            let count = tasks.processes.len();
            let busy = (0..count).step_by((count / self.busy.max(1)).max(1)).take(self.busy).collect::<Vec<_>>();
            let wakers = (0..count / 200).map(|_| d.below(count as u64) as usize).collect::<Vec<_>>();
            for &at in busy.iter().chain(&wakers) {
                let process = Arc::make_mut(&mut tasks.processes[at]);
                let ran = 1_000_000 + d.below(80_000_000);
                let ticks = ran / 10_000_000;
                process.user_ticks.0 += ticks;
                process.minor_faults.0 += d.below(100);
                if let Some(clock) = &mut process.cpu_ns {
                    clock.0 += ran;
                }
                if d.one_in(3) {
                    process.resident_pages += d.below(50);
                }
                if let Ok(io) = &mut process.io {
                    grow(&mut io.read_syscalls, d, 300);
                    grow(&mut io.write_syscalls, d, 300);
                    io.write_bytes.0 += 4096 * d.below(30);
                }
                let minor_faults = process.minor_faults;
                let thread = &mut process.threads_mut()[0];
                thread.user_ticks.0 += ticks;
                thread.minor_faults = minor_faults;
                thread.processor = d.below(u64::from(self.cpus)) as u32;
                thread.last_timeslice_ns = Some(at_ns);
                // Whatever only woke up is asleep again.
                let runs = d.one_in(4) && busy.contains(&at);
                thread.state = if runs { TaskState::Running } else { TaskState::Sleeping };
                thread.wait.wchan = Ok(Name::from(["do_epoll_wait", "futex_do_wait", ""][d.below(3) as usize]));
                if let Some(sched) = &mut thread.schedstat {
                    sched.run_ns.0 += ran;
                    grow(&mut sched.run_delay_ns, d, 3_000_000);
                    grow(&mut sched.timeslices, d, 200);
                }
            }
            let total = now.cpu.as_ref().map(|cpu| cpu.total).unwrap_or_default();
            let span = |now: Counter, before: Counter, part: u64| Counter(before.0 + (now.0 - before.0) * part / 10);
            now.waits.groups = busy.iter().take(8).map(|&at| GroupId::Process(tasks.processes[at].id())).collect();
            now.waits.threads = busy
                .iter()
                .flat_map(|&at| {
                    let process = &tasks.processes[at];
                    let running = d.below(11) as u16;
                    let seen = [(WaitClass::Running, running), (WaitClass::Poll, 10 - running)];
                    synthetic::waits::thread(process.task_id(&process.threads[0]), (at % 8) as u16, &seen)
                })
                .collect();
            now.waits.observed = synthetic::waits::observed();
            now.waits.wait_queues = (0..now.waits.groups.len())
                .map(|group| WaitQueue {
                    group: group as u16,
                    wait: WaitClass::Futex as u32,
                    futex_address: Some(0x7f00_0000_1000 + group as u64 * 0x4320),
                    seen_count: 20 + d.below(20) as u32,
                    file: None,
                    lock_holder: None,
                })
                .collect();
            let groups = if self.busy > 0 { 3 } else { 0 };
            now.waits.sub_samples = (1..=10)
                .map(|part| SubSample {
                    boottime_ns: at_ns - (10 - part) * 100_000_000 + if part == 10 { 0 } else { d.below(300_000) },
                    cpu: Some(CpuTimes {
                        user_ticks: span(total.user_ticks, total_before.user_ticks, part),
                        system_ticks: span(total.system_ticks, total_before.system_ticks, part),
                        idle_ticks: span(total.idle_ticks, total_before.idle_ticks, part),
                        iowait_ticks: span(total.iowait_ticks, total_before.iowait_ticks, part),
                        softirq_ticks: span(total.softirq_ticks, total_before.softirq_ticks, part),
                        ..total
                    }),
                    in_flight: Some(d.below(4) as u32),
                    waits: (0..groups)
                        .map(|group| {
                            let wait = [WaitClass::Running, WaitClass::Poll][d.below(2) as usize] as u32;
                            GroupWait { group, wait, active: true, threads: 1, at_shared_address: 0 }
                        })
                        .collect(),
                })
                .collect();
        }
        now.cost = SamplingCost {
            process_cpu_ns: Counter(now.cost.process_cpu_ns.0 + 10_000_000 + d.below(3_000_000)),
            scan_cpu_ns: 8_000_000 + d.below(1_000_000),
            sub_samples_cpu_ns: 1_000_000 + d.below(100_000),
            start_delay_ns: d.below(100_000),
            tasks_read: self.busy as u32,
            skipped_samples: 0,
        };
        Arc::new(now.clone())
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

fn plain_process(d: &mut Dice, pid: u32, threads: u32) -> Process {
    let comm = Name::from(format!("worker-{}", d.below(40)).as_str());
    let started = 1000 + u64::from(pid) * 37;
    let threads: Vec<Thread> = (0..threads)
        .map(|at| {
            let thread = synthetic::thread(pid + at, comm.clone()).started(started + u64::from(at));
            thread
                .with(|thread| {
                    thread.processor = d.below(16) as u32;
                    thread.user_ticks = Counter(d.below(10_000));
                    thread.system_ticks = Counter(d.below(10_000));
                    thread.minor_faults = Counter(d.below(100_000));
                    thread.major_faults = Counter(d.below(10));
                    thread.schedstat = Some(Schedstat {
                        run_ns: Counter(d.below(100_000_000_000)),
                        run_delay_ns: Counter(d.below(1_000_000_000)),
                        timeslices: Counter(d.below(100_000)),
                    });
                    thread.last_timeslice_ns = Some(987_000_000_000_000);
                    thread.wait.wchan = Ok(Name::from("do_epoll_wait"));
                })
                .build()
        })
        .collect();
    let sum = |part: fn(&Thread) -> u64| Counter(threads.iter().map(part).sum());
    let path = Name::from(format!("/system.slice/{}", pid % 9).as_str());
    let facts = ProcessFacts {
        cmdline: Ok(Name::from(format!("/usr/sbin/worker\0--number\0{pid}").as_str())),
        executable: Ok(Name::from("/usr/sbin/worker")),
        cgroup: Ok(CgroupId { version: CgroupVersion::V2, path }),
        ..ProcessFacts::default()
    };
    synthetic::process(pid, comm)
        .started(started)
        .parent(1)
        .facts(facts)
        .with(|process| {
            process.uid = if pid.is_multiple_of(3) { 1000 } else { 0 };
            process.user_ticks = sum(|thread| thread.user_ticks.0);
            process.system_ticks = sum(|thread| thread.system_ticks.0);
            process.children_cpu =
                Some(ChildrenCpuTime { user_ticks: Counter(d.below(1_000)), system_ticks: Counter(d.below(100)) });
            process.cpu_ns = Some(sum(|thread| thread.schedstat.map_or(0, |sched| sched.run_ns.0)));
            process.minor_faults = sum(|thread| thread.minor_faults.0);
            process.major_faults = sum(|thread| thread.major_faults.0);
            process.resident_pages = d.below(100_000);
            process.io = Ok(TaskIo {
                read_bytes: Counter(d.below(10_000_000)),
                write_bytes: Counter(d.below(10_000_000)),
                cancelled_write_bytes: Counter(0),
                read_syscalls: Counter(d.below(1_000_000)),
                write_syscalls: Counter(d.below(1_000_000)),
            });
        })
        .threads(threads)
        .build()
}

pub fn meta() -> Meta {
    Meta {
        version: "0.1.0".to_owned(),
        host: Host {
            hostname: Name::from("db1"),
            kernel: Name::from("6.18.0"),
            machine: Name::from("x86_64"),
            boot_id: Name::from("5c2d5e8a-3f0b-4a55-9f60-1f6f2a0c7b11"),
            boot_time_s: Some(1_759_000_000),
            topology: (0..2).map(|cpu| CpuTopology { cpu: CpuId(cpu), node: 0, package: 0, core: cpu }).collect(),
            privilege: Privilege {
                effective_uid: 0,
                has_cap_sys_ptrace: true,
                delay_accounting: Err(Absent::NoSuchFile),
                hidepid: false,
            },
            ..synthetic::host()
        },
        interval: Duration::from_secs(1),
        redaction: Redaction::Nothing,
        absent: vec![("/proc/pressure/io".to_owned(), Absent::Unsupported)],
    }
}
