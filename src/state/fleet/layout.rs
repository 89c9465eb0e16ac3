//! The rows of the fleet screen.
//!
//! ```text
//! header       hosts by condition, time
//! causes       a line each; their number of lines depends on the terminal only, so that no row moves when a cause goes
//! rule
//! headings
//! hosts        one row each
//! rule, host   the findings of the selected host, where there is room
//! key line     or a prompt, or a notice
//! ```

use super::FleetState;

/// Columns and rows of the smallest terminal.
pub const MIN_SIZE: (u16, u16) = (40, 8);

/// Rows of a terminal from which there are more causes, and the findings of the selected host.
const TALL: u16 = 36;

/// First row and number of rows of each part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FleetLayout {
    pub cause_rows: u16,
    /// The headings; the hosts begin below
    pub table_top: u16,
    /// Rows for hosts
    pub host_rows: u16,
    /// Rows for the findings of the selected host, without the rule above them
    pub finding_rows: u16,
}

impl FleetLayout {
    pub fn new(state: &FleetState) -> FleetLayout {
        let height = state.setup.size.1;
        let (cause_rows, finding_rows) = match height {
            TALL.. => (6, 6),
            20.. => (3, 0),
            12.. => (2, 0),
            _ => (1, 0),
        };
        let table_top = 1 + cause_rows + 1;
        let below = 1 + if finding_rows > 0 { finding_rows + 1 } else { 0 };
        FleetLayout { cause_rows, table_top, host_rows: height.saturating_sub(table_top + 1 + below), finding_rows }
    }
}
