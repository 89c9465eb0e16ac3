//! The parts around every screen: header, active findings, key line.

use super::canvas::Canvas;
use super::text::{self, SafeText, format_number};
use super::theme::{self, StyleRole};
use crate::findings::cross_checks;
use crate::interval::Interval;
use crate::safe;
use crate::sample::SamplingCost;
use crate::state::layout::ScreenLayout;
use crate::state::{PromptKind, RecorderState, Screen, Source, SourceStatus, State};

/// Minimum delay of a sample that is reported as late.
const LATE_SAMPLE_NS: u64 = 100_000_000;

/// The header: host, CPUs, kernel, uptime; at the right the time and live, paused or replay.
pub fn header(state: &State, canvas: &mut Canvas) {
    let width = canvas.width();
    let right = header_right(state);
    let right_width: usize = right.iter().map(|(text, _)| text.width() + 1).sum();
    let mut x = width.saturating_sub(u16::try_from(right_width.saturating_sub(1)).unwrap_or(width));
    let end = x.saturating_sub(2);
    for (part, role) in &right {
        x = canvas.text_to_end(x, 0, part, *role) + 1;
    }
    let mut x = 0;
    for (part, role) in header_left(state, width) {
        // Parts that do not fit are omitted, not cut.
        if usize::from(x) + part.width() > usize::from(end) {
            continue;
        }
        x = canvas.text(x, 0, end - x, &part, role) + 2;
    }
}

fn header_left(state: &State, width: u16) -> Vec<(SafeText, StyleRole)> {
    let Some(evaluation) = &state.current else { return vec![("stalltop".into(), StyleRole::Bold)] };
    let interval = &evaluation.interval;
    let mut parts: Vec<(SafeText, StyleRole)> = Vec::new();
    if width >= 60 {
        parts.push(("stalltop".into(), StyleRole::Dim));
    }
    parts.push((SafeText::from_name(&interval.host.hostname), StyleRole::Bold));
    let cpus = interval.online_cpus();
    parts.push((if cpus == 1 { "1 CPU".into() } else { safe!("{cpus} CPUs") }, StyleRole::Plain));
    // Hidden threads are missing data, not idle time.
    if let Some(hidden) = interval.tasks.as_ref().and_then(|tasks| tasks.hidden_threads) {
        parts.push((safe!("≥{} hidden", text::pluralize(hidden, "thread", "threads")), StyleRole::Warning));
    }
    parts.push((SafeText::from_name(&interval.host.kernel), StyleRole::Dim));
    parts.push((safe!("up {}", text::format_duration(interval.at().boottime_ns as f64 / 1e9)), StyleRole::Dim));
    if let (Source::Replay { name }, true) = (&state.setup.source, width >= 100) {
        parts.push((safe!("{name}"), StyleRole::Dim));
    }
    if width >= 120 {
        parts.push((super::cpu::monitor_overhead(interval, usize::from(width)), StyleRole::Dim));
    }
    parts
}

fn header_right(state: &State) -> Vec<(SafeText, StyleRole)> {
    let mut parts: Vec<(SafeText, StyleRole)> = Vec::new();
    let Some(at) = state.shown_at() else { return parts };
    // Rates are averages over a time in which nothing ran.
    let suspended = state.current.as_ref().map_or(0.0, |evaluation| evaluation.interval.suspended_seconds);
    if suspended >= 1.0 {
        parts.push((safe!("suspended for {}", text::format_duration(suspended)), StyleRole::Warning));
    }
    if let Some(late) = state.late_seconds() {
        parts.push((safe!("no sample for {}", text::format_duration(late)), StyleRole::Warning));
    } else if let Some(strain) =
        state.current.as_ref().and_then(|evaluation| sampling_delay_note(&evaluation.interval.newer.cost))
    {
        parts.push((strain, StyleRole::Warning));
    }
    let (at_ns, zone) = (at.realtime_ns, &state.setup.time_zone);
    parts.push((
        safe!("{}{}", text::format_day_prefix(at_ns, zone, state.spans_days()), text::format_time(at_ns, zone)),
        StyleRole::Bold,
    ));
    match state.setup.source {
        Source::Live => {
            parts.push((safe!(" {} ", text::format_duration(state.setup.interval_ms as f64 / 1000.0)), StyleRole::Dim));
            match (&state.newest, state.paused) {
                (_, false) if state.source_status != SourceStatus::Open => parts.push(("ENDED".into(), StyleRole::Playback)),
                (_, false) => parts.push(("LIVE".into(), StyleRole::Bold)),
                (Some(newest), true) => {
                    let behind = newest.interval.at().seconds_since(at);
                    parts.push((safe!("PAUSED −{}", text::format_duration(behind)), StyleRole::Playback));
                }
                (None, true) => parts.push(("PAUSED".into(), StyleRole::Playback)),
            }
        }
        Source::Replay { .. } => {
            if let Some(position) = &state.position {
                let digits = position.length.to_string().len();
                parts.push((safe!("{:>digits$}/{}", position.index + 1, position.length), StyleRole::Dim));
            }
            parts.push(("REPLAY".into(), StyleRole::Playback));
            parts.push(match (&state.source_status, state.paused) {
                (SourceStatus::Ended | SourceStatus::Failed(_), _) => ("end".into(), StyleRole::Playback),
                // Displays the effect of + and - while paused.
                (SourceStatus::Open, true) if state.speed != 1.0 => (safe!("‖ ×{}", state.speed), StyleRole::Playback),
                (SourceStatus::Open, true) => ("‖".into(), StyleRole::Playback),
                (SourceStatus::Open, false) => (safe!("×{}", state.speed), StyleRole::Playback),
            });
        }
    }
    match &state.recorder {
        RecorderState::Off => {}
        RecorderState::On { .. } => parts.push(("●rec".into(), StyleRole::Recording)),
        RecorderState::Failed(_) => parts.push(("✖rec".into(), StyleRole::Critical)),
    }
    parts
}

