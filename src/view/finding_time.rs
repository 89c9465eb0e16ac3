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
    let age = figures_age(finding, now).map_or_else(SafeText::default, |age| safe!(", figures {age} old"));
    match finding.until {
        Some(until) => safe!("{since} – {} ({})", displayed_time(state, until), time::duration(lasted)),
        None if began_before_the_samples(state, finding) => {
            safe!("≥ {}: already so at start{age}", time::duration(lasted.round()))
        }
        None => safe!("since {since} ({}){age}", time::duration(lasted)),
    }
}

/// How old the figures of an active finding are, if the interval that ends now does not show it at its severity: `2 s`.
pub fn figures_age(finding: &Finding, now: Instant) -> Option<String> {
    let seconds = now.seconds_since(finding.figures_at);
    (finding.until.is_none() && seconds >= MIN_AGE_SECONDS).then(|| time::duration(seconds))
}

/// The ends of two intervals are not nearer to each other.
const MIN_AGE_SECONDS: f64 = 0.001;

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
