//! The network screen: interfaces as in nicstat, then TCP, UDP, listening sockets, softnet and remote hosts.

pub mod remote_hosts;

use super::canvas::Canvas;
use super::list::{draw_list, list_status};
use super::text::{self, SafeText, format_kilobytes, format_number, format_optional};
use super::theme::StyleRole;
use super::widgets::sparkline;
use super::widgets::table::{ColumnSpec, Table};
use crate::findings::Evaluation;
use crate::interval::Interval;
use crate::interval::network::NicSpan;
use crate::safe;
use crate::sample::network::{Duplex, Listener, NicFacts};
use crate::state::layout::{ScreenLayout, has_qdisc_activity, network_footer_rows, saturated_softnet};
use crate::state::{Row, SortColumn, State};
use crate::units::PerSecond;

const NIC_COLUMNS: [ColumnSpec; 10] = [
    ColumnSpec::text("NET", 9).sorted_by(SortColumn::Name),
    ColumnSpec::numeric("rKB/s", 7).sorted_by(SortColumn::Read),
    ColumnSpec::numeric("wKB/s", 7).sorted_by(SortColumn::Write),
    ColumnSpec::numeric("rPk/s", 6).min_table_width(60),
    ColumnSpec::numeric("wPk/s", 6).min_table_width(60),
    ColumnSpec::numeric("rAvs", 5).min_table_width(72),
    ColumnSpec::numeric("wAvs", 5).min_table_width(72),
    ColumnSpec::numeric("%Util", 5).sorted_by(SortColumn::Busy),
    ColumnSpec::numeric("Sat", 5).sorted_by(SortColumn::Saturation),
    ColumnSpec::text("speed", 0).min_table_width(60),
];

const IN_HEADING: &str = "in";
const OUT_HEADING: &str = "out";

pub fn table(width: u16) -> Table {
    if width < 130 {
        return Table::new(&NIC_COLUMNS, width);
    }
    let mut specs = NIC_COLUMNS.to_vec();
    if let Some(last) = specs.last_mut() {
        last.width = 22;
    }
    let each = (width - 90) / 2 - 1;
    specs.push(ColumnSpec::text(IN_HEADING, each));
    specs.push(ColumnSpec::text(OUT_HEADING, each));
    Table::new(&specs, width)
}

pub fn draw(state: &State, evaluation: &Evaluation, layout: &ScreenLayout, canvas: &mut Canvas) {
    if state.show_remote_hosts {
        remote_hosts(state, evaluation, layout, canvas);
        return;
    }
    let interval = &*evaluation.interval;
    let table = table(canvas.width());
    table.draw_header(canvas, 0, Some(state.sort()));
    let end = draw_list(state, layout, canvas, |canvas, y, row| {
        if let Row::Nic(at) = row
            && let Some(nic) = interval.nics.get(at)
        {
            nic_row(interval, nic, &table, canvas, y);
            traffic_history(state, interval, nic, &table, canvas, y);
            if has_qdisc_activity(nic) {
                qdisc_line(interval, nic, canvas, y + 1);
            }
        }
    });
    if interval.nics.is_empty() {
        canvas.text_to_end(0, 1, "- no interface, or /proc/net/dev cannot be read", StyleRole::Dim);
    }
    let words = list_status(state, layout);
    if !words.is_empty() {
        canvas.text_right(0, end.min(layout.rows_before_list + layout.list_rows), canvas.width(), &words, StyleRole::Dim);
    }
    // The footer follows a short table directly.
    let foot = network_footer_rows(state).min(canvas.height());
    let top = (end + 1).min(canvas.height().saturating_sub(foot).max(end));
    let canvas = &mut canvas.subarea(0, top, u16::MAX, u16::MAX);
    let y = protocol_tables(interval, canvas);
    let y = y + softnet_line(interval, canvas, y);
    busiest_remote_hosts(state, evaluation, canvas, y);
}

