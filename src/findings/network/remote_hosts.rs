//! Findings about round trips to remote hosts, against the minimum that the same connections have seen.

use crate::findings::blocked_tasks::remote_waits;
use crate::findings::formatting::{bytes, count, lossy_name, millis, multiple, percent, plural};
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{Candidate, RuleContext, evidence_number, evidence_optional, evidence_text};
use crate::findings::{Evidence, Kind, Severity, Subject, Thresholds};
use crate::interval::Interval;
use crate::interval::network::remote_hosts::{RemoteHostSpan, RttSpan};
use crate::sample::Name;
use crate::sample::network::Nic;

pub(in crate::findings) const NETWORK_LATENCY: Rule = Rule {
    kind: Kind::NetworkLatency,
    title: "Round trips far above their minimum",
    meaning: "Packets to a remote host take several times as long as they are known to need: they wait in a queue, here, on the \
              path, or at the host. Whoever talks to that host waits with them.",
    computed: "Over the connections of a remote host that carried data: smoothed round trip at least 3 times the connections' \
               own minimum, and at least 2 ms, at 2 of 3 looks. Counted are connections that have more to send than the path \
               takes; in others the host's delayed acknowledgements and its time to answer look like a long path, so that they \
               count from 200 ms above their minimum. Connections of this machine with itself are left out. It is said what \
               holds them up: a queue here that accounts for at least half of the excess, the receiver's window, the send buffer, \
               the application, a queue here that held back 10 % of the packets or lost 0.1 % of them although it was empty at \
               the look (a sender that paces itself); else the path.",
    caveats: "A bulk transfer fills the queue before the slowest link on its own: nobody may mind. A path that became longer (a \
            failover) is told for an hour. A full window of a receiver that reads slowly is a note.",
    next_steps: &[
        "the connections: ss -ti dst ADDRESS",
        "the queue here: tc -s qdisc; the path: mtr ADDRESS",
        "what else sends there: the peers by traffic (screen 4, p)",
    ],
    // The rule counts looks itself: there may be fewer of them than intervals.
    hysteresis: Hysteresis::Immediate,
    evaluate: network_latency,
};

/// So many hosts are told one by one.
const MAX_REPORTED_HOSTS: usize = 3;

/// What holds up the connections with a host.
#[derive(Clone, Debug, PartialEq)]
pub enum LimitedBy {
    /// A queueing discipline of ours, on the interface with this index, and how long it takes to send what waits there
    LocalQueue {
        nic: Name,
        kind: Name,
        packets: u64,
        seconds: f64,
    },
    /// A queueing discipline of ours that was empty when it was looked at, and made packets wait or lost them in between: what
    /// a sender does that paces itself (bbr)
    LocalShaper {
        nic: Name,
        kind: Name,
        /// A second
        overlimits: f64,
        dropped: f64,
    },
    /// The receiver's window
    ReceiveWindow,
    SendBuffer,
    /// Nothing to send
    Application,
    /// Confirmations and answers are waited for, and there is nothing more to send: who is slow cannot be told
    PathOrRemoteHost,
    /// Nothing of ours
    Path,
}

impl LimitedBy {
    /// As screens and JSON say it.
    pub fn as_str(&self) -> &'static str {
        match self {
            LimitedBy::LocalQueue { .. } | LimitedBy::LocalShaper { .. } => "own queue",
            LimitedBy::ReceiveWindow => "receiver",
            LimitedBy::SendBuffer => "send buffer",
            LimitedBy::Application => "application",
            LimitedBy::PathOrRemoteHost => "answers",
            LimitedBy::Path => "the path",
        }
    }
}

/// The round trip that is judged: of the connections that press where there are any, else of all that carried data.
pub fn evaluated_rtt(peer: &RemoteHostSpan) -> Option<&RttSpan> {
    peer.send_backlogged.as_ref().or(peer.active.as_ref())
}

/// Whether its round trips are far above their minimum.
pub fn is_slow(peer: &RemoteHostSpan, thresholds: &Thresholds) -> bool {
    let far = |trip: &RttSpan, excess_ms: f64| {
        trip.srtt_to_min_ratio().is_some_and(|times| times >= thresholds.round_trip_multiple)
            && trip.srtt.0 >= thresholds.round_trip_ms
            && trip.excess().is_some_and(|excess| excess.0 >= excess_ms)
    };
    let pressed = peer.send_backlogged.as_ref().is_some_and(|trip| far(trip, 0.0));
    let other = peer.active.as_ref().is_some_and(|trip| far(trip, thresholds.round_trip_unpressed_ms));
    !peer.local && (pressed || other)
}

