//! The tasks screen: rows of processes or threads, each with what its time went to.

use super::canvas::Canvas;
use super::frame::{arrangement, unseen};
use super::text::{self, SafeText, figure};
use super::theme::Ink;
use super::whereabouts;
use super::widgets::bar::{Part, bar};
use super::widgets::table::{Spec, Table};
use crate::findings::Judged;
use crate::interval::Interval;
use crate::interval::task::{Microstates, ProcessSpan, visible_wait_class};
use crate::safe;
use crate::sample::task::{Process, Tasks, Thread};
use crate::sample::waits::WaitClass;
use crate::state::layout::Plan;
use crate::state::{Column, Row, State};
use crate::units::Ratio;

const STATES: &str = "time goes to";
const TASKS: [Spec; 9] = [
    Spec::number("pid", 7).by(Column::Pid),
    Spec::number("thr", 4).by(Column::Threads).from(72),
    Spec::words("user", 8).by(Column::Owner).from(96),
    Spec::number("%CPU", 5).by(Column::Cpu),
    Spec::number("runq", 5).by(Column::RunQueue).from(66),
    Spec::number("disk", 5).by(Column::Disk),
    Spec::number("lock", 5).by(Column::Lock),
    Spec::words("command", 14).by(Column::Name),
    Spec::words("where", 0).by(Column::Matters),
];

/// Where in them the columns stand for which a narrow screen has no room.
const COMMAND: usize = 7;

const MORE: [Spec; 3] = [
    Spec::number("memory", 6).by(Column::Resident),
    Spec::number("read/s", 6).by(Column::Read),
    Spec::number("write/s", 7).by(Column::Write),
];

pub fn table(state: &State, width: u16) -> Table {
    if state.shows_classes() {
        return Table::new(&CLASSES, width);
    }
    let mut specs = TASKS.to_vec();
    let by = state.sort().column;
    if width < 140 {
        // What the rows are ordered by is shown, however narrow the screen.
        let hidden = MORE.into_iter().find(|spec| spec.sort == Some(by));
        specs.splice(COMMAND..COMMAND, hidden);
    }
    for spec in specs.iter_mut().filter(|spec| spec.sort == Some(by)) {
        spec.from = 0;
    }
    if width >= 110 {
        specs.insert(COMMAND, Spec::words(STATES, if width >= 160 { 30 } else { 16 }));
    }
    if width >= 140 {
        specs.splice(COMMAND..COMMAND, MORE);
        for spec in &mut specs {
            if spec.heading == "command" {
                spec.width = 24;
            }
        }
    }
    Table::new(&specs, width)
}

const CLASSES: [Spec; 4] =
    [Spec::words("WAIT", 8), Spec::number("threads", 7), Spec::words("who", 26).from(60), Spec::words("meaning", 0)];

pub fn draw(state: &State, judged: &Judged, plan: &Plan, canvas: &mut Canvas) {
    let interval = &*judged.interval;
    summary(state, interval, plan, canvas);
    let Ok(sample) = &interval.newer.tasks else {
        canvas.rest(0, 2, "- /proc cannot be read", Ink::Dim);
        return;
    };
    let table = table(state, canvas.width());
    table.heading(canvas, 1, Some(state.sort()));
    let end = super::list(state, plan, canvas, |canvas, y, row| match row {
        Row::Process { index, depth } => process_row(interval, sample, index, depth, &table, canvas, y),
        Row::Thread { process, thread } => {
            if let Some(process) = sample.processes.get(process)
                && let Some(thread) = process.threads.get(thread)
            {
                thread_row(interval, sample, process, thread, &table, canvas, y);
            }
        }
        Row::Class { class, threads } => class_row(interval, sample, class, threads, &table, canvas, y),
        _ => {}
    });
    if let Some(limits) = unseen(state) {
        canvas.rest(0, plan.before + plan.list, &limits, Ink::Dim);
    }
    if state.rows.is_empty() {
        canvas.rest(0, end, "no task matches the filter (Esc clears it)", Ink::Dim);
    }
}

