//! The output of `probe fs`: a table for each file system, or JSON.

use std::fmt::Write;

use serde::Serialize;

use super::formatting::{latency, printable, rfc3339, short_number, three_digits};
use super::json::to_line;
use crate::interval::file_systems::{FileSystemInterval, FileSystemSpan, FlowSpan};
use crate::sample::Name;
use crate::sample::file_systems::{AccessPattern, Direction, OtherOperation};
use crate::units::PerSecond;

/// A table for each file system that did something; `time` is its end, as people read it. With `shows_idle`, all are shown.
pub fn tables(interval: &FileSystemInterval, time: &str, shows_idle: bool) -> String {
    let mut text = String::new();
    for file_system in interval.file_systems.iter().filter(|file_system| shows_idle || !file_system.is_idle()) {
        let name = |name: &Name| printable(&name.to_string_lossy());
        let (mount, source) = (name(&file_system.mount_point), name(&file_system.source));
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{time}  {mount} ({} on {source})", name(&file_system.fs_type));
        text.push_str(&table(file_system));
        text.push('\n');
    }
    if text.is_empty() {
        let _ = writeln!(text, "{time}  no operations of file systems");
    }
    text
}

/// At most 80 columns wide.
fn table(file_system: &FileSystemSpan) -> String {
    let mut text = String::new();
    let heading = ["", "rd/s", "wr/s", "rdKB/s", "wrKB/s", "rd mean", "wr mean"].map(str::to_owned);
    let lines = [
        ("sequential", Some(AccessPattern::Sequential)),
        ("random", Some(AccessPattern::Random)),
        ("page", Some(AccessPattern::Page)),
        ("TOTAL", None),
    ];
    let flows = lines.map(|(label, pattern)| {
        let flow = |direction| {
            pattern.map_or_else(|| Some(file_system.total(direction)), |pattern| file_system.flow(pattern, direction))
        };
        let [read, write] = [Direction::Read, Direction::Write].map(flow);
        let operations = |flow: Option<FlowSpan>| rate(flow, |flow| flow.per_second.0);
        let kilobytes = |flow: Option<FlowSpan>| rate(flow, |flow| flow.bytes_per_second.0 / 1024.0);
        let (reads, writes) = (operations(read), operations(write));
        [label.to_owned(), reads, writes, kilobytes(read), kilobytes(write), mean(read), mean(write)]
    });
    let others = OtherOperation::ALL.map(|other| {
        let rate = format!("{}/s", at_most_five(file_system.calls_per_second(other).0));
        let label = match other {
            OtherOperation::Access => "access",
            OtherOperation::Readdir => "readdir",
            OtherOperation::GetattrSetattr => "getattr+setattr",
            OtherOperation::CreateRemove => "create+remove",
            OtherOperation::Other => "other",
        };
        (label, rate)
    });
    for ([label, reads, writes, read_kb, write_kb, read_mean, write_mean], (other, rate)) in
        std::iter::once(heading).chain(flows).zip(others)
    {
        let flow = format!("{label:10}{reads:>7}{writes:>7}{read_kb:>7}{write_kb:>7}{read_mean:>8}{write_mean:>8}");
        let _ = writeln!(text, "{flow}  {other:15}{rate:>8}");
    }
    text
}

/// At most six characters: each column is one wider. `-` if it is not counted.
fn rate(flow: Option<FlowSpan>, value: impl Fn(FlowSpan) -> f64) -> String {
    let Some(flow) = flow else { return "-".to_owned() };
    let bound = if flow.is_lower_bound { "≥" } else { "" };
    format!("{bound}{}", at_most_five(value(flow)))
}

/// `0.39`, `41.0`, `99999`, `100k`, `1.23M`: at most five characters.
fn at_most_five(value: f64) -> String {
    if value < 99_999.5 { three_digits(value) } else { short_number(value) }
}

fn mean(flow: Option<FlowSpan>) -> String {
    flow.and_then(|flow| flow.latency()).map_or_else(|| "-".to_owned(), latency)
}

/// One object per file system that did something, each a line. With `shows_idle`, all are shown.
pub fn json(interval: &FileSystemInterval, shows_idle: bool) -> String {
    let shown = interval.file_systems.iter().filter(|file_system| shows_idle || !file_system.is_idle());
    shown.map(|file_system| to_line(&FileSystemJson::new(interval, file_system))).collect()
}

#[derive(Serialize)]
struct FileSystemJson {
    schema: &'static str,
    /// The end of the interval
    at: String,
    interval_seconds: f64,
    mount: String,
    #[serde(rename = "type")]
    fs_type: String,
    source: String,
    device: String,
    sequential: LineJson,
    random: LineJson,
    page: LineJson,
    total: LineJson,
    access: OtherJson,
    readdir: OtherJson,
    getattr_setattr: OtherJson,
    create_remove: OtherJson,
    other: OtherJson,
}

