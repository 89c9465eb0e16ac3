//! Evaluated intervals, and a screen that displays them.

use std::sync::Arc;

use stalltop::baseline::Baselines;
use stalltop::findings::{Evaluation, Evaluator};
use stalltop::interval::Interval;
use stalltop::state::{Setup, Source, State, TerminalCapabilities};

use super::{SampleBuilder, host};

/// The first interval of a session.
pub fn evaluation(older: SampleBuilder, newer: SampleBuilder) -> Evaluation {
    let interval = Interval::between(&Arc::new(host()), &older.shared(), &newer.shared()).unwrap();
    Evaluator::new(Baselines::default()).evaluate(interval)
}

/// A screen of this size without an interval; samples are taken each second.
pub fn screen(size: (u16, u16), source: Source) -> State {
    let time_zone = jiff::tz::TimeZone::UTC;
    State::new(Setup { terminal: TerminalCapabilities::default(), source, time_zone, size, interval_ms: 1000 })
}
