//! Draws one time series as SVG: a horizontal line for each interval, at its mean value.
//!
//! The SVG is stretched to the width of the page. Labels are HTML beside it, since text in it would be stretched, too.

use std::fmt::Write;

use maud::{Markup, html};

use super::axis::{TimeAxis, ValueAxis};
use super::overlay::Overlay;
use crate::report::report_data::series_definitions::{ChartUnit, PlotStyle};
use crate::report::report_data::steps::Steps;
use crate::report::report_data::{Chart, Series};

/// The size of the drawing in its own units.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 160.0;

/// What all charts of a page have in common.
pub struct PlotContext<'a> {
    pub time: &'a TimeAxis,
    pub steps: &'a Steps,
    pub overlay: Overlay,
}

/// Steps without a gap: left and right edge, low and high value of each.
pub type Segment = Vec<(f64, f64, f64, f64)>;

impl PlotContext<'_> {
    /// A chart with its heading, its legend and its figures.
    pub fn render_chart(&self, chart: &Chart) -> Markup {
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
                div.plot tabindex="0" role="img" aria-label=(aria_label(chart)) {
                    svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) preserveAspectRatio="none" aria-hidden="true" {
                        @for value in axis.ticks() { path.grid d=(format!("M0 {:.1}H{WIDTH}", y_position(axis, value))) {} }
                        @for (index, series) in chart.series.iter().enumerate() { (self.render_series(chart, axis, index, series)) }
                    }
                    @for value in axis.ticks() {
                        span.value style=(format!("bottom:{:.2}%", axis.position(value) * 100.0)) { (tick_label(value, chart.unit)) }
                    }
                    (self.overlay.render())
                    div.cursor hidden {}
                }
                (self.time_labels())
            }
        }
    }

    /// The time of day below a plot.
    pub fn time_labels(&self) -> Markup {
        html! {
            div.clock aria-hidden="true" {
                @for (place, label) in self.time.ticks() { span style=(css_left(place)) { (label) } }
            }
        }
    }

    fn render_series(&self, chart: &Chart, axis: ValueAxis, index: usize, series: &Series) -> Markup {
        let class = css_class(index, series);
        match series.style {
            PlotStyle::Layer => {
                let below = |step| stack_base(chart, index, step);
                let runs = self.segments(|step| {
                    let low = below(step);
                    series.mean.get(step).copied().flatten().map(|value| (low, low + value))
                });
                html! { path class=(format!("layer {class}")) d=(area_path(axis, &runs)) {} }
            }
            PlotStyle::Line => {
                let runs = self.segments(|step| series.mean.get(step).copied().flatten().map(|value| (value, value)));
                let band =
                    self.segments(|step| series.mean.get(step).copied().flatten().zip(series.max.get(step).copied().flatten()));
                html! {
                    @if self.steps.intervals_per_step() > 1 { path class=(format!("band {class}")) d=(area_path(axis, &band)) {} }
                    path class=(format!("line {class}")) d=(step_path(|value| y_position(axis, value), &runs)) {}
                }
            }
            PlotStyle::Limit => {
                let runs = self.segments(|step| series.mean.get(step).copied().flatten().map(|value| (value, value)));
                html! { path class=(format!("limit {class}")) d=(step_path(|value| y_position(axis, value), &runs)) {} }
            }
            // With one interval per step the maximum is the top of the layers.
            PlotStyle::Peak if self.steps.intervals_per_step() == 1 => html! {},
            PlotStyle::Peak => {
                let runs = self.segments(|step| series.max.get(step).copied().flatten().map(|value| (value, value)));
                html! { path class=(format!("peak {class}")) d=(step_path(|value| y_position(axis, value), &runs)) {} }
            }
        }
    }

    /// Known values, in segments without a gap.
    fn segments(&self, of: impl Fn(usize) -> Option<(f64, f64)>) -> Vec<Segment> {
        let mut runs: Vec<Segment> = Vec::new();
        let mut end = None;
        for (index, step) in self.steps.iter().enumerate() {
            let Some((low, high)) = of(index) else {
                end = None;
                continue;
            };
            let piece = (self.time.position(step.from) * WIDTH, self.time.position(step.to) * WIDTH, low, high);
            match runs.last_mut().filter(|_| end == Some(step.from)) {
                Some(run) => run.push(piece),
                None => runs.push(vec![piece]),
            }
            end = Some(step.to);
        }
        runs
    }
}

/// All steps for the script: left edge, right edge, time of day at the end.
pub fn step_times_json(steps: &Steps, time: &TimeAxis) -> String {
    let place = |share: f64| (share * 1e5).round() / 1e5;
    let all: Vec<(f64, f64, String)> = steps
        .iter()
        .map(|step| (place(time.position(step.from)), place(time.position(step.to)), time.format_time(step.to)))
        .collect();
    serde_json::to_string(&all).unwrap_or_default()
}

pub fn css_left(place: f64) -> String {
    format!("left:{:.3}%", place * 100.0)
}

fn legend(chart: &Chart, index: usize, series: &Series) -> Markup {
    let overall = format_optional(series.overall, chart.unit);
    html! {
        li {
            (legend_key(series.style, &css_class(index, series)))
            span.name { (series.label) }
            " "
            output data-series=(index) data-mean=(overall) { (overall) }
            @if !matches!(series.style, PlotStyle::Limit) { small { " peak " (format_optional(series.peak, chart.unit)) } }
        }
    }
}

