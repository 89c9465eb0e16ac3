//! Findings: problems (or facts worth knowing) in an interval, with start time, severity and evidence.
//!
//! A rule is one item in `rules`: its explanation, and a pure function from an interval to candidates. Help,
//! docs/findings.md and the findings screen are generated from the list `RULES`. `Evaluator` keeps the state between intervals:
//! a candidate becomes a finding when 2 of the last 3 intervals show it, and the finding ends after 5 intervals without it.
//!
//! Imports point down: `evaluator`, then `rules` (families do not use each other), then what rules share (`rule_context`,
//! `rule_state`, `wait_chain`, `disk_latency`, …), then `finding`, `thresholds` and `formatting`.

mod causes;
pub mod cgroups;
mod common_cause;
pub mod cross_checks;
mod device_waiters;
mod disk_latency;
mod evaluator;
mod finding;
mod finding_order;
mod formatting;
mod generated_docs;
mod headline;
mod hung_kernel_threads;
mod hung_threads;
mod kernel_thread_tracker;
mod low_priority;
mod network_scope;
mod network_state;
mod next_steps;
mod nic_conditions;
mod page_waits;
mod pipe_writers;
mod remote_end_waits;
mod remote_host_limits;
mod rule;
mod rule_config;
mod rule_context;
mod rule_state;
mod rules;
mod server_causes;
mod syn_queue_conditions;
#[cfg(test)]
mod tests;
mod threshold;
mod thresholds;
mod unix_senders;
mod wait_chain;
mod wait_words;
mod worst_candidates;

use std::sync::Arc;

pub use common_cause::common_cause;
pub use disk_latency::slow_p99;
pub use evaluator::Evaluator;
pub use finding::{Evidence, EvidenceUnit, Finding, FindingKey, Kind, Severity, Subject, Value};
pub use formatting::short_path;
pub use generated_docs::findings_docs;
pub use headline::{headline, limiting_operation};
pub use network_scope::namespace_owner;
pub use remote_host_limits::{LimitedBy, evaluated_rtt, is_slow, limited_by};
pub use rule::{Hysteresis, Rule};
pub use rule_config::{BaselineOverride, IgnoredDevices, RuleConfig};
pub use rules::RULES;
pub use threshold::{Threshold, ThresholdSetting, ThresholdUnit};
pub use thresholds::{THRESHOLDS, Thresholds};
pub use wait_chain::holder::current_wait_seconds;
pub use wait_chain::holder::{describe_process_group, syscall_name};
pub use wait_chain::link::{CHAIN_CONFIDENCE, ChainConfidence, ChainLink, WaitChain};
pub use wait_chain::named_holder::{describe_named_holder, known_by as lock_known_by, lock_noun, lock_words, thread_name};
pub use wait_chain::remote_waits::waiting_groups;
pub use wait_chain::stacks::holder_line;
pub use wait_chain::user_stacks::user_holder_line;
pub use wait_chain::wait_chains;
pub use wait_words::{class_words, wait_words};

/// The findings of one interval, root causes first, each followed by its consequences (`finding_order`).
pub type ActiveFindings = Arc<[Finding]>;

/// Active findings by root cause: each slice begins with one, and what follows from it comes after it.
pub fn incidents(active: &[Finding]) -> impl Iterator<Item = &[Finding]> {
    active.chunk_by(|_, next| next.follows_from.is_some())
}

/// An interval with its findings: everything that a frame, a report or `check` needs for one instant.
#[derive(Clone, Debug)]
pub struct Evaluation {
    pub interval: Arc<crate::interval::Interval>,
    /// The thresholds and settings of the rules
    pub rule_config: Arc<RuleConfig>,
    /// Findings that hold at the end of the interval, in the order of `finding_order`
    pub active: ActiveFindings,
    /// Findings that ended with this interval
    pub ended: Vec<Finding>,
    /// The latency of each device against its baseline
    pub latency_statuses: Arc<[crate::baseline::LatencyStatus]>,
    /// Remote hosts at the last scan of the connections, which may be that of an earlier interval
    pub remote_hosts: Option<Arc<crate::interval::network::remote_hosts::RemoteHostsSpan>>,
    /// All baselines before this interval
    pub baselines: crate::baseline::Baselines,
    /// What this interval adds to the baselines
    pub observations: Arc<[crate::baseline::Observation]>,
}

impl Evaluation {
    /// The thresholds of the rules.
    pub fn thresholds(&self) -> &Thresholds {
        &self.rule_config.thresholds
    }
}
