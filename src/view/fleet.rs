//! The screen of the fleet: causes with their numbers of hosts, and one row a host, the worst first.

mod columns;
mod host_findings;
mod key_line;

use super::help;
use super::pane::Pane;
use super::safe_line::SafeLine;
use super::safe_text::SafeText;
use super::text;
use super::theme::{self, StyleRole};
use crate::safe;
use crate::state::fleet::causes::FleetCause;
use crate::state::fleet::host::Condition;
use crate::state::fleet::keys::BINDINGS;
use crate::state::fleet::layout::{FleetLayout, MIN_SIZE};
use crate::state::fleet::{FleetPlayback, FleetState};
use crate::units::format::plural;
use crate::units::time;

/// Draws a frame.
pub fn draw(state: &FleetState, pane: &mut Pane) {
    pane.fill();
    let (width, height) = (pane.width(), pane.height());
    if width < MIN_SIZE.0 || height < MIN_SIZE.1 {
        pane.line(0, super::too_small_message(width, height, MIN_SIZE));
        return;
    }
    let layout = FleetLayout::new(state);
    draw_header(state, pane);
    draw_causes(state, &mut pane.subarea(0, 1, width, layout.cause_rows));
    pane.rule(layout.table_top - 1);
    columns::draw(state, &layout, &mut pane.subarea(0, layout.table_top, width, layout.host_rows + 1));
    if layout.finding_rows > 0 {
        let top = layout.table_top + 1 + layout.host_rows;
        host_findings::draw(state, &mut pane.subarea(0, top, width, layout.finding_rows + 1));
    }
    key_line::draw(state, &mut pane.subarea(0, height - 1, width, 1));
    if let Some(scroll_offset) = state.help() {
        help::draw_page(help_lines(state, width), scroll_offset, pane);
    }
}

/// `stalltop fleet  100 hosts: 3 critical, 12 warnings, 2 unknown, 83 ok`, and the time.
fn draw_header(state: &FleetState, pane: &mut Pane) {
    let mut right = SafeLine::default();
    if let Some(directory) = &state.setup().recorded_in {
        right.push("●rec ", StyleRole::Recording);
        if pane.width() >= 120 {
            right.push(safe!("{directory} "), StyleRole::Dim);
        }
    }
    right.push(safe!("{}", time::time_of_day(state.realtime_ns, &state.setup().time_zone)), StyleRole::Bold);
    match state.playback() {
        None => right.push(" LIVE", StyleRole::Bold),
        Some(FleetPlayback { ended: true, .. }) => right.push(" REPLAY end", StyleRole::Playback),
        Some(FleetPlayback { paused: true, .. }) => right.push(" REPLAY ‖", StyleRole::Playback),
        Some(FleetPlayback { speed, .. }) => right.push(safe!(" REPLAY ×{speed}"), StyleRole::Playback),
    }
    let hosts = plural(state.hosts.len(), "host", "hosts");
    let mut left = SafeLine::new("stalltop fleet", StyleRole::Dim).with(safe!("  {hosts}"), StyleRole::Bold);
    let conditions = [
        (Condition::Critical, StyleRole::Critical),
        (Condition::Warning, StyleRole::Warning),
        (Condition::Unknown, StyleRole::Warning),
        (Condition::Note, StyleRole::Note),
        (Condition::Ok, StyleRole::Good),
        (Condition::Connecting, StyleRole::Dim),
    ];
    let room = usize::from(pane.width()).saturating_sub(right.width() + 1);
    let mut separator = ": ";
    for (condition, role) in conditions {
        let count = state.count(condition);
        let words = safe!("{count} {}", condition.as_str());
        if count > 0 && left.width() + separator.len() + words.width() <= room {
            left.push(separator, StyleRole::Plain);
            left.push(words, role);
            separator = ", ";
        }
    }
    pane.line(0, left);
    pane.line_right(0, right);
}

fn draw_causes(state: &FleetState, pane: &mut Pane) {
    if state.causes.is_empty() {
        let answering = state.hosts.len() - state.count(Condition::Unknown) - state.count(Condition::Connecting);
        let words = match answering {
            0 => SafeText::from("no host has sent two samples yet"),
            _ => safe!("nothing is wrong on {}, as far as it can be seen", plural(answering, "host", "hosts")),
        };
        return pane.line(0, (words, StyleRole::Dim));
    }
    let lines = usize::from(pane.height());
    let shown = if state.causes.len() > lines { lines - 1 } else { lines };
    // With a single line the worst one is worth more than the number of the others.
    let shown = shown.max(1);
    for (y, cause) in (0..).zip(state.causes.iter().take(shown)) {
        pane.line(y, cause_line(state, cause, usize::from(pane.width())));
    }
    let hidden = state.causes.len().saturating_sub(shown);
    if hidden > 0 && shown < lines {
        let words = safe!("  +{}: / filters hosts by a cause", plural(hidden, "more cause", "more causes"));
        pane.line(u16::try_from(shown).unwrap_or(u16::MAX), (words, StyleRole::Dim));
    }
}

/// `✖ idle but blocked behind fsync on sdb: 37 of 100 hosts  web1, web2, …`
fn cause_line(state: &FleetState, cause: &FleetCause, width: usize) -> SafeLine {
    let mut line = SafeLine::new(theme::severity_symbol(cause.severity), StyleRole::from(cause.severity));
    line.push(" ", StyleRole::Plain);
    let count = safe!(": {} of {}", cause.hosts.len(), plural(state.hosts.len(), "host", "hosts"));
    let room = width.saturating_sub(line.width() + count.width());
    let words = SafeText::sanitize(cause.words.clone());
    line.append(SafeLine::new(words, StyleRole::Bold).truncated(room));
    line.push(count, StyleRole::Plain);
    let names = cause.hosts.iter().filter_map(|&index| state.hosts.get(index)).map(|host| host.name.as_str());
    let left = width.saturating_sub(line.width());
    // As many names as there is room for.
    let mut list = String::new();
    for name in names {
        if list.len() > left {
            break;
        }
        list.push_str(if list.is_empty() { "  " } else { ", " });
        list.push_str(name);
    }
    line.push(SafeText::sanitize(list), StyleRole::Dim);
    line
}

/// Maximum scroll offset of the open help.
pub fn max_help_scroll(state: &FleetState) -> usize {
    let (width, height) = state.setup().size;
    help::max_scroll_of(help_lines(state, width).len(), height)
}

fn help_lines(state: &FleetState, width: u16) -> Vec<SafeLine> {
    let entry = |label: &'static str, role: StyleRole, words: &str| {
        let words = text::wrap(words, help::description_width(width), usize::MAX).into_iter().enumerate();
        let line = |(at, words)| help::entry_line(if at == 0 { label } else { "" }, role, words, StyleRole::Plain);
        words.map(line).collect::<Vec<SafeLine>>()
    };
    let bindings = BINDINGS.iter().filter(|binding| state.playback().is_some() || !binding.replay_only);
    let keys = bindings.flat_map(|binding| entry(binding.key_label, StyleRole::Key, binding.description));
    let words = columns::WORDS.into_iter().flat_map(|(word, meaning)| entry(word, StyleRole::Bold, meaning));
    keys.chain([SafeLine::default()]).chain(words).collect()
}
