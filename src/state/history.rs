//! What is remembered of intervals that are not shown: small digests, and the findings.

/// Digests of the last intervals.
#[derive(Clone, Debug, Default)]
pub struct History {}

/// The findings that were met, ended ones too.
#[derive(Clone, Debug, Default)]
pub struct Timeline {}
