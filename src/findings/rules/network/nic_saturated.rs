//! Rule nic-saturated: an interface is at its link speed, drops or damages packets, or its queueing discipline has a backlog.

use crate::findings::finding::{Evidence, Kind, Severity};
use crate::findings::formatting::{bytes, lossy_name, percent, plural, significant_digits, singular_or_plural};
use crate::findings::network_scope::NetworkScope;
use crate::findings::nic_conditions::damaged_packets;
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{Candidate, RuleContext, evidence_chain, evidence_number, evidence_optional};
use crate::findings::thresholds::Thresholds;
use crate::findings::wait_chain::link::ChainLink;
use crate::interval::network::remote_hosts::RemoteHostSpan;
use crate::interval::network::{NicSpan, QdiscSpan};
use crate::sample::network::{Duplex, Nic};
use crate::units::PerSecond;

pub const NIC_SATURATED: Rule = Rule {
    kind: Kind::NicSaturated,
    title: "Network interface saturated",
    meaning: "An interface carries all it can, drops packets, receives damaged ones, or its queueing discipline holds packets \
              back: traffic through it is delayed or lost.",
    computed: "The larger direction is at least 90 % of the link's speed (not for virtual interfaces, whose claimed speed is \
               no limit); or at least 10 packets per second and 0.1 % of all packets are lost in the interface, or have errors, 3 intervals in \
               a row; or the queueing discipline has a backlog at 3 samples in a row while its drops or overlimits grow \
               (drops at that rate and share also count as a backlog); or its ingress filters drop at least 10 packets per second \
               and 1 % of those received.",
    caveats: "A backup is meant to fill its link. Receive drops of unwanted multicast are no loss: that is why a share of \
              all packets is required.",
    next_steps: &[
        "the saturated direction, and which sockets send: ss -ti",
        "tc -s qdisc show dev IF: the limit is the shaper's rate, not the link's speed",
        "ring sizes, drops, errors by kind: ethtool -S IF; the signal of a transceiver: ethtool -m IF",
        "what filters drop: tc -s filter show dev IF ingress",
    ],
    reference: "Network interfaces",
    hysteresis: Hysteresis::TwoOfThree,
    evaluate: nic_saturated,
};

fn nic_saturated(context: &RuleContext) -> Vec<Candidate> {
    let scopes = NetworkScope::all(context.interval);
    let in_scope = |scope: NetworkScope| -> Vec<Candidate> {
        scope.nics.iter().filter_map(|span| saturation_candidate(context, &scope, span)).collect()
    };
    scopes.flat_map(in_scope).collect()
}

