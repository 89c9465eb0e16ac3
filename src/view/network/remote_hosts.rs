//! The table of remote hosts: round-trip time against its minimum, and what limits the connections.

use crate::figures::{Column, remote_host};
use crate::findings::{self, Evaluation, Finding, Kind, LimitedBy, Subject};
use crate::interval::Interval;
use crate::interval::network::remote_hosts::{RemoteHostSpan, RemoteHostsSpan};
use crate::safe;
use crate::state::State;
use crate::state::history::GraphFigure;
use crate::units::Millis;
use crate::units::format;
use crate::view::columns::{CellContent, ColumnSpec, Columns, TableRow};
use crate::view::safe_text::SafeText;
use crate::view::text::{format_figure, format_number, optional_latency};
use crate::view::theme::{StyleRole, severity_symbol};
use crate::view::time_cells::TimeCells;
use crate::view::widgets::sparkline::log_ratio_level;

/// A row of the table of remote hosts.
pub struct RemoteHostRow<'a> {
    state: &'a State,
    evaluation: &'a Evaluation,
    host: &'a RemoteHostSpan,
    finding: Option<&'a Finding>,
}

pub type Spec = ColumnSpec<fn(&RemoteHostRow, CellContent)>;

const REMOTE_HOST_COLUMNS: [Spec; 10] = [
    Spec::text("REMOTE HOSTS", 22, |row, cell| {
        let role = if row.finding.is_some() { StyleRole::Bold } else { row.role() };
        cell.text(safe!("{}", row.host.address), role);
    })
    .key("remote_host"),
    Spec::figure(&remote_host::CONNECTIONS, 5, |row, cell| row.figure(cell, &remote_host::CONNECTIONS, 5, row.role())),
    Spec::figure(&remote_host::RECEIVED_BYTES_PER_SECOND, 6, |row, cell| {
        row.figure(cell, &remote_host::RECEIVED_BYTES_PER_SECOND, 6, row.role());
    })
    .min_table_width(100),
    Spec::figure(&remote_host::SENT_BYTES_PER_SECOND, 6, |row, cell| {
        row.figure(cell, &remote_host::SENT_BYTES_PER_SECOND, 6, row.role());
    })
    .min_table_width(100),
    Spec::figure(&remote_host::RTT_SECONDS, 7, |row, cell| {
        let rtt = format_figure(&remote_host::RTT_SECONDS, &row.evaluation.into(), row.host, 6);
        cell.text(safe!("{}{rtt}", rtt_bound(row.host)), row.role());
    }),
    Spec::figure(&remote_host::MIN_RTT_SECONDS, 6, |row, cell| {
        row.figure(cell, &remote_host::MIN_RTT_SECONDS, 6, StyleRole::Dim);
    }),
    Spec::figure(&remote_host::RTT_MULTIPLE, 6, |row, cell| {
        let times = format_figure(&remote_host::RTT_MULTIPLE, &row.evaluation.into(), row.host, 5);
        match row.finding {
            Some(finding) => {
                cell.text(safe!("{times}{}", severity_symbol(finding.severity)), StyleRole::from(finding.severity));
            }
            None => cell.text(safe!("{times} "), row.role()),
        }
    }),
    Spec::figure(&remote_host::RETRANSMITTED_PER_SECOND, 6, |row, cell| {
        row.figure(cell, &remote_host::RETRANSMITTED_PER_SECOND, 6, row.role());
    })
    .min_table_width(60),
    Spec::text("process", 24, |row, cell| {
        // Those that wait for an answer; else that of the worst connection.
        let waiting = findings::waiting_groups(&row.evaluation.interval, row.host.address);
        let process = row.host.worst_process.as_ref().map(|(id, name)| safe!("{} ({})", SafeText::from_name(name), id.pid));
        cell.text(waiting.map(SafeText::sanitize).or(process).unwrap_or_default(), StyleRole::Plain);
    })
    .min_table_width(PROCESS_COLUMN_WIDTH),
    Spec::text("limited by", 0, |row, cell| cell.text(limited_by(&row.evaluation.interval, row.host), StyleRole::Dim))
        .key("limit")
        .min_table_width(60),
];

/// Cells of the table from which processes have a column.
const PROCESS_COLUMN_WIDTH: u16 = 110;

/// For tables without that column.
const LIMITED_BY_AND_PROCESS: Spec = Spec::text("limited by", 0, |row, cell| {
    let limit = limited_by(&row.evaluation.interval, row.host);
    let process = row.host.worst_process.as_ref().map(|(_, name)| SafeText::from_name(name));
    let words = match process {
        None => limit,
        Some(name) if limit.is_empty() => name,
        Some(name) => safe!("{limit}, {name}"),
    };
    cell.text(words, StyleRole::Dim);
})
.min_table_width(60);

