//! The CPU screen: the box as a bar, each CPU as a cell, the busiest as rows, the hottest threads.

use super::canvas::Canvas;
use super::frame::arrangement;
use super::overview::parts;
use super::text::{self, SafeText, figure, maybe};
use super::theme::Ink;
use super::whereabouts;
use super::widgets::bar::bar;
use super::widgets::spark;
use super::widgets::table::{Spec, Table};
use crate::findings::Judged;
use crate::interval::Interval;
use crate::interval::cpu::{CpuSpan, CpuUsage};
use crate::interval::short_lived::ShortLived;
use crate::interval::task::ThreadSpan;
use crate::safe;
use crate::state::layout::Plan;
use crate::state::{Column, Row, State};

const CPUS: [Spec; 10] = [
    Spec::number("CPU", 4).by(Column::Name),
    Spec::number("%usr", 5).by(Column::User),
    Spec::number("%sys", 5).by(Column::System),
    Spec::number("%irq", 5).from(60),
    Spec::number("%soft", 5).by(Column::Softirq).from(60),
    Spec::number("%stl", 5).by(Column::Steal),
    Spec::number("busy", 5).by(Column::Busy),
    Spec::number("idle", 5).from(60),
    Spec::words("history", 14).from(80),
    Spec::words("top thread", 0),
];

const WIDE: [Spec; 12] = [
    Spec::number("CPU", 4).by(Column::Name),
    Spec::number("node", 4),
    Spec::number("%usr", 6).by(Column::User),
    Spec::number("%sys", 6).by(Column::System),
    Spec::number("%irq", 6),
    Spec::number("%soft", 6).by(Column::Softirq),
    Spec::number("%stl", 6).by(Column::Steal),
    Spec::number("busy", 6).by(Column::Busy),
    Spec::number("idle", 6),
    Spec::number("iowait", 6),
    Spec::words("history", 60),
    Spec::words("top thread", 0),
];

pub fn table(width: u16) -> Table {
    if width >= 150 { Table::new(&WIDE, width) } else { Table::new(&CPUS, width) }
}

pub fn draw(state: &State, judged: &Judged, plan: &Plan, canvas: &mut Canvas) {
    let interval = &*judged.interval;
    let Some(span) = &interval.cpu else {
        canvas.rest(0, 0, "- /proc/stat cannot be read", Ink::Dim);
        return;
    };
    box_line(interval, span, canvas);
    map(interval, span, plan, canvas);
    let table = table(canvas.width());
    if plan.before > 0 {
        table.heading(canvas, plan.before - 1, Some(state.sort()));
        if let Some((x, width)) = table.place("top thread") {
            let words = arrangement(state, plan);
            if usize::from(width) > words.width() + 12 {
                canvas.right(x, plan.before - 1, width, &words, Ink::Dim);
            }
        }
    }
    super::list(state, plan, canvas, |canvas, y, row| {
        if let Row::Cpu(at) = row
            && let Some(cpu) = span.cpus.get(at)
        {
            cpu_row(state, interval, cpu, &table, canvas, y);
        }
    });
    let end = plan.before + plan.list;
    if plan.hot > 0 {
        hot_threads(interval, &mut canvas.part(0, end, u16::MAX, plan.hot + 1));
    }
    let foot = end + if plan.hot > 0 { plan.hot + 1 } else { 0 };
    feet(interval, span, &mut canvas.part(0, foot, u16::MAX, u16::MAX));
}

/// The bar, and the box as a number of CPUs: 1.05 of 256 says more than 0.41 %.
fn box_line(interval: &Interval, span: &CpuSpan, canvas: &mut Canvas) {
    let n = span.cpus.len();
    let busy = span.busy();
    let words = safe!("{}% = {} of {n}", figure(busy * 100.0, 5), figure(busy * n as f64, 5));
    let right = u16::try_from(words.width()).unwrap_or(0);
    let width = canvas.width();
    canvas.text(0, 0, 5, "BOX", Ink::Heading);
    bar(canvas, 5, 0, width.saturating_sub(5 + right + 1), &parts(interval));
    canvas.right(width.saturating_sub(right), 0, right, &words, Ink::Bold);
}

