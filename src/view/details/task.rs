//! The details pages of a process, a thread and a wait class.

use super::cgroups::cgroups;
use super::entry::{Plot, graph_width, states_width};
use super::page::Page;
use super::stacks;
use super::table::{PageTable, number, words};
use crate::findings::{Evaluation, current_wait_seconds, describe_named_holder, lock_known_by, lock_words};
use crate::ids::{ProcessId, TaskId};
use crate::interval::Interval;
use crate::interval::blocked_threads::find_blocked;
use crate::interval::cgroup_names::{CgroupName, NameKind};
use crate::interval::cpu_runs::cpu_shares;
use crate::interval::delays::DelaySpan;
use crate::interval::process_groups::MIN_PROCESS_ACTIVITY;
use crate::interval::task::{Microstates, ProcessSpan, visible_wait_class};
use crate::interval::task_activity::TaskActivity;
use crate::interval::thread_locks::{ThreadLocks, thread_locks};
use crate::safe;
use crate::sample::task::{Process, Thread};
use crate::sample::waits::WaitClass;
use crate::state::history::IntervalSummary;
use crate::state::{Item, State};
use crate::units::format;
use crate::units::time;
use crate::units::{Millis, SmallSort};
use crate::view::safe_text::SafeText;
use crate::view::task_states::throttled_threads;
use crate::view::tasks::{command_line, wait_class_members};
use crate::view::text::{self, format_number, format_optional};
use crate::view::theme::StyleRole;
use crate::view::time_cells::has_started;
use crate::view::wait_location::{self, Detail};

/// Maximum number of listed threads.
const MAX_THREADS: usize = 64;

/// Rows of the terminal from which the CPU time over time has several lines.
const MIN_HIGH_SCREEN: u16 = 32;

/// The page of a process.
pub fn process(state: &State, evaluation: &Evaluation, id: ProcessId, page: &mut Page) {
    let interval = &*evaluation.interval;
    let Ok(sample) = &interval.newer.tasks else { return };
    let Some(process) = sample.process(id.pid).filter(|process| process.id() == id) else { return };
    let Some(span) = interval.tasks.as_ref().map(|tasks| tasks.process(process)) else { return };
    let user = sample.users.get(&process.uid).map_or_else(|| safe!("{}", process.uid), SafeText::from_name);
    page.line(0, safe!("{}   pid {}   {user}", SafeText::from_name(&process.comm), process.pid), StyleRole::Bold);
    page.paragraph(2, &command_line(process), StyleRole::Plain);
    let throttled = throttled_threads(interval, process, &span.states, span.threads);
    time_breakdown(&span.states, throttled, wait_location::waits_are_hidden(interval, process), page);
    let existed = has_started(interval, id.start_ticks);
    cpu_over_time(state, |summary| summary.process_cpus(id).filter(|_| existed(summary)), page);
    states_over_time(state, |summary| summary.process_states(id).filter(|_| existed(summary)), page);
    stacks::of_process(interval, process, page);
    page.heading("FACTS");
    facts(interval, process, page);
    page.labelled("memory", memory(interval, process, &span));
    let rate = |rate: Option<crate::units::PerSecond>| rate.map_or("-".to_owned(), |rate| format::short_bytes(rate.0) + "/s");
    let totals = process.io.ok().map(|io| [io.read_bytes, io.write_bytes].map(|bytes| format::short_bytes(bytes.0 as f64)));
    let totals = totals.map(|[read, written]| format!("; since its start {read} and {written}")).unwrap_or_default();
    page.labelled("storage", safe!("reads {}, writes {}{totals}", rate(span.read_bytes), rate(span.write_bytes)));
    let faults = format_optional(span.major_faults.map(|rate| rate.0), 6);
    page.labelled("major faults", safe!("{faults}/s"));
    let ids: Vec<TaskId> = process.threads.iter().map(|thread| process.task_id(thread)).collect();
    delays(interval, &ids, page);
    threads(interval, process, page);
}

