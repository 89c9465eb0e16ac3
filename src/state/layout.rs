//! How the rows of the terminal are divided. `view` draws by it, `update` scrolls by it.

use super::State;
use super::demo::DemoNote;
use super::panes::{PaneArea, pane_areas};
use super::rows::{Item, Row};
use crate::interval::Interval;
use crate::interval::disk::{DiskSpan, OpSpan, Operation};
use crate::interval::network::NicSpan;
use crate::interval::network::softnet::SoftnetSpan;
use crate::units::{PerSecond, SmallSort};

/// Minimum columns and rows; a smaller terminal only displays a message.
pub const MIN_SIZE: (u16, u16) = (40, 10);

/// Columns and rows from which screens have panes.
const MIN_PANES_SIZE: (u16, u16) = (100, 32);

/// Rows from top to bottom: header, active findings, body, timeline, key line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScreenLayout {
    pub width: u16,
    pub height: u16,
    /// Rows of the active findings, which begin at row 1
    pub finding_rows: u16,
    /// First row of the body, and its number of rows
    pub body_top: u16,
    pub body_rows: u16,
    /// The panes, in the body; empty without panes
    pub panes: Vec<PaneArea>,
    /// The part of the body in which the list is with its headings: the inside of a pane, or the whole body
    pub list_area: ListArea,
    /// Rows of `list_area` above the list, including the column headings
    pub rows_before_list: u16,
    /// Rows of the list
    pub list_rows: u16,
    /// Whether a timeline is drawn above the key line
    pub has_timeline: bool,
    /// Rows of the note of the demo, below the body
    pub note_rows: u16,
    /// CPU screen: rows of the map of all CPUs, and CPUs per row
    pub cpu_map: (u16, u16),
    /// CPU screen: rows of the hottest threads below the list, without the heading
    pub hot_thread_rows: u16,
}

impl State {
    /// Whether the terminal is large and fast enough for panes.
    pub(super) fn has_room_for_panes(&self) -> bool {
        let (width, height) = self.setup.size;
        width >= MIN_PANES_SIZE.0 && height >= MIN_PANES_SIZE.1 && !self.setup.terminal.is_slow
    }
}

impl ScreenLayout {
    pub fn new(state: &State) -> ScreenLayout {
        let (width, height) = state.setup.size;
        let has_timeline = height >= 12;
        let overview = state.selects_on_overview();
        let finding_rows = match &state.details {
            // The page of a finding starts with its sentence.
            Some(details) if matches!(details.item, Item::Finding { .. }) => 0,
            _ => (state.screen.definition().finding_lines)(state),
        };
        // A tall overview has a horizontal rule below the active findings.
        let definition = state.screen.definition();
        let is_large = state.has_room_for_panes();
        let focus = state.pane_focus();
        let evaluation =
            state.current().filter(|_| state.details.is_none() && definition.pane_count() > 0 && (is_large || focus.zoomed));
        let has_panes = evaluation.is_some();
        let rule = u16::from(overview && height >= 24 && !has_panes);
        let top = 1 + finding_rows + rule;
        let note_rows = if state.options.demo.is_some() { DemoNote::lines(height) } else { 0 };
        let body = height.saturating_sub(top + 1 + u16::from(has_timeline) + note_rows);
        let panes = evaluation.map(|evaluation| pane_areas(definition.bands, focus, state, evaluation, (width, body)));
        let panes = panes.unwrap_or_default();
        let list_pane = panes.iter().find(|area| definition.list_pane == Some(area.pane));
        let list_area = list_pane.map_or(ListArea { x: 0, y: 0, width, height: body }, |area| ListArea::inside(*area));
        let mut layout = ScreenLayout {
            width,
            height,
            finding_rows,
            body_top: top,
            body_rows: body,
            panes,
            list_area,
            rows_before_list: 0,
            list_rows: list_area.height,
            has_timeline,
            note_rows,
            cpu_map: (0, 0),
            hot_thread_rows: 0,
        };
        let lines = (definition.list_lines)(state, &layout);
        layout.rows_before_list = lines.above.min(list_area.height);
        let room = list_area.height.saturating_sub(layout.rows_before_list + lines.below);
        layout.list_rows = lines.rows.unwrap_or(room).min(room);
        layout.cpu_map = lines.cpu_map;
        layout.hot_thread_rows = lines.hot_thread_rows;
        layout
    }

