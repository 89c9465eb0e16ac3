//! The network screen: interfaces as in nicstat, then TCP, UDP, listening sockets, softnet, other network namespaces and remote hosts.

pub mod connections;
mod namespaces;
mod panes;
mod protocols;
pub mod qdisc;
pub mod remote_hosts;
mod since_start;
pub mod traffic_graph;

use super::ScreenView;
use super::columns::{CellContent, ColumnSpec, Columns, TableRow};
use super::list::{list_end, list_status, visible_rows};
use super::pane::Pane;
use super::panes::MAX_SPARKLINE_WIDTH;
use super::safe_line::SafeLine;
use super::safe_text::SafeText;
use super::text::{format_figure, format_number};
use super::theme::StyleRole;
use super::time_cells::TimeCells;
use crate::figures::{Column, network as figures};
use crate::findings::Evaluation;
use crate::interval::Interval;
use crate::interval::network::NicSpan;
use crate::safe;
use crate::sample::network::{Duplex, NicFacts};
use crate::state::history::GraphFigure;
use crate::state::layout::{ScreenLayout, has_qdisc_activity, network_footer_rows, protocol_rows, saturated_softnet};
use crate::state::{NetworkRows, Row, Screen, SortColumn, State};
use crate::units::SmallSort;
use crate::units::format;
use protocols::protocol_tables;
use qdisc::{Shaper, qdisc_line};

/// A row of the table of interfaces.
pub struct NicLine<'a> {
    pub state: &'a State,
    pub evaluation: &'a Evaluation,
    pub nic: &'a NicSpan,
}

type Spec = ColumnSpec<fn(&NicLine, CellContent)>;

const NIC_COLUMNS: [Spec; 10] = [
    Spec::text("NET", 9, |line, cell| cell.text(SafeText::from_name(&line.nic.id.name), StyleRole::Plain))
        .sorted_by(SortColumn::NAME),
    Spec::figure(&figures::RECEIVED_BYTES_PER_SECOND, 7, |line, cell| {
        line.traffic(cell, &figures::RECEIVED_BYTES_PER_SECOND, 7)
    })
    .sorted_by(SortColumn::NIC_READ),
    Spec::figure(&figures::SENT_BYTES_PER_SECOND, 7, |line, cell| line.traffic(cell, &figures::SENT_BYTES_PER_SECOND, 7))
        .sorted_by(SortColumn::NIC_WRITE),
    Spec::figure(&figures::RECEIVED_PACKETS_PER_SECOND, 6, |line, cell| {
        line.traffic(cell, &figures::RECEIVED_PACKETS_PER_SECOND, 6)
    })
    .min_table_width(60),
    Spec::figure(&figures::SENT_PACKETS_PER_SECOND, 6, |line, cell| line.traffic(cell, &figures::SENT_PACKETS_PER_SECOND, 6))
        .min_table_width(60),
    Spec::figure(&figures::RECEIVED_SIZE_BYTES, 5, |line, cell| line.traffic(cell, &figures::RECEIVED_SIZE_BYTES, 5))
        .min_table_width(72),
    Spec::figure(&figures::SENT_SIZE_BYTES, 5, |line, cell| line.traffic(cell, &figures::SENT_SIZE_BYTES, 5))
        .min_table_width(72),
    Spec::figure(&figures::UTILIZATION_RATIO, 5, |line, cell| match line.number(&figures::UTILIZATION_RATIO) {
        Some(share) => {
            let role = if share >= line.evaluation.thresholds().nic_busy_ratio { StyleRole::Warning } else { StyleRole::Plain };
            cell.text(line.figure(&figures::UTILIZATION_RATIO, 5), role);
        }
        None => cell.text("?", StyleRole::Dim),
    })
    .sorted_by(SortColumn::NIC_BUSY),
    Spec::figure(&figures::SATURATION_PER_SECOND, 5, |line, cell| {
        let limit = line.evaluation.thresholds().nic_saturation_per_second;
        let saturated = line.number(&figures::SATURATION_PER_SECOND).is_some_and(|rate| rate >= limit);
        let role = if saturated { StyleRole::Warning } else { StyleRole::Plain };
        cell.text(line.figure(&figures::SATURATION_PER_SECOND, 5), role);
    })
    .sorted_by(SortColumn::NIC_SATURATION),
    Spec::text("speed", 0, |line, cell| {
        let nics = line.evaluation.interval.newer.nics.as_ref().ok();
        // On its own screen an interface has a line for the shaper.
        if let Some(shaper) = Shaper::new(line.evaluation, line.nic).filter(|_| line.state.screen == Screen::Overview) {
            cell.line(shaper.words(line.evaluation, line.nic));
        } else if let Some(nic) = nics.and_then(|nics| nics.get(line.nic.index)) {
            cell.text(speed(line.nic, &nic.facts), StyleRole::Dim);
        }
    })
    .min_table_width(60),
];

const IN: Spec =
    Spec::graph("in", 0, |line, cell| line.history(cell, StyleRole::User, &GraphFigure::Received(line.nic.id.clone())))
        .key("received_history");
