//! Kernel threads that hang: evidence of what else does, and a note of their own where nothing else does.

use super::habits::Hanging;
use super::{hung, waited};
use crate::findings::scene::{Scene, Suspicion, maybe, number, text};
use crate::findings::words::{name, seconds};
use crate::findings::{Evidence, Severity, Subject};
use crate::ids::DiskId;

/// So many are named.
const NAMED: usize = 3;

/// A wait may have begun in the interval before the one that shows what it is for.
const SLACK_NS: u64 = 2_000_000_000;

/// Those that have hung for as long as a program's thread must to be told.
pub(super) fn hanging<'a>(scene: &'a Scene) -> Vec<&'a Hanging> {
    let long = |thread: &&Hanging| waited(scene.interval, thread.since_ns) >= scene.thresholds.hung_seconds;
    scene.streaks.hanging().iter().filter(long).collect()
}

/// Those that came into D when a device fell silent. Which of several silent ones they wait for, their names tell.
pub fn hang_with<'a>(scene: &'a Scene, device: DiskId) -> Vec<&'a Hanging> {
    let Some(silent_ns) = scene.streaks.silent_since(device) else { return Vec::new() };
    let only = scene.interval.disks.iter().all(|span| span.id == device || !span.stalled);
    let of_name = scene.disk_name(device);
    let of_number = format!("{}:{}", device.major, device.minor);
    let since = |thread: &&Hanging| thread.since_ns.saturating_add(SLACK_NS) >= silent_ns;
    let its = |thread: &&Hanging| only || [&of_name, &of_number].iter().any(|word| name(&thread.name).contains(word.as_str()));
    let long = |thread: &&Hanging| waited(scene.interval, thread.since_ns) >= scene.thresholds.stalled_seconds;
    scene.streaks.hanging().iter().filter(since).filter(its).filter(long).collect()
}

/// `jbd2/sdb1-8, kworker/u8:1+flush-8:16 and 2 more`
pub fn names(threads: &[&Hanging]) -> String {
    let named: Vec<String> = threads.iter().take(NAMED).map(|thread| name(&thread.name)).collect();
    let more = threads.len().saturating_sub(NAMED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{}{more}", named.join(", "))
}

pub fn evidence(threads: &[&Hanging]) -> Evidence {
    match threads {
        [] => maybe("kernel_threads", None),
        some => text("kernel_threads", names(some).as_str()),
    }
}

/// What hangs for so long that the kernel's own watchdog complains, where no silent device and no program does: nobody is known
/// to be hurt.
pub(super) fn alone(scene: &Scene, threads: &[&Hanging]) -> Option<Suspicion> {
    let longest = threads.first()?;
    let stuck = waited(scene.interval, longest.since_ns);
    let beside =
        scene.interval.disks.iter().any(|span| span.stalled) || hung(scene.interval, scene.thresholds).next().is_some();
    if beside || stuck < scene.thresholds.hung_critical_seconds {
        return None;
    }
    let place = longest.channel.as_ref().map_or_else(|| "a place that is not known".into(), name);
    let others = match threads.len() {
        1 => String::new(),
        many => format!(" and {} more kernel threads", many - 1),
    };
    Some(Suspicion {
        severity: Severity::Note,
        subject: Subject::Task { id: longest.task, name: longest.name.clone() },
        value: stuck,
        threshold: scene.thresholds.hung_critical_seconds,
        unit: "seconds",
        sentence: format!(
            "kernel thread {} ({}){others} stuck in D for {} without a break, in {place}; no program hangs with it",
            name(&longest.name),
            longest.task.tid,
            seconds(stuck),
        ),
        evidence: vec![
            number("stuck_seconds", stuck),
            number("stuck_threads", threads.len() as f64),
            text("wait_channel", place.as_str()),
            evidence(threads),
        ],
        explains: 0.0,
    })
}
