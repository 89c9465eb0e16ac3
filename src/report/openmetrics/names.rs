//! Every metric once, by the conventions of Prometheus: base units, `_total` for what only grows. What is a figure of the catalogue
//! has its description from there.

use super::family::Metric;
use crate::figures::{cgroup, cpu, disk, disk_operation, load, network, pressure};

macro_rules! metrics {
    ($($(#[$attribute:meta])* $name:ident = $metric:expr;)+) => {
        $($(#[$attribute])* pub static $name: Metric = $metric;)+
        /// All metrics, in their order.
        pub static METRICS: &[&Metric] = &[$(&$name),+];
    };
}

metrics! {
    BUILD_INFO = Metric::gauge("stalltop_build_info", &["version"], "version of stalltop; always 1");
    SAMPLE_TIMESTAMP = Metric::gauge("stalltop_sample_timestamp_seconds", &[], "time of the last sample, Unix time");
    SAMPLE_INTERVAL = Metric::gauge("stalltop_sample_interval_seconds", &[], "length of the interval that gauges are of");
    SAMPLE_DURATION = Metric::gauge("stalltop_sample_duration_seconds", &[], "time that the last sample took");
    MISSED_SAMPLES = Metric::total("stalltop_missed_samples_total", &[], "samples that were due and not taken");
    SELF_CPU = Metric::total("stalltop_process_cpu_seconds_total", &[], "CPU time of stalltop itself");
    LEFT_OUT = Metric::gauge("stalltop_left_out", &["subject"], "disks, interfaces, cgroups, ... without series, because there are too many");

    CPU_SECONDS = Metric::total("stalltop_cpu_seconds_total", &["mode"], "CPU time of all CPUs by mode, since stalltop started");
    IDLE_BLOCKED = Metric::total("stalltop_idle_blocked_seconds_total", &[],
        "idle CPU time while threads were blocked that would have run, all CPUs, since stalltop started");
    IDLE_FREE = Metric::total("stalltop_idle_free_seconds_total", &[],
        "idle CPU time that was really free, all CPUs, since stalltop started");
    IDLE_BLOCKED_RATIO = Metric::gauge("stalltop_idle_blocked_ratio", &[], cpu::IDLE_BUT_BLOCKED_RATIO.definition.description);
    IDLE_BLOCKED_LOWER_BOUND = Metric::gauge("stalltop_idle_blocked_lower_bound", &[],
        "1: stalltop cannot see all threads, and more may be blocked");
    BLOCKED_THREADS = Metric::gauge("stalltop_blocked_threads", &[], "blocked threads, mean of the interval");
    CPUS = Metric::gauge("stalltop_cpus", &[], cpu::CPUS.definition.description);
    BUSIEST_CPU = Metric::gauge("stalltop_cpu_busiest_ratio", &[], load::BUSIEST_CPU_RATIO.definition.description);
    BUSIEST_THREAD = Metric::gauge("stalltop_thread_busiest_ratio", &[], load::BUSIEST_THREAD_RATIO.definition.description);

    FINDING_ACTIVE = Metric::gauge("stalltop_finding_active", &["kind", "severity"],
        "active findings; 0 after they have ended; none before the first of that kind and severity");
    FINDINGS = Metric::total("stalltop_findings_total", &["kind"], "findings that began since stalltop started");
    FINDING_INFO = Metric::gauge("stalltop_finding_info", &["kind", "severity", "subject"], "what the active findings are about; always 1");
    WAIT_CHAIN_INFO = Metric::gauge("stalltop_wait_chain_info", &["group", "call", "behind", "device"],
        "which processes are blocked, in which system call, behind which thread, on which device; always 1");

    DISK_OPERATIONS = Metric::counter("stalltop_disk_operations_total", &["device", "operation"], "operations completed");
    DISK_OPERATION_SECONDS = Metric::counter("stalltop_disk_operation_seconds_total", &["device", "operation"],
        "time of operations from queueing to completion, summed");
    DISK_BYTES = Metric::counter("stalltop_disk_bytes_total", &["device", "operation"], "read, written, discarded");
    DISK_AWAIT = Metric::gauge("stalltop_disk_await_seconds", &["device", "operation"], disk_operation::AWAIT_SECONDS.definition.description);
    DISK_BASELINE = Metric::gauge("stalltop_disk_latency_baseline_seconds", &["device", "operation"],
        disk_operation::BASELINE_SECONDS.definition.description);
    DISK_BASELINE_RATIO = Metric::gauge("stalltop_disk_latency_baseline_ratio", &["device", "operation"],
        disk_operation::BASELINE_MULTIPLE.definition.description);
    DISK_REQUEST_DURATION = Metric::histogram("stalltop_disk_request_duration_seconds", &["device", "operation"],
        "time of single requests from queueing to completion, where eBPF programs can be loaded; above 80,000 requests/s of a sample of them");
    DISK_BUSY_SECONDS = Metric::counter("stalltop_disk_busy_seconds_total", &["device"], disk::BUSY_RATIO.definition.description);
    DISK_BUSY = Metric::gauge("stalltop_disk_busy_ratio", &["device"], disk::BUSY_RATIO.definition.description);
    DISK_QUEUE = Metric::gauge("stalltop_disk_queue_requests", &["device"], disk::QUEUE.definition.description);

    NETWORK_BYTES = Metric::counter("stalltop_network_bytes_total", &["device", "direction"], "bytes sent and received since the interface was created");
    NETWORK_PACKETS = Metric::counter("stalltop_network_packets_total", &["device", "direction"], "packets sent and received since the interface was created");
    NETWORK_DIRECTION_UTILIZATION = Metric::gauge("stalltop_network_direction_utilization_ratio", &["device", "direction"],
        "sent and received, share of the link's speed");
    NETWORK_UTILIZATION = Metric::gauge("stalltop_network_utilization_ratio", &["device"], network::UTILIZATION_RATIO.definition.description);
    NETWORK_SATURATION = Metric::total("stalltop_network_saturation_total", &["device"],
        network::SATURATION_PER_SECOND.definition.description);

    PRESSURE_CPU_WAITING = Metric::counter("stalltop_pressure_cpu_waiting_seconds_total", &[], pressure::PSI_CPU_SOME_RATIO.definition.description);
    PRESSURE_IO_WAITING = Metric::counter("stalltop_pressure_io_waiting_seconds_total", &[], pressure::PSI_IO_SOME_RATIO.definition.description);
    PRESSURE_IO_STALLED = Metric::counter("stalltop_pressure_io_stalled_seconds_total", &[], pressure::PSI_IO_FULL_RATIO.definition.description);
    PRESSURE_MEMORY_WAITING = Metric::counter("stalltop_pressure_memory_waiting_seconds_total", &[],
        pressure::PSI_MEMORY_SOME_RATIO.definition.description);
    PRESSURE_MEMORY_STALLED = Metric::counter("stalltop_pressure_memory_stalled_seconds_total", &[],
        pressure::PSI_MEMORY_FULL_RATIO.definition.description);
    PRESSURE_IRQ_STALLED = Metric::counter("stalltop_pressure_irq_stalled_seconds_total", &[], pressure::PSI_IRQ_FULL_RATIO.definition.description);

    CGROUP_CPU = Metric::counter("stalltop_cgroup_cpu_seconds_total", &["cgroup", "name"], "CPU time that it used");
    CGROUP_THROTTLED = Metric::counter("stalltop_cgroup_throttled_seconds_total", &["cgroup", "name"],
        "time in which it was throttled by its CPU quota, its CPUs added up");
    CGROUP_CPU_WAITING = Metric::counter("stalltop_cgroup_pressure_cpu_waiting_seconds_total", &["cgroup", "name"],
        cgroup::PSI_CPU_SOME_RATIO.definition.description);
    CGROUP_IO_WAITING = Metric::counter("stalltop_cgroup_pressure_io_waiting_seconds_total", &["cgroup", "name"],
        cgroup::PSI_IO_SOME_RATIO.definition.description);
    CGROUP_IO_STALLED = Metric::counter("stalltop_cgroup_pressure_io_stalled_seconds_total", &["cgroup", "name"],
        cgroup::PSI_IO_FULL_RATIO.definition.description);
    CGROUP_MEMORY_WAITING = Metric::counter("stalltop_cgroup_pressure_memory_waiting_seconds_total", &["cgroup", "name"],
        cgroup::PSI_MEMORY_SOME_RATIO.definition.description);
    CGROUP_MEMORY_STALLED = Metric::counter("stalltop_cgroup_pressure_memory_stalled_seconds_total", &["cgroup", "name"],
        cgroup::PSI_MEMORY_FULL_RATIO.definition.description);
}

/// All metrics as a table of docs/serve.md.
pub fn metrics_table() -> String {
    let mut table = "| metric | labels | meaning |\n| --- | --- | --- |\n".to_owned();
    for metric in METRICS {
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        table.push_str(&format!("| `{}` | {} | {} |\n", metric.name, labels.join(", "), metric.help));
    }
    table
}