const OUT: Spec =
    Spec::graph("out", 0, |line, cell| line.history(cell, StyleRole::System, &GraphFigure::Sent(line.nic.id.clone())))
        .key("sent_history");

/// Since the interface was created.
const RECEIVED_TOTAL: Spec =
    Spec::figure(&figures::RECEIVED_TOTAL_BYTES, 9, |line, cell| line.bytes(cell, &figures::RECEIVED_TOTAL_BYTES));
const SENT_TOTAL: Spec = Spec::figure(&figures::SENT_TOTAL_BYTES, 9, |line, cell| line.bytes(cell, &figures::SENT_TOTAL_BYTES));
/// The largest rates that are known.
const RECEIVED_PEAK: Spec = Spec::text("in peak", 8, |line, cell| line.peak(cell, &GraphFigure::Received(line.nic.id.clone())))
    .right_aligned()
    .key("received_peak");
const SENT_PEAK: Spec = Spec::text("out peak", 8, |line, cell| line.peak(cell, &GraphFigure::Sent(line.nic.id.clone())))
    .right_aligned()
    .key("sent_peak");

impl NicLine<'_> {
    fn bytes(&self, cell: CellContent, figure: &Column<NicSpan>) {
        let words = self.number(figure).map_or("-".to_owned(), format::short_bytes);
        cell.text(SafeText::sanitize(words), StyleRole::Plain);
    }

    fn peak(&self, cell: CellContent, figure: &GraphFigure) {
        let words = self
            .state
            .graphs
            .peak(figure)
            .map_or("-".to_owned(), |kilobytes| format::short_bytes(f64::from(kilobytes) * 1024.0) + "/s");
        cell.text(SafeText::sanitize(words), StyleRole::Plain);
    }

    fn number(&self, figure: &Column<NicSpan>) -> Option<f64> {
        figure.number(&self.evaluation.into(), self.nic)
    }

    fn figure(&self, figure: &Column<NicSpan>, cells: usize) -> SafeText {
        format_figure(figure, &self.evaluation.into(), self.nic, cells)
    }

    /// A traffic value; dim for zero.
    fn traffic(&self, cell: CellContent, figure: &Column<NicSpan>, cells: usize) {
        let silent = self.nic.rx.packets.0 + self.nic.tx.packets.0 <= 0.0;
        cell.text(self.figure(figure, cells), if silent { StyleRole::Dim } else { StyleRole::Plain });
    }

    /// A sparkline of received or sent bytes, relative to its maximum.
    fn history(&self, cell: CellContent, role: StyleRole, figure: &GraphFigure) {
        let cells = TimeCells::new(self.state, figure, cell.width);
        let most = cells.values.iter().flatten().copied().fold(1.0_f32, f32::max);
        cell.glyphs(cells.glyphs(|rate| (rate / most, role)));
    }
}

/// Cells from which totals and peaks have room beside the graphs.
const MIN_TOTALS_WIDTH: u16 = 176;

/// The table of interfaces for a width.
pub fn table(state: &State, width: u16) -> Columns<fn(&NicLine, CellContent)> {
    if width < 130 {
        let mut specs = NIC_COLUMNS.to_vec();
        let added = [RECEIVED_TOTAL, SENT_TOTAL, RECEIVED_PEAK, SENT_PEAK].map(Spec::hidden_by_default);
        specs.splice(specs.len() - 1..specs.len() - 1, added);
        return Columns::chosen(state, &specs, width);
    }
    let mut specs = NIC_COLUMNS.to_vec();
    if let Some(last) = specs.last_mut() {
        last.width = 22;
    }
    let totals = [RECEIVED_TOTAL, SENT_TOTAL, RECEIVED_PEAK, SENT_PEAK];
    let has_room = width >= MIN_TOTALS_WIDTH;
    let each = ((width - 90 - if has_room { 38 } else { 0 }) / 2 - 1).min(MAX_SPARKLINE_WIDTH);
    specs.extend(totals.map(|spec| if has_room { spec } else { spec.hidden_by_default() }));
    specs.push(IN.width(each));
    specs.push(OUT.width(each));
    Columns::chosen(state, &specs, width)
}

pub const SCREEN: ScreenView = ScreenView {
    draw,
    panes: &[panes::traffic, panes::losses, panes::round_trips, since_start::interfaces, since_start::protocols, panes::tables],
};

