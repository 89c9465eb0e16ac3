//! The overview screen: the whole host on one page.
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

use super::canvas::Canvas;
use super::disk::{baseline_multiple, latency_history, latency_status};
use super::process_groups::process_groups;
use super::text::{self, SafeText, format_kilobytes, format_number, format_optional};
use super::theme::StyleRole;
use super::widgets::bar::{Segment, stacked_bar};
use super::widgets::table::{ColumnSpec, Table};
use super::{cpu, wait_location};
use crate::findings::Evaluation;
use crate::interval::Interval;
use crate::interval::disk::{DiskSpan, Operation};
use crate::interval::network::NicSpan;
use crate::safe;
use crate::state::State;
use crate::state::rows::is_idle;

pub fn draw(state: &State, evaluation: &Evaluation, canvas: &mut Canvas) {
    let interval = &*evaluation.interval;
    let (width, height) = (canvas.width(), canvas.height());
    let mut y = cpu_lines(interval, canvas, 0);
    y = load_line(interval, canvas, y);
    if height >= 11 {
        y = memory_line(interval, canvas, y);
    }
    if height > y {
        y = cores_line(interval, canvas, y);
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
        y = disk_table(state, evaluation, &disks, canvas, y, disk_rows);
    }
    if nic_rows > 0 {
        y = nic_table(state, interval, &nics, canvas, y, nic_rows);
    }
    task_table(state, interval, &mut canvas.subarea(0, y, width, height.saturating_sub(y)));
}

/// The stacked bar, its legend, and the line below it.
fn cpu_lines(interval: &Interval, canvas: &mut Canvas, y: u16) -> u16 {
    let Some(span) = &interval.cpu else {
        canvas.text(0, y, 5, "CPU", StyleRole::Heading);
        canvas.text_to_end(5, y, "- /proc/stat cannot be read", StyleRole::Dim);
        return y + 1;
    };
    canvas.text(0, y, 5, "CPU", StyleRole::Heading);
    let width = canvas.width();
    let legend = if width >= 78 { 40 } else { 0 };
    let parts = cpu_segments(interval);
    stacked_bar(canvas, 5, y, width.saturating_sub(6 + legend), &parts);
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
            canvas.glyph(x, y, glyph, role);
            canvas.text(x + 1, y, 3, word, StyleRole::Dim);
            canvas.text_right(x + 4, y, 5, safe!("{}", format_number(share * 100.0, 4)), steal_role(share, role));
            x += 10;
        }
    }
    cpu_summary_line(interval, canvas, y + 1);
    y + 2
}

fn steal_role(share: f64, role: StyleRole) -> StyleRole {
    if role == StyleRole::Steal && share >= 0.05 { StyleRole::Warning } else { StyleRole::Plain }
}

/// busy, blocked-idle and free CPU time.
fn cpu_summary_line(interval: &Interval, canvas: &mut Canvas, y: u16) {
    let Some(span) = &interval.cpu else { return };
    let narrow = canvas.width() < 78;
    let left = if narrow { 0 } else { 5 };
    let share = |value: f64| format_number(value * 100.0, 4);
    let busy = span.busy();
    let mut x = canvas.text(left, y, 5, "busy ", StyleRole::Dim);
    canvas.text_right(x, y, 5, safe!("{}%", share(busy)), StyleRole::Bold);
    x += 5;
    if !narrow {
        let n = interval.online_cpus().max(1) as f64;
        x = canvas.text(x, y, 13, safe!(" = {:>4} CPUs", format_number(busy * n, 4)), StyleRole::Dim);
    }
    x += if narrow { 1 } else { 2 };
    let Some(blocked) = &interval.idle_blocked else {
        canvas.text_to_end(x, y, "blocked-idle -   free - (no sub-samples yet)", StyleRole::Dim);
        return;
    };
    canvas.glyph(x, y, '▞', StyleRole::Blocked);
    x = canvas.text(x + 1, y, 13, if narrow { "blocked " } else { "blocked-idle " }, StyleRole::Dim);
    let bound = if blocked.lower_bound { "≥" } else { "" };
    let role = if blocked.ratio >= 0.25 { StyleRole::Critical } else { StyleRole::Bold };
    canvas.text_right(x, y, 6, safe!("{bound}{}%", share(blocked.ratio)), role);
    x += 6 + if narrow { 1 } else { 2 };
    canvas.glyph(x, y, '·', StyleRole::Free);
    x = canvas.text(x + 1, y, 5, "free ", StyleRole::Dim);
    let bound = if blocked.lower_bound { "≤" } else { "" };
    canvas.text_right(x, y, 6, safe!("{bound}{}%", share(blocked.free)), StyleRole::Bold);
    x += 6 + 2;
    if let Some(iowait) = blocked.cross_checks.iowait.filter(|_| !narrow) {
        canvas.text_to_end(x, y, safe!("(iowait {}%)", share(iowait)), StyleRole::Dim);
    }
}

