//! The bottom line: the keys of the screens with hints, a prompt, or a notice.

use super::pane::Pane;
use super::safe_line::SafeLine;
use super::safe_text::SafeText;
use super::text::prompt_text;
use super::theme::StyleRole;
use crate::safe;
use crate::state::keys::Action;
use crate::state::{ClickTarget, PromptKind, Screen, SourceStatus, State};

/// The bottom line: prompt, notice or keys.
pub fn draw(state: &State, pane: &mut Pane) {
    if let Some(prompt) = &state.prompt {
        let question = match prompt.kind {
            PromptKind::Filter => "filter: ",
            PromptKind::Time => "go to (12:03, 12:03:15, -5m, +90s): ",
            PromptKind::Mark => "mark: ",
        };
        let room = usize::from(pane.width()).saturating_sub(question.len() + 2);
        let (typed, cursor) = prompt_text(&prompt.input, room);
        pane.line(0, SafeLine::new(question, StyleRole::Bold).with(typed, StyleRole::Plain));
        let column = u16::try_from(question.len()).unwrap_or(0).saturating_add(cursor);
        pane.subarea(column, 0, 1, 1).highlight_rows(0, 1);
        return;
    }
    if let Some(notice) = state.notice() {
        let role = if notice.failure { StyleRole::Critical } else { StyleRole::Bold };
        pane.line(0, (SafeText::sanitize(notice.text.clone()), role));
        return;
    }
    if let SourceStatus::Failed(error) = &state.arrival.status {
        pane.line(0, (safe!("no more samples: {error}"), StyleRole::Warning));
        return;
    }
    let tabs = Screen::ALL.into_iter().map(|screen| {
        let role = if screen == state.screen { StyleRole::Key } else { StyleRole::Dim };
        let label = match pane.width() {
            ..78 => "",
            78..100 => screen.definition().short_label,
            _ => screen.label(),
        };
        (key_and_word(safe!("{}", screen.digit()), label, role), ClickTarget::Screen(screen))
    });
    let used = pane.tabs(tabs.collect(), Some(state.screen as usize));
    let back = (state.options.leads_back && state.details.is_none() && state.playback.span.is_none()).then_some(FLEET_HINT);
    let mut hints: Vec<KeyHint> = back.into_iter().chain(hints(state).iter().copied()).collect();
    if pane.width() >= WIDE && state.details.is_none() && state.playback.span.is_none() {
        let missing = WIDE_HINTS.map(|more| (!hints.iter().any(|hint| hint.0 == more.0)).then_some(more));
        hints.extend(missing.into_iter().flatten());
    }
    for item in key_line_items(used, pane.width(), &hints) {
        let mut part = pane.subarea(item.x, 0, item.width, 1);
        part.on_click(ClickTarget::Action(item.action));
        part.line(0, item.line());
    }
}

/// The key before the word, or highlighted in it.
fn key_and_word(key: impl Into<SafeText>, word: &'static str, role: StyleRole) -> SafeLine {
    let key = key.into();
    match word.split_once(key.as_str()).filter(|_| key.width() == 1) {
        Some((before, after)) => SafeLine::new(before, role).with(key, StyleRole::Key).with(after, role),
        None if word.is_empty() => SafeLine::new(key, StyleRole::Key),
        None => SafeLine::new(key, StyleRole::Key).with(" ", role).with(word, role),
    }
}

/// A key and what it does: in a word, and as an action.
type KeyHint = (&'static str, &'static str, Action);

const FLEET_HINT: KeyHint = ("Esc", "fleet", Action::Back);
const TIME_HINT: KeyHint = ("[ ]", "time", Action::SampleBack);
const SAVE_HINT: KeyHint = ("w", "save", Action::Save);
const SPAN_HINT: KeyHint = ("v", "span", Action::ToggleSpan);
/// Of every screen, in a terminal of at least this width.
const WIDE_HINTS: [KeyHint; 2] = [("z", "zoom a pane", Action::ZoomPane), SPAN_HINT];
const WIDE: u16 = 160;
const ZOOM_HINT: KeyHint = ("< >", "zoom", Action::ShorterGraphs);

