//! Limits of the kernel: how much of each is used, and how often the kernel refused more.

use crate::sample::Sample;
use crate::sample::limits::Limit;
use crate::units::PerSecond;

/// A limit that the newer sample has.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitSpan {
    pub limit: Limit,
    /// `used` ÷ `max` at the end; at most 1 unless the limit was lowered afterwards
    pub used_share: f64,
    /// The same at the begin; `None` if the older sample does not have it: it was not near then
    pub used_share_before: Option<f64>,
    /// Δ refusals ÷ Δt; `None` if they are not counted, or not in both samples
    pub refused: Option<PerSecond>,
}

/// In the order of the newer sample.
pub fn between(older: &Sample, newer: &Sample, seconds: f64) -> Vec<LimitSpan> {
    let rows = |sample: &'_ Sample| sample.limits.as_ref().map(|limits| limits.rows.clone()).unwrap_or_default();
    let before = rows(older);
    let span = |limit: Limit| {
        let old = before.iter().find(|old| old.is_same_as(&limit));
        let grown = old.and_then(|old| limit.refused?.since(old.refused?));
        LimitSpan {
            used_share: used_share(&limit),
            used_share_before: old.map(used_share),
            refused: grown.map(|count| PerSecond(count as f64 / seconds)),
            limit,
        }
    };
    rows(newer).into_iter().map(span).collect()
}

fn used_share(limit: &Limit) -> f64 {
    limit.used as f64 / limit.max.max(1) as f64
}
