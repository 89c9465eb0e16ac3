//! The tables of the overview: disks, interfaces and process groups, as many rows as fit.

use crate::figures::{Column, disk, load, task};
use crate::findings::{Evaluation, limiting_operation};
use crate::interval::Interval;
use crate::interval::disk::{DiskSpan, Operation};
use crate::interval::network::NicSpan;
use crate::interval::process_groups::{ProcessGroup, process_groups};
use crate::safe;
use crate::sample::task::Tasks;
use crate::state::{Item, State};
use crate::units::{SmallSort, format};
use crate::view::active_findings::hidden_tasks_note;
use crate::view::columns::{CellContent, ColumnSpec, Columns, TableRow};
use crate::view::disk::{latency_status, styled_baseline_multiple};
use crate::view::network::NicLine;
use crate::view::pane::Pane;
use crate::view::process_titles::group_titles;
use crate::view::safe_text::SafeText;
use crate::view::tasks::{beside_command_line, command_line};
use crate::view::text::{format_figure, format_number};
use crate::view::theme::{StyleRole, blocked_role, used_role};
use crate::view::wait_location;

/// A row of the table of disks.
struct DiskLine<'a> {
    evaluation: &'a Evaluation,
    disk: &'a DiskSpan,
}

type DiskSpec = ColumnSpec<fn(&DiskLine, CellContent)>;

/// The columns; while flushes limit the threads that the headline names, their await stands before what has less to do with it.
fn disk_columns(flushes_limit: bool, some_stalled: bool) -> [DiskSpec; 13] {
    /// Cells of all columns but the last.
    const ALL: u16 = 87;
    let min = |usual, beside_flushes| if flushes_limit { beside_flushes } else { usual };
    let flush_await = DiskSpec::figure(&disk::FLUSH_AWAIT_SECONDS, 7, |line, cell| line.flush(cell, 7));
    let flush_await_from = match (flushes_limit, some_stalled) {
        (true, _) => 0,
        (false, true) => u16::MAX,
        (false, false) => ALL,
    };
    [
        DiskSpec::text("DISK", 8, |line, cell| {
            cell.text(wait_location::disk_name(&line.evaluation.interval.newer, line.disk.id), StyleRole::Plain);
        }),
        DiskSpec::figure(&disk::READS_PER_SECOND, 6, |line, cell| line.read(cell, &disk::READS_PER_SECOND, 6))
            .min_table_width(min(60, 72)),
        DiskSpec::figure(&disk::READ_BYTES_PER_SECOND, 6, |line, cell| line.read(cell, &disk::READ_BYTES_PER_SECOND, 6))
            .min_table_width(min(72, ALL)),
        DiskSpec::figure(&disk::READ_AWAIT_SECONDS, 7, |line, cell| line.read(cell, &disk::READ_AWAIT_SECONDS, 7))
            .min_table_width(min(0, 46)),
        DiskSpec::figure(&disk::READ_MULTIPLE, 6, |line, cell| line.multiple(cell, Operation::Read))
            .min_table_width(min(60, 72)),
        DiskSpec::figure(&disk::WRITES_PER_SECOND, 6, |line, cell| line.write(cell, &disk::WRITES_PER_SECOND, 6))
            .min_table_width(60),
        DiskSpec::figure(&disk::WRITE_BYTES_PER_SECOND, 6, |line, cell| line.write(cell, &disk::WRITE_BYTES_PER_SECOND, 6))
            .min_table_width(min(72, ALL)),
        DiskSpec::figure(&disk::WRITE_AWAIT_SECONDS, 7, |line, cell| line.write(cell, &disk::WRITE_AWAIT_SECONDS, 7)),
        DiskSpec::figure(&disk::WRITE_MULTIPLE, 6, |line, cell| line.multiple(cell, Operation::Write)),
        flush_await.min_table_width(flush_await_from),
        DiskSpec::figure(&disk::QUEUE, 5, |line, cell| cell.text(line.figure(&disk::QUEUE, 5), StyleRole::Plain)),
        DiskSpec::figure(&disk::BUSY_RATIO, 5, |line, cell| cell.text(line.figure(&disk::BUSY_RATIO, 5), StyleRole::Dim))
            .min_table_width(min(66, 72)),
        STALLED,
    ]
}

