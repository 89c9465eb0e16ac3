//! The overview screen: the whole host on one page. A large terminal has panes (`panes`), a small one lines:
//!
//! ```text
//! CPU    one bar: used, steal, idle but blocked, free
//! LOAD   load averages, and the tasks that count in them now
//! MEM    available memory, swap, major faults, pressure
//! CORES  one cell per CPU
//! DISK   latency against baseline
//! NET    traffic, utilization
//! TASKS  process groups, blocked and running ones first
//! ```

mod cores_pane;
mod cpu_pane;
mod disk_pane;
mod network_pane;
mod panes;
mod system_pane;
mod tables;
mod waits_pane;

use super::ScreenView;
use super::pane::Pane;
use super::safe_line::SafeLine;
use super::safe_text::SafeText;
use super::text::{format_number, format_optional};
use super::theme::StyleRole;
use super::widgets::bar::Segment;
use super::{cpu, wait_location};
use crate::findings::Evaluation;
use crate::interval::Interval;
use crate::safe;
use crate::state::State;
use crate::state::layout::ScreenLayout;
use crate::units::format;
use tables::{busiest_disks, busiest_nics, disk_table, nic_table, task_table};

pub const SCREEN: ScreenView = ScreenView { draw, sort_column_at: |_, _, _| None };

fn draw(state: &State, evaluation: &Evaluation, layout: &ScreenLayout, pane: &mut Pane) {
    if layout.has_panes {
        panes::draw(state, evaluation, pane);
        return;
    }
    let interval = &*evaluation.interval;
    let (width, height) = (pane.width(), pane.height());
    let mut y = cpu_lines(evaluation, pane, 0);
    pane.line(y, line_of_parts("LOAD ", load_parts(evaluation), width));
    y += 1;
    if height >= 11 {
        pane.line(y, line_of_parts("MEM  ", memory_parts(evaluation), width));
        y += 1;
    }
    if height > y {
        y = cores_line(evaluation, pane, y);
    }
    let left = height.saturating_sub(y);
    let disks = busiest_disks(state, interval);
    let nics = busiest_nics(interval);
    let count = |length: usize| u16::try_from(length).unwrap_or(u16::MAX);
    let (mut disk_rows, mut nic_rows) = (0, 0);
    if left >= 9 {
        disk_rows = count(disks.len()).clamp(1, (left / 5).max(1));
        nic_rows = count(nics.len()).clamp(1, (left / 6).max(1));
    } else if left >= 6 {
        disk_rows = 1;
    }
    if disk_rows > 0 {
        y = disk_table(evaluation, &disks, pane, y, disk_rows);
    }
    if nic_rows > 0 {
        y = nic_table(state, evaluation, &nics, pane, y, nic_rows);
    }
    task_table(state, interval, &mut pane.subarea(0, y, width, height.saturating_sub(y)));
}

/// The stacked bar, its legend, and the line below it.
fn cpu_lines(evaluation: &Evaluation, pane: &mut Pane, y: u16) -> u16 {
    let interval = &*evaluation.interval;
    let Some(span) = &interval.cpu else {
        pane.text(0, y, 5, "CPU", StyleRole::Heading);
        pane.text_to_end(5, y, "- /proc/stat cannot be read", StyleRole::Dim);
        return y + 1;
    };
    pane.text(0, y, 5, "CPU", StyleRole::Heading);
    let width = pane.width();
    let legend = if width >= 78 { 40 } else { 0 };
    let parts = cpu_segments(interval);
    pane.subarea(5, y, width.saturating_sub(6 + legend), 1).stacked_bar(&parts);
    let total = &span.total;
    let shares = [
        ('█', StyleRole::User, "usr", total.user + total.nice),
        ('▓', StyleRole::System, "sys", total.system),
        ('▒', StyleRole::Irq, "irq", total.irq + total.softirq),
        ('╳', StyleRole::Steal, "stl", total.steal),
    ];
    if legend > 0 {
        let mut x = width - legend;
        for (glyph, role, word, share) in shares {
            pane.glyph(x, y, glyph, role);
            pane.text(x + 1, y, 3, word, StyleRole::Dim);
            let is_stolen = role == StyleRole::Steal && share >= evaluation.thresholds().stolen_ratio;
            pane.text_right(
                x + 4,
                y,
                5,
                safe!("{}", format_number(share * 100.0, 4)),
                if is_stolen { StyleRole::Warning } else { StyleRole::Plain },
            );
            x += 10;
        }
    }
    cpu_summary_line(evaluation, pane, y + 1);
    y + 2
}

