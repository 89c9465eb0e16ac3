//! A remote host looked at closely.

use std::net::IpAddr;

use super::Page;
use super::device::{findings_of, graph};
use crate::findings::{self, Judged, Subject};
use crate::interval::network::remote_hosts::RttSpan;
use crate::safe;
use crate::state::State;
use crate::state::history::Digest;
use crate::units::PerSecond;
use crate::view::network::peers::{about, limited_by, millis, smoothed};
use crate::view::text::{self, SafeText, figure, maybe, percent};
use crate::view::theme::Ink;

pub fn peer(state: &State, judged: &Judged, address: IpAddr, page: &mut Page) {
    let interval = &*judged.interval;
    let span = judged.peers.as_ref().and_then(|peers| peers.rows.iter().find(|span| span.address == address));
    let Some(span) = span else { return };
    let here = if span.local { "   this machine, over loopback" } else { "" };
    page.line(0, safe!("{address}{here}"), Ink::Bold);
    let own = address.to_string();
    findings_of(judged, page, |subject| matches!(subject, Subject::Peer(other) if other.as_bytes() == own.as_bytes()));
    page.heading("ROUND TRIP");
    let trip = findings::round_trip(span);
    page.pair("smoothed", safe!("{} ms", smoothed(span, 7)));
    page.pair("minimum", safe!("{} ms", millis(trip.and_then(|trip| trip.min_rtt).map(|ms| ms.0), 6)));
    page.pair("× minimum", safe!("{}", maybe(trip.and_then(RttSpan::srtt_to_min_ratio), 6)));
    page.pair("connections", safe!("{} that carried data enough to tell", trip.map_or(0, |trip| trip.count)));
    if span.send_backlogged.is_none() && trip.is_some() {
        page.prose(
            2,
            &"≤: no connection had more to send than the path took, so that delayed acknowledgements and the host's \
                        time to answer are in the round trip. The path takes at most this long."
                .into(),
            Ink::Dim,
        );
    }
    graph(state, judged, page, None, " ms", |digest: &Digest| digest.round_trip(address));
    page.heading("CONNECTIONS");
    let rate = |rate: Option<PerSecond>| maybe(rate.map(|rate| rate.0), 6);
    page.pair("open", safe!("{}", span.connections));
    page.pair("sent", safe!("{} KB/s confirmed by it", rate(span.kilobytes_out)));
    page.pair("received", safe!("{} KB/s", rate(span.kilobytes_in)));
    let share = percent(span.retransmitted_share.map(|share| share.0), 5);
    page.pair("sent again", safe!("{} segments/s, {share}% of those with data", rate(span.segments_retransmitted)));
    page.pair("limited by", limited_by(interval, span));
    if let Some(limits) = &span.send_limits {
        page.heading("WHAT THEY WAITED FOR, of their time");
        let shares = [
            ("something to send", limits.app_limited),
            ("receiver's window", limits.rwnd_limited),
            ("send buffer", limits.sndbuf_limited),
            ("path or answers", limits.path_limited),
        ];
        for (words, share) in shares {
            page.pair(words, safe!("{:>5}%", percent(Some(share.0), 5)));
        }
    }
    page.heading("LOOK");
    let nic = span.ifindex.and_then(|index| interval.nics.iter().find(|nic| nic.id.ifindex == index));
    page.pair("route leaves by", nic.map_or("-".into(), |nic| SafeText::name(&nic.id.name)));
    if let Some(peers) = &judged.peers {
        let cost = figure(peers.scan_cpu_seconds * 1000.0, 4);
        page.pair(
            "cost",
            safe!(
                "{cost} ms of CPU for {} with {}",
                text::plural(peers.connection_count, "connection", "connections"),
                text::plural(peers.host_count, "host", "hosts")
            ),
        );
        let about = about(state, judged);
        if !about.is_empty() {
            page.pair("listed", about);
        }
    }
}
