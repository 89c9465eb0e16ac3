//! The table of hosts.

use crate::figures::cpu;
use crate::findings::Severity;
use crate::interval::disk::Operation;
use crate::safe;
use crate::state::ClickTarget;
use crate::state::fleet::FleetState;
use crate::state::fleet::host::{Condition, Connection, FleetHost, HostSummary};
use crate::state::fleet::layout::FleetLayout;
use crate::units::time;
use crate::view::columns::{CellContent, ColumnSpec, Columns};
use crate::view::pane::Pane;
use crate::view::safe_line::SafeLine;
use crate::view::safe_text::SafeText;
use crate::view::text::{format_kilobytes, format_number, format_percent, truncate};
use crate::view::theme::{self, StyleRole};

/// The words of the headings.
pub const WORDS: [(&str, &str); 6] = [
    ("%blocked", "idle CPU time that threads would use if they were not blocked; ≥: some threads are hidden"),
    ("busy", "used CPU time, in per cent"),
    ("×base", "the latency of a disk as the largest multiple of its baseline; ~: the baseline is an estimate"),
    ("hot", "threads that use a whole CPU"),
    ("net KB/s", "received and sent, all interfaces but loopback; %Util: of the speed of the busiest one"),
    ("verdict", "the worst finding, or why there is none; 'clock +40 s': the clock of the host is ahead of ours"),
];

/// A host at the present time.
struct HostRow<'a> {
    host: &'a FleetHost,
    condition: Condition,
    now_ns: u64,
    /// Cells behind the name
    room: usize,
}

impl HostRow<'_> {
    fn figure(&self, cell: CellContent, make: impl FnOnce(&HostSummary) -> Option<(SafeText, StyleRole)>) {
        let (text, role) = self.host.summary.as_ref().and_then(make).unwrap_or(("-".into(), StyleRole::Dim));
        cell.text(text, role);
    }
}

type HostSpec = ColumnSpec<fn(&HostRow, CellContent)>;

/// Cells of the sign and the name: as many as the longest one needs, within these limits.
const MIN_NAME_WIDTH: u16 = 8;
const MAX_NAME_WIDTH: u16 = 16;
const MAX_NAME_WIDTH_ON_WIDE_TABLE: u16 = 40;
const WIDE_TABLE: u16 = 120;

const COLUMNS: [HostSpec; 10] = [
    HostSpec::text("HOST", MIN_NAME_WIDTH, |row, cell| {
        let (sign, role) = match row.condition {
            Condition::Unknown => ("?", StyleRole::Warning),
            Condition::Ok => ("·", StyleRole::Good),
            Condition::Connecting => ("…", StyleRole::Dim),
            condition => condition
                .severity()
                .map_or((" ", StyleRole::Plain), |severity| (theme::severity_symbol(severity), StyleRole::from(severity))),
        };
        let name = SafeText::sanitize(row.host.name.clone());
        cell.line(SafeLine::new(sign, role).with(" ", StyleRole::Plain).with(name, StyleRole::Bold));
    }),
    HostSpec::figure(&cpu::IDLE_BUT_BLOCKED_RATIO, 8, |row, cell| {
        // A host that does not answer has no figures of now.
        if let Some((words, role)) = no_figures(row) {
            return cell.text_over_rest(words, role);
        }
        row.figure(cell, |of| {
            let least = if of.blocked_is_lower_bound { "≥" } else { "" };
            let role = if of.blocked_is_high { StyleRole::Blocked } else { StyleRole::Plain };
            Some((safe!("{least}{}", format_percent(Some(of.blocked?), 5)), role))
        });
    }),
    HostSpec::figure(&cpu::BUSY_RATIO, 5, |row, cell| {
        row.figure(cell, |of| Some((safe!("{}", format_percent(Some(of.busy?), 5)), StyleRole::Plain)));
    })
    .min_table_width(50),
    HostSpec::text("CPUs", 4, |row, cell| row.figure(cell, |of| Some((safe!("{}", of.cpus), StyleRole::Dim))))
        .right_aligned()
        .min_table_width(110),
    HostSpec::text("×base", 6, |row, cell| {
        row.figure(cell, |of| {
            let worst = of.worst_latency.as_ref()?;
            let estimate = if worst.provisional { "~" } else { "" };
            let role = if worst.is_high { StyleRole::Warning } else { StyleRole::Plain };
            Some((safe!("{estimate}{}", format_number(worst.multiple, 5)), role))
        });
    })
    .right_aligned()
    .min_table_width(58),
    HostSpec::text("of", 12, |row, cell| {
        row.figure(cell, |of| {
            let worst = of.worst_latency.as_ref()?;
            let operation = match worst.operation {
                Operation::Read => "r",
                Operation::Write => "w",
                Operation::Flush => "f",
                Operation::Discard => "d",
            };
            Some((safe!("{} {operation}", worst.disk), StyleRole::Dim))
        });
    })
    .min_table_width(120),
    HostSpec::text("hot", 3, |row, cell| {
        row.figure(cell, |of| {
            let hot = of.saturated_threads?;
            Some((safe!("{hot}"), if hot > 0 { StyleRole::Warning } else { StyleRole::Plain }))
        });
    })
    .right_aligned()
    .min_table_width(64),
    HostSpec::text("net KB/s", 8, |row, cell| {
        row.figure(cell, |of| Some((safe!("{}", format_kilobytes(of.network_kilobytes?.0, 8)), StyleRole::Plain)));
    })
    .right_aligned()
    .min_table_width(76),
    HostSpec::text("%Util", 5, |row, cell| {
        row.figure(cell, |of| Some((safe!("{}", format_percent(Some(of.network_utilization?), 5)), StyleRole::Dim)));
    })
    .right_aligned()
    .min_table_width(100),
    HostSpec::text("verdict", 0, |row, cell| {
        let width = usize::from(cell.width);
        cell.line(verdict(row.host, width));
    }),
];

