//! Threads that take turns: together they use one CPU to the full, and no second one, since only one of them runs at a time.

use crate::findings::formatting::{lossy_name, percent};
use crate::findings::rule_context::{Candidate, RuleContext, evidence_number};
use crate::findings::{Severity, Subject};
use crate::interval::task::ThreadSpan;
use crate::sample::task::Process;

/// A thread that uses less of a CPU has no part in it.
const MIN_THREAD_SHARE: f64 = 0.02;
/// Share of the looks at which exactly one of them ran. Of as many threads that know nothing of each other at most half.
const MIN_ONE_RUNNING_SHARE: f64 = 0.8;
/// Fewer looks prove nothing.
const MIN_SUB_SAMPLES: usize = 5;

/// Processes without one thread at its limit that are at that of one CPU.
pub fn serialized_threads(scene: &RuleContext) -> Vec<Candidate> {
    let thresholds = scene.thresholds;
    let has_room = |busy: f64, cpus: usize| busy < thresholds.box_idle_below_ratio && cpus > 1;
    let Some(cpu) = scene.interval.cpu.as_ref().filter(|cpu| has_room(cpu.busy(), cpu.cpus.len())) else { return Vec::new() };
    let Some(tasks) = &scene.interval.tasks else { return Vec::new() };
    // While one hands over to the next, both run (CPython: 1.04 CPU).
    let one = thresholds.thread_busy_ratio..=3.0 - 2.0 * thresholds.thread_busy_ratio;
    let mut found = Vec::new();
    for (span, used) in
        tasks.active_processes.iter().filter_map(|span| Some((span, span.cpu?.0))).filter(|(_, used)| one.contains(used))
    {
        let from = tasks.threads.partition_point(|thread| thread.id.pid < span.id.pid);
        let own = tasks.threads.iter().skip(from).take_while(|thread| thread.id.pid == span.id.pid);
        let used_by = |thread: &ThreadSpan| thread.cpu.map_or(0.0, |used| used.0);
        let parts: Vec<&ThreadSpan> = own.filter(|thread| used_by(thread) >= MIN_THREAD_SHARE).collect();
        let most = parts.iter().map(|thread| used_by(thread)).fold(0.0, f64::max);
        let Some(process) = scene.process(span.id.pid).filter(|_| parts.len() >= 2 && most < thresholds.thread_busy_ratio)
        else {
            continue;
        };
        let Some(alone) = one_running_share(scene, process).filter(|alone| *alone >= MIN_ONE_RUNNING_SHARE) else { continue };
        let background = parts.iter().all(|thread| thread.background);
        found.push(Candidate {
            severity: if background { Severity::Note } else { Severity::Warning },
            subject: Subject::Group { id: process.group(), name: process.comm.clone() },
            value: used,
            threshold: thresholds.thread_busy_ratio,
            unit: "ratio",
            sentence: format!(
                "{} ({}): {} threads use {} of one CPU together, one at a time, as behind a lock that all of them need (an \
                 interpreter's, say): at its limit, more CPUs won't help; the box is {} busy ({})",
                lossy_name(&process.comm),
                process.pid,
                parts.len(),
                percent(used),
                percent(cpu.busy()),
                scene.of_all_cpus(cpu.busy() * scene.cpu_count()),
            ),
            evidence: vec![
                evidence_number("cpu_ratio", used),
                evidence_number("threads", parts.len() as f64),
                evidence_number("most_of_one_thread_ratio", most),
                evidence_number("one_running_ratio", alone),
                evidence_number("box_busy_ratio", cpu.busy()),
            ],
            explained_share: used / scene.cpu_count(),
        });
    }
    found
}

/// Share of the looks at which exactly one thread of it ran; `None` where its siblings are counted with it, or few looked.
fn one_running_share(scene: &RuleContext, process: &Process) -> Option<f64> {
    let (waits, tasks) = (&scene.interval.newer.waits, scene.interval.newer.tasks.as_ref().ok()?);
    let group = process.group();
    let index = waits.groups.iter().position(|other| *other == group)?;
    if tasks.members(&group).nth(1).is_some() || waits.sub_samples.len() < MIN_SUB_SAMPLES {
        return None;
    }
    let is_one = |sub: &&crate::sample::waits::SubSample| {
        sub.groups.iter().any(|row| usize::from(row.group) == index && row.running == 1)
    };
    Some(waits.sub_samples.iter().filter(is_one).count() as f64 / waits.sub_samples.len() as f64)
}
