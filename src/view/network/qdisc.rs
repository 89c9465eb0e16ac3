//! The queueing discipline of an interface: a shaper holds packets back, whatever the reported link speed is.

use crate::figures::network::SENT_BYTES_PER_SECOND;
use crate::findings::{Evaluation, Subject};
use crate::interval::network::NicSpan;
use crate::safe;
use crate::units::PerSecond;
use crate::units::format;
use crate::view::safe_line::SafeLine;
use crate::view::safe_text::SafeText;
use crate::view::text::{format_number, format_optional};
use crate::view::theme::{StyleRole, severity_symbol};

/// A queueing discipline that lets packets pass at its own rate: some wait in it, although it may not be full.
pub struct Shaper {
    kind: SafeText,
    /// What passes now
    megabits_per_second: f64,
}

impl Shaper {
    pub fn new(evaluation: &Evaluation, nic: &NicSpan) -> Option<Shaper> {
        let qdisc = nic.qdisc.as_ref().filter(|qdisc| qdisc.is_backlogged() && qdisc.is_shaper())?;
        let sent = SENT_BYTES_PER_SECOND.number(&evaluation.into(), nic)?;
        Some(Shaper { kind: SafeText::from_name(&qdisc.kind), megabits_per_second: PerSecond(sent).megabits() })
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

/// What waits in the queueing discipline, and what it drops, as far as it fits.
pub fn qdisc_line(evaluation: &Evaluation, nic: &NicSpan, width: usize) -> Option<SafeLine> {
    let span = nic.qdisc.as_ref()?;
    let rate = |rate: Option<PerSecond>| format_optional(rate.map(|rate| rate.0), 6);
    let held = match Shaper::new(evaluation, nic) {
        Some(shaper) => {
            safe!("held back by a shaper ({}) at {} Mbit/s", shaper.kind, format_number(shaper.megabits_per_second, 5))
        }
        None => safe!("qdisc {}", SafeText::from_name(&span.kind)),
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
