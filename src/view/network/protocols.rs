//! TCP and UDP counters as in nicstat -t and -u, and listening sockets with a queue.

use crate::figures::{Column, protocols};
use crate::findings::Evaluation;
use crate::interval::network::ProtocolSpan;
use crate::safe;
use crate::sample::network::Listener;
use crate::units::PerSecond;
use crate::view::columns::{CellContent, ColumnSpec, Columns};
use crate::view::pane::Pane;
use crate::view::safe_line::SafeLine;
use crate::view::safe_text::SafeText;
use crate::view::text::{format_figure, format_number};
use crate::view::theme::StyleRole;

/// A row of protocol counters.
struct ProtocolLine<'a>(&'a Evaluation);

impl ProtocolLine<'_> {
    fn number(&self, figure: &Column<ProtocolSpan>) -> Option<f64> {
        figure.number(&self.0.into(), &self.0.interval.network.protocols)
    }

    fn figure(&self, figure: &Column<ProtocolSpan>) -> SafeText {
        format_figure(figure, &self.0.into(), &self.0.interval.network.protocols, 6)
    }

    fn rate(&self, cell: CellContent, figure: &Column<ProtocolSpan>) {
        cell.text(self.figure(figure), StyleRole::Plain);
    }
}

type ProtocolSpec = ColumnSpec<fn(&ProtocolLine, CellContent)>;

const TCP_COLUMNS: [ProtocolSpec; 11] = [
    ProtocolSpec::text("TCP", 5, |_, _| {}),
    ProtocolSpec::figure(&protocols::SEGMENTS_IN_PER_SECOND, 6, |line, cell| {
        line.rate(cell, &protocols::SEGMENTS_IN_PER_SECOND)
    }),
    ProtocolSpec::figure(&protocols::SEGMENTS_OUT_PER_SECOND, 6, |line, cell| {
        line.rate(cell, &protocols::SEGMENTS_OUT_PER_SECOND)
    }),
    ProtocolSpec::figure(&protocols::RETRANSMITTED_RATIO, 6, |line, cell| {
        let (share, rate) = (&protocols::RETRANSMITTED_RATIO, &protocols::RETRANSMITTED_PER_SECOND);
        let thresholds = line.0.thresholds();
        let many = line.number(share).is_some_and(|share| share >= thresholds.retransmitted_ratio)
            && line.number(rate).is_some_and(|rate| rate >= thresholds.retransmitted_per_second);
        cell.text(line.figure(&protocols::RETRANSMITTED_RATIO), if many { StyleRole::Warning } else { StyleRole::Plain });
    }),
    ProtocolSpec::figure(&protocols::RESETS_PER_SECOND, 6, |line, cell| line.rate(cell, &protocols::RESETS_PER_SECOND))
        .min_table_width(60),
    ProtocolSpec::figure(&protocols::ATTEMPT_FAILS_PER_SECOND, 6, |line, cell| {
        line.rate(cell, &protocols::ATTEMPT_FAILS_PER_SECOND)
    })
    .min_table_width(60),
    ProtocolSpec::figure(&protocols::CONNECTIONS_IN_PER_SECOND, 6, |line, cell| {
        line.rate(cell, &protocols::CONNECTIONS_IN_PER_SECOND)
    })
    .min_table_width(60),
    ProtocolSpec::figure(&protocols::CONNECTIONS_OUT_PER_SECOND, 6, |line, cell| {
        line.rate(cell, &protocols::CONNECTIONS_OUT_PER_SECOND)
    })
    .min_table_width(60),
    ProtocolSpec::figure(&protocols::ESTABLISHED, 6, |line, cell| line.rate(cell, &protocols::ESTABLISHED)).min_table_width(70),
    ProtocolSpec::figure(&protocols::LISTEN_DROPS_PER_SECOND, 6, |line, cell| {
        let dropped = line.number(&protocols::LISTEN_DROPS_PER_SECOND).is_some_and(|rate| rate > 0.0);
        let role = if dropped { StyleRole::Warning } else { StyleRole::Plain };
        cell.text(line.figure(&protocols::LISTEN_DROPS_PER_SECOND), role);
    }),
    ProtocolSpec::figure(&protocols::SYN_RETRANSMITS_PER_SECOND, 7, |line, cell| {
        line.rate(cell, &protocols::SYN_RETRANSMITS_PER_SECOND)
    })
    .min_table_width(78),
];

const UDP_COLUMNS: [ProtocolSpec; 5] = [
    ProtocolSpec::text("UDP", 5, |_, _| {}),
    ProtocolSpec::figure(&protocols::DATAGRAMS_IN_PER_SECOND, 6, |line, cell| {
        line.rate(cell, &protocols::DATAGRAMS_IN_PER_SECOND)
    }),
    ProtocolSpec::figure(&protocols::DATAGRAMS_OUT_PER_SECOND, 6, |line, cell| {
        line.rate(cell, &protocols::DATAGRAMS_OUT_PER_SECOND)
    }),
    ProtocolSpec::figure(&protocols::DATAGRAM_ERRORS_IN_PER_SECOND, 6, |line, cell| {
        line.rate(cell, &protocols::DATAGRAM_ERRORS_IN_PER_SECOND)
    }),
    ProtocolSpec::figure(&protocols::DATAGRAM_ERRORS_OUT_PER_SECOND, 6, |line, cell| {
        line.rate(cell, &protocols::DATAGRAM_ERRORS_OUT_PER_SECOND)
    }),
];

/// TCP and UDP of the network namespace as in nicstat -t and -u, and listening sockets with a queue. Returns the line after.
pub fn protocol_tables(evaluation: &Evaluation, pane: &mut Pane) -> u16 {
    let interval = &*evaluation.interval;
    let span = &interval.network.protocols;
    let row = ProtocolLine(evaluation);
    for (y, columns) in [(0, &TCP_COLUMNS[..]), (2, &UDP_COLUMNS[..])] {
        let table = Columns::new(columns, pane.width());
        table.draw(&mut pane.subarea(0, y, u16::MAX, 2), None, [table.row(|fill, cell| fill(&row, cell))]);
    }
    let listeners = interval.newer.protocols.listeners.as_deref().unwrap_or_default();
    let mut y = 4;
    for listener in listeners.iter().take(8) {
        listener_line(listener, span.listen_drops, pane, y);
        y += 1;
    }
    y
}

fn listener_line(listener: &Listener, drops: Option<PerSecond>, pane: &mut Pane, y: u16) {
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
    let role = if full { StyleRole::Bold } else { StyleRole::Plain };
    let line = SafeLine::new("LISTEN ", StyleRole::Heading).with(words, role);
    pane.line(y, if full { line.with(" ▲", StyleRole::Warning) } else { line });
}