/// The segments of the bar: used, steal, hidden, idle but blocked, free.
pub fn cpu_segments(interval: &Interval) -> Vec<Segment> {
    let Some(span) = &interval.cpu else { return Vec::new() };
    let total = &span.total;
    let part = |share: f64, glyph, role| Segment { share, glyph, role };
    let available = span.available();
    let hidden = span.hidden_cpus / span.cpus.len().max(1) as f64;
    let blocked = interval.idle_blocked.as_ref().map_or(0.0, |blocked| blocked.ratio.min(available));
    vec![
        part(total.user + total.nice, '█', StyleRole::User),
        part(total.system, '▓', StyleRole::System),
        part(total.irq + total.softirq, '▒', StyleRole::Irq),
        part(total.steal, '╳', StyleRole::Steal),
        part(hidden, '?', StyleRole::Warning),
        part(blocked, '▞', StyleRole::Blocked),
        part(available - blocked + (total.unaccounted - hidden).max(0.0), '·', StyleRole::Free),
    ]
}

/// The load averages, and the tasks that count in them now.
fn load_line(interval: &Interval, canvas: &mut Canvas, y: u16) -> u16 {
    canvas.text(0, y, 5, "LOAD", StyleRole::Heading);
    let Ok(load) = &interval.newer.load else {
        canvas.text_to_end(5, y, "-", StyleRole::Dim);
        return y + 1;
    };
    let n = interval.online_cpus().max(1) as f64;
    let role = if load.one >= 2.0 * n { StyleRole::Bold } else { StyleRole::Plain };
    let mut x = canvas.text_to_end(5, y, safe!("{:>4}", format_number(load.one, 4)), role);
    x = canvas.text_to_end(
        x,
        y,
        safe!(" {:>4} {:>4}", format_number(load.five, 4), format_number(load.fifteen, 4)),
        StyleRole::Plain,
    );
    if let Some(tasks) = &interval.tasks {
        let counts = &tasks.counts;
        let least = if tasks.hidden_threads.is_some() { "≥" } else { "" };
        let mut words = format!("   now {least}{} run", counts.running);
        let kinds = [
            (counts.blocked_disk, "disk"),
            (counts.blocked_vfork, "vfork (harmless)"),
            (counts.blocked_memory, "memory"),
            (counts.blocked_frozen, "frozen"),
            (counts.blocked_other, "other D"),
        ];
        for (count, word) in kinds.into_iter().filter(|kind| kind.0 > 0) {
            words += &format!(" + {count} {word}");
        }
        x = canvas.text_to_end(x, y, SafeText::sanitize(words), StyleRole::Plain);
        if counts.lock_wait > 0 {
            canvas.text_to_end(x, y, safe!("   {} wait for a lock (not in load)", counts.lock_wait), StyleRole::Plain);
        }
    }
    y + 1
}

