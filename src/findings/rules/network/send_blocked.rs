//! Rule send-blocked: threads wait in a send call, or in poll until they can send, for the other end of a TCP connection or of a Unix
//! socket, or the reader of a pipe, which takes no data.

mod pipes;
mod unix_sockets;

use crate::findings::finding::{Evidence, Kind, Severity};
use crate::findings::formatting::{bytes, duration, lossy_name, plural};
use crate::findings::remote_end_waits::{RemoteEndWait, remote_end_waits};
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{
    Candidate, RuleContext, evidence_chain, evidence_number, evidence_optional, evidence_text,
};
use crate::findings::wait_chain::link::ChainLink;
use crate::sample::network::waiting_connections::ConnectionWait;

pub const SEND_BLOCKED: Rule = Rule {
    kind: Kind::SendBlocked,
    title: "Senders blocked on a connection",
    meaning: "Threads of this host sleep in send or write on a TCP connection, a Unix socket or a pipe, because the other end does not \
              read, does not answer, or because the send buffer is too small. What waits for these threads waits with them. \
              Faster CPUs or disks here change nothing.",
    computed: "Connections with data in the send queue, of which nothing was acknowledged for at least 5 s: window probes run \
               (the receiver's window is closed: it does not read), or retransmits (the host acknowledges nothing). Threads: \
               those in a send call on one of these sockets (/proc/PID/task/TID/syscall), and in a receive call where the host \
               acknowledges nothing: the request did not arrive. Threads in epoll or poll that wait until such a connection can be \
               written to, and the only thread of a process in select, if this host opened the connection: a server serves its \
               other clients meanwhile. Unix sockets (UNIX_DIAG): the sender's buffer is full, or the receiver has an unread datagram, and the \
               same threads have slept in send for at least 1.5 s. Pipes: a thread that ran while stalltop did has slept in write to a full pipe for as long, and \
               which process among its ancestors, children and siblings has the read end open (not one that is stopped). A warning from 2 threads, or 2 connections of an event loop. A \
               note: one thread; or data that moves, while the receiver's window, or the send buffer, is full in 80 % of the time \
               (tcpi_rwnd_limited, tcpi_sndbuf_limited). A receiver that reads so slowly is a warning from 4 threads of one process \
               in send calls: what they serve waits, too. Receivers at different ports of one host are findings of their own.",
    caveats: "A consumer may pause on purpose (less, a player). Several threads in select are not counted: what they wait for is \
              not read. Unix sockets of other network namespaces are seen where a socket may be opened in them \
              (CAP_SYS_ADMIN). Threads of other users need privilege.",
    next_steps: &[
        "the connections: ss -tnoi dst ADDRESS (timer persist: window closed; timer on: not acknowledged; rwnd_limited)",
        "closed window: why the program at the other end does not read (its threads, its receive queue: ss -tn)",
        "no acknowledgement: whether the host lives and the path works (ping, mtr, a packet filter)",
        "a pipe: what the reader waits for (a log driver or collector behind it); docker: log-opt mode=non-blocking",
        "Unix sockets: ss -xp (Recv-Q of the receiver); net.unix.max_dgram_qlen for datagrams",
    ],
    reference: "TCP and UDP",
    hysteresis: Hysteresis::TwoOfThree,
    evaluate: send_blocked,
};

/// Threads of one process in send calls from which a receiver that reads too slowly is a warning. docs/metrics.md, "Fixed thresholds".
const MIN_SLOWED_THREADS: u32 = 4;

/// Remote hosts, and receivers at them, that are reported one by one.
const MAX_REPORTED_HOSTS: usize = 3;

fn send_blocked(context: &RuleContext) -> Vec<Candidate> {
    let mut waits = remote_end_waits(context.interval);
    // A thread that waits is required: a server that waits in epoll serves its other clients meanwhile.
    waits.retain(|wait| {
        let long = wait.seconds(context.interval) >= context.thresholds.send_blocked_seconds;
        let sends = !matches!(wait.wait, ConnectionWait::Connect | ConnectionWait::NameServer | ConnectionWait::Answer);
        sends && wait.threads() > 0 && long
    });
    // One finding for each host, or for each receiver at it: the reason with most threads.
    let mut reported: Vec<RemoteEndWait> = Vec::new();
    for wait in waits {
        if !reported.iter().any(|known| known.may_be_one_with(&wait)) {
            reported.push(wait);
        }
    }
    let tcp = reported.iter().take(MAX_REPORTED_HOSTS).map(|wait| candidate(context, wait));
    let mut found: Vec<Candidate> = tcp.chain(unix_sockets::candidates(context)).collect();
    let is_new = |pipe: &Candidate| !found.iter().any(|known| known.subject == pipe.subject);
    let pipes: Vec<Candidate> = pipes::candidates(context).into_iter().filter(is_new).collect();
    found.extend(pipes);
    found
}

