//! The output of `probe query`: a table, or JSON.

use std::fmt::Write;

use serde::Serialize;

use super::formatting::rfc3339;
use super::json::to_line;
use super::latency_table::{LABEL_COLUMNS, LatencyJson, LatencyRow, LatencyTable, QUANTILES, pad_label, process_label};
use crate::interval::query::{PreemptorSpan, QueryInterval, QueryPart, QuerySpan};
use crate::sample::Name;
use crate::units::Millis;
use crate::units::format::{optional_latency, plural};

/// Processes in a table
const MAX_PREEMPTORS: usize = 10;
const TABLE: LatencyTable = LatencyTable { rate_columns: 9 };

/// Latencies of all queries and of parts of them, what their threads did, and which processes preempted them. `server` is its name and
/// pid, and `time` the end of the interval, as people read it.
pub fn table(interval: &QueryInterval, server: &(Name, u32), time: &str) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{time}  {}", process_label(&server.0.to_string_lossy(), server.1));
    TABLE.heading(&mut text, "", "queries/s");
    for (label, queries) in spans(interval) {
        TABLE.row(&mut text, label, &latency_row(queries, interval.seconds));
    }
    let _ = writeln!(text, "{:LABEL_COLUMNS$}{:>9}{:>10}", "time in queries", "share", "per query");
    for &(part, time) in &interval.times {
        let share = interval.share(time).map_or_else(|| "-".to_owned(), |share| format!("{:.1}%", share.percent()));
        let _ = writeln!(text, "{:LABEL_COLUMNS$}{share:>9}{:>10}", label(part), optional_latency(interval.per_query(time)));
    }
    preemptors(&mut text, interval);
    if interval.lost > 0 {
        let lost = plural(interval.lost, "query was", "queries were");
        let _ = writeln!(text, "{lost} not counted: the kernel had no memory");
    }
    text.push('\n');
    text
}

fn preemptors(text: &mut String, interval: &QueryInterval) {
    let shown = interval.preempted_by.iter().take(MAX_PREEMPTORS);
    let others = interval.preempted_by.iter().skip(MAX_PREEMPTORS).map(|preemptor| preemptor.count);
    let others = others.fold(interval.preempted_by_others, u64::saturating_add);
    if interval.preempted_by.is_empty() && others == 0 {
        return;
    }
    let _ = writeln!(text, "{:LABEL_COLUMNS$}{:>9}", "preempted by", "times");
    for PreemptorSpan { pid, name, count } in shown {
        let label = match pid {
            0 => "CPU limit of cgroup".to_owned(),
            _ => process_label(&name.to_string_lossy(), *pid),
        };
        let _ = writeln!(text, "{}{count:>9}", pad_label(&label));
    }
    if others > 0 {
        let _ = writeln!(text, "{:LABEL_COLUMNS$}{others:>9}", "others");
    }
}

fn latency_row(queries: &QuerySpan, seconds: f64) -> LatencyRow {
    LatencyRow {
        per_second: queries.latencies.requests() as f64 / seconds,
        mean: queries.mean(),
        quantiles: QUANTILES.map(|share| queries.quantile(share)),
    }
}

fn spans(interval: &QueryInterval) -> Vec<(&'static str, &QuerySpan)> {
    let mut spans = vec![("all", &interval.all)];
    if let Some([cached, others]) = &interval.cached_and_not {
        spans.extend([("cached", cached), ("not cached", others)]);
    }
    let [preempted, others] = &interval.preempted_and_not;
    spans.extend([("preempted", preempted), ("not preempted", others)]);
    spans
}

fn label(part: QueryPart) -> &'static str {
    match part {
        QueryPart::OnCpu => "on CPU",
        QueryPart::RunQueue => "run queue",
        QueryPart::Storage => "storage",
        QueryPart::Locks => "locks",
        QueryPart::Other => "other",
    }
}

