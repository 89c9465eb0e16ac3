//! The pane of load averages, memory and pressure stall information.

use super::load_parts;
use super::memory_line::memory_parts;
use crate::figures::Column;
use crate::findings::Evaluation;
use crate::interval::pressure::PressureSpan;
use crate::safe;
use crate::state::State;
use crate::state::history::{GraphFigure, MemoryShare};
use crate::state::layout::ScreenLayout;
use crate::view::pane::Pane;
use crate::view::pressure::resources::{percent, share, waiting};
use crate::view::safe_line::SafeLine;
use crate::view::safe_text::SafeText;
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
    let mut line = SafeLine::new("PSI ", StyleRole::Heading);
    for (resource, [now, ..]) in waiting() {
        line.push(safe!(" {} ", resource.short_name), StyleRole::Dim);
        line.push(with_sign(evaluation, now), StyleRole::Plain);
    }
    line
}

/// `12.5%`, or `-`
fn with_sign(evaluation: &Evaluation, figure: &Column<PressureSpan>) -> SafeText {
    let text = percent(evaluation, figure, 0);
    if share(evaluation, figure).is_some() { safe!("{text}%") } else { text }
}

/// Shares of time in which some task waited: in the interval, and the kernel's averages.
fn pressure_lines(evaluation: &Evaluation) -> Vec<SafeLine> {
    let percent = |figure, cells| percent(evaluation, figure, cells);
    let lines = waiting().map(|(resource, [some, ten, minute, five_minutes])| {
        let role = resource.role(evaluation, share(evaluation, some));
        let full = resource.full.map(|[full, ..]| full).filter(|full| share(evaluation, full).is_some());
        let full = full.map_or_else(SafeText::default, |full| safe!(" full {}%", percent(full, 5)));
        let averages = match share(evaluation, ten) {
            None => SafeText::default(),
            Some(_) => safe!("  10s {}  60s {}  300s {}", percent(ten, 5), percent(minute, 5), percent(five_minutes, 5)),
        };
        SafeLine::new("PSI  ", StyleRole::Heading)
            .with(safe!("{:<4}", resource.short_name), StyleRole::Dim)
            .with(safe!("{:>6}", with_sign(evaluation, some)), role)
            .with(safe!("{full:<12}{averages}"), StyleRole::Dim)
    });
    lines.collect()
}