/// CPUs used, in the intervals that are known; a line of a low screen, so that it is in sight.
fn cpu_over_time(state: &State, cpus: impl Fn(&IntervalSummary) -> Option<f32>, page: &mut Page) {
    let columns = state.page_columns(graph_width(page.width));
    let values = columns.nearby(cpus, |&cpus| cpus);
    if values.iter().flatten().count() < 2 {
        return;
    }
    let most = values.iter().flatten().copied().fold(0.05_f32, f32::max);
    page.heading("CPU OVER TIME");
    page.plot(
        state,
        &columns,
        Plot {
            values,
            threshold: None,
            max: most,
            max_label: safe!("{}%", format_number(f64::from(most) * 100.0, 5)),
            threshold_label: SafeText::default(),
            height: if state.setup.size.1 < MIN_HIGH_SCREEN { 1 } else { 3 },
            role_above_threshold: StyleRole::User,
        },
    );
}

/// Shares of the time by state, in the intervals that are known.
fn states_over_time(state: &State, shares: impl Fn(&IntervalSummary) -> Option<[f32; 6]>, page: &mut Page) {
    let columns = state.page_columns(states_width(page.width));
    let shares = columns.nearby(shares, |shares| shares.iter().sum());
    if shares.iter().flatten().count() > 1 {
        page.heading("STATES OVER TIME");
        page.states_over_time(state, &columns, shares);
    }
}

/// `1.20G (1.00G shared) of 4.00G virtual, grows 12.0M/s`
fn memory(interval: &Interval, process: &Process, span: &ProcessSpan) -> SafeText {
    let page_size = interval.host.page_size as f64;
    let mut words = format::short_bytes(span.resident_pages as f64 * page_size);
    if let Some(pages) = process.shared_pages.filter(|&pages| pages > 0) {
        words += &format!(" ({} shared)", format::short_bytes(pages as f64 * page_size));
    }
    if let Some(bytes) = process.virtual_bytes {
        words += &format!(" of {} virtual", format::short_bytes(bytes as f64));
    }
    let growth = span.resident_pages_growth.map_or(0.0, |pages| pages.0 * page_size);
    if growth != 0.0 {
        let verb = if growth > 0.0 { "grows" } else { "shrinks" };
        words += &format!(", {verb} {}/s", format::short_bytes(growth.abs()));
    }
    SafeText::sanitize(words)
}

/// Delay accounting of these threads, added up.
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
        // `stalltop doctor` reports the reason.
        return;
    }
    page.heading("DELAYS");
    let spans: Vec<&DelaySpan> = threads.iter().filter_map(|&id| interval.task_delays(id)).collect();
    if spans.is_empty() {
        page.line(2, "- started before delay accounting was enabled, or asleep".into(), StyleRole::Dim);
        return;
    }
    for (word, part) in parts {
        let shares: Vec<f64> = spans.iter().filter_map(|span| part(span)).map(|share| share.0).collect();
        let sum = (!shares.is_empty()).then(|| shares.iter().sum());
        page.labelled(word, safe!("{}%", text::format_percent(sum, 6)));
    }
    if spans.iter().any(|span| span.block_io.is_some_and(|share| share.0 > 0.0) && span.memory_share() > 0.0) {
        page.line(2, "refaulted pages also count as block I/O: the values overlap".into(), StyleRole::Dim);
    }
}

/// The page of a thread.
pub fn thread(state: &State, evaluation: &Evaluation, id: TaskId, page: &mut Page) {
    let interval = &*evaluation.interval;
    let Some((process, thread)) = interval.newer.tasks.as_ref().ok().and_then(|tasks| tasks.thread(id)) else { return };
    let name = SafeText::from_name(&thread.comm);
    page.line(0, safe!("{name}   thread {} of {}/{}", id.tid, SafeText::from_name(&process.comm), id.pid), StyleRole::Bold);
    page.paragraph(2, &command_line(process), StyleRole::Plain);
    let span = interval.tasks.as_ref().and_then(|tasks| tasks.thread(id));
    match span {
        Some(span) => {
            let throttled = throttled_threads(interval, process, &span.states, 1);
            time_breakdown(&span.states, throttled, wait_location::waits_are_hidden(interval, process), page);
        }
        None => page.line(2, "asleep for the whole interval".into(), StyleRole::Dim),
    }
    page.heading("WAITS");
    waits(interval, process, thread, page);
    if let Some(span) = span {
        page.heading("RUNS");
        page.labelled("%CPU", safe!("{}", text::format_percent(span.cpu.map(|cpu| cpu.0), 6)));
        page.labelled("run-queue wait", safe!("{}%", text::format_percent(span.run_queue_wait.map(|wait| wait.0), 6)));
        page.labelled("run-queue latency", safe!("{}", text::optional_latency(span.run_queue_latency_ms.map(Millis))));
        page.labelled("timeslices", safe!("{}/s", format_optional(span.timeslices.map(|rate| rate.0), 6)));
        let cpus = wait_location::cpus_of_thread(interval, span);
        let shares = cpu_shares(interval, span.id);
        let parts: Vec<String> = shares.iter().map(|(cpu, share)| format!("{}: {:.0} %", cpu.0, share.percent())).collect();
        page.labelled(
            "CPU",
            match (parts.len(), span.migrated) {
                (2.., _) => safe!("{} of its run time", parts.join(", ")),
                (_, true) => safe!("{cpus}, moved between them"),
                _ => cpus,
            },
        );
    }
    let existed = has_started(interval, id.start_ticks);
    states_over_time(state, |summary| summary.thread_states(id).filter(|_| existed(summary)), page);
    stacks::of_thread(interval, process, thread, page);
    delays(interval, &[id], page);
    page.heading("FACTS");
    facts(interval, process, page);
}