/// What holds up the connections with a host; `None` where none carried data, or the kernel does not tell.
pub fn limited_by(interval: &Interval, peer: &RemoteHostSpan) -> Option<LimitedBy> {
    let limits = peer.send_limits.as_ref()?;
    if let Some(queue) = local_queue(interval, peer) {
        return Some(queue);
    }
    let most = |share: f64| share >= 0.5;
    Some(match limits {
        _ if most(limits.rwnd_limited.0) => LimitedBy::ReceiveWindow,
        _ if most(limits.sndbuf_limited.0) => LimitedBy::SendBuffer,
        _ if most(limits.app_limited.0) => LimitedBy::Application,
        _ if peer.send_backlogged.is_none() => LimitedBy::PathOrRemoteHost,
        // Weaker than what the kernel counted of the connections themselves: others may be held back there, too.
        _ => local_shaper(interval, peer).unwrap_or(LimitedBy::Path),
    })
}

/// The queue on the interface that the route leaves by, when at the rate of this interval it takes at least half of the
/// excess to send what waits in it. It is looked at twice only: the fuller look counts.
fn local_queue(interval: &Interval, peer: &RemoteHostSpan) -> Option<LimitedBy> {
    let interface = peer.ifindex?;
    let excess = peer.send_backlogged.as_ref()?.excess()?.0 / 1000.0;
    let span = interval.nics.iter().find(|span| span.id.ifindex == interface)?;
    let at = |nics: &[Nic]| nics.iter().find(|nic| nic.id == span.id).and_then(|nic| nic.qdisc.clone());
    let both = [at(interval.newer.nics.as_deref().ok()?), interval.older.nics.as_deref().ok().and_then(at)];
    let fullest = both.into_iter().flatten().max_by_key(|qdisc| qdisc.backlog_bytes)?;
    let rate = span.tx.kilobytes.0 * 1024.0;
    let seconds = if rate > 0.0 { fullest.backlog_bytes as f64 / rate } else { return None };
    (fullest.backlog_packets > 0 && excess > 0.0 && seconds >= excess / 2.0).then(|| LimitedBy::LocalQueue {
        nic: span.id.name.clone(),
        kind: fullest.kind,
        packets: fullest.backlog_packets,
        seconds,
    })
}

/// Of the packets sent, a discipline that limits them holds back this share, or loses that one.
const MIN_OVERLIMITS_SHARE: f64 = 0.1;
const MIN_DROPPED_SHARE: f64 = 0.001;

/// The same discipline by what it did over the interval: its queue may be empty at both looks.
fn local_shaper(interval: &Interval, peer: &RemoteHostSpan) -> Option<LimitedBy> {
    let interface = peer.ifindex?;
    peer.send_backlogged.as_ref()?.excess().filter(|excess| excess.0 > 0.0)?;
    let span = interval.nics.iter().find(|span| span.id.ifindex == interface)?;
    let qdisc = span.qdisc.as_ref()?;
    let rate = |rate: Option<crate::units::PerSecond>| rate.map_or(0.0, |rate| rate.0);
    let (held, dropped, sent) = (rate(qdisc.overlimits), rate(qdisc.dropped), span.tx.packets.0);
    let nics = interval.newer.nics.as_deref().ok()?;
    let kind = nics.iter().find(|nic| nic.id == span.id)?.qdisc.as_ref()?.kind.clone();
    let limits = sent > 0.0 && (held >= sent * MIN_OVERLIMITS_SHARE || (dropped >= 1.0 && dropped >= sent * MIN_DROPPED_SHARE));
    limits.then(|| LimitedBy::LocalShaper { nic: span.id.name.clone(), kind, overlimits: held, dropped })
}

fn network_latency(scene: &RuleContext) -> Vec<Candidate> {
    let Some(peers) = scene.state.remote_hosts() else { return Vec::new() };
    let mut slow: Vec<&RemoteHostSpan> = peers.rows.iter().filter(|peer| scene.state.is_slow(peer.address)).collect();
    if slow.len() <= MAX_REPORTED_HOSTS {
        return slow.into_iter().filter_map(|peer| candidate(scene, peer)).collect();
    }
    // Many hosts at once are one trouble, nearer than the hosts.
    let excess = |peer: &RemoteHostSpan| evaluated_rtt(peer).and_then(RttSpan::excess).map_or(0.0, |excess| excess.0);
    slow.sort_by(|a, b| excess(b).total_cmp(&excess(a)));
    let worst = slow.first().and_then(|peer| candidate(scene, peer));
    let together = |worst: Candidate| Candidate {
        subject: Subject::Host,
        sentence: format!("round trips to {} hosts are far above their minimum; most of all {}", slow.len(), worst.sentence),
        ..worst
    };
    worst.map(together).into_iter().collect()
}

