//! The CPU screen: a bar of all CPUs, one cell per CPU, a table of CPUs, and the threads that use most CPU time.

pub mod cores_pane;
mod hot_threads;
pub mod panes;
pub mod time_pane;

use super::ScreenView;
use super::columns::{CellContent, ColumnSpec, Columns};
use super::cpu_segments::cpu_segments;
use super::header;
use super::list::{list_status, visible_rows};
use super::pane::Pane;
use super::panes::MAX_SPARKLINE_WIDTH;
use super::safe_line::SafeLine;
use super::safe_text::SafeText;
use super::text::{self, format_figure, format_number, format_optional};
use super::theme::StyleRole;
use super::thread_states;
use super::time_cells::TimeCells;
use super::wait_location;
use super::widgets::bar::StackedBar;
use super::widgets::sparkline;
use crate::figures::Column;
use crate::figures::cpu::{self as figures, CpuRow};
use crate::findings::Evaluation;
use crate::interval::Interval;
use crate::interval::cgroup_names::describe_cgroup;
use crate::interval::cpu::{CpuSpan, CpuUsage, MIN_REPORTED_UNACCOUNTED, MIN_USED_SHARE};
use crate::interval::short_lived::{MIN_SHOWN_CPUS, ShortLived};
use crate::interval::throttling::MIN_NAMED_THROTTLED;
use crate::safe;
use crate::state::history::GraphFigure;
use crate::state::layout::ScreenLayout;
use crate::state::{Row, SortColumn, State};
use crate::units::Millis;
use crate::units::format;

/// A row of the table of CPUs.
pub struct CpuLine<'a> {
    state: &'a State,
    evaluation: &'a Evaluation,
    cpu: &'a CpuUsage,
    /// The same CPU as a row of the catalogue
    row: CpuRow,
}

type Spec = ColumnSpec<fn(&CpuLine, CellContent)>;

const NUMBER: Spec = Spec::figure(&figures::CPU, 4, |line, cell| {
    cell.text(safe!("{}", line.cpu.id.0), if line.is_full() { StyleRole::Bold } else { StyleRole::Plain });
})
.sorted_by(SortColumn::NAME);
const NODE: Spec = Spec::figure(&figures::NODE, 4, |line, cell| cell.text(line.figure(&figures::NODE), StyleRole::Dim));
const USER: Spec =
    Spec::figure(&figures::USER_WITH_NICE_RATIO, 5, |line, cell| line.share(cell, &figures::USER_WITH_NICE_RATIO))
        .sorted_by(SortColumn::CPU_USER);
const SYSTEM: Spec = Spec::figure(&figures::SYSTEM_RATIO, 5, |line, cell| line.share(cell, &figures::SYSTEM_RATIO))
    .sorted_by(SortColumn::CPU_SYSTEM);
const IRQ: Spec = Spec::figure(&figures::IRQ_RATIO, 5, |line, cell| line.share(cell, &figures::IRQ_RATIO));
const SOFTIRQ: Spec = Spec::figure(&figures::SOFTIRQ_RATIO, 5, |line, cell| line.share(cell, &figures::SOFTIRQ_RATIO))
    .sorted_by(SortColumn::CPU_SOFTIRQ);
const STEAL: Spec = Spec::figure(&figures::STEAL_RATIO, 5, |line, cell| line.share(cell, &figures::STEAL_RATIO))
    .sorted_by(SortColumn::CPU_STEAL);
const BUSY: Spec = Spec::figure(&figures::BUSY_RATIO, 5, |line, cell| {
    let role = if line.is_full() { StyleRole::Warning } else { StyleRole::Bold };
    cell.text(line.figure(&figures::BUSY_RATIO), role);
})
.sorted_by(SortColumn::CPU_BUSY);
const IDLE: Spec =
    Spec::figure(&figures::IDLE_WITH_IOWAIT_RATIO, 5, |line, cell| line.share(cell, &figures::IDLE_WITH_IOWAIT_RATIO));
const IOWAIT: Spec = Spec::figure(&figures::IOWAIT_RATIO, 6, |line, cell| line.share(cell, &figures::IOWAIT_RATIO));
const HISTORY: Spec = Spec::graph("history", 14, |line, cell| {
    let cells = TimeCells::new(line.state, &GraphFigure::CpuBusy(line.cpu.id), cell.width);
    let full = line.evaluation.thresholds().core_busy_ratio;
    cell.glyphs(cells.glyphs(|busy| (busy, busy_role(f64::from(busy), full))));
});
const FREQUENCY: Spec = Spec::figure(&figures::FREQUENCY_MHZ, 5, |line, cell| {
    cell.text(line.figure(&figures::FREQUENCY_MHZ), StyleRole::Plain);
});
const TOP_THREAD: Spec = Spec::text("top thread", 0, |line, cell| {
    if let Some((task, share)) = line.cpu.top_thread {
        let share = safe!("{:>4}%", format_number(share.percent(), 4));
        let sample = &line.evaluation.interval.newer;
        let with_tid = safe!("{share} {}", wait_location::thread_name(sample, task));
        // A tid that is cut would be another one.
        let fits = with_tid.width() <= usize::from(cell.width);
        cell.text(
            if fits { with_tid } else { safe!("{share} {}", wait_location::thread_comm(sample, task)) },
            StyleRole::Plain,
        );
    }
})
.key("top_thread");

