//! The overview: one look at the whole box.
//!
//! ```text
//! CPU    one bar: used, stolen, idle but blocked, free
//! LOAD   with what it is made of
//! MEM
//! CORES
//! DISK   latency against baseline
//! NET
//! TASKS  who is stuck, who runs
//! ```

use super::canvas::Canvas;
use super::disk::{latency_history, multiple, standing};
use super::teams::teams;
use super::text::{self, SafeText, figure, kilobytes, maybe};
use super::theme::Ink;
use super::widgets::bar::{Part, bar};
use super::widgets::table::{Spec, Table};
use super::{cpu, whereabouts};
use crate::findings::Judged;
use crate::interval::Interval;
use crate::interval::disk::{DiskSpan, Operation};
use crate::interval::network::NicSpan;
use crate::safe;
use crate::state::State;
use crate::state::rows::is_idle;

pub fn draw(state: &State, judged: &Judged, canvas: &mut Canvas) {
    let interval = &*judged.interval;
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
        y = disk_table(state, judged, &disks, canvas, y, disk_rows);
    }
    if nic_rows > 0 {
        y = nic_table(state, interval, &nics, canvas, y, nic_rows);
    }
    task_table(state, interval, &mut canvas.part(0, y, width, height.saturating_sub(y)));
}

/// The stacked bar, its legend with figures, and the sums that matter.
fn cpu_lines(interval: &Interval, canvas: &mut Canvas, y: u16) -> u16 {
    let Some(span) = &interval.cpu else {
        canvas.text(0, y, 5, "CPU", Ink::Heading);
        canvas.rest(5, y, "- /proc/stat cannot be read", Ink::Dim);
        return y + 1;
    };
    canvas.text(0, y, 5, "CPU", Ink::Heading);
    let width = canvas.width();
    let legend = if width >= 78 { 40 } else { 0 };
    let parts = parts(interval);
    bar(canvas, 5, y, width.saturating_sub(6 + legend), &parts);
    let total = &span.total;
    let shares = [
        ('█', Ink::User, "usr", total.user + total.nice),
        ('▓', Ink::System, "sys", total.system),
        ('▒', Ink::Irq, "irq", total.irq + total.softirq),
        ('╳', Ink::Steal, "stl", total.steal),
    ];
    if legend > 0 {
        let mut x = width - legend;
        for (glyph, ink, word, share) in shares {
            canvas.glyph(x, y, glyph, ink);
            canvas.text(x + 1, y, 3, word, Ink::Dim);
            canvas.right(x + 4, y, 5, safe!("{}", figure(share * 100.0, 4)), loud(share, ink));
            x += 10;
        }
    }
    sums(interval, canvas, y + 1);
    y + 2
}

fn loud(share: f64, ink: Ink) -> Ink {
    if ink == Ink::Steal && share >= 0.05 { Ink::Warning } else { Ink::Plain }
}

/// busy, blocked-idle, free: the line that no other tool has.
fn sums(interval: &Interval, canvas: &mut Canvas, y: u16) {
    let Some(span) = &interval.cpu else { return };
    let narrow = canvas.width() < 78;
    let left = if narrow { 0 } else { 5 };
    let share = |value: f64| figure(value * 100.0, 4);
    let busy = span.busy();
    let mut x = canvas.text(left, y, 5, "busy ", Ink::Dim);
    canvas.right(x, y, 5, safe!("{}%", share(busy)), Ink::Bold);
    x += 5;
    if !narrow {
        let n = interval.online_cpus().max(1) as f64;
        x = canvas.text(x, y, 13, safe!(" = {:>4} CPUs", figure(busy * n, 4)), Ink::Dim);
    }
    x += if narrow { 1 } else { 2 };
    let Some(blocked) = &interval.idle_blocked else {
        canvas.rest(x, y, "blocked-idle -   free - (no sub-samples yet)", Ink::Dim);
        return;
    };
    canvas.glyph(x, y, '▞', Ink::Blocked);
    x = canvas.text(x + 1, y, 13, if narrow { "blocked " } else { "blocked-idle " }, Ink::Dim);
    let bound = if blocked.lower_bound { "≥" } else { "" };
    let ink = if blocked.ratio >= 0.25 { Ink::Critical } else { Ink::Bold };
    canvas.right(x, y, 6, safe!("{bound}{}%", share(blocked.ratio)), ink);
    x += 6 + if narrow { 1 } else { 2 };
    canvas.glyph(x, y, '·', Ink::Free);
    x = canvas.text(x + 1, y, 5, "free ", Ink::Dim);
    let bound = if blocked.lower_bound { "≤" } else { "" };
    canvas.right(x, y, 6, safe!("{bound}{}%", share(blocked.free)), Ink::Bold);
    x += 6 + 2;
    if let Some(iowait) = blocked.cross_checks.iowait.filter(|_| !narrow) {
        canvas.rest(x, y, safe!("(iowait {}%)", share(iowait)), Ink::Dim);
    }
}

