//! Draws how long the requests of a disk took over time: a column for each piece of time, a row for latencies of about the same
//! length, a shade for the number of requests, and the quantiles as lines on top.

mod scales;

use std::collections::BTreeMap;
use std::fmt::Write;

use maud::{Markup, html};

use super::overlay::hatched_band;
use super::plot::{PlotContext, Segment, legend_key, step_path, tick_label};
use crate::interval::latency_histogram::LatencyHistogram;
use crate::report::formatting::{latency, pluralize, short_number};
use crate::report::report_data::latency_maps::{Column, LatencyMap, MAX_DISKS};
use crate::report::report_data::series_definitions::{ChartUnit, PlotStyle};
use crate::report::report_data::steps::Step;
use crate::report::report_data::{Chart, ReportData};
use crate::sample::Instant;
use crate::sample::disk::Operation;
use crate::units::SmallSort;
use crate::units::format::plural;
use scales::{Rows, Shades};

/// Bytes of all maps of a page at most.
const MAX_BYTES: usize = 200_000;

/// The width of a drawing in its own units, of which each is half a pixel. Its height is one unit per row.
const WIDTH: f64 = 2000.0;

/// The height of a drawing, and of its rows, in pixels.
const HEIGHT: usize = 200;
const MAX_ROW_HEIGHT: usize = 12;

/// The lines: share of the requests, and name.
const QUANTILES: [(f64, &str); 2] = [(0.5, "p50"), (0.99, "p99")];

/// The maps of a page.
pub struct RenderedMaps {
    pub drawn: Vec<RenderedMap>,
    /// Maps that would have made the page too large
    left_out: usize,
    /// Disks whose requests were measured, and of which no map was kept
    disks_left_out: usize,
}

pub struct RenderedMap {
    /// Index of the chart that it belongs to
    pub chart: usize,
    operation: Operation,
    steps_per_column: usize,
    pub markup: Markup,
}

impl RenderedMaps {
    /// What the maps mean, and how many are left out.
    pub fn notes(&self, frame: &PlotContext) -> Markup {
        let intervals = |steps: usize| pluralize(steps * frame.steps.intervals_per_step(), "interval");
        let drawn = self.drawn.first().map(|drawn| intervals(drawn.steps_per_column));
        html! {
            @if drawn.is_some() || self.left_out > 0 || self.disks_left_out > 0 {
                p.note {
                    @if self.disks_left_out > 0 {
                        "Latencies of " (pluralize(self.disks_left_out, "more disk")) ": measured, not drawn; only those of the first "
                        (MAX_DISKS) " disks are kept. "
                    }
                    @if self.left_out > 0 { (pluralize(self.left_out, "more map")) " of latency: not drawn, the page would be too large. " }
                    @if let Some(intervals) = drawn {
                        "In a map of latency a column is " (intervals) ", and a cell has the requests that completed in it and took about"
                        " that long, queue included; eBPF measured each. Point at a column to read its figures. Hatched: requests that were"
                        " not measured."
                    }
                }
            }
        }
    }
}

/// The maps of these charts, those with the most requests first, as far as they fit into `MAX_BYTES`; in the order of the charts.
pub fn render_all(frame: &PlotContext, data: &ReportData, charts: &[Chart]) -> RenderedMaps {
    let of_disks = charts.iter().enumerate().filter_map(|(index, chart)| Some((index, chart.disk?)));
    let mut maps: Vec<(usize, LatencyMap)> =
        of_disks.flat_map(|(index, disk)| data.latency_maps(disk).into_iter().map(move |map| (index, map))).collect();
    maps.small_sort_by(|a, b| b.1.total.requests().cmp(&a.1.total.requests()));
    let mut room = MAX_BYTES;
    let rendered = maps.iter().map_while(|(chart, map)| {
        let markup = render(frame, map)?;
        room = room.checked_sub(markup.0.len())?;
        Some(RenderedMap { chart: *chart, operation: map.operation, steps_per_column: map.steps_per_column, markup })
    });
    let mut drawn: Vec<RenderedMap> = rendered.collect();
    drawn.small_sort_by(|a, b| (a.chart, a.operation).cmp(&(b.chart, b.operation)));
    RenderedMaps { left_out: maps.len() - drawn.len(), drawn, disks_left_out: data.disks_without_latency_map() }
}