/// How many there are and what they do; or what cannot be seen.
fn summary(state: &State, interval: &Interval, plan: &Plan, canvas: &mut Canvas) {
    canvas.text(0, 0, 6, "TASKS", Ink::Heading);
    let width = canvas.width();
    let words = arrangement(state, plan);
    let right = u16::try_from(words.width()).unwrap_or(0);
    let Some(tasks) = &interval.tasks else { return };
    let counts = &tasks.counts;
    let mut line = format!(
        "{} {}: {} running",
        text::plural(counts.processes, "process", "processes"),
        text::plural(counts.threads, "thread", "threads"),
        counts.running
    );
    for (count, word) in [
        (counts.blocked_disk, "disk"),
        (counts.lock_wait, "lock"),
        (counts.blocked_vfork, "vfork"),
        (counts.blocked_memory, "memory"),
        (counts.blocked_frozen, "frozen"),
        (counts.blocked_other, "other D"),
    ] {
        if count > 0 {
            line += &format!(" {count} {word}");
        }
    }
    let room = width.saturating_sub(6 + right + 1);
    canvas.text(6, 0, room, SafeText::of(line), Ink::Plain);
    canvas.right(width.saturating_sub(right), 0, right, &words, Ink::Dim);
}

fn process_row(interval: &Interval, sample: &Tasks, index: usize, depth: u8, table: &Table, canvas: &mut Canvas, y: u16) {
    let Some(process) = sample.processes.get(index) else { return };
    let Some(span) = &interval.tasks.as_ref().map(|tasks| tasks.process(process)) else { return };
    table.put(canvas, y, "pid", safe!("{}", process.pid), Ink::Plain);
    table.put(canvas, y, "thr", safe!("{}", span.threads), Ink::Dim);
    owner(sample, process, table, canvas, y);
    let hidden = whereabouts::is_out_of_sight(interval, process);
    times(hidden, span.cpu, span.run_queue_wait, &span.states, table, canvas, y);
    table.put(canvas, y, "memory", memory(interval, span), Ink::Plain);
    for (heading, rate) in [("read/s", span.read_bytes), ("write/s", span.write_bytes)] {
        let words = rate.map_or("-".to_owned(), |rate| if rate.0 > 0.0 { text::bytes(rate.0) } else { "0".to_owned() });
        let ink = if rate.is_some_and(|rate| rate.0 > 0.0) { Ink::Plain } else { Ink::Dim };
        table.put(canvas, y, heading, safe!("{words}"), ink);
    }
    let name = if depth > 0 {
        safe!("{}└ {}", "  ".repeat(usize::from(depth.min(12)) - 1), SafeText::name(&process.comm))
    } else {
        SafeText::name(&process.comm)
    };
    table.put(canvas, y, "command", &name, Ink::Bold);
    table.put(canvas, y, "where", place(interval, process, span), Ink::Plain);
}

/// What it waits for; of a process that does nothing its command line.
fn place(interval: &Interval, process: &Process, span: &ProcessSpan) -> SafeText {
    let busy = span.states.non_sleep() >= 0.0005;
    if let Some(task) = span.top_thread.filter(|_| busy) {
        let group = interval.idle_blocked.iter().flat_map(|idle| &idle.groups).find(|group| group.group == process.group());
        // A member of a group that waits for one of them in I/O: the chain says more than its own wait channel.
        if let Some(group) = group.filter(|group| group.behind_lock() >= 0.5 && span.states.lock > 0.5)
            && let Some(chain) = whereabouts::of_group(interval, group)
        {
            return chain;
        }
        return whereabouts::of_thread(interval, task);
    }
    command_line(process)
}

/// The command line in one line; kernel threads have none.
pub fn command_line(process: &Process) -> SafeText {
    const ENOUGH: usize = 512;
    match &process.facts.cmdline {
        Ok(line) if !line.as_bytes().is_empty() => {
            let bytes = line.as_bytes();
            let bytes = bytes.get(..ENOUGH).unwrap_or(bytes);
            let spaced: Vec<u8> = bytes.iter().map(|&byte| if byte == 0 { b' ' } else { byte }).collect();
            SafeText::bytes(spaced.trim_ascii_end())
        }
        _ if process.kernel_thread => "(kernel thread)".into(),
        _ => SafeText::default(),
    }
}

fn owner(sample: &Tasks, process: &Process, table: &Table, canvas: &mut Canvas, y: u16) {
    let user = sample.users.get(&process.uid).map_or_else(|| safe!("{}", process.uid), SafeText::name);
    table.put(canvas, y, "user", &user, Ink::Dim);
}

fn memory(interval: &Interval, span: &ProcessSpan) -> SafeText {
    if span.resident_pages == 0 {
        return "-".into();
    }
    safe!("{}", text::bytes(span.resident_pages as f64 * interval.host.page_size as f64))
}