    /// Whether there is room for framed panes.
    pub fn has_panes(&self) -> bool {
        !self.panes.is_empty()
    }

    /// Whether the list is displayed: the zoomed pane may be another one.
    pub fn has_list(&self, list_pane: Option<usize>) -> bool {
        self.panes.is_empty() || self.panes.iter().any(|area| list_pane == Some(area.pane))
    }

    /// Lines of the CPU screen: bar, map, table, hottest threads, footer.
    pub(super) fn cpu_screen(&self, state: &State) -> ListLines {
        let cpus = state.playback.current.as_ref().map_or(0, |evaluation| evaluation.interval.online_cpus());
        let cells = match self.width {
            150.. => 128,
            78.. => 64,
            _ => 16,
        };
        let wanted = u16::try_from(cpus.div_ceil(usize::from(cells))).unwrap_or(u16::MAX);
        // The table below displays up to eight CPUs at once: no map is needed.
        let wanted = if cpus > 8 { wanted } else { 0 };
        let map_rows = wanted.min(self.body_rows / 3);
        let mut hot_thread_rows = if self.body_rows >= 14 { (self.body_rows / 5).clamp(2, 8) } else { 0 };
        let heading = u16::from(hot_thread_rows > 0);
        let (above, below) = (1 + map_rows + 1, hot_thread_rows + heading + 2.min(self.body_rows / 6));
        let left = self.body_rows.saturating_sub(above.min(self.body_rows) + below);
        let table = u16::try_from(cpus).unwrap_or(u16::MAX);
        let mut rows = None;
        if table < left {
            // Few CPUs: the threads get the rows that the table does not need.
            hot_thread_rows = if hot_thread_rows > 0 { hot_thread_rows + (left - table.max(1)) } else { 0 };
            rows = Some(table.max(1));
        }
        ListLines { above, below, rows, cpu_map: (map_rows, cells), hot_thread_rows }
    }
}

/// A part of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListArea {
    pub x: u16,
    pub y: u16,
    pub width: u16,
    pub height: u16,
}

impl ListArea {
    /// The inside of the frame of a pane.
    fn inside(area: PaneArea) -> ListArea {
        let (width, height) = (area.width.saturating_sub(2), area.height.saturating_sub(2));
        ListArea { x: area.x + 1, y: area.y + 1, width, height }
    }
}

/// The lines of a list, in the body or in its pane.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListLines {
    /// Lines above the list, including the column headings
    pub above: u16,
    pub below: u16,
    /// Lines of the list, if it does not take all others
    pub rows: Option<u16>,
    /// CPU screen: rows of the map of all CPUs, and CPUs per row
    pub cpu_map: (u16, u16),
    /// CPU screen: rows of the hottest threads
    pub hot_thread_rows: u16,
}

/// Whether a line below the list reports that waits of other users' tasks are hidden.
pub(super) fn hides_other_users(state: &State) -> bool {
    state.playback.current.as_ref().is_some_and(|evaluation| !evaluation.interval.host.privilege.has_cap_sys_ptrace)
}

/// Rows below the list of interfaces: TCP, UDP, listening sockets, softnet, other network namespaces, remote hosts.
pub fn network_footer_rows(state: &State) -> u16 {
    let hosts = state
        .playback
        .current
        .as_ref()
        .and_then(|evaluation| evaluation.remote_hosts.as_ref())
        .map_or(0, |hosts| hosts.rows.len());
    let hosts = if hosts > 0 { 1 + u16::try_from(hosts).unwrap_or(u16::MAX).min(8) } else { 0 };
    1 + protocol_rows(state) + hosts
}