/// The legend's symbol. Not a background: browsers do not print patterns of backgrounds.
pub fn legend_key(style: PlotStyle, color_class: &str) -> Markup {
    let (word, shape) = match style {
        PlotStyle::Layer => ("layer", "M0 1H14V13H0Z"),
        PlotStyle::Line => ("line", "M0 7H14"),
        PlotStyle::Peak => ("peak", "M0 7H14"),
        PlotStyle::Limit => ("limit", "M0 7H16"),
    };
    html! {
        svg.key aria-hidden="true" { path class=(format!("{word} {color_class}")) d=(shape) {} }
    }
}

/// The chart as a sentence for screen readers.
fn aria_label(chart: &Chart) -> String {
    let words = |value| format_optional(value, chart.unit);
    let figures = chart
        .series
        .iter()
        .map(|series| format!("{}: mean {}, peak {}", series.label, words(series.overall), words(series.peak)));
    format!("{}. {}.", chart.title, figures.collect::<Vec<_>>().join("; "))
}

/// The CSS class with the colour of a series.
fn css_class(index: usize, series: &Series) -> String {
    if series.name == "cpus" { format!("command{index}") } else { series.name.to_owned() }
}

fn format_optional(value: Option<f64>, unit: ChartUnit) -> String {
    value.map_or_else(|| "-".to_owned(), |value| unit.format(value))
}

/// The label of a grid line, without needless zeros.
pub fn tick_label(value: f64, unit: ChartUnit) -> String {
    let text = match unit {
        // Half of a round top below 1 has more than two decimals: 0.075 is not 0.08.
        ChartUnit::Threads | ChartUnit::Cpus if value < 1.0 => format!("{value:.6}"),
        _ => unit.format(value),
    };
    // 100 ms, not 100.0 ms; 0 %, not 0.00 %.
    match text.split_once(' ') {
        Some((number, unit)) => format!("{} {unit}", trim_zeros(number)),
        None => trim_zeros(&text).to_owned(),
    }
}

fn trim_zeros(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

fn value_axis(chart: &Chart) -> ValueAxis {
    if let Some(whole) = chart.fixed_max {
        return ValueAxis::Linear(whole);
    }
    let all = || chart.series.iter().flat_map(|series| series.max.iter().chain(&series.mean)).flatten().copied();
    if chart.logarithmic {
        let above = || all().filter(|value| *value > 0.0);
        let (least, most) = (above().fold(f64::INFINITY, f64::min), above().fold(0.0, f64::max));
        if most > 0.0 {
            return ValueAxis::logarithmic(least, most);
        }
    }
    let steps = chart.series.first().map_or(0, |series| series.mean.len());
    let stacked = (0..steps).map(|step| stack_base(chart, chart.series.len(), step)).fold(0.0, f64::max);
    let lines = chart.series.iter().filter(|series| series.style != PlotStyle::Layer);
    let highest = lines.flat_map(|series| series.max.iter()).flatten().copied().fold(0.0, f64::max);
    let most = stacked.max(highest);
    linear_axis(most, chart.unit)
}

/// Round in the unit that the labels are in.
fn linear_axis(most: f64, unit: ChartUnit) -> ValueAxis {
    let unit = match unit {
        // A thousand KiB would be written 0.98 MiB.
        ChartUnit::Bytes | ChartUnit::BytesPerSecond if most >= 1.0 => {
            let unit = 1024_f64.powi((libm::log2(most) / 10.0).floor() as i32);
            if most / unit > 800.0 { unit * 1024.0 } else { unit }
        }
        _ => 1.0,
    };
    ValueAxis::linear(most / unit, unit)
}

/// The sum of the layers below that one.
fn stack_base(chart: &Chart, index: usize, step: usize) -> f64 {
    let below = chart.series.iter().take(index).filter(|series| series.style == PlotStyle::Layer);
    below.filter_map(|series| series.mean.get(step).copied().flatten()).sum()
}

fn y_position(axis: ValueAxis, value: f64) -> f64 {
    HEIGHT - axis.position(value) * HEIGHT
}

/// The high values as horizontal lines, by the position of a value. Writing to a String cannot fail.
pub fn step_path(y: impl Fn(f64) -> f64, runs: &[Segment]) -> String {
    let mut path = String::new();
    for run in runs {
        for (at, (left, right, _, high)) in run.iter().enumerate() {
            let height = y(*high);
            let _ = match at {
                0 => write!(path, "M{left:.1} {height:.1}H{right:.1}"),
                _ => write!(path, "V{height:.1}H{right:.1}"),
            };
        }
    }
    path
}

fn area_path(axis: ValueAxis, runs: &[Segment]) -> String {
    let mut path = String::new();
    for run in runs {
        path.push_str(&step_path(|value| y_position(axis, value), std::slice::from_ref(run)));
        for (left, _, low, _) in run.iter().rev() {
            let _ = write!(path, "V{:.1}H{left:.1}", y_position(axis, *low));
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
        let of = |most: f64, unit: ChartUnit| {
            linear_axis(most, unit).ticks().into_iter().map(|value| tick_label(value, unit)).collect::<Vec<_>>()
        };
        assert_eq!(of(0.14, ChartUnit::Cpus), ["0", "0.075", "0.15"]);
        assert_eq!(of(0.009, ChartUnit::Threads), ["0", "0.005", "0.01"]);
        assert_eq!(of(63.0, ChartUnit::Threads), ["0", "40", "80"]);
        assert_eq!(of(976.0 * 1024.0, ChartUnit::BytesPerSecond), ["0 B/s", "512 KiB/s", "1 MiB/s"]);
        assert_eq!(of(700.0 * 1024.0, ChartUnit::Bytes), ["0 B", "400 KiB", "800 KiB"]);
        assert_eq!(tick_label(0.5, ChartUnit::Ratio), "50 %");
        assert_eq!(tick_label(0.1, ChartUnit::Seconds), "100 ms");
    }
}
