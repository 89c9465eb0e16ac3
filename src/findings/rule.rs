//! The type of a rule. The list of all rules is `RULES` in `rules`.

use crate::findings::finding::Kind;
use crate::findings::rule_context::{Candidate, RuleContext};

/// A rule: a kind of finding, its explanation, and the pure function that detects it. Help, docs/findings.md and the findings
/// screen print the texts.
pub struct Rule {
    pub kind: Kind,
    /// A few words for a heading
    pub title: &'static str,
    /// What it means for the users of the machine
    pub meaning: &'static str,
    /// How it is computed: figures and thresholds
    pub computed: &'static str,
    /// When it is wrong or harmless
    pub caveats: &'static str,
    /// What to check next, one line each
    pub next_steps: &'static [&'static str],
    /// Heading of docs/metrics.md under which its figures are defined
    pub reference: &'static str,
    pub hysteresis: Hysteresis,
    /// Evaluates one interval
    pub evaluate: fn(&RuleContext) -> Vec<Candidate>,
}

/// How many intervals must show a candidate before it becomes a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hysteresis {
    /// 2 of the last 3
    TwoOfThree,
    /// 2 of the last 3; a note until it has been a warning or critical for `limit_seconds`: short saturation is normal
    Sustained,
    /// 1: it is an event, or the rule itself measures its duration
    Immediate,
}
