//! A process, a thread, or everything in one kind of wait.

use super::{AXIS, Page, Plot};
use crate::findings::Judged;
use crate::ids::{ProcessId, TaskId};
use crate::interval::Interval;
use crate::interval::delays::DelaySpan;
use crate::interval::task::{Microstates, visible_wait_class};
use crate::safe;
use crate::sample::task::{Process, Thread};
use crate::sample::waits::WaitClass;
use crate::state::State;
use crate::view::tasks::{command_line, members};
use crate::view::text::{self, SafeText, figure, maybe};
use crate::view::theme::Ink;
use crate::view::whereabouts;

/// Threads of a process that are shown one by one.
const THREADS: usize = 64;

pub fn process(state: &State, judged: &Judged, id: ProcessId, page: &mut Page) {
    let interval = &*judged.interval;
    let Ok(sample) = &interval.newer.tasks else { return };
    let Some(process) = sample.process(id.pid).filter(|process| process.id() == id) else { return };
    let Some(span) = interval.tasks.as_ref().map(|tasks| tasks.process(process)) else { return };
    let user = sample.users.get(&process.uid).map_or_else(|| safe!("{}", process.uid), SafeText::name);
    page.line(0, safe!("{}   pid {}   {user}", SafeText::name(&process.comm), process.pid), Ink::Bold);
    page.prose(2, &command_line(process), Ink::Plain);
    time_goes_to(&span.states, whereabouts::is_out_of_sight(interval, process), page);
    let values: Vec<Option<f32>> = (state.history.cells(interval.at(), usize::from(page.width.saturating_sub(AXIS + 1))))
        .iter()
        .map(|cell| cell.as_ref()?.process(id))
        .collect();
    if values.iter().flatten().count() > 1 {
        let most = values.iter().flatten().copied().fold(0.05_f32, f32::max);
        page.heading("CPU OVER TIME");
        page.plot(Plot {
            values,
            threshold: None,
            top: most,
            top_label: safe!("{}%", figure(f64::from(most) * 100.0, 5)),
            threshold_label: SafeText::default(),
            height: 3,
            over: Ink::User,
        });
    }
    page.heading("FACTS");
    facts(interval, process, page);
    page.pair("memory", safe!("{}", text::bytes(span.resident_pages as f64 * interval.host.page_size as f64)));
    let rate = |rate: Option<crate::units::PerSecond>| rate.map_or("-".to_owned(), |rate| text::bytes(rate.0) + "/s");
    page.pair("storage", safe!("reads {}, writes {}", rate(span.read_bytes), rate(span.write_bytes)));
    let faults = maybe(span.major_faults.map(|rate| rate.0), 6);
    page.pair("major faults", safe!("{faults}/s"));
    let ids: Vec<TaskId> = process.threads.iter().map(|thread| process.task_id(thread)).collect();
    delays(interval, &ids, page);
    threads(interval, process, page);
}

/// What delay accounting says of these threads, added up.
fn delays(interval: &Interval, threads: &[TaskId], page: &mut Page) {
    type Part = fn(&DelaySpan) -> Option<crate::units::Ratio>;
    let parts: [(&str, Part); 7] = [
        ("block I/O", |span| span.block_io),
        ("swap-in", |span| span.swap_in),
        ("reclaim", |span| span.reclaim),
        ("thrashing", |span| span.thrashing),
        ("compaction", |span| span.compaction),
        ("copy on write", |span| span.write_protect_copy),
        ("interrupts", |span| span.irq),
    ];
    if interval.newer.delays.is_err() {
        // `doctor` says why, and what would change it.
        return;
    }
    page.heading("DELAYS");
    let spans: Vec<&DelaySpan> = threads.iter().filter_map(|&id| interval.task_delays(id)).collect();
    if spans.is_empty() {
        page.line(2, "- started before delay accounting was on, or asleep".into(), Ink::Dim);
        return;
    }
    for (word, part) in parts {
        let shares: Vec<f64> = spans.iter().filter_map(|span| part(span)).map(|share| share.0).collect();
        let sum = (!shares.is_empty()).then(|| shares.iter().sum());
        page.pair(word, safe!("{}%", text::percent(sum, 6)));
    }
    if spans.iter().any(|span| span.block_io.is_some_and(|share| share.0 > 0.0) && span.memory_share() > 0.0) {
        page.line(2, "a page read again is under block I/O, too: no sums".into(), Ink::Dim);
    }
}

