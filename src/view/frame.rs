//! What surrounds every screen: the head line, the verdict, the key line.

use super::canvas::Canvas;
use super::text::{self, SafeText, figure};
use super::theme::{self, Ink};
use crate::findings::witnesses;
use crate::interval::Interval;
use crate::safe;
use crate::sample::SamplingCost;
use crate::state::layout::Plan;
use crate::state::{Asks, Recorder, Screen, Source, State};

/// A sample that came so long after its time is called late, nanoseconds.
const WORTH_A_WORD_NS: u64 = 100_000_000;

/// Who, how big, since when; and at the right the time, and whether it is now.
pub fn head(state: &State, canvas: &mut Canvas) {
    let width = canvas.width();
    let right = right_of_head(state);
    let right_width: usize = right.iter().map(|(text, _)| text.width() + 1).sum();
    let mut x = width.saturating_sub(u16::try_from(right_width.saturating_sub(1)).unwrap_or(width));
    let end = x.saturating_sub(2);
    for (part, ink) in &right {
        x = canvas.rest(x, 0, part, *ink) + 1;
    }
    let mut x = 0;
    for (part, ink) in left_of_head(state, width) {
        // What does not fit whole is left out: half a kernel version helps nobody.
        if usize::from(x) + part.width() > usize::from(end) {
            continue;
        }
        x = canvas.text(x, 0, end - x, &part, ink) + 2;
    }
}

fn left_of_head(state: &State, width: u16) -> Vec<(SafeText, Ink)> {
    let Some(judged) = &state.current else { return vec![("stalltop".into(), Ink::Bold)] };
    let interval = &judged.interval;
    let mut parts: Vec<(SafeText, Ink)> = Vec::new();
    if width >= 60 {
        parts.push(("stalltop".into(), Ink::Dim));
    }
    parts.push((SafeText::name(&interval.host.hostname), Ink::Bold));
    let cpus = interval.online_cpus();
    parts.push((if cpus == 1 { "1 CPU".into() } else { safe!("{cpus} CPUs") }, Ink::Plain));
    // What is not seen is a gap, not idleness.
    if let Some(hidden) = interval.tasks.as_ref().and_then(|tasks| tasks.hidden_threads) {
        parts.push((safe!("≥{} hidden", text::plural(hidden, "thread", "threads")), Ink::Warning));
    }
    parts.push((SafeText::name(&interval.host.kernel), Ink::Dim));
    parts.push((safe!("up {}", text::span(interval.at().boottime_ns as f64 / 1e9)), Ink::Dim));
    if let (Source::Pipe { name } | Source::Replay { name }, true) = (&state.setup.source, width >= 100) {
        parts.push((safe!("{name}"), Ink::Dim));
    }
    if width >= 120 {
        parts.push((super::cpu::own_cost(interval, usize::from(width)), Ink::Dim));
    }
    parts
}

fn right_of_head(state: &State) -> Vec<(SafeText, Ink)> {
    let mut parts: Vec<(SafeText, Ink)> = Vec::new();
    let Some(at) = state.at() else { return parts };
    // What is shown then is a mean over a time in which nothing ran.
    let suspended = state.current.as_ref().map_or(0.0, |judged| judged.interval.suspended_seconds);
    if suspended >= 1.0 {
        parts.push((safe!("suspended for {}", text::span(suspended)), Ink::Warning));
    }
    if let Some(late) = state.late_seconds() {
        parts.push((safe!("no sample for {}", text::span(late)), Ink::Warning));
    } else if let Some(strain) = state.current.as_ref().and_then(|judged| strain(&judged.interval.newer.cost)) {
        parts.push((strain, Ink::Warning));
    }
    let (at_ns, zone) = (at.realtime_ns, &state.setup.zone);
    parts.push((safe!("{}{}", text::day(at_ns, zone, state.spans_days()), text::clock(at_ns, zone)), Ink::Bold));
    match state.setup.source {
        Source::Live => {
            parts.push((safe!(" {} ", text::span(state.setup.interval_ms as f64 / 1000.0)), Ink::Dim));
            match (&state.newest, state.paused) {
                (_, false) if state.ended.is_some() => parts.push(("ENDED".into(), Ink::Playback)),
                (_, false) => parts.push(("LIVE".into(), Ink::Bold)),
                (Some(newest), true) => {
                    let behind = newest.interval.at().seconds_since(at);
                    parts.push((safe!("PAUSED −{}", text::span(behind)), Ink::Playback));
                }
                (None, true) => parts.push(("PAUSED".into(), Ink::Playback)),
            }
        }
        Source::Pipe { .. } | Source::Replay { .. } => {
            if let Some(position) = &state.position {
                let digits = position.length.to_string().len();
                parts.push((safe!("{:>digits$}/{}", position.index + 1, position.length), Ink::Dim));
            }
            parts.push(("REPLAY".into(), Ink::Playback));
            parts.push(match (&state.ended, state.paused) {
                (Some(_), _) => ("end".into(), Ink::Playback),
                // Whoever presses + or - meanwhile sees what it did.
                (None, true) if state.speed != 1.0 => (safe!("‖ ×{}", state.speed), Ink::Playback),
                (None, true) => ("‖".into(), Ink::Playback),
                (None, false) => (safe!("×{}", state.speed), Ink::Playback),
            });
        }
    }
    match &state.recorder {
        Recorder::Off => {}
        Recorder::On { .. } => parts.push(("●rec".into(), Ink::Recording)),
        Recorder::Failed(_) => parts.push(("✖rec".into(), Ink::Critical)),
    }
    parts
}