/// The parts of the bar: what was used, what was stolen, what was blocked; the rest is free.
pub fn parts(interval: &Interval) -> Vec<Part> {
    let Some(span) = &interval.cpu else { return Vec::new() };
    let total = &span.total;
    let part = |share: f64, glyph, ink| Part { share, glyph, ink };
    let available = span.available();
    let hidden = span.hidden_cpus / span.cpus.len().max(1) as f64;
    let blocked = interval.idle_blocked.as_ref().map_or(0.0, |blocked| blocked.ratio.min(available));
    vec![
        part(total.user + total.nice, '█', Ink::User),
        part(total.system, '▓', Ink::System),
        part(total.irq + total.softirq, '▒', Ink::Irq),
        part(total.steal, '╳', Ink::Steal),
        part(hidden, '?', Ink::Warning),
        part(blocked, '▞', Ink::Blocked),
        part(available - blocked + (total.unaccounted - hidden).max(0.0), '·', Ink::Free),
    ]
}

/// The load average, and what counts in it now.
fn load_line(interval: &Interval, canvas: &mut Canvas, y: u16) -> u16 {
    canvas.text(0, y, 5, "LOAD", Ink::Heading);
    let Ok(load) = &interval.newer.load else {
        canvas.rest(5, y, "-", Ink::Dim);
        return y + 1;
    };
    let n = interval.online_cpus().max(1) as f64;
    let ink = if load.one >= 2.0 * n { Ink::Bold } else { Ink::Plain };
    let mut x = canvas.rest(5, y, safe!("{:>4}", figure(load.one, 4)), ink);
    x = canvas.rest(x, y, safe!(" {:>4} {:>4}", figure(load.five, 4), figure(load.fifteen, 4)), Ink::Plain);
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
        x = canvas.rest(x, y, SafeText::of(words), Ink::Plain);
        if counts.lock_wait > 0 {
            canvas.rest(x, y, safe!("   {} wait for a lock (not in load)", counts.lock_wait), Ink::Plain);
        }
    }
    y + 1
}

fn memory_line(interval: &Interval, canvas: &mut Canvas, y: u16) -> u16 {
    canvas.text(0, y, 5, "MEM", Ink::Heading);
    let Some(memory) = &interval.memory else {
        canvas.rest(5, y, "-", Ink::Dim);
        return y + 1;
    };
    let amount = |bytes: Option<crate::units::Bytes>| bytes.map_or("-".to_owned(), |bytes| text::bytes(bytes.0 as f64));
    let rate = |rate: Option<crate::units::PerSecond>| rate.map_or("-".to_owned(), |rate| text::bytes(rate.0));
    let mut x = canvas.rest(5, y, safe!("{:>5}", amount(memory.available)), Ink::Plain);
    x = canvas.rest(x, y, safe!(" available of {}", amount(memory.total)), Ink::Dim);
    let used = memory.swap_total.zip(memory.swap_free).map(|(total, free)| total.0.saturating_sub(free.0));
    let moving = memory.swapped_in.map_or(0.0, |r| r.0) + memory.swapped_out.map_or(0.0, |r| r.0) > 0.0;
    if memory.swap_total.is_some_and(|total| total.0 > 0) {
        let used = used.map_or("-".to_owned(), |used| text::bytes(used as f64));
        let swap = safe!("   swap {used}, in {}/s out {}/s", rate(memory.swapped_in), rate(memory.swapped_out));
        x = canvas.rest(x, y, &swap, if moving { Ink::Bold } else { Ink::Dim });
    } else {
        x = canvas.rest(x, y, "   no swap", Ink::Dim);
    }
    let faults = maybe(memory.major_faults.map(|rate| rate.0), 5);
    x = canvas.rest(x, y, safe!("   major faults {faults}/s"), Ink::Dim);
    if let Some(stalled) = interval.pressure.memory_some {
        let ink = if stalled.0 >= 0.1 { Ink::Warning } else { Ink::Dim };
        canvas.rest(x, y, safe!("   stalled {}%", figure(stalled.percent(), 4)), ink);
    }
    y + 1
}

