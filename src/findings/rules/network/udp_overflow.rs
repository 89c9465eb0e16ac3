//! Rule udp-overflow: datagrams arrive faster than they are read.

use crate::findings::finding::{Kind, Severity, Subject};
use crate::findings::formatting::{bytes, lossy_name, percent, significant_digits};
use crate::findings::network_scope::NetworkScope;
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{
    Candidate, RuleContext, evidence_chain, evidence_number, evidence_optional, evidence_text,
};
use crate::findings::wait_chain::link::ChainLink;
use crate::sample::network::UdpSocket;
use crate::units::PerSecond;

pub const UDP_OVERFLOW: Rule = Rule {
    kind: Kind::UdpOverflow,
    title: "UDP receive buffers overflow",
    meaning: "A program does not read its UDP socket as fast as datagrams arrive: the kernel drops them at the socket, and \
              they are not sent again. It resembles loss on the network, but is not.",
    computed: "RcvbufErrors of /proc/net/snmp and Udp6RcvbufErrors of snmp6 at least 10 per second, and 0.1 % of the received \
               datagrams. The socket with most drops in that time is named (column drops of /proc/net/udp and udp6), and the \
               process that has it open.",
    caveats: "Loss may be acceptable for logs and metrics.",
    next_steps: &[
        "which socket: ss -uanmp (d in skmem counts its drops), column drops of /proc/net/udp",
        "why it is not read: the threads of its owner (screen 5, t)",
        "its buffer: SO_RCVBUF, net.core.rmem_max",
    ],
    reference: "TCP and UDP",
    hysteresis: Hysteresis::TwoOfThree,
    evaluate: udp_overflow,
};

/// Share of the dropped datagrams from which one socket is named as the only one. docs/metrics.md, "Fixed thresholds".
const MIN_SOLE_SOCKET_SHARE: f64 = 0.9;

fn udp_overflow(context: &RuleContext) -> Vec<Candidate> {
    NetworkScope::all(context.interval).filter_map(|scope| candidate(context, &scope)).collect()
}

fn candidate(context: &RuleContext, scope: &NetworkScope) -> Option<Candidate> {
    let (thresholds, protocols) = (context.thresholds, scope.protocols);
    let lost = protocols.udp_overflows?.0;
    let rate = |rate: Option<PerSecond>| rate.map_or(0.0, |rate| rate.0);
    // InDatagrams counts only datagrams that a program received; InErrors contains the overflows.
    let received = rate(protocols.udp_in) + rate(protocols.udp6_in);
    let came = received + (rate(protocols.udp_errors_in) + rate(protocols.udp6_errors_in)).max(lost);
    let share = if came > 0.0 { lost / came } else { 0.0 };
    if lost < thresholds.udp_overflow_per_second || share < thresholds.udp_overflow_ratio {
        return None;
    }
    let socket = scope.top_udp_socket();
    let owner = socket.and_then(|(socket, _)| socket.owner.as_ref());
    let sum = |a: Option<PerSecond>, b: Option<PerSecond>| (a.is_some() || b.is_some()).then(|| rate(a) + rate(b));
    let datagrams = format!("{} datagrams per second are dropped{}", significant_digits(lost), scope.place());
    let buffer = socket.map(|(socket, _)| {
        let what = format!("receive buffer of {}: {} unread", socket.local_address, bytes(socket.queued_bytes as f64));
        ChainLink::new(what, "/proc/net/udp, udp6 (rx_queue)")
    });
    let reader = socket.map(|_| ChainLink::new(describe_socket(socket, lost), "/proc/net/udp, udp6 (drops, inode)"));
    let datagrams = [ChainLink::new(datagrams, "/proc/net/snmp, snmp6 (RcvbufErrors)")];
    let chain = evidence_chain(datagrams.into_iter().chain(buffer).chain(reader));
    Some(Candidate {
        severity: Severity::Warning,
        subject: scope.subject(Subject::Host),
        value: lost,
        threshold: thresholds.udp_overflow_per_second,
        unit: "per_second",
        sentence: format!(
            "{} UDP datagrams per second are dropped at full receive buffers{}, {} of those received: {}",
            significant_digits(lost),
            scope.place(),
            percent(share),
            describe_socket(socket, lost),
        ),
        evidence: vec![
            evidence_number("overflows_per_second", lost),
            evidence_number("overflow_ratio", share),
            evidence_optional("datagrams_in_per_second", sum(protocols.udp_in, protocols.udp6_in)),
            evidence_optional("datagram_errors_in_per_second", sum(protocols.udp_errors_in, protocols.udp6_errors_in)),
            socket.map_or(evidence_optional("socket", None), |(socket, _)| {
                evidence_text("socket", socket.local_address.to_string().as_str())
            }),
            owner.map_or(evidence_optional("owner", None), |(_, name)| evidence_text("owner", name.clone())),
            evidence_optional("socket_drops_per_second", socket.and_then(|(_, rate)| rate).map(|rate| rate.0)),
            evidence_optional("socket_queue_bytes", socket.map(|(socket, _)| socket.queued_bytes as f64)),
        ]
        .into_iter()
        .chain(chain)
        .collect(),
        explained_share: 0.0,
    })
}

/// `syslogd (812) does not read 0.0.0.0:514 fast enough`
fn describe_socket(socket: Option<(&UdpSocket, Option<PerSecond>)>, lost: f64) -> String {
    let Some((socket, dropped)) = socket else { return "a program does not read fast enough".into() };
    let owner = socket.owner.as_ref();
    let owner = owner.map_or_else(|| "a program".into(), |(process, name)| format!("{} ({})", lossy_name(name), process.pid));
    let dropped = dropped.filter(|dropped| dropped.0 < lost * MIN_SOLE_SOCKET_SHARE);
    let most = dropped.map_or_else(String::new, |dropped| {
        format!(", which drops most of them, {} per second", significant_digits(dropped.0))
    });
    format!("{owner} does not read port {} fast enough ({}{most})", socket.local_address.port(), socket.local_address)
}
