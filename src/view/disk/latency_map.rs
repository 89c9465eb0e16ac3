//! How long the requests of an operation took over time: a row for each class of latency, the darker the more requests, on a
//! logarithmic scale, so that one request in a thousand is seen. Known where the eBPF program counts requests.

use super::latency_status;
use super::panes::name;
use crate::findings::Evaluation;
use crate::interval::disk::{DiskSpan, Operation};
use crate::interval::latency_histogram::LatencyHistogram;
use crate::safe;
use crate::sample::Absent;
use crate::state::State;
use crate::state::history::{GraphFigure, LATENCY_CLASSES};
use crate::units::{Millis, format};
use crate::view::pane::Pane;
use crate::view::panes::shown_time;
use crate::view::safe_line::SafeLine;
use crate::view::safe_text::SafeText;
use crate::view::text::{format_percent, optional_latency};
use crate::view::theme::StyleRole;
use crate::view::widgets::heat_map::HeatMap;

/// Cells from which the frame has room for the baseline of the quantiles.
const MIN_WIDTH_FOR_BASELINE: u16 = 110;

/// Cells of the label of a row.
const LABEL_WIDTH: u16 = 11;

/// Whether it is known for some of the time.
pub fn is_known(state: &State, disk: &DiskSpan, operation: Operation) -> bool {
    state.graphs.history.iter().any(|summary| summary.figure(&GraphFigure::DiskLatency(disk.id, operation, 0)).is_some())
}

/// The heat map, with the quantiles of the displayed interval in the frame.
pub fn draw(state: &State, evaluation: &Evaluation, (disk, operation): (&DiskSpan, Operation), pane: &mut Pane) {
    let width = pane.width().saturating_sub(2 + LABEL_WIDTH);
    let columns = state.page_columns(width);
    let title = SafeLine::new(safe!("{} {}", name(evaluation, disk), operation.plural()), StyleRole::Bold)
        .with(safe!(" by latency, {}", shown_time(state, &columns)), StyleRole::Dim);
    let note = disk.latency(operation).map(|known| {
        let now = match disk.measured_share(operation).filter(|share| share.0 < 1.0) {
            Some(share) => safe!("{} (of {}% of them)", quantiles(&known.total), format_percent(Some(share.0), 4).trim_start()),
            None => quantiles(&known.total),
        };
        let baseline = latency_status(evaluation, disk.id, operation).and_then(|status| Some(status.requests?.baseline));
        let note = match baseline.filter(|_| pane.width() >= MIN_WIDTH_FOR_BASELINE) {
            Some(known) => safe!("{now} (baseline p50 {}, p99 {})", format::latency(known.p50), format::latency(known.p99)),
            None => now,
        };
        SafeLine::new(note, StyleRole::Dim)
    });
    let mut inner = pane.framed(title, note.unwrap_or_default());
    let levels = |class: u8| -> Vec<Option<(f32, f32)>> {
        let shares = columns.means_and_maxima(&GraphFigure::DiskLatency(disk.id, operation, class));
        shares.into_iter().map(|share| level(share?.0).map(|level| (level, level))).collect()
    };
    let classes = u8::try_from(LATENCY_CLASSES.len()).unwrap_or(u8::MAX);
    let all: Vec<_> = (0..classes).map(levels).collect();
    let has_requests = |row: &Vec<Option<(f32, f32)>>| row.iter().any(Option::is_some);
    let (Some(first), Some(last)) = (all.iter().position(has_requests), all.iter().rposition(has_requests)) else { return };
    // As many classes as there are rows, the longest ones first.
    let first = first.max((last + 1).saturating_sub(usize::from(inner.height())));
    let rows: Vec<_> = all.get(first..=last).unwrap_or_default().iter().rev().cloned().collect();
    for (y, class) in (0..inner.height()).zip((first..=last).rev()) {
        inner.line(y, (label(class), StyleRole::Dim));
    }
    let style = inner.graph_style(StyleRole::Disk);
    let height = u16::try_from(rows.len()).unwrap_or(u16::MAX);
    let mut graph = inner.subarea(LABEL_WIDTH, 0, width, height);
    graph.render(HeatMap { rows: &rows, style: |_| style });
    let graph = graph.area();
    pane.time_axis(columns.axis(), graph);
}

/// 0 for one request in a thousand, 1 for all; `None` without requests.
fn level(share: f32) -> Option<f32> {
    (share > 0.0).then(|| (libm::log10f(share) / 3.0 + 1.0).clamp(0.0, 1.0))
}

fn label(class: usize) -> SafeText {
    let edge = |class: usize| LATENCY_CLASSES.get(class).copied().unwrap_or(f32::INFINITY);
    match edge(class) {
        finite if finite.is_finite() => safe!("≤ {:>7}", format::latency(Millis(f64::from(finite)))),
        _ => safe!("> {:>7}", format::latency(Millis(f64::from(edge(class.saturating_sub(1)))))),
    }
}

/// `p50 0.20 ms, p99 1.10 ms, max 9 ms`
pub fn quantiles(histogram: &LatencyHistogram) -> SafeText {
    let at = |share: f64| optional_latency(histogram.quantile(share));
    safe!("p50 {}, p99 {}, max {}", at(0.5), at(0.99), optional_latency(histogram.max()))
}

/// Why the latencies of single requests are not known in this interval; `None` if they are, for devices that have requests.
pub fn obstacle(evaluation: &Evaluation) -> Option<SafeText> {
    let why = evaluation.interval.newer.block_latencies.as_ref().err()?;
    Some(match why {
        Absent::NotRead => "the probe is off".into(),
        Absent::NoPermission => "the probe needs root".into(),
        Absent::NoSuchFile => "no probe: the kernel has no BTF".into(),
        Absent::Unsupported => "the kernel refuses the probe".into(),
        why => safe!("no probe: {why}"),
    })
}