/// A cell a CPU, and the hottest by name.
fn cores_line(interval: &Interval, canvas: &mut Canvas, y: u16) -> u16 {
    canvas.text(0, y, 6, "CORES", Ink::Heading);
    let Some(span) = &interval.cpu else {
        canvas.rest(6, y, "-", Ink::Dim);
        return y + 1;
    };
    let most = usize::from(canvas.width() / 3).max(8);
    let cells = span.cpus.len().min(most);
    cpu::map_row(canvas, 6, y, &span.cpus, cells);
    let hottest = span.cpus.iter().max_by(|a, b| a.busy().total_cmp(&b.busy()));
    let Some(hottest) = hottest.filter(|cpu| cpu.busy() >= 0.005) else { return y + 1 };
    let x = 6 + u16::try_from(cells).unwrap_or(0) + 2;
    let busy = hottest.busy();
    let ink = if busy >= 0.95 { Ink::Bold } else { Ink::Plain };
    let x = canvas.rest(x, y, safe!("hottest cpu{} {}%", hottest.id.0, figure(busy * 100.0, 4)), ink);
    if let Some((task, share)) = hottest.top_thread {
        let used = figure(share.percent(), 4);
        let whole = safe!("  {} {used}%", whereabouts::whose_thread(&interval.newer, task));
        let short = || safe!("  {} {used}%", whereabouts::thread_name(&interval.newer, task));
        let fits = usize::from(x) + whole.width() <= usize::from(canvas.width());
        canvas.rest(x, y, if fits { whole } else { short() }, Ink::Plain);
    }
    y + 1
}

/// Those that did something, in the kernel's order; where there is no room for all, the ones that wait most.
fn busiest_disks<'a>(state: &State, interval: &'a Interval) -> Vec<&'a DiskSpan> {
    let waited = |disk: &DiskSpan| disk.operations().map(|(_, op)| op.concurrency).sum::<f64>() + f64::from(disk.in_flight);
    let mut disks: Vec<&DiskSpan> = interval.disks.iter().filter(|disk| !is_idle(state, disk)).collect();
    disks.sort_by(|a, b| waited(b).total_cmp(&waited(a)));
    disks
}

const READS: &str = "r_await, log";
const WRITES: &str = "w_await, log";

const DISKS: [Spec; 12] = [
    Spec::words("DISK", 8),
    Spec::number("r/s", 6).from(60),
    Spec::number("rkB/s", 6).from(72),
    Spec::number("r_await", 7),
    Spec::number("r×base", 6).from(60),
    Spec::number("w/s", 6).from(60),
    Spec::number("wkB/s", 6).from(72),
    Spec::number("w_await", 7),
    Spec::number("w×base", 6),
    Spec::number("queue", 5),
    Spec::number("busy%", 5).from(66),
    Spec::words("", 0).from(90),
];

