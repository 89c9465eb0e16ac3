//! Rule syn-queue-overflow: connection requests find a full SYN queue, because earlier ones are not finished.

use crate::findings::finding::{Evidence, Kind, Severity, Subject};
use crate::findings::formatting::{lossy_name, percent, plural, significant_digits};
use crate::findings::network_scope::NetworkScope;
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{
    Candidate, RuleContext, evidence_chain, evidence_number, evidence_optional, evidence_text,
};
use crate::findings::rules::network::MIN_TOP_HOST_SHARE;
use crate::findings::syn_queue_conditions::{dropped_rate, syn_queue_full_rate};
use crate::findings::wait_chain::link::ChainLink;
use crate::sample::Name;
use crate::sample::network::SynQueue;

pub const SYN_QUEUE_OVERFLOW: Rule = Rule {
    kind: Kind::SynQueueOverflow,
    title: "SYN queue overflows",
    meaning: "Connection requests (SYN) arrive faster than their handshakes are finished: the queue of half-open connections is \
              full. The server is not slow: it has not seen these connections yet. The kernel answers further requests with SYN \
              cookies, or drops them.",
    computed: "SyncookiesSent (TCPReqQFullDoCookies) and TCPReqQFullDrop together at least 10 per second. A flood: from 100 per \
               second, of which less than half are finished (SyncookiesRecv). The queue, its server and the clients are those \
               of the sockets in SYN_RECV. If most requests are finished it is a burst of real connections: a note, and only \
               while the queue is seen full. Requests that a full accept queue keeps in the SYN queue are listen-overflow.",
    caveats: "A sender of forged addresses can look like many clients. Clients whose last packet of the handshake is lost on \
              the way look like a flood. With net.ipv4.tcp_syncookies 2 the kernel sends a cookie for each request.",
    next_steps: &[
        "half-open connections: ss -tn state syn-recv",
        "the counters: nstat -az TcpExtSyncookiesSent TcpExtSyncookiesRecv TcpExtTCPReqQFullDrop",
        "net.ipv4.tcp_syncookies, net.core.somaxconn and the backlog of the server; a packet filter for the source",
    ],
    reference: "TCP and UDP",
    hysteresis: Hysteresis::TwoOfThree,
    evaluate: syn_queue_overflow,
};

/// Share of the SYN cookies that come back from which the clients are real ones. docs/metrics.md, "Fixed thresholds".
const MIN_FINISHED_SHARE: f64 = 0.5;

/// What fills the queue.
#[derive(Clone, Copy, PartialEq)]
enum Cause {
    /// Clients finish most handshakes
    Burst,
    Flood,
    /// Few requests, which are not finished
    Unfinished,
}

fn syn_queue_overflow(context: &RuleContext) -> Vec<Candidate> {
    NetworkScope::all(context.interval).filter_map(|scope| candidate(context, &scope)).collect()
}

fn candidate(context: &RuleContext, scope: &NetworkScope) -> Option<Candidate> {
    let (thresholds, protocols) = (context.thresholds, scope.protocols);
    let rate = syn_queue_full_rate(scope)?;
    if rate < thresholds.syn_queue_full_per_second {
        return None;
    }
    let cookies = protocols.syn_cookies_sent.map_or(0.0, |rate| rate.0);
    let dropped = dropped_rate(scope).unwrap_or(0.0);
    let finished = protocols.syn_cookies_received.filter(|_| cookies > 0.0).map(|received| (received.0 / cookies).min(1.0));
    let unfinished = rate - cookies * finished.unwrap_or(0.0);
    let queue = scope.fullest_syn_queue();
    let cause = match finished {
        Some(share) if share >= MIN_FINISHED_SHARE && dropped < thresholds.syn_queue_full_per_second => Cause::Burst,
        _ if unfinished >= thresholds.syn_flood_per_second => Cause::Flood,
        _ => Cause::Unfinished,
    };
    let is_full = |queue: &SynQueue| queue.limit.is_some_and(|limit| queue.requests >= limit);
    if cause == Cause::Burst && !queue.is_some_and(is_full) {
        return None;
    }
    let subject = queue.map_or(Subject::Host, |queue| Subject::Socket(Name::from(queue.local_address.to_string().as_str())));
    Some(Candidate {
        severity: if cause == Cause::Burst { Severity::Note } else { Severity::Warning },
        subject: scope.subject(subject),
        value: rate,
        threshold: thresholds.syn_queue_full_per_second,
        unit: "per_second",
        sentence: format!(
            "{}: {}; {}",
            describe_queue(queue, &scope.place()),
            describe_fate(cookies, dropped, finished),
            describe_cause(cause, queue)
        ),
        evidence: evidence(scope, queue, finished)
            .into_iter()
            .chain(evidence_chain([
                ChainLink::new(
                    describe_cause(cause, queue),
                    "inference: SyncookiesSent and SyncookiesRecv, the requests in the queue",
                ),
                ChainLink::new(describe_queue(queue, &scope.place()), "TCPReqQFullDoCookies, TCPReqQFullDrop; sock_diag"),
                ChainLink::new(describe_fate(cookies, dropped, finished), "/proc/net/netstat"),
            ]))
            .collect(),
        explained_share: 0.0,
    })
}

