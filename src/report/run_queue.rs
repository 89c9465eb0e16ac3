//! The output of `probe runq`: a table, or JSON.

use serde::Serialize;

use super::formatting::rfc3339;
use super::json::to_line;
use super::latency_table::{LatencyJson, LatencyRow, LatencyTable, QUANTILES, process_label};
use crate::interval::latency_histogram::LatencyHistogram;
use crate::interval::run_queue::{ProcessRunQueueWaits, RunQueueInterval};
use crate::sample::Name;

/// Processes in a table
const MAX_PROCESSES: usize = 15;
const TABLE: LatencyTable = LatencyTable { rate_columns: 8 };

/// A line for all CPUs, for each CPU, and for the processes that waited longest; `time` is the end of the interval, as people read it.
pub fn table(interval: &RunQueueInterval, time: &str) -> String {
    let mut text = String::new();
    TABLE.heading(&mut text, time, "waits/s");
    let mut row = |label: &str, waits: &LatencyHistogram| TABLE.row(&mut text, label, &latency_row(waits, interval.seconds));
    row("all CPUs", &interval.all);
    for (cpu, waits) in &interval.cpus {
        row(&format!("cpu{}", cpu.0), waits);
    }
    for process in interval.processes.iter().take(MAX_PROCESSES) {
        let name = process.name.as_ref().map_or_else(|| "-".to_owned(), Name::to_string_lossy);
        row(&process_label(&name, process.pid), &process.waits);
    }
    text.push('\n');
    text
}

fn latency_row(waits: &LatencyHistogram, seconds: f64) -> LatencyRow {
    LatencyRow {
        per_second: waits.requests() as f64 / seconds,
        mean: waits.mean(),
        quantiles: QUANTILES.map(|share| waits.quantile(share)),
    }
}

/// An object for all CPUs, each CPU and each process, each a line.
pub fn json(interval: &RunQueueInterval) -> String {
    let row = |cpu: Option<u32>, process: Option<&ProcessRunQueueWaits>, waits: &LatencyHistogram| {
        to_line(&RowJson {
            schema: "stalltop/1",
            at: rfc3339(interval.at),
            interval_seconds: interval.seconds,
            cpu,
            pid: process.map(|process| process.pid),
            name: process.and_then(|process| process.name.as_ref()).map(Name::to_string_lossy),
            waits: waits.requests(),
            total_seconds: waits.total().0 / 1000.0,
            latency: LatencyJson::new(&latency_row(waits, interval.seconds)),
        })
    };
    let mut text = row(None, None, &interval.all);
    text.extend(interval.cpus.iter().map(|(cpu, waits)| row(Some(cpu.0), None, waits)));
    text.extend(interval.processes.iter().map(|process| row(None, Some(process), &process.waits)));
    text
}

/// Without `cpu` and `pid`: all CPUs
#[derive(Serialize)]
struct RowJson {
    schema: &'static str,
    /// The end of the interval
    at: String,
    interval_seconds: f64,
    cpu: Option<u32>,
    pid: Option<u32>,
    name: Option<String>,
    waits: u64,
    total_seconds: f64,
    #[serde(flatten)]
    latency: LatencyJson,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documented_keys::assert_documented;
    use crate::ids::CpuId;
    use crate::sample::Instant;
    use crate::sample::run_queue::{ProcessWaits, RunQueues};
    use crate::units::Counter;

    fn reading(seconds: u64, count: u64) -> RunQueues {
        let at = Instant { boottime_ns: seconds * 1_000_000_000, monotonic_ns: 0, realtime_ns: 0 };
        // 2,048 to 2,304 ns, and 524,288 to 589,824 ns
        let waits = vec![(16, Counter(count * 99)), (80, Counter(count))];
        let process = ProcessWaits { pid: 7, name: Some("post\u{1b}gres".into()), waits: waits.clone() };
        RunQueues { at, cpus: vec![(CpuId(0), waits), (CpuId(1), Vec::new())], processes: vec![process] }
    }

    #[test]
    fn a_table_has_the_waits_of_the_interval() {
        let interval = RunQueueInterval::between(&reading(10, 3), &reading(12, 5)).unwrap();
        assert_eq!(
            table(&interval, "12:00:00"),
            "12:00:00             waits/s    mean     p50     p95     p99   p99.9     max\n\
             all CPUs                 100 7.72 µs 2.18 µs 2.18 µs 2.18 µs  557 µs  557 µs\n\
             cpu0                     100 7.72 µs 2.18 µs 2.18 µs 2.18 µs  557 µs  557 µs\n\
             cpu1                       0       -       -       -       -       -       -\n\
             post\\u{1b}gres (7)       100 7.72 µs 2.18 µs 2.18 µs 2.18 µs  557 µs  557 µs\n\n"
        );
        assert_eq!(RunQueueInterval::between(&reading(10, 3), &reading(10, 3)), None);
    }

    #[test]
    fn a_pid_that_another_process_took_begins_at_0() {
        let mut newer = reading(11, 3);
        newer.processes[0].name = None;
        let interval = RunQueueInterval::between(&reading(10, 5), &newer).unwrap();
        assert_eq!(interval.processes.first().map(|process| process.waits.requests()), Some(300));
        let lines: Vec<serde_json::Value> = json(&interval).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        lines.iter().for_each(|line| assert_documented("probe runq --json", line));
        assert_eq!((lines.len(), &lines[3]["pid"], &lines[1]["cpu"]), (4, &7.into(), &0.into()));
        // It ended before its name was read.
        assert!(lines[3]["name"].is_null() && table(&interval, "12:00:00").contains("\n- (7)  "));
    }
}
