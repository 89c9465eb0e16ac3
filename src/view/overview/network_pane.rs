//! The pane of network interfaces: their figures, and the traffic of the busiest one over time.

use super::tables;
use crate::findings::Evaluation;
use crate::state::layout::ScreenLayout;
use crate::state::{State, rows};
use crate::view::network::connections::connection_lines;
use crate::view::network::traffic_graph::draw_graph;
use crate::view::pane::Pane;
use crate::view::panes::table_and_graph;
use crate::view::safe_line::SafeLine;
use crate::view::theme::StyleRole;

pub fn draw(state: &State, evaluation: &Evaluation, _: &ScreenLayout, pane: &mut Pane) {
    let nics = rows::busiest_nics(&evaluation.interval);
    let mut inner = pane.framed(("Network", StyleRole::Bold), SafeLine::default());
    let (table, graph) = table_and_graph(&inner, nics.len());
    let rows = table.height.saturating_sub(1);
    tables::nic_table(state, evaluation, &nics, &mut inner.part(table), 0, rows);
    let below = u16::try_from(nics.len().max(1)).unwrap_or(u16::MAX).saturating_add(1);
    for (y, line) in (below..table.height).zip(connection_lines(evaluation)) {
        inner.part(table).line(y, line);
    }
    if let (Some(graph), Some(nic)) = (graph, nics.first()) {
        draw_graph(state, evaluation, nic, &mut inner.part(graph));
    }
}