fn saturation_candidate(context: &RuleContext, scope: &NetworkScope, span: &NicSpan) -> Option<Candidate> {
    let (thresholds, state, nic) = (context.thresholds, context.state.network(scope.inode()), scope.nic(span)?);
    let enough = |times: u32| f64::from(times) >= thresholds.nic_intervals;
    let (direction, used) = utilization(nic, span);
    let carried = || {
        let (rx, tx) = (format_kilobytes_per_second(span.rx.kilobytes.0), format_kilobytes_per_second(span.tx.kilobytes.0));
        format!("rx {rx}, tx {tx}")
    };
    let shaped = state.backlogged_samples(&span.id);
    let evaluated = if let Some(used) = used.filter(|used| *used >= thresholds.nic_busy_ratio) {
        let speed = span.link.speed_mbps.map_or_else(|| "-".into(), |mbps| mbps.to_string());
        let sentence = format!("{direction} is at {} of its {speed} Mbit/s ({})", percent(used), carried());
        let limit =
            ChainLink::new(format!("its link of {speed} Mbit/s: {direction} at {}", percent(used)), "/sys/class/net/IF/speed");
        Some((used, thresholds.nic_busy_ratio, "ratio", sentence, limit, direction == "tx"))
    } else if let (true, Some(qdisc)) = (enough(shaped), &span.qdisc) {
        let most = if scope.namespace.is_none() { top_receiver(context, span) } else { None };
        let sentence = format!(
            "{}: {} ({}){}{}",
            describe_limit(qdisc),
            describe_backlog(qdisc),
            carried(),
            most.unwrap_or_default(),
            if is_redirected(nic) {
                "; packets are redirected to it (tc mirred), usually those that another interface receives"
            } else {
                ""
            },
        );
        let limit = ChainLink::new(format!("{}: {}", describe_limit(qdisc), describe_backlog(qdisc)), "tc (rtnetlink)");
        Some((qdisc.backlog_packets as f64, 0.0, "count", sentence, limit, true))
    } else if let (true, Some(lost)) = (enough(state.dropping_intervals(&span.id)), span.saturation) {
        let all = span.rx.packets.0 + span.tx.packets.0;
        let share = if all > 0.0 { format!(", {} of its packets", percent((lost.0 / all).min(1.0))) } else { String::new() };
        let backlog = backlog_drops(context).unwrap_or_default();
        let sentence =
            format!("loses {} packets per second in the interface{share} ({}){backlog}", significant_digits(lost.0), carried());
        let limit = ChainLink::new(
            format!("{} packets per second are lost in the interface{share}", significant_digits(lost.0)),
            "/sys/class/net/IF/statistics",
        );
        Some((lost.0, thresholds.nic_saturation_per_second, "per_second", sentence, limit, false))
    // Tunnels count packets to a host that does not answer as errors.
    } else if let (true, Some((damaged, share))) = (
        enough(state.damaging_intervals(&span.id)) && !nic.facts.virtual_device && !nic.facts.loopback,
        damaged_packets(span, thresholds),
    ) {
        let what = format!("{} packets per second have errors, {} of its packets", significant_digits(damaged), percent(share));
        let sentence = format!("{what} ({}): a cable, transceiver or port, as a rule", carried());
        let limit = ChainLink::new(what, "/sys/class/net/IF/statistics (rx_errors, tx_errors)");
        Some((damaged, thresholds.nic_saturation_per_second, "per_second", sentence, limit, false))
    } else {
        filtered(thresholds, span).map(|(lost, share)| {
            let sentence = format!(
                "its ingress filters (tc police, eBPF) drop {} received packets per second, {} of those received ({})",
                significant_digits(lost),
                percent(share),
                carried()
            );
            let limit = ChainLink::new(
                format!("its ingress filters drop {} packets per second", significant_digits(lost)),
                "tc (rtnetlink)",
            );
            (lost, thresholds.nic_saturation_per_second, "per_second", sentence, limit, false)
        })
    };
    let (value, threshold, unit, sentence, limit, is_of_sending) = evaluated?;
    let device = format!("{}{}", lossy_name(&span.id.name), scope.place());
    let top = if is_of_sending && scope.namespace.is_none() { top_host(context, span) } else { None };
    let sender = top.and_then(|host| {
        let (process, name) = host.worst_process.as_ref()?;
        Some(ChainLink::new(
            format!("{} ({})", lossy_name(name), process.pid),
            "sock_diag: the owner of the slowest of these connections",
        ))
    });
    let receiver = top.map(|host| ChainLink::new(format!("most of it to {}", host.address), "tcp_info (bytes_acked)"));
    let chain = [ChainLink::new(format!("{device}: {}", carried()), "/proc/net/dev"), limit];
    let chain = evidence_chain(sender.into_iter().chain(chain).chain(receiver));
    Some(Candidate {
        severity: Severity::Warning,
        subject: scope.nic_subject(&span.id),
        value,
        threshold,
        unit,
        sentence: format!("{device}: {sentence}"),
        evidence: nic_evidence(span).into_iter().chain(chain).collect(),
        explained_share: 0.0,
    })
}

/// Share of the received packets from which drops of ingress filters limit a sender. docs/metrics.md, "Fixed thresholds".
const MIN_FILTERED_SHARE: f64 = 0.01;

/// Packets per second that ingress filters dropped, and the share of those received, if that limits the sender.
fn filtered(thresholds: &Thresholds, span: &NicSpan) -> Option<(f64, f64)> {
    let lost = span.qdisc.as_ref()?.ingress_dropped?.0;
    // The interface counts a packet before its filters do.
    let share = lost / span.rx.packets.0.max(lost).max(f64::MIN_POSITIVE);
    (lost >= thresholds.nic_saturation_per_second && share >= MIN_FILTERED_SHARE).then_some((lost, share))
}

/// An intermediate functional block: its packets come from other interfaces.
fn is_redirected(nic: &Nic) -> bool {
    nic.facts.virtual_device && nic.id.name.as_bytes().starts_with(b"ifb")
}

/// Share of the sent bytes from which a remote host is named for them. docs/metrics.md, "Fixed thresholds".
const MIN_RECEIVER_SHARE: f64 = 0.5;

/// `; most of it to 192.0.2.7`, with the process where it is known.
fn top_receiver(context: &RuleContext, span: &NicSpan) -> Option<String> {
    let top = top_host(context, span)?;
    let process = top.worst_process.as_ref();
    let process = process.map_or_else(String::new, |(id, name)| format!(" from {} ({})", lossy_name(name), id.pid));
    Some(format!("; most of it{process} to {}", top.address))
}