const CPU_COLUMNS: [Spec; 11] = [
    NUMBER,
    USER,
    SYSTEM,
    IRQ.min_table_width(60),
    SOFTIRQ.min_table_width(60),
    STEAL,
    BUSY,
    IDLE.min_table_width(60),
    HISTORY.min_table_width(80),
    FREQUENCY.hidden_by_default(),
    TOP_THREAD,
];

const WIDE_CPU_COLUMNS: [Spec; 13] = [
    NUMBER,
    NODE,
    USER.width(6),
    SYSTEM.width(6),
    IRQ.width(6),
    SOFTIRQ.width(6),
    STEAL.width(6),
    BUSY.width(6),
    IDLE.width(6),
    IOWAIT,
    HISTORY.width(MAX_SPARKLINE_WIDTH),
    FREQUENCY.hidden_by_default(),
    TOP_THREAD,
];

impl CpuLine<'_> {
    fn figure(&self, figure: &Column<CpuRow>) -> SafeText {
        format_figure(figure, &self.evaluation.into(), &self.row, 5)
    }

    /// A share of the CPU's time; dim for zero.
    fn share(&self, cell: CellContent, figure: &Column<CpuRow>) {
        let some = figure.number(&self.evaluation.into(), &self.row).is_some_and(|share| share > 0.0);
        cell.text(self.figure(figure), if some { StyleRole::Plain } else { StyleRole::Dim });
    }

    fn is_full(&self) -> bool {
        self.cpu.busy() >= self.evaluation.thresholds().core_busy_ratio
    }
}

/// The table of CPUs for a width; beside the pane of cores, which has the same over time, without history.
fn table(state: &State, width: u16, has_history: bool) -> Columns<fn(&CpuLine, CellContent)> {
    let columns = if width >= 150 { WIDE_CPU_COLUMNS.as_slice() } else { &CPU_COLUMNS };
    let is_shown = |spec: &&Spec| has_history || spec.key != HISTORY.key;
    let mut columns: Vec<Spec> = columns.iter().filter(is_shown).copied().collect();
    // On a wide terminal it is shown by itself where the kernel reports it.
    let is_known = state.current().is_some_and(|shown| !shown.interval.newer.cpu_frequencies.is_empty());
    for frequency in columns.iter_mut().filter(|spec| spec.is_figure(&figures::FREQUENCY_MHZ)) {
        frequency.hidden_by_default = width < 150 || !is_known;
    }
    Columns::chosen(state, &columns, width)
}

pub const SCREEN: ScreenView = ScreenView {
    draw,
    panes: &[
        cores_pane::draw,
        panes::run_queue,
        time_pane::draw,
        |state, evaluation, _, pane| thread_states::draw(state, evaluation, pane),
        panes::hot_threads,
        panes::cpus,
    ],
};

fn draw(state: &State, evaluation: &Evaluation, layout: &ScreenLayout, pane: &mut Pane) {
    let interval = &*evaluation.interval;
    let Some(span) = &interval.cpu else {
        pane.line(0, ("- /proc/stat cannot be read", StyleRole::Dim));
        return;
    };
    host_line(interval, span, pane);
    cpu_map(evaluation, span, layout, pane);
    draw_table(state, evaluation, layout, span, pane);
    let end = layout.rows_before_list + layout.list_rows;
    if layout.hot_thread_rows > 0 {
        hot_threads::draw(state, evaluation, &mut pane.subarea(0, end, u16::MAX, layout.hot_thread_rows + 1));
    }
    let foot = end + if layout.hot_thread_rows > 0 { layout.hot_thread_rows + 1 } else { 0 };
    footer(interval, span, &mut pane.subarea(0, foot, u16::MAX, u16::MAX));
}

