//! Devices without requests: what they are, and their last requests.

use super::device_kind;
use crate::findings::Evaluation;
use crate::interval::disk::{DiskSpan, Operation};
use crate::safe;
use crate::state::State;
use crate::state::history::IntervalSummary;
use crate::units::SmallSort;
use crate::units::format;
use crate::units::{Millis, time};
use crate::view::pane::Pane;
use crate::view::safe_line::SafeLine;
use crate::view::safe_text::SafeText;
use crate::view::theme::StyleRole;
use crate::view::wait_location;

const OPERATIONS: [Operation; 4] = [Operation::Read, Operation::Write, Operation::Flush, Operation::Discard];

/// A line for each device, as many as fit: kind, size, and its last requests in the history.
pub fn idle_devices(state: &State, evaluation: &Evaluation, pane: &mut Pane) {
    let interval = &*evaluation.interval;
    let Ok(disks) = &interval.newer.disks else {
        pane.line(0, ("- /proc/diskstats cannot be read", StyleRole::Dim));
        return;
    };
    if interval.disks.is_empty() {
        pane.line(0, ("no block device", StyleRole::Dim));
        return;
    }
    let at = evaluation.interval.at();
    let past = || state.graphs.history.iter().rev().filter(|summary| summary.at.boottime_ns <= at.boottime_ns);
    let kept: f64 = past().map(|summary| f64::from(summary.seconds)).sum();
    // Devices that did something come first.
    let mut lines: Vec<(Option<u64>, &DiskSpan, [SafeText; 2])> = (interval.disks.iter())
        .map(|disk| match past().find_map(|summary| Some((summary.at, last_requests(summary, disk)?))) {
            Some((last, words)) => {
                let ago = time::duration(at.seconds_since(last));
                (Some(last.boottime_ns), disk, [safe!("no I/O now; {ago} ago {words}"), safe!("{ago} ago {words}")])
            }
            None => {
                let kept = time::duration(kept);
                (None, disk, [safe!("no I/O in the last {kept}"), safe!("idle {kept}")])
            }
        })
        .collect();
    lines.small_sort_by_key(|line| std::cmp::Reverse(line.0));
    for (y, (_, disk, ways)) in (0..pane.height()).zip(lines) {
        let mut line = SafeLine::new(wait_location::disk_name(&interval.newer, disk.id), StyleRole::Bold);
        line.pad_to(10);
        if let Some(facts) = disks.get(disk.index) {
            let size = facts.facts.size_bytes.map_or_else(String::new, |size| format::short_bytes(size as f64));
            line.push(safe!("{:<8}{size:>6}  ", device_kind(facts)), StyleRole::Dim);
        }
        let room = usize::from(pane.width()).saturating_sub(line.width());
        let words = ways.iter().find(|words| words.width() <= room).or(ways.last()).cloned();
        pane.line(y, line.with(words.unwrap_or_default(), StyleRole::Dim));
    }
}

/// `reads 0.20 ms, writes 1.10 ms`
fn last_requests(summary: &IntervalSummary, disk: &DiskSpan) -> Option<SafeText> {
    let words: Vec<String> = (OPERATIONS.into_iter())
        .filter_map(|operation| {
            let time = summary.disk_await(disk.id, operation)?;
            Some(format!("{} {}", operation.plural(), format::latency(Millis(f64::from(time)))))
        })
        .collect();
    (!words.is_empty()).then(|| SafeText::sanitize(words.join(", ")))
}
