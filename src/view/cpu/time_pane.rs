//! The CPU pane: how the CPU time was spent over time, and in the interval displayed.

use ratatui::layout::Rect;

use crate::findings::Evaluation;
use crate::safe;
use crate::state::State;
use crate::state::graph_columns::GraphColumns;
use crate::state::history::{CpuTime, GraphFigure};
use crate::state::layout::ScreenLayout;
use crate::state::recording_series::ValueRange;
use crate::view::cpu_segments::CpuTimeParts;
use crate::view::pane::Pane;
use crate::view::panes::{AXIS_WIDTH, figures_width, in_window, layer_style};
use crate::view::safe_line::SafeLine;
use crate::view::text::format_number;
use crate::view::theme::StyleRole;
use crate::view::widgets::range_column::PEAK;
use crate::view::widgets::stacked_area::{Layer, StackedArea};

/// The layers from the bottom: the kinds of CPU time, and the line up to the maximum.
const LAYERS: [(char, StyleRole); 6] = [
    ('█', StyleRole::User),
    ('▓', StyleRole::System),
    ('▒', StyleRole::Irq),
    ('╳', StyleRole::Steal),
    ('╱', StyleRole::Blocked),
    (PEAK, StyleRole::Dim),
];

pub fn draw(state: &State, evaluation: &Evaluation, _: &ScreenLayout, pane: &mut Pane) {
    let figures = figures_width(pane);
    let graph_width = pane.width().saturating_sub(2 + AXIS_WIDTH + figures);
    let columns = state.graph_columns(graph_width);
    let title = in_window("CPU", state, &columns);
    let mut inner = pane.framed(title, iowait_note(evaluation));
    if evaluation.interval.cpu.is_none() {
        inner.line(0, ("- /proc/stat cannot be read", StyleRole::Dim));
        return;
    }
    let area = inner.area();
    draw_axis(&mut inner);
    let layers = LAYERS.map(|(glyph, role)| Layer { glyph, style: layer_style(&inner, glyph, role) });
    let graph = Rect { x: area.x + AXIS_WIDTH, width: graph_width, ..area };
    inner.part(graph).render(StackedArea { columns: &shares(&columns), layers });
    let legend = Rect { x: graph.right() + 1, width: figures - 1, ..area };
    draw_legend(evaluation, &mut inner.part(legend));
    pane.time_axis(columns.axis(), graph);
}

/// The mean shares of each column, and above them what the interval with the least free time had more.
fn shares(columns: &GraphColumns) -> Vec<Option<[f32; 6]>> {
    let ranges = |time| columns.value_ranges(&GraphFigure::CpuTime(time));
    let [user, system, irq, steal, blocked] =
        [CpuTime::User, CpuTime::System, CpuTime::Irq, CpuTime::Steal, CpuTime::Blocked].map(ranges);
    let share = |of: &[Option<ValueRange>], at: usize| of.get(at).copied().flatten().map_or(0.0, |range| range.mean);
    let column = |(at, used): (usize, &Option<ValueRange>)| {
        let used = (*used)?;
        let peak = if columns.has_peaks { used.max - used.mean } else { 0.0 };
        Some([share(&user, at), share(&system, at), share(&irq, at), share(&steal, at), share(&blocked, at), peak])
    };
    ranges(CpuTime::NotFree).iter().enumerate().map(column).collect()
}

fn iowait_note(evaluation: &Evaluation) -> SafeLine {
    let iowait = evaluation.interval.idle_blocked.as_ref().and_then(|blocked| blocked.cross_checks.iowait);
    iowait.map_or_else(SafeLine::default, |iowait| {
        SafeLine::new(safe!("iowait says {} %", format_number(iowait * 100.0, 4)), StyleRole::Dim)
    })
}

/// Per cent of all CPUs, at the top, in the middle and at the bottom.
fn draw_axis(pane: &mut Pane) {
    let last = pane.height().saturating_sub(1);
    for (row, label) in [(0, " 100 %"), (last / 2, "  50 %"), (last, "   0 %")] {
        pane.line(row, (label, StyleRole::Dim));
    }
}

/// The figures of the interval, in the order of the layers from the top.
fn draw_legend(evaluation: &Evaluation, pane: &mut Pane) {
    let interval = &*evaluation.interval;
    let Some(span) = &interval.cpu else { return };
    let parts = CpuTimeParts::new(interval, span);
    let (least, most, blocked, free) = match &interval.idle_blocked {
        Some(blocked) if blocked.lower_bound => ("≥", "≤", Some(parts.blocked), Some(parts.free)),
        Some(_) => ("", "", Some(parts.blocked), Some(parts.free)),
        None => ("", "", None, None),
    };
    let thresholds = evaluation.thresholds();
    let blocked_role =
        if blocked.is_some_and(|ratio| ratio >= thresholds.blocked_ratio) { StyleRole::Critical } else { StyleRole::Bold };
    let steal_role = if parts.steal >= thresholds.stolen_ratio { StyleRole::Warning } else { StyleRole::Plain };
    let rows = [
        (('·', StyleRole::Free), "free", most, free, StyleRole::Bold),
        (('╱', StyleRole::Blocked), "blocked-idle", least, blocked, blocked_role),
        (('╳', StyleRole::Steal), "steal", "", Some(parts.steal), steal_role),
        (('▒', StyleRole::Irq), "irq", "", Some(parts.irq), StyleRole::Plain),
        (('▓', StyleRole::System), "system", "", Some(parts.system), StyleRole::Plain),
        (('█', StyleRole::User), "user", "", Some(parts.user), StyleRole::Plain),
    ];
    let row =
        |((glyph, glyph_role), label, bound, share, role): ((char, StyleRole), &'static str, &str, Option<f64>, StyleRole)| {
            let zero = share.is_some_and(|share| share <= 0.0);
            let value = share.map_or("-".into(), |share| safe!("{bound}{}%", format_number(share * 100.0, 4)));
            let mut line = SafeLine::default();
            line.push_glyphs([(glyph, glyph_role)]);
            line.push(safe!(" {label:<12}"), StyleRole::Dim);
            line.with(safe!(" {value:>7}"), if zero { StyleRole::Dim } else { role })
        };
    let cpus = format_number(parts.busy() * interval.online_cpus().max(1) as f64, 4);
    let busy = SafeLine::new("busy ", StyleRole::Dim)
        .with(safe!("{}%", format_number(parts.busy() * 100.0, 4)), StyleRole::Bold)
        .with(safe!(" = {cpus} CPUs"), StyleRole::Dim);
    let mut lines: Vec<SafeLine> = rows.into_iter().map(row).collect();
    if usize::from(pane.height()) > lines.len() {
        lines.push(busy);
    }
    // The shares add up to the whole.
    for (name, named) in [("other", parts.named_other()), ("hidden", parts.named_hidden())] {
        if let Some(share) = named.filter(|_| usize::from(pane.height()) > lines.len()) {
            lines.push(SafeLine::new(safe!("{name} {}%", format_number(share * 100.0, 4)), StyleRole::Dim));
        }
    }
    for (y, line) in (0..pane.height()).zip(lines) {
        pane.line(y, line);
    }
}