fn waits(interval: &Interval, process: &Process, thread: &Thread, page: &mut Page) {
    let id = process.task_id(thread);
    let class = visible_wait_class(&interval.host, process, thread);
    page.labelled("state", safe!("{} {}", thread.state.as_char(), class.as_str()));
    page.labelled("meaning", wait_location::wait_class_description(class).into());
    page.labelled("where", wait_location::thread_location(interval, id, Detail::Full));
    let function = wait_location::wait_channel(interval, id);
    if !function.is_empty() {
        page.labelled("kernel function", function);
    }
    if let Some(blocked) = find_blocked(&interval.blocked_threads, id) {
        if let Some(seconds) = current_wait_seconds(interval, blocked) {
            page.labelled("waiting", safe!("for {}", time::duration(seconds)));
        }
        if let Some(file) = &blocked.wait.file {
            page.labelled("file", SafeText::from_name(file));
        }
        if let Some(disk) = blocked.wait.disk {
            page.labelled("device", wait_location::disk_name(&interval.newer, disk));
        }
    }
    locks(interval, process, thread, page);
}

/// The holder of the lock for which the thread waits, and the locks that it holds itself while others wait.
fn locks(interval: &Interval, process: &Process, thread: &Thread, page: &mut Page) {
    let ThreadLocks { holder, held } = thread_locks(interval, process, thread);
    if let Some(holder) = holder {
        page.labelled("held by", SafeText::sanitize(describe_named_holder(interval, &holder)));
        page.labelled("known by", safe!("{}", lock_known_by(holder.field)));
    }
    for (field, waiters) in held.into_iter().filter(|(_, waiters)| *waiters >= 0.5) {
        let waiters = format::plural(format!("{waiters:.0}"), "thread waits", "threads wait");
        page.labelled("held", safe!("{} in this interval, for which {waiters}", lock_words(field)));
    }
}

fn facts(interval: &Interval, process: &Process, page: &mut Page) {
    let sample = &interval.newer;
    let parent = sample.tasks.as_ref().ok().and_then(|tasks| tasks.process(process.ppid));
    let parent = parent.map_or_else(SafeText::default, |parent| safe!("{} ", SafeText::from_name(&parent.comm)));
    page.labelled("parent", safe!("{parent}{}", process.ppid));
    let executable = process.facts.executable.as_ref().map_or_else(|why| safe!("- {why}"), SafeText::from_name);
    page.labelled("executable", executable);
    if let Some(scheduling) = process.thread(process.pid).and_then(|thread| thread.scheduling) {
        let priority = scheduling.priority().map_or_else(|| "-".to_owned(), |priority| priority.to_string());
        page.labelled("priority", safe!("PRI {priority}, nice {}", scheduling.nice));
    }
    cgroups(interval, process, page);
    let named = process.facts.cgroup.as_ref().ok().map(|id| CgroupName::from_path(sample, id.path.as_bytes()));
    if let Some(name) = named.filter(|name| name.kind != NameKind::Path) {
        page.labelled(name.kind.word(), SafeText::sanitize(name.describe()));
    }
    let ticks = interval.host.ticks_per_second.max(1) as f64;
    let age = sample.at.boottime_ns as f64 / 1e9 - process.start_ticks as f64 / ticks;
    page.labelled("started", safe!("{} ago", time::duration(age)));
}

