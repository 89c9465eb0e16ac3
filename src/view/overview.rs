//! The overview screen: the whole host on one page. A large terminal has panes, a small one lines:
//!
//! ```text
//! CPU    one bar: used, steal, idle but blocked, free
//! LOAD   load averages, and the tasks that count in them now
//! MEM    available memory, swap, pressure, major faults
//! CORES  one cell per CPU, the busiest one, and over time
//! DISK   latency against baseline, and over time
//! NET    traffic, utilization, and over time
//! TASKS  process groups, blocked and running ones first
//! ```
//!
//! With fewer lines there are fewer tasks first, then no graph of the interface and none of the disk, then fewer rows in the tables.

mod cores_line;
mod disk_pane;
mod graph_lines;
mod memory_line;
mod network_pane;
mod system_pane;
mod tables;
mod waits_pane;

use super::ScreenView;
use super::cpu_segments::{CpuTimeParts, cpu_segments};
use super::pane::Pane;
use super::safe_line::SafeLine;
use super::safe_text::SafeText;
use super::tasks::cgroups;
use super::text::format_number;
use super::theme::StyleRole;
use super::time_cells::TimeCells;
use super::widgets::bar::StackedBar;
use super::{cpu, pressure, thread_states};
use crate::findings::Evaluation;
use crate::interval::thread_states::threads_in_lock_waits;
use crate::safe;
use crate::state::State;
use crate::state::history::{CpuTime, GraphFigure};
use crate::state::layout::ScreenLayout;
use crate::state::rows::{busiest_disks, busiest_nics};
use crate::units::format;
use cores_line::cores_line;
use graph_lines::{disk_line, nic_line};
use memory_line::memory_line;
use tables::{disk_table, nic_table, task_table};

pub const SCREEN: ScreenView = ScreenView {
    draw,
    panes: &[
        cpu::time_pane::draw,
        waits_pane::draw,
        cpu::cores_pane::draw,
        system_pane::draw,
        disk_pane::draw,
        network_pane::draw,
        |state, evaluation, _, pane| {
            let note = SafeLine::new("blocked and running first; key 5: all", StyleRole::Dim);
            let mut inner = pane.framed(("Tasks: where their time goes", StyleRole::Bold), note);
            task_table(state, &evaluation.interval, &mut inner);
        },
        cpu::panes::hot_threads,
        |state, evaluation, _, pane| thread_states::draw(state, evaluation, pane),
        pressure::graphs_pane,
        cgroups::pane,
        pressure::memory::graph_pane,
    ],
};

fn draw(state: &State, evaluation: &Evaluation, _: &ScreenLayout, pane: &mut Pane) {
    let interval = &*evaluation.interval;
    let (width, height) = (pane.width(), pane.height());
    let mut y = cpu_lines(evaluation, pane, 0);
    pane.line(y, line_of_parts("LOAD ", load_parts(evaluation), width));
    y += 1;
    if height >= 11 {
        pane.line(y, memory_line(evaluation, width));
        y += 1;
    }
    if height > y {
        pane.line(y, cores_line(state, evaluation, width));
        y += 1;
    }
    let left = height.saturating_sub(y);
    let disks = busiest_disks(state, interval);
    let nics = busiest_nics(interval);
    let count = |length: usize| u16::try_from(length).unwrap_or(u16::MAX);
    let (mut disk_rows, mut nic_rows) = (0, 0);
    if left >= 8 {
        disk_rows = count(disks.len()).clamp(1, (left / 5).max(1));
        nic_rows = count(nics.len()).clamp(1, (left / 6).max(1));
    } else if left >= 6 {
        disk_rows = 1;
    }
    let lines = |rows: u16| if rows > 0 { 1 + rows } else { 0 };
    let spare = left.saturating_sub(lines(disk_rows) + lines(nic_rows) + MIN_TASK_LINES);
    let disk_graph = if disk_rows > 0 && spare > 0 { disk_line(state, evaluation, &disks, width) } else { None };
    let has_room = spare > u16::from(disk_graph.is_some());
    let nic_graph = if nic_rows > 0 && has_room { nic_line(state, evaluation, &nics, width) } else { None };
    if disk_rows > 0 {
        y = disk_table(state, evaluation, &disks, pane, y, disk_rows);
        y = line_below(pane, y, disk_graph);
    }
    if nic_rows > 0 {
        y = nic_table(state, evaluation, &nics, pane, y, nic_rows);
        y = line_below(pane, y, nic_graph);
    }
    task_table(state, interval, &mut pane.subarea(0, y, width, height.saturating_sub(y)));
}

