//! The table of interfaces in other network namespaces, below those of stalltop's own: the busiest, and whose they are.

use crate::figures::{Column, network as figures};
use crate::findings::{Evaluation, namespace_owner};
use crate::interval::network::NicSpan;
use crate::state::layout::busiest_namespace_nics;
use crate::view::columns::{CellContent, ColumnSpec, Columns};
use crate::view::pane::Pane;
use crate::view::safe_text::SafeText;
use crate::view::text::format_figure;
use crate::view::theme::StyleRole;

struct NamespaceNicRow<'a> {
    evaluation: &'a Evaluation,
    nic: &'a NicSpan,
}

type Spec = ColumnSpec<fn(&NamespaceNicRow, CellContent)>;

const COLUMNS: [Spec; 7] = [
    Spec::text("NETNS", 9, |row, cell| cell.text(SafeText::from_name(&row.nic.id.name), StyleRole::Plain)),
    Spec::figure(&figures::RECEIVED_BYTES_PER_SECOND, 7, |row, cell| row.figure(cell, &figures::RECEIVED_BYTES_PER_SECOND, 7)),
    Spec::figure(&figures::SENT_BYTES_PER_SECOND, 7, |row, cell| row.figure(cell, &figures::SENT_BYTES_PER_SECOND, 7)),
    Spec::figure(&figures::RECEIVED_PACKETS_PER_SECOND, 6, |row, cell| {
        row.figure(cell, &figures::RECEIVED_PACKETS_PER_SECOND, 6);
    })
    .min_table_width(100),
    Spec::figure(&figures::SENT_PACKETS_PER_SECOND, 6, |row, cell| row.figure(cell, &figures::SENT_PACKETS_PER_SECOND, 6))
        .min_table_width(100),
    Spec::figure(&figures::QDISC_DROPPED_PER_SECOND, 6, |row, cell| row.figure(cell, &figures::QDISC_DROPPED_PER_SECOND, 6)),
    Spec::text("whose", 0, |row, cell| {
        let owner = row.nic.namespace.and_then(|inode| namespace_owner(&row.evaluation.interval, inode));
        cell.text(SafeText::sanitize(owner.unwrap_or_default()), StyleRole::Plain);
    }),
];

impl NamespaceNicRow<'_> {
    fn figure(&self, cell: CellContent, figure: &Column<NicSpan>, cells: usize) {
        cell.text(format_figure(figure, &self.evaluation.into(), self.nic, cells), StyleRole::Plain);
    }
}

/// Draws the table from line `y` on; returns the number of its lines, 0 if no such interface carried packets.
pub fn draw(evaluation: &Evaluation, pane: &mut Pane, y: u16) -> u16 {
    let nics = busiest_namespace_nics(&evaluation.interval);
    if nics.is_empty() {
        return 0;
    }
    let table = Columns::new(&COLUMNS, pane.width());
    let rows = nics.iter().map(|&nic| table.row(|fill, cell| fill(&NamespaceNicRow { evaluation, nic }, cell)));
    let lines = 1 + u16::try_from(nics.len()).unwrap_or(u16::MAX);
    table.draw(&mut pane.subarea(0, y, u16::MAX, lines), None, rows);
    lines
}
