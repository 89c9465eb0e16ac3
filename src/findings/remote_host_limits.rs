//! Round-trip times to a remote host against their minimum, and what limits its connections.

use crate::findings::thresholds::Thresholds;
use crate::interval::Interval;
use crate::interval::network::remote_hosts::{RemoteHostSpan, RttSpan};
use crate::sample::Name;
use crate::sample::network::Nic;

/// What limits the connections with a host.
#[derive(Clone, Debug, PartialEq)]
pub enum LimitedBy {
    /// A local queueing discipline, and how long it takes to send its backlog
    LocalQueue {
        nic: Name,
        kind: Name,
        packets: u64,
        seconds: f64,
    },
    /// A local queueing discipline that was empty when sampled, but delayed or dropped packets in the interval, as with
    /// paced senders (bbr)
    LocalShaper {
        nic: Name,
        kind: Name,
        /// Per second
        overlimits: f64,
        dropped: f64,
    },
    /// The receiver's window
    ReceiveWindow,
    SendBuffer,
    /// The application had nothing to send
    Application,
    /// Acknowledgements or answers are outstanding and there is nothing more to send: either the path or the host is slow
    PathOrRemoteHost,
    /// No local cause was found
    Path,
}

/// The word of `LimitedBy` for a queueing discipline of this host
pub const OWN_QUEUE: &str = "own queue";

impl LimitedBy {
    /// As shown on screens and in JSON.
    pub fn as_str(&self) -> &'static str {
        match self {
            LimitedBy::LocalQueue { .. } | LimitedBy::LocalShaper { .. } => OWN_QUEUE,
            LimitedBy::ReceiveWindow => "receiver",
            LimitedBy::SendBuffer => "send buffer",
            LimitedBy::Application => "application",
            LimitedBy::PathOrRemoteHost => "answers",
            LimitedBy::Path => "the path",
        }
    }
}

/// The round trip that is evaluated: of the connections with a send backlog if there are any, otherwise of all that carried
/// data.
pub fn evaluated_rtt(remote_host: &RemoteHostSpan) -> Option<&RttSpan> {
    remote_host.send_backlogged.as_ref().or(remote_host.active.as_ref())
}

/// Whether its round trips are far above their minimum.
pub fn is_slow(remote_host: &RemoteHostSpan, thresholds: &Thresholds) -> bool {
    let far = |rtt: &RttSpan, excess_ms: f64| {
        rtt.srtt_to_min_ratio().is_some_and(|times| times >= thresholds.round_trip_multiple)
            && rtt.srtt.0 >= thresholds.round_trip_ms
            && rtt.excess().is_some_and(|excess| excess.0 >= excess_ms)
    };
    let backlogged = remote_host.send_backlogged.as_ref().is_some_and(|rtt| far(rtt, 0.0));
    let other = remote_host.active.as_ref().is_some_and(|rtt| far(rtt, thresholds.round_trip_unpressed_ms));
    !remote_host.local && (backlogged || other)
}

/// What limits the connections with a host; `None` if none carried data, or the kernel does not report it.
pub fn limited_by(interval: &Interval, remote_host: &RemoteHostSpan) -> Option<LimitedBy> {
    let limits = remote_host.send_limits.as_ref()?;
    if let Some(queue) = local_queue(interval, remote_host) {
        return Some(queue);
    }
    let most = |share: f64| share >= MIN_LIMITED_SHARE;
    Some(match limits {
        _ if most(limits.rwnd_limited.0) => LimitedBy::ReceiveWindow,
        _ if most(limits.sndbuf_limited.0) => LimitedBy::SendBuffer,
        _ if most(limits.app_limited.0) => LimitedBy::Application,
        _ if remote_host.send_backlogged.is_none() => LimitedBy::PathOrRemoteHost,
        // Weaker evidence than the connections' own counters: other connections may be delayed there, too.
        _ => local_shaper(interval, remote_host).unwrap_or(LimitedBy::Path),
    })
}

/// The queue on the interface of the route, if at the rate of this interval it takes at least half of the excess to send
/// its backlog. Both samples are used: the larger backlog counts.
fn local_queue(interval: &Interval, remote_host: &RemoteHostSpan) -> Option<LimitedBy> {
    let interface = remote_host.ifindex?;
    let excess = remote_host.send_backlogged.as_ref()?.excess()?.0 / 1000.0;
    let span = interval.network.nics.iter().find(|span| span.id.ifindex == interface)?;
    let at = |nics: &[Nic]| nics.iter().find(|nic| nic.id == span.id).and_then(|nic| nic.qdisc.clone());
    let both = [at(interval.newer.nics.as_deref().ok()?), interval.older.nics.as_deref().ok().and_then(at)];
    let fullest = both.into_iter().flatten().max_by_key(|qdisc| qdisc.backlog_bytes)?;
    let rate = span.tx.kilobytes.0 * 1024.0;
    let seconds = if rate > 0.0 { fullest.backlog_bytes as f64 / rate } else { return None };
    (fullest.backlog_packets > 0 && excess > 0.0 && seconds >= excess * MIN_QUEUED_SHARE).then(|| LimitedBy::LocalQueue {
        nic: span.id.name.clone(),
        kind: fullest.kind,
        packets: fullest.backlog_packets,
        seconds,
    })
}

/// Share of the sent packets that a limiting queueing discipline delays. docs/metrics.md, "Fixed thresholds".
const MIN_OVERLIMITS_SHARE: f64 = 0.1;

/// Share of the sent packets that a limiting queueing discipline drops.
const MIN_DROPPED_SHARE: f64 = 0.001;

/// Share of the time that connections are limited by a cause from which it is named.
const MIN_LIMITED_SHARE: f64 = 0.5;

/// Share of the RTT excess that a local queue must account for to be the cause.
const MIN_QUEUED_SHARE: f64 = 0.5;

/// The same queueing discipline by its counters over the interval: its queue may be empty at both samples.
fn local_shaper(interval: &Interval, remote_host: &RemoteHostSpan) -> Option<LimitedBy> {
    let interface = remote_host.ifindex?;
    remote_host.send_backlogged.as_ref()?.excess().filter(|excess| excess.0 > 0.0)?;
    let span = interval.network.nics.iter().find(|span| span.id.ifindex == interface)?;
    let qdisc = span.qdisc.as_ref()?;
    let rate = |rate: Option<crate::units::PerSecond>| rate.map_or(0.0, |rate| rate.0);
    let (held, dropped, sent) = (rate(qdisc.overlimits), rate(qdisc.dropped), span.tx.packets.0);
    let limits = sent > 0.0 && (held >= sent * MIN_OVERLIMITS_SHARE || (dropped >= 1.0 && dropped >= sent * MIN_DROPPED_SHARE));
    limits.then(|| LimitedBy::LocalShaper { nic: span.id.name.clone(), kind: qdisc.kind.clone(), overlimits: held, dropped })
}
