//! The panes of counters since their start: errors, drops and queues of interfaces since each was created, TCP and UDP since the
//! network namespace was. They show what happened before stalltop was started.

use crate::figures::network as figures;
use crate::figures::{Column, FigureInput};
use crate::findings::Evaluation;
use crate::interval::network::NicSpan;
use crate::safe;
use crate::sample::network::Udp6;
use crate::state::State;
use crate::state::layout::ScreenLayout;
use crate::units::{Counter, format};
use crate::view::columns::{CellContent, ColumnSpec, Columns};
use crate::view::pane::Pane;
use crate::view::safe_line::SafeLine;
use crate::view::safe_text::SafeText;
use crate::view::theme::StyleRole;

/// A row of the table of interfaces.
struct NicTotals<'a> {
    input: FigureInput<'a>,
    nic: &'a NicSpan,
}

type Spec = ColumnSpec<fn(&NicTotals, CellContent)>;

impl NicTotals<'_> {
    /// A count; dim for zero.
    fn count(&self, cell: CellContent, figure: &Column<NicSpan>) {
        let count = figure.number(&self.input, self.nic);
        cell.text(short_count(count), role(count));
    }
}

fn role(value: Option<f64>) -> StyleRole {
    if value.is_some_and(|value| value > 0.0) { StyleRole::Plain } else { StyleRole::Dim }
}

fn short_count(count: Option<f64>) -> SafeText {
    SafeText::sanitize(match count {
        Some(count) if count < 1000.0 => format!("{count:.0}"),
        Some(count) => format::short_number(count),
        None => "-".to_owned(),
    })
}

/// The queues come first: in a narrow pane the columns at the end are left out.
const INTERFACES: [Spec; 11] = [
    Spec::text("NET", 9, |line, cell| cell.text(SafeText::from_name(&line.nic.id.name), StyleRole::Plain)),
    Spec::figure(&figures::QDISC, 10, |line, cell| {
        let kind = line.nic.qdisc.as_ref().map_or_else(|| "-".into(), |qdisc| SafeText::from_name(&qdisc.kind));
        cell.text(kind, StyleRole::Dim);
    })
    .right_aligned(),
    Spec::figure(&figures::QDISC_BACKLOG_BYTES, 7, |line, cell| {
        let bytes = figures::QDISC_BACKLOG_BYTES.number(&line.input, line.nic);
        cell.text(SafeText::sanitize(bytes.map_or("-".to_owned(), format::short_bytes)), role(bytes));
    }),
    Spec::figure(&figures::QDISC_DROPPED_TOTAL, 6, |line, cell| line.count(cell, &figures::QDISC_DROPPED_TOTAL)),
    Spec::figure(&figures::QDISC_OVERLIMITS_TOTAL, 10, |line, cell| line.count(cell, &figures::QDISC_OVERLIMITS_TOTAL)),
    Spec::figure(&figures::RECEIVE_DROPS_TOTAL, 7, |line, cell| line.count(cell, &figures::RECEIVE_DROPS_TOTAL)),
    Spec::figure(&figures::SEND_DROPS_TOTAL, 7, |line, cell| line.count(cell, &figures::SEND_DROPS_TOTAL)),
    Spec::figure(&figures::RECEIVE_ERRORS_TOTAL, 6, |line, cell| line.count(cell, &figures::RECEIVE_ERRORS_TOTAL)),
    Spec::figure(&figures::SEND_ERRORS_TOTAL, 6, |line, cell| line.count(cell, &figures::SEND_ERRORS_TOTAL)),
    Spec::figure(&figures::RECEIVE_MISSED_TOTAL, 6, |line, cell| line.count(cell, &figures::RECEIVE_MISSED_TOTAL)),
    Spec::figure(&figures::CARRIER_LOSSES_TOTAL, 7, |line, cell| line.count(cell, &figures::CARRIER_LOSSES_TOTAL)),
];