fn times(
    hidden: bool,
    cpu: Option<Ratio>,
    run_queue: Option<Ratio>,
    states: &Microstates,
    table: &Table,
    canvas: &mut Canvas,
    y: u16,
) {
    let ink = |value: f64| if value > 0.0 { Ink::Plain } else { Ink::Dim };
    let used = cpu.map_or(0.0, |cpu| cpu.0);
    let full = if used >= 0.95 { Ink::Bold } else { ink(used) };
    table.put(canvas, y, "%CPU", safe!("{}", text::percent(cpu.map(|cpu| cpu.0), 5)), full);
    let waited = run_queue.map(|wait| wait.0);
    table.put(canvas, y, "runq", safe!("{}", text::maybe(waited, 5)), ink(waited.unwrap_or(0.0)));
    let stuck = |value: f64| super::overview::stuck(value);
    table.put(canvas, y, "disk", safe!("{}", figure(states.disk, 5)), stuck(states.disk));
    table.put(canvas, y, "lock", whereabouts::in_lock(states.lock, hidden), stuck(states.lock));
    if let Some((x, width)) = table.place(STATES) {
        state_bar(states, canvas, x, y, width);
    }
}

/// A bar of what the time went to; all of it together is the width.
pub fn state_bar(states: &Microstates, canvas: &mut Canvas, x: u16, y: u16, width: u16) {
    let whole = states.non_sleep() + states.sleep + states.unknown;
    if whole <= 0.0 {
        return;
    }
    let part = |time: f64, glyph, ink| Part { share: time / whole, glyph, ink };
    let parts = [
        part(states.user, '█', Ink::User),
        part(states.system, '▓', Ink::System),
        part(states.run_queue, '░', Ink::RunQueue),
        part(states.disk, '▒', Ink::Disk),
        part(states.lock, '▞', Ink::Lock),
        part(states.other_blocked, '╳', Ink::OtherBlocked),
        part(states.unknown, '?', Ink::Dim),
        part(states.sleep, '·', Ink::Free),
    ];
    bar(canvas, x, y, width, &parts);
}

fn thread_row(
    interval: &Interval,
    sample: &Tasks,
    process: &Process,
    thread: &Thread,
    table: &Table,
    canvas: &mut Canvas,
    y: u16,
) {
    let id = process.task_id(thread);
    table.put(canvas, y, "pid", safe!("{}", thread.tid), Ink::Plain);
    table.put(canvas, y, "thr", if thread.tid == process.pid { "main" } else { "·" }, Ink::Dim);
    owner(sample, process, table, canvas, y);
    let hidden = whereabouts::is_out_of_sight(interval, process);
    match interval.tasks.as_ref().and_then(|tasks| tasks.thread(id)) {
        Some(span) => times(hidden, span.cpu, span.run_queue_wait, &span.states, table, canvas, y),
        None => {
            let asleep = Microstates { sleep: 1.0, ..Microstates::default() };
            times(hidden, Some(Ratio(0.0)), Some(Ratio(0.0)), &asleep, table, canvas, y);
        }
    }
    table.put(canvas, y, "command", SafeText::name(&thread.comm), Ink::Bold);
    table.put(canvas, y, "where", whereabouts::of_thread(interval, id), Ink::Plain);
}

fn class_row(interval: &Interval, sample: &Tasks, class: WaitClass, threads: u32, table: &Table, canvas: &mut Canvas, y: u16) {
    table.put(canvas, y, "WAIT", class.as_str(), Ink::Bold);
    table.put(canvas, y, "threads", safe!("{threads}"), Ink::Plain);
    let mut who: Vec<(String, u32)> = members(interval, sample, class);
    who.truncate(4);
    let words: Vec<String> =
        who.iter().map(|(name, count)| if *count > 1 { format!("{name} ×{count}") } else { name.clone() }).collect();
    table.put(canvas, y, "who", SafeText::of(words.join(", ")), Ink::Plain);
    table.put(canvas, y, "meaning", whereabouts::meaning(class), Ink::Dim);
}

/// Whose threads are in that kind of wait, the most first.
pub fn members(interval: &Interval, sample: &Tasks, class: WaitClass) -> Vec<(String, u32)> {
    let mut counts: rustc_hash::FxHashMap<&[u8], u32> = rustc_hash::FxHashMap::default();
    for process in &sample.processes {
        let inside =
            process.threads.iter().filter(|thread| visible_wait_class(&interval.host, process, thread) == class).count();
        if inside > 0 {
            *counts.entry(process.comm.as_bytes()).or_default() += u32::try_from(inside).unwrap_or(u32::MAX);
        }
    }
    let mut list: Vec<(String, u32)> =
        counts.into_iter().map(|(name, count)| (String::from_utf8_lossy(name).into_owned(), count)).collect();
    list.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    list
}