/// The list of remote hosts.
fn remote_hosts(state: &State, evaluation: &Evaluation, layout: &ScreenLayout, canvas: &mut Canvas) {
    let table = remote_hosts::table(canvas.width());
    table.draw_header(canvas, 0, None);
    let end = draw_list(state, layout, canvas, |canvas, y, row| {
        if let Row::RemoteHost(at) = row
            && let Some(peer) = evaluation.remote_hosts.as_ref().and_then(|peers| peers.rows.get(at))
        {
            remote_hosts::row(evaluation, peer, &table, canvas, y);
        }
    });
    canvas.text_to_end(0, end, remote_hosts::footnote(state, evaluation), StyleRole::Dim);
    canvas.text_right(0, end, canvas.width(), list_status(state, layout), StyleRole::Dim);
    if evaluation.remote_hosts.as_ref().is_some_and(|peers| peers.rows.is_empty()) {
        canvas.text_to_end(0, 1, "no TCP connection with another host in this network namespace", StyleRole::Dim);
    }
    if evaluation.remote_hosts.is_none() {
        let why = evaluation.interval.newer.protocols.remote_hosts.as_ref().err();
        let why = why.map_or_else(|| "rates need two socket scans".to_owned(), |why| format!("sock_diag: {why}"));
        canvas.text_to_end(0, 1, safe!("- no remote hosts: {why}"), StyleRole::Dim);
    }
}

/// The first remote hosts, as many as fit.
fn busiest_remote_hosts(state: &State, evaluation: &Evaluation, canvas: &mut Canvas, y: u16) {
    let Some(span) = evaluation.remote_hosts.as_ref().filter(|span| !span.rows.is_empty()) else { return };
    let table = remote_hosts::table(canvas.width());
    table.draw_header(canvas, y, None);
    let about = remote_hosts::footnote(state, evaluation);
    let end = canvas.height().saturating_sub(u16::from(!about.is_empty()));
    let rows = crate::state::remote_hosts::display_order(evaluation).into_iter().filter_map(|at| span.rows.get(at));
    let mut next = y + 1;
    for (y, peer) in (y + 1..end).zip(rows) {
        remote_hosts::row(evaluation, peer, &table, canvas, y);
        next = y + 1;
    }
    canvas.text_to_end(0, next, about, StyleRole::Dim);
}

/// CPUs with softnet drops or time squeezes, worst first; returns the number of lines.
fn softnet_line(interval: &Interval, canvas: &mut Canvas, y: u16) -> u16 {
    let mut worst: Vec<_> = saturated_softnet(interval).collect();
    if worst.is_empty() {
        return 0;
    }
    worst.sort_by(|a, b| b.dropped.0.total_cmp(&a.dropped.0).then(b.time_squeeze.0.total_cmp(&a.time_squeeze.0)));
    let lost = worst.iter().any(|span| span.dropped.0 > 0.0);
    let words = worst.iter().map(|span| {
        let dropped =
            if span.dropped.0 > 0.0 { format!(" {} drops/s", format_number(span.dropped.0, 5)) } else { String::new() };
        format!(
            "cpu{}{dropped} {} squeezes/s of {} pk/s",
            span.cpu.0,
            format_number(span.time_squeeze.0, 5),
            format_number(span.processed.0, 5)
        )
    });
    canvas.text(0, y, 8, "SOFTNET", StyleRole::Heading);
    let words = SafeText::sanitize(words.collect::<Vec<_>>().join("  "));
    canvas.text_to_end(8, y, &words, if lost { StyleRole::Warning } else { StyleRole::Dim });
    1
}

