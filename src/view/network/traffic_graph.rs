//! Received and sent bytes of an interface over time, on one scale against its speed.

use super::qdisc::Shaper;
use crate::findings::Evaluation;
use crate::interval::network::NicSpan;
use crate::safe;
use crate::state::State;
use crate::state::history::GraphFigure;
use crate::units::format;
use crate::view::pane::Pane;
use crate::view::panes::{graph_title, nice_ceiling, ranges_note, shown_time};
use crate::view::safe_line::SafeLine;
use crate::view::safe_text::SafeText;
use crate::view::text::format_number;
use crate::view::theme::StyleRole;
use crate::view::widgets::area_graph::AreaGraph;

/// Cells of the labels of a graph.
const LABEL_WIDTH: u16 = 15;

/// Share of the limit from which the highest value has a graph on the scale of the limit.
const MIN_SHARE_OF_LIMIT: f64 = 0.25;

/// Received above sent, on one scale.
pub fn draw_graph(state: &State, evaluation: &Evaluation, nic: &NicSpan, pane: &mut Pane) {
    let width = pane.width().saturating_sub(LABEL_WIDTH);
    let columns = state.graph_columns(width);
    let received = columns.ranges(&GraphFigure::Received(nic.id.clone()));
    let sent = columns.ranges(&GraphFigure::Sent(nic.id.clone()));
    let highest = received.iter().chain(&sent).flatten().map(|&[_, _, max]| max).fold(0.0, f32::max);
    let speed = nic.link.kilobytes();
    // What a shaper lets pass is the limit, not the speed.
    let rate = nic.qdisc.as_ref().and_then(|qdisc| qdisc.rate).map(|rate| rate.0 / 1024.0);
    // A graph of little traffic would be empty on the scale of its limit.
    let scale = f64::from(highest)..=f64::from(highest) / MIN_SHARE_OF_LIMIT;
    let limit = rate.or(speed).filter(|limit| scale.contains(limit));
    let top = limit.map_or_else(|| nice_ceiling(highest.max(1.0), 1024.0), |limit| limit as f32);
    let share = match (Shaper::new(evaluation, nic), speed) {
        (Some(shaper), _) => format!("; now {}", shaper.rate()),
        (None, _) if rate.is_some() => String::new(),
        (None, Some(_)) if limit.is_some() => " = its speed".to_owned(),
        (None, Some(speed)) => format!(" = {}% of its speed", format_number(f64::from(top) / speed * 100.0, 4)),
        (None, None) => String::new(),
    };
    let title = [
        SafeLine::new(SafeText::from_name(&nic.id.name), StyleRole::Plain),
        SafeLine::new(safe!("  top {}/s", format::short_bytes(f64::from(top) * 1024.0)), StyleRole::Dim),
        SafeLine::new(SafeText::sanitize(share), StyleRole::Dim),
        SafeLine::new(safe!(", {}", shown_time(state, &columns)), StyleRole::Dim),
        SafeLine::new(ranges_note(&columns), StyleRole::Dim),
    ];
    if highest <= 0.0 {
        let seconds = shown_time(state, &columns);
        let words = SafeLine::new(SafeText::from_name(&nic.id.name), StyleRole::Plain);
        pane.line(0, words.with(safe!("  no packets, {seconds}"), StyleRole::Dim));
    } else {
        pane.line(0, graph_title(title, pane.width()));
    }
    let half = pane.height().saturating_sub(1) / 2;
    if half == 0 {
        return;
    }
    let sides = [("in", nic.rx.kilobytes.0, StyleRole::User, received), ("out", nic.tx.kilobytes.0, StyleRole::System, sent)];
    for (at, (word, now, role, values)) in (0_u16..).zip(sides) {
        let mut part = pane.subarea(0, 1 + at * half, u16::MAX, half);
        let line = SafeLine::new(safe!("{word:>3} "), StyleRole::Dim)
            .with(safe!("{:>8}/s", format::short_bytes(now * 1024.0)), StyleRole::Plain);
        part.line(half - 1, line);
        let (style, peak_style) = (part.area_gradient(role), part.graph_style(StyleRole::Dim));
        part.subarea(LABEL_WIDTH, 0, u16::MAX, half).render(AreaGraph::new(&values, top, style, peak_style));
    }
    let graphs = pane.subarea(LABEL_WIDTH, 1, u16::MAX, 2 * half).area();
    pane.time_axis(columns.axis(), graphs);
}
