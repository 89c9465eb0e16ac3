//! One chart as SVG. A flat piece is one step: a rate is the mean over its time, nothing is drawn in between.
//!
//! The drawing is stretched to the width of the page; text stands beside it, so that it never is.

use std::fmt::Write;

use maud::{Markup, html};

use super::axis::{TimeAxis, ValueAxis};
use crate::report::chronicle::curves::{Form, Unit};
use crate::report::chronicle::steps::Steps;
use crate::report::chronicle::{Chart, Hole, Mark, Series};
use crate::report::text::printable;
use crate::report::words::quantity;

/// Units of the drawing, which is stretched.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 160.0;

/// What all charts of a page share.
pub struct Frame<'a> {
    pub time: &'a TimeAxis,
    pub steps: &'a Steps,
    pub holes: &'a [Hole],
    pub marks: &'a [Mark],
}

/// A stretch of steps without a hole: the left and right edge of each, and its low and high value.
type Run = Vec<(f64, f64, f64, f64)>;

impl Frame<'_> {
    /// A chart with its heading, its legend and its figures.
    pub fn figure(&self, chart: &Chart) -> Markup {
        let axis = value_axis(chart);
        let title = format!("title-{}", chart.id);
        html! {
            figure.chart data-chart=(serde_json::to_string(chart).unwrap_or_default()) aria-labelledby=(title) {
                figcaption {
                    h3 id=(title) { (chart.title) }
                    ul.legend {
                        @for (index, series) in chart.series.iter().enumerate() { (legend(chart, index, series)) }
                    }
                }
                div.plot tabindex="0" role="img" aria-label=(spoken(chart)) {
                    svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) preserveAspectRatio="none" aria-hidden="true" {
                        @for value in axis.ticks() { path.grid d=(format!("M0 {:.1}H{WIDTH}", y(axis, value))) {} }
                        @for (index, series) in chart.series.iter().enumerate() { (self.drawn(chart, axis, index, series)) }
                    }
                    @for value in axis.ticks() {
                        span.value style=(format!("bottom:{:.2}%", axis.place(value) * 100.0)) { (tick(value, chart.unit)) }
                    }
                    (self.overlay())
                    div.cursor hidden {}
                }
                (self.clock_row())
            }
        }
    }

    /// The time of day below a plot.
    pub fn clock_row(&self) -> Markup {
        html! {
            div.clock aria-hidden="true" {
                @for (place, label) in self.time.ticks() { span style=(left(place)) { (label) } }
            }
        }
    }

    /// Holes as hatched bands, marks as lines.
    pub fn overlay(&self) -> Markup {
        html! {
            @for hole in self.holes {
                @let (from, to) = (self.time.place(hole.from), self.time.place(hole.to));
                div.hole style=(format!("{};width:{:.3}%", left(from), (to - from).max(0.001) * 100.0)) title=(printable(&hole.why)) {
                    svg aria-hidden="true" { rect width="100%" height="100%" {} }
                }
            }
            @for mark in self.marks {
                div.mark style=(left(self.time.place(mark.at))) title=(printable(&mark.text)) {}
            }
        }
    }

    fn drawn(&self, chart: &Chart, axis: ValueAxis, index: usize, series: &Series) -> Markup {
        let class = ink(index, series);
        match series.form {
            Form::Layer => {
                let below = |step| layers_below(chart, index, step);
                let runs = self.runs(|step| {
                    let low = below(step);
                    series.mean.get(step).copied().flatten().map(|value| (low, low + value))
                });
                html! { path class=(format!("layer {class}")) d=(area(axis, &runs)) {} }
            }
            Form::Line => {
                let runs = self.runs(|step| series.mean.get(step).copied().flatten().map(|value| (value, value)));
                let band =
                    self.runs(|step| series.mean.get(step).copied().flatten().zip(series.max.get(step).copied().flatten()));
                html! {
                    @if self.steps.each() > 1 { path class=(format!("band {class}")) d=(area(axis, &band)) {} }
                    path class=(format!("line {class}")) d=(outline(axis, &runs)) {}
                }
            }
            Form::Limit => {
                let runs = self.runs(|step| series.mean.get(step).copied().flatten().map(|value| (value, value)));
                html! { path class=(format!("limit {class}")) d=(outline(axis, &runs)) {} }
            }
            // Where a step is one interval it is the top of the layers.
            Form::Peak if self.steps.each() == 1 => html! {},
            Form::Peak => {
                let runs = self.runs(|step| series.max.get(step).copied().flatten().map(|value| (value, value)));
                html! { path class=(format!("peak {class}")) d=(outline(axis, &runs)) {} }
            }
        }
    }

    /// What is known, in stretches without a hole.
    fn runs(&self, of: impl Fn(usize) -> Option<(f64, f64)>) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let mut end = None;
        for (index, step) in self.steps.iter().enumerate() {
            let Some((low, high)) = of(index) else {
                end = None;
                continue;
            };
            let piece = (self.time.place(step.from) * WIDTH, self.time.place(step.to) * WIDTH, low, high);
            match runs.last_mut().filter(|_| end == Some(step.from)) {
                Some(run) => run.push(piece),
                None => runs.push(vec![piece]),
            }
            end = Some(step.to);
        }
        runs
    }
}

