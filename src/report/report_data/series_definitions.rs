//! The charts of a report: which figures of the catalogue each one shows over time, and how each is drawn.

use serde::Serialize;

use crate::figures::cpu::{self, CpuRow};
use crate::figures::{Column, disk, load, memory, network};
use crate::interval::Interval;
use crate::interval::disk::DiskSpan;
use crate::interval::memory::MemorySpan;
use crate::interval::network::NicSpan;
use crate::units::Millis;
use crate::units::format::{bytes, latency, three_digits};

/// One figure of a chart.
pub struct SeriesDefinition<S: 'static> {
    pub figure: &'static Column<S>,
    /// In JSON: the figure's key, but for the first names of the disks' and interfaces' series
    pub name: &'static str,
    /// On a page
    pub label: &'static str,
    pub style: PlotStyle,
}

/// How a figure is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlotStyle {
    /// A layer on top of the one before
    Layer,
    Line,
    /// The highest value of each step, as a line above the layers
    Peak,
    /// A baseline times the latency threshold, as a broken line
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

impl ChartUnit {
    /// A value with its unit, for people.
    pub fn format(self, value: f64) -> String {
        match self {
            ChartUnit::Ratio => format!("{} %", three_digits(value * 100.0)),
            ChartUnit::Threads | ChartUnit::Cpus => three_digits(value),
            ChartUnit::Seconds => latency(Millis(value * 1000.0)),
            ChartUnit::Bytes => bytes(value),
            ChartUnit::BytesPerSecond => format!("{}/s", bytes(value)),
        }
    }
}

/// Shares of the time of all CPUs: the layers add up to it.
pub static CPU_SERIES: &[SeriesDefinition<CpuRow>] = &[
    layer(&cpu::USER_RATIO, "user"),
    layer(&cpu::NICE_RATIO, "nice"),
    layer(&cpu::SYSTEM_RATIO, "system"),
    layer(&cpu::IRQ_RATIO, "irq"),
    layer(&cpu::SOFTIRQ_RATIO, "softirq"),
    layer(&cpu::STEAL_RATIO, "steal"),
    layer(&cpu::IDLE_BUT_BLOCKED_RATIO, "idle but blocked"),
    layer(&cpu::FREE_RATIO, "free"),
    SeriesDefinition { style: PlotStyle::Peak, ..layer(&cpu::BUSY_RATIO, "busy") },
    line(&cpu::IOWAIT_RATIO, "iowait says"),
];

/// The load average and what it counts, beside what it does not count.
pub static LOAD_SERIES: &[SeriesDefinition<Interval>] = &[
    layer(&load::RUNNING, "running"),
    layer(&load::BLOCKED_DISK, "in D: disk"),
    layer(&load::BLOCKED_VFORK, "in D: vfork"),
    layer(&load::BLOCKED_MEMORY, "in D: memory"),
    layer(&load::BLOCKED_FROZEN, "in D: frozen"),
    layer(&load::BLOCKED_OTHER, "in D: anything else"),
    line(&load::LOAD1, "load average"),
    line(&load::LOCK, "in a lock wait (not in load)"),
    line(&load::RUN_QUEUE_WAIT, "waiting for a CPU"),
];

pub static MEMORY_SERIES: &[SeriesDefinition<MemorySpan>] = &[
    line(&memory::AVAILABLE_BYTES, "available"),
    line(&memory::DIRTY_BYTES, "dirty"),
    line(&memory::SWAP_USED_BYTES, "swap used"),
];

/// The await of each kind of operation with the limit from which it is a finding.
pub static DISK_SERIES: &[SeriesDefinition<DiskSpan>] = &[
    SeriesDefinition { name: "r_await_seconds", ..line(&disk::READ_AWAIT_SECONDS, "read") },
    limit("r_limit_seconds", &disk::READ_BASELINE_SECONDS, "base of reads"),
    SeriesDefinition { name: "w_await_seconds", ..line(&disk::WRITE_AWAIT_SECONDS, "write") },
    limit("w_limit_seconds", &disk::WRITE_BASELINE_SECONDS, "base of writes"),
    SeriesDefinition { name: "f_await_seconds", ..line(&disk::FLUSH_AWAIT_SECONDS, "flush") },
    limit("f_limit_seconds", &disk::FLUSH_BASELINE_SECONDS, "base of flushes"),
];

/// Traffic of an interface.
pub static NIC_SERIES: &[SeriesDefinition<NicSpan>] = &[
    SeriesDefinition { name: "rx_bytes_per_second", ..line(&network::RECEIVED_BYTES_PER_SECOND, "read") },
    SeriesDefinition { name: "tx_bytes_per_second", ..line(&network::SENT_BYTES_PER_SECOND, "written") },
];

const fn layer<S>(figure: &'static Column<S>, label: &'static str) -> SeriesDefinition<S> {
    SeriesDefinition { figure, name: figure.definition.key, label, style: PlotStyle::Layer }
}

const fn line<S>(figure: &'static Column<S>, label: &'static str) -> SeriesDefinition<S> {
    SeriesDefinition { figure, name: figure.definition.key, label, style: PlotStyle::Line }
}

const fn limit<S>(name: &'static str, baseline: &'static Column<S>, label: &'static str) -> SeriesDefinition<S> {
    SeriesDefinition { figure: baseline, name, label, style: PlotStyle::Limit }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_three_digits_and_a_unit() {
        let said = [
            ChartUnit::Ratio.format(0.4567),
            ChartUnit::Seconds.format(0.1087),
            ChartUnit::Seconds.format(0.000_052),
            ChartUnit::Seconds.format(0.0),
            ChartUnit::BytesPerSecond.format(1536.0),
            ChartUnit::Bytes.format(1023.0),
            ChartUnit::Threads.format(61.04),
        ];
        assert_eq!(said, ["45.7 %", "109 ms", "52.0 µs", "0 ms", "1.50 KiB/s", "1.00 KiB", "61.0"]);
    }
}
