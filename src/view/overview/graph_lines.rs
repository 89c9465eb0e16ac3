//! The graphs of a screen without panes: the latency of a disk and the traffic of an interface over time, a line each.

use crate::findings::Evaluation;
use crate::interval::disk::DiskSpan;
use crate::interval::network::NicSpan;
use crate::safe;
use crate::state::State;
use crate::state::history::GraphFigure;
use crate::units::format;
use crate::view::disk::await_graph::slowest_first;
use crate::view::disk::{latency_glyphs, latency_status};
use crate::view::network::qdisc::Shaper;
use crate::view::panes::{MAX_SPARKLINE_WIDTH, nice_ceiling};
use crate::view::safe_line::SafeLine;
use crate::view::safe_text::SafeText;
use crate::view::text::format_number;
use crate::view::theme::StyleRole;
use crate::view::time_cells::TimeCells;
use crate::view::wait_location;

/// Cells of the name, as in the tables.
const NAME_WIDTH: usize = 9;

/// Cells of an operation left of its graph, and of the scale right of it.
const OPERATION_WIDTH: usize = 9;
const AWAIT_SCALE_WIDTH: usize = 23;

/// Cells of the words beside the graphs of an interface: `in `, ` out `, and the scale.
const TRAFFIC_WORDS_WIDTH: usize = 8;
const TRAFFIC_SCALE_WIDTH: usize = 27;

/// Cells of a graph from which it says something.
const MIN_GRAPH_WIDTH: usize = 8;

/// The latency of the slowest operation against its baseline; none without requests in the last intervals, or without room.
pub fn disk_line(state: &State, evaluation: &Evaluation, disks: &[&DiskSpan], width: u16) -> Option<SafeLine> {
    let graph = graph_width(state, width, NAME_WIDTH + OPERATION_WIDTH + AWAIT_SCALE_WIDTH, 1)?;
    let &(disk, operation) = slowest_first(state, evaluation, disks).first()?;
    let mut line = SafeLine::new(wait_location::disk_name(&evaluation.interval.newer, disk.id), StyleRole::Plain);
    line = line.truncated(NAME_WIDTH - 1);
    line.pad_to(NAME_WIDTH);
    line.push(operation.plural(), StyleRole::Plain);
    line.pad_to(NAME_WIDTH + OPERATION_WIDTH);
    line.push_glyphs(latency_glyphs(state, evaluation, (disk.id, operation), graph));
    let has_baseline = latency_status(evaluation, disk.id, operation).is_some();
    let scale = if has_baseline { " await, full ≥ 8× base" } else { " await, full ≥ 8× least" };
    Some(line.with(scale, StyleRole::Dim))
}

/// Received and sent bytes of the busiest interface on one scale; none without traffic in that time, or without room.
pub fn nic_line(state: &State, evaluation: &Evaluation, nics: &[&NicSpan], width: u16) -> Option<SafeLine> {
    let graph = graph_width(state, width, NAME_WIDTH + TRAFFIC_WORDS_WIDTH + TRAFFIC_SCALE_WIDTH, 2)?;
    let (nic, received, sent) = busiest(state, nics, graph)?;
    let highest = received.values.iter().chain(&sent.values).flatten().copied().fold(0.0, f32::max);
    if highest <= 0.0 {
        return None;
    }
    // What a shaper lets pass is the limit, whatever the speed.
    let limit = Shaper::new(evaluation, nic).map(|shaper| shaper.rate());
    let limit = limit.filter(|_| f64::from(highest) <= nic.tx.kilobytes.0 * MAX_OF_LIMIT);
    let top = if limit.is_some() { highest } else { nice_ceiling(highest.max(1.0), 1024.0) };
    let mut line = SafeLine::new(SafeText::from_name(&nic.id.name), StyleRole::Plain).truncated(NAME_WIDTH - 1);
    line.pad_to(NAME_WIDTH);
    for (word, side, role) in [("in ", received, StyleRole::User), (" out ", sent, StyleRole::System)] {
        line.push(word, StyleRole::Dim);
        line.push_glyphs(side.glyphs(|rate| (rate / top, role)));
    }
    let speed = nic.link.kilobytes();
    let scale = match (limit, speed) {
        (Some(limit), _) => limit,
        (None, None) => bytes_per_second(top),
        (None, Some(speed)) => {
            safe!("{} = {}% of speed", bytes_per_second(top), format_number(f64::from(top) / speed * 100.0, 4))
        }
    };
    Some(line.with(safe!(" ≤ {scale}"), StyleRole::Dim))
}

/// The interface with most traffic in the time of the graphs, and its graphs. Of several with the same packets, as those of a bridge and of
/// its containers have, always the same one.
fn busiest<'a>(state: &State, nics: &[&'a NicSpan], graph: u16) -> Option<(&'a NicSpan, TimeCells, TimeCells)> {
    let cells = |figure| TimeCells::new(state, &figure, graph);
    let mut known: Vec<(f32, &NicSpan, TimeCells, TimeCells)> = Vec::new();
    for &nic in nics.iter().take(MAX_COMPARED) {
        let sides = [cells(GraphFigure::Received(nic.id.clone())), cells(GraphFigure::Sent(nic.id.clone()))];
        let sum = sides.iter().flat_map(|side| &side.values).flatten().sum();
        let [received, sent] = sides;
        known.push((sum, nic, received, sent));
    }
    let most = known.iter().map(|known| known.0).fold(0.0, f32::max);
    let same = known.into_iter().filter(|known| known.0 >= most * SAME_TRAFFIC);
    same.min_by_key(|known| known.1.id.ifindex).map(|(_, nic, received, sent)| (nic, received, sent))
}

/// The interfaces with most traffic in this interval that are compared over time.
const MAX_COMPARED: usize = 3;

/// Share of the traffic of the busiest interface from which another one has the same.
const SAME_TRAFFIC: f32 = 0.9;

/// Traffic above this multiple of what a shaper lets pass now was not held back by it.
const MAX_OF_LIMIT: f64 = 1.1;

fn bytes_per_second(kilobytes: f32) -> SafeText {
    safe!("{}/s", format::short_bytes(f64::from(kilobytes) * 1024.0))
}

/// Cells of each of `count` graphs beside so many cells of words; none without room, or on a slow terminal.
fn graph_width(state: &State, width: u16, words: usize, count: usize) -> Option<u16> {
    let room = usize::from(width).saturating_sub(words) / count;
    let graph = room.min(usize::from(MAX_SPARKLINE_WIDTH));
    let has_room = graph >= MIN_GRAPH_WIDTH && !state.setup.terminal.is_slow;
    has_room.then(|| u16::try_from(graph).unwrap_or(MAX_SPARKLINE_WIDTH))
}