/// One object, a line.
pub fn json(interval: &QueryInterval, (name, pid): &(Name, u32)) -> String {
    let seconds = |time: Millis| time.0 / 1000.0;
    let time =
        |wanted: QueryPart| interval.times.iter().find(|(part, _)| *part == wanted).map_or(0.0, |(_, time)| seconds(*time));
    let span = |queries: &QuerySpan| SpanJson::new(queries, interval.seconds);
    let [preempted, not_preempted] = &interval.preempted_and_not;
    to_line(&QueryJson {
        schema: "stalltop/1",
        at: rfc3339(interval.at),
        interval_seconds: interval.seconds,
        pid: *pid,
        name: name.to_string_lossy(),
        all: span(&interval.all),
        cached: interval.cached_and_not.as_ref().map(|[cached, _]| span(cached)),
        not_cached: interval.cached_and_not.as_ref().map(|[_, others]| span(others)),
        preempted: span(preempted),
        not_preempted: span(not_preempted),
        on_cpu_seconds: time(QueryPart::OnCpu),
        run_queue_seconds: time(QueryPart::RunQueue),
        storage_seconds: time(QueryPart::Storage),
        locks_seconds: time(QueryPart::Locks),
        other_seconds: time(QueryPart::Other),
        preempted_by: interval.preempted_by.iter().map(PreemptorJson::new).collect(),
        preempted_by_others: interval.preempted_by_others,
        queries_not_counted: interval.lost,
    })
}

#[derive(Serialize)]
struct QueryJson {
    schema: &'static str,
    /// The end of the interval
    at: String,
    interval_seconds: f64,
    pid: u32,
    name: String,
    all: SpanJson,
    /// These two: null for a server without a query cache
    cached: Option<SpanJson>,
    not_cached: Option<SpanJson>,
    preempted: SpanJson,
    not_preempted: SpanJson,
    on_cpu_seconds: f64,
    run_queue_seconds: f64,
    storage_seconds: f64,
    locks_seconds: f64,
    other_seconds: f64,
    preempted_by: Vec<PreemptorJson>,
    preempted_by_others: u64,
    queries_not_counted: u64,
}

#[derive(Serialize)]
struct SpanJson {
    queries: u64,
    per_second: f64,
    total_seconds: f64,
    #[serde(flatten)]
    latency: LatencyJson,
    /// The middle of each bucket with queries, and how many
    histogram: Vec<(f64, u64)>,
}

impl SpanJson {
    fn new(queries: &QuerySpan, interval_seconds: f64) -> SpanJson {
        let row = latency_row(queries, interval_seconds);
        SpanJson {
            queries: queries.latencies.requests(),
            per_second: row.per_second,
            total_seconds: queries.total.0 / 1000.0,
            latency: LatencyJson::new(&row),
            histogram: queries.latencies.counts().map(|(middle, count)| (middle.0 / 1000.0, count)).collect(),
        }
    }
}

#[derive(Serialize)]
struct PreemptorJson {
    pid: u32,
    name: String,
    count: u64,
}