/// That samples come less often than asked for, or did not come in time.
fn strain(cost: &SamplingCost) -> Option<SafeText> {
    if cost.skipped_samples > 0 {
        let sweep = figure(cost.scan_cpu_ns as f64 / 1e6, 4);
        return Some(safe!("1 sample in {}: a sweep takes {sweep} ms", cost.skipped_samples.saturating_add(1)));
    }
    (cost.start_delay_ns >= WORTH_A_WORD_NS).then(|| safe!("sampled {} ms late", figure(cost.start_delay_ns as f64 / 1e6, 4)))
}

/// What is wrong, worst first; or that nothing is.
pub fn verdict(state: &State, canvas: &mut Canvas) {
    let Some(judged) = &state.current else { return };
    let (width, lines) = (canvas.width(), usize::from(canvas.height()));
    let findings = &judged.verdict;
    if findings.is_empty() {
        all_well(state, canvas);
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
        // The first may take what it needs as long as one other is seen; those below share what it leaves.
        let kept = if at == first { others.min(1) } else { others };
        let most = left.saturating_sub(kept).max(1);
        let last = most == left && others > 0;
        let more = if last { safe!(" +{others} (key 6)") } else { SafeText::default() };
        let room = usize::from(width).saturating_sub(2);
        let cells = if most == 1 { room.saturating_sub(more.width()) } else { room };
        let sentence = SafeText::of(finding.sentence.clone());
        let wrapped = text::wrap(sentence.as_str(), cells, most);
        let ink = Ink::from(finding.severity);
        canvas.text(0, y, 1, theme::sign(finding.severity), ink);
        let words = if at == first { Ink::Bold } else { Ink::Plain };
        let count = u16::try_from(wrapped.len()).unwrap_or(1);
        for line in wrapped {
            canvas.rest(2, y, SafeText::of(line), words);
            y += 1;
        }
        if last && most == 1 {
            let column = width.saturating_sub(u16::try_from(more.width()).unwrap_or(0));
            canvas.rest(column, y - 1, &more, Ink::Dim);
        }
        if on_overview && cursor.item.is_some() && at == cursor.selected {
            canvas.under_cursor(y - count, count);
        }
        shown = at;
    }
    let hidden = findings.len() - 1 - shown;
    if hidden > 0 && usize::from(y) < lines {
        canvas.rest(2, y, safe!("+{hidden} more (key 6)"), Ink::Dim);
        y += 1;
    }
    artefact(&judged.interval, canvas, y);
}

