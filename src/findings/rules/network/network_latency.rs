//! Rule network-latency: round-trip times to a remote host are far above the minimum of the same connections.

use std::net::IpAddr;

use crate::findings::finding::{Evidence, Kind, Severity, Subject};
use crate::findings::formatting::{bytes, count, latency, lossy_name, multiple, percent, plural};
use crate::findings::remote_host_limits::{LimitedBy, evaluated_rtt, limited_by};
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{
    Candidate, RuleContext, evidence_chain, evidence_number, evidence_optional, evidence_text,
};
use crate::findings::rules::network::are_reported_together;
use crate::findings::wait_chain::link::ChainLink;
use crate::findings::wait_chain::remote_waits::waiting_groups;
use crate::interval::network::remote_hosts::{RemoteHostSpan, RttSpan};
use crate::sample::Name;
use crate::units::SmallSort;

pub const NETWORK_LATENCY: Rule = Rule {
    kind: Kind::NetworkLatency,
    title: "Round trips far above their minimum",
    meaning: "Packets to a remote host take several times as long as their minimum: they wait in a queue, here, on the path, \
              or at the host. Everything that talks to that host waits with them.",
    computed: "Over the connections of a remote host that carried data: smoothed round trip at least 3 times the \
               connections' own minimum, and at least 2 ms, in 2 of 3 scans of the connections. Only connections with a send \
               backlog count; in the others the host's delayed acknowledgements and its response time are part of the round \
               trip, so they count from 200 ms above their minimum. Connections of this machine with itself are left out. \
               More than 3 hosts have one finding for all, until it ends with fewer than 3 left. \
               The sentence names the cause: a local queue that accounts for at least half of the excess, the receiver's \
               window, the send buffer, the application, a local queue that delayed 10 % of the packets or dropped 0.1 % of \
               them although it was empty when sampled (a paced sender); otherwise the path.",
    caveats: "A bulk transfer fills the queue in front of the slowest link: that may not matter. A path that became longer \
              (a failover) is reported for an hour. A full window of a receiver that reads slowly is a note, and so are round trips \
              to a client of a server of this host (its port is the higher one) outside of private networks, whose own line is slow, unless the delay is local.",
    next_steps: &[
        "the connections: ss -ti dst ADDRESS",
        "the local queue: tc -s qdisc; the path: mtr ADDRESS",
        "what else sends there: remote hosts by traffic (screen 4, p)",
    ],
    reference: "TCP and UDP",
    // The rule counts scans of the connections itself: there may be fewer of them than intervals.
    hysteresis: Hysteresis::Immediate,
    evaluate: network_latency,
};

/// KB per second sent to a host from which the sentence says it.
const MIN_REPORTED_KILOBYTES: f64 = 1.0;

fn network_latency(context: &RuleContext) -> Vec<Candidate> {
    let Some(remote_hosts) = context.state.remote_hosts() else { return Vec::new() };
    let mut slow: Vec<&RemoteHostSpan> =
        remote_hosts.rows.iter().filter(|remote_host| context.state.is_slow(remote_host.address)).collect();
    if !are_reported_together(context, Kind::NetworkLatency, slow.len()) {
        return slow.into_iter().filter_map(|remote_host| candidate(context, remote_host)).collect();
    }
    // Many slow hosts have a common local cause.
    let excess =
        |remote_host: &RemoteHostSpan| evaluated_rtt(remote_host).and_then(RttSpan::excess).map_or(0.0, |excess| excess.0);
    slow.small_sort_by(|a, b| excess(b).total_cmp(&excess(a)));
    let worst = slow.first().and_then(|remote_host| candidate(context, remote_host));
    let together = |worst: Candidate| Candidate {
        subject: Subject::Host,
        sentence: format!("round trips to {} hosts are far above their minimum; worst: {}", slow.len(), worst.sentence),
        ..worst
    };
    worst.map(together).into_iter().collect()
}

