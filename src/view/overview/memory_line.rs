//! Memory in a line: what is available, swap, pressure stall information (PSI), major faults; and the parts that the pane of memory wraps.

use super::{GAP, line_of_parts};
use crate::figures::{Column, FigureInput, memory};
use crate::findings::Evaluation;
use crate::interval::memory::MemorySpan;
use crate::safe;
use crate::units::format;
use crate::view::pressure::resources::{share, waiting};
use crate::view::safe_line::SafeLine;
use crate::view::safe_text::SafeText;
use crate::view::text::format_figure;
use crate::view::theme::StyleRole;

const HEADING: &str = "MEM  ";

/// The memory of an interval, and what its figures are computed from.
struct Memory<'a> {
    input: FigureInput<'a>,
    span: &'a MemorySpan,
}

/// The line. Available memory and swap are said in fewer words where the PSI has no room beside them; major faults are left out first.
pub fn memory_line(evaluation: &Evaluation, width: u16) -> SafeLine {
    let Some(memory) = Memory::new(evaluation) else { return line_of_parts(HEADING, unknown(), width) };
    let (psi, faults) = (pressure_part(evaluation), memory.faults_part("majflt"));
    let ways = [(true, true), (true, false), (false, false)];
    let ways =
        ways.map(|(with_total, with_swap)| vec![memory.available_part(with_total), memory.swap_part(with_swap), psi.clone()]);
    let cells = |parts: &Vec<SafeLine>| HEADING.len() + parts.iter().map(|part| part.width() + GAP).sum::<usize>() - GAP;
    let [longest, ..] = &ways;
    let mut parts = ways.iter().find(|parts| cells(parts) <= usize::from(width)).unwrap_or(longest).clone();
    parts.push(faults);
    line_of_parts(HEADING, parts, width)
}

/// The parts without the PSI.
pub fn memory_parts(evaluation: &Evaluation) -> Vec<SafeLine> {
    let Some(memory) = Memory::new(evaluation) else { return unknown() };
    vec![memory.available_part(true), memory.swap_part(true), memory.faults_part("major faults")]
}

fn unknown() -> Vec<SafeLine> {
    vec![SafeLine::new("-", StyleRole::Dim)]
}

impl Memory<'_> {
    fn new(evaluation: &Evaluation) -> Option<Memory<'_>> {
        Some(Memory { input: evaluation.into(), span: evaluation.interval.memory.as_ref()? })
    }

    fn number(&self, figure: &Column<MemorySpan>) -> Option<f64> {
        figure.number(&self.input, self.span)
    }

    fn bytes(&self, figure: &Column<MemorySpan>) -> String {
        self.number(figure).map_or("-".to_owned(), format::short_bytes)
    }

    fn available_part(&self, with_total: bool) -> SafeLine {
        let total = if with_total { safe!(" of {}", self.bytes(&memory::TOTAL_BYTES)) } else { SafeText::default() };
        SafeLine::new(safe!("{:>5}", self.bytes(&memory::AVAILABLE_BYTES)), StyleRole::Plain)
            .with(" available", StyleRole::Dim)
            .with(total, StyleRole::Dim)
    }

    /// In few words: how much is used, or what moves.
    fn swap_part(&self, in_full: bool) -> SafeLine {
        match self.number(&memory::SWAP_TOTAL_BYTES) {
            None => return SafeLine::new("swap -", StyleRole::Dim),
            Some(total) if total <= 0.0 => return SafeLine::new("no swap", StyleRole::Dim),
            Some(_) => {}
        }
        let rates = [&memory::SWAP_IN_BYTES_PER_SECOND, &memory::SWAP_OUT_BYTES_PER_SECOND];
        let moving = rates.iter().any(|rate| self.number(rate).is_some_and(|rate| rate > 0.0));
        let [swapped_in, swapped_out] = rates.map(|rate| self.bytes(rate));
        let rates = safe!("in {swapped_in}/s out {swapped_out}/s");
        let used = self.bytes(&memory::SWAP_USED_BYTES);
        let words = match (in_full, moving) {
            (true, _) => safe!("swap {used}, {rates}"),
            (false, true) => safe!("swap {rates}"),
            (false, false) => safe!("swap {used}"),
        };
        SafeLine::new(words, if moving { StyleRole::Bold } else { StyleRole::Dim })
    }

    fn faults_part(&self, name: &'static str) -> SafeLine {
        let faults = format_figure(&memory::MAJOR_FAULTS_PER_SECOND, &self.input, self.span, 5);
        SafeLine::new(safe!("{name} {faults}/s"), StyleRole::Dim)
    }
}

