//! Which figures are followed over time, and how each is drawn. Names are those of JSON (docs/metrics.md), units in their ends.

use serde::Serialize;

use crate::baseline::LatencyStatus;
use crate::interval::Interval;
use crate::interval::disk::{DiskSpan, OpSpan, Operation};
use crate::interval::network::NicSpan;

/// A figure that is followed over time.
#[derive(Debug)]
pub struct SeriesDefinition<S: 'static> {
    /// In JSON
    pub name: &'static str,
    /// On a page
    pub label: &'static str,
    pub style: PlotStyle,
    pub value: fn(&S) -> Option<f64>,
}

/// How a figure is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlotStyle {
    /// A layer on top of the one before
    Layer,
    Line,
    /// The highest value of each step, as a line above the layers
    Peak,
    /// What the figure before is judged against, as a broken line
    Limit,
}

/// What the values of a chart are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChartUnit {
    Ratio,
    /// Mean numbers of threads
    Threads,
    /// 1 is one whole CPU
    Cpus,
    Seconds,
    Bytes,
    BytesPerSecond,
}

const BYTES_PER_KB: f64 = 1024.0;

/// Shares of the box.
pub const CPU_SERIES: &[SeriesDefinition<Interval>] = &[
    SeriesDefinition {
        name: "user_ratio",
        label: "user",
        style: PlotStyle::Layer,
        value: |i| i.cpu.as_ref().map(|cpu| cpu.total.user + cpu.total.nice),
    },
    SeriesDefinition {
        name: "system_ratio",
        label: "system",
        style: PlotStyle::Layer,
        value: |i| i.cpu.as_ref().map(|cpu| cpu.total.system),
    },
    SeriesDefinition {
        name: "irq_ratio",
        label: "irq",
        style: PlotStyle::Layer,
        value: |i| i.cpu.as_ref().map(|cpu| cpu.total.irq + cpu.total.softirq),
    },
    SeriesDefinition {
        name: "steal_ratio",
        label: "steal",
        style: PlotStyle::Layer,
        value: |i| i.cpu.as_ref().map(|cpu| cpu.total.steal),
    },
    SeriesDefinition {
        name: "idle_but_blocked_ratio",
        label: "idle but blocked",
        style: PlotStyle::Layer,
        value: |i| i.idle_blocked.as_ref().map(|blocked| blocked.ratio),
    },
    SeriesDefinition {
        name: "free_ratio",
        label: "free",
        style: PlotStyle::Layer,
        value: |i| i.idle_blocked.as_ref().map(|blocked| blocked.free),
    },
    SeriesDefinition {
        name: "busy_ratio",
        label: "busy",
        style: PlotStyle::Peak,
        value: |i| i.cpu.as_ref().map(|cpu| cpu.busy()),
    },
    SeriesDefinition {
        name: "iowait_ratio",
        label: "iowait says",
        style: PlotStyle::Line,
        value: |i| i.cpu.as_ref().map(|cpu| cpu.total.iowait),
    },
];

/// The load average and what it counts, beside what it does not count.
pub const LOAD_SERIES: &[SeriesDefinition<Interval>] = &[
    SeriesDefinition {
        name: "running",
        label: "running",
        style: PlotStyle::Layer,
        value: |i| i.tasks.as_ref().map(|t| f64::from(t.counts.running)),
    },
    SeriesDefinition {
        name: "blocked_disk",
        label: "in D: disk",
        style: PlotStyle::Layer,
        value: |i| i.tasks.as_ref().map(|t| f64::from(t.counts.blocked_disk)),
    },
    SeriesDefinition {
        name: "blocked_other",
        label: "in D: anything else",
        style: PlotStyle::Layer,
        value: |i| i.tasks.as_ref().map(|t| f64::from(t.counts.blocked.saturating_sub(t.counts.blocked_disk))),
    },
    SeriesDefinition {
        name: "load1",
        label: "load average",
        style: PlotStyle::Line,
        value: |i| i.newer.load.as_ref().ok().map(|load| load.one),
    },
    SeriesDefinition {
        name: "lock",
        label: "in a lock wait (not in load)",
        style: PlotStyle::Line,
        value: |i| i.tasks.as_ref().map(|t| f64::from(t.counts.lock_wait)),
    },
    SeriesDefinition {
        name: "run_queue_wait",
        label: "waiting for a CPU",
        style: PlotStyle::Line,
        value: |i| i.tasks.as_ref().and_then(|t| t.run_queue_wait),
    },
];

