//! When a finding began and how long it has lasted. One that was there when the samples begin is older than that.

use super::displayed_time;
use super::safe_text::SafeText;
use crate::findings::Finding;
use crate::safe;
use crate::sample::Instant;
use crate::state::State;
use crate::units::time;

/// `since 12:01:44 (8.2 s)`, `≥ 5 s: already so at start`; of an ended finding `12:01:44 – 12:03:15 (1m31s)`. `now` is the time
/// displayed.
pub fn finding_time(state: &State, finding: &Finding, now: Instant) -> SafeText {
    let lasted = finding.until.unwrap_or(now).seconds_since(finding.since);
    let since = displayed_time(state, finding.since);
    match finding.until {
        Some(until) => safe!("{since} – {} ({})", displayed_time(state, until), time::duration(lasted)),
        None if began_before_the_samples(state, finding) => safe!("≥ {}: already so at start", time::duration(lasted.round())),
        None => safe!("since {since} ({})", time::duration(lasted)),
    }
}

/// Clock jitter between two readings of one instant.
const TOLERANCE_NS: i64 = 50_000_000;

/// Whether the first interval of all showed it already.
fn began_before_the_samples(state: &State, finding: &Finding) -> bool {
    let since = finding.since.realtime_ns;
    if let Some(first) = state.timeline.ticks.first() {
        return since < first.realtime_ns;
    }
    let Some(first) = state.graphs.history.iter().next() else { return false };
    let end = first.at.realtime_ns;
    // The history of a long session does not reach back to its start.
    let start = end.saturating_sub((f64::from(first.seconds) * 1e9) as i64).saturating_sub(TOLERANCE_NS);
    (start..end).contains(&since)
}
