//! Rule memory-pressure: tasks of the host, or of a cgroup, wait for memory.

use crate::findings::finding::{Kind, Severity, Subject};
use crate::findings::formatting::percent;
use crate::findings::formatting::{bytes, plural, significant_digits};
use crate::findings::page_waits::{list_major_faulters, major_faults_clause, waits_for_page};
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{Candidate, RuleContext, evidence_chain, evidence_number, evidence_optional};
use crate::findings::rules::memory::MIN_REFAULTS_OF_THRESHOLD;
use crate::findings::rules::memory::cgroup_thrashing::{
    at_limit_clause, cgroups_at_limit, groups_at_limit, is_pressure_of_limit,
};
use crate::findings::wait_chain::link::ChainLink;
use crate::findings::wait_chain::reported_threads::MIN_REPORTED_THREADS;
use crate::interval::delays::DelaySpan;
use crate::sample::memory::MemoryNode;
use crate::units::{PerSecond, Ratio, reaches_threshold};

pub const MEMORY_PRESSURE: Rule = Rule {
    kind: Kind::MemoryPressure,
    title: "Tasks wait for memory",
    meaning: "Tasks spend their time getting memory back: in direct reclaim, or reading again what was just dropped from the \
              page cache. In a cgroup at its limit the host may have plenty of free memory at the same time.",
    computed: "PSI memory some at least 10 % of the time (critical from 50 %), or refaults and major faults together at \
               least 500 per second with threads waiting for them, if most of them are refaults and the kernel had to reclaim, \
               or less than a tenth of the memory is available; without PSI also threads in direct reclaim. A note if only kswapd \
               reclaimed, whose work PSI counts. If tasks had to move pages instead (at least 10 compaction stalls per second, hardly any direct reclaim, few refaults), \
               the sentence says that. Below critical it is a note if half of the memory is available \
               and no cgroup is at its limit: only the page cache is read again; critical is a warning then. A NUMA node with less than a tenth \
               of its memory available (MemFree, file pages, SReclaimable of its meminfo) while the host has more is named: then neither holds. For a cgroup that met its limit (or is at 95 % of it, where the kernel does not \
               count that), by its own counters and its own tasks; there also if threads spend half of their time on refaulted pages, \
               however few a slow disk delivers per second, or if its threads are in reclaim; critical from 50 % if two threads wait, too, by its own PSI \
               (without one by that of the host, if no other cgroup is at its limit). PSI reads ~0 for pages that were \
               never activated.",
    caveats: "A program that starts reads its pages by major faults for a moment. Repeatedly reading more than the cache \
              holds refaults by design: in a cgroup, by one thread and without page faults, it is a note.",
    next_steps: &[
        "which processes have grown: RSS",
        "the cgroup's limit and use: memory.max (v2) or memory.limit_in_bytes (v1)",
        "major faults per second of the processes",
        "compaction: /sys/kernel/mm/transparent_hugepage/defrag, /proc/buddyinfo",
    ],
    reference: "Memory and pressure",
    hysteresis: Hysteresis::TwoOfThree,
    evaluate: memory_pressure,
};

fn memory_pressure(context: &RuleContext) -> Vec<Candidate> {
    let mut found = cgroups_at_limit(context);
    found.extend(host_pressure(context, !found.is_empty()));
    found
}

/// Share of available memory below which major faults alone show a lack of memory. docs/metrics.md, "Fixed thresholds".
const LOW_AVAILABLE_SHARE: f64 = 0.1;

/// Share of available memory from which it is a note: the pages that are read again are those of the page cache.
const PLENTIFUL_AVAILABLE_SHARE: f64 = 0.5;

/// Mean number of the host's threads that wait for pages from which faults alone raise the finding.
const MIN_PAGE_WAITERS: f64 = 0.5;

/// Pages that tasks scan themselves, as a share of the reclaimed ones, below which kswapd alone reclaims.
/// docs/metrics.md, "Fixed thresholds".
const MAX_DIRECT_SHARE: f64 = 0.01;

/// Stalls for reclaim or compaction per second below which kswapd alone reclaims.
const MAX_STALLS_PER_SECOND: f64 = 10.0;