/// A column of a drawing.
struct DrawnColumn<'a> {
    column: &'a Column,
    from: Instant,
    to: Instant,
    /// Left and right edges of its time; several if there are gaps in it
    pieces: Vec<(i32, i32)>,
    /// Requests by row, from the bottom
    rows: Vec<u64>,
    /// Its number, from 0: the script finds it by that
    number: usize,
}

/// A map with its heading and its legend; `None` without requests.
fn render(frame: &PlotContext, map: &LatencyMap) -> Option<Markup> {
    let rows = Rows::new(&map.total)?;
    let columns = drawn_columns(frame, map, rows);
    let shades = Shades::new(columns.iter().flat_map(|column| &column.rows).copied().max().unwrap_or(0));
    let height = rows.count() * (HEIGHT / rows.count()).clamp(1, MAX_ROW_HEIGHT);
    let title = format!("title-{}", map.id);
    let whole = match map.columns.iter().map(|column| column.unmeasured).fold(0, u64::saturating_add) {
        0 => in_words(map.operation, &map.total),
        unmeasured => format!("{}; {} not measured", in_words(map.operation, &map.total), short_count(unmeasured)),
    };
    let y = |position: f64| rows.count() as f64 - position;
    Some(html! {
        figure.chart.map aria-labelledby=(title) data-steps=(map.steps_per_column) {
            figcaption {
                h3 id=(title) { (map.title) }
                ul.legend {
                    @for (_, name) in QUANTILES { li { (legend_key(PlotStyle::Line, name)) span.name { (name) } } }
                    li.shades {
                        span.name { "requests in a cell, at least" }
                        @for (level, least) in shades.levels.iter().enumerate() {
                            span { (legend_key(PlotStyle::Layer, &format!("s{}", shades.of_level(level)))) (round_count(*least)) }
                        }
                    }
                }
                output.readout data-mean=(whole) { (whole) }
            }
            div.plot tabindex="0" role="img" aria-label=(format!("{}. {whole}.", map.title)) style=(format!("height:{height}px")) {
                svg viewBox=(format!("0 0 {WIDTH} {}", rows.count())) preserveAspectRatio="none" aria-hidden="true" {
                    @for tick in rows.ticks() { path.grid d=(format!("M0 {:.2}H{WIDTH}", y(rows.position(tick)))) {} }
                    // Cells are strokes through the middles of the rows.
                    g.cells transform="translate(0 .5)" {
                        @for (shade, path) in cell_paths(&columns, rows, &shades) { path class=(format!("s{shade}")) d=(path) {} }
                    }
                    @for (share, name) in QUANTILES {
                        @let path = step_path(y, &quantile_segments(&columns, rows, share));
                        path.halo d=(path) {}
                        path class=(format!("line {name}")) d=(path) {}
                    }
                    g.columns {
                        @for column in &columns { (hover_text(frame, map.operation, column, rows)) }
                    }
                }
                @for tick in rows.ticks() {
                    @let bottom = rows.position(tick) / rows.count() as f64 * 100.0;
                    span.value style=(format!("bottom:{bottom:.2}%")) { (tick_label(tick.0 / 1000.0, ChartUnit::Seconds)) }
                }
                @for (left, right) in unmeasured_bands(&columns) {
                    (hatched_band(f64::from(left) / WIDTH, f64::from(right) / WIDTH, "latencies not measured"))
                }
                (frame.overlay.render())
                div.cursor hidden {}
            }
            (frame.time_labels())
        }
    })
}

fn drawn_columns<'a>(frame: &PlotContext, map: &LatencyMap<'a>, rows: Rows) -> Vec<DrawnColumn<'a>> {
    let steps: Vec<Step> = frame.steps.iter().copied().collect();
    let place = |at: Instant| (frame.time.position(at) * WIDTH).round() as i32;
    let of_steps = |(number, (steps, column)): (usize, (&[Step], &'a Column))| {
        let mut counts = vec![0_u64; rows.count()];
        for (bucket, requests) in column.latencies.buckets() {
            if let Some(count) = counts.get_mut(rows.row(bucket)) {
                *count = count.saturating_add(requests);
            }
        }
        let pieces = steps.chunk_by(|earlier, later| earlier.to == later.from).filter_map(|run| {
            let left = place(run.first()?.from);
            Some((left, place(run.last()?.to).max(left + 1)))
        });
        let (from, to) = (steps.first()?.from, steps.last()?.to);
        Some(DrawnColumn { column, from, to, pieces: pieces.collect(), rows: counts, number })
    };
    steps.chunks(map.steps_per_column).zip(map.columns).enumerate().filter_map(of_steps).collect()
}

