//! The panes of the network screen: traffic over time, retransmits and drops, round-trip times, the tables.

use super::connections::connection_lines;
use super::remote_hosts::{RemoteHostRow, cells_of};
use super::traffic_graph::draw_graph;
use crate::figures::protocols;
use crate::findings::Evaluation;
use crate::interval::network::NicSpan;
use crate::safe;
use crate::state::history::GraphFigure;
use crate::state::layout::ScreenLayout;
use crate::state::remote_hosts::display_order;
use crate::state::{Item, NetworkRows, State, rows};
use crate::view::columns::Columns;
use crate::view::pane::Pane;
use crate::view::panes::{AXIS_WIDTH, maxima_in_window};
use crate::view::safe_line::SafeLine;
use crate::view::text::format_number;
use crate::view::theme::StyleRole;
use crate::view::widgets::graph::Graph;

/// The interface under the cursor, or those in use.
pub fn nics<'a>(state: &State, evaluation: &'a Evaluation) -> Vec<&'a NicSpan> {
    match &state.cursor().item {
        Some(Item::Nic(id)) => evaluation.interval.network.nics.iter().filter(|nic| nic.id == *id).collect(),
        _ => rows::busiest_nics(&evaluation.interval),
    }
}

/// Rows of the graphs of an interface at least: its title, received, sent.
const MIN_GRAPH_ROWS: u16 = 5;

/// Received and sent of each interface over time, as many as fit.
pub fn traffic(state: &State, evaluation: &Evaluation, _: &ScreenLayout, pane: &mut Pane) {
    let mut inner = pane.framed(("In and out, against the speed", StyleRole::Bold), SafeLine::default());
    let nics = nics(state, evaluation);
    let count = u16::try_from(nics.len()).unwrap_or(u16::MAX);
    if count == 0 {
        inner.line(0, ("no interface in use", StyleRole::Dim));
        return;
    }
    // An interface without packets has one line, below the others; where none had any, the first has an empty graph.
    let columns = state.graph_columns(inner.width());
    let carried = |figure| columns.maxima(&figure).into_iter().flatten().any(|rate| rate > 0.0);
    let is_silent =
        |nic: &&NicSpan| !carried(GraphFigure::Received(nic.id.clone())) && !carried(GraphFigure::Sent(nic.id.clone()));
    let (mut silent, mut moving): (Vec<&NicSpan>, Vec<&NicSpan>) = nics.into_iter().partition(is_silent);
    if moving.is_empty() {
        moving.push(silent.remove(0));
    }
    let lines = u16::try_from(silent.len()).unwrap_or(u16::MAX).min(inner.height() / 2);
    let height = inner.height() - lines;
    let shown = (height / MIN_GRAPH_ROWS).clamp(1, count).min(u16::try_from(moving.len()).unwrap_or(u16::MAX));
    let rows = height / shown.max(1);
    for (at, nic) in (0..shown).zip(moving) {
        draw_graph(state, evaluation, nic, &mut inner.subarea(0, at * rows, u16::MAX, rows));
    }
    for (at, nic) in (0..lines).zip(silent) {
        draw_graph(state, evaluation, nic, &mut inner.subarea(0, height + at, u16::MAX, 1));
    }
}

/// Retransmitted segments over time against the threshold of their finding, and what was dropped.
pub fn losses(state: &State, evaluation: &Evaluation, _: &ScreenLayout, pane: &mut Pane) {
    let width = pane.width().saturating_sub(2 + AXIS_WIDTH);
    let (input, protocols_span) = (&evaluation.into(), &evaluation.interval.network.protocols);
    let now = protocols::RETRANSMITTED_RATIO.displayed(input, protocols_span);
    let note = now.map_or("no segments now".into(), |now| safe!("now {}%", format_number(now, 5)));
    let columns = state.graph_columns(width);
    let mut inner = pane.framed(maxima_in_window("Retransmitted segments", state, &columns), (&note, StyleRole::Dim));
    let values = columns.maxima(&GraphFigure::Retransmitted);
    let threshold = evaluation.thresholds().retransmitted_ratio as f32;
    let highest = values.iter().flatten().copied().fold(0.0, f32::max);
    let max = highest.max(threshold * 1.5);
    let text_rows = inner.height().min(3);
    let rows = inner.height() - text_rows;
    let graph = Graph {
        values: &values,
        threshold: Some(threshold),
        max,
        style: inner.area_gradient(StyleRole::System),
        style_above_threshold: inner.area_gradient(StyleRole::Warning),
        threshold_style: inner.graph_style(StyleRole::Dim),
    };
    let label = |share: f32| safe!("{:>6}%", format_number(f64::from(share) * 100.0, 4));
    if let Some(row) = graph.threshold_row(rows) {
        inner.line(row, (label(threshold), StyleRole::Dim));
        if row > 0 {
            inner.line(0, (label(max), StyleRole::Dim));
        }
    }
    let mut area = inner.subarea(AXIS_WIDTH, 0, width, rows);
    area.render(graph);
    let area = area.area();
    for (y, line) in (rows..inner.height()).zip(connection_lines(evaluation)) {
        inner.line(y, line);
    }
    pane.time_axis(columns.axis(), area);
}

/// Round-trip times of the remote hosts against their minimum.
pub fn round_trips(state: &State, evaluation: &Evaluation, _: &ScreenLayout, pane: &mut Pane) {
    let note = SafeLine::new("key p: all", StyleRole::Dim);
    let mut inner = pane.framed(("Round-trip times against their minimum", StyleRole::Bold), note);
    let Some(span) = evaluation.remote_hosts.as_ref().filter(|span| !span.rows.is_empty()) else {
        let why = evaluation.interval.newer.protocols.remote_hosts.as_ref().err();
        let words = match (why, evaluation.remote_hosts.is_some()) {
            (Some(why), _) => safe!("- sock_diag: {why}"),
            (None, true) => "no TCP connection with another host in this network namespace".into(),
            (None, false) => "- rates need two socket scans".into(),
        };
        inner.line(0, (words, StyleRole::Dim));
        return;
    };
    let table = Columns::new(&cells_of(inner.width()), inner.width());
    let hosts = display_order(evaluation).into_iter().filter_map(|at| span.rows.get(at)).take(usize::from(inner.height()));
    let rows: Vec<_> = hosts
        .map(|host| {
            let row = RemoteHostRow::new(state, evaluation, host);
            table.row(|fill, cell| fill(&row, cell))
        })
        .collect();
    table.draw(&mut inner, None, rows);
}

/// The list of interfaces with the protocols below it, or the list of remote hosts.
pub fn tables(state: &State, evaluation: &Evaluation, layout: &ScreenLayout, pane: &mut Pane) {
    let (title, note) = match state.lists.network_rows {
        NetworkRows::Interfaces => ("Interfaces and protocols", "p remote hosts"),
        NetworkRows::RemoteHosts => ("Remote hosts", "p interfaces"),
    };
    let mut inner = pane.framed((title, StyleRole::Bold), SafeLine::new(note, StyleRole::Dim));
    super::draw(state, evaluation, layout, &mut inner);
}
