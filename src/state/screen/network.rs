//! The network screen: a row for each interface, or for each remote host.

use crate::state::layout::{self, ListLines};
use crate::state::rows::{self, NetworkRows};
use crate::state::screen::ScreenDefinition;
use crate::state::sort;

pub const SCREEN: ScreenDefinition = ScreenDefinition {
    label: "net",
    sort_columns: sort::NETWORK_COLUMNS,
    rows: |state, evaluation, filter| match state.network_rows {
        NetworkRows::Interfaces => rows::nics(evaluation, state.sort(), filter),
        NetworkRows::RemoteHosts => rows::remote_hosts(evaluation, filter),
    },
    fixed_order_reason: |state| {
        (state.network_rows == NetworkRows::RemoteHosts)
            .then_some("remote hosts are ordered by RTT against its minimum: p returns")
    },
    finding_lines: |_, _| 1,
    list_lines: |state, layout| {
        let below = match state.network_rows {
            NetworkRows::Interfaces => layout::network_footer_rows(state).min(layout.body_rows / 2),
            NetworkRows::RemoteHosts => 1,
        };
        ListLines { above: 1, below, ..ListLines::default() }
    },
};