/// Lines that the tasks keep beside graphs: their headings, and those that matter most.
const MIN_TASK_LINES: u16 = 4;

/// Draws a line, if there is one; returns the line after.
fn line_below(pane: &mut Pane, y: u16, line: Option<SafeLine>) -> u16 {
    let Some(line) = line else { return y };
    pane.line(y, line);
    y + 1
}

/// The stacked bar, its legend, and the line below it; returns the line after.
fn cpu_lines(evaluation: &Evaluation, pane: &mut Pane, y: u16) -> u16 {
    let interval = &*evaluation.interval;
    let mut line = SafeLine::new("CPU  ", StyleRole::Heading);
    if interval.cpu.is_none() {
        pane.line(y, line.with("- /proc/stat cannot be read", StyleRole::Dim));
        return y + 1;
    }
    let width = pane.width();
    let legend = if width >= ROOMY_WIDTH { LEGEND_WIDTH } else { 0 };
    line.push_glyphs(StackedBar(&cpu_segments(interval)).glyphs(width.saturating_sub(6 + legend)));
    if legend > 0 {
        line.pad_to(usize::from(width - legend));
        line.append(cpu_legend(evaluation));
    }
    pane.line(y, line);
    pane.line(y + 1, cpu_summary(evaluation, width));
    y + 2
}

/// CPU time over time, drawn dim into the rule above the body, so that it does not fuse with the bar below: busy, and idle but
/// blocked, the maximum of each column.
pub fn draw_cpu_history(state: &State, pane: &mut Pane) {
    if pane.width() < ROOMY_WIDTH || state.setup.terminal.is_slow || state.current().is_none() {
        return;
    }
    const LABELS: u16 = 28;
    let graph = pane.width().saturating_sub(LABELS) / 2;
    let mut x = 2;
    for (label, time, role) in
        [(" busy ", CpuTime::Busy, StyleRole::User), (" blocked-idle ", CpuTime::Blocked, StyleRole::Blocked)]
    {
        let mut line = SafeLine::new(label, StyleRole::Dim);
        line.push_glyphs(TimeCells::new(state, &GraphFigure::CpuTime(time), graph).glyphs(|share| (share, role)));
        line.push(" ", StyleRole::Plain);
        let cells = u16::try_from(line.width()).unwrap_or(u16::MAX);
        pane.subarea(x, 0, cells, 1).line(0, line);
        x += cells + 2;
    }
}

/// Cells from which the bar has a legend, and those of the legend.
const ROOMY_WIDTH: u16 = 78;
const LEGEND_WIDTH: u16 = 40;

fn cpu_legend(evaluation: &Evaluation) -> SafeLine {
    let interval = &*evaluation.interval;
    let mut line = SafeLine::default();
    let Some(span) = &interval.cpu else { return line };
    let parts = CpuTimeParts::new(interval, span);
    let shares = [
        ('█', StyleRole::User, "usr", parts.user),
        ('▓', StyleRole::System, "sys", parts.system),
        ('▒', StyleRole::Irq, "irq", parts.irq),
        ('╳', StyleRole::Steal, "stl", parts.steal),
    ];
    for (glyph, role, word, share) in shares {
        let is_stolen = role == StyleRole::Steal && share >= evaluation.thresholds().stolen_ratio;
        line.push_glyphs([(glyph, role)]);
        line.push(word, StyleRole::Dim);
        let figure = safe!("{:>5} ", format_number(share * 100.0, 4));
        line.push(figure, if is_stolen { StyleRole::Warning } else { StyleRole::Plain });
    }
    line
}

