//! The pane of load averages, memory and pressure stall information.

use super::load_parts;
use super::memory_line::memory_parts;
use crate::findings::Evaluation;
use crate::safe;
use crate::sample::Reading;
use crate::sample::pressure::Stall;
use crate::state::State;
use crate::state::history::{GraphFigure, MemoryShare};
use crate::state::layout::ScreenLayout;
use crate::units::Ratio;
use crate::view::pane::Pane;
use crate::view::safe_line::SafeLine;
use crate::view::text::format_number;
use crate::view::theme::StyleRole;
use crate::view::time_cells::TimeCells;

pub fn draw(state: &State, evaluation: &Evaluation, _: &ScreenLayout, pane: &mut Pane) {
    let mut inner = pane.framed(("Load, memory, pressure", StyleRole::Bold), SafeLine::default());
    let width = usize::from(inner.width());
    let mut lines = Vec::new();
    for (heading, parts) in [("LOAD ", load_parts(evaluation)), ("MEM  ", memory_parts(evaluation))] {
        lines.extend(wrapped(heading, parts, width));
    }
    let pressure = pressure_lines(evaluation);
    let room = usize::from(inner.height()).saturating_sub(lines.len());
    if room >= pressure.len() {
        if room > pressure.len() {
            lines.push(memory_over_time(state, inner.width()));
        }
        lines.extend(pressure);
    } else {
        lines.push(pressure_line(evaluation));
    }
    for (y, line) in (0..inner.height()).zip(lines) {
        inner.line(y, line);
    }
}

/// The share of the memory that was not available; a full cell is all of it.
fn memory_over_time(state: &State, width: u16) -> SafeLine {
    let cells = TimeCells::new(state, &GraphFigure::Memory(MemoryShare::NotAvailable), width.saturating_sub(10));
    let mut line = SafeLine::new("     used ", StyleRole::Dim);
    line.push_glyphs(cells.glyphs(|share| (share, StyleRole::System)));
    line
}

/// As many parts in a line as fit.
fn wrapped(heading: &'static str, parts: Vec<SafeLine>, width: usize) -> Vec<SafeLine> {
    let mut lines = vec![SafeLine::new(heading, StyleRole::Heading)];
    for (at, part) in parts.into_iter().enumerate() {
        let gap = if at == 0 { 0 } else { 3 };
        let Some(last) = lines.last_mut() else { break };
        if at > 0 && last.width() + gap + part.width() > width {
            let mut line = SafeLine::new("     ", StyleRole::Plain);
            line.append(part);
            lines.push(line);
        } else {
            last.pad_to(last.width() + gap);
            last.append(part);
        }
    }
    lines
}

/// The same in a line, without the averages.
fn pressure_line(evaluation: &Evaluation) -> SafeLine {
    let span = &evaluation.interval.pressure;
    let mut line = SafeLine::new("PSI ", StyleRole::Heading);
    for (what, some) in [("cpu", span.cpu_some), ("io", span.io_some), ("mem", span.memory_some)] {
        line.push(safe!(" {what} "), StyleRole::Dim);
        line.push(some.map_or("-".into(), |share| safe!("{}%", format_number(share.percent(), 5))), StyleRole::Plain);
    }
    line
}

/// Shares of time in which some task waited: in the interval, and the kernel's averages.
fn pressure_lines(evaluation: &Evaluation) -> Vec<SafeLine> {
    let (span, raw) = (&evaluation.interval.pressure, &evaluation.interval.newer.pressure);
    let line = |what: &'static str, some: Option<Ratio>, full: Option<Ratio>, stall: &Reading<Stall>, limit: f64| {
        let average = |value: f32| format!("{:>5}", format_number(f64::from(value), 5));
        let averages = stall.as_ref().ok().and_then(|stall| stall.some);
        let averages = averages.map_or_else(String::new, |some| {
            format!("  10s {}  60s {}  300s {}", average(some.avg10), average(some.avg60), average(some.avg300))
        });
        let some_text = some.map_or("-".to_owned(), |share| format!("{}%", format_number(share.percent(), 5)));
        let share = some.map_or(0.0, |share| share.0);
        let role = match share {
            share if share >= limit => StyleRole::Warning,
            share if share > 0.0 => StyleRole::Plain,
            _ => StyleRole::Dim,
        };
        let full = full.map_or_else(String::new, |share| format!(" full {:>5}%", format_number(share.percent(), 5)));
        SafeLine::new("PSI  ", StyleRole::Heading)
            .with(safe!("{what:<4}"), StyleRole::Dim)
            .with(safe!("{some_text:>6}"), role)
            .with(safe!("{full:<12}{averages}"), StyleRole::Dim)
    };
    let memory_limit = evaluation.thresholds().memory_pressure_ratio;
    vec![
        line("cpu", span.cpu_some, None, &raw.cpu, f64::INFINITY),
        line("io", span.io_some, span.io_full, &raw.io, f64::INFINITY),
        line("mem", span.memory_some, span.memory_full, &raw.memory, memory_limit),
    ]
}
