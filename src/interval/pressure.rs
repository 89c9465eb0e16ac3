//! Pressure stall information (PSI): shares of the interval. docs/metrics.md, "Memory and pressure".

use crate::sample::Reading;
use crate::sample::pressure::{Pressure, Stall, StallLine};
use crate::units::{Ratio, delta};

/// Shares of the interval in which tasks were stalled; 0 … 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PressureSpan {
    pub cpu_some: Option<Ratio>,
    pub io_some: Option<Ratio>,
    pub io_full: Option<Ratio>,
    pub memory_some: Option<Ratio>,
    pub memory_full: Option<Ratio>,
    pub irq_full: Option<Ratio>,
}

impl PressureSpan {
    pub(super) fn between(older: &Pressure, newer: &Pressure, seconds: f64) -> PressureSpan {
        type Line = fn(&Stall) -> Option<StallLine>;
        let (some, full): (Line, Line) = (|stall| stall.some, |stall| stall.full);
        let share = |newer: &Reading<Stall>, older: &Reading<Stall>, line: Line| {
            let total = |reading: &Reading<Stall>| reading.as_ref().ok().and_then(line).map(|line| line.total_us);
            stalled_share(delta(total(newer), total(older))?, seconds)
        };
        PressureSpan {
            cpu_some: share(&newer.cpu, &older.cpu, some),
            io_some: share(&newer.io, &older.io, some),
            io_full: share(&newer.io, &older.io, full),
            memory_some: share(&newer.memory, &older.memory, some),
            memory_full: share(&newer.memory, &older.memory, full),
            irq_full: share(&newer.irq, &older.irq, full),
        }
    }
}

/// Share of the interval in which tasks were stalled, at most 1: the files are not read at the exact time of the sample.
pub(super) fn stalled_share(grown_us: u64, seconds: f64) -> Option<Ratio> {
    Ratio::new((grown_us as f64 / 1e6).min(seconds), seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stalled_share_is_at_most_one() {
        assert_eq!([250_000, 1_004_000].map(|us| stalled_share(us, 1.0)), [Some(Ratio(0.25)), Some(Ratio(1.0))]);
        assert_eq!(stalled_share(0, 0.0), None);
    }
}