const STALLED: DiskSpec = DiskSpec::text("", 0, |line, cell| {
    if line.disk.stalled {
        cell.text(safe!(" ✖ {} in flight, none completed", line.disk.in_flight), StyleRole::Critical);
    }
})
.min_table_width(90);

impl DiskLine<'_> {
    fn figure(&self, figure: &Column<DiskSpan>, cells: usize) -> SafeText {
        format_figure(figure, &self.evaluation.into(), self.disk, cells)
    }

    /// A value of reads; dim for zero.
    fn read(&self, cell: CellContent, figure: &Column<DiskSpan>, cells: usize) {
        let role = if self.disk.reads.completed == 0 { StyleRole::Dim } else { StyleRole::Plain };
        cell.text(self.figure(figure, cells), role);
    }

    /// A value of writes; dim for zero.
    fn write(&self, cell: CellContent, figure: &Column<DiskSpan>, cells: usize) {
        let role = if self.disk.writes.completed == 0 { StyleRole::Dim } else { StyleRole::Plain };
        cell.text(self.figure(figure, cells), role);
    }

    /// The await of flushes; dim for none.
    fn flush(&self, cell: CellContent, cells: usize) {
        let some = self.disk.flushes.is_some_and(|flushes| flushes.completed > 0);
        let role = if some { StyleRole::Plain } else { StyleRole::Dim };
        cell.text(self.figure(&disk::FLUSH_AWAIT_SECONDS, cells), role);
    }

    fn multiple(&self, cell: CellContent, operation: Operation) {
        let (words, role) = styled_baseline_multiple(self.evaluation, latency_status(self.evaluation, self.disk.id, operation));
        cell.text(&words, role);
    }
}

pub fn disk_table(state: &State, evaluation: &Evaluation, disks: &[&DiskSpan], pane: &mut Pane, y: u16, rows: u16) -> u16 {
    let interval = &*evaluation.interval;
    let flushes_limit = limiting_operation(evaluation).is_some_and(|(_, operation)| operation == Operation::Flush);
    let some_stalled = disks.iter().any(|disk| disk.stalled);
    let table = Columns::new(&disk_columns(flushes_limit, some_stalled), pane.width());
    if disks.is_empty() {
        let why = if interval.newer.disks.is_err() { "- /proc/diskstats cannot be read" } else { "nothing read or written" };
        pane.line(y + 1, (why, StyleRole::Dim));
    }
    let shown = disks.get(..disks.len().min(usize::from(rows))).unwrap_or_default();
    let mut shown = shown.to_vec();
    shown.small_sort_by_key(|disk| disk.index);
    let lines = shown.into_iter().map(|disk| DiskLine { evaluation, disk });
    let lines = lines.map(|line| selectable(state, table.row(|fill, cell| fill(&line, cell)), Item::Disk(line.disk.id)));
    table.draw(&mut pane.subarea(0, y, u16::MAX, rows + 1), None, lines);
    y + 1 + rows
}

/// A row that can be selected and opened.
fn selectable(state: &State, row: TableRow, item: Item) -> TableRow {
    row.selected(state.is_selected(&item)).with_item(Some(item))
}

pub fn nic_table(state: &State, evaluation: &Evaluation, nics: &[&NicSpan], pane: &mut Pane, y: u16, rows: u16) -> u16 {
    let interval = &*evaluation.interval;
    let table = crate::view::network::table(state, pane.width());
    if nics.is_empty() {
        pane.line(
            y + 1,
            (
                if interval.newer.nics.is_err() { "- /proc/net/dev cannot be read" } else { "no interface in use" },
                StyleRole::Dim,
            ),
        );
    }
    let mut shown = nics.get(..nics.len().min(usize::from(rows))).unwrap_or_default().to_vec();
    shown.small_sort_by_key(|nic| nic.index);
    let lines = shown.into_iter().map(|nic| NicLine { state, evaluation, nic });
    let lines = lines.map(|line| selectable(state, table.row(|fill, cell| fill(&line, cell)), Item::Nic(line.nic.id.clone())));
    table.draw(&mut pane.subarea(0, y, u16::MAX, rows + 1), None, lines);
    y + 1 + rows
}

/// A row of the table of tasks.
struct TaskLine<'a> {
    interval: &'a Interval,
    group: &'a ProcessGroup<'a>,
}

