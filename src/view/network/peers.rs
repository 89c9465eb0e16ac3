//! Remote hosts: who is talked to, how long a round trip takes against its minimum, what holds the connections up.

use crate::findings::{self, HeldUp, Judged, Kind, Subject};
use crate::interval::Interval;
use crate::interval::network::remote_hosts::{RemoteHostSpan, RemoteHostsSpan, RttSpan};
use crate::safe;
use crate::state::State;
use crate::view::canvas::Canvas;
use crate::view::text::{self, SafeText, figure, maybe};
use crate::view::theme::{Ink, sign};
use crate::view::widgets::table::{Spec, Table};

const PEERS: [Spec; 9] = [
    Spec::words("PEERS", 22),
    Spec::number("conns", 5),
    Spec::number("rKB/s", 6).from(100),
    Spec::number("wKB/s", 6).from(100),
    Spec::number("rtt ms", 7),
    Spec::number("min", 6),
    Spec::number("×min", 6),
    Spec::number("retr/s", 6).from(60),
    Spec::words("limited by", 0).from(60),
];

pub fn table(width: u16) -> Table {
    let mut specs = PEERS;
    if width >= 130
        && let Some(first) = specs.first_mut()
    {
        // An IPv6 address in full.
        first.width = 40;
    }
    Table::new(&specs, width)
}

/// What is said once of all of them: how many are not listed, how old the look is where looking is dear.
pub fn about(state: &State, judged: &Judged) -> SafeText {
    let Some(peers) = &judged.peers else { return SafeText::default() };
    let mut words = Vec::new();
    if let Some(seldom) = seldom(state, judged, peers) {
        words.push(seldom);
    }
    let listed = u32::try_from(peers.rows.len()).unwrap_or(u32::MAX);
    if peers.host_count > listed {
        words.push(format!("{listed} of {} hosts", peers.host_count));
    }
    SafeText::of(words.join(", "))
}

/// `looked at every 4 s, since 30000 connections cost 38 ms`, where that is less often than a sample is taken.
fn seldom(state: &State, judged: &Judged, peers: &RemoteHostsSpan) -> Option<String> {
    let nominal = judged.interval.seconds.max(state.setup.interval_ms as f64 / 1000.0);
    let age = judged.interval.at().boottime_ns.saturating_sub(peers.scan_boottime_ns) as f64 / 1e9;
    (peers.seconds > nominal * 1.5 || age > nominal * 0.5).then(|| {
        let (every, cost) = (figure(peers.seconds.max(age), 4), figure(peers.scan_cpu_seconds * 1000.0, 4));
        format!(
            "looked at every {every} s, since {} cost {cost} ms",
            text::plural(peers.connection_count, "connection", "connections")
        )
    })
}

pub fn row(judged: &Judged, peer: &RemoteHostSpan, table: &Table, canvas: &mut Canvas, y: u16) {
    let trip = findings::round_trip(peer);
    let found = judged.verdict.iter().find(|finding| {
        finding.kind == Kind::NetworkLatency
            && matches!(&finding.subject, Subject::Peer(address) if *address.as_bytes() == *peer.address.to_string().as_bytes())
    });
    let ink = if trip.is_some() { Ink::Plain } else { Ink::Dim };
    let name_ink = if found.is_some() { Ink::Bold } else { ink };
    table.put(canvas, y, "PEERS", safe!("{}", peer.address), name_ink);
    table.put(canvas, y, "conns", safe!("{}", peer.connections), ink);
    table.put(canvas, y, "rKB/s", safe!("{}", maybe(peer.kilobytes_in.map(|rate| rate.0), 6)), ink);
    table.put(canvas, y, "wKB/s", safe!("{}", maybe(peer.kilobytes_out.map(|rate| rate.0), 6)), ink);
    table.put(canvas, y, "rtt ms", safe!("{}", smoothed(peer, 7)), ink);
    let minimum = trip.and_then(|trip| trip.min_rtt).map(|minimum| minimum.0);
    table.put(canvas, y, "min", safe!("{}", millis(minimum, 6)), Ink::Dim);
    let times = maybe(trip.and_then(RttSpan::srtt_to_min_ratio), 5);
    match found {
        Some(finding) => {
            let sign = sign(finding.severity);
            table.put(canvas, y, "×min", safe!("{times}{sign}"), Ink::from(finding.severity));
        }
        None => table.put(canvas, y, "×min", safe!("{times} "), ink),
    }
    table.put(canvas, y, "retr/s", safe!("{}", maybe(peer.segments_retransmitted.map(|rate| rate.0), 6)), ink);
    table.put(canvas, y, "limited by", limited_by(&judged.interval, peer), Ink::Dim);
}

/// The round trip; `≤` where the time that the host takes to answer is in it.
pub fn smoothed(peer: &RemoteHostSpan, cells: usize) -> String {
    let Some(trip) = findings::round_trip(peer) else { return "-".to_owned() };
    let bound = if peer.send_backlogged.is_none() { "≤" } else { "" };
    format!("{bound}{}", millis(Some(trip.srtt.0), cells - 1))
}

/// Milliseconds that may be microseconds.
pub fn millis(ms: Option<f64>, cells: usize) -> String {
    match ms {
        Some(ms) if ms > 0.0 && ms < 0.0995 => format!("{ms:.3}"),
        other => maybe(other, cells),
    }
}

/// In a few words.
pub fn limited_by(interval: &Interval, peer: &RemoteHostSpan) -> SafeText {
    if peer.local {
        return "this machine".into();
    }
    match findings::held_up(interval, peer) {
        Some(HeldUp::OwnQueue { nic, .. } | HeldUp::OwnShaper { nic, .. }) => safe!("own queue on {}", SafeText::name(&nic)),
        Some(other) => other.word().into(),
        None if peer.active.is_none() && peer.send_limits.is_none() => SafeText::default(),
        None => "-".into(),
    }
}