/// The key hints of a state, most useful first.
fn hints(state: &State) -> &'static [KeyHint] {
    const DETAILS: &[KeyHint] = &[("Esc", "back", Action::Back), TIME_HINT, SAVE_HINT];
    const SELECTED: &[KeyHint] = &[("Enter", "open", Action::OpenDetails), ("Esc", "back", Action::Back), TIME_HINT];
    const PAUSED: &[KeyHint] = &[("Space", "live", Action::TogglePause), TIME_HINT, SAVE_HINT, SPAN_HINT, ZOOM_HINT];
    const SPAN: &[KeyHint] = &[("[ ]", "extend", Action::SampleForward), SAVE_HINT, ("Esc", "end", Action::ToggleSpan)];
    const STOPPED: &[KeyHint] =
        &[("Space", "go on", Action::TogglePause), TIME_HINT, ("n", "next finding", Action::NextFinding), SPAN_HINT, ZOOM_HINT];
    const PLAYING: &[KeyHint] =
        &[("Space", "pause", Action::TogglePause), TIME_HINT, ("n", "next finding", Action::NextFinding)];
    const ENDED: &[KeyHint] = &[TIME_HINT, ("b", "jump", Action::JumpToTime), ("N", "last finding", Action::PreviousFinding)];
    const FINDING: &[KeyHint] = &[("Enter", "why", Action::OpenDetails), TIME_HINT, SAVE_HINT];
    const NO_FINDINGS: &[KeyHint] = &[TIME_HINT, SAVE_HINT];
    const LIST: &[KeyHint] = &[
        ("Enter", "more", Action::OpenDetails),
        ("s", "sort", Action::NextSort),
        TIME_HINT,
        ("/", "filter", Action::Filter),
        SAVE_HINT,
    ];
    if let Some(details) = &state.details {
        return if details.selected_in_sight().is_some() { SELECTED } else { DETAILS };
    }
    if state.playback.span.is_some() {
        return SPAN;
    }
    if state.arrival.status != SourceStatus::Open {
        return ENDED;
    }
    match (state.capabilities().follows_newest, state.playback.paused) {
        (true, true) => PAUSED,
        (false, true) => STOPPED,
        (false, false) => PLAYING,
        (true, false) => match state.screen {
            Screen::Overview | Screen::Findings if state.rows().is_empty() => NO_FINDINGS,
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
    action: Action,
}

impl KeyLineItem {
    fn new(x: u16, (key, label, action): KeyHint) -> KeyLineItem {
        let mut item = KeyLineItem { x, width: 0, key, label, action };
        item.width = u16::try_from(item.line().width()).unwrap_or(0);
        item
    }

    fn line(&self) -> SafeLine {
        key_and_word(self.key, self.label, StyleRole::Dim)
    }
}

/// As many hints as fit behind the tabs, then help and quit.
fn key_line_items(tabs: u16, width: u16, hints: &[KeyHint]) -> Vec<KeyLineItem> {
    let needed = hints.len().min(MAX_NEEDED) + ALWAYS.len();
    let wide = items_with_gap(2, tabs, width, hints);
    if wide.len() < needed { items_with_gap(1, tabs, width, hints) } else { wide }
}

/// The first hints are worth more than blanks between them.
const MAX_NEEDED: usize = 3;

const ALWAYS: [KeyHint; 2] = [("?", "help", Action::Help), ("q", "quit", Action::Quit)];

/// With this number of blanks between two hints.
fn items_with_gap(gap: u16, tabs: u16, width: u16, hints: &[KeyHint]) -> Vec<KeyLineItem> {
    const PALETTE: KeyHint = (":", "actions", Action::OpenPalette);
    /// `? help q`
    const KEPT: u16 = 8;
    let mut pieces = Vec::with_capacity(8);
    let mut x = tabs + gap;
    for &hint in hints.iter().chain([&PALETTE]) {
        let piece = KeyLineItem::new(x, hint);
        if x + piece.width + gap + KEPT > width {
            break;
        }
        x += piece.width + gap;
        pieces.push(piece);
    }
    for (key, words, action) in ALWAYS {
        let fits = |words| Some(KeyLineItem::new(x, (key, words, action))).filter(|piece| x + piece.width <= width);
        let Some(piece) = fits(words).or_else(|| fits("")) else { break };
        x += piece.width + gap;
        pieces.push(piece);
    }
    pieces
}