/// `null`: not counted on this kernel
#[derive(Serialize)]
struct LineJson {
    reads: Option<u64>,
    writes: Option<u64>,
    read_bytes: Option<u64>,
    write_bytes: Option<u64>,
    reads_per_second: Option<f64>,
    writes_per_second: Option<f64>,
    read_bytes_per_second: Option<f64>,
    write_bytes_per_second: Option<f64>,
    read_latency_seconds: Option<f64>,
    write_latency_seconds: Option<f64>,
    reads_are_lower_bound: bool,
    writes_are_lower_bound: bool,
}

#[derive(Serialize)]
struct OtherJson {
    calls: u64,
    per_second: f64,
}

impl FileSystemJson {
    fn new(interval: &FileSystemInterval, file_system: &FileSystemSpan) -> FileSystemJson {
        let line =
            |pattern| LineJson::new(file_system.flow(pattern, Direction::Read), file_system.flow(pattern, Direction::Write));
        let total = |direction| Some(file_system.total(direction));
        let other = |other| OtherJson { calls: file_system.calls(other), per_second: file_system.calls_per_second(other).0 };
        FileSystemJson {
            schema: "stalltop/1",
            at: rfc3339(interval.at),
            interval_seconds: interval.seconds,
            mount: file_system.mount_point.to_string_lossy(),
            fs_type: file_system.fs_type.to_string_lossy(),
            source: file_system.source.to_string_lossy(),
            device: format!("{}:{}", file_system.device.major, file_system.device.minor),
            sequential: line(AccessPattern::Sequential),
            random: line(AccessPattern::Random),
            page: line(AccessPattern::Page),
            total: LineJson::new(total(Direction::Read), total(Direction::Write)),
            access: other(OtherOperation::Access),
            readdir: other(OtherOperation::Readdir),
            getattr_setattr: other(OtherOperation::GetattrSetattr),
            create_remove: other(OtherOperation::CreateRemove),
            other: other(OtherOperation::Other),
        }
    }
}