fn draw(state: &State, evaluation: &Evaluation, layout: &ScreenLayout, pane: &mut Pane) {
    if state.lists.network_rows == NetworkRows::RemoteHosts {
        remote_hosts(state, evaluation, layout, pane);
        return;
    }
    let interval = &*evaluation.interval;
    let table = table(state, pane.width());
    let (visible, width) = (visible_rows(state, layout), usize::from(pane.width()));
    let rows = visible.iter().flat_map(|visible| {
        let nic = if let Row::Nic(at) = visible.row { interval.network.nics.get(at) } else { None };
        let figures = nic.map(|nic| table.row(|fill, cell| fill(&NicLine { state, evaluation, nic }, cell)));
        let qdisc = nic.filter(|nic| has_qdisc_activity(nic)).and_then(|nic| qdisc_line(evaluation, nic, width));
        let lines = figures.into_iter().chain(qdisc.map(TableRow::line)).take(usize::from(visible.height));
        lines.map(|line| line.selected(visible.selected))
    });
    let end = list_end(layout, &visible);
    table.draw(&mut pane.subarea(0, 0, u16::MAX, end), Some(state.sort()), rows);
    if interval.network.nics.is_empty() {
        pane.line(1, ("- no interface, or /proc/net/dev cannot be read", StyleRole::Dim));
    }
    // The footer follows a short table directly.
    let foot = if layout.has_panes() { protocol_rows(state) } else { network_footer_rows(state) }.min(pane.height());
    let top = (end + 1).min(pane.height().saturating_sub(foot).max(end));
    let words = list_status(state, layout);
    if !words.is_empty() && top > end {
        pane.line_right(end, (&words, StyleRole::Dim));
    }
    let pane = &mut pane.subarea(0, top, u16::MAX, u16::MAX);
    let y = protocol_tables(evaluation, pane);
    let y = y + softnet_line(interval, pane, y);
    let y = y + namespaces::draw(evaluation, pane, y);
    if layout.has_panes() {
        return;
    }
    let y = busiest_remote_hosts(state, evaluation, pane, y) + 1;
    let room = pane.height().saturating_sub(y).min(MAX_GRAPH_ROWS);
    if room >= MIN_GRAPH_ROWS
        && !state.setup.terminal.is_slow
        && let Some(nic) = panes::nics(state, evaluation).first()
    {
        traffic_graph::draw_graph(state, evaluation, nic, &mut pane.subarea(0, y, u16::MAX, room));
    }
}

/// Rows of a graph below the tables, with its title.
const MIN_GRAPH_ROWS: u16 = 5;
const MAX_GRAPH_ROWS: u16 = 9;

/// The list of remote hosts.
fn remote_hosts(state: &State, evaluation: &Evaluation, layout: &ScreenLayout, pane: &mut Pane) {
    let table = remote_hosts::table(state, pane.width());
    let visible = visible_rows(state, layout);
    let rows = visible.iter().filter_map(|visible| {
        let Row::RemoteHost(at) = visible.row else { return None };
        let host = evaluation.remote_hosts.as_ref()?.rows.get(at)?;
        Some(remote_hosts::row(state, evaluation, host, &table).selected(visible.selected))
    });
    let end = list_end(layout, &visible);
    table.draw(&mut pane.subarea(0, 0, u16::MAX, end), None, rows);
    pane.line(end, (remote_hosts::footnote(state, evaluation), StyleRole::Dim));
    pane.line_right(end, (list_status(state, layout), StyleRole::Dim));
    if evaluation.remote_hosts.as_ref().is_some_and(|hosts| hosts.rows.is_empty()) {
        pane.line(1, ("no TCP connection with another host in this network namespace", StyleRole::Dim));
    }
    if evaluation.remote_hosts.is_none() {
        let why = evaluation.interval.newer.protocols.remote_hosts.as_ref().err();
        let why = why.map_or_else(|| "rates need two socket scans".to_owned(), |why| format!("sock_diag: {why}"));
        pane.line(1, (safe!("- no remote hosts: {why}"), StyleRole::Dim));
    }
}

/// The first remote hosts, as many as fit; returns the line after.
fn busiest_remote_hosts(state: &State, evaluation: &Evaluation, pane: &mut Pane, y: u16) -> u16 {
    let Some(span) = evaluation.remote_hosts.as_ref().filter(|span| !span.rows.is_empty()) else { return y };
    let table = remote_hosts::table(state, pane.width());
    let about = remote_hosts::footnote(state, evaluation);
    let about_rows = u16::from(!about.is_empty());
    let end = pane.height().saturating_sub(about_rows);
    let rows = crate::state::remote_hosts::display_order(evaluation).into_iter().filter_map(|at| span.rows.get(at));
    let rows: Vec<TableRow> = rows.map(|host| remote_hosts::row(state, evaluation, host, &table)).collect();
    let next = end.min(y + 1 + u16::try_from(rows.len()).unwrap_or(u16::MAX));
    table.draw(&mut pane.subarea(0, y, u16::MAX, end.saturating_sub(y)), None, rows);
    pane.line(next, (about, StyleRole::Dim));
    next + about_rows
}

/// CPUs with softnet drops or time squeezes, worst first; returns the number of lines.
fn softnet_line(interval: &Interval, pane: &mut Pane, y: u16) -> u16 {
    let mut worst: Vec<_> = saturated_softnet(interval).collect();
    if worst.is_empty() {
        return 0;
    }
    worst.small_sort_by(|a, b| b.dropped.0.total_cmp(&a.dropped.0).then(b.time_squeeze.0.total_cmp(&a.time_squeeze.0)));
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
    let words = SafeText::sanitize(words.collect::<Vec<_>>().join("  "));
    let role = if lost { StyleRole::Warning } else { StyleRole::Dim };
    pane.line(y, SafeLine::new("SOFTNET ", StyleRole::Heading).with(words, role));
    1
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