fn all_well(state: &State, canvas: &mut Canvas) {
    let Some(judged) = &state.current else { return };
    canvas.text(0, 0, 1, "✔", Ink::Good);
    let free = match (&judged.interval.idle_blocked, &judged.interval.cpu) {
        (Some(blocked), _) => Some(blocked.free),
        (None, Some(cpu)) => Some(cpu.available()),
        (None, None) => None,
    };
    let words = match free {
        Some(free) if free >= 0.2 && canvas.width() < 60 => {
            safe!("nothing found wrong: {} % is free", text::figure(free * 100.0, 5))
        }
        Some(free) if free >= 0.2 => safe!("nothing found wrong: {} % of the box is free", text::figure(free * 100.0, 5)),
        Some(_) => "nothing found wrong".into(),
        None => "nothing found wrong in what could be seen".into(),
    };
    canvas.rest(2, 0, &words, Ink::Bold);
    let mut y = 1;
    if canvas.height() > y
        && let Some(limits) = unseen(state)
    {
        canvas.rest(2, y, &limits, Ink::Dim);
        y += 1;
    }
    artefact(&judged.interval, canvas, y);
}

/// What makes iowait look like trouble where there is none, as far as there are rows for it.
fn artefact(interval: &Interval, canvas: &mut Canvas, y: u16) {
    let left = usize::from(canvas.height().saturating_sub(y));
    if left == 0 {
        return;
    }
    let Some(words) = witnesses::artefact_now(interval) else { return };
    let room = usize::from(canvas.width()).saturating_sub(2);
    for (y, line) in (y..).zip(text::wrap(SafeText::of(words).as_str(), room, left)) {
        canvas.rest(2, y, SafeText::of(line), Ink::Dim);
    }
}

/// What this user cannot see, and who could.
pub fn unseen(state: &State) -> Option<SafeText> {
    let interval = &state.current.as_ref()?.interval;
    let hidden = interval.newer.tasks.as_ref().ok()?.hidden;
    if hidden.processes {
        let threads = interval.tasks.as_ref().and_then(|tasks| tasks.hidden_threads);
        let who = threads
            .map_or("some processes".into(), |threads| safe!("processes with {}", text::plural(threads, "thread", "threads")));
        return Some(safe!("{who} are hidden (hidepid or a container): root on the host sees them"));
    }
    (hidden.wait_channels > 0 && !interval.host.privilege.has_cap_sys_ptrace).then(|| match hidden.wait_channels {
        1 => "what 1 task of another user waits for is hidden (-): root sees it".into(),
        tasks => safe!("what {tasks} tasks of other users wait for is hidden (-): root sees it"),
    })
}

/// The prompt, the notice, or the keys.
pub fn keys(state: &State, canvas: &mut Canvas) {
    if let Some(prompt) = &state.prompt {
        let question = match prompt.asks {
            Asks::Filter => "filter: ",
            Asks::Time => "go to (12:03, 12:03:15, -5m, +90s): ",
            Asks::Mark => "mark: ",
        };
        let x = canvas.rest(0, 0, question, Ink::Bold);
        let room = usize::from(canvas.width().saturating_sub(x + 2));
        let scroll = prompt.input.visual_scroll(room);
        let typed: String = prompt.input.value().chars().skip(scroll).collect();
        canvas.rest(x, 0, SafeText::of(typed), Ink::Plain);
        let at = u16::try_from(prompt.input.visual_cursor().saturating_sub(scroll)).unwrap_or(0);
        canvas.part(x + at, 0, 1, 1).under_cursor(0, 1);
        return;
    }
    if let Some(notice) = &state.notice {
        let ink = if notice.failure { Ink::Critical } else { Ink::Bold };
        canvas.rest(0, 0, SafeText::of(notice.text.clone()), ink);
        return;
    }
    if let Some(Some(why)) = &state.ended {
        canvas.rest(0, 0, safe!("no more samples: {why}"), Ink::Warning);
        return;
    }
    for piece in key_line(canvas.width(), hints(state)) {
        let here = piece.screen == Some(state.screen);
        let key = if here { Ink::Key } else { Ink::Plain };
        let x = canvas.rest(piece.x, 0, piece.key, if piece.screen.is_none() { Ink::Plain } else { key });
        let words = if piece.key.is_empty() { x } else { x + 1 };
        canvas.rest(words, 0, piece.words, if here { Ink::Key } else { Ink::Dim });
        if here {
            canvas.part(piece.x, 0, piece.width, 1).under_cursor(0, 1);
        }
    }
}

/// A key and what it does.
type Hint = (&'static str, &'static str);

