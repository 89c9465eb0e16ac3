//! The part of send-blocked that is about pipes: the reader is a process of this machine that sleeps elsewhere.

use crate::findings::finding::Severity;
use crate::findings::formatting::{duration, lossy_name, singular_or_plural};
use crate::findings::pipe_writers::{PipeWriteWait, pipe_write_waits};
use crate::findings::rule_context::{Candidate, RuleContext, evidence_number, evidence_text};

/// Readers that are reported one by one.
const MAX_REPORTED_READERS: usize = 3;

pub fn candidates(context: &RuleContext) -> Vec<Candidate> {
    let waits = pipe_write_waits(context.interval, context.thresholds.unix_send_blocked_seconds);
    waits.iter().take(MAX_REPORTED_READERS).map(|wait| candidate(context, wait)).collect()
}

fn candidate(context: &RuleContext, wait: &PipeWriteWait) -> Candidate {
    let seconds = wait.seconds(context.interval);
    let many = f64::from(wait.threads) >= context.thresholds.send_blocked_threads;
    let (process, name) = &wait.reader;
    let others = match wait.readers {
        1 => String::new(),
        readers => format!(" and {} more", readers - 1),
    };
    Candidate {
        severity: if many { Severity::Warning } else { Severity::Note },
        subject: wait.subject(),
        value: seconds,
        threshold: context.thresholds.unix_send_blocked_seconds,
        unit: "seconds",
        sentence: format!(
            "{} {} been blocked for {} in write to a pipe that {} ({}){others} {}",
            wait.describe_waiters(),
            singular_or_plural(wait.threads, "has", "have"),
            duration(seconds),
            lossy_name(name),
            process.pid,
            match (wait.reader_ran, wait.readers) {
                (true, 1) => "does not read, or reads too slowly",
                (true, _) => "do not read, or read too slowly",
                (false, 1) => "does not read",
                (false, _) => "do not read",
            },
        ),
        evidence: vec![
            evidence_number("threads", f64::from(wait.threads)),
            evidence_number("blocked_seconds", seconds),
            evidence_text("limited_by", "receiver"),
            evidence_text("processes", wait.describe_waiters().as_str()),
            evidence_text("receiver", name.clone()),
        ],
        explained_share: 0.0,
    }
}