/// A note that samples are skipped or late.
fn sampling_delay_note(cost: &SamplingCost) -> Option<SafeText> {
    if cost.skipped_samples > 0 {
        let sweep = format_number(cost.scan_cpu_ns as f64 / 1e6, 4);
        return Some(safe!("1 sample in {}: a scan takes {sweep} ms", cost.skipped_samples.saturating_add(1)));
    }
    (cost.start_delay_ns >= LATE_SAMPLE_NS)
        .then(|| safe!("sampled {} ms late", format_number(cost.start_delay_ns as f64 / 1e6, 4)))
}

/// The active findings, worst first, or that there is none.
pub fn active_findings(state: &State, canvas: &mut Canvas) {
    let Some(evaluation) = &state.current else { return };
    let (width, lines) = (canvas.width(), usize::from(canvas.height()));
    let findings = &evaluation.active;
    if findings.is_empty() {
        no_findings(state, canvas);
        return;
    }
    let on_overview = state.screen == Screen::Overview;
    let cursor = state.cursor();
    let first = if on_overview { cursor.top.min(findings.len() - 1) } else { 0 };
    let mut y = 0;
    let mut shown = first;
    for (at, finding) in findings.iter().enumerate().skip(first) {
        let left = lines.saturating_sub(usize::from(y));
        if left == 0 {
            break;
        }
        let others = findings.len() - at - 1;
        // The first finding may take all lines but one; the others share the rest.
        let kept = if at == first { others.min(1) } else { others };
        let most = left.saturating_sub(kept).max(1);
        let last = most == left && others > 0;
        let more = if last { safe!(" +{others} (key 6)") } else { SafeText::default() };
        let room = usize::from(width).saturating_sub(2);
        let cells = if most == 1 { room.saturating_sub(more.width()) } else { room };
        let sentence = SafeText::sanitize(finding.sentence.clone());
        let wrapped = text::wrap(sentence.as_str(), cells, most);
        let role = StyleRole::from(finding.severity);
        canvas.text(0, y, 1, theme::severity_symbol(finding.severity), role);
        let words = if at == first { StyleRole::Bold } else { StyleRole::Plain };
        let count = u16::try_from(wrapped.len()).unwrap_or(1);
        for line in wrapped {
            canvas.text_to_end(2, y, SafeText::sanitize(line), words);
            y += 1;
        }
        if last && most == 1 {
            let column = width.saturating_sub(u16::try_from(more.width()).unwrap_or(0));
            canvas.text_to_end(column, y - 1, &more, StyleRole::Dim);
        }
        if on_overview && cursor.item.is_some() && at == cursor.selected {
            canvas.highlight_rows(y - count, count);
        }
        shown = at;
    }
    let hidden = findings.len() - 1 - shown;
    if hidden > 0 && usize::from(y) < lines {
        canvas.text_to_end(2, y, safe!("+{hidden} more (key 6)"), StyleRole::Dim);
        y += 1;
    }
    iowait_artefact_note(&evaluation.interval, canvas, y);
}