fn memory_line(interval: &Interval, canvas: &mut Canvas, y: u16) -> u16 {
    canvas.text(0, y, 5, "MEM", StyleRole::Heading);
    let Some(memory) = &interval.memory else {
        canvas.text_to_end(5, y, "-", StyleRole::Dim);
        return y + 1;
    };
    let amount = |bytes: Option<crate::units::Bytes>| bytes.map_or("-".to_owned(), |bytes| text::bytes(bytes.0 as f64));
    let rate = |rate: Option<crate::units::PerSecond>| rate.map_or("-".to_owned(), |rate| text::bytes(rate.0));
    let mut x = canvas.text_to_end(5, y, safe!("{:>5}", amount(memory.available)), StyleRole::Plain);
    x = canvas.text_to_end(x, y, safe!(" available of {}", amount(memory.total)), StyleRole::Dim);
    let used = memory.swap_total.zip(memory.swap_free).map(|(total, free)| total.0.saturating_sub(free.0));
    let moving = memory.swapped_in.map_or(0.0, |r| r.0) + memory.swapped_out.map_or(0.0, |r| r.0) > 0.0;
    if memory.swap_total.is_some_and(|total| total.0 > 0) {
        let used = used.map_or("-".to_owned(), |used| text::bytes(used as f64));
        let swap = safe!("   swap {used}, in {}/s out {}/s", rate(memory.swapped_in), rate(memory.swapped_out));
        x = canvas.text_to_end(x, y, &swap, if moving { StyleRole::Bold } else { StyleRole::Dim });
    } else {
        x = canvas.text_to_end(x, y, "   no swap", StyleRole::Dim);
    }
    let faults = format_optional(memory.major_faults.map(|rate| rate.0), 5);
    x = canvas.text_to_end(x, y, safe!("   major faults {faults}/s"), StyleRole::Dim);
    if let Some(stalled) = interval.pressure.memory_some {
        let role = if stalled.0 >= 0.1 { StyleRole::Warning } else { StyleRole::Dim };
        canvas.text_to_end(x, y, safe!("   stalled {}%", format_number(stalled.percent(), 4)), role);
    }
    y + 1
}

/// One cell per CPU, and the busiest one with its top thread.
fn cores_line(interval: &Interval, canvas: &mut Canvas, y: u16) -> u16 {
    canvas.text(0, y, 6, "CORES", StyleRole::Heading);
    let Some(span) = &interval.cpu else {
        canvas.text_to_end(6, y, "-", StyleRole::Dim);
        return y + 1;
    };
    let most = usize::from(canvas.width() / 3).max(8);
    let cells = span.cpus.len().min(most);
    cpu::cpu_map_row(canvas, 6, y, &span.cpus, cells);
    let hottest = span.cpus.iter().max_by(|a, b| a.busy().total_cmp(&b.busy()));
    let Some(hottest) = hottest.filter(|cpu| cpu.busy() >= 0.005) else { return y + 1 };
    let x = 6 + u16::try_from(cells).unwrap_or(0) + 2;
    let busy = hottest.busy();
    let role = if busy >= 0.95 { StyleRole::Bold } else { StyleRole::Plain };
    let x = canvas.text_to_end(x, y, safe!("hottest cpu{} {}%", hottest.id.0, format_number(busy * 100.0, 4)), role);
    if let Some((task, share)) = hottest.top_thread {
        let used = format_number(share.percent(), 4);
        let whole = safe!("  {} {used}%", wait_location::process_thread_and_tid(&interval.newer, task));
        let short = || safe!("  {} {used}%", wait_location::thread_name(&interval.newer, task));
        let fits = usize::from(x) + whole.width() <= usize::from(canvas.width());
        canvas.text_to_end(x, y, if fits { whole } else { short() }, StyleRole::Plain);
    }
    y + 1
}

/// The disks with activity, the longest queue first.
fn busiest_disks<'a>(state: &State, interval: &'a Interval) -> Vec<&'a DiskSpan> {
    let waited = |disk: &DiskSpan| disk.operations().map(|(_, op)| op.concurrency).sum::<f64>() + f64::from(disk.in_flight);
    let mut disks: Vec<&DiskSpan> = interval.disks.iter().filter(|disk| !is_idle(state, disk)).collect();
    disks.sort_by(|a, b| waited(b).total_cmp(&waited(a)));
    disks
}

const READ_HISTORY_HEADING: &str = "r_await, log";
const WRITE_HISTORY_HEADING: &str = "w_await, log";

