//! Compares recordings with the first one: median and 95th percentile of each figure, how much it changed, how certain that
//! is, and whether it got worse; findings of one recording only; the cost per operation.

mod json;
mod operation_counter;
mod per_operation;
mod recording_figures;
mod text;
mod text_table;
mod totals;

use crate::figures::Better;
use crate::findings::Severity;
use crate::interval::statistics::{Certainty, Distribution, Superiority};
pub use json::json;
pub use operation_counter::OperationTotals;
pub use per_operation::PerOperation;
pub use recording_figures::{FigureKey, RecordingFigures};
pub use text::text;
pub use totals::Totals;

/// A recording with its name, and the totals of its operations if they were counted.
#[derive(Debug)]
pub struct ComparedRecording {
    pub name: String,
    pub figures: RecordingFigures,
    pub operation_totals: Option<OperationTotals>,
}

/// The first recording is the base; the others are compared with it.
#[derive(Debug)]
pub struct Comparison {
    pub recordings: Vec<ComparedRecording>,
    pub figures: Vec<FigureComparison>,
    pub findings: Vec<FindingComparison>,
}

/// One figure in all recordings.
#[derive(Debug)]
pub struct FigureComparison {
    pub key: FigureKey,
    pub base: Option<SummaryStatistics>,
    /// Of the other recordings, in their order
    pub deltas: Vec<FigureDelta>,
}

/// Summary of the values of one recording.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct SummaryStatistics {
    pub count: usize,
    pub median: f64,
    pub p95: f64,
    pub mean: f64,
}

/// One recording compared with the base.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FigureDelta {
    pub summary: Option<SummaryStatistics>,
    /// Median ÷ median of the base; of the 95th percentiles where the base's median is 0, and `None` where that is too
    pub ratio: Option<f64>,
    pub superiority: Option<Superiority>,
    pub change: FigureChange,
}

/// The change of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FigureChange {
    /// Too small, or possibly chance
    None,
    /// Changed; the figure alone does not tell whether that is better
    Moved,
    Worse,
    Better,
}

/// A finding, and the recordings that have it.
#[derive(Clone, Debug, PartialEq)]
pub struct FindingComparison {
    pub kind: crate::findings::Kind,
    pub subject: String,
    /// The severity in each recording, the base first; `None`: not found
    pub severity: Vec<Option<Severity>>,
    /// The sentence in each recording
    pub sentences: Vec<Option<String>>,
}

/// The least change, as a share of the base's value.
const MIN_RELATIVE_CHANGE: f64 = 0.05;

/// The least distance of the superiority from 0.5: a medium effect, Cohen's d = 0.5.
const MIN_SUPERIORITY: f64 = 0.14;

impl Comparison {
    /// The first recording is the base.
    pub fn new(recordings: Vec<ComparedRecording>) -> Comparison {
        let mut keys: Vec<FigureKey> = recordings.iter().flat_map(|recording| recording.figures.keys()).collect();
        keys.sort_unstable();
        keys.dedup();
        let figures = keys.into_iter().filter_map(|key| compare_figure(&key, &recordings)).collect();
        let findings = compare_findings(&recordings);
        Comparison { recordings, figures, findings }
    }
}

fn compare_figure(key: &FigureKey, recordings: &[ComparedRecording]) -> Option<FigureComparison> {
    let all: Vec<Option<Distribution>> =
        recordings.iter().map(|recording| Distribution::from_values(recording.figures.values(key))).collect();
    // A figure that is 0 in all recordings has no row.
    if all.iter().flatten().all(|values| values.quantile(1.0) == 0.0) {
        return None;
    }
    let (base, others) = all.split_first()?;
    let beside = others.iter().map(|other| figure_delta(key, base.as_ref(), other.as_ref())).collect();
    Some(FigureComparison { key: key.clone(), base: base.as_ref().map(summarize), deltas: beside })
}

fn figure_delta(key: &FigureKey, base: Option<&Distribution>, new: Option<&Distribution>) -> FigureDelta {
    let Some((base, values)) = base.zip(new) else {
        return FigureDelta { summary: new.map(summarize), ratio: None, superiority: None, change: FigureChange::None };
    };
    let superiority = base.superiority_of(values);
    let of = |old: f64, new: f64| (old > 0.0).then(|| new / old);
    let of_p95 = of(base.p95(), values.p95());
    let ratio = of(base.median(), values.median()).or(of_p95);
    FigureDelta {
        summary: Some(summarize(values)),
        ratio,
        superiority: Some(superiority),
        change: classify_change(key, superiority, [ratio, of_p95]),
    }
}

/// A certain and large change is better or worse by the figure's direction.
/// `ratios`: of the medians, and of the 95th percentiles, which alone tell of a device that is slow in some of the intervals.
fn classify_change(key: &FigureKey, superiority: Superiority, ratios: [Option<f64>; 2]) -> FigureChange {
    let moved = superiority.probability - 0.5;
    let is_small = |ratio: f64| (ratio - 1.0).abs() < MIN_RELATIVE_CHANGE;
    let [of_medians, of_p95] = ratios;
    // A tail that moved the other way does not make it a large change.
    let of_p95 = of_p95.filter(|&ratio| (ratio > 1.0) == (moved > 0.0));
    let small = of_medians.is_some_and(is_small) && of_p95.is_none_or(is_small);
    if superiority.certainty() == Certainty::Unclear || moved.abs() < MIN_SUPERIORITY || small {
        return FigureChange::None;
    }
    match (key.column().map(|column| column.better), moved > 0.0) {
        (Some(Better::Lower), true) | (Some(Better::Higher), false) => FigureChange::Worse,
        (Some(Better::Lower), false) | (Some(Better::Higher), true) => FigureChange::Better,
        (Some(Better::Neither) | None, _) => FigureChange::Moved,
    }
}

fn summarize(values: &Distribution) -> SummaryStatistics {
    SummaryStatistics { count: values.count(), median: values.median(), p95: values.p95(), mean: values.mean() }
}

/// The findings of all recordings.
fn compare_findings(recordings: &[ComparedRecording]) -> Vec<FindingComparison> {
    let found: Vec<_> = recordings.iter().map(|recording| recording.figures.findings()).collect();
    let mut about: Vec<_> = found.iter().flat_map(|found| found.keys()).collect();
    about.sort_unstable();
    about.dedup();
    let of = |about: &recording_figures::FindingKey| FindingComparison {
        kind: about.0,
        subject: about.1.clone(),
        severity: found.iter().map(|found| found.get(about).map(|found| found.severity)).collect(),
        sentences: found.iter().map(|found| found.get(about).map(|found| found.sentence.clone())).collect(),
    };
    about.into_iter().map(of).collect()
}