/// A cell a CPU, rows of a round number of them, with the busiest of the row beside it.
fn map(interval: &Interval, span: &CpuSpan, plan: &Plan, canvas: &mut Canvas) {
    let (rows, cells) = plan.map;
    let topology = &interval.host.topology;
    for (y, cpus) in (1..=rows).zip(span.cpus.chunks(usize::from(cells.max(1)))) {
        let first = cpus.first().map_or(0, |cpu| cpu.id.0);
        let last = cpus.last().map_or(0, |cpu| cpu.id.0);
        let node = topology.iter().find(|place| place.cpu.0 == first).map(|place| place.node);
        canvas.text(0, y, 7, node.map_or(SafeText::default(), |node| safe!("node{node}")), Ink::Dim);
        map_row(canvas, 7, y, cpus, cpus.len());
        let x = 7 + u16::try_from(cpus.len()).unwrap_or(0) + 1;
        let hottest = cpus.iter().max_by(|a, b| a.busy().total_cmp(&b.busy()));
        match hottest.filter(|cpu| cpu.busy() >= 0.95) {
            Some(cpu) => canvas.rest(x, y, safe!("cpu{} ▲", cpu.id.0), Ink::Warning),
            None => canvas.rest(x, y, safe!("{first}-{last}"), Ink::Dim),
        };
    }
}

/// CPUs as levels; where there are more CPUs than cells, a cell shows the busiest of several.
pub fn map_row(canvas: &mut Canvas, x: u16, y: u16, cpus: &[CpuUsage], cells: usize) {
    let each = cpus.len().div_ceil(cells.max(1)).max(1);
    for (x, several) in (x..).zip(cpus.chunks(each)) {
        let busy = several.iter().map(|cpu| cpu.busy()).fold(0.0, f64::max);
        canvas.glyph(x, y, spark::level(busy as f32), heat(busy));
    }
}

fn heat(busy: f64) -> Ink {
    match busy {
        full if full >= 0.95 => Ink::Warning,
        some if some >= 0.05 => Ink::User,
        _ => Ink::Dim,
    }
}

fn cpu_row(state: &State, interval: &Interval, cpu: &CpuUsage, table: &Table, canvas: &mut Canvas, y: u16) {
    let shares = &cpu.shares;
    let full = cpu.busy() >= 0.95;
    table.put(canvas, y, "CPU", safe!("{}", cpu.id.0), if full { Ink::Bold } else { Ink::Plain });
    let node = interval.host.topology.iter().find(|place| place.cpu == cpu.id).map(|place| place.node);
    table.put(canvas, y, "node", safe!("{}", node.map_or("-".to_owned(), |node| node.to_string())), Ink::Dim);
    let mut put = |heading, share: f64| {
        let ink = if share > 0.0 { Ink::Plain } else { Ink::Dim };
        table.put(canvas, y, heading, safe!("{}", figure(share * 100.0, 5)), ink);
    };
    put("%usr", shares.user + shares.nice);
    put("%sys", shares.system);
    put("%irq", shares.irq);
    put("%soft", shares.softirq);
    put("%stl", shares.steal);
    put("idle", shares.available());
    put("iowait", shares.iowait);
    let ink = if full { Ink::Warning } else { Ink::Bold };
    table.put(canvas, y, "busy", safe!("{}", figure(cpu.busy() * 100.0, 5)), ink);
    if let Some((x, width)) = table.place("history") {
        let cells = state.history.cells(interval.at(), usize::from(width));
        let levels = cells.iter().map(|cell| {
            let busy = cell.as_ref()?.cpu(cpu.id)?;
            Some((busy, heat(f64::from(busy))))
        });
        spark::sparkline(canvas, x, y, width, levels);
    }
    if let Some((task, share)) = cpu.top_thread {
        let name = whereabouts::thread_name(&interval.newer, task);
        table.put(canvas, y, "top thread", safe!("{:>4}% {name}", figure(share.percent(), 4)), Ink::Plain);
    }
}