/// `cgroup_at_limit`: a cgroup is short of memory at its own limit.
fn host_pressure(context: &RuleContext, cgroup_at_limit: bool) -> Option<Candidate> {
    let thresholds = context.thresholds;
    let some = context.interval.pressure.memory_some.map(|share| share.0);
    let memory = context.interval.memory.as_ref();
    // A page that a major fault reads back counts as refaulted, too.
    let again = memory.map_or(0.0, |memory| memory.refaults.map_or(0.0, |r| r.0).max(memory.major_faults.map_or(0.0, |f| f.0)));
    let by_pressure = some.is_some_and(|some| some >= thresholds.memory_pressure_ratio);
    // Refaults, or little available memory, show a lack of it.
    let returning = memory
        .and_then(|memory| memory.refaults)
        .is_none_or(|rate| rate.0 >= thresholds.refaults_per_second * MIN_REFAULTS_OF_THRESHOLD);
    // Proactive reclaim (DAMON, memory.reclaim) causes refaults too. The host's counters do not include reclaim of a cgroup at its
    // limit, which may be the cause if cgroups cannot be read.
    let reclaimed = memory.and_then(|memory| memory.reclaimed);
    let needed = reclaimed.is_none_or(|rate| rate.0 > 0.0) || context.interval.newer.cgroups.is_err();
    let scarce = memory
        .and_then(|memory| Some(memory.available?.0 as f64 / memory.total?.0 as f64))
        .map(|available| available < LOW_AVAILABLE_SHARE);
    let wanted = returning && needed || scarce.unwrap_or(true);
    let by_faults = again >= thresholds.refaults_per_second && wanted && page_waiters(context) >= MIN_PAGE_WAITERS;
    // Pressure that a cgroup's limit explains is not reported again for the host, unless the host is low on memory.
    let explained = cgroup_at_limit && scarce != Some(true) && is_pressure_of_limit(context, some);
    // Dirty pages must be written back before they can be reclaimed: then few refault.
    let waiting_in_reclaim = reclaim_waiters(context);
    let is_reclaimed_directly = memory.and_then(|memory| memory.scanned_direct).is_none_or(|rate| rate.0 > 0.0);
    let by_reclaim =
        some.is_none() && is_reclaimed_directly && reaches_threshold(waiting_in_reclaim, thresholds.memory_waiting_threads);
    if explained || !(by_pressure || by_faults || by_reclaim) {
        return None;
    }
    let available = match memory.and_then(|memory| Some((memory.available?, memory.total?))) {
        Some((available, total)) => format!("; {} of {} available", bytes(available.0 as f64), bytes(total.0 as f64)),
        None => String::new(),
    };
    let reclaiming = delayed_threads(context, |span| span.reclaim).filter(|&threads| threads >= MIN_REPORTED_THREADS);
    let reclaiming =
        reclaiming.map_or_else(String::new, |threads| format!("; {} in reclaim", plural(threads, "thread", "threads")));
    let from_swap =
        memory.and_then(|memory| memory.swapped_in).is_some_and(|rate| rate.0 >= thresholds.swapping_bytes_per_second);
    let or_swap = if from_swap { " or swap" } else { "" };
    let pages = format!("{} pages per second were refaulted or faulted in from storage{or_swap}", significant_digits(again));
    // If the host has available memory, the stall is likely that of a cgroup at its limit.
    let limited_by_cgroup = if scarce == Some(false) { at_limit_clause(context, again) } else { String::new() };
    let node = full_node(context).filter(|_| by_pressure && scarce == Some(false));
    let limited = match &node {
        Some((node, _)) => format!("; {node}: tasks bound to it (numactl, cpuset.mems) wait{limited_by_cgroup}"),
        None => limited_by_cgroup.clone(),
    };
    let faulters = list_major_faulters(context, memory.and_then(|memory| memory.major_faults).map_or(0.0, |rate| rate.0));
    let label = major_faults_clause(&faulters);
    let psi = some.map_or_else(|| "-".into(), percent);
    let waits = |threads: f64| plural(threads, "thread waits", "threads wait");
    let only_kswapd = by_pressure && !returning && is_only_kswapd(context);
    let compaction = compaction_stalls(context).filter(|_| by_pressure && !returning && !only_kswapd);
    let reclaims = memory.and_then(|memory| memory.reclaimed).is_some_and(|rate| rate.0 > 0.0);
    let sentence = match (by_pressure, by_faults) {
        (true, _) if only_kswapd => match memory.and_then(|memory| memory.reclaimed) {
            Some(rate) if rate.0 > 0.0 => {
                format!("kswapd reclaimed memory (PSI memory {psi}), and no other task waited for it{available}")
            }
            _ => format!(
                "PSI memory {psi}, but no task reclaimed memory of the host: kcompactd, or a cgroup's own reclaim{available}"
            ),
        },
        (true, _) => match compaction {
            Some(stalls) => format!(
                "tasks waited for memory {psi} of the time while the kernel moved pages to make contiguous memory, as for huge \
                 pages: {} compaction stalls per second{reclaiming}{available}",
                significant_digits(stalls)
            ),
            None => format!("tasks waited for memory {psi} of the time; {pages}{reclaiming}{available}{limited}{label}"),
        },
        (false, true) => {
            let waiting = waits(page_waiters(context));
            format!("{pages}, and {waiting} for them (PSI memory {psi}){reclaiming}{available}{limited}{label}")
        }
        (false, false) => format!("{} in reclaim; {pages}{available}{limited}{label}", waits(waiting_in_reclaim)),
    };
    let available_share = memory.and_then(|memory| Ratio::new(memory.available?.0 as f64, memory.total?.0 as f64));
    let is_plentiful = available_share.is_some_and(|share| share.0 >= PLENTIFUL_AVAILABLE_SHARE);
    let faults = (!faulters.is_empty()).then(|| ChainLink::new(format!("major faults: {faulters}"), "/proc/PID/stat (majflt)"));
    let (limit, known_by) = match (&node, limited_by_cgroup.strip_prefix("; ")) {
        (Some((node, _)), _) => (node.clone(), "/sys/devices/system/node/node*/meminfo"),
        (None, Some(of_cgroup)) => (of_cgroup.to_owned(), "memory.current and memory.max, or those of v1"),
        (None, None) => (format!("memory of the host{available}"), "/proc/meminfo (MemAvailable)"),
    };
    let work = match compaction {
        Some(stalls) => ChainLink::new(
            format!("{} compaction stalls per second", significant_digits(stalls)),
            "/proc/vmstat (compact_stall)",
        ),
        None => ChainLink::new(pages, "/proc/vmstat (workingset_refault, pgmajfault)"),
    };
    let chain = evidence_chain(faults.into_iter().chain([work, ChainLink::new(limit, known_by)]));
    // Without a task that waits there is nothing to draw.
    let chain = chain.filter(|_| !only_kswapd);
    // The stall may be that of a cgroup at its limit.
    let may_be_limited = !limited_by_cgroup.is_empty() || context.interval.newer.cgroups.is_err();
    let only_cache = is_plentiful && compaction.is_none() && node.is_none() && !(by_pressure && may_be_limited);
    // With half of the memory available, only a cause makes the stall critical.
    let critical = some.is_some_and(|some| some >= thresholds.memory_pressure_critical_ratio);
    let is_without_cause = critical && only_cache;
    let (value, threshold, unit) = match (by_pressure, by_faults) {
        (true, _) => (some.unwrap_or(0.0), thresholds.memory_pressure_ratio, "ratio"),
        (false, true) => (again, thresholds.refaults_per_second, "per_second"),
        (false, false) => (waiting_in_reclaim, thresholds.memory_waiting_threads, "threads"),
    };
    Some(Candidate {
        severity: match critical {
            _ if only_kswapd && reclaims => Severity::Note,
            _ if is_without_cause => Severity::Warning,
            true => Severity::Critical,
            false if only_kswapd => Severity::Note,
            // A program that reads much evicts the pages of others from the page cache.
            false if only_cache => Severity::Note,
            false => Severity::Warning,
        },
        subject: Subject::Host,
        value,
        threshold,
        unit,
        sentence,
        evidence: vec![
            evidence_optional("psi_memory_some_ratio", some),
            evidence_optional("psi_memory_full_ratio", context.interval.pressure.memory_full.map(|share| share.0)),
            evidence_optional("refaults_per_second", memory.and_then(|m| m.refaults).map(|r| r.0)),
            evidence_optional("major_faults_per_second", memory.and_then(|m| m.major_faults).map(|r| r.0)),
            evidence_optional("reclaiming_threads", delayed_threads(context, |span| span.reclaim)),
            evidence_optional("thrashing_threads", delayed_threads(context, |span| span.thrashing)),
            evidence_optional("direct_scans_per_second", memory.and_then(|m| m.scanned_direct).map(|r| r.0)),
            evidence_optional("available_bytes", memory.and_then(|m| m.available).map(|b| b.0 as f64)),
        ]
        .into_iter()
        .chain(node.map(|(_, number)| evidence_number("full_node", f64::from(number))))
        .chain(compaction.map(|stalls| evidence_number("compaction_stalls_per_second", stalls)))
        .chain(chain)
        .collect(),
        explained_share: some.unwrap_or(0.0).min(1.0),
    })
}

