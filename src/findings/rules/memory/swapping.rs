//! Rule swapping: memory moves to or from swap.

use crate::findings::finding::{Kind, Severity, Subject};
use crate::findings::formatting::bytes;
use crate::findings::page_waits::{list_major_faulters, major_faults_clause, waits_for_page};
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{Candidate, RuleContext, evidence_chain, evidence_optional};
use crate::findings::wait_chain::link::ChainLink;
use crate::interval::blocked_threads::BlockedThread;
use crate::units::Ratio;

pub const SWAPPING: Rule = Rule {
    kind: Kind::Swapping,
    title: "Swapping",
    meaning: "Memory moves to and from swap. Tasks wait for swap-in; swap-out alone only makes room.",
    computed: "At least 1 MiB per second: a warning for swap-in, a note for swap-out alone, and for swap-in while PSI says that tasks waited \
               for memory for less than 1 % of the time, and for I/O too or no thread was seen blocked for a page (zram, zswap).",
    caveats: "zram and zswap make swapping cheap. After a large job has ended, the memory of other processes is swapped in again.",
    next_steps: &["which processes are swapped: VmSwap", "available memory, and which processes have grown"],
    reference: "Memory and pressure",
    hysteresis: Hysteresis::TwoOfThree,
    evaluate: swapping,
};

/// Share of the time in which tasks waited for memory, and for I/O unless that is for other things, below which swap-in is cheap, as from
/// zram. docs/metrics.md,
/// "Fixed thresholds".
const MAX_CHEAP_SWAP_STALL: f64 = 0.01;

fn is_cheap(context: &RuleContext) -> bool {
    let pressure = &context.interval.pressure;
    let is_low = |share: Option<Ratio>| share.is_some_and(|share| share.0 < MAX_CHEAP_SWAP_STALL);
    // The waits for I/O may be those of other programs for their own files.
    is_low(pressure.memory_some) && (is_low(pressure.io_some) || is_nothing_blocked_for_a_page(context))
}

/// Whether no thread was seen blocked where swap-in may block it, and the waits of all are readable.
fn is_nothing_blocked_for_a_page(context: &RuleContext) -> bool {
    let interval = context.interval;
    let may_wait =
        |thread: &BlockedThread| thread.wait.syscall.is_none() || thread.is_page_fault() || waits_for_page(context, thread);
    interval.host.privilege.has_cap_sys_ptrace && !interval.blocked_threads.iter().any(may_wait)
}

fn swapping(context: &RuleContext) -> Vec<Candidate> {
    let limit = context.thresholds.swapping_bytes_per_second;
    let Some(memory) = &context.interval.memory else { return Vec::new() };
    let (into, out) = (memory.swapped_in.map_or(0.0, |rate| rate.0), memory.swapped_out.map_or(0.0, |rate| rate.0));
    if into < limit && out < limit {
        return Vec::new();
    }
    let left = match (memory.swap_free, memory.swap_total) {
        (Some(free), Some(total)) => format!("; {} of {} swap free", bytes(free.0 as f64), bytes(total.0 as f64)),
        _ => String::new(),
    };
    let coming_back = memory.major_faults.filter(|_| into >= limit).map_or(0.0, |rate| rate.0);
    let faulters = list_major_faulters(context, coming_back);
    let label = major_faults_clause(&faulters);
    let faults = (!faulters.is_empty()).then(|| ChainLink::new(format!("major faults: {faulters}"), "/proc/PID/stat (majflt)"));
    vec![Candidate {
        severity: if into >= limit && !is_cheap(context) { Severity::Warning } else { Severity::Note },
        subject: Subject::Host,
        value: into.max(out),
        threshold: limit,
        unit: "bytes_per_second",
        sentence: format!("swapping: {}/s in, {}/s out{left}{label}", bytes(into), bytes(out)),
        evidence: vec![
            evidence_optional("swapped_in_bytes_per_second", memory.swapped_in.map(|rate| rate.0)),
            evidence_optional("swapped_out_bytes_per_second", memory.swapped_out.map(|rate| rate.0)),
            evidence_optional("major_faults_per_second", memory.major_faults.map(|rate| rate.0)),
            evidence_optional("swap_free_bytes", memory.swap_free.map(|free| free.0 as f64)),
        ]
        .into_iter()
        .chain(evidence_chain(faults.into_iter().chain([ChainLink::new(
            format!("swap: {}/s in, {}/s out{left}", bytes(into), bytes(out)),
            "/proc/vmstat (pswpin, pswpout), /proc/meminfo",
        )])))
        .collect(),
        explained_share: 0.0,
    }]
}
