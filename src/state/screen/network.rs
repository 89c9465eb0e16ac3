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
    rows: |state, evaluation, filter| match state.network_rows {
        NetworkRows::Interfaces => rows::nics(evaluation, state.sort(), filter),
        NetworkRows::RemoteHosts => rows::remote_hosts(evaluation, filter),
    },
    fixed_order_reason: |state| {
        (state.network_rows == NetworkRows::RemoteHosts)
            .then_some("remote hosts are ordered by RTT against its minimum: p returns")
    },
    finding_lines: |_| 1,
    list_lines: |state, layout| {
        let below = match state.network_rows {
            // The remote hosts have a pane of their own.
            NetworkRows::Interfaces if layout.has_panes() => layout::protocol_rows(state).min(layout.list_area.height / 2),
            NetworkRows::Interfaces => layout::network_footer_rows(state).min(layout.list_area.height / 2),
            NetworkRows::RemoteHosts => 1,
        };
        ListLines { above: 1, below, ..ListLines::default() }
    },
    bands: &[
        Band {
            panes: &["in and out", "retransmits and drops"],
            // Frame, and graphs of the interfaces in use.
            rows: |_, evaluation| (7, 2 + (10 * rows_of(rows::busiest_nics(&evaluation.interval).len())).clamp(10, 20)),
            priority: 1,
        },
        Band {
            panes: &["round-trip times"],
            rows: |_, evaluation| {
                let hosts = evaluation.remote_hosts.as_ref().map_or(0, |hosts| hosts.rows.len());
                (5, 3 + rows_of(hosts).clamp(2, 8))
            },
            priority: 2,
        },
        Band { panes: &["interfaces and protocols"], rows: |_, _| (10, u16::MAX), priority: 0 },
    ],
    list_pane: Some(3),
};