fn no_findings(state: &State, canvas: &mut Canvas) {
    let Some(evaluation) = &state.current else { return };
    canvas.text(0, 0, 1, "✔", StyleRole::Good);
    let free = match (&evaluation.interval.idle_blocked, &evaluation.interval.cpu) {
        (Some(blocked), _) => Some(blocked.free),
        (None, Some(cpu)) => Some(cpu.available()),
        (None, None) => None,
    };
    let words = match free {
        Some(free) if free >= 0.2 && canvas.width() < 60 => {
            safe!("nothing found wrong: {} % is free", text::format_number(free * 100.0, 5))
        }
        Some(free) if free >= 0.2 => {
            safe!("nothing found wrong: {} % of CPU time is free", text::format_number(free * 100.0, 5))
        }
        Some(_) => "nothing found wrong".into(),
        None => "nothing found wrong in the readable data".into(),
    };
    canvas.text_to_end(2, 0, &words, StyleRole::Bold);
    let mut y = 1;
    if canvas.height() > y
        && let Some(limits) = hidden_tasks_note(state)
    {
        canvas.text_to_end(2, y, &limits, StyleRole::Dim);
        y += 1;
    }
    iowait_artefact_note(&evaluation.interval, canvas, y);
}

/// Explains a high iowait that is no problem, if there are rows left.
fn iowait_artefact_note(interval: &Interval, canvas: &mut Canvas, y: u16) {
    let left = usize::from(canvas.height().saturating_sub(y));
    if left == 0 {
        return;
    }
    let Some(words) = cross_checks::current_io_uring_artifact(interval) else { return };
    let room = usize::from(canvas.width()).saturating_sub(2);
    for (y, line) in (y..).zip(text::wrap(SafeText::sanitize(words).as_str(), room, left)) {
        canvas.text_to_end(2, y, SafeText::sanitize(line), StyleRole::Dim);
    }
}

/// Which data this user may not read.
pub fn hidden_tasks_note(state: &State) -> Option<SafeText> {
    let interval = &state.current.as_ref()?.interval;
    let hidden = interval.newer.tasks.as_ref().ok()?.hidden;
    if hidden.processes {
        let threads = interval.tasks.as_ref().and_then(|tasks| tasks.hidden_threads);
        let who = threads.map_or("some processes".into(), |threads| {
            safe!("processes with {}", text::pluralize(threads, "thread", "threads"))
        });
        return Some(safe!("{who} are hidden (hidepid or a container): needs root on the host"));
    }
    (hidden.wait_channels > 0 && !interval.host.privilege.has_cap_sys_ptrace).then(|| match hidden.wait_channels {
        1 => "the waits of 1 task of another user are hidden (-): needs root".into(),
        tasks => safe!("the waits of {tasks} tasks of other users are hidden (-): needs root"),
    })
}

/// The bottom line: prompt, notice or keys.
pub fn bottom_line(state: &State, canvas: &mut Canvas) {
    if let Some(prompt) = &state.prompt {
        let question = match prompt.kind {
            PromptKind::Filter => "filter: ",
            PromptKind::Time => "go to (12:03, 12:03:15, -5m, +90s): ",
            PromptKind::Mark => "mark: ",
        };
        let x = canvas.text_to_end(0, 0, question, StyleRole::Bold);
        let room = usize::from(canvas.width().saturating_sub(x + 2));
        let scroll = prompt.input.visual_scroll(room);
        let typed: String = prompt.input.value().chars().skip(scroll).collect();
        canvas.text_to_end(x, 0, SafeText::sanitize(typed), StyleRole::Plain);
        let at = u16::try_from(prompt.input.visual_cursor().saturating_sub(scroll)).unwrap_or(0);
        canvas.subarea(x + at, 0, 1, 1).highlight_rows(0, 1);
        return;
    }
    if let Some(notice) = &state.notice {
        let role = if notice.failure { StyleRole::Critical } else { StyleRole::Bold };
        canvas.text_to_end(0, 0, SafeText::sanitize(notice.text.clone()), role);
        return;
    }
    if let SourceStatus::Failed(error) = &state.source_status {
        canvas.text_to_end(0, 0, safe!("no more samples: {error}"), StyleRole::Warning);
        return;
    }
    for piece in key_line_items(canvas.width(), hints(state)) {
        let here = piece.screen == Some(state.screen);
        let key = if here { StyleRole::Key } else { StyleRole::Plain };
        let x = canvas.text_to_end(piece.x, 0, piece.key, if piece.screen.is_none() { StyleRole::Plain } else { key });
        let words = if piece.key.is_empty() { x } else { x + 1 };
        canvas.text_to_end(words, 0, piece.label, if here { StyleRole::Key } else { StyleRole::Dim });
        if here {
            canvas.subarea(piece.x, 0, piece.width, 1).highlight_rows(0, 1);
        }
    }
}

/// A key and what it does.
type KeyHint = (&'static str, &'static str);

const TIME_HINT: KeyHint = ("[ ]", "time");
const SAVE_HINT: KeyHint = ("w", "save");

