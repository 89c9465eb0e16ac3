//! The parts of the CPU time of an interval: the bars, the legends and the lines of the overview and the CPU screen have them from here,
//! so that they add up to 100 % wherever they are shown.

use super::theme::StyleRole;
use super::widgets::bar::Segment;
use crate::interval::Interval;
use crate::interval::cpu::CpuSpan;

/// Shares of the time of all CPUs, which add up to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuTimeParts {
    /// With nice
    pub user: f64,
    pub system: f64,
    /// With softirq
    pub irq: f64,
    /// Counted by no tick
    pub hidden: f64,
    pub steal: f64,
    /// Idle while blocked threads would have used it; 0 before the first sub-samples
    pub blocked: f64,
    /// Without sub-samples all that was idle
    pub free: f64,
    /// In no field of /proc/stat, or not covered by the sub-samples
    pub other: f64,
}

/// Other or hidden CPU time from which it is named.
const MIN_NAMED_SHARE: f64 = 0.001;

impl CpuTimeParts {
    pub fn new(interval: &Interval, span: &CpuSpan) -> CpuTimeParts {
        let total = &span.total;
        let used = CpuTimeParts {
            user: total.user + total.nice,
            system: total.system,
            irq: total.irq + total.softirq,
            hidden: span.hidden_cpus / span.cpus.len().max(1) as f64,
            steal: total.steal,
            ..CpuTimeParts::default()
        };
        match &interval.idle_blocked {
            Some(idle) => used.with_unused(idle.ratio, idle.free),
            None => used.with_unused(0.0, span.available()),
        }
    }

    /// Adds the time that was neither used nor stolen. What is blocked and free comes from sub-samples, and what is used from counters:
    /// the latter precede where both together are more than the whole.
    fn with_unused(self, blocked: f64, free: f64) -> CpuTimeParts {
        // Ticks that are counted late may be more than the interval.
        let excess = (self.busy() + self.steal).max(1.0);
        let part = |share: f64| share / excess;
        let unused = (1.0 - part(self.busy() + self.steal)).max(0.0);
        let blocked = blocked.min(unused);
        let free = free.min(unused - blocked);
        CpuTimeParts {
            user: part(self.user),
            system: part(self.system),
            irq: part(self.irq),
            hidden: part(self.hidden),
            steal: part(self.steal),
            blocked,
            free,
            other: unused - blocked - free,
        }
    }

    /// Used by tasks and interrupts, on all CPUs
    pub fn busy(&self) -> f64 {
        self.user + self.system + self.irq + self.hidden
    }

    /// Other CPU time, if it is enough to be named.
    pub fn named_other(&self) -> Option<f64> {
        Some(self.other).filter(|&other| other >= MIN_NAMED_SHARE)
    }

    /// Hidden CPU time, if it is enough to be named.
    pub fn named_hidden(&self) -> Option<f64> {
        Some(self.hidden).filter(|&hidden| hidden >= MIN_NAMED_SHARE)
    }
}

/// The segments of the bar: used, steal, hidden, idle but blocked, free.
pub fn cpu_segments(interval: &Interval) -> Vec<Segment<StyleRole>> {
    let Some(span) = &interval.cpu else { return Vec::new() };
    let parts = CpuTimeParts::new(interval, span);
    let part = |share: f64, glyph, style| Segment { share, glyph, style };
    vec![
        part(parts.user, '█', StyleRole::User),
        part(parts.system, '▓', StyleRole::System),
        part(parts.irq, '▒', StyleRole::Irq),
        part(parts.steal, '╳', StyleRole::Steal),
        part(parts.hidden, '?', StyleRole::Warning),
        part(parts.blocked, '╱', StyleRole::Blocked),
        part(parts.other, ' ', StyleRole::Plain),
        // Before the first sub-samples it is not known what of the idle time is free.
        match interval.idle_blocked {
            Some(_) => part(parts.free, '·', StyleRole::Free),
            None => part(parts.free, ' ', StyleRole::Plain),
        },
    ]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::view::text::format_number;

    proptest! {
        /// Those that are printed: each as it is rounded, and other and hidden time only if it is named.
        #[test]
        fn the_parts_add_up_to_100_percent(
            [user, system, irq, hidden, steal] in [0.0..0.6_f64, 0.0..0.5, 0.0..0.2, 0.0..0.2, 0.0..0.2],
            [blocked, free] in [0.0..1.0_f64, 0.0..1.0],
        ) {
            let used = CpuTimeParts { user, system, irq, hidden, steal, ..CpuTimeParts::default() };
            let parts = used.with_unused(blocked, free);
            let CpuTimeParts { user, system, irq, hidden, steal, blocked, free, other } = parts;
            let all = [user, system, irq, hidden, steal, blocked, free, other];
            prop_assert!(all.iter().all(|share| (0.0..=1.0).contains(share)), "{parts:?}");
            prop_assert!((all.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{parts:?}");
            let printed = |shares: &[f64]| -> f64 {
                let percent = |share: &f64| format_number(share * 100.0, 4).replace("<.01", "0").parse::<f64>().unwrap();
                shares.iter().map(percent).sum()
            };
            // Half a decimal of each value of 10 % and more, and time that is not named.
            let line = printed(&[parts.busy(), steal, blocked, free, parts.named_other().unwrap_or(0.0)]);
            prop_assert!((line - 100.0).abs() <= 0.1 + 4.0 * 0.05 + 0.01, "{line}: {parts:?}");
            let named = [parts.named_hidden(), parts.named_other()].map(|named| named.unwrap_or(0.0));
            let legend = printed(&[&[user, system, irq, steal, blocked, free][..], &named].concat());
            prop_assert!((legend - 100.0).abs() <= 0.2 + 7.0 * 0.05 + 0.01, "{legend}: {parts:?}");
        }
    }

    #[test]
    fn blocked_and_free_time_leave_room_for_what_was_used() {
        let used = CpuTimeParts { user: 0.3, steal: 0.1, ..CpuTimeParts::default() };
        let close = |parts: CpuTimeParts, expected: [f64; 3]| {
            let parts = [parts.blocked, parts.free, parts.other];
            assert!(parts.iter().zip(expected).all(|(part, expected)| (part - expected).abs() < 1e-9), "{parts:?}");
        };
        close(used.with_unused(0.604, 0.0), [0.6, 0.0, 0.0]);
        close(used.with_unused(0.4, 0.4), [0.4, 0.2, 0.0]);
        close(used.with_unused(0.4, 0.1), [0.4, 0.1, 0.1]);
    }
}
