//! The output of `probe fs`: a table for each file system, or JSON.

use std::fmt::Write;

use serde::Serialize;

use super::formatting::{latency, printable, rfc3339, three_digits};
use super::json::to_line;
use crate::interval::file_systems::{FileSystemInterval, FileSystemSpan, FlowSpan};
use crate::sample::Name;
use crate::sample::file_systems::{Direction, Line, OtherOperation};
use crate::units::Millis;

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
    let lines =
        [("sequential", Some(Line::Sequential)), ("random", Some(Line::Random)), ("page", Some(Line::Page)), ("TOTAL", None)];
    let flows = lines.map(|(label, line)| {
        let flow = |direction| line.map_or_else(|| file_system.total(direction), |line| file_system.flow(line, direction));
        let [read, write] = [Direction::Read, Direction::Write].map(flow);
        let kilobytes = |flow: FlowSpan| three_digits(flow.bytes_per_second.0 / 1024.0);
        [
            label.to_owned(),
            three_digits(read.per_second.0),
            three_digits(write.per_second.0),
            kilobytes(read),
            kilobytes(write),
            mean(read),
            mean(write),
        ]
    });
    let others = OtherOperation::ALL.map(|other| {
        let rate = format!("{}/s", three_digits(file_system.calls_per_second(other).0));
        let label = match other {
            OtherOperation::AccessLookup => "access+lookup",
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
        let flow = format!("{label:10}{reads:>7}{writes:>7}{read_kb:>8}{write_kb:>8}{read_mean:>8}{write_mean:>8}");
        let _ = writeln!(text, "{flow}  {other:15}{rate:>7}");
    }
    text
}

fn mean(flow: FlowSpan) -> String {
    flow.latency().map_or_else(|| "-".to_owned(), latency)
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
    access_lookup: OtherJson,
    readdir: OtherJson,
    getattr_setattr: OtherJson,
    create_remove: OtherJson,
    other: OtherJson,
}

#[derive(Serialize)]
struct LineJson {
    reads: u64,
    writes: u64,
    read_bytes: u64,
    write_bytes: u64,
    reads_per_second: f64,
    writes_per_second: f64,
    read_bytes_per_second: f64,
    write_bytes_per_second: f64,
    read_latency_seconds: Option<f64>,
    write_latency_seconds: Option<f64>,
}

#[derive(Serialize)]
struct OtherJson {
    calls: u64,
    per_second: f64,
}

impl FileSystemJson {
    fn new(interval: &FileSystemInterval, file_system: &FileSystemSpan) -> FileSystemJson {
        let line = |line| LineJson::new(file_system.flow(line, Direction::Read), file_system.flow(line, Direction::Write));
        let other = |other| OtherJson { calls: file_system.calls(other), per_second: file_system.calls_per_second(other).0 };
        FileSystemJson {
            schema: "stalltop/1",
            at: rfc3339(interval.at),
            interval_seconds: interval.seconds,
            mount: file_system.mount_point.to_string_lossy(),
            fs_type: file_system.fs_type.to_string_lossy(),
            source: file_system.source.to_string_lossy(),
            device: format!("{}:{}", file_system.device.major, file_system.device.minor),
            sequential: line(Line::Sequential),
            random: line(Line::Random),
            page: line(Line::Page),
            total: LineJson::new(file_system.total(Direction::Read), file_system.total(Direction::Write)),
            access_lookup: other(OtherOperation::AccessLookup),
            readdir: other(OtherOperation::Readdir),
            getattr_setattr: other(OtherOperation::GetattrSetattr),
            create_remove: other(OtherOperation::CreateRemove),
            other: other(OtherOperation::Other),
        }
    }
}

impl LineJson {
    fn new(read: FlowSpan, write: FlowSpan) -> LineJson {
        let seconds = |latency: Option<Millis>| latency.map(|latency| latency.0 / 1000.0);
        LineJson {
            reads: read.operations,
            writes: write.operations,
            read_bytes: read.bytes,
            write_bytes: write.bytes,
            reads_per_second: read.per_second.0,
            writes_per_second: write.per_second.0,
            read_bytes_per_second: read.bytes_per_second.0,
            write_bytes_per_second: write.bytes_per_second.0,
            read_latency_seconds: seconds(read.latency()),
            write_latency_seconds: seconds(write.latency()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::DiskId;
    use crate::sample::Instant;
    use crate::sample::file_systems::{FileSystem, FileSystems, Flow};
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
        FileSystems { at, file_systems: vec![file_system(1, "/data", flows, 30), file_system(2, "/idle", [[none; 2]; 3], 0)] }
    }

    #[test]
    fn a_table_has_rates_and_means_of_the_interval() {
        let interval = FileSystemInterval::between(&reading(100, 0), &reading(102, 20)).unwrap();
        let text = tables(&interval, "12:00:00", false);
        assert_eq!(
            text,
            "12:00:00  /data (ext4 on /dev/vdb\\u{1b})\n\
             \x20            rd/s   wr/s  rdKB/s  wrKB/s rd mean wr mean  access+lookup      0/s\n\
             sequential   10.0   10.0    80.0    40.0 2.00 ms  150 µs  readdir            0/s\n\
             random       10.0      0    40.0       0 4.00 ms       -  getattr+setattr    0/s\n\
             page         10.0   10.0    40.0    40.0       -       -  create+remove      0/s\n\
             TOTAL        30.0   20.0     160    80.0 3.00 ms  150 µs  other              0/s\n\n"
        );
        assert!(text.lines().all(|line| line.chars().count() <= 80));
        assert!(tables(&interval, "12:00:00", true).contains("/idle"));
        let idle = FileSystemInterval::between(&reading(100, 5), &reading(101, 5)).unwrap();
        assert_eq!(tables(&idle, "12:00:00", false), "12:00:00  no operations of file systems\n");
        assert_eq!(FileSystemInterval::between(&reading(100, 5), &reading(100, 5)), None);
    }

    #[test]
    fn json_has_counts_rates_and_unknown_latencies() {
        let mut older = reading(100, 0);
        // One that is mounted in between has done all that was counted of it.
        older.file_systems.clear();
        let interval = FileSystemInterval::between(&older, &reading(102, 20)).unwrap();
        let text = json(&interval, false);
        let object: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((text.lines().count(), &object["mount"], &object["device"]), (1, &"/data".into(), &"254:1".into()));
        assert_eq!((object["sequential"]["reads"].as_u64(), object["random"]["read_bytes"].as_u64()), (Some(20), Some(81_920)));
        assert_eq!(object["total"]["reads_per_second"].as_f64(), Some(30.0));
        assert_eq!(object["total"]["read_latency_seconds"].as_f64(), Some(0.003));
        assert!(object["page"]["read_latency_seconds"].is_null());
        assert_eq!(object["getattr_setattr"]["per_second"].as_f64(), Some(15.0));
    }
}
