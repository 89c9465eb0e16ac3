//! Rule database-lock-queue: sessions of PostgreSQL wait for a lock of the database, as their process titles say. They sleep in an
//! event wait, as idle ones do, so that no wait channel shows it.

use crate::findings::finding::{Kind, Severity, Subject};
use crate::findings::formatting::{duration, plural};
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{
    Candidate, RuleContext, evidence_lock_chain, evidence_number, evidence_optional, evidence_text,
};
use crate::findings::wait_chain::holder::describe_process_group;
use crate::findings::wait_chain::link::{ChainConfidence, ChainLink};
use crate::ids::GroupId;
use crate::interval::group_label::group_label;
use crate::sample::task::{Process, TaskState};
use crate::units::reaches_threshold;

pub const DATABASE_LOCK_QUEUE: Rule = Rule {
    kind: Kind::DatabaseLockQueue,
    title: "Queue for a lock of a database",
    meaning: "Sessions of PostgreSQL wait for a lock of the database (of a row, a table, a transaction) that another session holds. \
              CPUs and disks are idle. Often the other session is idle in a transaction: its client sends nothing, and its \
              locks remain until it does, or ends.",
    computed: "Processes whose title begins with `postgres:` and ends in `waiting`, and that have not run for 11 s and one interval: \
               titles are read again within 10 s after a process ran, so the title is that of the present wait. Reported from two of one \
               server, a warning if a session of the same database has been idle in its transaction for as long, by its title. That this \
               one holds the lock is inferred.",
    caveats: "A session that works (a long ALTER TABLE or UPDATE) may hold the lock as well. update_process_title must be on, which is \
              the default. Other databases do not write such titles.",
    next_steps: &[
        "which session blocks which: select pid, pg_blocking_pids(pid), state, xact_start, query from pg_stat_activity where cardinality(pg_blocking_pids(pid)) > 0",
        "the client of the session that is idle in transaction; pg_terminate_backend(PID) ends it",
        "idle_in_transaction_session_timeout, lock_timeout",
    ],
    reference: "Database lock queues",
    hysteresis: Hysteresis::TwoOfThree,
    evaluate: database_lock_queue,
};

/// Seconds, beside one interval, for which a process must not have run so that its title is that of its present wait: titles are read again
/// within 10 s after a process ran. docs/metrics.md, "Fixed thresholds".
const MIN_SETTLED_SECONDS: f64 = 11.0;

/// What the title of a session says.
struct Session<'a> {
    process: &'a Process,
    database: String,
    /// `UPDATE waiting`, `idle in transaction`
    state: String,
    /// Seconds since it last ran; `None`: it has not run since stalltop began
    asleep_seconds: Option<f64>,
}

fn database_lock_queue(context: &RuleContext) -> Vec<Candidate> {
    let processes = context.interval.database_sessions();
    let sessions: Vec<Session> = processes.filter_map(|process| settled_session(context, process)).collect();
    let mut groups: Vec<GroupId> = sessions.iter().filter(|one| one.waits()).map(|one| one.process.group()).collect();
    groups.sort();
    groups.dedup();
    let of_group = |id: GroupId| {
        let own: Vec<&Session> = sessions.iter().filter(|session| session.process.group() == id).collect();
        candidate(context, id, &own)
    };
    groups.into_iter().filter_map(of_group).collect()
}

impl Session<'_> {
    fn waits(&self) -> bool {
        self.state.split(' ').next_back() == Some("waiting")
    }

    /// Seconds since it last ran; infinite if that was before stalltop began.
    fn seconds_asleep(&self) -> f64 {
        self.asleep_seconds.unwrap_or(f64::INFINITY)
    }
}

