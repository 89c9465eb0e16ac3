//! The parts of the CPU time of an interval, as the bars of the overview and the CPU screen show them.

use super::theme::StyleRole;
use super::widgets::bar::Segment;
use crate::interval::Interval;
use crate::interval::cpu::CpuSpan;

/// The CPU time that was neither used nor stolen, as shares of all CPUs. Together with these it adds up to 1.
pub struct UnusedTime {
    pub blocked: f64,
    pub free: f64,
    /// In no field of /proc/stat, or not covered by the sub-samples
    pub other: f64,
}

impl UnusedTime {
    pub fn new(interval: &Interval, span: &CpuSpan) -> UnusedTime {
        let unused = (1.0 - span.busy() - span.total.steal).max(0.0);
        let (blocked, free) = match &interval.idle_blocked {
            Some(idle) => (idle.ratio, idle.free),
            None => (0.0, span.available()),
        };
        let blocked = blocked.min(unused);
        let free = free.min(unused - blocked);
        UnusedTime { blocked, free, other: unused - blocked - free }
    }
}

/// The segments of the bar: used, steal, hidden, idle but blocked, free.
pub fn cpu_segments(interval: &Interval) -> Vec<Segment<StyleRole>> {
    let Some(span) = &interval.cpu else { return Vec::new() };
    let total = &span.total;
    let part = |share: f64, glyph, style| Segment { share, glyph, style };
    let hidden = span.hidden_cpus / span.cpus.len().max(1) as f64;
    let rest = UnusedTime::new(interval, span);
    vec![
        part(total.user + total.nice, '█', StyleRole::User),
        part(total.system, '▓', StyleRole::System),
        part(total.irq + total.softirq, '▒', StyleRole::Irq),
        part(total.steal, '╳', StyleRole::Steal),
        part(hidden, '?', StyleRole::Warning),
        part(rest.blocked, '╱', StyleRole::Blocked),
        part(rest.other, ' ', StyleRole::Plain),
        part(rest.free, '·', StyleRole::Free),
    ]
}