fn disk_table(state: &State, judged: &Judged, disks: &[&DiskSpan], canvas: &mut Canvas, y: u16, rows: u16) -> u16 {
    let interval = &*judged.interval;
    let mut specs = DISKS.to_vec();
    let wide = canvas.width();
    if wide >= 130 {
        let each = (wide - 80) / 2 - 2;
        specs.pop();
        specs.push(Spec::words(READS, each));
        specs.push(Spec::words(WRITES, each));
    }
    let table = Table::new(&specs, wide);
    table.heading(canvas, y, None);
    if disks.is_empty() {
        let why = if interval.newer.disks.is_err() { "- /proc/diskstats cannot be read" } else { "nothing read or written" };
        canvas.rest(0, y + 1, why, Ink::Dim);
    }
    let shown = disks.get(..disks.len().min(usize::from(rows))).unwrap_or_default();
    let mut shown = shown.to_vec();
    shown.sort_by_key(|disk| disk.index);
    for (y, disk) in (y + 1..).zip(shown) {
        let name = whereabouts::disk_name(&interval.newer, disk.id);
        table.put(canvas, y, "DISK", &name, Ink::Plain);
        let sides = [
            (Operation::Read, &disk.reads, ["r/s", "rkB/s", "r_await", "r×base"]),
            (Operation::Write, &disk.writes, ["w/s", "wkB/s", "w_await", "w×base"]),
        ];
        for (operation, span, [rate, size, time, times]) in sides {
            let ink = if span.completed == 0 { Ink::Dim } else { Ink::Plain };
            table.put(canvas, y, rate, safe!("{}", figure(span.rate.0, 6)), ink);
            table.put(canvas, y, size, safe!("{}", kilobytes(span.kilobytes.0, 6)), ink);
            table.put(canvas, y, time, safe!("{}", maybe(span.r#await.map(|time| time.0), 7)), ink);
            let standing = standing(judged, disk.id, operation);
            let (words, ink) = multiple(judged, standing);
            table.put(canvas, y, times, &words, ink);
            let heading = if operation == Operation::Read { READS } else { WRITES };
            latency_history(state, interval, (disk.id, operation), standing, table.place(heading), canvas, y);
        }
        table.put(canvas, y, "queue", safe!("{}", maybe(disk.aqu_sz, 5)), Ink::Plain);
        table.put(canvas, y, "busy%", safe!("{}", text::percent(disk.busy.map(|busy| busy.0), 5)), Ink::Dim);
        if disk.stalled {
            table.put(canvas, y, "", safe!(" ✖ {} in flight, none completed", disk.in_flight), Ink::Critical);
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
    table.heading(canvas, y, None);
    if nics.is_empty() {
        canvas.rest(
            0,
            y + 1,
            if interval.newer.nics.is_err() { "- /proc/net/dev cannot be read" } else { "no interface in use" },
            Ink::Dim,
        );
    }
    let mut shown = nics.get(..nics.len().min(usize::from(rows))).unwrap_or_default().to_vec();
    shown.sort_by_key(|nic| nic.index);
    for (y, nic) in (y + 1..).zip(shown) {
        super::network::nic_row(interval, nic, &table, canvas, y);
        super::network::histories(state, interval, nic, &table, canvas, y);
    }
    y + 1 + rows
}

const TASKS: [Spec; 9] = [
    Spec::words("TASKS", 15),
    Spec::number("pid", 7).from(66),
    Spec::number("procs", 5).from(100),
    Spec::number("thr", 4).from(72),
    Spec::number("%CPU", 5),
    Spec::number("runq", 5),
    Spec::number("disk", 5),
    Spec::number("lock", 5).from(50),
    Spec::words("where", 0),
];

fn task_table(state: &State, interval: &Interval, canvas: &mut Canvas) {
    if canvas.height() < 2 {
        return;
    }
    let table = Table::new(&TASKS, canvas.width());
    table.heading(canvas, 0, None);
    if interval.newer.tasks.is_err() {
        canvas.rest(0, 1, "- /proc cannot be read", Ink::Dim);
    }
    if super::frame::unseen(state).is_some()
        && let Some((x, width)) = table.place("where")
    {
        // Beside the heading, in as many words as there is room for.
        let words =
            ["others' hidden: root sees", "others' hidden"].into_iter().find(|words| words.len() + 6 <= usize::from(width));
        canvas.right(x, 0, width, words.unwrap_or_default(), Ink::Dim);
    }
    let teams = teams(interval);
    if teams.is_empty() && interval.newer.tasks.is_ok() {
        canvas.rest(0, 1, "all asleep", Ink::Dim);
    }
    for (y, team) in (1..canvas.height()).zip(teams) {
        table.put(canvas, y, "TASKS", SafeText::name(team.name), Ink::Plain);
        let pid = if team.processes > 1 { safe!("×{}", team.processes) } else { safe!("{}", team.pid) };
        table.put(canvas, y, "pid", &pid, Ink::Dim);
        table.put(canvas, y, "procs", safe!("{}", team.processes), Ink::Dim);
        table.put(canvas, y, "thr", safe!("{}", team.threads), Ink::Dim);
        let share = |value: f64, ink| if value > 0.0 { ink } else { Ink::Dim };
        table.put(canvas, y, "%CPU", safe!("{}", figure(team.cpu * 100.0, 5)), share(team.cpu, Ink::Plain));
        table.put(canvas, y, "runq", safe!("{}", figure(team.run_queue, 5)), share(team.run_queue, Ink::Plain));
        table.put(canvas, y, "disk", safe!("{}", figure(team.disk, 5)), stuck(team.disk));
        table.put(canvas, y, "lock", whereabouts::in_lock(team.lock, team.out_of_sight), stuck(team.lock));
        table.put(canvas, y, "where", team.place(interval), Ink::Plain);
    }
}

/// Half a thread stuck all the time is worth a bolder figure.
pub fn stuck(threads: f64) -> Ink {
    match threads {
        none if none <= 0.0 => Ink::Dim,
        few if few < 0.5 => Ink::Plain,
        _ => Ink::Bold,
    }
}