/// The NUMA node with the smallest share of available memory, if that is small, beside the one with most: `node 0 has 205 MiB of 256 GiB
/// available while node 1 has 150 GiB`; and its number. Available is free, or cache of files and the kernel.
fn full_node(context: &RuleContext) -> Option<(String, u32)> {
    let nodes = &context.interval.newer.memory_nodes;
    let available = |node: &MemoryNode| node.free_kb.saturating_add(node.file_kb).saturating_add(node.slab_reclaimable_kb);
    let share = |node: &MemoryNode| Ratio::new(available(node) as f64, node.total_kb as f64).map_or(1.0, |share| share.0);
    let full = nodes.iter().min_by(|a, b| share(a).total_cmp(&share(b)))?;
    let other = nodes.iter().max_by_key(|node| available(node)).filter(|node| share(node) >= LOW_AVAILABLE_SHARE)?;
    let amount = |kb: u64| bytes(kb as f64 * 1024.0);
    let words = format!(
        "node {} has {} of {} available while node {} has {}",
        full.node,
        amount(available(full)),
        amount(full.total_kb),
        other.node,
        amount(available(other)),
    );
    (share(full) < LOW_AVAILABLE_SHARE).then_some((words, full.node))
}

/// Whether the only tasks that the kernel counted as waiting for memory are kswapd and kcompactd, whose own work counts: hardly any other
/// task had to reclaim or compact memory before it got some, and no thread waits for a page.
fn is_only_kswapd(context: &RuleContext) -> bool {
    let Some(memory) = &context.interval.memory else { return false };
    let is_below = |rate: Option<PerSecond>, limit: f64| rate.is_some_and(|rate| rate.0 < limit);
    let Some(PerSecond(reclaimed)) = memory.reclaimed else { return false };
    // The host's counters do not include reclaim of a cgroup at its limit.
    let may_be_limited = context.interval.newer.cgroups.is_err() || groups_at_limit(context).next().is_some();
    !may_be_limited
        && memory.scanned_direct.is_some_and(|rate| rate.0 <= reclaimed * MAX_DIRECT_SHARE)
        && is_below(memory.allocation_stalls, MAX_STALLS_PER_SECOND)
        && is_below(memory.compaction_stalls, MAX_STALLS_PER_SECOND)
        && page_waiters(context) < MIN_PAGE_WAITERS
}