/// The values of nicstat's line.
pub fn nic_row(interval: &Interval, nic: &NicSpan, table: &Table, canvas: &mut Canvas, y: u16) {
    table.draw_cell(canvas, y, "NET", SafeText::from_name(&nic.id.name), StyleRole::Plain);
    let silent = nic.rx.packets.0 + nic.tx.packets.0 <= 0.0;
    let role = if silent { StyleRole::Dim } else { StyleRole::Plain };
    let mut put = |heading, words: String| table.draw_cell(canvas, y, heading, SafeText::sanitize(words), role);
    put("rKB/s", format_kilobytes(nic.rx.kilobytes.0, 7));
    put("wKB/s", format_kilobytes(nic.tx.kilobytes.0, 7));
    put("rPk/s", format_number(nic.rx.packets.0, 6));
    put("wPk/s", format_number(nic.tx.packets.0, 6));
    put("rAvs", format_number(nic.rx.average_bytes, 5));
    put("wAvs", format_number(nic.tx.average_bytes, 5));
    let (words, role) = match nic.utilization {
        Some(share) if share.0 >= 0.9 => (safe!("{}", format_number(share.percent(), 5)), StyleRole::Warning),
        Some(share) => (safe!("{}", format_number(share.percent(), 5)), StyleRole::Plain),
        None => ("?".into(), StyleRole::Dim),
    };
    table.draw_cell(canvas, y, "%Util", &words, role);
    let saturated = nic.saturation.is_some_and(|rate| rate.0 >= 10.0);
    let sat = safe!("{}", format_optional(nic.saturation.map(|rate| rate.0), 5));
    table.draw_cell(canvas, y, "Sat", &sat, if saturated { StyleRole::Warning } else { StyleRole::Plain });
    let facts = interval.newer.nics.as_ref().ok().and_then(|nics| nics.get(nic.index)).map(|nic| &*nic.facts);
    if let Some(facts) = facts {
        table.draw_cell(canvas, y, "speed", speed(nic, facts), StyleRole::Dim);
    }
}

fn speed(nic: &NicSpan, facts: &NicFacts) -> SafeText {
    if facts.loopback && !nic.link_is_configured {
        return "lo".into();
    }
    if facts.up == Some(false) {
        return "down".into();
    }
    let duplex = match nic.link.duplex {
        Some(Duplex::Full) => "fd",
        Some(Duplex::Half) => "hd",
        None => "",
    };
    match nic.link.speed_mbps {
        Some(mbps) if facts.virtual_device && !nic.link_is_configured => safe!("{mbps}{duplex} virtual"),
        Some(mbps) => safe!("{mbps}{duplex}"),
        None if facts.virtual_device => "? virtual".into(),
        None => "?".into(),
    }
}

/// Sparklines of received and sent bytes, each relative to its maximum.
pub fn traffic_history(state: &State, interval: &Interval, nic: &NicSpan, table: &Table, canvas: &mut Canvas, y: u16) {
    for (heading, role) in [(IN_HEADING, StyleRole::User), (OUT_HEADING, StyleRole::System)] {
        let Some((x, width)) = table.column_area(heading) else { continue };
        let cells = state.history.graph_cells(interval.at(), usize::from(width));
        let rates: Vec<Option<f32>> = cells
            .iter()
            .map(|cell| cell.as_ref()?.nic_kilobytes(&nic.id).map(|(rx, tx)| if heading == IN_HEADING { rx } else { tx }))
            .collect();
        let most = rates.iter().flatten().copied().fold(1.0_f32, f32::max);
        sparkline::sparkline(canvas, x, y, width, rates.iter().map(|rate| rate.map(|rate| (rate / most, role))));
    }
}

/// The queueing discipline: a full queue is more reliable than the reported link speed.
fn qdisc_line(interval: &Interval, nic: &NicSpan, canvas: &mut Canvas, y: u16) {
    let Some(span) = &nic.qdisc else { return };
    let now = interval.newer.nics.as_ref().ok().and_then(|nics| nics.get(nic.index));
    let kind = now.and_then(|nic| nic.qdisc.as_ref()).map(|qdisc| SafeText::from_name(&qdisc.kind)).unwrap_or_default();
    let rate = |rate: Option<PerSecond>| format_optional(rate.map(|rate| rate.0), 6);
    let words = safe!(
        "  qdisc {kind}: backlog {} in {}, {} drops/s, {} overlimits/s",
        text::bytes(span.backlog_bytes as f64),
        text::pluralize(span.backlog_packets, "packet", "packets"),
        rate(span.dropped),
        rate(span.overlimits)
    );
    let full = span.backlog_packets > 0 && span.dropped.is_some_and(|rate| rate.0 > 0.0);
    canvas.text_to_end(0, y, &words, if full { StyleRole::Bold } else { StyleRole::Dim });
}

