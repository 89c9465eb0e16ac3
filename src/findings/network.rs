//! Findings about network interfaces and TCP. Directions are judged apart, never added up on full duplex.

pub mod remote_hosts;
pub mod udp;

use super::formatting::{bytes, lossy_name, percent, plural, significant_digits};
use super::rule::{Hysteresis, Rule};
use super::rule_context::{Candidate, RuleContext, evidence_number, evidence_optional, evidence_text};
use super::{Evidence, Kind, Severity, Subject, Thresholds};
use crate::ids::NicId;
use crate::interval::Interval;
use crate::interval::network::{NicSpan, QdiscSpan};
use crate::sample::Name;
use crate::sample::network::{Duplex, Listener, Nic};
use crate::units::{PerSecond, Ratio};

pub(super) const NIC_SATURATED: Rule = Rule {
    kind: Kind::NicSaturated,
    title: "Network interface full",
    meaning: "An interface carries what it can, drops what it should carry, or its queueing discipline holds packets back: \
              what passes through it waits.",
    computed: "The larger direction at least 90 % of the link's speed (virtual interfaces claim a speed that is no limit: not \
               judged by it); or packets lost in the interface at least 10 a second and 0.1 % of all, 3 intervals in a row; \
               or a backlog in the queueing discipline at 3 samples in a row while its drops or overlimits grow, where drops at \
               that rate and share show a backlog between samples.",
    caveats: "A backup window is meant to fill its link. Receive drops of multicast that nobody wants are no loss: that is why \
            they need a share of all packets.",
    next_steps: &[
        "the direction that is full, and who sends: ss -ti",
        "tc -s qdisc show dev IF: a shaper's rate is the limit, not the link's speed",
        "ring sizes and drops: ethtool -S IF",
    ],
    hysteresis: Hysteresis::TwoOfThree,
    evaluate: nic_saturated,
};

pub(super) const TCP_RETRANSMITS: Rule = Rule {
    kind: Kind::TcpRetransmits,
    title: "TCP sends again",
    meaning: "Segments are lost, or late enough to be taken for lost, and sent again: connections slow down.",
    computed: "Retransmitted segments at least 1 % of those sent, and at least 10 a second. Says when the local queueing \
               discipline dropped them. What a full accept queue here dropped is left out.",
    caveats: "Tail-loss probes and spurious retransmits count too. Only this network namespace is seen.",
    next_steps: &[
        "ss -ti for the connections with retrans",
        "drops of the local qdisc and of the interface",
        "the path: mtr to the peer",
    ],
    hysteresis: Hysteresis::TwoOfThree,
    evaluate: tcp_retransmits,
};

pub(super) const LISTEN_OVERFLOW: Rule = Rule {
    kind: Kind::ListenOverflow,
    title: "Accept queue overflows",
    meaning: "A server does not accept connections as fast as they come: the kernel drops them, and clients try again after a \
              second or more. It looks like packet loss and is none.",
    computed: "Any growth of ListenDrops or ListenOverflows; the socket named is the listening one with the fullest queue.",
    caveats: "SYN floods and half-open scans count too. The socket is inference: the counters are the whole namespace's.",
    next_steps: &[
        "ss -ltn: Recv-Q against Send-Q",
        "why the server does not accept: its threads' states",
        "its backlog, net.core.somaxconn",
    ],
    hysteresis: Hysteresis::Immediate,
    evaluate: listen_overflow,
};

/// Whether packets were lost in the interface at a rate, and at a share, that matters.
pub(super) fn is_dropping(nic: &NicSpan, thresholds: &Thresholds) -> bool {
    let packets = nic.rx.packets.0 + nic.tx.packets.0;
    nic.saturation.is_some_and(|lost| {
        lost.0 >= thresholds.nic_saturation_per_second && lost.0 >= packets * thresholds.nic_saturation_ratio
    })
}

/// Whether packets wait in the queueing discipline while it drops or delays. One that drops as much as matters was full,
/// whether packets wait at the moment of the sample or not: paced senders let it run empty in between.
pub(super) fn is_backlogged(nic: &NicSpan, thresholds: &Thresholds) -> bool {
    let grew = |rate: Option<PerSecond>| rate.is_some_and(|rate| rate.0 > 0.0);
    nic.qdisc.as_ref().is_some_and(|qdisc| {
        let dropped = qdisc.dropped.map_or(0.0, |rate| rate.0);
        let offered = nic.tx.packets.0 + dropped;
        let full = dropped >= thresholds.nic_saturation_per_second && dropped >= offered * thresholds.nic_saturation_ratio;
        full || qdisc.backlog_packets > 0 && (grew(qdisc.dropped) || grew(qdisc.overlimits))
    })
}

