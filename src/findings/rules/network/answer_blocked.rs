//! Rule answer-blocked: many threads of a process, or of workers of one program, wait for an answer of one remote host that takes unusually long.

use crate::findings::finding::{Kind, Severity};
use crate::findings::formatting::{duration, lossy_name, plural};
use crate::findings::remote_end_waits::{RemoteEndWait, remote_end_waits};
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{
    Candidate, RuleContext, evidence_chain, evidence_number, evidence_optional, evidence_text,
};
use crate::findings::wait_chain::link::ChainLink;
use crate::findings::wait_chain::remote_waits::{server_links, server_name};
use crate::interval::local_servers::waiting_servers;
use crate::sample::network::waiting_connections::ConnectionWait;

pub const ANSWER_BLOCKED: Rule = Rule {
    kind: Kind::AnswerBlocked,
    title: "Threads that wait for an answer of a remote host",
    meaning: "Threads of a process, or workers of one program, have sent a request to one remote host, a database for instance, which has acknowledged it and does not \
              answer for seconds. Nothing on this host is busy, and what these threads serve waits with them. The server is slow, behind \
              a lock, or waits itself.",
    computed: "Connections on which data was last sent at least 5 s ago, all of it is acknowledged, and nothing was received since \
               (tcpi_last_data_sent, tcpi_last_data_recv; in one clock tick, with one data segment more out than in). The host has answered \
               on them before: scans saw it, or they received at least one segment with data for two sent. Threads: those in a receive \
               call on one of them (/proc/PID/task/TID/syscall), or in poll for at most 4 descriptors. From 4 threads of one process, or of \
               sibling processes of one program, unless earlier answers took more than a quarter of the time. Always a note: a thread that waits for work in a queue of \
               another host (BLPOP, a long poll) looks the same. Follows from what stops the server if that is on this host, and \
               from idle-but-blocked where threads wait for a lock whose holder waits for the same answer. Where the server is on this host and has \
               asked another end since, that one is named.",
    caveats: "Consumers that ask for work and wait until there is some. An idle pool, a subscriber and a thread in epoll are not counted: \
              they have received last, or are an event loop. Network namespaces \
              of containers are seen at first, while their counters of retransmits grow, and while such waits last. Threads of other users need privilege.",
    next_steps: &[
        "the connections: ss -tino dst ADDRESS (lastsnd, lastrcv: milliseconds since data was sent, received; unacked)",
        "what the server does: its own stalltop, its list of queries (pg_stat_activity, SHOW PROCESSLIST, SLOWLOG GET)",
        "where the threads are in the program: screen 5, T, Enter; gdb -p PID, thread apply all bt",
        "the program: its timeout for requests, and the size of its pool",
    ],
    reference: "TCP and UDP",
    hysteresis: Hysteresis::TwoOfThree,
    evaluate: answer_blocked,
};

/// A wait is unusual from this multiple of the longest answer that was seen. docs/metrics.md, "Fixed thresholds".
const MIN_ANSWER_MULTIPLE: f64 = 4.0;

/// Servers that are reported one by one.
const MAX_REPORTED_SERVERS: usize = 3;

fn answer_blocked(context: &RuleContext) -> Vec<Candidate> {
    let threads = context.thresholds.answer_blocked_threads;
    let waits = remote_end_waits(context.interval).into_iter().filter(|wait| wait.wait == ConnectionWait::Answer);
    let is_unusual = |wait: &RemoteEndWait| {
        let seconds = wait.seconds(context.interval);
        let longest = wait.longest_answer().unwrap_or(0.0);
        seconds >= context.thresholds.answer_blocked_seconds && seconds >= longest * MIN_ANSWER_MULTIPLE
    };
    let of_large_groups = waits.filter_map(|wait| wait.of_groups_with(threads, context.interval)).filter(is_unusual);
    of_large_groups.take(MAX_REPORTED_SERVERS).map(|wait| candidate(context, &wait)).collect()
}

fn candidate(context: &RuleContext, wait: &RemoteEndWait) -> Candidate {
    let seconds = wait.seconds(context.interval);
    let earlier = match wait.longest_answer() {
        Some(longest) => format!("; its earlier answers took at most {}", duration(longest)),
        None => "; no earlier answer was seen".to_owned(),
    };
    let server = wait.local_receiver().and_then(|row| row.receiver.as_ref());
    let whose =
        server.map_or_else(String::new, |(process, name)| format!(", {} ({}) on this host", lossy_name(name), process.pid));
    let interval = context.interval;
    let servers = server.map_or_else(Vec::new, |(process, _)| {
        waiting_servers(&interval.host, &interval.newer, process.pid, (seconds * 1000.0) as u64)
    });
    let behind = servers.last().map_or_else(String::new, |last| {
        let over: Vec<String> = servers.iter().skip(1).map(|server| server_name(interval, server)).collect();
        let over = if over.is_empty() { String::new() } else { format!(", over {}", over.join(" and ")) };
        format!(", which waits for an answer of {} itself{over}", last.remote)
    });
    Candidate {
        severity: Severity::Note,
        subject: wait.subject(),
        value: seconds,
        threshold: context.thresholds.answer_blocked_seconds,
        unit: "seconds",
        sentence: format!(
            "{}: {} for an answer of {}{whose}{behind}, the longest for {}{earlier}",
            wait.processes(),
            plural(f64::from(wait.threads()), "thread waits", "threads wait"),
            wait.address(),
            duration(seconds),
        ),
        evidence: vec![
            evidence_number("threads", f64::from(wait.threads())),
            evidence_number("connections", f64::from(wait.connections())),
            evidence_number("blocked_seconds", seconds),
            evidence_optional("longest_earlier_answer_seconds", wait.longest_answer()),
            evidence_text("processes", wait.describe_waiters().as_str()),
            server.map_or(evidence_optional("server", None), |(_, name)| evidence_text("server", name.clone())),
            servers.last().map_or(evidence_optional("server_waits_for", None), |last| {
                evidence_text("server_waits_for", last.remote.to_string().as_str())
            }),
        ]
        .into_iter()
        .chain(evidence_chain(
            [
                ChainLink::new(
                    format!("{}: {}", wait.processes(), plural(f64::from(wait.threads()), "thread waits", "threads wait")),
                    "the system calls and descriptors of its threads",
                ),
                ChainLink::new(
                    format!("{}{whose}: no answer for {}", wait.address(), duration(seconds)),
                    "tcp_info (last_data_sent, last_data_recv)",
                ),
            ]
            .into_iter()
            .chain(server_links(interval, &servers)),
        ))
        .collect(),
        explained_share: 0.0,
    }
}