/// Shares of the interval in which some task waited for a CPU, for I/O and for memory.
fn pressure_part(evaluation: &Evaluation) -> SafeLine {
    let mut part = SafeLine::new("PSI", StyleRole::Dim);
    for (resource, [now, ..]) in waiting() {
        let share = share(evaluation, now);
        part.push(safe!(" {} ", resource.short_name), StyleRole::Dim);
        part.push(share.map_or("-".into(), |share| safe!("{}", whole_percent(share))), resource.role(evaluation, share));
    }
    part
}

/// Whole per cent, of which three have room in the line.
fn whole_percent(share: f64) -> String {
    match share * 100.0 {
        percent if percent > 0.0 && percent < 0.5 => "<1%".to_owned(),
        percent => format!("{percent:.0}%"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::baseline::Baselines;
    use crate::findings::Evaluator;
    use crate::interval::Interval;
    use crate::interval::pressure::PressureSpan;
    use crate::state::TerminalCapabilities;
    use crate::synthetic;
    use crate::units::{Bytes, PerSecond, Ratio};
    use crate::view::theme::Theme;

    const GIB: u64 = 1 << 30;

    /// The line of a host with this memory, on which tasks wait for a CPU, for I/O and for memory.
    fn line(memory: MemorySpan, width: u16) -> String {
        let [older, newer] = [1.0, 2.0].map(|second| synthetic::sample(second).shared());
        let mut interval = Interval::between(&Arc::new(synthetic::host()), &older, &newer).unwrap();
        let share = |share| Some(Ratio(share));
        interval.pressure =
            PressureSpan { cpu_some: share(1.0), io_some: share(0.5), memory_some: share(0.12), ..PressureSpan::default() };
        interval.memory = Some(memory);
        let evaluation = Evaluator::new(Baselines::default()).evaluate(interval);
        memory_line(&evaluation, width).styled(Theme::new(TerminalCapabilities::default())).to_string()
    }

    #[test]
    fn little_pressure_is_not_none() {
        assert_eq!([0.0, 0.0001, 0.006, 0.5, 1.0].map(whole_percent), ["0%", "<1%", "1%", "50%", "100%"]);
    }

    #[test]
    fn swap_in_few_words_has_room_beside_the_pressure() {
        let rate = |bytes: f64| Some(PerSecond(bytes));
        let resting = MemorySpan {
            total: Some(Bytes(24 * GIB)),
            available: Some(Bytes(23 * GIB)),
            swap_total: Some(Bytes(8 * GIB)),
            swap_free: Some(Bytes(7 * GIB)),
            swapped_in: rate(0.0),
            swapped_out: rate(0.0),
            ..MemorySpan::default()
        };
        let moving = MemorySpan { swapped_in: rate(12.3e3), swapped_out: rate(34.5e6), ..resting };
        let psi = "PSI cpu 100% io 50% mem 12%";
        assert_eq!(line(resting, 80), format!("MEM  23.0G available of 24.0G   swap 1.00G   {psi}"));
        assert_eq!(line(moving, 80), format!("MEM  23.0G available   swap in 12.0K/s out 32.9M/s   {psi}"));
        let in_full = "MEM  23.0G available of 24.0G   swap 1.00G, in 12.0K/s out 32.9M/s";
        assert_eq!(line(moving, 120), format!("{in_full}   {psi}   majflt -/s"));
    }
}
