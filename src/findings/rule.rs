//! What a rule is, and the list of all rules: help, docs/findings.md and the findings screen are generated from it.

use super::Kind;
use super::blocked_tasks;
use super::blocked_tasks::idle_but_blocked;
use super::cpu;
use super::cpu::hidden_cpu;
use super::cpu::load_average;
use super::cpu::short_lived;
use super::disk;
use super::disk::drift;
use super::memory;
use super::network;
use super::network::remote_hosts;
use super::network::udp;
use super::rule_context::{Candidate, RuleContext};

/// One rule: a kind of finding, its explanation, and the pure function that detects it.
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
    pub(super) evaluate: fn(&RuleContext) -> Vec<Candidate>,
}

/// How many intervals must show a candidate before it becomes a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hysteresis {
    /// 2 of the last 3
    TwoOfThree,
    /// 2 of the last 3; a note until it has lasted for `limit_seconds`: short saturation is normal
    Sustained,
    /// 1: it is an event, or the rule itself measures how long it has lasted
    Immediate,
}

/// All rules, in the order of `Kind`.
pub const RULES: &[Rule] = &[
    idle_but_blocked::IDLE_BUT_BLOCKED,
    cpu::SATURATED_CORE,
    cpu::SATURATED_THREAD,
    cpu::CPU_SATURATED,
    cpu::CPU_THROTTLED,
    cpu::CPU_STOLEN,
    hidden_cpu::HIDDEN_CPU,
    short_lived::SHORT_LIVED_PROCESSES,
    disk::DISK_LATENCY,
    disk::DISK_BUSY_NOT_SATURATED,
    disk::DISK_STALLED,
    drift::DISK_DRIFT,
    blocked_tasks::IO_THROTTLED,
    blocked_tasks::HUNG_TASK,
    network::NIC_SATURATED,
    network::TCP_RETRANSMITS,
    network::LISTEN_OVERFLOW,
    udp::UDP_OVERFLOW,
    remote_hosts::NETWORK_LATENCY,
    load_average::LOAD_NOT_CPU,
    memory::MEMORY_PRESSURE,
    memory::SWAPPING,
    memory::OOM_KILL,
];