/// `SYN queue of 0.0.0.0:80 (nginx 900) is full, 256 of 256 requests`. At the end of the interval it may have room again.
fn describe_queue(queue: Option<&SynQueue>, place: &str) -> String {
    let Some(queue) = queue else { return format!("SYN queue of a listening socket{place} is full") };
    let owner = queue.owner.as_ref();
    let owner = owner.map_or_else(String::new, |(process, name)| format!(" ({} {})", lossy_name(name), process.pid));
    let limit = queue.limit.map_or_else(String::new, |limit| format!(" of {limit}"));
    let full = if queue.limit.is_none_or(|limit| queue.requests >= limit) { "is" } else { "was" };
    format!("SYN queue of {}{owner}{place} {full} full, {}{limit} requests", queue.local_address, queue.requests)
}

fn describe_fate(cookies: f64, dropped: f64, finished: Option<f64>) -> String {
    let finished = finished.map_or_else(String::new, |share| format!(", {} of these finish the handshake", percent(share)));
    let answered =
        format!("{} connection requests (SYN) per second answered with a cookie{finished}", significant_digits(cookies));
    let lost = format!("{} connection requests (SYN) per second dropped", significant_digits(dropped));
    match (cookies > 0.0, dropped > 0.0) {
        (true, true) => format!("{answered}, {lost}"),
        (false, true) => lost,
        _ => answered,
    }
}

fn describe_cause(cause: Cause, queue: Option<&SynQueue>) -> String {
    let top = queue.filter(|queue| f64::from(queue.top_requests) >= f64::from(queue.requests) * MIN_TOP_HOST_SHARE);
    let many = queue.map(|queue| plural(f64::from(queue.remote_hosts), "address", "addresses"));
    match (cause, top, many) {
        (Cause::Burst, ..) => "the clients are real: more of them connect at a time than the queue holds".into(),
        (Cause::Flood, Some(top), _) => format!("a SYN flood from {}, not a slow server", top.top_remote_host),
        (Cause::Flood, None, Some(many)) => format!("a SYN flood, now from {many}, not a slow server"),
        (Cause::Flood, None, None) => "a SYN flood, not a slow server".into(),
        (Cause::Unfinished, Some(top), _) => {
            format!("{} does not finish its handshakes: not a slow server", top.top_remote_host)
        }
        (Cause::Unfinished, None, Some(many)) => format!("clients at {many} do not finish the handshake: not a slow server"),
        (Cause::Unfinished, None, None) => "clients do not finish the handshake: not a slow server".into(),
    }
}

fn evidence(scope: &NetworkScope, queue: Option<&SynQueue>, finished: Option<f64>) -> Vec<Evidence> {
    let protocols = scope.protocols;
    let of_queue = |field: fn(&SynQueue) -> f64| queue.map(field);
    let owner = queue.and_then(|queue| queue.owner.as_ref());
    vec![
        evidence_optional("syn_cookies_sent_per_second", protocols.syn_cookies_sent.map(|rate| rate.0)),
        evidence_optional("syn_cookies_received_per_second", protocols.syn_cookies_received.map(|rate| rate.0)),
        evidence_optional("finished_ratio", finished),
        evidence_optional("syn_drops_per_second", dropped_rate(scope)),
        evidence_optional("listen_overflows_per_second", protocols.listen_overflows.map(|rate| rate.0)),
        evidence_optional("half_open", of_queue(|queue| f64::from(queue.requests))),
        evidence_optional("queue_limit", queue.and_then(|queue| queue.limit).map(f64::from)),
        evidence_optional("remote_hosts", of_queue(|queue| f64::from(queue.remote_hosts))),
        queue.map_or(evidence_optional("top_remote_host", None), |queue| {
            evidence_text("top_remote_host", queue.top_remote_host.to_string().as_str())
        }),
        queue.map_or(evidence_optional("top_remote_host_ratio", None), |queue| {
            evidence_number("top_remote_host_ratio", f64::from(queue.top_requests) / f64::from(queue.requests.max(1)))
        }),
        owner.map_or(evidence_optional("owner", None), |(_, owner)| evidence_text("owner", owner.clone())),
    ]
}