/// busy, blocked-idle and free CPU time.
fn cpu_summary_line(evaluation: &Evaluation, pane: &mut Pane, y: u16) {
    let interval = &*evaluation.interval;
    let Some(span) = &interval.cpu else { return };
    let narrow = pane.width() < 78;
    let left = if narrow { 0 } else { 5 };
    let share = |value: f64| format_number(value * 100.0, 4);
    let busy = span.busy();
    let mut x = pane.text(left, y, 5, "busy ", StyleRole::Dim);
    pane.text_right(x, y, 5, safe!("{}%", share(busy)), StyleRole::Bold);
    x += 5;
    if !narrow {
        let n = interval.online_cpus().max(1) as f64;
        x = pane.text(x, y, 13, safe!(" = {:>4} CPUs", format_number(busy * n, 4)), StyleRole::Dim);
    }
    x += if narrow { 1 } else { 2 };
    let Some(blocked) = &interval.idle_blocked else {
        pane.text_to_end(x, y, "blocked-idle -   free - (no sub-samples yet)", StyleRole::Dim);
        return;
    };
    pane.glyph(x, y, '╱', StyleRole::Blocked);
    x = pane.text(x + 1, y, 13, if narrow { "blocked " } else { "blocked-idle " }, StyleRole::Dim);
    let bound = if blocked.lower_bound { "≥" } else { "" };
    let role = if blocked.ratio >= evaluation.thresholds().blocked_ratio { StyleRole::Critical } else { StyleRole::Bold };
    pane.text_right(x, y, 6, safe!("{bound}{}%", share(blocked.ratio)), role);
    x += 6 + if narrow { 1 } else { 2 };
    pane.glyph(x, y, '·', StyleRole::Free);
    x = pane.text(x + 1, y, 5, "free ", StyleRole::Dim);
    let bound = if blocked.lower_bound { "≤" } else { "" };
    pane.text_right(x, y, 6, safe!("{bound}{}%", share(blocked.free)), StyleRole::Bold);
    x += 6 + 2;
    if let Some(iowait) = blocked.cross_checks.iowait.filter(|_| !narrow) {
        pane.text_to_end(x, y, safe!("(iowait {}%)", share(iowait)), StyleRole::Dim);
    }
}

/// The segments of the bar: used, steal, hidden, idle but blocked, free.
pub fn cpu_segments(interval: &Interval) -> Vec<Segment<StyleRole>> {
    let Some(span) = &interval.cpu else { return Vec::new() };
    let total = &span.total;
    let part = |share: f64, glyph, style| Segment { share, glyph, style };
    let available = span.available();
    let hidden = span.hidden_cpus / span.cpus.len().max(1) as f64;
    let blocked = interval.idle_blocked.as_ref().map_or(0.0, |blocked| blocked.ratio.min(available));
    vec![
        part(total.user + total.nice, '█', StyleRole::User),
        part(total.system, '▓', StyleRole::System),
        part(total.irq + total.softirq, '▒', StyleRole::Irq),
        part(total.steal, '╳', StyleRole::Steal),
        part(hidden, '?', StyleRole::Warning),
        part(blocked, '╱', StyleRole::Blocked),
        part(available - blocked + (total.unaccounted - hidden).max(0.0), '·', StyleRole::Free),
    ]
}

/// A line of parts with its heading; what does not fit is left out from the end.
fn line_of_parts(heading: &'static str, parts: Vec<SafeLine>, width: u16) -> SafeLine {
    let mut line = SafeLine::new(heading, StyleRole::Heading);
    for (at, part) in parts.into_iter().enumerate() {
        if at > 0 && line.width() + 3 + part.width() > usize::from(width) {
            break;
        }
        if at > 0 {
            line.push("   ", StyleRole::Plain);
        }
        line.append(part);
    }
    line
}

