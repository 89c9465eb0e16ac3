//! The part of listen-overflow that is about Unix sockets: clients sleep in connect until there is room.

use crate::findings::finding::Severity;
use crate::findings::formatting::{duration, lossy_name};
use crate::findings::rule_context::{
    Candidate, RuleContext, evidence_chain, evidence_number, evidence_optional, evidence_text,
};
use crate::findings::unix_senders::{UnixSocketWait, unix_connect_waits};
use crate::findings::wait_chain::link::ChainLink;

/// Sockets that are reported one by one.
const MAX_REPORTED_SOCKETS: usize = 3;

pub fn candidates(context: &RuleContext) -> Vec<Candidate> {
    let mut waits = unix_connect_waits(context.interval);
    waits.retain(|wait| wait.seconds(context.interval) >= context.thresholds.connect_blocked_seconds);
    let mut found: Vec<Candidate> = Vec::new();
    for wait in waits {
        // Two containers may have sockets of one name.
        if found.len() < MAX_REPORTED_SOCKETS && !found.iter().any(|known| known.subject == wait.subject()) {
            found.push(candidate(context, &wait));
        }
    }
    found
}

fn candidate(context: &RuleContext, wait: &UnixSocketWait) -> Candidate {
    let seconds = wait.seconds(context.interval);
    let (queue, backlog) = wait.accept_queue().unwrap_or_default();
    let server = match wait.receiver() {
        Some((process, name)) => format!("{} ({})", lossy_name(name), process.pid),
        None => "the server".to_owned(),
    };
    let place = wait.place();
    let accepts = format!("{server} does not accept fast enough");
    let chain = [
        ChainLink::new(format!("{} in connect", wait.describe_waiters()), "the system calls of its threads"),
        ChainLink::new(format!("accept queue of {place}: {queue} waiting, backlog {backlog}"), "sock_diag (rqueue, wqueue)"),
        ChainLink::new(accepts.clone(), "the owner of the socket"),
    ];
    let chain = chain.into_iter().take(if wait.receiver().is_some() { 3 } else { 2 });
    Candidate {
        severity: if f64::from(wait.threads()) >= context.thresholds.connect_blocked_threads {
            Severity::Warning
        } else {
            Severity::Note
        },
        subject: wait.subject(),
        value: seconds,
        threshold: context.thresholds.connect_blocked_seconds,
        unit: "seconds",
        sentence: format!(
            "{accepts} on {place}: {} blocked in connect for up to {} (accept queue full: {queue} waiting, backlog {backlog})",
            wait.describe_waiters(),
            duration(seconds),
        ),
        evidence: vec![
            evidence_number("threads", f64::from(wait.threads())),
            evidence_number("blocked_seconds", seconds),
            evidence_number("queue", f64::from(queue)),
            evidence_number("queue_limit", f64::from(backlog)),
            evidence_text("processes", wait.describe_waiters().as_str()),
            wait.receiver().map_or(evidence_optional("owner", None), |(_, name)| evidence_text("owner", name.clone())),
        ]
        .into_iter()
        .chain(evidence_chain(chain))
        .collect(),
        explained_share: 0.0,
    }
}
