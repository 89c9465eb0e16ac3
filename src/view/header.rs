//! The header line: host, time, and live, paused or replay.

use super::displayed_time;
use super::pane::Pane;
use super::safe_line::SafeLine;
use super::safe_text::SafeText;
use super::theme::StyleRole;
use crate::safe;
use crate::sample::SamplingCost;
use crate::state::{RecorderState, Source, SourceStatus, State};
use crate::units::Millis;
use crate::units::format;
use crate::units::time;

/// Minimum delay of a sample that is reported as late.
const LATE_SAMPLE_NS: u64 = 100_000_000;

/// Columns from which the header has the monitor's own cost.
pub const MIN_WIDTH_FOR_OVERHEAD: u16 = 120;

/// The header: host, CPUs, kernel, uptime; at the right the time and live, paused or replay.
pub fn draw(state: &State, pane: &mut Pane) {
    let mut right = SafeLine::default();
    for (part, role) in header_right(state) {
        right.pad_to(right.width() + usize::from(!right.is_empty()));
        right.push(part, role);
    }
    let room = usize::from(pane.width()).saturating_sub(right.width() + 2);
    let mut left = SafeLine::default();
    for (part, role) in header_left(state, pane.width()) {
        let gap = if left.is_empty() { 0 } else { 2 };
        // Parts that do not fit are omitted, not cut.
        if left.width() + gap + part.width() <= room {
            left.pad_to(left.width() + gap);
            left.push(part, role);
        }
    }
    pane.line(0, left);
    pane.line_right(0, right);
    // The screen does not change: that must not be overlooked.
    if matches!(state.setup.source, Source::Live | Source::Host { .. }) && state.playback.paused {
        pane.highlight_rows(0, 1);
    }
}

fn header_left(state: &State, width: u16) -> Vec<(SafeText, StyleRole)> {
    let Some(evaluation) = state.current() else { return vec![("stalltop".into(), StyleRole::Bold)] };
    let interval = &evaluation.interval;
    let mut parts: Vec<(SafeText, StyleRole)> = Vec::new();
    if width >= 60 {
        parts.push(("stalltop".into(), StyleRole::Dim));
    }
    parts.push((SafeText::from_name(&interval.host.hostname), StyleRole::Bold));
    let cpus = interval.online_cpus();
    parts.push((safe!("{}", format::pluralize(cpus, "CPU")), StyleRole::Plain));
    // Hidden threads are missing data, not idle time.
    if let Some(hidden) = interval.tasks.as_ref().and_then(|tasks| tasks.hidden_threads) {
        parts.push((safe!("≥{} hidden", format::plural(hidden, "thread", "threads")), StyleRole::Warning));
    }
    parts.push((SafeText::from_name(&interval.host.kernel), StyleRole::Dim));
    parts.push((safe!("up {}", time::duration(interval.at().boottime_ns as f64 / 1e9)), StyleRole::Dim));
    if let (Source::Pipe { name } | Source::Host { name } | Source::Replay { name }, true) = (&state.setup.source, width >= 100)
    {
        parts.push((safe!("{name}"), StyleRole::Dim));
    }
    if width >= MIN_WIDTH_FOR_OVERHEAD {
        parts.push((super::cpu::monitor_overhead(interval, usize::from(width)), StyleRole::Dim));
    }
    parts
}

fn header_right(state: &State) -> Vec<(SafeText, StyleRole)> {
    let mut parts: Vec<(SafeText, StyleRole)> = Vec::new();
    let Some(at) = state.shown_at() else { return parts };
    // Rates are averages over a time in which nothing ran.
    let suspended = state.current().map_or(0.0, |evaluation| evaluation.interval.suspended_seconds);
    if suspended >= 1.0 {
        parts.push((safe!("suspended for {}", time::duration(suspended)), StyleRole::Warning));
    }
    if let Some(late) = state.late_seconds() {
        parts.push((safe!("no sample for {}", time::duration(late)), StyleRole::Warning));
    } else if let Some(note) = state.current().and_then(|evaluation| sampling_delay_note(&evaluation.interval.newer.cost)) {
        parts.push((note, StyleRole::Warning));
    }
    if let Some(span) = &state.playback.span {
        let (from, to) = (displayed_time(state, span.from), displayed_time(state, span.to));
        let seconds = span.to.seconds_since(span.from);
        let length = if seconds < 600.0 { safe!("{} s", seconds.round()) } else { safe!("{}", time::duration(seconds)) };
        parts.push((safe!("SPAN {from}–{to} ({length})"), StyleRole::Playback));
        parts.extend(recorder_part(state));
        return parts;
    }
    parts.push((safe!("{}", displayed_time(state, at)), StyleRole::Bold));
    match state.setup.source {
        Source::Live | Source::Host { .. } => {
            parts.push((safe!(" {} ", time::compact_duration(state.setup.interval_ms as f64 / 1000.0)), StyleRole::Dim));
            match (&state.playback.newest, state.playback.paused) {
                (_, false) if state.arrival.status != SourceStatus::Open => parts.push(("ENDED".into(), StyleRole::Playback)),
                (_, false) => parts.push(("LIVE".into(), StyleRole::Bold)),
                (Some(newest), true) => {
                    let behind = newest.interval.at().seconds_since(at);
                    parts.push((safe!("PAUSED −{}", time::compact_duration(behind)), StyleRole::Playback));
                }
                (None, true) => parts.push(("PAUSED".into(), StyleRole::Playback)),
            }
        }
        Source::Pipe { .. } | Source::Replay { .. } => {
            if let Some(position) = &state.timeline.position {
                let digits = position.length.to_string().len();
                parts.push((safe!("{:>digits$}/{}", position.index + 1, position.length), StyleRole::Dim));
            }
            parts.push(("REPLAY".into(), StyleRole::Playback));
            parts.push(match (&state.arrival.status, state.playback.paused) {
                (SourceStatus::Ended | SourceStatus::Failed(_), _) => ("end".into(), StyleRole::Playback),
                // Displays the effect of + and - while paused.
                (SourceStatus::Open, true) if state.playback.speed != 1.0 => {
                    (safe!("‖ ×{}", state.playback.speed), StyleRole::Playback)
                }
                (SourceStatus::Open, true) => ("‖".into(), StyleRole::Playback),
                (SourceStatus::Open, false) => (safe!("×{}", state.playback.speed), StyleRole::Playback),
            });
        }
    }
    parts.extend(recorder_part(state));
    parts
}

fn recorder_part(state: &State) -> Option<(SafeText, StyleRole)> {
    match &state.recorder {
        RecorderState::Off => None,
        RecorderState::On { .. } => Some(("●rec".into(), StyleRole::Recording)),
        RecorderState::Failed(_) => Some(("✖rec".into(), StyleRole::Critical)),
    }
}

/// A note that samples are skipped or late.
fn sampling_delay_note(cost: &SamplingCost) -> Option<SafeText> {
    if cost.skipped_samples > 0 {
        let scan = format::latency(Millis(cost.scan_cpu_ns as f64 / 1e6));
        return Some(safe!("1 sample in {}: a scan takes {scan}", cost.skipped_samples.saturating_add(1)));
    }
    (cost.start_delay_ns >= LATE_SAMPLE_NS)
        .then(|| safe!("sampled {} late", format::latency(Millis(cost.start_delay_ns as f64 / 1e6))))
}