const HOT: [Spec; 8] = [
    Spec::words("HOT THREADS", 17),
    Spec::number("pid/tid", 15).from(60),
    Spec::number("%CPU", 5),
    Spec::number("runq%", 5),
    Spec::number("slices/s", 8).from(60),
    Spec::number("cpu", 4),
    Spec::words("", 7).from(60),
    Spec::words("cgroup", 0).from(70),
];

fn hot_threads(interval: &Interval, canvas: &mut Canvas) {
    let table = Table::new(&HOT, canvas.width());
    table.heading(canvas, 0, None);
    let Some(tasks) = &interval.tasks else { return };
    let used = |thread: &ThreadSpan| thread.cpu.map_or(0.0, |cpu| cpu.0);
    let mut hot: Vec<&ThreadSpan> = tasks.threads.iter().filter(|thread| used(thread) >= 0.0005).collect();
    let shown = usize::from(canvas.height().saturating_sub(1));
    if hot.len() > shown && shown > 0 {
        hot.select_nth_unstable_by(shown - 1, |a, b| used(b).total_cmp(&used(a)));
        hot.truncate(shown);
    }
    hot.sort_by(|a, b| used(b).total_cmp(&used(a)));
    for (y, thread) in (1..canvas.height()).zip(hot) {
        let Some((process, facts)) = interval.newer.tasks.as_ref().ok().and_then(|tasks| tasks.thread(thread.id)) else {
            continue;
        };
        table.put(canvas, y, "HOT THREADS", whereabouts::of_process(process, facts), Ink::Plain);
        table.put(canvas, y, "pid/tid", safe!("{}/{}", thread.id.pid, thread.id.tid), Ink::Dim);
        let ink = if used(thread) >= 0.95 { Ink::Warning } else { Ink::Plain };
        table.put(canvas, y, "%CPU", safe!("{}", figure(used(thread) * 100.0, 5)), ink);
        table.put(canvas, y, "runq%", safe!("{}", text::percent(thread.run_queue_wait.map(|wait| wait.0), 5)), Ink::Plain);
        table.put(canvas, y, "slices/s", safe!("{}", maybe(thread.timeslices.map(|rate| rate.0), 7)), Ink::Dim);
        table.put(canvas, y, "cpu", safe!("{}", thread.processor.0), Ink::Plain);
        table.put(canvas, y, "", if thread.migrated { "moved" } else { "" }, Ink::Dim);
        if let Ok(cgroup) = &process.facts.cgroup {
            table.put(canvas, y, "cgroup", SafeText::name(&cgroup.path), Ink::Dim);
        }
    }
}

/// What two clocks say of the same time, who was throttled, and what looking costs.
fn feet(interval: &Interval, span: &CpuSpan, canvas: &mut Canvas) {
    let short = interval.short_lived.as_ref();
    let hidden = interval.tasks.as_ref().is_some_and(|tasks| tasks.hidden_threads.is_some());
    canvas.rest(0, 0, clocks(span, hidden, short, usize::from(canvas.width())), Ink::Dim);
    let throttled = interval.cgroups.iter().filter(|group| group.throttled.is_some_and(|share| share.0 >= 0.01));
    let worst = throttled.max_by(|a, b| a.throttled.partial_cmp(&b.throttled).unwrap_or(std::cmp::Ordering::Equal));
    match worst {
        Some(group) => {
            let quota = maybe(group.quota_cpus, 5);
            let path = SafeText::name(&group.id.path);
            // Each CPU's time is in it: above the whole time it is no share.
            let time = match group.throttled.map(|share| share.0) {
                Some(cpus) if cpus > 1.0 => safe!("on {} CPUs", figure(cpus, 4)),
                share => safe!("{} % of the time", text::percent(share, 4)),
            };
            canvas.rest(0, 1, safe!("▲ {path} throttled {time}, quota {quota} CPUs"), Ink::Warning);
        }
        None => {
            let words = short.and_then(short_lived).unwrap_or_else(|| own_cost(interval, usize::from(canvas.width())));
            canvas.rest(0, 1, words, Ink::Dim);
        }
    }
}