fn candidate(context: &RuleContext, remote_host: &RemoteHostSpan) -> Option<Candidate> {
    let rtt = evaluated_rtt(remote_host)?;
    let (times, minimum) = (rtt.srtt_to_min_ratio()?, rtt.min_rtt?);
    let limit = limited_by(context.interval, remote_host);
    let sent = remote_host.kilobytes_out.filter(|rate| rate.0 >= MIN_REPORTED_KILOBYTES);
    let sent = sent.map_or_else(String::new, |rate| format!(", {}/s sent", bytes(rate.0 * 1024.0)));
    let process = remote_host.worst_process.as_ref().map_or_else(String::new, |(id, name)| {
        let whose = if remote_host.connections == 1 { " of" } else { ", the slowest of" };
        format!("{whose} {} ({})", lossy_name(name), id.pid)
    });
    let waiting = waiting_groups(context.interval, remote_host.address);
    let waiting = waiting.map_or_else(String::new, |label| format!("; waiting for its answers, by inference: {label}"));
    let sentence = format!(
        "{}: round trips of {} = {} their minimum of {} ({}{process}{sent}){}{waiting}",
        remote_host.address,
        latency(rtt.srtt),
        multiple(times),
        latency(minimum),
        plural(f64::from(remote_host.connections), "connection", "connections"),
        limited_by_clause(limit.as_ref(), remote_host),
    );
    let connections = plural(f64::from(remote_host.connections), "connection", "connections");
    let sender = match &remote_host.worst_process {
        Some((id, name)) if remote_host.connections == 1 => format!("{} ({})", lossy_name(name), id.pid),
        Some((id, name)) => format!("{} ({}), with the slowest of {connections}", lossy_name(name), id.pid),
        None => connections,
    };
    let round_trips = format!(
        "{}: round trips of {} = {} their minimum of {}",
        remote_host.address,
        latency(rtt.srtt),
        multiple(times),
        latency(minimum),
    );
    // A delay on this host is before the path, a receiver that reads slowly is behind it.
    let cause = limited_by_clause(limit.as_ref(), remote_host);
    let is_inferred = matches!(limit, Some(LimitedBy::Path | LimitedBy::PathOrRemoteHost));
    let known_by = if is_inferred { "inference: no local cause in tcp_info and tc" } else { "tcp_info, tc (rtnetlink)" };
    let cause = cause.strip_prefix("; ").map(|cause| ChainLink::new(cause, known_by));
    let is_local = matches!(
        limit,
        Some(LimitedBy::LocalQueue { .. } | LimitedBy::LocalShaper { .. } | LimitedBy::SendBuffer | LimitedBy::Application)
    );
    let (before, behind) = if is_local { (cause, None) } else { (None, cause) };
    let host = ChainLink::new(round_trips, "tcp_info (rtt, min_rtt)");
    let chain = std::iter::once(ChainLink::new(sender, "sock_diag")).chain(before).chain([host]).chain(behind);
    let chain = evidence_chain(chain);
    // A receiver that reads slowly is no problem of the network, and the line of a client in the internet is none of this host.
    let is_of_clients =
        !is_local && remote_host.client_connections == remote_host.connections && is_in_internet(remote_host.address);
    let severity = if limit == Some(LimitedBy::ReceiveWindow) || is_of_clients { Severity::Note } else { Severity::Warning };
    Some(Candidate {
        severity,
        subject: Subject::RemoteHost(Name::from(remote_host.address.to_string().as_str())),
        value: times,
        threshold: context.thresholds.round_trip_multiple,
        unit: "ratio",
        sentence,
        evidence: evidence(context, remote_host, rtt, limit.as_ref()).into_iter().chain(chain).collect(),
        explained_share: 0.0,
    })
}

/// Whether the address is none of a private network.
fn is_in_internet(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !address.is_private() && !address.is_link_local() && !address.is_loopback(),
        IpAddr::V6(address) => !address.is_unique_local() && !address.is_unicast_link_local() && !address.is_loopback(),
    }
}

fn limited_by_clause(limit: Option<&LimitedBy>, remote_host: &RemoteHostSpan) -> String {
    let share = |of: fn(&crate::interval::network::remote_hosts::SendLimitShares) -> f64| {
        remote_host.send_limits.as_ref().map_or_else(|| "-".into(), |limits| percent(of(limits)))
    };
    match limit {
        Some(LimitedBy::LocalQueue { nic, kind, packets, .. }) => {
            let waiting = plural(*packets as f64, "packet", "packets");
            format!("; the delay is local, in the queue of {} ({}, {waiting})", lossy_name(nic), lossy_name(kind))
        }
        Some(LimitedBy::LocalShaper { nic, kind, overlimits: held, dropped }) => {
            let (held, dropped) = (count(*held), plural(*dropped, "packet", "packets"));
            format!(
                "; the delay is local: {} ({}) delayed {held} and dropped {dropped} per second",
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
        Some(LimitedBy::PathOrRemoteHost) => "; no local cause: the path is slow, or the host answers slowly".into(),
        Some(LimitedBy::Path) => "; no local cause: the path".into(),
        None => String::new(),
    }
}

fn evidence(context: &RuleContext, remote_host: &RemoteHostSpan, rtt: &RttSpan, limit: Option<&LimitedBy>) -> Vec<Evidence> {
    let limits = remote_host.send_limits.as_ref();
    let nic = remote_host.ifindex.and_then(|index| context.interval.network.nics.iter().find(|nic| nic.id.ifindex == index));
    let queue = match limit {
        Some(LimitedBy::LocalQueue { seconds, .. }) => Some(*seconds),
        _ => None,
    };
    let rate = |rate: Option<crate::units::PerSecond>| rate.map(|rate| rate.0 * 1024.0);
    vec![
        evidence_number("round_trip_seconds", rtt.srtt.0 / 1000.0),
        evidence_optional("minimum_round_trip_seconds", rtt.min_rtt.map(|minimum| minimum.0 / 1000.0)),
        evidence_number("connections", f64::from(remote_host.connections)),
        evidence_number("connections_examined", rtt.count as f64),
        evidence_optional("sent_bytes_per_second", rate(remote_host.kilobytes_out)),
        evidence_optional("received_bytes_per_second", rate(remote_host.kilobytes_in)),
        evidence_optional("retransmitted_per_second", remote_host.segments_retransmitted.map(|rate| rate.0)),
        evidence_optional("retransmitted_ratio", remote_host.retransmitted_share.map(|share| share.0)),
        limit.map_or(evidence_optional("limited_by", None), |limit| evidence_text("limited_by", limit.as_str())),
        evidence_optional("application_limited_ratio", limits.map(|limits| limits.app_limited.0)),
        evidence_optional("receiver_limited_ratio", limits.map(|limits| limits.rwnd_limited.0)),
        evidence_optional("send_buffer_limited_ratio", limits.map(|limits| limits.sndbuf_limited.0)),
        evidence_optional("path_limited_ratio", limits.map(|limits| limits.path_limited.0)),
        evidence_optional("own_queue_seconds", queue),
        nic.map_or(evidence_optional("interface", None), |nic| evidence_text("interface", nic.id.name.clone())),
        remote_host
            .worst_process
            .as_ref()
            .map_or(evidence_optional("process", None), |(_, name)| evidence_text("process", name.clone())),
        waiting_groups(context.interval, remote_host.address)
            .map_or(evidence_optional("waiting_groups", None), |label| evidence_text("waiting_groups", label.as_str())),
    ]
}
