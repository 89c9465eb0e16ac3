//! Received and sent bytes of an interface over time, on one scale against its speed.

use crate::findings::Evaluation;
use crate::interval::network::NicSpan;
use crate::safe;
use crate::state::State;
use crate::units::format;
use crate::view::pane::Pane;
use crate::view::panes::{graph_title, nice_ceiling, time_columns};
use crate::view::safe_line::SafeLine;
use crate::view::safe_text::SafeText;
use crate::view::text::format_number;
use crate::view::theme::StyleRole;

/// Cells of the labels of a graph.
const LABEL_WIDTH: u16 = 15;

/// Received above sent, on one scale.
pub fn draw_graph(state: &State, evaluation: &Evaluation, nic: &NicSpan, pane: &mut Pane) {
    let width = pane.width().saturating_sub(LABEL_WIDTH);
    let columns = time_columns(state, evaluation, width);
    let traffic: Vec<Option<(f32, f32)>> = columns.iter().map(|summary| summary.as_ref()?.nic_kilobytes(&nic.id)).collect();
    let highest = traffic.iter().flatten().map(|(received, sent)| received.max(*sent)).fold(0.0, f32::max);
    let top = nice_ceiling(highest.max(1.0), 1024.0);
    let speed = nic.link.speed_mbps.map(|mbps| f64::from(mbps) * 1e6 / 8.0 / 1024.0);
    let share = speed
        .map_or_else(String::new, |speed| format!(" = {}% of its speed", format_number(f64::from(top) / speed * 100.0, 4)));
    let title = [
        SafeLine::new(SafeText::from_name(&nic.id.name), StyleRole::Plain),
        SafeLine::new(safe!("  top {}/s", format::short_bytes(f64::from(top) * 1024.0)), StyleRole::Dim),
        SafeLine::new(SafeText::sanitize(share), StyleRole::Dim),
    ];
    pane.line(0, graph_title(title, pane.width()));
    let half = pane.height().saturating_sub(1) / 2;
    if half == 0 {
        return;
    }
    let received = traffic.iter().map(|cell| cell.map(|cell| cell.0)).collect::<Vec<_>>();
    let sent = traffic.iter().map(|cell| cell.map(|cell| cell.1)).collect::<Vec<_>>();
    let sides = [("in", nic.rx.kilobytes.0, StyleRole::User, received), ("out", nic.tx.kilobytes.0, StyleRole::System, sent)];
    for (at, (word, now, role, rates)) in (0_u16..).zip(sides) {
        let data: Vec<Option<u64>> = rates.into_iter().map(|rate| Some(rate?.round().max(0.0) as u64)).collect();
        let mut part = pane.subarea(0, 1 + at * half, u16::MAX, half);
        let line = SafeLine::new(safe!("{word:>3} "), StyleRole::Dim)
            .with(safe!("{:>8}/s", format::short_bytes(now * 1024.0)), StyleRole::Plain);
        part.line(half - 1, line);
        part.subarea(LABEL_WIDTH, 0, u16::MAX, half).sparkline(&data, top as u64, role);
    }
}
