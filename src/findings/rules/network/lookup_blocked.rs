//! Rule lookup-blocked: threads wait for the answer of a name server that does not come.

use crate::findings::finding::{Kind, Severity};
use crate::findings::formatting::{duration, plural};
use crate::findings::remote_end_waits::{RemoteEndWait, remote_end_waits};
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{Candidate, RuleContext, evidence_chain, evidence_number, evidence_text};
use crate::findings::wait_chain::link::ChainLink;
use crate::sample::network::waiting_connections::ConnectionWait;

pub const LOOKUP_BLOCKED: Rule = Rule {
    kind: Kind::LookupBlocked,
    title: "Name lookups without an answer",
    meaning: "A name server (DNS) does not answer: it is down or overloaded, or a packet filter drops the packets. A lookup in the C \
              library waits 5 s for each name server and each attempt, so that whatever opens a connection by name waits for 5 to \
              20 s, and no CPU, disk or interface shows it.",
    computed: "UDP sockets that are connected to port 53 and exist for at least 2 s (/proc/net/udp, also of other network \
               namespaces), with a thread in poll or in a receive call on them (/proc/PID/task/TID/syscall, and the list of poll in \
               the memory of the process). A warning from 2 threads, a note for one.",
    caveats: "Seen are lookups by glibc and by programs that wait in poll. Go and Node.js wait for all sockets in epoll, and musl does \
              not connect its socket: their lookups are not seen. A lookup through the service systemd-resolved (nss-resolve, \
              127.0.0.53) names this service, which itself waits for another server. Threads of other users need privilege.",
    next_steps: &[
        "whether the server answers: dig @ADDRESS +tries=1 +time=2 NAME; resolvectl status shows the servers behind 127.0.0.53",
        "which servers are asked, and how often: /etc/resolv.conf (options timeout:1 attempts:1 rotate shorten the wait)",
        "the packets on the way: tcpdump -ni any udp port 53",
    ],
    reference: "TCP and UDP",
    hysteresis: Hysteresis::TwoOfThree,
    evaluate: lookup_blocked,
};

/// Name servers that are reported one by one: /etc/resolv.conf has at most three.
const MAX_REPORTED_SERVERS: usize = 3;

fn lookup_blocked(context: &RuleContext) -> Vec<Candidate> {
    let mut waits = remote_end_waits(context.interval);
    waits.retain(|wait| {
        let long = wait.seconds(context.interval) >= context.thresholds.lookup_blocked_seconds;
        wait.wait == ConnectionWait::NameServer && wait.threads() > 0 && long
    });
    waits.iter().take(MAX_REPORTED_SERVERS).map(|wait| candidate(context, wait)).collect()
}

fn candidate(context: &RuleContext, wait: &RemoteEndWait) -> Candidate {
    let seconds = wait.seconds(context.interval);
    let many = f64::from(wait.threads()) >= context.thresholds.lookup_blocked_threads;
    Candidate {
        severity: if many { Severity::Warning } else { Severity::Note },
        subject: wait.subject(),
        value: seconds,
        threshold: context.thresholds.lookup_blocked_seconds,
        unit: "seconds",
        sentence: format!(
            "name server {} does not answer: {} in name lookups for up to {} ({}): it is down or overloaded, or a packet filter \
             drops the packets",
            wait.address(),
            wait.describe_waiters(),
            duration(seconds),
            plural(f64::from(wait.connections()), "lookup", "lookups"),
        ),
        evidence: vec![
            evidence_number("threads", f64::from(wait.threads())),
            evidence_number("lookups", f64::from(wait.connections())),
            evidence_number("blocked_seconds", seconds),
            evidence_text("processes", wait.describe_waiters().as_str()),
        ]
        .into_iter()
        .chain(evidence_chain([
            ChainLink::new(wait.describe_waiters(), "the system calls and descriptors of its threads"),
            ChainLink::new(
                format!("{}: name server, does not answer", wait.address()),
                "the socket to port 53 that its threads poll",
            ),
        ]))
        .collect(),
        explained_share: 0.0,
    }
}