/// Stalls per second in which tasks moved pages themselves to get contiguous memory, if that, and not reclaim, is what they waited for.
fn compaction_stalls(context: &RuleContext) -> Option<f64> {
    let memory = context.interval.memory.as_ref()?;
    let stalls = memory.compaction_stalls?.0;
    let scans = memory.scanned_direct?.0;
    // Tasks that reclaim scan far more than a page in each stall for compaction.
    let is_reclaimed = scans > memory.reclaimed.map_or(0.0, |rate| rate.0) * MAX_DIRECT_SHARE && scans >= MAX_STALLS_PER_SECOND
        || memory.allocation_stalls.is_some_and(|rate| rate.0 >= MAX_STALLS_PER_SECOND);
    (stalls >= MAX_STALLS_PER_SECOND && !is_reclaimed && groups_at_limit(context).next().is_none()).then_some(stalls)
}

/// Mean number of threads that were seen in reclaim.
fn reclaim_waiters(context: &RuleContext) -> f64 {
    context.interval.idle_blocked.iter().flat_map(|blocked| &blocked.groups).map(|group| group.memory).sum()
}

/// Mean number of threads delayed by one cause, if delay accounting is on.
fn delayed_threads(context: &RuleContext, part: fn(&DelaySpan) -> Option<Ratio>) -> Option<f64> {
    context.interval.newer.delays.as_ref().ok()?;
    Some(context.interval.delays.iter().filter_map(part).map(|share| share.0).sum())
}

/// Mean number of threads that wait for a page: in a page fault, for a page of a file, or in reclaim. Threads in fsync wait
/// for something else.
fn page_waiters(context: &RuleContext) -> f64 {
    let waits = &context.interval.newer.waits;
    let sub_samples = waits.sub_samples.len().max(1) as f64;
    let for_a_page = context.interval.blocked_threads.iter().filter(|thread| waits_for_page(context, thread));
    for_a_page.map(|thread| f64::from(thread.wait.seen_count) / sub_samples).sum()
}
