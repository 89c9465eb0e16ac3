//! Every threshold of every rule, with unit and default. The docs, the example configuration and `check --threshold` are generated
//! from this list.

use super::threshold::{Threshold, ThresholdUnit};
use super::{Kind, Severity};

/// Each line has meaning, name, kinds, unit and default. A threshold belongs to the first of its kinds; the first threshold of a
/// kind is the one that its findings state.
macro_rules! thresholds {
    ($($(#[doc = $doc:literal])+ $name:ident($($kind:ident),+): $unit:ident = $default:literal,)+) => {
        /// All thresholds; docs/metrics.md defines the figures.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Thresholds {
            $($(#[doc = $doc])+ pub $name: f64,)+
        }

        impl Default for Thresholds {
            fn default() -> Thresholds {
                Thresholds { $($name: $default,)+ }
            }
        }

        /// What can be set, in the order of the rules.
        pub const THRESHOLDS: &[Threshold] = &[$(Threshold {
            field: stringify!($name),
            meaning: &[$($doc),+],
            kinds: &[$(Kind::$kind),+],
            unit: ThresholdUnit::$unit,
            default: $default,
            get: |thresholds| thresholds.$name,
            set: |thresholds, value| thresholds.$name = value,
        },)+];
    };
}

thresholds! {
    /// Share of the host from which it is reported
    blocked_ratio(IdleButBlocked): Share = 0.25,
    /// CPUs from which it is reported
    blocked_cpus(IdleButBlocked): Cpus = 0.5,
    /// Mean number of blocked threads from which it is a warning whatever the device does
    blocked_threads(IdleButBlocked): Threads = 1.5,
    /// Share of the host from which it is critical
    blocked_critical_ratio(IdleButBlocked, KernelLockContention): Share = 0.5,
    /// Blocked threads for each CPU from which it is critical
    blocked_critical_threads_per_cpu(IdleButBlocked, KernelLockContention): PerCpu = 2.0,
    /// Mean number of threads that wait for locks inside the kernel
    kernel_lock_threads(KernelLockContention): Threads = 1.5,
    /// CPUs that were idle while such a thread waited
    kernel_lock_cpus(KernelLockContention): Cpus = 0.25,
    /// Share of the host that was idle meanwhile from which it is a warning
    kernel_lock_warning_ratio(KernelLockContention): Share = 0.1,
    /// Mean number of threads that wait for the lock of a file whose holder sleeps
    file_lock_threads(FileLockQueue): Threads = 1.5,
    /// Mean number of them from which it is a warning
    file_lock_warning_threads(FileLockQueue): Threads = 2.5,
    /// Mean number of threads that wait for a mutex whose holder sleeps
    mutex_queue_threads(MutexQueue): Threads = 2.5,
    /// Sessions of PostgreSQL that wait for a lock of the database
    database_lock_sessions(DatabaseLockQueue): Threads = 2.0,
    /// Busy share of the CPU
    core_busy_ratio(SaturatedCore, SaturatedThread): Share = 0.95,
    /// CPU time ÷ time
    thread_busy_ratio(SaturatedThread, SaturatedCore): Share = 0.95,
    /// The host, or the CPUs that the thread may use, must be less busy than this
    host_busy_below_ratio(SaturatedCore, SaturatedThread): Share = 0.9,
    /// CPUs that must be free beside the thread or the CPU
    free_cpus(SaturatedCore, SaturatedThread): Cpus = 0.25,
    /// Threads waiting for a CPU, for each CPU
    cpu_waiting_per_cpu(CpuSaturated, ShortLivedProcesses): PerCpu = 0.25,
    /// Seconds from which it is more than a note
    limit_seconds(SaturatedCore, SaturatedThread, CpuSaturated): Seconds = 3.5,
    /// Busy and stolen share of the host
    cpu_busy_ratio(CpuSaturated, SaturatedCore, SaturatedThread, ShortLivedProcesses): Share = 0.9,
    /// Threads waiting for a CPU, for each CPU, from which it is critical
    cpu_waiting_critical_per_cpu(CpuSaturated): PerCpu = 4.0,
    /// Throttled share of the time
    throttled_ratio(CpuThrottled): Share = 0.05,
    /// Stolen share of the host
    stolen_ratio(CpuStolen): Share = 0.05,
    /// Stolen share of the host from which it is critical
    stolen_critical_ratio(CpuStolen): Share = 0.5,
    /// CPUs by which the scheduler's run time and the clock ticks differ
    hidden_cpus(HiddenCpu): Cpus = 0.05,
    /// Intervals in a row
    hidden_intervals(HiddenCpu): Intervals = 3.0,
    /// Forks per second
    short_lived_forks_per_second(ShortLivedProcesses): PerSecond = 50.0,
    /// Share of them that a scan finds
    short_lived_seen_ratio(ShortLivedProcesses): Share = 0.5,
    /// CPU time of tasks that no scan found, share of what is used
    short_lived_busy_ratio(ShortLivedProcesses, CpuSaturated): Share = 0.1,
    /// CPUs that such tasks use at least
    short_lived_cpus(ShortLivedProcesses): Cpus = 0.05,
    /// Share of the host from which it is a warning where CPUs are saturated
    short_lived_warning_ratio(ShortLivedProcesses): Share = 0.5,
    /// Multiple of the baseline
    latency_multiple(DiskLatency): Multiple = 3.0,
    /// Multiple of the baseline from which it is critical
    latency_critical_multiple(DiskLatency): Multiple = 10.0,
    /// Multiple of a provisional baseline
    latency_provisional_multiple(DiskLatency): Multiple = 10.0,
    /// Multiple of the baseline of p99, while p50 is at its baseline
    latency_tail_multiple(DiskLatency): Multiple = 10.0,
    /// Seconds lost per second, (await − baseline) × completions, from which it matters
    latency_felt(DiskLatency, DiskDrift): SecondsPerSecond = 0.5,
    /// Mean number of blocked threads below which no thread waits for it, and it is a note
    latency_waiting_threads(DiskLatency, DiskStalled): Threads = 0.5,
    /// Share of time with a request outstanding
    disk_busy_ratio(DiskBusyNotSaturated): Share = 0.9,
    /// Multiple of the baseline below which the device is not saturated
    disk_well_multiple(DiskBusyNotSaturated): Multiple = 2.0,
    /// Multiple of the latency in the first days
    drift_multiple(DiskDrift): Multiple = 2.0,
    /// Multiple from which it is a warning if it matters
    drift_warning_multiple(DiskDrift): Multiple = 3.0,
    /// Seconds with requests in flight and none completed
    stalled_seconds(DiskStalled): Seconds = 3.0,
    /// Mean number of threads blocked on storage
    io_throttled_threads(IoThrottled): Threads = 0.5,
    /// Share of them that the devices account for at most
    io_throttled_device_share(IoThrottled): Share = 0.1,
    /// Share of a known limit from which it is used up
    io_limit_used_ratio(IoThrottled): Share = 0.9,
    /// Seconds in D without a break
    hung_seconds(HungTask): Seconds = 5.0,
    /// Seconds from which it is critical
    hung_critical_seconds(HungTask): Seconds = 120.0,
    /// Share of the link's speed
    nic_busy_ratio(NicSaturated): Share = 0.9,
    /// Packets lost in the interface per second
    nic_saturation_per_second(NicSaturated): PerSecond = 10.0,
    /// Share of all packets that are lost in the interface
    nic_saturation_ratio(NicSaturated): Share = 0.001,
    /// Intervals in a row with losses, or samples in a row with a backlog
    nic_intervals(NicSaturated): Intervals = 3.0,
    /// Share of segments sent
    retransmitted_ratio(TcpRetransmits): Share = 0.01,
    /// Segments per second
    retransmitted_per_second(TcpRetransmits): PerSecond = 10.0,
    /// Connection requests (SYN) per second that find a full SYN queue
    syn_queue_full_per_second(SynQueueOverflow): PerSecond = 10.0,
    /// Unfinished requests per second from which it is a flood
    syn_flood_per_second(SynQueueOverflow): PerSecond = 100.0,
    /// Datagrams lost at full receive buffers per second
    udp_overflow_per_second(UdpOverflow): PerSecond = 10.0,
    /// Share of all received datagrams
    udp_overflow_ratio(UdpOverflow): Share = 0.001,
    /// Smoothed round trip ÷ the connections' own minimum
    round_trip_multiple(NetworkLatency): Multiple = 3.0,
    /// Smoothed round trip, milliseconds
    round_trip_ms(NetworkLatency): Millis = 2.0,
    /// Milliseconds above the minimum where delayed acknowledgements and slow answers are in the round trip
    round_trip_unpressed_ms(NetworkLatency): Millis = 200.0,
    /// Seconds without progress of a connection, or with a full window or send buffer
    send_blocked_seconds(SendBlocked): Seconds = 5.0,
    /// Seconds without progress of a Unix socket or a pipe, whose receiver is on this host
    unix_send_blocked_seconds(SendBlocked): Seconds = 1.5,
    /// Threads in send from which it is a warning
    send_blocked_threads(SendBlocked): Threads = 2.0,
    /// Seconds without an answer to a connection request
    connect_blocked_seconds(ConnectBlocked, ListenOverflow): Seconds = 3.0,
    /// Threads in connect from which it is a warning
    connect_blocked_threads(ConnectBlocked, ListenOverflow): Threads = 2.0,
    /// Share of time in which the tracer of a process keeps it stopped
    traced_ratio(TracedProcess): Share = 0.1,
    /// Seconds without an answer of a name server
    lookup_blocked_seconds(LookupBlocked): Seconds = 2.0,
    /// Threads in name lookups from which it is a warning
    lookup_blocked_threads(LookupBlocked): Threads = 2.0,
    /// Seconds that the longest of the threads has waited for an answer; 5 or more
    answer_blocked_seconds(AnswerBlocked): Seconds = 5.0,
    /// Threads of one process that wait for an answer of one address and port; 4 or more
    answer_blocked_threads(AnswerBlocked): Threads = 4.0,
    /// Load average for each CPU
    load_per_cpu(LoadNotCpu): PerCpu = 2.0,
    /// Share of time in which tasks waited for memory
    memory_pressure_ratio(MemoryPressure): Share = 0.1,
    /// Share of time from which it is critical
    memory_pressure_critical_ratio(MemoryPressure): Share = 0.5,
    /// Refaults and major faults per second
    refaults_per_second(MemoryPressure): PerSecond = 500.0,
    /// Share of a cgroup's memory limit from which it is at its limit
    memory_limit_ratio(MemoryPressure, OomKill): Share = 0.95,
    /// Mean number of a cgroup's threads that wait for pages
    memory_waiting_threads(MemoryPressure): Threads = 0.5,
    /// Share of their time that a cgroup's threads spend on refaulted pages, however few
    memory_fault_share(MemoryPressure): Share = 0.5,
    /// Bytes per second from or to swap
    swapping_bytes_per_second(Swapping, MemoryPressure): BytesPerSecond = 1048576.0,
    /// Share of a limit from which it is reached
    limit_used_ratio(LimitReached): Share = 0.95,
}

impl Thresholds {
    /// The multiple of a baseline from which a latency is slow.
    pub fn needed_multiple(&self, provisional: bool) -> f64 {
        match provisional {
            true => self.latency_provisional_multiple.max(self.latency_multiple),
            false => self.latency_multiple,
        }
    }

    /// The highest severity of a latency of that multiple of its baseline: a provisional baseline makes at most a warning.
    /// `queue`: mean requests in flight, if known. Longer latencies take at most `queue` × (1 − 1 ÷ `multiple`) seconds per second
    /// more than the baseline: none matters where that is below `latency-felt`, as with one slow request of an idle device.
    pub fn latency_severity(&self, multiple: f64, provisional: bool, queue: Option<f64>) -> Option<Severity> {
        let warning = self.needed_multiple(provisional);
        let is_felt = queue.is_none_or(|queue| queue * (1.0 - 1.0 / multiple) >= self.latency_felt);
        match multiple {
            _ if !is_felt => None,
            multiple if multiple >= self.latency_critical_multiple && !provisional => Some(Severity::Critical),
            multiple if multiple >= warning => Some(Severity::Warning),
            _ => None,
        }
    }
}