/// The places and times of all steps, for the script: left edge, right edge, time of day at its end.
pub fn moments(steps: &Steps, time: &TimeAxis) -> String {
    let place = |share: f64| (share * 1e5).round() / 1e5;
    let all: Vec<(f64, f64, String)> =
        steps.iter().map(|step| (place(time.place(step.from)), place(time.place(step.to)), time.clock(step.to))).collect();
    serde_json::to_string(&all).unwrap_or_default()
}

pub fn left(place: f64) -> String {
    format!("left:{:.3}%", place * 100.0)
}

fn legend(chart: &Chart, index: usize, series: &Series) -> Markup {
    let overall = quantity_of(series.overall, chart.unit);
    html! {
        li {
            (key(series.form, &ink(index, series)))
            span.name { (series.label) }
            " "
            output data-series=(index) data-mean=(overall) { (overall) }
            @if !matches!(series.form, Form::Limit) { small { " peak " (quantity_of(series.peak, chart.unit)) } }
        }
    }
}

/// As it is drawn in the chart. No background: browsers leave patterns of those out on paper.
fn key(form: Form, ink: &str) -> Markup {
    let (word, shape) = match form {
        Form::Layer => ("layer", "M0 1H14V13H0Z"),
        Form::Line => ("line", "M0 7H14"),
        Form::Peak => ("peak", "M0 7H14"),
        Form::Limit => ("limit", "M0 7H16"),
    };
    html! {
        svg.key aria-hidden="true" { path class=(format!("{word} {ink}")) d=(shape) {} }
    }
}

/// The chart in a sentence, for who cannot see it.
fn spoken(chart: &Chart) -> String {
    let words = |value| quantity_of(value, chart.unit);
    let figures = chart
        .series
        .iter()
        .map(|series| format!("{}: mean {}, peak {}", series.label, words(series.overall), words(series.peak)));
    format!("{}. {}.", chart.title, figures.collect::<Vec<_>>().join("; "))
}

/// The class that a series has its colour from.
fn ink(index: usize, series: &Series) -> String {
    if series.name == "cpus" { format!("command{index}") } else { series.name.to_owned() }
}

fn quantity_of(value: Option<f64>, unit: Unit) -> String {
    value.map_or_else(|| "-".to_owned(), |value| quantity(value, unit))
}

/// As short as a label beside an axis must be.
fn tick(value: f64, unit: Unit) -> String {
    let text = match unit {
        // Half of a round top below 1 has more than two decimals: 0.075 is not 0.08.
        Unit::Threads | Unit::Cpus if value < 1.0 => format!("{value:.6}"),
        _ => quantity(value, unit),
    };
    // 100 ms, not 100.0 ms; 0 %, not 0.00 %.
    match text.split_once(' ') {
        Some((number, unit)) => format!("{} {unit}", short(number)),
        None => short(&text).to_owned(),
    }
}

