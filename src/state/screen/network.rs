//! The network screen: a row for each interface, or for each remote host.

use crate::state::layout::{self, ListLines};
use crate::state::panes::Band;
use crate::state::rows::{self, NetworkRows};
use crate::state::screen::{ScreenDefinition, rows_of};
use crate::state::sort;

pub const SCREEN: ScreenDefinition = ScreenDefinition {
    label: "net",
    short_label: "net",
    sort_columns: sort::NETWORK_COLUMNS,
    rows: |state, evaluation, filter| match state.lists.network_rows {
        NetworkRows::Interfaces => rows::nics(evaluation, state.sort(), filter),
        NetworkRows::RemoteHosts => rows::remote_hosts(evaluation, filter),
    },
    fixed_order_reason: |state| {
        (state.lists.network_rows == NetworkRows::RemoteHosts)
            .then_some("remote hosts are ordered by RTT against its minimum: p returns")
    },
    finding_lines: |_| 1,
    list_lines: |state, layout| {
        let below = match state.lists.network_rows {
            // The remote hosts have a pane of their own.
            NetworkRows::Interfaces if layout.has_panes() => layout::protocol_rows(state).min(layout.list_area.height / 2),
            NetworkRows::Interfaces => layout::network_footer_rows(state).min(layout.list_area.height / 2),
            NetworkRows::RemoteHosts => 1,
        };
        ListLines { above: 1, below, ..ListLines::default() }
    },
    bands: &[
        Band::new(&["in and out", "retransmits and drops"], 1, |_, _| (7, u16::MAX)),
        Band::new(&["round-trip times"], 2, |_, evaluation| {
            let hosts = evaluation.remote_hosts.as_ref().map_or(0, |hosts| hosts.rows.len());
            (if hosts == 0 { 3 } else { 5 }, 3 + rows_of(hosts).clamp(0, 8))
        }),
        Band::new(&["errors, drops and queues", "TCP and UDP since the start"], 3, |_, evaluation| {
            (7, 3 + rows_of(evaluation.interval.network.nics.len()).max(4))
        }),
        // Frame, headings and rows, a blank line, protocols.
        Band::new(&["interfaces and protocols"], 0, |state, _| {
            let lines = state.lists.rows.iter().map(|&row| layout::row_height(state, row)).sum();
            (10, 4 + rows_of(lines).saturating_add(layout::protocol_rows(state)))
        }),
    ],
    list_pane: Some(5),
};
