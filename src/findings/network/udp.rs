//! Datagrams that come faster than they are read.

use crate::findings::rule::{Patience, Rule};
use crate::findings::scene::{Scene, Suspicion, maybe, number};
use crate::findings::words::{figure, percent};
use crate::findings::{Kind, Severity, Subject};

pub(in crate::findings) const UDP_OVERFLOW: Rule = Rule {
    kind: Kind::UdpOverflow,
    title: "UDP receive buffers overflow",
    meaning: "A program does not read its UDP socket as fast as datagrams come: the kernel drops them at the socket, and nobody \
              sends them again. It looks like loss in the network and is none.",
    computed: "RcvbufErrors of /proc/net/snmp at least 10 a second, and 0.1 % of the datagrams that came.",
    wrong: "Logs and metrics may be sent in the knowledge that some are lost. The counter is of IPv4 and of the whole network \
            namespace; sockets over IPv6 are not in it.",
    next: &[
        "which socket: ss -uanmp (d in skmem counts its drops), the column drops of /proc/net/udp",
        "why it is not read: the threads of its owner (screen 5, t)",
        "its buffer: SO_RCVBUF, net.core.rmem_max",
    ],
    patience: Patience::TwoOfThree,
    suspect: udp_overflow,
};

fn udp_overflow(scene: &Scene) -> Vec<Suspicion> {
    let (thresholds, protocols) = (scene.thresholds, &scene.interval.protocols);
    let Some(lost) = protocols.udp_overflows.map(|rate| rate.0) else { return Vec::new() };
    // InDatagrams counts those that were given to a program.
    let came = protocols.udp_in.map_or(0.0, |rate| rate.0) + protocols.udp_errors_in.map_or(lost, |rate| rate.0);
    let share = if came > 0.0 { lost / came } else { 0.0 };
    if lost < thresholds.udp_overflow_per_second || share < thresholds.udp_overflow_ratio {
        return Vec::new();
    }
    vec![Suspicion {
        severity: Severity::Warning,
        subject: Subject::Box,
        value: lost,
        threshold: thresholds.udp_overflow_per_second,
        unit: "per_second",
        sentence: format!(
            "{} UDP datagrams a second are dropped at full receive buffers, {} of those that come: a program does not read fast \
             enough",
            figure(lost),
            percent(share),
        ),
        evidence: vec![
            number("overflows_per_second", lost),
            number("overflow_ratio", share),
            maybe("datagrams_in_per_second", protocols.udp_in.map(|rate| rate.0)),
            maybe("datagram_errors_in_per_second", protocols.udp_errors_in.map(|rate| rate.0)),
        ],
        explains: 0.0,
    }]
}
