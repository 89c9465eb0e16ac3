//! What must hold at the end of a phase of a scenario file.

use std::collections::BTreeMap;

use serde::Deserialize;
use stalltop::findings::{Kind, Severity};

/// What must hold after the last interval of a phase. Findings that are not listed must not be there.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Expect {
    /// The kind of the first finding
    #[serde(default)]
    pub first: Option<Kind>,
    /// Words of the cross-check sentence, which says where iowait and PSI mislead; empty: there must be none
    pub cross_check: Option<String>,
    pub figures: BTreeMap<String, Figure>,
    /// All wait chains, a line each, as `app: 3 wait → …`; only if they are given
    pub wait_chains: Option<Vec<String>>,
    pub finding: Vec<Expected>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    pub is: f64,
    #[serde(default = "hundredth")]
    pub within: f64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    pub kind: Kind,
    pub severity: Severity,
    /// Words of its sentence
    #[serde(default)]
    pub says: Vec<String>,
    #[serde(default)]
    pub never_says: Vec<String>,
    /// The kind of the finding that it must follow from; `none`: it must be a root cause
    #[serde(default)]
    pub follows_from: Option<String>,
    /// Words of the links of its chain
    #[serde(default)]
    pub chain: Vec<String>,
    #[serde(default)]
    pub never_chain: Vec<String>,
    /// Confidence of its chain: low, medium, high
    pub confidence: Option<String>,
    pub value: Option<Figure>,
    /// Values of its evidence by name, as text; `unknown`
    #[serde(default)]
    pub evidence: BTreeMap<String, String>,
    /// Age of the finding at the end of the phase, in seconds
    pub for_seconds: Option<Figure>,
}

fn hundredth() -> f64 {
    0.01
}