impl LineJson {
    fn new(read: Option<FlowSpan>, write: Option<FlowSpan>) -> LineJson {
        let count = |flow: Option<FlowSpan>, value: fn(FlowSpan) -> u64| flow.map(value);
        let rate = |flow: Option<FlowSpan>, value: fn(FlowSpan) -> PerSecond| flow.map(|flow| value(flow).0);
        let seconds = |flow: Option<FlowSpan>| flow?.latency().map(|latency| latency.0 / 1000.0);
        let is_lower_bound = |flow: Option<FlowSpan>| flow.is_some_and(|flow| flow.is_lower_bound);
        LineJson {
            reads: count(read, |flow| flow.operations),
            writes: count(write, |flow| flow.operations),
            read_bytes: count(read, |flow| flow.bytes),
            write_bytes: count(write, |flow| flow.bytes),
            reads_per_second: rate(read, |flow| flow.per_second),
            writes_per_second: rate(write, |flow| flow.per_second),
            read_bytes_per_second: rate(read, |flow| flow.bytes_per_second),
            write_bytes_per_second: rate(write, |flow| flow.bytes_per_second),
            read_latency_seconds: seconds(read),
            write_latency_seconds: seconds(write),
            reads_are_lower_bound: is_lower_bound(read),
            writes_are_lower_bound: is_lower_bound(write),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documented_keys::assert_documented;
    use crate::ids::DiskId;
    use crate::sample::Instant;
    use crate::sample::file_systems::{FileSystem, FileSystems, Flow, MissingCounts};
    use crate::units::Counter;

    fn reading(seconds: u64, operations: u64) -> FileSystems {
        let at = Instant { boottime_ns: seconds * 1_000_000_000, monotonic_ns: 0, realtime_ns: 0 };
        let flow = |bytes: u64, ns: u64| Flow {
            operations: Counter(operations),
            bytes: Counter(operations * bytes),
            time_ns: Counter(operations * ns),
        };
        let none = Flow::default();
        let file_system = |minor: u32, mount: &str, flows, others: u64| FileSystem {
            device: DiskId { major: 254, minor },
            mount_point: mount.into(),
            fs_type: "ext4".into(),
            source: "/dev/vdb\u{1b}".into(),
            flows,
            others: [0, 0, others, 0, 0].map(Counter),
        };
        let flows =
            [[flow(8192, 2_000_000), flow(4096, 150_000)], [flow(4096, 4_000_000), none], [flow(4096, 0), flow(4096, 0)]];
        let file_systems = vec![file_system(1, "/data", flows, 30), file_system(2, "/idle", [[none; 2]; 3], 0)];
        FileSystems { at, missing: MissingCounts::default(), file_systems }
    }

    #[test]
    fn a_table_has_rates_and_means_of_the_interval() {
        let interval = FileSystemInterval::between(&reading(100, 0), &reading(102, 20)).unwrap();
        let text = tables(&interval, "12:00:00", false);
        assert_eq!(
            text,
            "12:00:00  /data (ext4 on /dev/vdb\\u{1b})\n\
             \x20            rd/s   wr/s rdKB/s wrKB/s rd mean wr mean  access              0/s\n\
             sequential   10.0   10.0   80.0   40.0 2.00 ms  150 µs  readdir             0/s\n\
             random       10.0      0   40.0      0 4.00 ms       -  getattr+setattr     0/s\n\
             page         10.0   10.0   40.0   40.0       -       -  create+remove       0/s\n\
             TOTAL        30.0   20.0    160   80.0 3.00 ms  150 µs  other               0/s\n\n"
        );
        assert!(text.lines().all(|line| line.chars().count() <= 80));
        assert!(tables(&interval, "12:00:00", true).contains("/idle"));
        let idle = FileSystemInterval::between(&reading(100, 5), &reading(101, 5)).unwrap();
        assert_eq!(tables(&idle, "12:00:00", false), "12:00:00  no operations of file systems\n");
        assert_eq!(FileSystemInterval::between(&reading(100, 5), &reading(100, 5)), None);
    }

    #[test]
    fn large_figures_leave_a_space_between_columns() {
        let (older, mut newer) = (reading(100, 0), reading(101, 3_000_000));
        newer.missing.io_uring = true;
        if let Some(file_system) = newer.file_systems.first_mut() {
            file_system.others = [99_999, 100_000, 1_000_000, 99_999_999, 0].map(Counter);
        }
        let interval = FileSystemInterval::between(&older, &newer).unwrap();
        assert_eq!(
            tables(&interval, "12:00:00", false).split_once('\n').unwrap().1,
            "             rd/s   wr/s rdKB/s wrKB/s rd mean wr mean  access          99999/s\n\
             sequential ≥3.00M ≥3.00M ≥24.0M ≥12.0M 2.00 ms  150 µs  readdir          100k/s\n\
             random     ≥3.00M     ≥0 ≥12.0M     ≥0 4.00 ms       -  getattr+setattr 1.00M/s\n\
             page        3.00M  3.00M  12.0M  12.0M       -       -  create+remove    100M/s\n\
             TOTAL      ≥9.00M ≥6.00M ≥48.0M ≥24.0M 3.00 ms  150 µs  other               0/s\n\n"
        );
    }

    #[test]
    fn what_the_kernel_does_not_report_is_unknown_and_the_total_a_lower_bound() {
        let mut newer = reading(102, 20);
        newer.missing.page_reads = true;
        let interval = FileSystemInterval::between(&reading(100, 0), &newer).unwrap();
        let text = tables(&interval, "12:00:00", false);
        assert!(text.contains("\npage            -   10.0      -   40.0       -       -  create"), "{text}");
        assert!(text.contains("\nTOTAL       ≥20.0   20.0   ≥120   80.0 3.00 ms  150 µs  other"), "{text}");
        let object: serde_json::Value = serde_json::from_str(&json(&interval, false)).unwrap();
        assert!(object["page"]["reads"].is_null() && object["page"]["read_bytes_per_second"].is_null());
        assert_eq!((object["page"]["writes"].as_u64(), object["total"]["reads"].as_u64()), (Some(20), Some(40)));
        let bounds = ["reads_are_lower_bound", "writes_are_lower_bound"].map(|key| object["total"][key].as_bool());
        assert_eq!(bounds, [Some(true), Some(false)]);
    }

    #[test]
    fn json_has_counts_rates_and_unknown_latencies() {
        let mut older = reading(100, 0);
        // One that is mounted in between has done all that was counted of it.
        older.file_systems.clear();
        let interval = FileSystemInterval::between(&older, &reading(102, 20)).unwrap();
        let text = json(&interval, false);
        let object: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_documented("probe fs --json", &object);
        assert_eq!((text.lines().count(), &object["mount"], &object["device"]), (1, &"/data".into(), &"254:1".into()));
        assert_eq!((object["sequential"]["reads"].as_u64(), object["random"]["read_bytes"].as_u64()), (Some(20), Some(81_920)));
        assert_eq!(object["total"]["reads_per_second"].as_f64(), Some(30.0));
        assert_eq!(object["total"]["read_latency_seconds"].as_f64(), Some(0.003));
        assert!(object["page"]["read_latency_seconds"].is_null());
        assert_eq!(object["getattr_setattr"]["per_second"].as_f64(), Some(15.0));
    }
}