fn nic_saturated(scene: &RuleContext) -> Vec<Candidate> {
    let nics = scene.interval.newer.nics.as_deref().unwrap_or_default();
    let spans = scene.interval.nics.iter().filter_map(|span| Some((nics.get(span.index)?, span)));
    spans.filter_map(|(nic, span)| saturation_candidate(scene, nic, span)).collect()
}

fn saturation_candidate(scene: &RuleContext, nic: &Nic, span: &NicSpan) -> Option<Candidate> {
    let thresholds = scene.thresholds;
    let device = lossy_name(&span.id.name);
    let enough = |times: u32| f64::from(times) >= thresholds.nic_intervals;
    let (direction, used) = utilization(nic, span);
    let carried = format!(
        "rx {}, tx {}",
        format_kilobytes_per_second(span.rx.kilobytes.0),
        format_kilobytes_per_second(span.tx.kilobytes.0)
    );
    let shaped = scene.state.backlogged_samples(&span.id);
    let judged = if let Some(used) = used.filter(|used| *used >= thresholds.nic_busy_ratio) {
        let speed = span.link.speed_mbps.map_or_else(|| "-".into(), |mbps| mbps.to_string());
        let sentence = format!("{device}: {direction} is at {} of its {speed} Mbit/s ({carried})", percent(used));
        Some((used, thresholds.nic_busy_ratio, "ratio", sentence))
    } else if let (true, Some(qdisc)) = (enough(shaped), &span.qdisc) {
        let sentence = format!(
            "{device}: tx is held back by its queueing discipline{}: {} ({carried})",
            qdisc_kind(nic),
            describe_backlog(qdisc)
        );
        Some((qdisc.backlog_packets as f64, 0.0, "count", sentence))
    } else if let (true, Some(lost)) = (enough(scene.state.dropping_intervals(&span.id)), span.saturation) {
        let all = span.rx.packets.0 + span.tx.packets.0;
        let share = if all > 0.0 { format!(", {} of its packets", percent((lost.0 / all).min(1.0))) } else { String::new() };
        let backlog = backlog_drops(scene).unwrap_or_default();
        let sentence = format!(
            "{device}: loses {} packets a second in the interface{share} ({carried}){backlog}",
            significant_digits(lost.0)
        );
        Some((lost.0, thresholds.nic_saturation_per_second, "per_second", sentence))
    } else {
        None
    };
    let (value, threshold, unit, sentence) = judged?;
    Some(Candidate {
        severity: Severity::Warning,
        subject: Subject::Nic(span.id.clone()),
        value,
        threshold,
        unit,
        sentence,
        evidence: nic_evidence(span),
        explained_share: 0.0,
    })
}

/// Receive drops that no card is to blame for.
fn backlog_drops(scene: &RuleContext) -> Option<String> {
    let softnet = scene.interval.softnet.iter().max_by(|a, b| a.dropped.0.total_cmp(&b.dropped.0))?;
    let all: f64 = scene.interval.softnet.iter().map(|span| span.dropped.0).sum();
    (all > 0.0).then(|| {
        let cpu = softnet.cpu.0;
        format!(
            "; {} a second are lost because the backlog of CPU {cpu} is full (net.core.netdev_max_backlog)",
            significant_digits(all)
        )
    })
}

/// The direction that is fuller and its share of the speed. A virtual interface's claimed speed is no limit.
fn utilization(nic: &Nic, span: &NicSpan) -> (&'static str, Option<f64>) {
    if (nic.facts.virtual_device || nic.facts.loopback) && !span.link_is_configured {
        return ("tx", None);
    }
    let (rx, tx) = (span.rx.utilization.map(|share| share.0), span.tx.utilization.map(|share| share.0));
    if span.link.duplex == Some(Duplex::Half) {
        return ("the link (half duplex)", span.utilization.map(|share| share.0));
    }
    if rx > tx { ("rx", rx) } else { ("tx", tx) }
}

fn format_kilobytes_per_second(kilobytes: f64) -> String {
    format!("{}/s", bytes(kilobytes * 1024.0))
}

