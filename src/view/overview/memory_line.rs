//! Memory in a line: what is available, swap, pressure stall information (PSI), major faults; and the parts that the pane of memory wraps.

use super::{GAP, line_of_parts};
use crate::findings::Evaluation;
use crate::interval::memory::MemorySpan;
use crate::safe;
use crate::units::{Bytes, PerSecond, Ratio, format};
use crate::view::safe_line::SafeLine;
use crate::view::safe_text::SafeText;
use crate::view::text::format_optional;
use crate::view::theme::StyleRole;

const HEADING: &str = "MEM  ";

/// The line. Available memory and swap are said in fewer words where the PSI has no room beside them; major faults are left out first.
pub fn memory_line(evaluation: &Evaluation, width: u16) -> SafeLine {
    let Some(memory) = &evaluation.interval.memory else { return line_of_parts(HEADING, unknown(), width) };
    let (psi, faults) = (pressure_part(evaluation), faults_part("majflt", memory));
    let ways = [(true, true), (true, false), (false, false)];
    let ways =
        ways.map(|(with_total, with_swap)| vec![available_part(memory, with_total), swap_part(memory, with_swap), psi.clone()]);
    let cells = |parts: &Vec<SafeLine>| HEADING.len() + parts.iter().map(|part| part.width() + GAP).sum::<usize>() - GAP;
    let [longest, ..] = &ways;
    let mut parts = ways.iter().find(|parts| cells(parts) <= usize::from(width)).unwrap_or(longest).clone();
    parts.push(faults);
    line_of_parts(HEADING, parts, width)
}

/// The parts without the PSI.
pub fn memory_parts(evaluation: &Evaluation) -> Vec<SafeLine> {
    let Some(memory) = &evaluation.interval.memory else { return unknown() };
    vec![available_part(memory, true), swap_part(memory, true), faults_part("major faults", memory)]
}

fn unknown() -> Vec<SafeLine> {
    vec![SafeLine::new("-", StyleRole::Dim)]
}

fn amount(bytes: Option<Bytes>) -> String {
    bytes.map_or("-".to_owned(), |bytes| format::short_bytes(bytes.0 as f64))
}

fn available_part(memory: &MemorySpan, with_total: bool) -> SafeLine {
    let total = if with_total { safe!(" of {}", amount(memory.total)) } else { SafeText::default() };
    SafeLine::new(safe!("{:>5}", amount(memory.available)), StyleRole::Plain)
        .with(" available", StyleRole::Dim)
        .with(total, StyleRole::Dim)
}

/// In few words: how much is used, or what moves.
fn swap_part(memory: &MemorySpan, in_full: bool) -> SafeLine {
    match memory.swap_total {
        None => return SafeLine::new("swap -", StyleRole::Dim),
        Some(Bytes(0)) => return SafeLine::new("no swap", StyleRole::Dim),
        Some(_) => {}
    }
    let rate = |rate: Option<PerSecond>| rate.map_or("-".to_owned(), |rate| format::short_bytes(rate.0));
    let used = memory.swap_total.zip(memory.swap_free).map(|(total, free)| Bytes(total.0.saturating_sub(free.0)));
    let used = amount(used);
    let moving = memory.swapped_in.map_or(0.0, |r| r.0) + memory.swapped_out.map_or(0.0, |r| r.0) > 0.0;
    let rates = safe!("in {}/s out {}/s", rate(memory.swapped_in), rate(memory.swapped_out));
    let words = match (in_full, moving) {
        (true, _) => safe!("swap {used}, {rates}"),
        (false, true) => safe!("swap {rates}"),
        (false, false) => safe!("swap {used}"),
    };
    SafeLine::new(words, if moving { StyleRole::Bold } else { StyleRole::Dim })
}

fn faults_part(name: &'static str, memory: &MemorySpan) -> SafeLine {
    let faults = format_optional(memory.major_faults.map(|rate| rate.0), 5);
    SafeLine::new(safe!("{name} {faults}/s"), StyleRole::Dim)
}

/// Shares of the interval in which some task waited for a CPU, for I/O and for memory.
fn pressure_part(evaluation: &Evaluation) -> SafeLine {
    let span = &evaluation.interval.pressure;
    let limit = evaluation.thresholds().memory_pressure_ratio;
    let mut part = SafeLine::new("PSI", StyleRole::Dim);
    let stalls = [("cpu", span.cpu_some, f64::INFINITY), ("io", span.io_some, f64::INFINITY), ("mem", span.memory_some, limit)];
    for (what, some, limit) in stalls {
        part.push(safe!(" {what} "), StyleRole::Dim);
        let share = some.map_or(0.0, |share| share.0);
        let role = match share {
            share if share >= limit => StyleRole::Warning,
            share if share > 0.0 => StyleRole::Plain,
            _ => StyleRole::Dim,
        };
        part.push(some.map_or("-".into(), |share| safe!("{}", whole_percent(share))), role);
    }
    part
}

/// Whole per cent, of which three have room in the line.
fn whole_percent(share: Ratio) -> String {
    match share.percent() {
        percent if percent > 0.0 && percent < 0.5 => "<1%".to_owned(),
        percent => format!("{percent:.0}%"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn little_pressure_is_not_none() {
        assert_eq!([0.0, 0.0001, 0.006, 0.5, 1.0].map(|share| whole_percent(Ratio(share))), ["0%", "<1%", "1%", "50%", "100%"]);
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
        // The heading, two gaps, and `PSI cpu 100% io 50% mem 12%`.
        let rest = HEADING.len() + 2 * GAP + 27;
        assert!(available_part(&resting, true).width() + swap_part(&resting, false).width() + rest <= 80);
        assert!(available_part(&moving, false).width() + swap_part(&moving, false).width() + rest <= 80);
    }
}
