//! Every threshold of every rule, with its default. Shares are 0 … 1, of the CPUs that the work may use where it is CPU.

use serde::{Deserialize, Serialize};

macro_rules! thresholds {
    ($($(#[doc = $doc:literal])+ $name:ident: $default:literal,)+) => {
        /// All thresholds; metrics.md has the reasons. Read from the configuration file, any of them may be left out.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
        pub struct Thresholds {
            $($(#[doc = $doc])+ pub $name: f64,)+
        }

        impl Default for Thresholds {
            fn default() -> Thresholds {
                Thresholds { $($name: $default,)+ }
            }
        }

        impl Thresholds {
            /// Name, meaning and default of each: docs and the configuration's template are made from it.
            pub fn documented() -> Vec<(String, String, f64)> {
                vec![$((
                    stringify!($name).replace('_', "-"),
                    [$($doc.trim()),+].join(" "),
                    $default,
                ),)+]
            }
        }
    };
}

thresholds! {
    /// idle-but-blocked: share of the box from which it is told
    blocked_ratio: 0.25,
    /// idle-but-blocked: CPUs from which it is told
    blocked_cpus: 0.5,
    /// idle-but-blocked: mean number of blocked threads from which it is a warning whatever the device does
    blocked_threads: 1.5,
    /// idle-but-blocked: share of the box from which it is critical
    blocked_critical_ratio: 0.5,
    /// idle-but-blocked: blocked threads for each CPU from which it is critical
    blocked_critical_threads_per_cpu: 2.0,
    /// saturated-core: busy share of the CPU
    core_busy_ratio: 0.95,
    /// saturated-thread: CPU time ÷ time
    thread_busy_ratio: 0.95,
    /// saturated-core, saturated-thread: the box must be less busy than this
    box_idle_below_ratio: 0.6,
    /// saturated-core, saturated-thread, cpu-saturated: seconds from which it is more than a note
    limit_seconds: 3.5,
    /// cpu-saturated: busy and stolen share of the box
    cpu_busy_ratio: 0.9,
    /// cpu-saturated: threads waiting for a CPU, for each CPU
    cpu_waiting_per_cpu: 0.25,
    /// cpu-saturated: threads waiting for a CPU, for each CPU, from which it is critical
    cpu_waiting_critical_per_cpu: 4.0,
    /// cpu-throttled: throttled share of the time
    throttled_ratio: 0.05,
    /// cpu-stolen: stolen share of the box
    stolen_ratio: 0.05,
    /// cpu-stolen: stolen share of the box from which it is critical
    stolen_critical_ratio: 0.5,
    /// hidden-cpu: CPUs by which the scheduler's and the tick's clock are apart
    hidden_cpus: 0.05,
    /// hidden-cpu: intervals in a row
    hidden_intervals: 3.0,
    /// short-lived-processes: forks a second
    short_lived_forks_per_second: 50.0,
    /// short-lived-processes: share of them that a sweep finds
    short_lived_seen_ratio: 0.5,
    /// short-lived-processes: CPU time of tasks that no sweep saw, share of what is used
    short_lived_busy_ratio: 0.1,
    /// short-lived-processes: CPUs that such tasks use at least
    short_lived_cpus: 0.05,
    /// short-lived-processes: share of the box from which it is a warning
    short_lived_warning_ratio: 0.25,
    /// disk-latency: multiple of the baseline
    latency_multiple: 3.0,
    /// disk-latency: multiple of the baseline from which it is critical
    latency_critical_multiple: 10.0,
    /// disk-latency: multiple of a provisional baseline
    latency_provisional_multiple: 10.0,
    /// disk-latency: seconds lost a second, (await − baseline) × completions, from which it is felt
    latency_felt: 0.5,
    /// disk-latency: mean number of blocked threads below which nobody waits for it, and it is a note
    latency_waiting_threads: 0.5,
    /// disk-busy-not-saturated: share of time with a request outstanding
    disk_busy_ratio: 0.9,
    /// disk-busy-not-saturated: multiple of the baseline from which it would no longer be well
    disk_well_multiple: 2.0,
    /// disk-drift: multiple of what the device took in the first days
    drift_multiple: 2.0,
    /// disk-drift: multiple from which it is a warning where it is felt
    drift_warning_multiple: 3.0,
    /// disk-stalled: seconds with requests in flight and none completed
    stalled_seconds: 3.0,
    /// io-throttled: mean number of threads blocked on storage
    io_throttled_threads: 0.5,
    /// io-throttled: share of them that the devices account for at most
    io_throttled_device_share: 0.1,
    /// io-throttled: share of a known limit from which it is used up
    io_limit_used_ratio: 0.9,
    /// hung-task: seconds in D without a break
    hung_seconds: 5.0,
    /// hung-task: seconds from which it is critical
    hung_critical_seconds: 120.0,
    /// nic-saturated: share of the link's speed
    nic_busy_ratio: 0.9,
    /// nic-saturated: packets lost in the interface a second
    nic_saturation_per_second: 10.0,
    /// nic-saturated: share of all packets that are lost in the interface
    nic_saturation_ratio: 0.001,
    /// nic-saturated: intervals in a row with losses, or samples in a row with a backlog
    nic_intervals: 3.0,
    /// tcp-retransmits: share of segments sent
    retransmitted_ratio: 0.01,
    /// tcp-retransmits: segments a second
    retransmitted_per_second: 10.0,
    /// network-latency: smoothed round trip ÷ the connections' own minimum
    round_trip_multiple: 3.0,
    /// network-latency: smoothed round trip, milliseconds
    round_trip_ms: 2.0,
    /// network-latency: milliseconds above the minimum where delayed acknowledgements and slow answers are in the round trip
    round_trip_unpressed_ms: 200.0,
    /// load-not-cpu: load average for each CPU
    load_per_cpu: 2.0,
    /// memory-pressure: share of time in which tasks waited for memory
    memory_pressure_ratio: 0.1,
    /// memory-pressure: share of time from which it is critical
    memory_pressure_critical_ratio: 0.5,
    /// memory-pressure: refaults and major faults a second
    refaults_per_second: 500.0,
    /// memory-pressure: share of a cgroup's memory limit from which it is at its limit
    memory_limit_ratio: 0.95,
    /// memory-pressure: mean number of a cgroup's threads that wait for pages
    memory_waiting_threads: 0.5,
    /// memory-pressure: share of their time that a cgroup's threads spend on pages that came back, however few
    memory_fault_share: 0.5,
    /// swapping: bytes a second from or to swap
    swapping_bytes_per_second: 1048576.0,
}
