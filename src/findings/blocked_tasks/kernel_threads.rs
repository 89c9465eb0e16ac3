//! Kernel threads that hang: evidence of what else does, and a note of their own where nothing else does.

use super::kernel_thread_tracker::HungKernelThread;
use super::{hung_threads, waited_seconds};
use crate::findings::formatting::{lossy_name, seconds};
use crate::findings::rule_context::{Candidate, RuleContext, evidence_number, evidence_optional, evidence_text};
use crate::findings::{Evidence, Severity, Subject};
use crate::ids::DiskId;

/// So many are named.
const MAX_NAMED: usize = 3;

/// A wait may have begun in the interval before the one that shows what it is for.
const ONSET_SLACK_NS: u64 = 2_000_000_000;

/// Those that have hung for as long as a program's thread must to be told.
pub(super) fn hung_kernel_threads<'a>(scene: &'a RuleContext) -> Vec<&'a HungKernelThread> {
    let long = |thread: &&HungKernelThread| waited_seconds(scene.interval, thread.since_ns) >= scene.thresholds.hung_seconds;
    scene.state.hung_kernel_threads().iter().filter(long).collect()
}

/// Those that came into D when a device fell silent. Which of several silent ones they wait for, their names tell.
pub fn hung_with_device<'a>(scene: &'a RuleContext, device: DiskId) -> Vec<&'a HungKernelThread> {
    let Some(silent_ns) = scene.state.stalled_since(device) else { return Vec::new() };
    let only = scene.interval.disks.iter().all(|span| span.id == device || !span.stalled);
    let of_name = scene.disk_name(device);
    let of_number = format!("{}:{}", device.major, device.minor);
    let since = |thread: &&HungKernelThread| thread.since_ns.saturating_add(ONSET_SLACK_NS) >= silent_ns;
    let its = |thread: &&HungKernelThread| {
        only || [&of_name, &of_number].iter().any(|word| lossy_name(&thread.name).contains(word.as_str()))
    };
    let long = |thread: &&HungKernelThread| waited_seconds(scene.interval, thread.since_ns) >= scene.thresholds.stalled_seconds;
    scene.state.hung_kernel_threads().iter().filter(since).filter(its).filter(long).collect()
}

/// `jbd2/sdb1-8, kworker/u8:1+flush-8:16 and 2 more`
pub fn names(threads: &[&HungKernelThread]) -> String {
    let named: Vec<String> = threads.iter().take(MAX_NAMED).map(|thread| lossy_name(&thread.name)).collect();
    let more = threads.len().saturating_sub(MAX_NAMED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{}{more}", named.join(", "))
}

pub fn evidence(threads: &[&HungKernelThread]) -> Evidence {
    match threads {
        [] => evidence_optional("kernel_threads", None),
        some => evidence_text("kernel_threads", names(some).as_str()),
    }
}

/// What hangs for so long that the kernel's own watchdog complains, where no silent device and no program does: nobody is known
/// to be hurt.
pub(super) fn standalone_candidate(scene: &RuleContext, threads: &[&HungKernelThread]) -> Option<Candidate> {
    let longest = threads.first()?;
    let stuck = waited_seconds(scene.interval, longest.since_ns);
    let beside =
        scene.interval.disks.iter().any(|span| span.stalled) || hung_threads(scene.interval, scene.thresholds).next().is_some();
    if beside || stuck < scene.thresholds.hung_critical_seconds {
        return None;
    }
    let place = longest.channel.as_ref().map_or_else(|| "a place that is not known".into(), lossy_name);
    let others = match threads.len() {
        1 => String::new(),
        many => format!(" and {} more kernel threads", many - 1),
    };
    Some(Candidate {
        severity: Severity::Note,
        subject: Subject::Task { id: longest.task, name: longest.name.clone() },
        value: stuck,
        threshold: scene.thresholds.hung_critical_seconds,
        unit: "seconds",
        sentence: format!(
            "kernel thread {} ({}){others} stuck in D for {} without a break, in {place}; no program hangs with it",
            lossy_name(&longest.name),
            longest.task.tid,
            seconds(stuck),
        ),
        evidence: vec![
            evidence_number("stuck_seconds", stuck),
            evidence_number("stuck_threads", threads.len() as f64),
            evidence_text("wait_channel", place.as_str()),
            evidence(threads),
        ],
        explained_share: 0.0,
    })
}