type TaskSpec = ColumnSpec<fn(&TaskLine, CellContent)>;

impl TaskLine<'_> {
    /// The titles of its processes, if it has several: at most this number of different ones.
    fn titles(&self, most: usize) -> SafeText {
        let tasks = self.interval.newer.tasks.as_ref().ok().filter(|_| self.group.processes > 1);
        let titles = |tasks: &Tasks| group_titles(tasks, &self.group.id, most);
        tasks.map(titles).unwrap_or_default()
    }

    /// The user of its most active process.
    fn user(&self) -> SafeText {
        let Ok(tasks) = &self.interval.newer.tasks else { return SafeText::default() };
        let Some(process) = tasks.process(self.group.pid) else { return SafeText::default() };
        tasks.users.get(&process.uid).map_or_else(|| safe!("{}", process.uid), SafeText::from_name)
    }

    /// Resident memory of its processes; what they share counts in each.
    fn memory(&self) -> SafeText {
        let Ok(tasks) = &self.interval.newer.tasks else { return "-".into() };
        let members = tasks.members(&self.group.id);
        resident_memory(members.map(|process| (process.resident_pages, process.kernel_thread)), self.interval.host.page_size)
    }

    /// Threads on storage and behind a lock: those of the finding, if it is in one.
    fn blocked_threads(&self) -> (f64, f64) {
        match self.group.blocked.filter(|blocked| blocked.behind_lock() > 0.0) {
            Some(blocked) => (blocked.storage + blocked.aio + blocked.hidden, blocked.behind_lock()),
            None => (self.group.disk, self.group.lock),
        }
    }

    fn place(&self, cells: usize) -> SafeText {
        let cells = u16::try_from(cells).unwrap_or(u16::MAX);
        wait_location::fitting(cells, |detail| wait_location::process_group_location(self.interval, self.group, detail))
    }
}

/// Resident memory of processes, of each the pages and whether it is a thread of the kernel: blank of those, which have none, and `-`
/// where no process is left to ask.
fn resident_memory(processes: impl Iterator<Item = (u64, bool)>, page_size: u64) -> SafeText {
    let (pages, of_kernel) =
        processes.fold((0_u64, false), |(sum, any), (pages, of_kernel)| (sum.saturating_add(pages), any || of_kernel));
    match pages {
        0 if of_kernel => SafeText::default(),
        0 => "-".into(),
        pages => safe!("{}", format::short_bytes(pages.saturating_mul(page_size) as f64)),
    }
}

/// Different titles in the column of command lines.
const MAX_TITLES: usize = 5;

const WHERE: TaskSpec = TaskSpec::text("where", 0, |line, cell| {
    let place = line.place(usize::from(cell.width));
    cell.text(beside_command_line(place), StyleRole::Plain);
});

/// For tables without command lines.
const WHERE_WITH_TITLE: TaskSpec = TaskSpec::text("where", 0, |line, cell| {
    let (title, width) = (line.titles(1), usize::from(cell.width));
    let words = match title.is_empty() {
        true => line.place(width),
        false => safe!("{title}: {}", line.place(width.saturating_sub(title.width() + 2))),
    };
    cell.text(words, StyleRole::Plain);
});

const COMMAND_LINE: TaskSpec = TaskSpec::text("command line", 0, |line, cell| {
    let titles = line.titles(MAX_TITLES);
    if !titles.is_empty() {
        return cell.text(titles, StyleRole::Plain);
    }
    let tasks = line.interval.newer.tasks.as_ref().ok();
    if let Some(process) = tasks.and_then(|tasks| tasks.process(line.group.pid)) {
        cell.text(command_line(process), StyleRole::Dim);
    }
});

/// Cells of what a group waits for at most, beside command lines.
const MAX_WHERE_WIDTH: u16 = 80;

/// Cells of the table from which it has command lines.
const COMMAND_LINE_WIDTH: u16 = 150;

/// Cells of the table from which it has the user and the memory, beside command lines.
const USER_WIDTH: u16 = 190;

