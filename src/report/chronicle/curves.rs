//! Which figures are followed over time, and how each is drawn. Names are those of JSON (metrics.md), units in their ends.

use serde::Serialize;

use crate::baseline::Standing;
use crate::interval::Interval;
use crate::interval::disk::{DiskSpan, OpSpan, Operation};
use crate::interval::network::NicSpan;

/// A figure that is followed over time.
#[derive(Debug)]
pub struct Curve<S: 'static> {
    /// In JSON
    pub name: &'static str,
    /// On a page
    pub label: &'static str,
    pub form: Form,
    pub of: fn(&S) -> Option<f64>,
}

/// How a figure is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
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
pub enum Unit {
    Ratio,
    /// Mean numbers of threads
    Threads,
    /// 1 is one whole CPU
    Cpus,
    Seconds,
    Bytes,
    BytesPerSecond,
}

const KB: f64 = 1024.0;

/// Shares of the box.
pub const CPU: &[Curve<Interval>] = &[
    Curve {
        name: "user_ratio",
        label: "user",
        form: Form::Layer,
        of: |i| i.cpu.as_ref().map(|cpu| cpu.total.user + cpu.total.nice),
    },
    Curve { name: "system_ratio", label: "system", form: Form::Layer, of: |i| i.cpu.as_ref().map(|cpu| cpu.total.system) },
    Curve {
        name: "irq_ratio",
        label: "irq",
        form: Form::Layer,
        of: |i| i.cpu.as_ref().map(|cpu| cpu.total.irq + cpu.total.softirq),
    },
    Curve { name: "steal_ratio", label: "steal", form: Form::Layer, of: |i| i.cpu.as_ref().map(|cpu| cpu.total.steal) },
    Curve {
        name: "idle_but_blocked_ratio",
        label: "idle but blocked",
        form: Form::Layer,
        of: |i| i.idle_blocked.as_ref().map(|blocked| blocked.ratio),
    },
    Curve { name: "free_ratio", label: "free", form: Form::Layer, of: |i| i.idle_blocked.as_ref().map(|blocked| blocked.free) },
    Curve { name: "busy_ratio", label: "busy", form: Form::Peak, of: |i| i.cpu.as_ref().map(|cpu| cpu.busy()) },
    Curve { name: "iowait_ratio", label: "iowait says", form: Form::Line, of: |i| i.cpu.as_ref().map(|cpu| cpu.total.iowait) },
];

/// The load average and what it counts, beside what it does not count.
pub const LOAD: &[Curve<Interval>] = &[
    Curve {
        name: "running",
        label: "running",
        form: Form::Layer,
        of: |i| i.tasks.as_ref().map(|t| f64::from(t.counts.running)),
    },
    Curve {
        name: "blocked_disk",
        label: "in D: disk",
        form: Form::Layer,
        of: |i| i.tasks.as_ref().map(|t| f64::from(t.counts.blocked_disk)),
    },
    Curve {
        name: "blocked_other",
        label: "in D: anything else",
        form: Form::Layer,
        of: |i| i.tasks.as_ref().map(|t| f64::from(t.counts.blocked.saturating_sub(t.counts.blocked_disk))),
    },
    Curve { name: "load1", label: "load average", form: Form::Line, of: |i| i.newer.load.as_ref().ok().map(|load| load.one) },
    Curve {
        name: "lock",
        label: "in a lock wait (not in load)",
        form: Form::Line,
        of: |i| i.tasks.as_ref().map(|t| f64::from(t.counts.lock_wait)),
    },
    Curve {
        name: "run_queue_wait",
        label: "waiting for a CPU",
        form: Form::Line,
        of: |i| i.tasks.as_ref().and_then(|t| t.run_queue_wait),
    },
];

pub const MEMORY: &[Curve<Interval>] = &[
    Curve {
        name: "available_bytes",
        label: "available",
        form: Form::Line,
        of: |i| Some(i.memory.as_ref()?.available?.0 as f64),
    },
    Curve { name: "dirty_bytes", label: "dirty", form: Form::Line, of: |i| Some(i.memory.as_ref()?.dirty?.0 as f64) },
    Curve {
        name: "swap_used_bytes",
        label: "swap used",
        form: Form::Line,
        of: |i| {
            let memory = i.memory.as_ref()?;
            let total = memory.swap_total.filter(|total| total.0 > 0)?;
            Some(total.0.saturating_sub(memory.swap_free?.0) as f64)
        },
    },
];

/// A device in one interval, with what its latencies are judged against, in seconds.
#[derive(Clone, Debug)]
pub struct DiskMoment {
    pub span: DiskSpan,
    pub read_limit: Option<f64>,
    pub write_limit: Option<f64>,
    pub flush_limit: Option<f64>,
    /// Some of the baselines are not learned yet
    pub provisional: bool,
}

impl DiskMoment {
    /// Limits are that multiple of the baselines.
    pub fn of(span: &DiskSpan, standings: &[Standing], multiple: f64) -> DiskMoment {
        let limit = |operation: Operation| {
            let mut own = standings.iter().filter(|standing| standing.disk == span.id && standing.operation == operation);
            own.next().map(|standing| standing.baseline.0 / 1000.0 * multiple)
        };
        DiskMoment {
            span: span.clone(),
            read_limit: limit(Operation::Read),
            write_limit: limit(Operation::Write),
            flush_limit: limit(Operation::Flush),
            provisional: standings.iter().any(|standing| standing.disk == span.id && standing.provisional),
        }
    }
}

fn waited(op: &OpSpan) -> Option<f64> {
    op.r#await.map(|ms| ms.0 / 1000.0)
}

/// Await of each kind of operation with its 3× line.
pub const DISK: &[Curve<DiskMoment>] = &[
    Curve { name: "r_await_seconds", label: "read", form: Form::Line, of: |d| waited(&d.span.reads) },
    Curve { name: "r_limit_seconds", label: "3× base of reads", form: Form::Limit, of: |d| d.read_limit },
    Curve { name: "w_await_seconds", label: "write", form: Form::Line, of: |d| waited(&d.span.writes) },
    Curve { name: "w_limit_seconds", label: "3× base of writes", form: Form::Limit, of: |d| d.write_limit },
    Curve { name: "f_await_seconds", label: "flush", form: Form::Line, of: |d| waited(d.span.flushes.as_ref()?) },
    Curve { name: "f_limit_seconds", label: "3× base of flushes", form: Form::Limit, of: |d| d.flush_limit },
];

/// Traffic of an interface.
pub const NIC: &[Curve<NicSpan>] = &[
    Curve { name: "rx_bytes_per_second", label: "read", form: Form::Line, of: |nic| Some(nic.rx.kilobytes.0 * KB) },
    Curve { name: "tx_bytes_per_second", label: "written", form: Form::Line, of: |nic| Some(nic.tx.kilobytes.0 * KB) },
];