fn candidate(context: &RuleContext, wait: &RemoteEndWait) -> Candidate {
    let moves = matches!(wait.wait, ConnectionWait::FullWindow | ConnectionWait::SendBuffer);
    let many = match moves {
        // One program that sends as fast as the other end takes it, as a backup does.
        true => wait.wait == ConnectionWait::FullWindow && wait.most_senders() >= MIN_SLOWED_THREADS,
        false => f64::from(wait.blocked()) >= context.thresholds.send_blocked_threads,
    };
    let seconds = wait.seconds(context.interval);
    Candidate {
        severity: if many { Severity::Warning } else { Severity::Note },
        subject: wait.subject(),
        value: seconds,
        threshold: context.thresholds.send_blocked_seconds,
        unit: "seconds",
        sentence: format!(
            "{}: {} blocked in {} for {} ({}, {} not acknowledged): {}",
            wait.address(),
            wait.describe_waiters(),
            wait.calls(),
            duration(seconds),
            plural(f64::from(wait.connections()), "connection", "connections"),
            bytes(wait.queued_bytes() as f64),
            describe_cause(wait),
        ),
        evidence: evidence(wait, seconds)
            .into_iter()
            .chain(evidence_chain([
                ChainLink::new(wait.describe_waiters(), "the system calls and descriptors of its threads"),
                ChainLink::new(
                    format!(
                        "{} to {}: {} not acknowledged",
                        plural(f64::from(wait.connections()), "connection", "connections"),
                        wait.address(),
                        bytes(wait.queued_bytes() as f64)
                    ),
                    "sock_diag (wqueue)",
                ),
                ChainLink::new(describe_cause(wait), "tcp_info, sock_diag"),
            ]))
            .collect(),
        explained_share: 0.0,
    }
}

fn describe_cause(wait: &RemoteEndWait) -> String {
    let receiver = wait.local_receiver().and_then(|row| Some((row.receiver.as_ref()?, row.unread_bytes)));
    let receiver = receiver.map_or_else(
        || "the receiver".to_owned(),
        |((process, name), unread)| {
            let unread = bytes(unread as f64);
            format!("the receiver, {} ({}) on this host with {unread} unread,", lossy_name(name), process.pid)
        },
    );
    match wait.wait {
        ConnectionWait::Acknowledgement => format!(
            "the remote host acknowledges nothing (sent again {}): it is down, or the path is broken",
            times(wait.retries())
        ),
        ConnectionWait::ClosedWindow => format!("{receiver} does not read: its window is closed"),
        ConnectionWait::FullWindow => format!("{receiver} reads too slowly: its window is full"),
        ConnectionWait::SendBuffer => {
            "the send buffer on this host is too small for the path (SO_SNDBUF, net.ipv4.tcp_wmem)".into()
        }
        ConnectionWait::Connect => "the connection is not established".into(),
        ConnectionWait::NameServer => "the name server does not answer".into(),
        ConnectionWait::Answer => "the remote host does not answer".into(),
    }
}

/// `1 time`, `5 times`
fn times(count: u32) -> String {
    plural(f64::from(count), "time", "times")
}

fn evidence(wait: &RemoteEndWait, seconds: f64) -> Vec<Evidence> {
    let cause = match wait.wait {
        ConnectionWait::Connect | ConnectionWait::Acknowledgement | ConnectionWait::NameServer | ConnectionWait::Answer => {
            "answers"
        }
        ConnectionWait::ClosedWindow | ConnectionWait::FullWindow => "receiver",
        ConnectionWait::SendBuffer => "send buffer",
    };
    let receiver = wait.local_receiver();
    vec![
        evidence_number("threads", f64::from(wait.threads())),
        evidence_number("connections", f64::from(wait.connections())),
        evidence_number("blocked_seconds", seconds),
        evidence_text("limited_by", cause),
        evidence_number("send_queue_bytes", wait.queued_bytes() as f64),
        evidence_number("retries", f64::from(wait.retries())),
        evidence_text("processes", wait.describe_waiters().as_str()),
        receiver
            .and_then(|row| row.receiver.as_ref())
            .map_or(evidence_optional("receiver", None), |(_, name)| evidence_text("receiver", name.clone())),
        evidence_optional("receiver_unread_bytes", receiver.map(|row| row.unread_bytes as f64)),
    ]
}