/// Draws the headings and the visible hosts.
pub fn draw(state: &FleetState, layout: &FleetLayout, pane: &mut Pane) {
    let visible = usize::from(layout.host_rows);
    let mut pane = pane.with_scroll_bar(state.rows.len() > visible);
    let name_width = name_width(state, pane.table_width());
    let mut specs = COLUMNS;
    let [name, ..] = &mut specs;
    *name = name.width(name_width);
    let table = Columns::new(&specs, pane.table_width());
    let selected = state.selected_host();
    let room = usize::from(pane.table_width().saturating_sub(name_width + 1));
    let shown: Vec<usize> = state.rows.iter().copied().skip(state.top).take(visible).collect();
    let rows = shown.iter().filter_map(|&index| {
        let host = state.hosts.get(index)?;
        let row = HostRow { host, condition: host.condition(state.now_ns), now_ns: state.now_ns, room };
        Some(table.row(|fill, cell| fill(&row, cell)).selected(selected == Some(index)))
    });
    table.draw(&mut pane, None, rows);
    for (y, &index) in (1..).zip(&shown) {
        pane.subarea(0, y, u16::MAX, 1).on_click(ClickTarget::FleetHost(index));
    }
    if shown.is_empty() && !state.filter.is_empty() {
        pane.line(1, (safe!("  no host matches '{}': Esc clears the filter", state.filter), StyleRole::Dim));
    }
    let (width, rows) = (pane.width(), state.rows.len());
    pane.subarea(0, 1, width, layout.host_rows).scroll_bar(rows, state.top, visible);
}

/// The same for all rows and at all times: no column moves.
fn name_width(state: &FleetState, table_width: u16) -> u16 {
    let widest = state.hosts.iter().map(|host| SafeText::sanitize(host.name.clone()).width() + 2).max().unwrap_or(0);
    let most = if table_width >= WIDE_TABLE { MAX_NAME_WIDTH_ON_WIDE_TABLE } else { MAX_NAME_WIDTH };
    u16::try_from(widest).unwrap_or(most).clamp(MIN_NAME_WIDTH, most)
}

/// Why there are no figures, as far as there is room.
fn no_figures(row: &HostRow) -> Option<(SafeText, StyleRole)> {
    let host = row.host;
    let words = match (&host.connection, row.condition) {
        (Connection::Lost { why, retry_at_ns }, _) => {
            let seconds = retry_at_ns.saturating_sub(row.now_ns).div_ceil(1_000_000_000);
            let again = if seconds > 0 { safe!(" (again in {seconds} s)") } else { " (again now)".into() };
            let why = SafeText::sanitize(why.clone());
            safe!("{}{again}", truncate(why.as_str(), row.room.saturating_sub(again.width())))
        }
        (Connection::Ended(Some(why)), _) => SafeText::sanitize(why.clone()),
        (_, Condition::Unknown) => {
            let silent = host.silent_seconds(row.now_ns).map_or_else(|| "a while".to_owned(), |s| time::duration(s.floor()));
            let remarks: String = remarks(host).iter().map(|remark| format!(" ({remark})")).collect();
            safe!("no sample for {silent}{remarks}")
        }
        (Connection::Connecting, Condition::Connecting) => return Some(("connecting …".into(), StyleRole::Dim)),
        (_, Condition::Connecting) => return Some(("first sample …".into(), StyleRole::Dim)),
        _ => return None,
    };
    Some((SafeText::sanitize(truncate(words.as_str(), row.room).into_owned()), StyleRole::Warning))
}

/// What is unusual about the host itself.
fn remarks(host: &FleetHost) -> Vec<SafeText> {
    let offset = host.reported_clock_offset().map(|offset| {
        let sign = if offset > 0.0 { "+" } else { "−" };
        safe!("clock {sign}{}", time::duration(offset.abs().round()))
    });
    let version = host.other_version.as_ref().map(|version| safe!("stalltop {version}"));
    let note = host.note.as_ref().map(|note| safe!("{note}"));
    offset.into_iter().chain(version).chain(note).collect()
}

/// The worst finding, and what is unusual about the host.
fn verdict(host: &FleetHost, width: usize) -> SafeLine {
    let remarks = remarks(host);
    let mut line = SafeLine::default();
    if let Some((summary, severity)) = host.summary.as_ref().and_then(|summary| Some((summary, summary.worst?))) {
        let used: usize = remarks.iter().map(|remark| remark.width() + 3).sum();
        let room = width.saturating_sub(used).max(width / 2);
        let role = if severity > Severity::Note { StyleRole::Plain } else { StyleRole::Dim };
        line.append(SafeLine::new(safe!("{}", summary.headline(room)), role).truncated(room));
    }
    for remark in remarks {
        let open = if line.is_empty() { "" } else { " " };
        line.push(safe!("{open}({remark})"), StyleRole::Dim);
    }
    line.truncated(width)
}
