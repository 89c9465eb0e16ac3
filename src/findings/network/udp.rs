//! Datagrams that come faster than they are read.

use crate::findings::formatting::{percent, significant_digits};
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{Candidate, RuleContext, evidence_number, evidence_optional};
use crate::findings::{Kind, Severity, Subject};

pub(in crate::findings) const UDP_OVERFLOW: Rule = Rule {
    kind: Kind::UdpOverflow,
    title: "UDP receive buffers overflow",
    meaning: "A program does not read its UDP socket as fast as datagrams come: the kernel drops them at the socket, and nobody \
              sends them again. It looks like loss in the network and is none.",
    computed: "RcvbufErrors of /proc/net/snmp at least 10 a second, and 0.1 % of the datagrams that came.",
    caveats: "Logs and metrics may be sent in the knowledge that some are lost. The counter is of IPv4 and of the whole network \
            namespace; sockets over IPv6 are not in it.",
    next_steps: &[
        "which socket: ss -uanmp (d in skmem counts its drops), the column drops of /proc/net/udp",
        "why it is not read: the threads of its owner (screen 5, t)",
        "its buffer: SO_RCVBUF, net.core.rmem_max",
    ],
    hysteresis: Hysteresis::TwoOfThree,
    evaluate: udp_overflow,
};

fn udp_overflow(scene: &RuleContext) -> Vec<Candidate> {
    let (thresholds, protocols) = (scene.thresholds, &scene.interval.protocols);
    let Some(lost) = protocols.udp_overflows.map(|rate| rate.0) else { return Vec::new() };
    // InDatagrams counts those that were given to a program.
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
            "{} UDP datagrams a second are dropped at full receive buffers, {} of those that come: a program does not read fast \
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