/// Rows of TCP, UDP, listening sockets, softnet and other network namespaces.
pub fn protocol_rows(state: &State) -> u16 {
    let Some(evaluation) = &state.playback.current else { return 4 };
    let listeners = evaluation.interval.newer.protocols.listeners.as_ref().map_or(0, Vec::len);
    let listeners = u16::try_from(listeners).unwrap_or(u16::MAX).min(8);
    let inside = u16::try_from(busiest_namespace_nics(&evaluation.interval).len()).unwrap_or(u16::MAX);
    let inside = if inside > 0 { 1 + inside } else { 0 };
    4 + listeners + u16::from(saturated_softnet(&evaluation.interval).next().is_some()) + inside
}

/// Interfaces of other network namespaces that the network screen shows.
const MAX_NAMESPACE_NICS: usize = 6;

/// The interfaces of other network namespaces that carried packets, without loopback: those with most bytes, in the
/// order of their namespaces.
pub fn busiest_namespace_nics(interval: &Interval) -> Vec<&NicSpan> {
    let inside = interval.network.namespaces.iter().flat_map(|namespace| &namespace.nics);
    let moved = |nic: &NicSpan| nic.rx.kilobytes.0 + nic.tx.kilobytes.0;
    let is_shown = |nic: &&NicSpan| moved(nic) > 0.0 && interval.nic(nic).is_some_and(|nic| !nic.facts.loopback);
    let mut nics: Vec<&NicSpan> = inside.filter(is_shown).collect();
    nics.small_sort_by(|a, b| moved(b).total_cmp(&moved(a)));
    nics.truncate(MAX_NAMESPACE_NICS);
    // Both ends of a pair carry the same: rows that change places cannot be read.
    nics.small_sort_by_key(|nic| nic.index);
    nics
}

/// CPUs with drops or time squeezes in /proc/net/softnet_stat.
pub fn saturated_softnet(interval: &Interval) -> impl Iterator<Item = &SoftnetSpan> {
    interval.network.softnet.iter().filter(|span| span.dropped.0 > 0.0 || span.time_squeeze.0 > 0.0)
}

/// Number of terminal lines of a row.
pub fn row_height(state: &State, row: Row) -> usize {
    let Some(evaluation) = &state.playback.current else { return 1 };
    match row {
        Row::Disk(at) => evaluation.interval.disks.get(at).map_or(1, |disk| active_operations(disk).count().max(1)),
        Row::Nic(at) => 1 + usize::from(evaluation.interval.network.nics.get(at).is_some_and(has_qdisc_activity)),
        Row::ActiveFinding(_) if state.selects_on_overview() => 1,
        // The heading and as many lines of the sentence as fit beside the other findings.
        Row::ActiveFinding(_) => {
            let room = usize::from(ScreenLayout::new(state).list_rows) / state.lists.rows.len().max(1);
            match state.setup.size.0 {
                ..120 => room.clamp(3, 5),
                120..160 => room.clamp(2, 4),
                160.. => room.clamp(2, 3),
            }
        }
        _ => 1,
    }
}

/// The operations that completed requests in the interval; each has a line.
pub fn active_operations(disk: &DiskSpan) -> impl Iterator<Item = (Operation, &OpSpan)> {
    disk.operations().filter(|(_, span)| span.completed > 0)
}

/// Whether the queueing discipline has a backlog, drops or overlimits.
pub fn has_qdisc_activity(nic: &NicSpan) -> bool {
    let some = |rate: Option<PerSecond>| rate.is_some_and(|rate| rate.0 > 0.0);
    nic.qdisc.as_ref().is_some_and(|qdisc| qdisc.backlog_packets > 0 || some(qdisc.dropped) || some(qdisc.overlimits))
}