const TIME: Hint = ("[ ]", "time");
const SAVE: Hint = ("w", "save");

/// The keys that somebody would look for in this state, the likeliest first.
fn hints(state: &State) -> &'static [Hint] {
    const DETAILS: &[Hint] = &[("Esc", "back"), TIME, SAVE];
    const PAUSED: &[Hint] = &[("Space", "live"), TIME, SAVE];
    const STOPPED: &[Hint] = &[("Space", "go on"), TIME, ("n", "next finding")];
    const PLAYING: &[Hint] = &[("Space", "pause"), TIME, ("n", "next finding")];
    const ENDED: &[Hint] = &[TIME, ("b", "jump"), ("N", "last finding")];
    const FINDING: &[Hint] = &[("Enter", "why"), TIME, SAVE];
    const CALM: &[Hint] = &[TIME, SAVE];
    const LIST: &[Hint] = &[("Enter", "more"), ("s", "sort"), ("/", "filter"), TIME, SAVE];
    if state.details.is_some() {
        return DETAILS;
    }
    if state.ended.is_some() {
        return ENDED;
    }
    match (state.capabilities().follows_newest, state.paused) {
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

struct Piece {
    x: u16,
    width: u16,
    key: &'static str,
    words: &'static str,
    screen: Option<Screen>,
}

impl Piece {
    fn new(x: u16, key: &'static str, words: &'static str, screen: Option<Screen>) -> Piece {
        let cells = key.len() + words.len() + usize::from(!key.is_empty() && !words.is_empty());
        Piece { x, width: u16::try_from(cells).unwrap_or(0), key, words, screen }
    }
}

/// The screens, then as many hints as there is room for before the keys that everybody needs once.
fn key_line(width: u16, hints: &[Hint]) -> Vec<Piece> {
    const DIGITS: [&str; 6] = ["1", "2", "3", "4", "5", "6"];
    const ALWAYS: [Hint; 2] = [("?", "help"), ("q", "quit")];
    let mut pieces = Vec::with_capacity(14);
    let mut x = 0;
    let roomy = width >= 78;
    for (screen, digit) in Screen::ALL.into_iter().zip(DIGITS) {
        let piece = Piece::new(x, digit, if roomy { screen.word() } else { "" }, Some(screen));
        x += piece.width + 1;
        pieces.push(piece);
    }
    x += 1;
    /// `? help q`
    const KEPT: u16 = 8;
    for &(key, words) in hints {
        let piece = Piece::new(x, key, words, None);
        let Some(gap) = [2, 1].into_iter().find(|gap| x + piece.width + gap + KEPT <= width) else { break };
        x += piece.width + gap;
        pieces.push(piece);
    }
    /// `? help  q`
    const WIDE: u16 = 9;
    let gap = if x + WIDE <= width { 2 } else { 1 };
    for (key, words) in ALWAYS {
        let fits = |words| Some(Piece::new(x, key, words, None)).filter(|piece| x + piece.width <= width);
        let Some(piece) = fits(words).or_else(|| fits("")) else { break };
        x += piece.width + gap;
        pieces.push(piece);
    }
    pieces
}

/// The screen whose key stands at that column of the key line.
pub fn screen_at(width: u16, column: u16) -> Option<Screen> {
    key_line(width, &[]).into_iter().find(|piece| (piece.x..piece.x + piece.width).contains(&column))?.screen
}

/// The list's summary at the right end of a heading: what it is filtered and sorted by.
pub fn arrangement(state: &State, plan: &Plan) -> SafeText {
    let mut words = String::new();
    let sort = state.sort();
    if !state.search().text().is_empty() && !state.shows_classes() {
        words = format!("/{} ", state.search().text());
    }
    let usual = state.screen.columns().first().is_none_or(|&first| first == sort.column) && !sort.reversed;
    if !usual && state.fixed_order().is_none() {
        words += &format!("by {}{} ", sort.column.word(), if sort.reversed { " reversed" } else { "" });
    }
    let last = state.cursor().top + usize::from(plan.list);
    if state.rows.len() > usize::from(plan.list) {
        words += &format!("{}–{} of {}", state.cursor().top + 1, last.min(state.rows.len()), state.rows.len());
    }
    SafeText::of(words)
}
