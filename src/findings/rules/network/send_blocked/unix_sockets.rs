//! The part of send-blocked that is about Unix sockets: the receiver is a process of this machine.

use crate::findings::finding::Severity;
use crate::findings::formatting::{bytes, duration, lossy_name};
use crate::findings::rule_context::{Candidate, RuleContext, evidence_number, evidence_optional, evidence_text};
use crate::findings::unix_senders::{UnixSocketWait, unix_send_waits};

/// Receivers that are reported one by one.
const MAX_REPORTED_RECEIVERS: usize = 3;

pub fn candidates(context: &RuleContext) -> Vec<Candidate> {
    let mut waits = unix_send_waits(context.interval);
    waits.retain(|wait| wait.threads() > 0 && wait.seconds(context.interval) >= context.thresholds.unix_send_blocked_seconds);
    waits.iter().take(MAX_REPORTED_RECEIVERS).map(|wait| candidate(context, wait)).collect()
}

fn candidate(context: &RuleContext, wait: &UnixSocketWait) -> Candidate {
    let seconds = wait.seconds(context.interval);
    let many = f64::from(wait.blocked()) >= context.thresholds.send_blocked_threads;
    let unread = wait.unread_bytes().map(|unread| format!(" with {} unread", bytes(unread as f64))).unwrap_or_default();
    let receiver = match wait.receiver() {
        Some((process, name)) => format!("the receiver, {} ({}){unread},", lossy_name(name), process.pid),
        None => "the receiver".to_owned(),
    };
    Candidate {
        severity: if many { Severity::Warning } else { Severity::Note },
        subject: wait.subject(),
        value: seconds,
        threshold: context.thresholds.unix_send_blocked_seconds,
        unit: "seconds",
        sentence: format!(
            "{}: {} blocked in {} for {} ({}): {receiver} does not read",
            wait.place(),
            wait.describe_waiters(),
            wait.calls(),
            duration(seconds),
            wait.describe_sockets(),
        ),
        evidence: vec![
            evidence_number("threads", f64::from(wait.threads())),
            evidence_number("connections", f64::from(wait.sockets())),
            evidence_number("blocked_seconds", seconds),
            evidence_text("limited_by", "receiver"),
            evidence_text("processes", wait.describe_waiters().as_str()),
            wait.receiver().map_or(evidence_optional("receiver", None), |(_, name)| evidence_text("receiver", name.clone())),
            evidence_optional("receiver_unread_bytes", wait.unread_bytes().map(|unread| unread as f64)),
        ],
        explained_share: 0.0,
    }
}