const DISK_COLUMNS: [ColumnSpec; 12] = [
    ColumnSpec::text("DISK", 8),
    ColumnSpec::numeric("r/s", 6).min_table_width(60),
    ColumnSpec::numeric("rkB/s", 6).min_table_width(72),
    ColumnSpec::numeric("r_await", 7),
    ColumnSpec::numeric("r×base", 6).min_table_width(60),
    ColumnSpec::numeric("w/s", 6).min_table_width(60),
    ColumnSpec::numeric("wkB/s", 6).min_table_width(72),
    ColumnSpec::numeric("w_await", 7),
    ColumnSpec::numeric("w×base", 6),
    ColumnSpec::numeric("queue", 5),
    ColumnSpec::numeric("busy%", 5).min_table_width(66),
    ColumnSpec::text("", 0).min_table_width(90),
];

fn disk_table(state: &State, evaluation: &Evaluation, disks: &[&DiskSpan], canvas: &mut Canvas, y: u16, rows: u16) -> u16 {
    let interval = &*evaluation.interval;
    let mut specs = DISK_COLUMNS.to_vec();
    let wide = canvas.width();
    if wide >= 130 {
        let each = (wide - 80) / 2 - 2;
        specs.pop();
        specs.push(ColumnSpec::text(READ_HISTORY_HEADING, each));
        specs.push(ColumnSpec::text(WRITE_HISTORY_HEADING, each));
    }
    let table = Table::new(&specs, wide);
    table.draw_header(canvas, y, None);
    if disks.is_empty() {
        let why = if interval.newer.disks.is_err() { "- /proc/diskstats cannot be read" } else { "nothing read or written" };
        canvas.text_to_end(0, y + 1, why, StyleRole::Dim);
    }
    let shown = disks.get(..disks.len().min(usize::from(rows))).unwrap_or_default();
    let mut shown = shown.to_vec();
    shown.sort_by_key(|disk| disk.index);
    for (y, disk) in (y + 1..).zip(shown) {
        let name = wait_location::disk_name(&interval.newer, disk.id);
        table.draw_cell(canvas, y, "DISK", &name, StyleRole::Plain);
        let sides = [
            (Operation::Read, &disk.reads, ["r/s", "rkB/s", "r_await", "r×base"]),
            (Operation::Write, &disk.writes, ["w/s", "wkB/s", "w_await", "w×base"]),
        ];
        for (operation, span, [rate, size, time, times]) in sides {
            let role = if span.completed == 0 { StyleRole::Dim } else { StyleRole::Plain };
            table.draw_cell(canvas, y, rate, safe!("{}", format_number(span.rate.0, 6)), role);
            table.draw_cell(canvas, y, size, safe!("{}", format_kilobytes(span.kilobytes.0, 6)), role);
            table.draw_cell(canvas, y, time, safe!("{}", format_optional(span.r#await.map(|time| time.0), 7)), role);
            let status = latency_status(evaluation, disk.id, operation);
            let (words, role) = baseline_multiple(evaluation, status);
            table.draw_cell(canvas, y, times, &words, role);
            let heading = if operation == Operation::Read { READ_HISTORY_HEADING } else { WRITE_HISTORY_HEADING };
            latency_history(state, interval, (disk.id, operation), status, table.column_area(heading), canvas, y);
        }
        table.draw_cell(canvas, y, "queue", safe!("{}", format_optional(disk.aqu_sz, 5)), StyleRole::Plain);
        table.draw_cell(canvas, y, "busy%", safe!("{}", text::format_percent(disk.busy.map(|busy| busy.0), 5)), StyleRole::Dim);
        if disk.stalled {
            table.draw_cell(canvas, y, "", safe!(" ✖ {} in flight, none completed", disk.in_flight), StyleRole::Critical);
        }
    }
    y + 1 + rows
}

fn busiest_nics(interval: &Interval) -> Vec<&NicSpan> {
    let facts = |nic: &NicSpan| interval.newer.nics.as_ref().ok().and_then(|nics| nics.get(nic.index)).map(|nic| &*nic.facts);
    let moved = |nic: &NicSpan| nic.rx.kilobytes.0 + nic.tx.kilobytes.0;
    let usable =
        |nic: &&NicSpan| moved(nic) > 0.0 || facts(nic).is_some_and(|facts| facts.up != Some(false) && !facts.loopback);
    let mut nics: Vec<&NicSpan> = interval.nics.iter().filter(usable).collect();
    nics.sort_by(|a, b| moved(b).total_cmp(&moved(a)));
    nics
}

fn nic_table(state: &State, interval: &Interval, nics: &[&NicSpan], canvas: &mut Canvas, y: u16, rows: u16) -> u16 {
    let table = super::network::table(canvas.width());
    table.draw_header(canvas, y, None);
    if nics.is_empty() {
        canvas.text_to_end(
            0,
            y + 1,
            if interval.newer.nics.is_err() { "- /proc/net/dev cannot be read" } else { "no interface in use" },
            StyleRole::Dim,
        );
    }
    let mut shown = nics.get(..nics.len().min(usize::from(rows))).unwrap_or_default().to_vec();
    shown.sort_by_key(|nic| nic.index);
    for (y, nic) in (y + 1..).zip(shown) {
        super::network::nic_row(interval, nic, &table, canvas, y);
        super::network::traffic_history(state, interval, nic, &table, canvas, y);
    }
    y + 1 + rows
}

const TASK_COLUMNS: [ColumnSpec; 9] = [
    ColumnSpec::text("TASKS", 15),
    ColumnSpec::numeric("pid", 7).min_table_width(66),
    ColumnSpec::numeric("procs", 5).min_table_width(100),
    ColumnSpec::numeric("thr", 4).min_table_width(72),
    ColumnSpec::numeric("%CPU", 5),
    ColumnSpec::numeric("runq", 5),
    ColumnSpec::numeric("disk", 5),
    ColumnSpec::numeric("lock", 5).min_table_width(50),
    ColumnSpec::text("where", 0),
];

fn task_table(state: &State, interval: &Interval, canvas: &mut Canvas) {
    if canvas.height() < 2 {
        return;
    }
    let table = Table::new(&TASK_COLUMNS, canvas.width());
    table.draw_header(canvas, 0, None);
    if interval.newer.tasks.is_err() {
        canvas.text_to_end(0, 1, "- /proc cannot be read", StyleRole::Dim);
    }
    if super::active_findings::hidden_tasks_note(state).is_some()
        && let Some((x, width)) = table.column_area("where")
    {
        // Beside the heading, as far as it fits.
        let words =
            ["other users' waits hidden", "others' hidden"].into_iter().find(|words| words.len() + 6 <= usize::from(width));
        canvas.text_right(x, 0, width, words.unwrap_or_default(), StyleRole::Dim);
    }
    let teams = process_groups(interval);
    if teams.is_empty() && interval.newer.tasks.is_ok() {
        canvas.text_to_end(0, 1, "all asleep", StyleRole::Dim);
    }
    for (y, team) in (1..canvas.height()).zip(teams) {
        table.draw_cell(canvas, y, "TASKS", SafeText::from_name(team.name), StyleRole::Plain);
        let pid = if team.processes > 1 { safe!("×{}", team.processes) } else { safe!("{}", team.pid) };
        table.draw_cell(canvas, y, "pid", &pid, StyleRole::Dim);
        table.draw_cell(canvas, y, "procs", safe!("{}", team.processes), StyleRole::Dim);
        table.draw_cell(canvas, y, "thr", safe!("{}", team.threads), StyleRole::Dim);
        let share = |value: f64, role| if value > 0.0 { role } else { StyleRole::Dim };
        table.draw_cell(canvas, y, "%CPU", safe!("{}", format_number(team.cpu * 100.0, 5)), share(team.cpu, StyleRole::Plain));
        table.draw_cell(
            canvas,
            y,
            "runq",
            safe!("{}", format_number(team.run_queue, 5)),
            share(team.run_queue, StyleRole::Plain),
        );
        table.draw_cell(canvas, y, "disk", safe!("{}", format_number(team.disk, 5)), blocked_role(team.disk));
        table.draw_cell(
            canvas,
            y,
            "lock",
            wait_location::lock_waits_text(team.lock, team.waits_hidden),
            blocked_role(team.lock),
        );
        table.draw_cell(canvas, y, "where", team.wait_location(interval), StyleRole::Plain);
    }
}

/// Bold from an average of half a blocked thread.
pub fn blocked_role(threads: f64) -> StyleRole {
    match threads {
        none if none <= 0.0 => StyleRole::Dim,
        few if few < 0.5 => StyleRole::Plain,
        _ => StyleRole::Bold,
    }
}
