//! The table of remote hosts: round-trip time against its minimum, and what limits the connections.

use crate::findings::{self, Evaluation, Kind, LimitedBy, Subject};
use crate::interval::Interval;
use crate::interval::network::remote_hosts::{RemoteHostSpan, RemoteHostsSpan, RttSpan};
use crate::safe;
use crate::state::State;
use crate::view::canvas::Canvas;
use crate::view::text::{self, SafeText, format_number, format_optional};
use crate::view::theme::{StyleRole, severity_symbol};
use crate::view::widgets::table::{ColumnSpec, Table};

const REMOTE_HOST_COLUMNS: [ColumnSpec; 9] = [
    ColumnSpec::text("PEERS", 22),
    ColumnSpec::numeric("conns", 5),
    ColumnSpec::numeric("rKB/s", 6).min_table_width(100),
    ColumnSpec::numeric("wKB/s", 6).min_table_width(100),
    ColumnSpec::numeric("rtt ms", 7),
    ColumnSpec::numeric("min", 6),
    ColumnSpec::numeric("×min", 6),
    ColumnSpec::numeric("retr/s", 6).min_table_width(60),
    ColumnSpec::text("limited by", 0).min_table_width(60),
];

pub fn table(width: u16) -> Table {
    let mut specs = REMOTE_HOST_COLUMNS;
    if width >= 130
        && let Some(first) = specs.first_mut()
    {
        // Room for a full IPv6 address.
        first.width = 40;
    }
    Table::new(&specs, width)
}

/// A note below the table: hosts that are not listed, and the scan interval if sockets are scanned less often than sampled.
pub fn footnote(state: &State, evaluation: &Evaluation) -> SafeText {
    let Some(peers) = &evaluation.remote_hosts else { return SafeText::default() };
    let mut words = Vec::new();
    if let Some(seldom) = scan_interval_note(state, evaluation, peers) {
        words.push(seldom);
    }
    let listed = u32::try_from(peers.rows.len()).unwrap_or(u32::MAX);
    if peers.host_count > listed {
        words.push(format!("{listed} of {} hosts", peers.host_count));
    }
    SafeText::sanitize(words.join(", "))
}

/// `scanned every 4 s: 30000 connections take 38 ms`, if that is less often than samples are taken.
fn scan_interval_note(state: &State, evaluation: &Evaluation, peers: &RemoteHostsSpan) -> Option<String> {
    let nominal = evaluation.interval.seconds.max(state.setup.interval_ms as f64 / 1000.0);
    let age = evaluation.interval.at().boottime_ns.saturating_sub(peers.scan_boottime_ns) as f64 / 1e9;
    (peers.seconds > nominal * 1.5 || age > nominal * 0.5).then(|| {
        let (every, cost) = (format_number(peers.seconds.max(age), 4), format_number(peers.scan_cpu_seconds * 1000.0, 4));
        format!(
            "scanned every {every} s: {} take {cost} ms",
            text::pluralize(peers.connection_count, "connection", "connections")
        )
    })
}

pub fn row(evaluation: &Evaluation, peer: &RemoteHostSpan, table: &Table, canvas: &mut Canvas, y: u16) {
    let trip = findings::evaluated_rtt(peer);
    let found = evaluation.active.iter().find(|finding| {
        finding.kind == Kind::NetworkLatency
            && matches!(&finding.subject, Subject::RemoteHost(address) if *address.as_bytes() == *peer.address.to_string().as_bytes())
    });
    let role = if trip.is_some() { StyleRole::Plain } else { StyleRole::Dim };
    let name_ink = if found.is_some() { StyleRole::Bold } else { role };
    table.draw_cell(canvas, y, "PEERS", safe!("{}", peer.address), name_ink);
    table.draw_cell(canvas, y, "conns", safe!("{}", peer.connections), role);
    table.draw_cell(canvas, y, "rKB/s", safe!("{}", format_optional(peer.kilobytes_in.map(|rate| rate.0), 6)), role);
    table.draw_cell(canvas, y, "wKB/s", safe!("{}", format_optional(peer.kilobytes_out.map(|rate| rate.0), 6)), role);
    table.draw_cell(canvas, y, "rtt ms", safe!("{}", format_rtt(peer, 7)), role);
    let minimum = trip.and_then(|trip| trip.min_rtt).map(|minimum| minimum.0);
    table.draw_cell(canvas, y, "min", safe!("{}", format_millis(minimum, 6)), StyleRole::Dim);
    let times = format_optional(trip.and_then(RttSpan::srtt_to_min_ratio), 5);
    match found {
        Some(finding) => {
            let sign = severity_symbol(finding.severity);
            table.draw_cell(canvas, y, "×min", safe!("{times}{sign}"), StyleRole::from(finding.severity));
        }
        None => table.draw_cell(canvas, y, "×min", safe!("{times} "), role),
    }
    table.draw_cell(canvas, y, "retr/s", safe!("{}", format_optional(peer.segments_retransmitted.map(|rate| rate.0), 6)), role);
    table.draw_cell(canvas, y, "limited by", limited_by(&evaluation.interval, peer), StyleRole::Dim);
}

/// The smoothed RTT; `≤` if it includes the time that the host takes to answer.
pub fn format_rtt(peer: &RemoteHostSpan, cells: usize) -> String {
    let Some(trip) = findings::evaluated_rtt(peer) else { return "-".to_owned() };
    let bound = if peer.send_backlogged.is_none() { "≤" } else { "" };
    format!("{bound}{}", format_millis(Some(trip.srtt.0), cells - 1))
}

/// Milliseconds, with three decimals below 0.1.
pub fn format_millis(ms: Option<f64>, cells: usize) -> String {
    match ms {
        Some(ms) if ms > 0.0 && ms < 0.0995 => format!("{ms:.3}"),
        other => format_optional(other, cells),
    }
}

/// What limits the connections.
pub fn limited_by(interval: &Interval, peer: &RemoteHostSpan) -> SafeText {
    if peer.local {
        return "this machine".into();
    }
    match findings::limited_by(interval, peer) {
        Some(LimitedBy::LocalQueue { nic, .. } | LimitedBy::LocalShaper { nic, .. }) => {
            safe!("own queue on {}", SafeText::from_name(&nic))
        }
        Some(other) => other.as_str().into(),
        None if peer.active.is_none() && peer.send_limits.is_none() => SafeText::default(),
        None => "-".into(),
    }
}