/// The load averages, and the tasks that count in them now.
fn load_parts(evaluation: &Evaluation) -> Vec<SafeLine> {
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
    if counts.lock_wait > 0 {
        parts.push(SafeLine::new(safe!("{} wait for a lock (not in load)", counts.lock_wait), StyleRole::Plain));
    }
    parts
}

fn memory_parts(evaluation: &Evaluation) -> Vec<SafeLine> {
    let interval = &*evaluation.interval;
    let Some(memory) = &interval.memory else { return vec![SafeLine::new("-", StyleRole::Dim)] };
    let amount = |bytes: Option<crate::units::Bytes>| bytes.map_or("-".to_owned(), |bytes| format::short_bytes(bytes.0 as f64));
    let rate = |rate: Option<crate::units::PerSecond>| rate.map_or("-".to_owned(), |rate| format::short_bytes(rate.0));
    let available = SafeLine::new(safe!("{:>5}", amount(memory.available)), StyleRole::Plain)
        .with(safe!(" available of {}", amount(memory.total)), StyleRole::Dim);
    let used = memory.swap_total.zip(memory.swap_free).map(|(total, free)| total.0.saturating_sub(free.0));
    let moving = memory.swapped_in.map_or(0.0, |r| r.0) + memory.swapped_out.map_or(0.0, |r| r.0) > 0.0;
    let swap = if memory.swap_total.is_some_and(|total| total.0 > 0) {
        let used = used.map_or("-".to_owned(), |used| format::short_bytes(used as f64));
        let swap = safe!("swap {used}, in {}/s out {}/s", rate(memory.swapped_in), rate(memory.swapped_out));
        SafeLine::new(swap, if moving { StyleRole::Bold } else { StyleRole::Dim })
    } else {
        SafeLine::new("no swap", StyleRole::Dim)
    };
    let faults = format_optional(memory.major_faults.map(|rate| rate.0), 5);
    let mut parts = vec![available, swap, SafeLine::new(safe!("major faults {faults}/s"), StyleRole::Dim)];
    if let Some(stalled) = interval.pressure.memory_some {
        let role = if stalled.0 >= evaluation.thresholds().memory_pressure_ratio { StyleRole::Warning } else { StyleRole::Dim };
        parts.push(SafeLine::new(safe!("stalled {}%", format_number(stalled.percent(), 4)), role));
    }
    parts
}

/// One cell per CPU, and the busiest one with its top thread.
fn cores_line(evaluation: &Evaluation, pane: &mut Pane, y: u16) -> u16 {
    let interval = &*evaluation.interval;
    pane.text(0, y, 6, "CORES", StyleRole::Heading);
    let Some(span) = &interval.cpu else {
        pane.text_to_end(6, y, "-", StyleRole::Dim);
        return y + 1;
    };
    let most = usize::from(pane.width() / 3).max(8);
    let cells = span.cpus.len().min(most);
    cpu::cpu_map_row(pane, 6, y, &span.cpus, cells, evaluation.thresholds().core_busy_ratio);
    let hottest = span.cpus.iter().max_by(|a, b| a.busy().total_cmp(&b.busy()));
    let Some(hottest) = hottest.filter(|cpu| cpu.busy() >= 0.005) else { return y + 1 };
    let x = 6 + u16::try_from(cells).unwrap_or(0) + 2;
    let busy = hottest.busy();
    let role = if busy >= evaluation.thresholds().core_busy_ratio { StyleRole::Bold } else { StyleRole::Plain };
    let x = pane.text_to_end(x, y, safe!("hottest cpu{} {}%", hottest.id.0, format_number(busy * 100.0, 4)), role);
    if let Some((task, share)) = hottest.top_thread {
        let used = format_number(share.percent(), 4);
        let whole = safe!("  {} {used}%", wait_location::process_thread_and_tid(&interval.newer, task));
        let short = || safe!("  {} {used}%", wait_location::thread_name(&interval.newer, task));
        let fits = usize::from(x) + whole.width() <= usize::from(pane.width());
        pane.text_to_end(x, y, if fits { whole } else { short() }, StyleRole::Plain);
    }
    y + 1
}