fn short(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

fn value_axis(chart: &Chart) -> ValueAxis {
    if let Some(whole) = chart.whole {
        return ValueAxis::Linear(whole);
    }
    let all = || chart.series.iter().flat_map(|series| series.max.iter().chain(&series.mean)).flatten().copied();
    if chart.logarithmic {
        let above = || all().filter(|value| *value > 0.0);
        let (least, most) = (above().fold(f64::INFINITY, f64::min), above().fold(0.0, f64::max));
        if most > 0.0 {
            return ValueAxis::decades(least, most);
        }
    }
    let steps = chart.series.first().map_or(0, |series| series.mean.len());
    let stacked = (0..steps).map(|step| layers_below(chart, chart.series.len(), step)).fold(0.0, f64::max);
    let lines = chart.series.iter().filter(|series| series.form != Form::Layer);
    let highest = lines.flat_map(|series| series.max.iter()).flatten().copied().fold(0.0, f64::max);
    let most = stacked.max(highest);
    round_axis(most, chart.unit)
}

/// Round in the unit that the labels are in.
fn round_axis(most: f64, unit: Unit) -> ValueAxis {
    let unit = match unit {
        // A thousand KiB would be written 0.98 MiB.
        Unit::Bytes | Unit::BytesPerSecond if most >= 1.0 => {
            let unit = 1024_f64.powi((libm::log2(most) / 10.0).floor() as i32);
            if most / unit > 800.0 { unit * 1024.0 } else { unit }
        }
        _ => 1.0,
    };
    ValueAxis::linear(most / unit, unit)
}

/// The layers before that one, together.
fn layers_below(chart: &Chart, index: usize, step: usize) -> f64 {
    let below = chart.series.iter().take(index).filter(|series| series.form == Form::Layer);
    below.filter_map(|series| series.mean.get(step).copied().flatten()).sum()
}

fn y(axis: ValueAxis, value: f64) -> f64 {
    HEIGHT - axis.place(value) * HEIGHT
}

/// Into memory: writing cannot fail.
fn outline(axis: ValueAxis, runs: &[Run]) -> String {
    let mut path = String::new();
    for run in runs {
        for (at, (left, right, _, high)) in run.iter().enumerate() {
            let height = y(axis, *high);
            let _ = match at {
                0 => write!(path, "M{left:.1} {height:.1}H{right:.1}"),
                _ => write!(path, "V{height:.1}H{right:.1}"),
            };
        }
    }
    path
}

fn area(axis: ValueAxis, runs: &[Run]) -> String {
    let mut path = String::new();
    for run in runs {
        path.push_str(&outline(axis, std::slice::from_ref(run)));
        for (left, _, low, _) in run.iter().rev() {
            let _ = write!(path, "V{:.1}H{left:.1}", y(axis, *low));
        }
        path.push('Z');
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_beside_a_line_is_its_value() {
        let of = |most: f64, unit: Unit| {
            round_axis(most, unit).ticks().into_iter().map(|value| tick(value, unit)).collect::<Vec<_>>()
        };
        assert_eq!(of(0.14, Unit::Cpus), ["0", "0.075", "0.15"]);
        assert_eq!(of(0.009, Unit::Threads), ["0", "0.005", "0.01"]);
        assert_eq!(of(63.0, Unit::Threads), ["0", "40", "80"]);
        assert_eq!(of(976.0 * 1024.0, Unit::BytesPerSecond), ["0 B/s", "512 KiB/s", "1 MiB/s"]);
        assert_eq!(of(700.0 * 1024.0, Unit::Bytes), ["0 B", "400 KiB", "800 KiB"]);
        assert_eq!(tick(0.5, Unit::Ratio), "50 %");
        assert_eq!(tick(0.1, Unit::Seconds), "100 ms");
    }
}
