//! The pane of disks: their figures, and the latency of the slowest operation over time, on a logarithmic axis against its
//! baseline.

use super::tables;
use crate::findings::Evaluation;
use crate::interval::disk::DiskSpan;
use crate::safe;
use crate::state::layout::ScreenLayout;
use crate::state::{State, rows};
use crate::view::disk::await_graph::{draw_graph, slowest_first};
use crate::view::disk::idle_devices::idle_devices;
use crate::view::pane::Pane;
use crate::view::panes::table_and_graph;
use crate::view::safe_line::SafeLine;
use crate::view::theme::StyleRole;
use crate::view::wait_location;

pub fn draw(state: &State, evaluation: &Evaluation, _: &ScreenLayout, pane: &mut Pane) {
    let interval = &*evaluation.interval;
    let disks = rows::busiest_disks(state, interval);
    let mut inner = pane.framed(("Disks, await on a log axis", StyleRole::Bold), stalled_note(evaluation, &disks));
    let (table, graph) = table_and_graph(&inner, disks.len());
    let rows = table.height.saturating_sub(1);
    tables::disk_table(state, evaluation, &disks, &mut inner.part(table), 0, rows);
    let Some(graph) = graph else { return };
    match slowest_first(state, evaluation, &disks).first() {
        Some(&slowest) => draw_graph(state, evaluation, slowest, &mut inner.part(graph)),
        None => idle_devices(state, evaluation, &mut inner.part(graph)),
    }
}

/// A disk that has requests in flight, and completed none.
fn stalled_note(evaluation: &Evaluation, disks: &[&DiskSpan]) -> SafeLine {
    disks.iter().find(|disk| disk.stalled).map_or_else(SafeLine::default, |disk| {
        let name = wait_location::disk_name(&evaluation.interval.newer, disk.id);
        SafeLine::new(safe!("✖ {name}: {} in flight, none completed", disk.in_flight), StyleRole::Critical)
    })
}
