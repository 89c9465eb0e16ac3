//! What a rule is, and the list of all of them: help, docs/findings.md and the findings screen are made from it.

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

/// One rule: a kind of finding, in words, and the pure function that suspects it.
pub struct Rule {
    pub kind: Kind,
    /// A few words for a heading
    pub title: &'static str,
    /// What it means for who uses the machine
    pub meaning: &'static str,
    /// From which figures, against which thresholds
    pub computed: &'static str,
    /// When it is wrong, or right and harmless
    pub caveats: &'static str,
    /// What to look at next, one line each
    pub next_steps: &'static [&'static str],
    pub hysteresis: Hysteresis,
    /// What one interval shows
    pub(super) evaluate: fn(&RuleContext) -> Vec<Candidate>,
}

/// How many intervals must show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hysteresis {
    /// 2 of the last 3
    TwoOfThree,
    /// 2 of the last 3; more than a note once it has lasted for `limit_seconds`: a limit is what stays, not what a program
    /// meets on its way
    Sustained,
    /// One is enough: it is an event, or the rule itself measures how long it has lasted.
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
