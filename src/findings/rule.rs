//! What a rule is, and the list of all of them: help, docs/findings.md and the findings screen are made from it.

use super::Kind;
use super::cpu;
use super::cpu::hidden;
use super::cpu::load;
use super::cpu::short_lived;
use super::disk;
use super::disk::drift;
use super::memory;
use super::network;
use super::network::peers;
use super::network::udp;
use super::scene::{Scene, Suspicion};
use super::stuck;
use super::stuck::blocked;

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
    pub wrong: &'static str,
    /// What to look at next, one line each
    pub next: &'static [&'static str],
    pub patience: Patience,
    /// What one interval shows
    pub(super) suspect: fn(&Scene) -> Vec<Suspicion>,
}

/// How many intervals must show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// 2 of the last 3
    TwoOfThree,
    /// 2 of the last 3; more than a note once it has lasted for `limit_seconds`: a limit is what stays, not what a program
    /// meets on its way
    Lasting,
    /// One is enough: it is an event, or the rule itself measures how long it has lasted.
    AtOnce,
}

/// All rules, in the order of `Kind`.
pub const RULES: &[Rule] = &[
    blocked::IDLE_BUT_BLOCKED,
    cpu::SATURATED_CORE,
    cpu::SATURATED_THREAD,
    cpu::CPU_SATURATED,
    cpu::CPU_THROTTLED,
    cpu::CPU_STOLEN,
    hidden::HIDDEN_CPU,
    short_lived::SHORT_LIVED_PROCESSES,
    disk::DISK_LATENCY,
    disk::DISK_BUSY_NOT_SATURATED,
    disk::DISK_STALLED,
    drift::DISK_DRIFT,
    stuck::IO_THROTTLED,
    stuck::HUNG_TASK,
    network::NIC_SATURATED,
    network::TCP_RETRANSMITS,
    network::LISTEN_OVERFLOW,
    udp::UDP_OVERFLOW,
    peers::NETWORK_LATENCY,
    load::LOAD_NOT_CPU,
    memory::MEMORY_PRESSURE,
    memory::SWAPPING,
    memory::OOM_KILL,
];