fn qdisc_kind(nic: &Nic) -> String {
    nic.qdisc.as_ref().map(|qdisc| format!(" ({})", lossy_name(&qdisc.kind))).unwrap_or_default()
}

fn describe_backlog(qdisc: &QdiscSpan) -> String {
    let grew = |rate: Option<PerSecond>| rate.map_or_else(|| "-".into(), |rate| significant_digits(rate.0));
    format!(
        "{} ({}) {}, {} dropped/s, {} overlimits/s",
        plural(qdisc.backlog_packets as f64, "packet", "packets"),
        bytes(qdisc.backlog_bytes as f64),
        if qdisc.backlog_packets == 1 { "waits" } else { "wait" },
        grew(qdisc.dropped),
        grew(qdisc.overlimits)
    )
}

fn nic_evidence(span: &NicSpan) -> Vec<Evidence> {
    let qdisc = span.qdisc.as_ref();
    vec![
        evidence_optional("rx_utilization_ratio", span.rx.utilization.map(|share| share.0)),
        evidence_optional("tx_utilization_ratio", span.tx.utilization.map(|share| share.0)),
        evidence_number("rx_bytes_per_second", span.rx.kilobytes.0 * 1024.0),
        evidence_number("tx_bytes_per_second", span.tx.kilobytes.0 * 1024.0),
        evidence_optional("saturation_per_second", span.saturation.map(|lost| lost.0)),
        evidence_optional("qdisc_backlog_packets", qdisc.map(|qdisc| qdisc.backlog_packets as f64)),
        evidence_optional("qdisc_dropped_per_second", qdisc.and_then(|qdisc| qdisc.dropped).map(|rate| rate.0)),
        evidence_optional("qdisc_overlimits_per_second", qdisc.and_then(|qdisc| qdisc.overlimits).map(|rate| rate.0)),
    ]
}

fn tcp_retransmits(scene: &RuleContext) -> Vec<Candidate> {
    let thresholds = scene.thresholds;
    let protocols = &scene.interval.protocols;
    let (Some(share), Some(again)) = (protocols.retransmitted_share, protocols.segments_retransmitted) else {
        return Vec::new();
    };
    let requests = protocols.syn_retransmits.map_or(0.0, |rate| rate.0).min(again.0);
    // Connection requests that a full accept queue here has dropped are sent again too, and so is what a client sends that
    // takes its connection for established; each that comes in vain is counted as dropped. listen-overflow speaks of them.
    let refused_here = scene.state.had_listen_drop(scene.interval.at().boottime_ns);
    let in_vain = protocols.listen_drops.map_or(0.0, |rate| rate.0).max(requests).min(again.0);
    let left = if refused_here && again.0 > 0.0 { (again.0 - in_vain) / again.0 } else { 1.0 };
    let (share, again) = (Ratio(share.0 * left), PerSecond(again.0 * left));
    if share.0 < thresholds.retransmitted_ratio || again.0 < thresholds.retransmitted_per_second {
        return Vec::new();
    }
    // What is sent again now was dropped some round trips ago, and some of it was not: who has been found is still the one.
    let least = |nic: &NicSpan| {
        if scene.state.had_local_drop(&nic.id, scene.interval.at().boottime_ns) {
            MIN_REPEATED_LOCAL_DROP_SHARE
        } else {
            MIN_LOCAL_DROP_SHARE
        }
    };
    let droppers = scene.interval.nics.iter().filter_map(|nic| {
        let lost = dropped_segments(scene.interval, nic).filter(|&lost| lost >= again.0 * least(nic))?;
        Some((lost, lossy_name(&nic.id.name), nic.qdisc.as_ref()?.dropped?.0))
    });
    let dropper = droppers.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, nic, dropped)| (nic, dropped));
    let cause = match &dropper {
        Some((nic, dropped)) => {
            format!(
                "; the local queueing discipline of {nic} drops {} packets a second: not the network",
                significant_digits(*dropped)
            )
        }
        None if !refused_here && requests >= again.0 / 2.0 => {
            format!("; {} of them are connection requests that nobody answers", significant_digits(requests))
        }
        None => String::new(),
    };
    vec![Candidate {
        severity: Severity::Warning,
        subject: Subject::Host,
        value: share.0,
        threshold: thresholds.retransmitted_ratio,
        unit: "ratio",
        sentence: format!(
            "TCP sends {} segments a second again, {} of those sent{cause}",
            significant_digits(again.0),
            percent(share.0)
        ),
        evidence: vec![
            evidence_number("retransmitted_ratio", share.0),
            evidence_number("retransmitted_per_second", again.0),
            evidence_optional("syn_retransmits_per_second", protocols.syn_retransmits.map(|_| requests)),
            evidence_optional("segments_out_per_second", protocols.segments_out.map(|rate| rate.0)),
            evidence_optional("local_qdisc_dropped_per_second", dropper.map(|(_, dropped)| dropped)),
        ],
        explained_share: 0.0,
    }]
}

