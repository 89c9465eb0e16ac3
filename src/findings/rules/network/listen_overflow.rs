//! Rule listen-overflow: an accept queue overflows, or that of a Unix socket is full.

mod unix_sockets;

use std::net::SocketAddr;

use crate::findings::finding::{Kind, Severity, Subject};
use crate::findings::formatting::{lossy_name, significant_digits};
use crate::findings::network_scope::NetworkScope;
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{Candidate, RuleContext, evidence_chain, evidence_optional, evidence_text};
use crate::findings::syn_queue_conditions::{is_accept_queue_full, is_nearly_full};
use crate::findings::wait_chain::link::ChainLink;
use crate::sample::Name;
use crate::sample::network::Listener;

pub const LISTEN_OVERFLOW: Rule = Rule {
    kind: Kind::ListenOverflow,
    title: "Accept queue overflows",
    meaning: "A server does not accept connections as fast as they arrive: the kernel drops them, and clients retry after a \
              second or more. It resembles packet loss on the network, but is not. Clients of a Unix socket sleep in connect meanwhile.",
    computed: "Any growth of ListenOverflows, or of ListenDrops while an accept queue is full; the listening socket with the \
               fullest queue is named, if that is at least half full, or was in the last seconds. Connection requests that find a full SYN queue are syn-queue-overflow. \
               Unix sockets: a thread has slept in connect since its accept queue is full, for at least `connect-blocked-seconds` (3 s); the address is that of its \
               call, the queue by UNIX_DIAG. A warning from `connect-blocked-threads` (2), else a note.",
    caveats: "A flood of whole connections counts too. The socket is an inference: the counters cover the whole namespace. Of a Unix socket whose clients do not \
              wait in connect (EAGAIN) nothing is seen; clients of other users need privilege.",
    next_steps: &[
        "ss -ltn, of Unix sockets ss -xlp: Recv-Q against Send-Q",
        "why the server does not accept: the states of its threads",
        "its backlog, net.core.somaxconn",
    ],
    reference: "TCP and UDP",
    hysteresis: Hysteresis::Immediate,
    evaluate: listen_overflow,
};

fn listen_overflow(context: &RuleContext) -> Vec<Candidate> {
    let tcp = NetworkScope::all(context.interval).filter_map(|scope| candidate(context, &scope));
    tcp.chain(unix_sockets::candidates(context)).collect()
}

/// The listening socket whose accept queue was full last, within the time in which clients try again.
fn full_lately(context: &RuleContext, scope: &NetworkScope) -> Option<SocketAddr> {
    let queues = context.state.network(scope.inode()).full_queues().iter();
    queues.filter(|queue| queue.is_accept_queue).max_by_key(|queue| queue.last_ns).map(|queue| queue.local_address)
}

fn candidate(context: &RuleContext, scope: &NetworkScope) -> Option<Candidate> {
    let protocols = scope.protocols;
    let drops = protocols.listen_drops.map(|rate| rate.0);
    let overflows = protocols.listen_overflows.map(|rate| rate.0);
    // Other drops than overflows happen before the accept queue.
    if !is_accept_queue_full(scope) {
        return None;
    }
    // ListenDrops contains the overflows, where the kernel keeps both.
    let lost = drops.unwrap_or(0.0).max(overflows.unwrap_or(0.0));
    let listeners = scope.listeners();
    let fill = |listener: &Listener| f64::from(listener.accept_queue) / (f64::from(listener.backlog_limit) + 1.0);
    let fullest = listeners.iter().filter(|listener| is_nearly_full(listener)).max_by(|a, b| fill(a).total_cmp(&fill(b)));
    let (subject, whose) = match fullest {
        Some(listener) => {
            let owner = match &listener.owner {
                Some((process, owner)) => format!(" ({} {})", lossy_name(owner), process.pid),
                None => String::new(),
            };
            let whose = format!(
                "accept queue of {}{owner}{}: {} of {} waiting",
                listener.local_address,
                scope.place(),
                listener.accept_queue,
                listener.backlog_limit
            );
            (Subject::Socket(Name::from(listener.local_address.to_string().as_str())), whose)
        }
        None => match full_lately(context, scope) {
            Some(address) => (
                Subject::Socket(Name::from(address.to_string().as_str())),
                format!("accept queue of {address}{} (not full right now)", scope.place()),
            ),
            None => (Subject::Host, format!("accept queue of a listening socket{} (none is full right now)", scope.place())),
        },
    };
    let address = fullest.map(|listener| listener.local_address).or_else(|| full_lately(context, scope));
    let queue = match (fullest, address) {
        (Some(listener), _) => {
            format!("accept queue of {}: {} of {}", listener.local_address, listener.accept_queue, listener.backlog_limit)
        }
        (None, Some(address)) => format!("accept queue of {address}, not full right now"),
        (None, None) => "accept queue of a listening socket".into(),
    };
    let owner = fullest.and_then(|listener| listener.owner.as_ref());
    let accepts = owner.map(|(process, name)| {
        ChainLink::new(format!("{} ({}) does not accept fast enough", lossy_name(name), process.pid), "the owner of the socket")
    });
    let chain = [
        ChainLink::new(
            format!("{} connections per second are dropped{}", significant_digits(lost), scope.place()),
            "/proc/net/netstat (ListenDrops, ListenOverflows)",
        ),
        ChainLink::new(queue, if address.is_some() { "sock_diag (rqueue, wqueue)" } else { "inference" }),
    ];
    Some(Candidate {
        severity: Severity::Warning,
        subject: scope.subject(subject),
        value: lost,
        threshold: 0.0,
        unit: "per_second",
        sentence: format!(
            "{whose}, {} connections per second dropped: the server does not accept fast enough",
            significant_digits(lost)
        ),
        evidence: vec![
            evidence_optional("listen_drops_per_second", drops),
            evidence_optional("listen_overflows_per_second", overflows),
            evidence_optional("syn_retransmits_per_second", protocols.syn_retransmits.map(|rate| rate.0)),
            evidence_optional("queue", fullest.map(|listener| f64::from(listener.accept_queue))),
            evidence_optional("queue_limit", fullest.map(|listener| f64::from(listener.backlog_limit))),
            fullest
                .and_then(|listener| listener.owner.as_ref())
                .map_or(evidence_optional("owner", None), |(_, owner)| evidence_text("owner", owner.clone())),
        ]
        .into_iter()
        .chain(evidence_chain(chain.into_iter().chain(accepts)))
        .collect(),
        explained_share: 0.0,
    })
}
