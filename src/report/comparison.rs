//! Recordings beside the first of them: each figure's middle and bad end, how much it moved, how sure that is, and whether it
//! is for the worse; what was found in one and not in the other; and what an operation costs.

mod columns;
mod counted;
mod direction;
mod gathered;
mod json;
mod operations;
mod text;
mod thinned;

use super::statistics::{Certainty, Distribution, Superiority};
use crate::findings::Severity;
pub use counted::Work;
use direction::{Better, better};
pub use gathered::{Gathered, Key, Totals};
pub use json::json;
pub use operations::PerOperation;
pub use text::text;

/// A recording with its name, and what its operations were done with where their number is known.
#[derive(Debug)]
pub struct Side {
    pub name: String,
    pub gathered: Gathered,
    pub work: Option<Work>,
}

/// The first side is the base, all others are beside it.
#[derive(Debug)]
pub struct Comparison {
    pub sides: Vec<Side>,
    pub figures: Vec<Figure>,
    pub findings: Vec<FindingBeside>,
}

/// One figure on all sides.
#[derive(Debug)]
pub struct Figure {
    pub key: Key,
    pub base: Option<Spread>,
    /// Of the sides beside the base, in their order
    pub beside: Vec<Beside>,
}

/// What is said of the values on one side.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Spread {
    pub count: usize,
    pub median: f64,
    pub p95: f64,
    pub mean: f64,
}

/// One side beside the base.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Beside {
    pub spread: Option<Spread>,
    /// Median ÷ median of the base; of the 95th percentiles where the base's median is 0, and `None` where that is too
    pub ratio: Option<f64>,
    pub superiority: Option<Superiority>,
    pub change: Change,
}

/// What became of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// It moved less than matters, or it may be chance
    None,
    /// It is another one; whether that is good nobody can tell from it alone
    Moved,
    Worse,
    Better,
}

/// A finding, and on which sides it was made.
#[derive(Clone, Debug, PartialEq)]
pub struct FindingBeside {
    pub kind: crate::findings::Kind,
    pub subject: String,
    /// How bad on each side, the base first; `None` where it was not found
    pub severity: Vec<Option<Severity>>,
    /// The sentence of the last side that has it
    pub sentence: String,
}

/// Less than this share of the base's value does not matter.
const LEAST_SHARE: f64 = 0.05;

/// Where they overlap more than this, one is not above the other in any way that is felt: a medium effect, d = 0.5.
const LEAST_SUPERIORITY: f64 = 0.14;

impl Comparison {
    /// The first side is the base.
    pub fn of(sides: Vec<Side>) -> Comparison {
        let mut keys: Vec<&Key> = sides.iter().flat_map(|side| side.gathered.keys()).collect();
        keys.sort_unstable();
        keys.dedup();
        let figures = keys.into_iter().filter_map(|key| figure(key, &sides)).collect();
        let findings = findings(&sides);
        Comparison { sides, figures, findings }
    }

    /// Whether anything became worse on any side.
    pub fn is_worse(&self) -> bool {
        self.figures.iter().flat_map(|figure| &figure.beside).any(|beside| beside.change == Change::Worse)
    }
}

fn figure(key: &Key, sides: &[Side]) -> Option<Figure> {
    let all: Vec<Option<Distribution>> = sides.iter().map(|side| Distribution::of(side.gathered.values(key))).collect();
    // A counter that never moved anywhere is not worth a row.
    if all.iter().flatten().all(|values| values.quantile(1.0) == 0.0) {
        return None;
    }
    let (base, others) = all.split_first()?;
    let beside = others.iter().map(|other| beside(key, base.as_ref(), other.as_ref())).collect();
    Some(Figure { key: key.clone(), base: base.as_ref().map(spread), beside })
}

fn beside(key: &Key, base: Option<&Distribution>, new: Option<&Distribution>) -> Beside {
    let Some((base, values)) = base.zip(new) else {
        return Beside { spread: new.map(spread), ratio: None, superiority: None, change: Change::None };
    };
    let superiority = base.beside(values);
    let of = |old: f64, new: f64| (old > 0.0).then(|| new / old);
    let ratio = of(base.median(), values.median()).or_else(|| of(base.p95(), values.p95()));
    Beside { spread: Some(spread(values)), ratio, superiority: Some(superiority), change: change(key, superiority, ratio) }
}

/// Sure, felt, and large enough: then it depends on what the figure is.
fn change(key: &Key, superiority: Superiority, ratio: Option<f64>) -> Change {
    let moved = superiority.probability - 0.5;
    let small = ratio.is_some_and(|ratio| (ratio - 1.0).abs() < LEAST_SHARE);
    if superiority.certainty() == Certainty::Unclear || moved.abs() < LEAST_SUPERIORITY || small {
        return Change::None;
    }
    match (key.head().map(|head| better(key.subject(), head.json)), moved > 0.0) {
        (Some(Better::Lower), true) | (Some(Better::Higher), false) => Change::Worse,
        (Some(Better::Lower), false) | (Some(Better::Higher), true) => Change::Better,
        (Some(Better::Neither) | None, _) => Change::Moved,
    }
}

fn spread(values: &Distribution) -> Spread {
    Spread { count: values.count(), median: values.median(), p95: values.p95(), mean: values.mean() }
}

/// All that was found on any side.
fn findings(sides: &[Side]) -> Vec<FindingBeside> {
    let found: Vec<_> = sides.iter().map(|side| side.gathered.findings()).collect();
    let mut about: Vec<_> = found.iter().flat_map(|found| found.keys()).collect();
    about.sort_unstable();
    about.dedup();
    let of = |about: &gathered::About| {
        let sentence = found.iter().rev().find_map(|found| found.get(about)).map(|found| found.sentence.clone());
        FindingBeside {
            kind: about.0,
            subject: about.1.clone(),
            severity: found.iter().map(|found| found.get(about).map(|found| found.severity)).collect(),
            sentence: sentence.unwrap_or_default(),
        }
    };
    about.into_iter().map(of).collect()
}