/// The key hints of a state, most useful first.
fn hints(state: &State) -> &'static [KeyHint] {
    const DETAILS: &[KeyHint] = &[("Esc", "back"), TIME_HINT, SAVE_HINT];
    const PAUSED: &[KeyHint] = &[("Space", "live"), TIME_HINT, SAVE_HINT];
    const STOPPED: &[KeyHint] = &[("Space", "go on"), TIME_HINT, ("n", "next finding")];
    const PLAYING: &[KeyHint] = &[("Space", "pause"), TIME_HINT, ("n", "next finding")];
    const ENDED: &[KeyHint] = &[TIME_HINT, ("b", "jump"), ("N", "last finding")];
    const FINDING: &[KeyHint] = &[("Enter", "why"), TIME_HINT, SAVE_HINT];
    const CALM: &[KeyHint] = &[TIME_HINT, SAVE_HINT];
    const LIST: &[KeyHint] = &[("Enter", "more"), ("s", "sort"), ("/", "filter"), TIME_HINT, SAVE_HINT];
    if state.details.is_some() {
        return DETAILS;
    }
    if state.source_status != SourceStatus::Open {
        return ENDED;
    }
    match (state.is_live(), state.paused) {
        (true, true) => PAUSED,
        (false, true) => STOPPED,
        (false, false) => PLAYING,
        (true, false) => match state.screen {
            Screen::Overview | Screen::Findings if state.rows.is_empty() => CALM,
            Screen::Overview | Screen::Findings => FINDING,
            _ => LIST,
        },
    }
}

struct KeyLineItem {
    x: u16,
    width: u16,
    key: &'static str,
    label: &'static str,
    screen: Option<Screen>,
}

impl KeyLineItem {
    fn new(x: u16, key: &'static str, words: &'static str, screen: Option<Screen>) -> KeyLineItem {
        let cells = key.len() + words.len() + usize::from(!key.is_empty() && !words.is_empty());
        KeyLineItem { x, width: u16::try_from(cells).unwrap_or(0), key, label: words, screen }
    }
}

/// The screens, as many hints as fit, then help and quit.
fn key_line_items(width: u16, hints: &[KeyHint]) -> Vec<KeyLineItem> {
    const DIGITS: [&str; 6] = ["1", "2", "3", "4", "5", "6"];
    const ALWAYS: [KeyHint; 2] = [("?", "help"), ("q", "quit")];
    let mut pieces = Vec::with_capacity(14);
    let mut x = 0;
    let roomy = width >= 78;
    for (screen, digit) in Screen::ALL.into_iter().zip(DIGITS) {
        let piece = KeyLineItem::new(x, digit, if roomy { screen.label() } else { "" }, Some(screen));
        x += piece.width + 1;
        pieces.push(piece);
    }
    x += 1;
    /// `? help q`
    const KEPT: u16 = 8;
    for &(key, words) in hints {
        let piece = KeyLineItem::new(x, key, words, None);
        let Some(gap) = [2, 1].into_iter().find(|gap| x + piece.width + gap + KEPT <= width) else { break };
        x += piece.width + gap;
        pieces.push(piece);
    }
    /// `? help  q`
    const WIDE: u16 = 9;
    let gap = if x + WIDE <= width { 2 } else { 1 };
    for (key, words) in ALWAYS {
        let fits = |words| Some(KeyLineItem::new(x, key, words, None)).filter(|piece| x + piece.width <= width);
        let Some(piece) = fits(words).or_else(|| fits("")) else { break };
        x += piece.width + gap;
        pieces.push(piece);
    }
    pieces
}

/// The screen at a column of the key line.
pub fn screen_at(width: u16, column: u16) -> Option<Screen> {
    key_line_items(width, &[]).into_iter().find(|piece| (piece.x..piece.x + piece.width).contains(&column))?.screen
}

/// Filter, sort order and visible rows of the list, for the right end of a heading.
pub fn list_status(state: &State, layout: &ScreenLayout) -> SafeText {
    let mut words = String::new();
    let sort = state.sort();
    if !state.filter().is_empty() && !state.shows_wait_classes() {
        words = format!("/{} ", state.filter());
    }
    let usual = state.screen.sort_columns().first().is_none_or(|&first| first == sort.column) && !sort.reversed;
    if !usual && state.fixed_order_reason().is_none() {
        words += &format!("by {}{} ", sort.column.label(), if sort.reversed { " reversed" } else { "" });
    }
    let last = state.cursor().top + usize::from(layout.list_rows);
    if state.rows.len() > usize::from(layout.list_rows) {
        words += &format!("{}–{} of {}", state.cursor().top + 1, last.min(state.rows.len()), state.rows.len());
    }
    SafeText::sanitize(words)
}