fn candidate(scene: &RuleContext, peer: &RemoteHostSpan) -> Option<Candidate> {
    let trip = evaluated_rtt(peer)?;
    let (times, minimum) = (trip.srtt_to_min_ratio()?, trip.min_rtt?);
    let held_up = limited_by(scene.interval, peer);
    let sent = peer.kilobytes_out.filter(|rate| rate.0 >= 1.0);
    let sent = sent.map_or_else(String::new, |rate| format!(", {}/s sent", bytes(rate.0 * 1024.0)));
    let waiting = remote_waits::waiting_groups(scene.interval, peer.address);
    let waiting = waiting.map_or_else(String::new, |who| format!("; its answers are waited for, by inference: {who}"));
    let sentence = format!(
        "{}: round trips of {} = {} their minimum of {} ({}{sent}){}{waiting}",
        peer.address,
        format_rtt(trip.srtt.0),
        multiple(times),
        format_rtt(minimum.0),
        plural(f64::from(peer.connections), "connection", "connections"),
        limited_by_clause(held_up.as_ref(), peer),
    );
    // A receiver that reads slowly is not the network.
    let severity = if held_up == Some(LimitedBy::ReceiveWindow) { Severity::Note } else { Severity::Warning };
    Some(Candidate {
        severity,
        subject: Subject::RemoteHost(Name::from(peer.address.to_string().as_str())),
        value: times,
        threshold: scene.thresholds.round_trip_multiple,
        unit: "ratio",
        sentence,
        evidence: evidence(scene, peer, trip, held_up.as_ref()),
        explained_share: 0.0,
    })
}

/// Round trips may be microseconds.
fn format_rtt(ms: f64) -> String {
    if ms < 0.1 { format!("{} µs", count(ms * 1000.0)) } else { millis(ms) }
}

fn limited_by_clause(held_up: Option<&LimitedBy>, peer: &RemoteHostSpan) -> String {
    let share = |of: fn(&crate::interval::network::remote_hosts::SendLimitShares) -> f64| {
        peer.send_limits.as_ref().map_or_else(|| "-".into(), |limits| percent(of(limits)))
    };
    match held_up {
        Some(LimitedBy::LocalQueue { nic, kind, packets, .. }) => {
            let waiting = plural(*packets as f64, "packet", "packets");
            format!("; they wait here, in the queue of {} ({}, {waiting})", lossy_name(nic), lossy_name(kind))
        }
        Some(LimitedBy::LocalShaper { nic, kind, overlimits: held, dropped }) => {
            let (held, dropped) = (count(*held), plural(*dropped, "packet", "packets"));
            format!(
                "; they wait here: {} ({}) held back {held} and dropped {dropped} a second",
                lossy_name(nic),
                lossy_name(kind)
            )
        }
        Some(LimitedBy::ReceiveWindow) => {
            format!(
                "; the receiver's window is full {} of the time: it reads too slowly",
                share(|limits| limits.rwnd_limited.0)
            )
        }
        Some(LimitedBy::SendBuffer) => {
            format!("; the send buffer is full {} of the time", share(|limits| limits.sndbuf_limited.0))
        }
        Some(LimitedBy::Application) => {
            format!("; the application has nothing to send {} of the time", share(|limits| limits.app_limited.0))
        }
        Some(LimitedBy::PathOrRemoteHost) => {
            "; nothing here holds them up: the path is slow, or the host answers slowly".into()
        }
        Some(LimitedBy::Path) => "; nothing here holds them up: the path".into(),
        None => String::new(),
    }
}

fn evidence(scene: &RuleContext, peer: &RemoteHostSpan, trip: &RttSpan, held_up: Option<&LimitedBy>) -> Vec<Evidence> {
    let limits = peer.send_limits.as_ref();
    let nic = peer.ifindex.and_then(|index| scene.interval.nics.iter().find(|nic| nic.id.ifindex == index));
    let queue = match held_up {
        Some(LimitedBy::LocalQueue { seconds, .. }) => Some(*seconds),
        _ => None,
    };
    let rate = |rate: Option<crate::units::PerSecond>| rate.map(|rate| rate.0 * 1024.0);
    vec![
        evidence_number("round_trip_seconds", trip.srtt.0 / 1000.0),
        evidence_optional("minimum_round_trip_seconds", trip.min_rtt.map(|minimum| minimum.0 / 1000.0)),
        evidence_number("connections", f64::from(peer.connections)),
        evidence_number("connections_looked_at", trip.count as f64),
        evidence_optional("sent_bytes_per_second", rate(peer.kilobytes_out)),
        evidence_optional("received_bytes_per_second", rate(peer.kilobytes_in)),
        evidence_optional("retransmitted_per_second", peer.segments_retransmitted.map(|rate| rate.0)),
        evidence_optional("retransmitted_ratio", peer.retransmitted_share.map(|share| share.0)),
        held_up.map_or(evidence_optional("limited_by", None), |held_up| evidence_text("limited_by", held_up.as_str())),
        evidence_optional("application_limited_ratio", limits.map(|limits| limits.app_limited.0)),
        evidence_optional("receiver_limited_ratio", limits.map(|limits| limits.rwnd_limited.0)),
        evidence_optional("send_buffer_limited_ratio", limits.map(|limits| limits.sndbuf_limited.0)),
        evidence_optional("path_limited_ratio", limits.map(|limits| limits.path_limited.0)),
        evidence_optional("own_queue_seconds", queue),
        nic.map_or(evidence_optional("interface", None), |nic| evidence_text("interface", nic.id.name.clone())),
        remote_waits::waiting_groups(scene.interval, peer.address)
            .map_or(evidence_optional("waiting_groups", None), |who| evidence_text("waiting_groups", who.as_str())),
    ]
}
