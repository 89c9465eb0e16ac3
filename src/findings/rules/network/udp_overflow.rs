//! Rule udp-overflow: datagrams arrive faster than they are read.

use crate::findings::finding::{Kind, Severity, Subject};
use crate::findings::formatting::{percent, significant_digits};
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{Candidate, RuleContext, evidence_number, evidence_optional};

pub const UDP_OVERFLOW: Rule = Rule {
    kind: Kind::UdpOverflow,
    title: "UDP receive buffers overflow",
    meaning: "A program does not read its UDP socket as fast as datagrams arrive: the kernel drops them at the socket, and \
              they are not sent again. It resembles loss on the network, but is not.",
    computed: "RcvbufErrors of /proc/net/snmp at least 10 per second, and 0.1 % of the received datagrams.",
    caveats: "Loss may be acceptable for logs and metrics. The counter is for IPv4 and for the whole network namespace; IPv6 \
              sockets are not in it.",
    next_steps: &[
        "which socket: ss -uanmp (d in skmem counts its drops), column drops of /proc/net/udp",
        "why it is not read: the threads of its owner (screen 5, t)",
        "its buffer: SO_RCVBUF, net.core.rmem_max",
    ],
    reference: "TCP and UDP",
    hysteresis: Hysteresis::TwoOfThree,
    evaluate: udp_overflow,
};

fn udp_overflow(context: &RuleContext) -> Vec<Candidate> {
    let (thresholds, protocols) = (context.thresholds, &context.interval.protocols);
    let Some(lost) = protocols.udp_overflows.map(|rate| rate.0) else { return Vec::new() };
    // InDatagrams counts only datagrams that a program received.
    let came = protocols.udp_in.map_or(0.0, |rate| rate.0) + protocols.udp_errors_in.map_or(lost, |rate| rate.0);
    let share = if came > 0.0 { lost / came } else { 0.0 };
    if lost < thresholds.udp_overflow_per_second || share < thresholds.udp_overflow_ratio {
        return Vec::new();
    }
    vec![Candidate {
        severity: Severity::Warning,
        subject: Subject::Host,
        value: lost,
        threshold: thresholds.udp_overflow_per_second,
        unit: "per_second",
        sentence: format!(
            "{} UDP datagrams per second are dropped at full receive buffers, {} of those received: a program does not read fast \
             enough",
            significant_digits(lost),
            percent(share),
        ),
        evidence: vec![
            evidence_number("overflows_per_second", lost),
            evidence_number("overflow_ratio", share),
            evidence_optional("datagrams_in_per_second", protocols.udp_in.map(|rate| rate.0)),
            evidence_optional("datagram_errors_in_per_second", protocols.udp_errors_in.map(|rate| rate.0)),
        ],
        explained_share: 0.0,
    }]
}
