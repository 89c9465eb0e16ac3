//! Rates and mean latencies of the operations of file systems, from the counts of `sample/file_systems`.

use crate::ids::DiskId;
use crate::sample::file_systems::{AccessPattern, Direction, FileSystem, FileSystems, Flow, MissingCounts, OtherOperation};
use crate::sample::{Instant, Name};
use crate::units::{Millis, PerSecond};

/// What all file systems did between two readings.
#[derive(Clone, Debug, PartialEq)]
pub struct FileSystemInterval {
    /// Its end
    pub at: Instant,
    /// Its length
    pub seconds: f64,
    /// In the order in which they were mounted
    pub file_systems: Vec<FileSystemSpan>,
}

/// What one file system did.
#[derive(Clone, Debug, PartialEq)]
pub struct FileSystemSpan {
    pub device: DiskId,
    pub mount_point: Name,
    pub fs_type: Name,
    pub source: Name,
    seconds: f64,
    /// By `AccessPattern` and `Direction`; `None`: not counted on this kernel
    flows: [[Option<FlowSpan>; 2]; 3],
    /// By `OtherOperation`
    others: [u64; 5],
}

/// Operations of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowSpan {
    pub operations: u64,
    pub bytes: u64,
    /// Operations whose time is known, and their times added up
    timed: u64,
    time_ns: u64,
    /// There may be more, which this kernel does not let the probe count
    pub is_lower_bound: bool,
    pub per_second: PerSecond,
    pub bytes_per_second: PerSecond,
}

impl FileSystemInterval {
    /// A file system that appeared in between did all that was counted of it. `None` if no time passed.
    pub fn between(older: &FileSystems, newer: &FileSystems) -> Option<FileSystemInterval> {
        let seconds = newer.at.seconds_since(older.at);
        let before = |device: DiskId| older.file_systems.iter().find(|known| known.device == device);
        let spans =
            newer.file_systems.iter().map(|now| FileSystemSpan::between(before(now.device), now, seconds, newer.missing));
        (seconds > 0.0).then(|| FileSystemInterval { at: newer.at, seconds, file_systems: spans.collect() })
    }
}

impl FileSystemSpan {
    fn between(older: Option<&FileSystem>, newer: &FileSystem, seconds: f64, missing: MissingCounts) -> FileSystemSpan {
        let flow = |pattern: AccessPattern, direction: Direction| {
            let flow_of = |file_system: &FileSystem| file_system.flows[pattern as usize][direction as usize];
            let is_missing = match (pattern, direction) {
                (AccessPattern::Sequential | AccessPattern::Random, _) => false,
                (AccessPattern::Page, Direction::Read) => missing.page_reads,
                (AccessPattern::Page, Direction::Write) => missing.page_writes,
            };
            let span = FlowSpan::between(older.map(flow_of).unwrap_or_default(), flow_of(newer), seconds);
            let is_lower_bound = missing.io_uring && pattern != AccessPattern::Page;
            (!is_missing).then_some(FlowSpan { is_lower_bound, ..span })
        };
        let other = |other: OtherOperation| {
            let before = older.map(|older| older.others[other as usize]).unwrap_or_default();
            newer.others[other as usize].since(before).unwrap_or(0)
        };
        FileSystemSpan {
            device: newer.device,
            mount_point: newer.mount_point.clone(),
            fs_type: newer.fs_type.clone(),
            source: newer.source.clone(),
            seconds,
            flows: AccessPattern::ALL.map(|pattern| [flow(pattern, Direction::Read), flow(pattern, Direction::Write)]),
            others: OtherOperation::ALL.map(other),
        }
    }

    /// `None` if it is not counted on this kernel.
    pub fn flow(&self, pattern: AccessPattern, direction: Direction) -> Option<FlowSpan> {
        self.flows[pattern as usize][direction as usize]
    }

    /// All patterns of a direction: a lower bound without one of them.
    pub fn total(&self, direction: Direction) -> FlowSpan {
        let unknown = FlowSpan { is_lower_bound: true, ..FlowSpan::default() };
        let flows = AccessPattern::ALL.into_iter().map(|pattern| self.flow(pattern, direction).unwrap_or(unknown));
        flows.fold(FlowSpan::default(), FlowSpan::plus)
    }

    /// Calls in the interval.
    pub fn calls(&self, other: OtherOperation) -> u64 {
        self.others[other as usize]
    }

    pub fn calls_per_second(&self, other: OtherOperation) -> PerSecond {
        PerSecond::over(self.calls(other), self.seconds).unwrap_or_default()
    }

    /// Nothing was counted.
    pub fn is_idle(&self) -> bool {
        self.others.iter().all(|&calls| calls == 0) && self.flows.iter().flatten().flatten().all(|flow| flow.operations == 0)
    }
}

impl FlowSpan {
    fn between(older: Flow, newer: Flow, seconds: f64) -> FlowSpan {
        // The counts of a probe never decrease while it is attached.
        let operations = newer.operations.since(older.operations).unwrap_or(0);
        let bytes = newer.bytes.since(older.bytes).unwrap_or(0);
        let time_ns = newer.time_ns.since(older.time_ns).unwrap_or(0);
        FlowSpan {
            operations,
            bytes,
            timed: if time_ns > 0 { operations } else { 0 },
            time_ns,
            is_lower_bound: false,
            per_second: PerSecond::over(operations, seconds).unwrap_or_default(),
            bytes_per_second: PerSecond::over(bytes, seconds).unwrap_or_default(),
        }
    }

    fn plus(self, other: FlowSpan) -> FlowSpan {
        FlowSpan {
            operations: self.operations.saturating_add(other.operations),
            bytes: self.bytes.saturating_add(other.bytes),
            timed: self.timed.saturating_add(other.timed),
            time_ns: self.time_ns.saturating_add(other.time_ns),
            is_lower_bound: self.is_lower_bound || other.is_lower_bound,
            per_second: PerSecond(self.per_second.0 + other.per_second.0),
            bytes_per_second: PerSecond(self.bytes_per_second.0 + other.bytes_per_second.0),
        }
    }

    /// The mean time of an operation; `None` if there was none, or its time is not measured, as of pages.
    pub fn latency(&self) -> Option<Millis> {
        (self.timed > 0).then(|| Millis(self.time_ns as f64 / self.timed as f64 / 1e6))
    }
}
