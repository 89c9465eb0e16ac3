//! The table of remote hosts: round-trip time against its minimum, and what limits the connections.

use crate::findings::{self, Evaluation, Finding, Kind, LimitedBy, Subject};
use crate::interval::Interval;
use crate::interval::network::remote_hosts::{RemoteHostSpan, RemoteHostsSpan, RttSpan};
use crate::safe;
use crate::state::State;
use crate::units::PerSecond;
use crate::units::format;
use crate::view::canvas::Canvas;
use crate::view::safe_text::SafeText;
use crate::view::text::{format_number, format_optional};
use crate::view::theme::{StyleRole, severity_symbol};
use crate::view::widgets::table::{CellArea, ColumnSpec, Table};

/// A row of the table of remote hosts.
pub struct RemoteHostRow<'a> {
    interval: &'a Interval,
    host: &'a RemoteHostSpan,
    rtt: Option<&'a RttSpan>,
    finding: Option<&'a Finding>,
}

type Spec = ColumnSpec<fn(&RemoteHostRow, CellArea)>;

const REMOTE_HOST_COLUMNS: [Spec; 9] = [
    Spec::text("PEERS", 22, |row, cell| {
        let role = if row.finding.is_some() { StyleRole::Bold } else { row.role() };
        cell.text(safe!("{}", row.host.address), role);
    }),
    Spec::numeric("conns", 5, |row, cell| cell.text(safe!("{}", row.host.connections), row.role())),
    Spec::numeric("rKB/s", 6, |row, cell| row.rate(cell, row.host.kilobytes_in)).min_table_width(100),
    Spec::numeric("wKB/s", 6, |row, cell| row.rate(cell, row.host.kilobytes_out)).min_table_width(100),
    Spec::numeric("rtt ms", 7, |row, cell| cell.text(safe!("{}", format_rtt(row.host, 7)), row.role())),
    Spec::numeric("min", 6, |row, cell| {
        let minimum = row.rtt.and_then(|rtt| rtt.min_rtt).map(|minimum| minimum.0);
        cell.text(safe!("{}", format_millis(minimum, 6)), StyleRole::Dim);
    }),
    Spec::numeric("×min", 6, |row, cell| {
        let times = format_optional(row.rtt.and_then(RttSpan::srtt_to_min_ratio), 5);
        match row.finding {
            Some(finding) => {
                cell.text(safe!("{times}{}", severity_symbol(finding.severity)), StyleRole::from(finding.severity));
            }
            None => cell.text(safe!("{times} "), row.role()),
        }
    }),
    Spec::numeric("retr/s", 6, |row, cell| row.rate(cell, row.host.segments_retransmitted)).min_table_width(60),
    Spec::text("limited by", 0, |row, cell| cell.text(limited_by(row.interval, row.host), StyleRole::Dim)).min_table_width(60),
];

impl RemoteHostRow<'_> {
    /// Dim without a known round-trip time.
    fn role(&self) -> StyleRole {
        if self.rtt.is_some() { StyleRole::Plain } else { StyleRole::Dim }
    }

    fn rate(&self, cell: CellArea, rate: Option<PerSecond>) {
        cell.text(safe!("{}", format_optional(rate.map(|rate| rate.0), 6)), self.role());
    }
}

pub fn table(width: u16) -> Table<fn(&RemoteHostRow, CellArea)> {
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
            format::plural(peers.connection_count, "connection", "connections")
        )
    })
}

pub fn row(
    evaluation: &Evaluation,
    host: &RemoteHostSpan,
    table: &Table<fn(&RemoteHostRow, CellArea)>,
    canvas: &mut Canvas,
    y: u16,
) {
    let finding = evaluation.active.iter().find(|finding| {
        finding.kind == Kind::NetworkLatency
            && matches!(&finding.subject, Subject::RemoteHost(address) if *address.as_bytes() == *host.address.to_string().as_bytes())
    });
    let row = RemoteHostRow { interval: &evaluation.interval, host, rtt: findings::evaluated_rtt(host), finding };
    table.draw_row(canvas, y, |draw, cell| draw(&row, cell));
}

/// The smoothed RTT; `≤` if it includes the time that the host takes to answer.
pub fn format_rtt(host: &RemoteHostSpan, cells: usize) -> String {
    let Some(trip) = findings::evaluated_rtt(host) else { return "-".to_owned() };
    let bound = if host.send_backlogged.is_none() { "≤" } else { "" };
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
pub fn limited_by(interval: &Interval, host: &RemoteHostSpan) -> SafeText {
    if host.local {
        return "this machine".into();
    }
    match findings::limited_by(interval, host) {
        Some(LimitedBy::LocalQueue { nic, .. } | LimitedBy::LocalShaper { nic, .. }) => {
            safe!("own queue on {}", SafeText::from_name(&nic))
        }
        Some(other) => other.as_str().into(),
        None if host.active.is_none() && host.send_limits.is_none() => SafeText::default(),
        None => "-".into(),
    }
}
