//! Remote hosts: who is talked to, how long a round trip takes against its minimum, what holds the connections up.

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
        // An IPv6 address in full.
        first.width = 40;
    }
    Table::new(&specs, width)
}

/// What is said once of all of them: how many are not listed, how old the look is where looking is dear.
pub fn footnote(state: &State, judged: &Evaluation) -> SafeText {
    let Some(peers) = &judged.remote_hosts else { return SafeText::default() };
    let mut words = Vec::new();
    if let Some(seldom) = scan_interval_note(state, judged, peers) {
        words.push(seldom);
    }
    let listed = u32::try_from(peers.rows.len()).unwrap_or(u32::MAX);
    if peers.host_count > listed {
        words.push(format!("{listed} of {} hosts", peers.host_count));
    }
    SafeText::sanitize(words.join(", "))
}

/// `looked at every 4 s, since 30000 connections cost 38 ms`, where that is less often than a sample is taken.
fn scan_interval_note(state: &State, judged: &Evaluation, peers: &RemoteHostsSpan) -> Option<String> {
    let nominal = judged.interval.seconds.max(state.setup.interval_ms as f64 / 1000.0);
    let age = judged.interval.at().boottime_ns.saturating_sub(peers.scan_boottime_ns) as f64 / 1e9;
    (peers.seconds > nominal * 1.5 || age > nominal * 0.5).then(|| {
        let (every, cost) = (format_number(peers.seconds.max(age), 4), format_number(peers.scan_cpu_seconds * 1000.0, 4));
        format!(
            "looked at every {every} s, since {} cost {cost} ms",
            text::pluralize(peers.connection_count, "connection", "connections")
        )
    })
}

pub fn row(judged: &Evaluation, peer: &RemoteHostSpan, table: &Table, canvas: &mut Canvas, y: u16) {
    let trip = findings::evaluated_rtt(peer);
    let found = judged.active.iter().find(|finding| {
        finding.kind == Kind::NetworkLatency
            && matches!(&finding.subject, Subject::RemoteHost(address) if *address.as_bytes() == *peer.address.to_string().as_bytes())
    });
    let ink = if trip.is_some() { StyleRole::Plain } else { StyleRole::Dim };
    let name_ink = if found.is_some() { StyleRole::Bold } else { ink };
    table.draw_cell(canvas, y, "PEERS", safe!("{}", peer.address), name_ink);
    table.draw_cell(canvas, y, "conns", safe!("{}", peer.connections), ink);
    table.draw_cell(canvas, y, "rKB/s", safe!("{}", format_optional(peer.kilobytes_in.map(|rate| rate.0), 6)), ink);
    table.draw_cell(canvas, y, "wKB/s", safe!("{}", format_optional(peer.kilobytes_out.map(|rate| rate.0), 6)), ink);
    table.draw_cell(canvas, y, "rtt ms", safe!("{}", format_rtt(peer, 7)), ink);
    let minimum = trip.and_then(|trip| trip.min_rtt).map(|minimum| minimum.0);
    table.draw_cell(canvas, y, "min", safe!("{}", format_millis(minimum, 6)), StyleRole::Dim);
    let times = format_optional(trip.and_then(RttSpan::srtt_to_min_ratio), 5);
    match found {
        Some(finding) => {
            let sign = severity_symbol(finding.severity);
            table.draw_cell(canvas, y, "×min", safe!("{times}{sign}"), StyleRole::from(finding.severity));
        }
        None => table.draw_cell(canvas, y, "×min", safe!("{times} "), ink),
    }
    table.draw_cell(canvas, y, "retr/s", safe!("{}", format_optional(peer.segments_retransmitted.map(|rate| rate.0), 6)), ink);
    table.draw_cell(canvas, y, "limited by", limited_by(&judged.interval, peer), StyleRole::Dim);
}

/// The round trip; `≤` where the time that the host takes to answer is in it.
pub fn format_rtt(peer: &RemoteHostSpan, cells: usize) -> String {
    let Some(trip) = findings::evaluated_rtt(peer) else { return "-".to_owned() };
    let bound = if peer.send_backlogged.is_none() { "≤" } else { "" };
    format!("{bound}{}", format_millis(Some(trip.srtt.0), cells - 1))
}

/// Milliseconds that may be microseconds.
pub fn format_millis(ms: Option<f64>, cells: usize) -> String {
    match ms {
        Some(ms) if ms > 0.0 && ms < 0.0995 => format!("{ms:.3}"),
        other => format_optional(other, cells),
    }
}

/// In a few words.
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