pub const MEMORY_SERIES: &[SeriesDefinition<Interval>] = &[
    SeriesDefinition {
        name: "available_bytes",
        label: "available",
        style: PlotStyle::Line,
        value: |i| Some(i.memory.as_ref()?.available?.0 as f64),
    },
    SeriesDefinition {
        name: "dirty_bytes",
        label: "dirty",
        style: PlotStyle::Line,
        value: |i| Some(i.memory.as_ref()?.dirty?.0 as f64),
    },
    SeriesDefinition {
        name: "swap_used_bytes",
        label: "swap used",
        style: PlotStyle::Line,
        value: |i| {
            let memory = i.memory.as_ref()?;
            let total = memory.swap_total.filter(|total| total.0 > 0)?;
            Some(total.0.saturating_sub(memory.swap_free?.0) as f64)
        },
    },
];

/// A device in one interval, with what its latencies are judged against, in seconds.
#[derive(Clone, Debug)]
pub struct DiskWithLimits {
    pub span: DiskSpan,
    pub read_limit: Option<f64>,
    pub write_limit: Option<f64>,
    pub flush_limit: Option<f64>,
    /// Some of the baselines are not learned yet
    pub provisional: bool,
}

impl DiskWithLimits {
    /// Limits are that multiple of the baselines.
    pub fn new(span: &DiskSpan, standings: &[LatencyStatus], multiple: f64) -> DiskWithLimits {
        let limit = |operation: Operation| {
            let mut own = standings.iter().filter(|standing| standing.disk == span.id && standing.operation == operation);
            own.next().map(|standing| standing.baseline.0 / 1000.0 * multiple)
        };
        DiskWithLimits {
            span: span.clone(),
            read_limit: limit(Operation::Read),
            write_limit: limit(Operation::Write),
            flush_limit: limit(Operation::Flush),
            provisional: standings.iter().any(|standing| standing.disk == span.id && standing.provisional),
        }
    }
}

fn await_seconds(op: &OpSpan) -> Option<f64> {
    op.r#await.map(|ms| ms.0 / 1000.0)
}

/// Await of each kind of operation with its 3× line.
pub const DISK_SERIES: &[SeriesDefinition<DiskWithLimits>] = &[
    SeriesDefinition {
        name: "r_await_seconds",
        label: "read",
        style: PlotStyle::Line,
        value: |d| await_seconds(&d.span.reads),
    },
    SeriesDefinition { name: "r_limit_seconds", label: "3× base of reads", style: PlotStyle::Limit, value: |d| d.read_limit },
    SeriesDefinition {
        name: "w_await_seconds",
        label: "write",
        style: PlotStyle::Line,
        value: |d| await_seconds(&d.span.writes),
    },
    SeriesDefinition {
        name: "w_limit_seconds", label: "3× base of writes", style: PlotStyle::Limit, value: |d| d.write_limit
    },
    SeriesDefinition {
        name: "f_await_seconds",
        label: "flush",
        style: PlotStyle::Line,
        value: |d| await_seconds(d.span.flushes.as_ref()?),
    },
    SeriesDefinition {
        name: "f_limit_seconds",
        label: "3× base of flushes",
        style: PlotStyle::Limit,
        value: |d| d.flush_limit,
    },
];

/// Traffic of an interface.
pub const NIC_SERIES: &[SeriesDefinition<NicSpan>] = &[
    SeriesDefinition {
        name: "rx_bytes_per_second",
        label: "read",
        style: PlotStyle::Line,
        value: |nic| Some(nic.rx.kilobytes.0 * BYTES_PER_KB),
    },
    SeriesDefinition {
        name: "tx_bytes_per_second",
        label: "written",
        style: PlotStyle::Line,
        value: |nic| Some(nic.tx.kilobytes.0 * BYTES_PER_KB),
    },
];