impl DrawnColumn<'_> {
    fn is_measured(&self) -> bool {
        self.column.latencies.requests() > 0
    }

    fn is_unmeasured(&self) -> bool {
        !self.is_measured() && self.column.unmeasured > 0
    }

    /// `12:03:15 to 12:03:18, 1234 reads: p50 0.20 ms, p99 1.10 ms, max 9.00 ms`
    fn in_words(&self, frame: &PlotContext, operation: Operation) -> String {
        let time = format!("{} to {}", frame.time.format_time(self.from), frame.time.format_time(self.to));
        let unmeasured = plural(short_count(self.column.unmeasured), operation.as_str(), operation.plural());
        match (self.is_measured(), self.column.unmeasured) {
            (true, 0) => format!("{time}, {}", in_words(operation, &self.column.latencies)),
            (true, _) => format!("{time}, {}; {unmeasured} not measured", in_words(operation, &self.column.latencies)),
            (false, _) => format!("{time}, {unmeasured}: latencies not measured"),
        }
    }
}

/// An invisible rectangle over the column, for its figures in words.
fn hover_text(frame: &PlotContext, operation: Operation, column: &DrawnColumn, rows: Rows) -> Markup {
    let edges = column.pieces.first().zip(column.pieces.last());
    html! {
        @if let Some(((left, _), (_, right))) = edges.filter(|_| column.is_measured() || column.is_unmeasured()) {
            rect data-column=(column.number) x=(left) width=(right - left) height=(rows.count()) { title { (column.in_words(frame, operation)) } }
        }
    }
}

/// A path for each shade that occurs: cells of one row and shade that touch are one stroke. Coordinates are relative, which takes
/// half the bytes.
fn cell_paths(columns: &[DrawnColumn], rows: Rows, shades: &Shades) -> BTreeMap<usize, String> {
    let mut paths: BTreeMap<usize, (String, i32, i32)> = BTreeMap::new();
    for (y, row) in (0_i32..).zip((0..rows.count()).rev()) {
        let shade = |column: &DrawnColumn| column.rows.get(row).and_then(|requests| shades.shade(*requests));
        let cells = columns.iter().filter_map(|column| Some((shade(column)?, column)));
        let mut strokes = cells.flat_map(|(shade, column)| column.pieces.iter().map(move |edges| (shade, *edges))).peekable();
        while let Some((shade, (left, mut right))) = strokes.next() {
            while let Some((_, (_, end))) = strokes.next_if(|next| next.0 == shade && next.1.0 <= right) {
                right = end;
            }
            let (path, end_x, end_y) = paths.entry(shade).or_default();
            let _ = write!(path, "m{} {}h{}", left - *end_x, y - *end_y, right - left);
            (*end_x, *end_y) = (right, y);
        }
    }
    paths.into_iter().map(|(shade, (path, ..))| (shade, path)).collect()
}

/// Time with requests of which none was measured: left and right edges.
fn unmeasured_bands(columns: &[DrawnColumn]) -> Vec<(i32, i32)> {
    let mut bands: Vec<(i32, i32)> = Vec::new();
    for &(left, right) in columns.iter().filter(|column| column.is_unmeasured()).flat_map(|column| &column.pieces) {
        match bands.last_mut().filter(|band| band.1 >= left) {
            Some(band) => band.1 = right,
            None => bands.push((left, right)),
        }
    }
    bands
}

/// The quantile of each column, in rows from the bottom.
fn quantile_segments(columns: &[DrawnColumn], rows: Rows, share: f64) -> Vec<Segment> {
    let mut segments: Vec<Segment> = Vec::new();
    for column in columns {
        let Some(position) = column.column.latencies.quantile(share).map(|latency| rows.position(latency)) else { continue };
        for &(left, right) in &column.pieces {
            let piece = (f64::from(left), f64::from(right), position, position);
            match segments.last_mut().filter(|segment| segment.last().is_some_and(|last| last.1 >= piece.0)) {
                Some(segment) => segment.push(piece),
                None => segments.push(vec![piece]),
            }
        }
    }
    segments
}