pub fn thread(judged: &Judged, id: TaskId, page: &mut Page) {
    let interval = &*judged.interval;
    let Some((process, thread)) = interval.newer.tasks.as_ref().ok().and_then(|tasks| tasks.thread(id)) else { return };
    let name = SafeText::name(&thread.comm);
    page.line(0, safe!("{name}   thread {} of {}/{}", id.tid, SafeText::name(&process.comm), id.pid), Ink::Bold);
    page.prose(2, &command_line(process), Ink::Plain);
    match interval.tasks.as_ref().and_then(|tasks| tasks.thread(id)) {
        Some(span) => {
            time_goes_to(&span.states, whereabouts::is_out_of_sight(interval, process), page);
            page.heading("RUNS");
            page.pair("%CPU", safe!("{}", text::percent(span.cpu.map(|cpu| cpu.0), 6)));
            page.pair("run-queue wait", safe!("{}%", text::percent(span.run_queue_wait.map(|wait| wait.0), 6)));
            page.pair("each time", safe!("{} ms", maybe(span.run_queue_latency_ms, 6)));
            page.pair("timeslices", safe!("{}/s", maybe(span.timeslices.map(|rate| rate.0), 6)));
            page.pair("CPU", safe!("{}{}", span.processor.0, if span.migrated { ", moved" } else { "" }));
        }
        None => page.line(2, "asleep all the time".into(), Ink::Dim),
    }
    page.heading("WAITS");
    waits(interval, process, thread, page);
    delays(interval, &[id], page);
    page.heading("FACTS");
    facts(interval, process, page);
}

fn waits(interval: &Interval, process: &Process, thread: &Thread, page: &mut Page) {
    let id = process.task_id(thread);
    let class = visible_wait_class(&interval.host, process, thread);
    page.pair("state", safe!("{} {}", thread.state.as_char(), class.as_str()));
    page.pair("that means", whereabouts::meaning(class).into());
    page.pair("where", whereabouts::of_thread(interval, id));
    let blocked = interval.newer.waits.blocked.iter().find(|blocked| blocked.task == id);
    if let Some(blocked) = blocked {
        // In a convoy it may have been there, and queue again since then.
        if thread.wait.wchan.as_ref().ok().is_none_or(|now| blocked.wchan.as_ref() == Some(now)) {
            let since = interval.at().boottime_ns.saturating_sub(blocked.blocked_since_ns) as f64 / 1e9;
            page.pair("in this wait", safe!("for {}", text::span(since)));
        }
        if let Some(file) = &blocked.file {
            page.pair("file", SafeText::name(file));
        }
        if let Some(disk) = blocked.disk {
            page.pair("device", whereabouts::disk_name(&interval.newer, disk));
        }
    }
}

fn facts(interval: &Interval, process: &Process, page: &mut Page) {
    let sample = &interval.newer;
    let parent = sample.tasks.as_ref().ok().and_then(|tasks| tasks.process(process.ppid));
    let parent = parent.map_or_else(SafeText::default, |parent| safe!("{} ", SafeText::name(&parent.comm)));
    page.pair("parent", safe!("{parent}{}", process.ppid));
    let executable = process.facts.executable.as_ref().map_or_else(|why| safe!("- {why}"), SafeText::name);
    page.pair("executable", executable);
    let cgroup = process.facts.cgroup.as_ref().map_or_else(|why| safe!("- {why}"), |id| SafeText::name(&id.path));
    page.pair("cgroup", cgroup);
    let limits = process.facts.cgroup.as_ref().ok().and_then(|id| interval.cgroups.iter().find(|group| group.id == *id));
    if let Some(group) = limits {
        let memory = group.memory_limit.map_or("no limit".to_owned(), |limit| text::bytes(limit.0 as f64));
        let throttled = text::percent(group.throttled.map(|share| share.0), 4);
        page.pair("limits", safe!("{} CPUs, throttled {throttled}%, memory {memory}", maybe(group.quota_cpus, 5)));
    }
    let ticks = interval.host.ticks_per_second.max(1) as f64;
    let age = sample.at.boottime_ns as f64 / 1e9 - process.start_ticks as f64 / ticks;
    page.pair("started", safe!("{} ago", text::span(age)));
}

