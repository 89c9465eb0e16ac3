//! The queueing discipline of an interface: a shaper holds packets back, whatever the reported link speed is.

use crate::findings::{Evaluation, Subject};
use crate::interval::Interval;
use crate::interval::network::NicSpan;
use crate::safe;
use crate::units::PerSecond;
use crate::units::format;
use crate::view::safe_line::SafeLine;
use crate::view::safe_text::SafeText;
use crate::view::text::{format_number, format_optional};
use crate::view::theme::{StyleRole, severity_symbol};

/// Bits of 1024 bytes.
const BITS_PER_KILOBYTE: f64 = 8192.0;

/// A queueing discipline that lets packets pass at its own rate: some wait in it, although it may not be full.
pub struct Shaper {
    kind: SafeText,
    /// What passes now
    megabits_per_second: f64,
}

impl Shaper {
    pub fn new(interval: &Interval, nic: &NicSpan) -> Option<Shaper> {
        let span = nic.qdisc.as_ref()?;
        let shapes = span.backlog_packets > 0 && span.overlimits.is_some_and(|rate| rate.0 > 0.0);
        shapes.then(|| Shaper { kind: kind(interval, nic), megabits_per_second: nic.tx.kilobytes.0 * BITS_PER_KILOBYTE / 1e6 })
    }

    /// `96.5Mbit/s tbf`
    pub fn rate(&self) -> SafeText {
        safe!("{}Mbit/s {}", format_number(self.megabits_per_second, 4), self.kind)
    }

    /// `▲96.5Mbit/s tbf`: the sign of the interface's finding, and what passes.
    pub fn words(&self, evaluation: &Evaluation, nic: &NicSpan) -> SafeLine {
        let about = |subject: &Subject| matches!(subject, Subject::Nic(id) if *id == nic.id);
        let worst = evaluation.active.iter().filter(|finding| about(&finding.subject)).map(|finding| finding.severity).max();
        let words = self.rate();
        match worst {
            Some(severity) => SafeLine::new(severity_symbol(severity), StyleRole::from(severity)).with(words, StyleRole::Bold),
            None => SafeLine::new(words, StyleRole::Plain),
        }
    }
}

fn kind(interval: &Interval, nic: &NicSpan) -> SafeText {
    let now = interval.newer.nics.as_ref().ok().and_then(|nics| nics.get(nic.index));
    now.and_then(|nic| nic.qdisc.as_ref()).map(|qdisc| SafeText::from_name(&qdisc.kind)).unwrap_or_default()
}

/// What waits in the queueing discipline, and what it drops, as far as it fits.
pub fn qdisc_line(interval: &Interval, nic: &NicSpan, width: usize) -> Option<SafeLine> {
    let span = nic.qdisc.as_ref()?;
    let rate = |rate: Option<PerSecond>| format_optional(rate.map(|rate| rate.0), 6);
    let held = match Shaper::new(interval, nic) {
        Some(shaper) => {
            safe!("held back by a shaper ({}) at {} Mbit/s", shaper.kind, format_number(shaper.megabits_per_second, 5))
        }
        None => safe!("qdisc {}", kind(interval, nic)),
    };
    let full = span.backlog_packets > 0 && span.dropped.is_some_and(|rate| rate.0 > 0.0);
    let role = if full { StyleRole::Bold } else { StyleRole::Dim };
    let mut line = SafeLine::new(safe!("  {held}: {} drops/s", rate(span.dropped)), role);
    let verb = if span.backlog_packets == 1 { "waits" } else { "wait" };
    for part in [
        safe!(", {} {verb}", format::plural(span.backlog_packets, "packet", "packets")),
        safe!(" ({})", format::short_bytes(span.backlog_bytes as f64)),
        safe!(", {} overlimits/s", rate(span.overlimits)),
    ] {
        if line.width() + part.width() > width {
            break;
        }
        line.push(part, role);
    }
    Some(line)
}