/// The table of CPUs below the lines that are before the list.
fn draw_table(state: &State, evaluation: &Evaluation, layout: &ScreenLayout, span: &CpuSpan, pane: &mut Pane) {
    let table = table(state, pane.width(), layout.panes.len() < 2);
    let rows = visible_rows(state, layout).into_iter().filter_map(|visible| {
        let Row::Cpu(at) = visible.row else { return None };
        let cpu = span.cpus.get(at)?;
        let line = CpuLine { state, evaluation, cpu, row: CpuRow::core(cpu) };
        Some(table.row(|fill, cell| fill(&line, cell)).selected(visible.selected))
    });
    let heading = layout.rows_before_list.saturating_sub(1);
    table.draw(&mut pane.subarea(0, heading, u16::MAX, layout.list_rows + 1), Some(state.sort()), rows);
    if let Some((x, width)) = table.last_column_area() {
        let words = list_status(state, layout);
        if usize::from(width) > words.width() + 12 {
            pane.subarea(x, heading, width, 1).line_right(0, (&words, StyleRole::Dim));
        }
    }
}

/// The bar of all CPUs, and the number of busy CPUs: 1.05 of 256 is easier to read than 0.41 %.
fn host_line(interval: &Interval, span: &CpuSpan, pane: &mut Pane) {
    let n = span.cpus.len();
    let busy = span.busy();
    let words = safe!("{}% = {} of {n}", format_number(busy * 100.0, 5), format_number(busy * n as f64, 5));
    let mut line = SafeLine::new("HOST ", StyleRole::Heading);
    let bar = usize::from(pane.width()).saturating_sub(5 + words.width() + 1);
    line.push_glyphs(StackedBar(&cpu_segments(interval)).glyphs(u16::try_from(bar).unwrap_or(u16::MAX)));
    pane.line(0, line);
    pane.line_right(0, (words, StyleRole::Bold));
}

/// One cell per CPU in rows of 16, 64 or 128; beside each row its busiest CPU.
fn cpu_map(evaluation: &Evaluation, span: &CpuSpan, layout: &ScreenLayout, pane: &mut Pane) {
    let (interval, full) = (&*evaluation.interval, evaluation.thresholds().core_busy_ratio);
    let (rows, cells) = layout.cpu_map;
    let topology = &interval.host.topology;
    for (y, cpus) in (1..=rows).zip(span.cpus.chunks(usize::from(cells.max(1)))) {
        let first = cpus.first().map_or(0, |cpu| cpu.id.0);
        let last = cpus.last().map_or(0, |cpu| cpu.id.0);
        let node = topology.iter().find(|place| place.cpu.0 == first).map(|place| place.node);
        let node = node.map_or("".into(), |node| safe!("node{node}"));
        let mut line = SafeLine::new(safe!("{node:<7}"), StyleRole::Dim);
        line.push_glyphs(cpu_map_glyphs(cpus, cpus.len(), full));
        let hottest = cpus.iter().max_by(|a, b| a.busy().total_cmp(&b.busy()));
        match hottest.filter(|cpu| cpu.busy() >= full) {
            Some(cpu) => line.push(safe!(" cpu{} ▲", cpu.id.0), StyleRole::Warning),
            None => line.push(safe!(" {first}-{last}"), StyleRole::Dim),
        }
        pane.line(y, line);
    }
}

/// CPUs as levels. With more CPUs than cells, a cell displays the busiest of several.
pub fn cpu_map_glyphs(cpus: &[CpuUsage], cells: usize, full: f64) -> impl Iterator<Item = (char, StyleRole)> {
    let each = cpus.len().div_ceil(cells.max(1)).max(1);
    cpus.chunks(each).map(move |several| {
        let busy = several.iter().map(|cpu| cpu.busy()).fold(0.0, f64::max);
        (sparkline::level_glyph(busy as f32), busy_role(busy, full))
    })
}

/// `full`: busy share from which a CPU is saturated.
pub fn busy_role(busy: f64, full: f64) -> StyleRole {
    match busy {
        busy if busy >= full => StyleRole::Warning,
        some if some >= MIN_USED_SHARE => StyleRole::User,
        _ => StyleRole::Dim,
    }
}