fn candidate(context: &RuleContext, id: GroupId, sessions: &[&Session]) -> Option<Candidate> {
    let waiting: Vec<&&Session> = sessions.iter().filter(|session| session.waits()).collect();
    let many = waiting.len() as f64;
    if !reaches_threshold(many, context.thresholds.database_lock_sessions) {
        return None;
    }
    let is_same_database = |other: &Session| waiting.iter().any(|session| session.database == other.database);
    let idle: Vec<&&Session> =
        sessions.iter().filter(|session| session.state == "idle in transaction" && is_same_database(session)).collect();
    let longest = idle.iter().max_by(|a, b| a.seconds_asleep().total_cmp(&b.seconds_asleep()));
    let label = group_label(&id, &context.interval.older, &context.interval.newer);
    let server = describe_process_group(&id, &label);
    let since = waiting.iter().map(|session| session.seconds_asleep()).fold(0.0, f64::max);
    let since = if since.is_finite() { format!(", the longest for {}", duration(since)) } else { String::new() };
    let waits = format!("{} of {server} wait for a lock of the database{since}", plural(many, "session", "sessions"));
    let cause = longest.map(|session| {
        let asleep = session.asleep_seconds.map_or_else(String::new, |seconds| format!(" for {}", duration(seconds)));
        match idle.len() {
            1 => format!("process {} is idle in transaction{asleep} and most likely holds it", session.process.pid),
            many => format!(
                "{many} sessions are idle in transaction, process {}{asleep}: most likely one of them holds it",
                session.process.pid
            ),
        }
    });
    let cause_or_none = cause.clone().unwrap_or_else(|| {
        "no session has been idle in its transaction for some time: one that works, or did a moment ago, holds it".into()
    });
    let available = context.interval.idle_blocked.as_ref().map_or(0.0, |blocked| blocked.available * context.cpu_count());
    let links = [
        ChainLink::new(waits.clone(), "the titles of its processes"),
        ChainLink::new(cause_or_none.clone(), "inference: the titles of its processes"),
    ];
    Some(Candidate {
        severity: if cause.is_some() { Severity::Warning } else { Severity::Note },
        subject: Subject::Group { id, name: label.name.clone() },
        value: many,
        threshold: context.thresholds.database_lock_sessions,
        unit: "threads",
        sentence: format!("{waits}, by their process titles; {cause_or_none}"),
        evidence: vec![
            evidence_text("group", label.name.clone()),
            evidence_number("waiting_sessions", many),
            evidence_number("idle_in_transaction_sessions", idle.len() as f64),
            longest.map_or(evidence_optional("holder_pid", None), |session| {
                evidence_number("holder_pid", f64::from(session.process.pid))
            }),
        ]
        .into_iter()
        .chain(evidence_lock_chain(links, ChainConfidence::Medium))
        .collect(),
        explained_share: available.min(many) / context.cpu_count(),
    })
}

/// A session whose title is that of its present wait: it has not run since its title was read last.
fn settled_session<'a>(context: &RuleContext, process: &'a Process) -> Option<Session<'a>> {
    let (database, state) = parse_title(process.facts.cmdline.as_ref().ok()?.as_bytes())?;
    let now_ns = context.interval.at().boottime_ns;
    let last_ns = process.threads.iter().map(|thread| thread.last_timeslice_ns).max().flatten();
    let asleep_seconds = last_ns.map(|last_ns| now_ns.saturating_sub(last_ns) as f64 / 1e9);
    let is_asleep = process.threads.iter().all(|thread| thread.state == TaskState::Sleeping);
    let is_settled = asleep_seconds.is_none_or(|seconds| seconds >= MIN_SETTLED_SECONDS + context.interval.seconds);
    (is_asleep && is_settled).then_some(Session { process, database, state, asleep_seconds })
}

/// Database and state of the title of a session: `postgres: USER DATABASE CLIENT STATE`, also behind the name of a cluster.
fn parse_title(line: &[u8]) -> Option<(String, String)> {
    let said = String::from_utf8_lossy(line.strip_prefix(b"postgres: ")?);
    let said = said.trim_end_matches('\0');
    let words: Vec<&str> = said.split(' ').filter(|word| !word.is_empty()).collect();
    let is_client = |word: &&str| *word == "[local]" || word.ends_with(')') && word.contains('(');
    let at = words.iter().position(is_client).filter(|&at| at >= 2)?;
    let state = words.get(at + 1..).filter(|state| !state.is_empty())?;
    Some(((*words.get(at - 1)?).to_owned(), state.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_has_the_database_and_the_state_of_a_session() {
        let cases = [
            ("postgres: app shop [local] UPDATE waiting\0", "shop: UPDATE waiting"),
            ("postgres: main: app shop 10.0.0.7(51234) idle in transaction", "shop: idle in transaction"),
            ("postgres: app shop [local]", ""),
            ("postgres: checkpointer ", ""),
            ("postgres: startup recovering 000000010000000000000001 waiting", ""),
            ("/usr/bin/vi\0postgres: app shop [local] UPDATE waiting\0", ""),
        ];
        for (line, expected) in cases {
            let found =
                parse_title(line.as_bytes()).map_or_else(String::new, |(database, state)| format!("{database}: {state}"));
            assert_eq!(found, expected, "{line}");
        }
    }
}