const TASK_COLUMNS: [TaskSpec; 11] = [
    TaskSpec::text("TASKS", 14, |line, cell| {
        let tasks = line.interval.newer.tasks.as_ref().ok();
        let of_kernel = tasks.and_then(|tasks| tasks.process(line.group.pid)).is_some_and(|process| process.kernel_thread);
        cell.text(SafeText::from_name(line.group.name), if of_kernel { StyleRole::Dim } else { StyleRole::Plain });
    }),
    TaskSpec::figure(&task::PID, 7, |line, cell| {
        let group = line.group;
        let pid = if group.processes > 1 { safe!("×{}", group.processes) } else { safe!("{}", group.pid) };
        cell.text(&pid, StyleRole::Dim);
    })
    .min_table_width(66),
    TaskSpec::figure(&task::USER, 8, |line, cell| cell.text(line.user(), StyleRole::Dim)).min_table_width(USER_WIDTH),
    TaskSpec::figure(&load::PROCESSES, 5, |line, cell| cell.text(safe!("{}", line.group.processes), StyleRole::Dim))
        .min_table_width(100),
    TaskSpec::figure(&task::THREADS, 4, |line, cell| cell.text(safe!("{}", line.group.threads), StyleRole::Dim))
        .min_table_width(72),
    TaskSpec::figure(&task::CPU_RATIO, 5, |line, cell| {
        cell.text(safe!("{}", format_number(line.group.cpu * 100.0, 5)), used_role(line.group.cpu));
    }),
    TaskSpec::figure(&task::RUN_QUEUE_WAIT_RATIO, 5, |line, cell| {
        cell.text(safe!("{}", format_number(line.group.run_queue, 5)), used_role(line.group.run_queue));
    }),
    TaskSpec::figure(&task::DISK_RATIO, 5, |line, cell| {
        let (disk, _) = line.blocked_threads();
        cell.text(safe!("{}", format_number(disk, 5)), blocked_role(disk));
    }),
    TaskSpec::figure(&task::LOCK_RATIO, 5, |line, cell| {
        let (_, lock) = line.blocked_threads();
        cell.text(wait_location::lock_waits_text(Some(lock), line.group.waits_hidden, 5), blocked_role(lock));
    })
    .min_table_width(50),
    TaskSpec::figure(&task::RESIDENT_BYTES, 6, |line, cell| cell.text(line.memory(), StyleRole::Plain))
        .min_table_width(USER_WIDTH),
    WHERE_WITH_TITLE,
];

pub fn task_table(state: &State, interval: &Interval, pane: &mut Pane) {
    if pane.height() < 2 {
        return;
    }
    let mut specs = TASK_COLUMNS.to_vec();
    if pane.width() >= COMMAND_LINE_WIDTH {
        specs.pop();
        specs.extend([WHERE.width((pane.width() / 3).min(MAX_WHERE_WIDTH)), COMMAND_LINE]);
    }
    let table = Columns::new(&specs, pane.width());
    let mut groups = process_groups(interval);
    state.lists.held.groups.reorder(&mut groups);
    let lines = groups.iter().map(|group| {
        let row = table.row(|fill, cell| fill(&TaskLine { interval, group }, cell));
        match state.item_of_group(interval, group) {
            Some(item) => selectable(state, row, item),
            None => row,
        }
    });
    table.draw(pane, None, lines);
    if interval.newer.tasks.is_err() {
        pane.line(1, ("- /proc cannot be read", StyleRole::Dim));
    }
    if hidden_tasks_note(state).is_some()
        && let Some((x, width)) = table.last_column_area()
    {
        // Beside the heading, as far as it fits.
        let words =
            ["other users' waits hidden", "others' hidden"].into_iter().find(|words| words.len() + 6 <= usize::from(width));
        pane.subarea(x, 0, width, 1).line_right(0, (words.unwrap_or_default(), StyleRole::Dim));
    }
    if groups.is_empty() && interval.newer.tasks.is_ok() {
        pane.line(1, ("all asleep", StyleRole::Dim));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_memory_is_a_dash_and_that_of_the_kernel_is_blank() {
        let memory = |processes: &[(u64, bool)]| resident_memory(processes.iter().copied(), 4096).as_str().to_owned();
        assert_eq!(memory(&[]), "-", "it ended");
        assert_eq!(memory(&[(0, false)]), "-", "it is a zombie");
        assert_eq!(memory(&[(0, true)]), "");
        assert_eq!(memory(&[(256, false), (256, false)]), "2.00M");
    }
}