pub fn interfaces(_: &State, evaluation: &Evaluation, _: &ScreenLayout, pane: &mut Pane) {
    let title = SafeLine::new("Errors, drops and queues", StyleRole::Bold);
    let table = Columns::new(&INTERFACES, pane.width().saturating_sub(2));
    let note = match INTERFACES.len() - table.count() {
        0 => pane.fitting_note(&title, ["since each was created".into()]),
        hidden => {
            let more = safe!("z: {hidden} more columns");
            pane.fitting_note(&title, [safe!("since each was created; {more}"), more])
        }
    };
    let mut inner = pane.framed(title, note);
    let nics = evaluation.interval.network.nics.iter();
    let lines = nics.map(|nic| NicTotals { input: evaluation.into(), nic });
    table.draw(&mut inner, None, lines.map(|line| table.row(|fill, cell| fill(&line, cell))));
}

/// Cells of a label with its value.
const SLOT_CELLS: usize = 21;

pub fn protocols(_: &State, evaluation: &Evaluation, _: &ScreenLayout, pane: &mut Pane) {
    let title = SafeLine::new("TCP and UDP", StyleRole::Bold);
    let ways = ["since the start of the network namespace", "since the namespace was created", "since its start"];
    let note = pane.fitting_note(&title, ways.map(SafeText::from));
    let mut inner = pane.framed(title, note);
    let width = usize::from(inner.width());
    let read = &evaluation.interval.newer.protocols;
    let (tcp, ext, udp) = (read.tcp.as_ref().ok(), read.tcp_ext.as_ref().ok(), read.udp.as_ref().ok());
    // A host without IPv6 has no such counters.
    let of_udp6 = |count: fn(&Udp6) -> Option<Counter>| read.udp6.as_ref().ok().and_then(count).map_or(0, |count| count.0);
    let lines = [
        (
            "segments",
            vec![
                ("retransmitted", tcp.map(|tcp| tcp.segments_retransmitted.0)),
                ("out", tcp.map(|tcp| tcp.segments_out.0)),
                ("in", tcp.map(|tcp| tcp.segments_in.0)),
                ("with errors", tcp.map(|tcp| tcp.errors_in.0)),
            ],
        ),
        (
            "connects",
            vec![
                ("failed", tcp.map(|tcp| tcp.attempt_fails.0)),
                ("accepted", tcp.map(|tcp| tcp.passive_opens.0)),
                ("opened", tcp.map(|tcp| tcp.active_opens.0)),
                ("SYN again", ext.and_then(|ext| Some(ext.syn_retransmits?.0))),
            ],
        ),
        (
            "ended by",
            vec![
                ("resets in", tcp.map(|tcp| tcp.established_resets.0)),
                ("resets out", tcp.map(|tcp| tcp.resets_out.0)),
                ("timeouts", ext.and_then(|ext| Some(ext.timeouts?.0))),
            ],
        ),
        (
            "dropped",
            vec![
                ("accept queue", ext.and_then(|ext| Some(ext.listen_overflows?.0))),
                ("listeners", ext.and_then(|ext| Some(ext.listen_drops?.0))),
                ("SYN queue", ext.and_then(|ext| Some(ext.syn_queue_full_drops?.0))),
                ("backlog", ext.and_then(|ext| Some(ext.backlog_drops?.0))),
            ],
        ),
        (
            "UDP",
            vec![
                ("no listener", udp.map(|udp| udp.no_ports.0)),
                (
                    "buffer full",
                    udp.and_then(|udp| {
                        Some(udp.receive_buffer_errors?.0.saturating_add(of_udp6(|udp6| udp6.receive_buffer_errors)))
                    }),
                ),
                ("in", udp.map(|udp| udp.datagrams_in.0.saturating_add(of_udp6(|udp6| Some(udp6.datagrams_in))))),
                ("out", udp.map(|udp| udp.datagrams_out.0.saturating_add(of_udp6(|udp6| Some(udp6.datagrams_out))))),
            ],
        ),
    ];
    for (y, (heading, figures)) in (0..).zip(lines) {
        let mut line = SafeLine::new(safe!("{heading:<10}"), StyleRole::Heading);
        for (label, value) in figures {
            if line.width() + SLOT_CELLS - 2 > width {
                break;
            }
            let cells = SLOT_CELLS - 2 - label.len();
            line.push(safe!("{label}"), StyleRole::Dim);
            let value = value.map(|value| value as f64);
            line.push(safe!("{:>cells$}  ", short_count(value)), role(value));
        }
        inner.line(y, line);
    }
}
