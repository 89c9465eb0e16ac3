//! Rule connect-blocked: connection requests to a remote host are sent again and again, without an answer.

use std::net::SocketAddr;

use crate::findings::finding::{Kind, Severity, Subject};
use crate::findings::formatting::{duration, plural};
use crate::findings::network_scope::NetworkScope;
use crate::findings::remote_end_waits::{RemoteEndWait, remote_end_waits};
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{Candidate, RuleContext, evidence_chain, evidence_number, evidence_text};
use crate::findings::rules::network::are_reported_together;
use crate::findings::wait_chain::link::ChainLink;
use crate::sample::network::waiting_connections::ConnectionWait;

pub const CONNECT_BLOCKED: Rule = Rule {
    kind: Kind::ConnectBlocked,
    title: "Connection requests without an answer",
    meaning: "A remote host does not answer connection requests (SYN): it is down, or a packet filter drops them. A thread that \
              connects waits for up to two minutes, or for its own timeout, again and again. A host that lives and has no such port refuses at once.",
    computed: "Sockets in SYN_SENT that have sent their request again for at least 3 s; or that try, one after the other, an address \
               and port of which no request has been answered for that time: each had waited 0.5 s or longer, with pauses of at \
               most 3 s, and no connection to it was opened meanwhile. Threads: those in a connect call on one of them \
               (/proc/PID/task/TID/syscall), and, of connects that do not block, those in poll for at most 4 descriptors of which \
               one is such a socket, and the only thread of a process in select. A warning from 2 threads; a note for one thread, \
               and for 2 connections of programs that do not wait (event loops). Requests to a socket of this host, or of \
               a container on it, with connections in its accept queue or requests in its SYN queue are not counted: listen-overflow, \
               syn-queue-overflow. A note if that may be so: the socket listens at all addresses, and it is not known whether this is one of them. \
               More than 3 addresses have one finding for all, until it ends with fewer than 3 left.",
    caveats: "Port scanners and service discovery try hosts that do not exist. Threads of other users need privilege.",
    next_steps: &[
        "the requests: ss -tnop state syn-sent",
        "whether the host lives, and what drops the requests on the way: ping, mtr --tcp --port PORT ADDRESS",
        "the program: its timeout for connections, and the address that it takes from its configuration or from DNS",
    ],
    reference: "TCP and UDP",
    hysteresis: Hysteresis::TwoOfThree,
    evaluate: connect_blocked,
};

fn connect_blocked(context: &RuleContext) -> Vec<Candidate> {
    let mut waits = remote_end_waits(context.interval);
    // A queue of this host that drops requests is listen-overflow or syn-queue-overflow.
    let sockets: Vec<SocketAddr> =
        NetworkScope::all(context.interval).flat_map(|scope| full_sockets(context, &scope)).collect();
    waits.retain(|wait| wait.wait == ConnectionWait::Connect && !wait.is_to_any_of(&sockets));
    waits.retain(|wait| {
        let long = wait.seconds(context.interval) >= context.thresholds.connect_blocked_seconds;
        let several = f64::from(wait.connections()) >= context.thresholds.connect_blocked_threads;
        long && (wait.threads() > 0 || several)
    });
    let hosts = waits.len();
    if !are_reported_together(context, Kind::ConnectBlocked, hosts) {
        return waits.iter().map(|wait| candidate(context, wait, &sockets)).collect();
    }
    let worst = waits.first().map(|wait| candidate(context, wait, &sockets));
    let together = |worst: Candidate| Candidate {
        subject: Subject::Host,
        sentence: format!("{hosts} remote hosts do not answer connection requests; most: {}", worst.sentence),
        ..worst
    };
    worst.map(together).into_iter().collect()
}

/// The sockets of a network namespace that have, or lately had, a queue that drops connection requests.
fn full_sockets(context: &RuleContext, scope: &NetworkScope) -> Vec<SocketAddr> {
    let listeners = scope.listeners().iter().map(|listener| listener.local_address);
    let syn_queues = scope.syn_queues().iter().map(|queue| queue.local_address);
    let recently_full = context.state.network(scope.inode()).full_queues().iter().map(|queue| queue.local_address);
    listeners.chain(syn_queues).chain(recently_full).collect()
}

fn candidate(context: &RuleContext, wait: &RemoteEndWait, sockets: &[SocketAddr]) -> Candidate {
    let seconds = wait.seconds(context.interval);
    let many = f64::from(wait.threads()) >= context.thresholds.connect_blocked_threads;
    // With a timeout of a second each is given up before.
    let again = match wait.retries() {
        0 => String::new(),
        retries => format!(", request sent again {}", plural(f64::from(retries), "time", "times")),
    };
    let own_socket = wait.wildcard_among(sockets);
    let cause = match own_socket {
        Some(socket) => format!(
            "the host is down, a packet filter drops them, or it is this host or a container on it, where a queue of {socket} is full"
        ),
        None => "the host is down, or a packet filter drops them".into(),
    };
    let verb = if wait.threads() > 0 { format!("in {}", wait.calls()) } else { "without an answer".into() };
    Candidate {
        severity: if many && own_socket.is_none() { Severity::Warning } else { Severity::Note },
        subject: wait.subject(),
        value: seconds,
        threshold: context.thresholds.connect_blocked_seconds,
        unit: "seconds",
        sentence: format!(
            "{} does not answer connection requests (SYN): {} {verb} for up to {} ({}{again}): {cause}",
            wait.address(),
            wait.describe_waiters(),
            duration(seconds),
            plural(f64::from(wait.connections()), "connection", "connections"),
        ),
        evidence: vec![
            evidence_number("threads", f64::from(wait.threads())),
            evidence_number("connections", f64::from(wait.connections())),
            evidence_number("blocked_seconds", seconds),
            evidence_number("retries", f64::from(wait.retries())),
            evidence_text("processes", wait.describe_waiters().as_str()),
        ]
        .into_iter()
        .chain(evidence_chain([
            ChainLink::new(
                wait.describe_waiters(),
                if wait.threads() > 0 { "the system calls and descriptors of its threads" } else { "sock_diag" },
            ),
            ChainLink::new(format!("{}: does not answer connection requests", wait.address()), "sock_diag (SYN_SENT)"),
        ]))
        .collect(),
        explained_share: 0.0,
    }
}
