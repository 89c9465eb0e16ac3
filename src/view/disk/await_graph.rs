//! The latency of an operation over time, on a logarithmic axis with lines at its baseline and at the multiple from which it is
//! slow.

use crate::findings::{Evaluation, Severity, limiting_operation};
use crate::interval::disk::{DiskSpan, Operation};
use crate::safe;
use crate::state::State;
use crate::state::history::GraphFigure;
use crate::units::format;
use crate::units::{Millis, SmallSort};
use crate::view::disk::{latency_finding_severity, latency_status, slow_multiple};
use crate::view::pane::Pane;
use crate::view::panes::{AXIS_WIDTH, graph_title, ranges_note, shown_time};
use crate::view::safe_line::SafeLine;
use crate::view::theme::StyleRole;
use crate::view::wait_location;
use crate::view::widgets::log_graph::{Level, LogGraph};

/// The operations with requests in the last intervals: that of the headline, then the slowest first: on a disk with a finding about
/// it that with the longest latency against its baseline; without a finding that with requests in most intervals. Of the last
/// intervals, so that the graph does not change with every one.
pub fn slowest_first<'a>(state: &State, evaluation: &Evaluation, disks: &[&'a DiskSpan]) -> Vec<(&'a DiskSpan, Operation)> {
    const LAST_INTERVALS: usize = 10;
    const MAX_DISKS: usize = 16;
    let limiting = limiting_operation(evaluation);
    let last = state.graphs.history.graph_cells(evaluation.interval.at(), LAST_INTERVALS);
    let mut weighted = Vec::new();
    for disk in disks.iter().take(MAX_DISKS) {
        let severity = latency_finding_severity(evaluation, disk.id);
        for (operation, _) in disk.operations() {
            let awaits =
                || last.iter().filter_map(|cell| cell.as_ref()?.disk_await(disk.id, operation)).filter(|&time| time > 0.0);
            let baseline = latency_status(evaluation, disk.id, operation).map(|status| status.baseline.0 as f32);
            let baseline = baseline.filter(|&baseline| baseline > 0.0 && severity.is_some());
            let times = baseline.map_or(0.0, |baseline| awaits().fold(0.0, f32::max) / baseline);
            if awaits().next().is_some() {
                let is_limiting = limiting == Some((disk.id, operation));
                weighted.push(((is_limiting, severity, times, awaits().count()), (*disk, operation)));
            }
        }
    }
    weighted.small_sort_by(|a, b| b.0.partial_cmp(&a.0).unwrap_or(std::cmp::Ordering::Equal));
    weighted.into_iter().map(|(_, operation)| operation).collect()
}

/// The operations with requests in the last intervals in an order that seldom changes: those of disks with a finding about them, then
/// the kernel's order of devices.
pub fn in_steady_order<'a>(state: &State, evaluation: &Evaluation, disks: &[&'a DiskSpan]) -> Vec<(&'a DiskSpan, Operation)> {
    let mut operations = slowest_first(state, evaluation, disks);
    operations.small_sort_by_key(|(disk, operation)| {
        (std::cmp::Reverse(latency_finding_severity(evaluation, disk.id)), disk.index, *operation as usize)
    });
    operations
}

/// How many times the lower end of the axis the lowest value is, at least.
const MIN_ABOVE_AXIS: f32 = 1.5;

/// Latency over time, with its title and axis.
pub fn draw_graph(state: &State, evaluation: &Evaluation, (disk, operation): (&DiskSpan, Operation), pane: &mut Pane) {
    let name = wait_location::disk_name(&evaluation.interval.newer, disk.id);
    let status = latency_status(evaluation, disk.id, operation);
    let baseline = status.map(|status| status.baseline.0 as f32).filter(|&baseline| baseline > 0.0);
    let width = pane.width().saturating_sub(AXIS_WIDTH);
    let columns = state.graph_columns(width);
    let values = columns.ranges(&GraphFigure::DiskAwait(disk.id, operation));
    let what = safe!("{name} {}", operation.plural());
    let slow = slow_multiple(evaluation, status);
    let lines = |baseline: f32| {
        let time = format::latency(Millis(f64::from(baseline)));
        let is_provisional = status.is_some_and(|status| status.provisional);
        let kind = if is_provisional { "provisional baseline" } else { "baseline" };
        let lines = safe!("  ┄ {kind} {time}  ╌ {slow}×");
        let fits = what.width() + lines.width() <= usize::from(pane.width());
        if fits { lines } else { safe!("  ┄ {}{time}  ╌ {slow}×", if is_provisional { "~" } else { "" }) }
    };
    let lines = baseline.map(lines).unwrap_or_default();
    let title = [
        SafeLine::new(what, StyleRole::Plain),
        SafeLine::new(lines, StyleRole::Dim),
        SafeLine::new(safe!(", {}", shown_time(state, &columns)), StyleRole::Dim),
        SafeLine::new(ranges_note(&columns), StyleRole::Dim),
    ];
    pane.line(0, graph_title(title, pane.width()));
    let known = || {
        values
            .iter()
            .flatten()
            .flat_map(|&[_, mean, max]| [mean, max])
            .filter(|&time| time > 0.0)
            .chain(baseline)
            .chain(baseline.map(|baseline| baseline * slow))
    };
    let (lowest, highest) = (known().fold(f32::INFINITY, f32::min), known().fold(0.0, f32::max));
    if highest <= 0.0 || lowest <= 0.0 || !lowest.is_finite() {
        return;
    }
    // The lowest value has some height.
    let min = libm::powf(10.0, libm::floorf(libm::log10f(lowest / MIN_ABOVE_AXIS)));
    let max = libm::powf(10.0, libm::ceilf(libm::log10f(highest) + 0.001)).max(min * 10.0);
    let theme = pane.theme();
    let level = |times: f32, glyph| {
        baseline.map(|baseline| Level { value: baseline * times, glyph, style: theme.style(StyleRole::Dim) })
    };
    let levels: Vec<Level> = [level(1.0, '┄'), level(slow, '╌')].into_iter().flatten().collect();
    let queues = columns.maxima(&GraphFigure::DiskQueue(disk.id));
    let severity = |column: usize, time: f32| -> Option<Severity> {
        let queue = queues.get(column).copied().flatten().map(f64::from);
        evaluation.thresholds().latency_severity(f64::from(time / baseline?), status?.provisional, queue)
    };
    // Each is made once: a graph has thousands of cells.
    let [good, warning, critical] =
        [StyleRole::Good, StyleRole::Warning, StyleRole::Critical].map(|role| theme.area_gradient(role));
    let style = |column: usize, time: f32| match severity(column, time) {
        None | Some(Severity::Note) => good,
        Some(Severity::Warning) => warning,
        Some(Severity::Critical) => critical,
    };
    let rows = pane.height().saturating_sub(1);
    let label = |value: f32| safe!("{:>7}", format::latency(Millis(f64::from(value))));
    let graph = LogGraph { values: &values, min, max, levels: &levels, style };
    if rows > 1 {
        pane.line(1, (label(max), StyleRole::Dim));
        pane.line(rows, (label(min), StyleRole::Dim));
    }
    let mut area = pane.subarea(AXIS_WIDTH, 1, u16::MAX, u16::MAX);
    area.render(graph);
    let area = area.area();
    pane.time_axis(columns.axis(), area);
}