/// `1234 reads: p50 0.20 ms, p99 1.10 ms, max 9.00 ms`
fn in_words(operation: Operation, latencies: &LatencyHistogram) -> String {
    let requests = plural(short_count(latencies.requests()), operation.as_str(), operation.plural());
    let [p50, p99, max] = [latencies.quantile(0.5), latencies.quantile(0.99), latencies.max()]
        .map(|known| known.map_or_else(|| "-".to_owned(), latency));
    format!("{requests}: p50 {p50}, p99 {p99}, max {max}")
}

/// A round number: `3000`, `10k`
fn round_count(count: u64) -> String {
    match count {
        0..10_000 => count.to_string(),
        10_000..1_000_000 => format!("{}k", count / 1000),
        1_000_000..1_000_000_000 => format!("{}M", count / 1_000_000),
        _ => format!("{}G", count / 1_000_000_000),
    }
}

/// `1234`, `12.3k`
fn short_count(count: u64) -> String {
    if count < 10_000 { count.to_string() } else { short_number(count as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn<'a>(column: &'a Column, rows: Rows, pieces: &[(i32, i32)]) -> DrawnColumn<'a> {
        let mut counts = vec![0; rows.count()];
        column.latencies.buckets().for_each(|(bucket, requests)| counts[rows.row(bucket)] += requests);
        let (from, to) = (Instant::default(), Instant::default());
        DrawnColumn { column, from, to, pieces: pieces.to_vec(), rows: counts, number: 0 }
    }

    fn column(counts: &[(u8, u64)]) -> Column {
        Column { latencies: LatencyHistogram::new(counts.iter().copied()), unmeasured: 0 }
    }

    #[test]
    fn cells_of_one_shade_that_touch_are_one_stroke() {
        let data = [column(&[(80, 1)]), column(&[(80, 1), (82, 5)]), column(&[(80, 1)]), column(&[(80, 4), (82, 1)])];
        let rows = Rows::new(&LatencyHistogram::sum(data.iter().map(|column| &column.latencies))).unwrap();
        // Bucket 80 is the 7th row of 16 from the bottom; the third column has a gap in it, the fourth follows it.
        let pieces: [&[(i32, i32)]; 4] = [&[(0, 10)], &[(10, 20)], &[(20, 25), (28, 30)], &[(30, 40)]];
        let columns: Vec<_> = data.iter().zip(pieces).map(|(column, pieces)| drawn(column, rows, pieces)).collect();
        let paths = cell_paths(&columns, rows, &Shades::new(5));
        assert_eq!((rows.count(), rows.row(80)), (16, 6));
        assert_eq!(paths, BTreeMap::from([(0, "m30 7h10m-40 2h25m3 0h2".to_owned()), (9, "m10 7h10m10 2h10".to_owned()),]));
    }

    #[test]
    fn lines_are_broken_where_there_are_no_requests() {
        let data = [column(&[(80, 99), (90, 1)]), column(&[(80, 1)]), column(&[]), column(&[(90, 7)])];
        let rows = Rows::new(&data[0].latencies).unwrap();
        let columns: Vec<_> =
            (0..).step_by(10).zip(&data).map(|(left, column)| drawn(column, rows, &[(left, left + 10)])).collect();
        let at = |bucket| rows.row(bucket) as f64 + 0.5;
        let (low, high) = (at(80), at(90));
        let line = |left: f64, y: f64| (left, left + 10.0, y, y);
        assert_eq!(quantile_segments(&columns, rows, 0.99), [vec![line(0.0, low), line(10.0, low)], vec![line(30.0, high)]]);
        assert_eq!(quantile_segments(&columns, rows, 1.0)[0], [line(0.0, high), line(10.0, low)]);
    }

    #[test]
    fn words_have_the_figures() {
        let histogram = LatencyHistogram::new([(80, 12_345), (160, 1)]);
        assert_eq!(in_words(Operation::Flush, &histogram), "12.3k flushes: p50 557 µs, p99 557 µs, max 570 ms");
        assert_eq!(in_words(Operation::Read, &LatencyHistogram::new([(80, 1)])), "1 read: p50 557 µs, p99 557 µs, max 557 µs");
        assert_eq!([1, 3000, 30_000, 1_000_000].map(round_count), ["1", "3000", "30k", "1M"]);
    }
}