/// Both clocks, then what there is room for, in the order of what would be missed most. Of tasks that are hidden only the
/// ticks tell.
fn clocks(span: &CpuSpan, hidden: bool, short: Option<&ShortLived>, width: usize) -> SafeText {
    let (least, scheduler) = (if hidden { "≥" } else { "" }, maybe(span.scheduler_busy_cpus, 5));
    let ticks = figure(span.tick_busy_cpus, 5);
    let mut words = format!("sched-busy {least}{scheduler} CPUs  tick-busy {ticks} CPUs");
    if words.chars().count() > width {
        words = format!("sched-busy {least}{scheduler}  tick-busy {ticks}");
    }
    let mut add = |more: String| {
        if words.chars().count() + 2 + more.chars().count() <= width {
            words += "  ";
            words += &more;
        }
    };
    if span.total.unaccounted >= 0.02 {
        add(format!("unaccounted {}%", figure(span.total.unaccounted * 100.0, 4)));
    }
    let rate = |rate: Option<crate::units::PerSecond>| maybe(rate.map(|rate| rate.0), 6);
    add(format!("forks {}/s", rate(span.forks)));
    if let Some(seen) =
        short.filter(|short| short.forks.is_some_and(|forks| forks.0 >= 10.0)).and_then(|short| short.seen_share)
    {
        add(format!("{}% of them seen", figure(seen.percent(), 3)));
    }
    add(format!("switches {}/s", rate(span.context_switches)));
    SafeText::of(words)
}

/// What is used by tasks that no list shows, where it is worth a word.
fn short_lived(short: &ShortLived) -> Option<SafeText> {
    let cpus = short.cpus.filter(|&cpus| cpus >= 0.05)?;
    let most = short.groups.first().map(|family| {
        let name = family.name.as_ref().map_or_else(|| safe!("children"), SafeText::name);
        let rate = family.rate.map(|rate| format!(" {}/s", figure(rate.0, 4))).unwrap_or_default();
        safe!(", most of {}: {name}{rate} {} CPUs", SafeText::name(&family.owner_name), figure(family.cpus, 4))
    });
    Some(safe!("ended unseen: {} CPUs{}", figure(cpus, 4), most.unwrap_or_default()))
}

/// What the monitor itself takes: as much of it as there is room for.
pub fn own_cost(interval: &Interval, width: usize) -> SafeText {
    let (cost, waits) = (&interval.newer.cost, &interval.newer.waits);
    let mut words = format!("stalltop itself {}% of a CPU", text::percent(interval.self_cpus, 4));
    let looks = text::plural(waits.sub_samples.len() as u64, "look", "looks");
    let skipped =
        if waits.skipped_sub_samples > 0 { format!(" ({} skipped)", waits.skipped_sub_samples) } else { String::new() };
    for more in [format!(", sweep {} ms", figure(cost.scan_cpu_ns as f64 / 1e6, 4)), format!(", {looks}"), skipped] {
        if words.len() + more.len() > width {
            break;
        }
        words += &more;
    }
    SafeText::of(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::cpu::CpuShares;
    use crate::units::{PerSecond, Ratio};

    #[test]
    fn what_is_missing_from_the_clocks_is_said_before_what_there_is_no_room_for() {
        let span = CpuSpan {
            total: CpuShares { unaccounted: 0.337, ..CpuShares::default() },
            cpus: Vec::new(),
            context_switches: Some(PerSecond(123_456.0)),
            interrupts: None,
            forks: Some(PerSecond(1200.0)),
            scheduler_busy_cpus: Some(1.05),
            tick_busy_cpus: 0.31,
            accounting: None,
            hidden_cpus: 0.0,
        };
        let short = ShortLived { forks: Some(PerSecond(1200.0)), seen_share: Some(Ratio(0.45)), ..ShortLived::default() };
        let words = clocks(&span, false, Some(&short), 80);
        assert!(words.width() <= 80 && words.as_str().contains("unaccounted 33.7%"), "{words}");
        let all = clocks(&span, false, Some(&short), 200);
        assert!(all.as_str().contains("45.0% of them seen") && all.as_str().contains("switches"), "{all}");
        assert_eq!(clocks(&span, false, None, 40).as_str(), "sched-busy 1.05  tick-busy 0.31");
    }
}