/// busy, blocked-idle and free CPU time.
fn cpu_summary(evaluation: &Evaluation, width: u16) -> SafeLine {
    let interval = &*evaluation.interval;
    let narrow = width < ROOMY_WIDTH;
    let gap = if narrow { " " } else { "  " };
    let share = |value: f64| format_number(value * 100.0, 4);
    let mut line = SafeLine::new(if narrow { "busy " } else { "     busy " }, StyleRole::Dim);
    let Some(span) = &interval.cpu else { return line.with("-", StyleRole::Dim) };
    let parts = CpuTimeParts::new(interval, span);
    let busy = parts.busy();
    line.push(safe!("{:>5}", format!("{}%", share(busy))), StyleRole::Bold);
    let cpus = safe!(" = {:>4} CPUs", format_number(busy * interval.online_cpus().max(1) as f64, 4));
    let mut rest = SafeLine::new(gap, StyleRole::Plain);
    match &interval.idle_blocked {
        None => rest.push("blocked-idle -   free - (no sub-samples yet)", StyleRole::Dim),
        Some(blocked) => {
            let (least, most) = if blocked.lower_bound { ("≥", "≤") } else { ("", "") };
            let role =
                if blocked.ratio >= evaluation.thresholds().blocked_ratio { StyleRole::Critical } else { StyleRole::Bold };
            rest.push_glyphs([('╱', StyleRole::Blocked)]);
            rest.push(if narrow { "blocked " } else { "blocked-idle " }, StyleRole::Dim);
            let figure = format!("{least}{}%", share(parts.blocked));
            rest.push(SafeText::blanks(6_usize.saturating_sub(figure.chars().count())), StyleRole::Plain);
            rest.push(SafeText::sanitize(figure), role);
            rest.push(gap, StyleRole::Plain);
            rest.push_glyphs([('·', StyleRole::Free)]);
            rest.push("free ", StyleRole::Dim);
            rest.push(safe!("{:>6}", format!("{most}{}%", share(parts.free))), StyleRole::Bold);
            if let Some(other) = parts.named_other().filter(|_| !narrow) {
                rest.push(safe!("  other {}%", share(other)), StyleRole::Dim);
            }
            if let Some(iowait) = blocked.cross_checks.iowait.filter(|_| !narrow) {
                rest.push(safe!("  (iowait {}%)", share(iowait)), StyleRole::Dim);
            }
        }
    }
    if !narrow && line.width() + cpus.width() + rest.width() <= usize::from(width) {
        line.push(cpus, StyleRole::Dim);
    }
    line.append(rest);
    line
}

/// Cells between two parts of a line.
const GAP: usize = 3;

/// A line of parts with its heading; what does not fit is left out from the end.
fn line_of_parts(heading: &'static str, parts: Vec<SafeLine>, width: u16) -> SafeLine {
    let mut line = SafeLine::new(heading, StyleRole::Heading);
    for (at, part) in parts.into_iter().enumerate() {
        if at > 0 && line.width() + GAP + part.width() > usize::from(width) {
            break;
        }
        if at > 0 {
            line.push(SafeText::blanks(GAP), StyleRole::Plain);
        }
        line.append(part);
    }
    line
}

/// The load averages, and the tasks that count in them now.
pub fn load_parts(evaluation: &Evaluation) -> Vec<SafeLine> {
    let interval = &*evaluation.interval;
    let Ok(load) = &interval.newer.load else { return vec![SafeLine::new("-", StyleRole::Dim)] };
    let n = interval.online_cpus().max(1) as f64;
    let role = if load.one >= evaluation.thresholds().load_per_cpu * n { StyleRole::Bold } else { StyleRole::Plain };
    let averages = safe!(" {:>4} {:>4}", format_number(load.five, 4), format_number(load.fifteen, 4));
    let mut parts = vec![SafeLine::new(safe!("{:>4}", format_number(load.one, 4)), role).with(averages, StyleRole::Plain)];
    let Some(tasks) = &interval.tasks else { return parts };
    let counts = &tasks.counts;
    let least = if tasks.hidden_threads.is_some() { "≥" } else { "" };
    let mut words = format!("now {least}{} run", counts.running);
    let kinds = [
        (counts.blocked_disk, "disk"),
        (counts.blocked_vfork, "vfork (harmless)"),
        (counts.blocked_memory, "memory"),
        (counts.blocked_frozen, "frozen"),
        (counts.blocked_lock, "kernel lock"),
        (counts.blocked_other.saturating_sub(counts.blocked_lock), "other D"),
    ];
    for (count, word) in kinds.into_iter().filter(|kind| kind.0 > 0) {
        words += &format!(" + {count} {word}");
    }
    parts.push(SafeLine::new(SafeText::sanitize(words), StyleRole::Plain));
    // Those in D wait for a lock inside the kernel, and count in the load.
    let in_kernel_locks = interval.idle_blocked.iter().flat_map(|idle| &idle.kernel_locks).map(|locks| locks.threads);
    let uninterruptible = in_kernel_locks.fold(f64::from(counts.blocked_lock), f64::max);
    let waiting = (threads_in_lock_waits(interval, tasks) - uninterruptible).round();
    if waiting > 0.0 {
        parts.push(SafeLine::new(
            safe!("{} for a lock (not in load)", format::plural(waiting, "waits", "wait")),
            StyleRole::Plain,
        ));
    }
    parts
}
