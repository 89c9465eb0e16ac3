//! The details page of a remote host.

use std::net::IpAddr;

use super::device::{graph, latency_label, subject_findings};
use super::page::Page;
use crate::findings::{self, Evaluation};
use crate::interval::network::remote_hosts::RttSpan;
use crate::safe;
use crate::state::State;
use crate::state::history::GraphFigure;
use crate::units::format;
use crate::units::{Millis, PerSecond};
use crate::view::network::remote_hosts::{footnote, format_rtt, limited_by};
use crate::view::safe_text::SafeText;
use crate::view::text::{format_optional, format_percent, optional_latency};
use crate::view::theme::StyleRole;

/// The page of a remote host.
pub fn remote_host(state: &State, evaluation: &Evaluation, address: IpAddr, page: &mut Page) {
    let interval = &*evaluation.interval;
    let span = evaluation.remote_hosts.as_ref().and_then(|hosts| hosts.rows.iter().find(|span| span.address == address));
    let Some(span) = span else { return };
    let here = if span.local { "   this machine, over loopback" } else { "" };
    page.line(0, safe!("{address}{here}"), StyleRole::Bold);
    subject_findings(evaluation, page, |subject| subject.remote_host() == Some(address));
    page.heading("ROUND TRIP");
    let trip = findings::evaluated_rtt(span);
    page.labelled("smoothed", safe!("{}", format_rtt(span)));
    page.labelled("minimum", safe!("{}", optional_latency(trip.and_then(|trip| trip.min_rtt))));
    page.labelled("× minimum", safe!("{}", format_optional(trip.and_then(RttSpan::srtt_to_min_ratio), 6)));
    page.labelled("connections", safe!("{} with enough data for an estimate", trip.map_or(0, |trip| trip.count)));
    if span.send_backlogged.is_none() && trip.is_some() {
        page.paragraph(
            2,
            &"≤: no connection was limited by the path, so that the RTT includes delayed acknowledgements and the host's \
                        response time. It is an upper bound."
                .into(),
            StyleRole::Dim,
        );
    }
    graph(state, page, None, latency_label, &GraphFigure::RoundTrip(address));
    page.heading("CONNECTIONS");
    let rate = |rate: Option<PerSecond>| format_optional(rate.map(|rate| rate.0), 6);
    page.labelled("open", safe!("{}", span.connections));
    page.labelled("sent", safe!("{} KB/s acknowledged", rate(span.kilobytes_out)));
    page.labelled("received", safe!("{} KB/s", rate(span.kilobytes_in)));
    let share = format_percent(span.retransmitted_share.map(|share| share.0), 5);
    page.labelled("retransmitted", safe!("{} segments/s, {share}% of the data segments", rate(span.segments_retransmitted)));
    page.labelled("limited by", limited_by(interval, span));
    if let Some(limits) = &span.send_limits {
        page.heading("LIMITED BY (share of the time)");
        let shares = [
            ("application", limits.app_limited),
            ("receive window", limits.rwnd_limited),
            ("send buffer", limits.sndbuf_limited),
            ("path", limits.path_limited),
        ];
        for (words, share) in shares {
            page.labelled(words, safe!("{:>5}%", format_percent(Some(share.0), 5)));
        }
    }
    page.heading("SOCKET SCAN");
    let nic = span.ifindex.and_then(|index| interval.network.nics.iter().find(|nic| nic.id.ifindex == index));
    page.labelled("interface", nic.map_or("-".into(), |nic| SafeText::from_name(&nic.id.name)));
    if let Some(hosts) = &evaluation.remote_hosts {
        let cost = format::latency(Millis(hosts.scan_cpu_seconds * 1000.0));
        page.labelled(
            "cost",
            safe!(
                "{cost} of CPU for {} with {}",
                format::plural(hosts.connection_count, "connection", "connections"),
                format::plural(hosts.host_count, "host", "hosts")
            ),
        );
        let about = footnote(state, evaluation);
        if !about.is_empty() {
            page.labelled("listed", about);
        }
    }
}