/// The round-trip time over time, logarithmic against the minimum.
const HISTORY: Spec = Spec::graph("rtt ÷ min, log", 0, |row, cell| {
    let minimum = findings::evaluated_rtt(row.host).and_then(|rtt| rtt.min_rtt).map(|rtt| rtt.0 as f32);
    let width = cell.width;
    let times = TimeCells::new(row.state, &GraphFigure::RoundTrip(row.host.address), width);
    let lowest = || times.values.iter().flatten().copied().fold(f32::INFINITY, f32::min);
    let minimum = minimum.filter(|&minimum| minimum > 0.0).unwrap_or_else(lowest);
    let role = row.finding.map_or(StyleRole::System, |finding| StyleRole::from(finding.severity));
    cell.glyphs(times.glyphs(|time| (log_ratio_level(time, minimum), role)));
});

/// The columns with the round-trip time over time, for a width.
pub fn cells_of(width: u16) -> Vec<Spec> {
    let wide = width >= 130;
    let mut specs: Vec<Spec> = (REMOTE_HOST_COLUMNS.into_iter())
        .map(|spec| match spec.key {
            "remote_host" if wide => spec.width(40),
            "limit" => spec.width(26).min_table_width(150),
            _ => spec,
        })
        .collect();
    specs.push(HISTORY);
    specs
}

impl<'a> RemoteHostRow<'a> {
    pub fn new(state: &'a State, evaluation: &'a Evaluation, host: &'a RemoteHostSpan) -> RemoteHostRow<'a> {
        let finding = evaluation.active.iter().find(|finding| {
            finding.kind == Kind::NetworkLatency
                && matches!(&finding.subject, Subject::RemoteHost(address) if *address.as_bytes() == *host.address.to_string().as_bytes())
        });
        RemoteHostRow { state, evaluation, host, finding }
    }

    /// Dim without a known round-trip time.
    fn role(&self) -> StyleRole {
        if findings::evaluated_rtt(self.host).is_some() { StyleRole::Plain } else { StyleRole::Dim }
    }

    fn figure(&self, cell: CellContent, figure: &Column<RemoteHostSpan>, cells: usize, role: StyleRole) {
        cell.text(format_figure(figure, &self.evaluation.into(), self.host, cells), role);
    }
}

pub fn table(state: &State, width: u16) -> Columns<fn(&RemoteHostRow, CellContent)> {
    let mut specs = REMOTE_HOST_COLUMNS;
    if let Some(first) = specs.first_mut() {
        first.width = match width {
            ..78 => first.width,
            78..PROCESS_COLUMN_WIDTH => 18,
            PROCESS_COLUMN_WIDTH..130 => first.width,
            // Room for a full IPv6 address.
            _ => 40,
        };
    }
    if width < PROCESS_COLUMN_WIDTH
        && let Some(last) = specs.last_mut()
    {
        *last = LIMITED_BY_AND_PROCESS;
    }
    Columns::movable(state, &specs, width)
}

/// A note below the table: hosts that are not listed, and the scan interval if sockets are scanned less often than sampled.
pub fn footnote(state: &State, evaluation: &Evaluation) -> SafeText {
    let Some(hosts) = &evaluation.remote_hosts else { return SafeText::default() };
    let mut words = Vec::new();
    if let Some(seldom) = scan_interval_note(state, evaluation, hosts) {
        words.push(seldom);
    }
    let listed = u32::try_from(hosts.rows.len()).unwrap_or(u32::MAX);
    if hosts.host_count > listed {
        words.push(format!("{listed} of {} hosts", hosts.host_count));
    }
    SafeText::sanitize(words.join(", "))
}

/// `scanned every 4 s: 30000 connections take 38 ms`, if that is less often than samples are taken.
fn scan_interval_note(state: &State, evaluation: &Evaluation, hosts: &RemoteHostsSpan) -> Option<String> {
    let nominal = evaluation.interval.seconds.max(state.setup.interval_ms as f64 / 1000.0);
    let age = evaluation.interval.at().boottime_ns.saturating_sub(hosts.scan_boottime_ns) as f64 / 1e9;
    (hosts.seconds > nominal * 1.5 || age > nominal * 0.5).then(|| {
        let every = format_number(hosts.seconds.max(age), 4);
        let cost = format::latency(Millis(hosts.scan_cpu_seconds * 1000.0));
        format!("scanned every {every} s: {} take {cost}", format::plural(hosts.connection_count, "connection", "connections"))
    })
}

pub fn row(
    state: &State,
    evaluation: &Evaluation,
    host: &RemoteHostSpan,
    table: &Columns<fn(&RemoteHostRow, CellContent)>,
) -> TableRow {
    let row = RemoteHostRow::new(state, evaluation, host);
    table.row(|fill, cell| fill(&row, cell))
}

/// The smoothed RTT; `≤` if it includes the time that the host takes to answer.
pub fn format_rtt(host: &RemoteHostSpan) -> String {
    let rtt = findings::evaluated_rtt(host).map(|rtt| rtt.srtt);
    format!("{}{}", rtt_bound(host), optional_latency(rtt))
}

fn rtt_bound(host: &RemoteHostSpan) -> &'static str {
    let is_bound = host.send_backlogged.is_none() && findings::evaluated_rtt(host).is_some();
    if is_bound { "≤" } else { "" }
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