/// If waits are `hidden`, a lock wait cannot be distinguished from sleep.
pub fn time_breakdown(states: &Microstates, throttled: f64, hidden: bool, page: &mut Page) {
    page.heading("TIME GOES TO");
    page.microstates_bar(*states, throttled);
    let shares = [
        ("user", states.user),
        ("system", states.system),
        ("run queue", states.run_queue - throttled),
        ("throttled", throttled),
        ("disk", states.disk),
        ("lock", states.lock),
        ("other D", states.other_blocked),
        (if hidden { "sleep or lock" } else { "sleep" }, states.sleep),
        ("unknown", states.unknown),
    ];
    let mut words = String::new();
    for (word, threads) in shares.into_iter().filter(|share| share.1 > MIN_PROCESS_ACTIVITY) {
        words += &format!("{word} {}   ", format_number(threads, 4));
    }
    page.line(2, SafeText::sanitize(words), StyleRole::Plain);
}

/// The threads, most active first.
fn threads(interval: &Interval, process: &Process, page: &mut Page) {
    page.heading("THREADS (↓ selects, Enter opens)");
    let mut table = PageTable::new([
        number("tid", 8),
        words("name", 16),
        number("%CPU", 5),
        number("disk", 5),
        number("lock", 5),
        words("where", 0),
    ]);
    let hidden = wait_location::waits_are_hidden(interval, process);
    let span = |thread: &Thread| interval.tasks.as_ref().and_then(|tasks| tasks.thread(process.task_id(thread)));
    let mut rows: Vec<(f64, &Thread)> =
        (process.threads.iter()).map(|thread| (span(thread).map_or(0.0, |span| span.states.non_sleep()), thread)).collect();
    rows.small_sort_by(|a, b| b.0.total_cmp(&a.0));
    for (_, thread) in rows.iter().take(MAX_THREADS) {
        let found = span(thread);
        let cpu = found.and_then(|span| span.cpu).map(|cpu| cpu.0).or(found.is_none().then_some(0.0));
        let cells = [
            safe!("{}", thread.tid),
            SafeText::from_name(&thread.comm),
            safe!("{}", text::format_percent(cpu, 5)),
            safe!("{}", format_number(found.map_or(0.0, |span| span.states.disk), 5)),
            safe!("{}", wait_location::lock_waits_text(Some(found.map_or(0.0, |span| span.states.lock)), hidden, 5)),
            wait_location::thread_location(interval, process.task_id(thread), Detail::Full),
        ];
        let item = Item::Thread(process.task_id(thread));
        table.push_item(cells, item, if found.is_some() { StyleRole::Plain } else { StyleRole::Dim });
    }
    page.table(table);
    if rows.len() > MAX_THREADS {
        page.line(2, safe!("and {} more", rows.len() - MAX_THREADS), StyleRole::Dim);
    }
}

/// The page of a wait class: its processes.
pub fn wait_class(evaluation: &Evaluation, class: WaitClass, page: &mut Page) {
    let interval = &*evaluation.interval;
    let Ok(sample) = &interval.newer.tasks else { return };
    page.line(0, safe!("{}: a thread that {}", class.as_str(), wait_location::wait_class_description(class)), StyleRole::Bold);
    page.heading("PROCESSES");
    for (name, threads) in wait_class_members(interval, sample, class).into_iter().take(24) {
        page.labelled(safe!("{threads}"), SafeText::sanitize(name));
    }
    page.heading("WAIT LOCATIONS");
    let mut places: rustc_hash::FxHashMap<String, u32> = rustc_hash::FxHashMap::default();
    let activity = TaskActivity::new(interval);
    for process in &sample.processes {
        for thread in process.threads.iter().filter(|thread| activity.wait_class(&interval.host, process, thread) == class) {
            let task = process.task_id(thread);
            let (place, function) =
                (wait_location::thread_location(interval, task, Detail::Full), wait_location::wait_channel(interval, task));
            let place = if function.is_empty() { place.to_string() } else { format!("{place} ({function})") };
            *places.entry(place).or_default() += 1;
        }
    }
    let mut places: Vec<(String, u32)> = places.into_iter().collect();
    places.small_sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    for (place, threads) in places.into_iter().take(32) {
        page.labelled(safe!("{threads}"), SafeText::sanitize(place));
    }
}
