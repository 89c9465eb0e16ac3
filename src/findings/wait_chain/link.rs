//! A wait chain as a value: its links, and how sure they are.

use std::borrow::Cow;

use serde::Serialize;

/// A process group and what blocks it.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitChain {
    /// `postgres (64 processes)`
    pub group_label: String,
    /// Mean number of its blocked threads
    pub threads: f64,
    /// From the waiting threads to what they wait for
    pub links: Vec<ChainLink>,
    pub confidence: ChainConfidence,
}

/// One step of a chain.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChainLink {
    pub what: String,
    /// How it is known
    pub known_by: Cow<'static, str>,
}

impl ChainLink {
    /// `known_by`: the file or field from which it is known, or that it is inferred.
    pub fn new(what: impl Into<String>, known_by: impl Into<Cow<'static, str>>) -> ChainLink {
        ChainLink { what: what.into(), known_by: known_by.into() }
    }
}

/// The evidence that says how sure a chain is
pub const CHAIN_CONFIDENCE: &str = "chain_confidence";

/// Confidence of the whole chain: that of its weakest link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChainConfidence {
    /// Several links are inferred
    Low,
    /// One link is inferred
    Medium,
    /// No link is inferred, or there is only one possibility
    High,
}

impl ChainConfidence {
    /// Of a chain with so many inferred links.
    pub fn from_inferred_links(count: usize) -> ChainConfidence {
        match count {
            0 => ChainConfidence::High,
            1 => ChainConfidence::Medium,
            _ => ChainConfidence::Low,
        }
    }

    /// The word in JSON and on the screen.
    pub fn as_str(self) -> &'static str {
        match self {
            ChainConfidence::Low => "low",
            ChainConfidence::Medium => "medium",
            ChainConfidence::High => "high",
        }
    }
}