impl PreemptorJson {
    fn new(preemptor: &PreemptorSpan) -> PreemptorJson {
        PreemptorJson { pid: preemptor.pid, name: preemptor.name.to_string_lossy(), count: preemptor.count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documented_keys::assert_documented;
    use crate::sample::Instant;
    use crate::sample::histogram_bucket::{FineBucket, HistogramBucket};
    use crate::sample::query::{Latencies, Preemptor, Queries, QueryTimes};
    use crate::units::Counter;

    fn reading(seconds: u64, count: u64, has_cache: bool) -> Queries {
        let at = Instant { boottime_ns: seconds * 1_000_000_000, monotonic_ns: 0, realtime_ns: 0 };
        // 2,048 to 2,176 ns, and 540,672 to 557,056 ns
        let [short, long] =
            [2_100, 550_000].map(|ns| FineBucket::all().find(|bucket| bucket.edges_ns().contains(&ns)).unwrap());
        let [of_cache, short, long] = [(short, Counter(count * 90)), (short, Counter(count * 99)), (long, Counter(count))];
        let latencies = |buckets, total_ns| Latencies { buckets, total_ns: Counter(count * total_ns) };
        let preemptor = |pid: u32, name: &str| Preemptor { pid, name: name.into(), count: Counter(count * u64::from(pid + 1)) };
        Queries {
            at,
            all: latencies(vec![short, long], 800_000),
            cached: has_cache.then(|| latencies(vec![of_cache], 180_000)),
            preempted: latencies(vec![long], 550_000),
            times: QueryTimes {
                on_cpu_ns: Counter(count * 400_000),
                run_queue_ns: Counter(count * 300_000),
                storage_ns: Counter(count * 60_000),
                locks_ns: Counter(count * 40_000),
                other_ns: Counter(0),
            },
            preempted_by: vec![preemptor(0, "swapper/0"), preemptor(7, "post\u{1b}gres")],
            preempted_by_others: Counter(count * 3),
            lost: Counter(count / 5),
        }
    }

    fn server() -> (Name, u32) {
        ("mariadbd".into(), 4711)
    }

    #[test]
    fn a_table_has_the_queries_of_the_interval() {
        let interval = QueryInterval::between(&reading(10, 3, true), &reading(12, 5, true)).unwrap();
        assert_eq!(
            table(&interval, &server(), "12:00:00"),
            "12:00:00  mariadbd (4711)\n\
             \x20                   queries/s    mean     p50     p95     p99   p99.9     max\n\
             all                       100 8.00 µs 2.11 µs 2.17 µs 2.18 µs  553 µs  553 µs\n\
             cached                   90.0 2.00 µs 2.11 µs 2.17 µs 2.17 µs 2.18 µs 2.18 µs\n\
             not cached               10.0 62.0 µs 2.12 µs  545 µs  553 µs  553 µs  553 µs\n\
             preempted                1.00  550 µs  545 µs  553 µs  553 µs  553 µs  553 µs\n\
             not preempted            99.0 2.53 µs 2.11 µs 2.17 µs 2.18 µs 2.18 µs 2.18 µs\n\
             time in queries         share per query\n\
             on CPU                  50.0%   4.00 µs\n\
             run queue               37.5%   3.00 µs\n\
             storage                  7.5%   0.60 µs\n\
             locks                    5.0%   0.40 µs\n\
             other                    0.0%      0 ms\n\
             preempted by            times\n\
             post\\u{1b}gres (7)         16\n\
             CPU limit of cgroup         2\n\
             others                      6\n\
             1 query was not counted: the kernel had no memory\n\n"
        );
        assert!(table(&interval, &server(), "12:00:00").lines().all(|line| line.chars().count() <= 80));
        assert_eq!(QueryInterval::between(&reading(10, 3, true), &reading(10, 3, true)), None);
    }

    #[test]
    fn without_queries_nothing_is_known_of_them() {
        let interval = QueryInterval::between(&reading(10, 3, false), &reading(11, 3, false)).unwrap();
        let text = table(&interval, &server(), "12:00:00");
        assert!(!text.contains("cached") && !text.contains("preempted by") && !text.contains("not counted"), "{text}");
        assert!(text.contains("on CPU                      -         -\n"), "{text}");
        let object: serde_json::Value = serde_json::from_str(&json(&interval, &server())).unwrap();
        assert!(object["cached"].is_null() && object["all"]["mean_seconds"].is_null());
        assert_eq!((&object["all"]["queries"], &object["preempted_by"]), (&0.into(), &serde_json::json!([])));
    }

    #[test]
    fn json_has_counts_times_and_histograms() {
        let interval = QueryInterval::between(&reading(10, 3, true), &reading(12, 5, true)).unwrap();
        let text = json(&interval, &server());
        let object: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_documented("probe query --json", &object);
        assert_eq!((text.lines().count(), &object["pid"], &object["all"]["per_second"]), (1, &4711.into(), &100.0.into()));
        let pairs = object["not_cached"]["histogram"].as_array().unwrap().iter();
        let pairs = pairs.map(|pair| ((pair[0].as_f64().unwrap() * 1e9).round() as u64, pair[1].as_u64().unwrap()));
        assert_eq!(pairs.collect::<Vec<_>>(), [(2112, 18), (548_864, 2)]);
        assert_eq!(object["run_queue_seconds"].as_f64(), Some(0.0006));
        assert_eq!(object["preempted_by"][0]["count"].as_u64(), Some(16));
    }
}