/// CPU accounting, the most throttled cgroup or short-lived processes, the monitor's own cost.
fn footer(interval: &Interval, span: &CpuSpan, pane: &mut Pane) {
    let short = interval.short_lived.as_ref();
    let hidden = interval.tasks.as_ref().is_some_and(|tasks| tasks.hidden_threads.is_some());
    pane.line(0, (cpu_accounting_line(span, hidden, short, usize::from(pane.width())), StyleRole::Dim));
    let throttled = interval.cgroups.iter().filter(|group| group.throttled.is_some_and(|share| share.0 >= MIN_NAMED_THROTTLED));
    let worst = throttled.max_by(|a, b| a.throttled.partial_cmp(&b.throttled).unwrap_or(std::cmp::Ordering::Equal));
    match worst {
        Some(group) => {
            let quota = format_optional(group.quota_cpus, 5);
            let name = SafeText::sanitize(describe_cgroup(&interval.newer, group.id.path.as_bytes()));
            // Throttled time is summed over CPUs: above 1 it is a number of CPUs.
            let time = match group.throttled.map(|share| share.0) {
                Some(cpus) if cpus > 1.0 => safe!("on {} CPUs", format_number(cpus, 4)),
                _ => safe!("{} % of the time", text::format_percent(group.throttled_share().map(|share| share.0), 4)),
            };
            pane.line(1, (safe!("▲ {name} throttled {time}, quota {quota} CPUs"), StyleRole::Warning));
        }
        None => {
            // A wide header has the monitor's own cost.
            let width = pane.width();
            let overhead =
                || (width + 2 < header::MIN_WIDTH_FOR_OVERHEAD).then(|| monitor_overhead(interval, usize::from(width)));
            let words = short.and_then(short_lived_line).or_else(overhead);
            pane.line(1, (words.unwrap_or_default(), StyleRole::Dim));
        }
    }
}

/// Busy CPUs by scheduler run time and by ticks, then as many further values as fit, the most important first. The scheduler's
/// value is a lower bound if tasks are hidden.
fn cpu_accounting_line(span: &CpuSpan, hidden: bool, short: Option<&ShortLived>, width: usize) -> SafeText {
    let (least, scheduler) = (if hidden { "≥" } else { "" }, format_optional(span.scheduler_busy_cpus, 5));
    let ticks = format_number(span.tick_busy_cpus, 5);
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
    if span.total.unaccounted >= MIN_REPORTED_UNACCOUNTED {
        add(format!("unaccounted {}%", format_number(span.total.unaccounted * 100.0, 4)));
    }
    let rate = |rate: Option<crate::units::PerSecond>| format_optional(rate.map(|rate| rate.0), 6);
    add(format!("forks {}/s", rate(span.forks)));
    if let Some(seen) =
        short.filter(|short| short.forks.is_some_and(|forks| forks.0 >= 10.0)).and_then(|short| short.seen_share)
    {
        add(format!("{}% of them seen", format_number(seen.percent(), 3)));
    }
    add(format!("switches {}/s", rate(span.context_switches)));
    add(format!("interrupts {}/s", rate(span.interrupts)));
    SafeText::sanitize(words)
}

/// CPU use of processes that ended between two samples.
fn short_lived_line(short: &ShortLived) -> Option<SafeText> {
    let cpus = short.cpus.filter(|&cpus| cpus >= MIN_SHOWN_CPUS)?;
    let most = short.groups.first().map(|family| {
        let name = family.name.as_ref().map_or_else(|| safe!("children"), SafeText::from_name);
        let rate = family.rate.map(|rate| format!(" {}/s", format_number(rate.0, 4))).unwrap_or_default();
        safe!(", most of {}: {name}{rate} {} CPUs", SafeText::from_name(&family.owner_name), format_number(family.cpus, 4))
    });
    Some(safe!("ended between scans: {} CPUs{}", format_number(cpus, 4), most.unwrap_or_default()))
}

/// The monitor's own cost, as far as it fits.
pub fn monitor_overhead(interval: &Interval, width: usize) -> SafeText {
    let (cost, waits) = (&interval.newer.cost, &interval.newer.waits);
    let mut words = format!("stalltop itself {}% of a CPU", text::format_percent(interval.self_cpus, 4));
    let sub_samples = format::plural(waits.sub_samples.len() as u64, "sub-sample", "sub-samples");
    let skipped =
        if waits.skipped_sub_samples > 0 { format!(" ({} skipped)", waits.skipped_sub_samples) } else { String::new() };
    for more in
        [format!(", scan {}", format::latency(Millis(cost.scan_cpu_ns as f64 / 1e6))), format!(", {sub_samples}"), skipped]
    {
        if words.len() + more.len() > width {
            break;
        }
        words += &more;
    }
    SafeText::sanitize(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::cpu::CpuShares;
    use crate::units::{PerSecond, Ratio};

    #[test]
    fn unaccounted_time_has_priority_over_other_values() {
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
        let words = cpu_accounting_line(&span, false, Some(&short), 80);
        assert!(words.width() <= 80 && words.as_str().contains("unaccounted 33.7%"), "{words}");
        let all = cpu_accounting_line(&span, false, Some(&short), 200);
        assert!(all.as_str().contains("45.0% of them seen") && all.as_str().contains("switches"), "{all}");
        assert_eq!(cpu_accounting_line(&span, false, None, 40).as_str(), "sched-busy 1.05  tick-busy 0.31");
    }
}