/// `hidden`: a thread in a lock cannot be told from one asleep.
fn time_goes_to(states: &Microstates, hidden: bool, page: &mut Page) {
    page.heading("TIME GOES TO");
    page.states(*states);
    let shares = [
        ("user", states.user),
        ("system", states.system),
        ("run queue", states.run_queue),
        ("disk", states.disk),
        ("lock", states.lock),
        ("other D", states.other_blocked),
        (if hidden { "sleep or lock" } else { "sleep" }, states.sleep),
        ("not known", states.unknown),
    ];
    let mut words = String::new();
    for (word, threads) in shares.into_iter().filter(|share| share.1 > 0.0005) {
        words += &format!("{word} {}   ", figure(threads, 4));
    }
    page.line(2, SafeText::of(words), Ink::Plain);
}

/// Its threads, those that do something first.
fn threads(interval: &Interval, process: &Process, page: &mut Page) {
    page.heading("THREADS");
    let columns = [2, 11, 28, 35, 42, 49];
    let heads = ["tid", "name", "%CPU", "disk", "lock", "where"].map(SafeText::from);
    page.row(columns.into_iter().zip(heads).collect(), Ink::Dim);
    let hidden = whereabouts::is_out_of_sight(interval, process);
    let span = |thread: &Thread| interval.tasks.as_ref().and_then(|tasks| tasks.thread(process.task_id(thread)));
    let mut rows: Vec<(f64, &Thread)> =
        (process.threads.iter()).map(|thread| (span(thread).map_or(0.0, |span| span.states.non_sleep()), thread)).collect();
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (_, thread) in rows.iter().take(THREADS) {
        let found = span(thread);
        let cells = vec![
            safe!("{}", thread.tid),
            safe!("{}", text::fit(SafeText::name(&thread.comm).as_str(), 16)),
            safe!(
                "{:>5}",
                text::percent(found.and_then(|span| span.cpu).map(|cpu| cpu.0).or(found.is_none().then_some(0.0)), 5)
            ),
            safe!("{:>5}", figure(found.map_or(0.0, |span| span.states.disk), 5)),
            safe!("{:>5}", whereabouts::in_lock(found.map_or(0.0, |span| span.states.lock), hidden)),
            whereabouts::of_thread(interval, process.task_id(thread)),
        ];
        page.row(columns.into_iter().zip(cells).collect(), if found.is_some() { Ink::Plain } else { Ink::Dim });
    }
    if rows.len() > THREADS {
        page.line(2, safe!("and {} more", rows.len() - THREADS), Ink::Dim);
    }
}

pub fn class(judged: &Judged, class: WaitClass, page: &mut Page) {
    let interval = &*judged.interval;
    let Ok(sample) = &interval.newer.tasks else { return };
    page.line(0, safe!("{}: a thread that {}", class.as_str(), whereabouts::meaning(class)), Ink::Bold);
    page.heading("WHO");
    for (name, threads) in members(interval, sample, class).into_iter().take(24) {
        page.pair(safe!("{threads}"), SafeText::of(name));
    }
    page.heading("WHERE");
    let mut places: rustc_hash::FxHashMap<String, u32> = rustc_hash::FxHashMap::default();
    for process in &sample.processes {
        for thread in process.threads.iter().filter(|thread| visible_wait_class(&interval.host, process, thread) == class) {
            let place = whereabouts::of_thread(interval, process.task_id(thread));
            *places.entry(place.as_str().to_owned()).or_default() += 1;
        }
    }
    let mut places: Vec<(String, u32)> = places.into_iter().collect();
    places.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    for (place, threads) in places.into_iter().take(32) {
        page.pair(safe!("{threads}"), SafeText::of(place));
    }
}