/// Of Ethernet without jumbo frames
const SEGMENT_BYTES: f64 = 1500.0;

/// A packet has 64 KiB at most before it is cut.
const MAX_GSO_SEGMENTS: f64 = 45.0;

/// Share of what TCP sends again that an interface's queueing discipline drops, from which on that is where it was lost.
const MIN_LOCAL_DROP_SHARE: f64 = 0.5;

/// The same for one that was found to be it lately.
const MIN_REPEATED_LOCAL_DROP_SHARE: f64 = 0.25;

/// The interface whose own queueing discipline drops most of what TCP sends again.
pub(super) fn local_drop_nic(interval: &Interval) -> Option<&NicId> {
    let again = interval.protocols.segments_retransmitted.filter(|again| again.0 > 0.0)?;
    let lost = |nic: &NicSpan| dropped_segments(interval, nic).unwrap_or(0.0);
    let most = interval.nics.iter().max_by(|a, b| lost(a).total_cmp(&lost(b)))?;
    (lost(most) >= again.0 * MIN_LOCAL_DROP_SHARE).then_some(&most.id)
}

/// Segments of TCP that an interface's queueing discipline dropped, a second; `None` where it says nothing of drops.
///
/// What is sent may be cut into segments behind it (GSO): who drops a packet there drops several, and large ones are the
/// first that do not fit. As many as the packets hold that it lets through, or as TCP has sent and no interface has.
fn dropped_segments(interval: &Interval, nic: &NicSpan) -> Option<f64> {
    let dropped = nic.qdisc.as_ref()?.dropped?.0;
    let by_size = |nic: &NicSpan| nic.tx.kilobytes.0 * 1024.0 / SEGMENT_BYTES;
    let Some(sent) = interval.protocols.segments_out else { return Some(dropped) };
    let out: f64 = interval.nics.iter().map(|nic| nic.tx.packets.0.max(by_size(nic))).sum();
    let missing = (sent.0 - out).clamp(0.0, dropped * MAX_GSO_SEGMENTS);
    let packets = nic.tx.packets.0.max(1.0);
    Some((dropped * (by_size(nic) / packets).min(sent.0 / packets)).max(missing).max(dropped))
}

fn listen_overflow(scene: &RuleContext) -> Vec<Candidate> {
    let protocols = &scene.interval.protocols;
    let drops = protocols.listen_drops.map(|rate| rate.0);
    let overflows = protocols.listen_overflows.map(|rate| rate.0);
    // ListenDrops contains the overflows, where the kernel keeps both.
    let lost = drops.unwrap_or(0.0).max(overflows.unwrap_or(0.0));
    if lost <= 0.0 {
        return Vec::new();
    }
    let listeners = scene.interval.newer.protocols.listeners.as_deref().unwrap_or_default();
    let fill = |listener: &Listener| f64::from(listener.accept_queue) / (f64::from(listener.backlog_limit) + 1.0);
    let fullest = listeners.iter().filter(|listener| listener.accept_queue > 0).max_by(|a, b| fill(a).total_cmp(&fill(b)));
    let (subject, whose) = match fullest {
        Some(listener) => {
            let owner = match &listener.owner {
                Some((process, owner)) => format!(" ({} {})", lossy_name(owner), process.pid),
                None => String::new(),
            };
            let whose = format!(
                "accept queue of {}{owner}: {} of {} waiting",
                listener.local_address, listener.accept_queue, listener.backlog_limit
            );
            (Subject::Socket(Name::from(listener.local_address.to_string().as_str())), whose)
        }
        None => (Subject::Host, "accept queue of a listening socket (none is full right now)".into()),
    };
    vec![Candidate {
        severity: Severity::Warning,
        subject,
        value: lost,
        threshold: 0.0,
        unit: "per_second",
        sentence: format!(
            "{whose}, {} connections a second dropped: the server does not accept fast enough",
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
        ],
        explained_share: 0.0,
    }]
}