const TCP_COLUMNS: [ColumnSpec; 11] = [
    ColumnSpec::text("TCP", 5),
    ColumnSpec::numeric("InSeg", 6),
    ColumnSpec::numeric("OutSeg", 6),
    ColumnSpec::numeric("%ReTX", 6),
    ColumnSpec::numeric("Reset", 6).min_table_width(60),
    ColumnSpec::numeric("AttF", 6).min_table_width(60),
    ColumnSpec::numeric("InCon", 6).min_table_width(60),
    ColumnSpec::numeric("OutCon", 6).min_table_width(60),
    ColumnSpec::numeric("Estab", 6).min_table_width(70),
    ColumnSpec::numeric("Drops", 6),
    ColumnSpec::numeric("SynReTX", 7).min_table_width(78),
];

const UDP_COLUMNS: [ColumnSpec; 5] = [
    ColumnSpec::text("UDP", 5),
    ColumnSpec::numeric("InDG", 6),
    ColumnSpec::numeric("OutDG", 6),
    ColumnSpec::numeric("InErr", 6),
    ColumnSpec::numeric("OutErr", 6),
];

/// TCP and UDP of the network namespace as in nicstat -t and -u, and listening sockets with a queue. Returns the line after.
fn protocol_tables(interval: &Interval, canvas: &mut Canvas) -> u16 {
    let span = &interval.protocols;
    let rate = |rate: Option<PerSecond>| format_optional(rate.map(|rate| rate.0), 6);
    let tcp = Table::new(&TCP_COLUMNS, canvas.width());
    tcp.draw_header(canvas, 0, None);
    let mut put = |heading, figure: String, role| tcp.draw_cell(canvas, 1, heading, SafeText::sanitize(figure), role);
    put("InSeg", rate(span.segments_in), StyleRole::Plain);
    put("OutSeg", rate(span.segments_out), StyleRole::Plain);
    let many = span.retransmitted_share.is_some_and(|share| share.0 >= 0.01)
        && span.segments_retransmitted.is_some_and(|rate| rate.0 >= 10.0);
    let share = text::format_percent(span.retransmitted_share.map(|share| share.0), 6);
    put("%ReTX", share, if many { StyleRole::Warning } else { StyleRole::Plain });
    put("Reset", rate(span.resets), StyleRole::Plain);
    put("AttF", rate(span.attempt_fails), StyleRole::Plain);
    put("InCon", rate(span.connections_in), StyleRole::Plain);
    put("OutCon", rate(span.connections_out), StyleRole::Plain);
    put("Estab", format_optional(span.established.map(|count| count as f64), 6), StyleRole::Plain);
    let dropped = span.listen_drops.is_some_and(|rate| rate.0 > 0.0);
    put("Drops", rate(span.listen_drops), if dropped { StyleRole::Warning } else { StyleRole::Plain });
    put("SynReTX", rate(span.syn_retransmits), StyleRole::Plain);
    let udp = Table::new(&UDP_COLUMNS, canvas.width());
    udp.draw_header(canvas, 2, None);
    let figures =
        [("InDG", span.udp_in), ("OutDG", span.udp_out), ("InErr", span.udp_errors_in), ("OutErr", span.udp_errors_out)];
    for (heading, value) in figures {
        udp.draw_cell(canvas, 3, heading, SafeText::sanitize(rate(value)), StyleRole::Plain);
    }
    let listeners = interval.newer.protocols.listeners.as_deref().unwrap_or_default();
    let mut y = 4;
    for listener in listeners.iter().take(8) {
        listener_line(listener, span.listen_drops, canvas, y);
        y += 1;
    }
    y
}

fn listener_line(listener: &Listener, drops: Option<PerSecond>, canvas: &mut Canvas, y: u16) {
    canvas.text(0, y, 7, "LISTEN", StyleRole::Heading);
    let owner = listener.owner.as_ref().map(|(id, name)| format!("  {}/{}", SafeText::from_name(name), id.pid));
    let full = listener.accept_queue > listener.backlog_limit;
    let dropped = drops.filter(|rate| full && rate.0 > 0.0).map(|rate| format!("  {} drops/s", format_number(rate.0, 5)));
    let words = safe!(
        "{}  queue {} of {}{}{}",
        listener.local_address,
        listener.accept_queue,
        listener.backlog_limit,
        dropped.unwrap_or_default(),
        owner.unwrap_or_default()
    );
    let x = canvas.text_to_end(7, y, &words, if full { StyleRole::Bold } else { StyleRole::Plain });
    if full {
        canvas.text_to_end(x + 1, y, "▲", StyleRole::Warning);
    }
}