/// The remote host that receives most of what the interface sends.
fn top_host<'a>(context: &RuleContext<'a>, span: &NicSpan) -> Option<&'a RemoteHostSpan> {
    let rows = &context.state.remote_hosts()?.rows;
    let sent = |host: &RemoteHostSpan| host.kilobytes_out.map_or(0.0, |rate| rate.0);
    let here = rows.iter().filter(|host| host.ifindex == Some(span.id.ifindex) && !host.local);
    let top = here.max_by(|a, b| sent(a).total_cmp(&sent(b)))?;
    (sent(top) >= span.tx.kilobytes.0 * MIN_RECEIVER_SHARE && sent(top) > 0.0).then_some(top)
}

/// A clause for receive drops that are not the interface's: the backlog of a CPU was full (softnet).
fn backlog_drops(context: &RuleContext) -> Option<String> {
    let softnet = context.interval.network.softnet.iter().max_by(|a, b| a.dropped.0.total_cmp(&b.dropped.0))?;
    let all: f64 = context.interval.network.softnet.iter().map(|span| span.dropped.0).sum();
    (all > 0.0).then(|| {
        let cpu = softnet.cpu.0;
        format!(
            "; {} per second are lost because the backlog of CPU {cpu} is full (net.core.netdev_max_backlog)",
            significant_digits(all)
        )
    })
}

/// The direction with the higher utilization, and the utilization. The speed that a virtual interface reports is no limit.
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

/// `a traffic shaper (tbf, 100 Mbit/s) limits what it sends`. Without a shaper packets wait for the link.
fn describe_limit(qdisc: &QdiscSpan) -> String {
    let name = lossy_name(&qdisc.kind);
    match qdisc.rate {
        Some(rate) => format!("a traffic shaper ({name}, {}) limits what it sends", megabits_per_second(rate)),
        None if qdisc.is_shaper() => format!("tx is limited by its queueing discipline ({name})"),
        None if qdisc.backlog_packets == 0 => {
            format!("its queueing discipline ({name}) drops packets, and none waits at the end of the interval")
        }
        None => format!("packets wait for the link in its queueing discipline ({name})"),
    }
}

/// As tc prints rates: `100 Mbit/s`.
fn megabits_per_second(bytes: PerSecond) -> String {
    let megabits = bytes.megabits();
    let digits = if megabits.fract() == 0.0 { format!("{megabits:.0}") } else { significant_digits(megabits) };
    format!("{digits} Mbit/s")
}

fn describe_backlog(qdisc: &QdiscSpan) -> String {
    let grew = |rate: Option<PerSecond>| rate.map_or_else(|| "-".into(), |rate| significant_digits(rate.0));
    let waiting = match qdisc.backlog_packets {
        0 => String::new(),
        count => {
            let verb = singular_or_plural(count, "waits", "wait");
            format!("{} ({}) {verb}, ", plural(count as f64, "packet", "packets"), bytes(qdisc.backlog_bytes as f64))
        }
    };
    format!("{waiting}{} dropped/s, {} overlimits/s", grew(qdisc.dropped), grew(qdisc.overlimits))
}

fn nic_evidence(span: &NicSpan) -> Vec<Evidence> {
    let qdisc = span.qdisc.as_ref();
    vec![
        evidence_optional("rx_utilization_ratio", span.rx.utilization.map(|share| share.0)),
        evidence_optional("tx_utilization_ratio", span.tx.utilization.map(|share| share.0)),
        evidence_number("rx_bytes_per_second", span.rx.kilobytes.0 * 1024.0),
        evidence_number("tx_bytes_per_second", span.tx.kilobytes.0 * 1024.0),
        evidence_optional("saturation_per_second", span.saturation.map(|lost| lost.0)),
        evidence_optional("errors_per_second", span.rx.errors.zip(span.tx.errors).map(|(rx, tx)| rx.0 + tx.0)),
        evidence_optional("qdisc_backlog_packets", qdisc.map(|qdisc| qdisc.backlog_packets as f64)),
        evidence_optional("qdisc_dropped_per_second", qdisc.and_then(|qdisc| qdisc.dropped).map(|rate| rate.0)),
        evidence_optional("ingress_dropped_per_second", qdisc.and_then(|qdisc| qdisc.ingress_dropped).map(|rate| rate.0)),
        evidence_optional("qdisc_overlimits_per_second", qdisc.and_then(|qdisc| qdisc.overlimits).map(|rate| rate.0)),
        evidence_optional("shaper_rate_bytes_per_second", qdisc.and_then(|qdisc| qdisc.rate).map(|rate| rate.0)),
    ]
}
