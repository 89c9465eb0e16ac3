//! The wait-for graph of a trace (`trace`) as text and as JSON.

use std::fmt::Write;

use serde::Serialize;

use super::formatting::{pluralize, printable};
use super::json::to_line;
use crate::interval::wait_graph::{Edge, Holder, Lock, LockEvidence, PathStep, WaitGraph};
use crate::sample::task::RawSyscall;
use crate::sample::waits::Syscall;
use crate::sample::wakes::{WaitPlace, Wakes};
use crate::units::format::{plural, three_digits};
use crate::units::time::rfc3339;

/// Rows of a list in text; JSON has all.
const MAX_ROWS: usize = 8;
/// Mean number of threads below which a wait is not listed in text.
const MIN_THREADS: f64 = 0.005;
/// Share of the time from which it counts as all of it.
const MIN_WHOLE: f64 = 0.95;

/// For people.
pub fn text(wakes: &Wakes, graph: &WaitGraph) -> String {
    let mut text = String::new();
    // Into memory: cannot fail.
    let _ = write_text(&mut text, wakes, graph);
    text
}

fn write_text(text: &mut String, wakes: &Wakes, graph: &WaitGraph) -> std::fmt::Result {
    let traced = match wakes.processes.as_slice() {
        [] => "processes that have ended".to_owned(),
        [process] => format!("{} ({})", printable(&process.name.to_string_lossy()), process.pid),
        processes => plural(processes.len(), "process", "processes"),
    };
    let lost = match graph.lost_events {
        0 => "none lost".to_owned(),
        lost => format!("{lost} events lost: figures are too low"),
    };
    let threads = pluralize(wakes.threads.len(), "thread");
    let wake_ups = pluralize(graph.wake_ups, "wake-up");
    let seconds = three_digits(graph.seconds);
    let span = wakes.span_ns as f64 / 1e9;
    let time = match graph.seconds < span * MIN_WHOLE {
        true => format!("{seconds} of {} s (more takes more than 1 % of a CPU: --probes on)", three_digits(span)),
        false => format!("{seconds} s"),
    };
    writeln!(text, "{traced}, {threads}, traced for {time}: {wake_ups}, {lost}")?;
    writeln!(text, "\ncritical path")?;
    if graph.critical_path.is_empty() {
        writeln!(text, "  no lock with a holder was seen")?;
    }
    for (depth, step) in graph.critical_path.iter().enumerate() {
        let arrow = if depth == 0 { "" } else { "↳ " };
        writeln!(text, "  {arrow}{}", step_text(wakes, graph, step))?;
    }
    for (number, lock) in (1..).zip(&graph.locks).filter(|(_, lock)| lock.waiters >= MIN_THREADS).take(MAX_ROWS) {
        write_lock(text, wakes, number, lock)?;
    }
    let others: Vec<_> = graph.other_waits.iter().filter(|wait| wait.threads >= MIN_THREADS).take(MAX_ROWS).collect();
    if !others.is_empty() {
        writeln!(text, "\nother waits (threads, wake-ups)")?;
    }
    for wait in others {
        let by = wait
            .most_by
            .map_or_else(String::new, |(thread, count)| format!(", {count} of them by {}", thread_name(wakes, thread)));
        let threads = three_digits(wait.threads);
        writeln!(text, "  {threads:>6} {:>9}  {}{by}", wait.wake_ups, place_text(wakes, wait.place))?;
    }
    Ok(())
}

fn write_lock(text: &mut String, wakes: &Wakes, number: usize, lock: &Lock) -> std::fmt::Result {
    let place = place_text(wakes, WaitPlace::Futex(lock.futex));
    let threads = plural(three_digits(lock.waiters), "thread waits", "threads wait");
    let basis = match lock.evidence {
        LockEvidence::Value => "its value is that of a contended lock",
        LockEvidence::PassedOn => "those that are woken wake the next",
    };
    writeln!(text, "\nlock {number}: {threads}, {} different ones ({place}; {basis})", lock.waiting_threads)?;
    writeln!(text, "    held   wake-ups  by")?;
    for holder in lock.holders.iter().take(MAX_ROWS) {
        let (held, name) = (percent(holder.held_ratio), thread_name(wakes, holder.thread));
        writeln!(text, "  {held:>6}  {:>9}  {name}", holder.wake_ups)?;
    }
    if let Some(others) = lock.holders.get(MAX_ROWS..).filter(|others| !others.is_empty()) {
        let held = percent(others.iter().map(|holder| holder.held_ratio).sum());
        let wake_ups: u64 = others.iter().map(|holder| holder.wake_ups).sum();
        writeln!(text, "  {held:>6}  {wake_ups:>9}  {}", pluralize(others.len(), "other thread"))?;
    }
    let held = lock.while_held;
    let waits =
        held.waiting.map_or_else(String::new, |(place, share)| format!("{} {}, ", lock_or_place(wakes, place), percent(share)));
    writeln!(
        text,
        "  while it is held: {waits}on a CPU {}, waiting for a CPU {}",
        percent(held.running),
        percent(held.runnable)
    )
}

fn step_text(wakes: &Wakes, graph: &WaitGraph, step: &PathStep) -> String {
    match step {
        PathStep::Lock(at) => {
            let waiters = graph.locks.get(*at).map_or(0.0, |lock| lock.waiters);
            let threads = plural(three_digits(waiters), "thread waits", "threads wait");
            format!("{threads} for lock {}", at + 1)
        }
        PathStep::Holder { lock, holder } => {
            let lock = graph.locks.get(*lock);
            let all = lock.map_or(0, |lock| lock.wake_ups);
            let known = format!("known by waker: {} of {}", holder.wake_ups, pluralize(all, "wake-up"));
            let Holder { thread, held_ratio, .. } = holder;
            let name = thread_name(wakes, *thread);
            match lock.map_or(1, |lock| lock.holders.len()) {
                0 | 1 => format!("held by {name} ({known})"),
                many => format!("held by {many} threads in turn, longest by {name}: {} ({known})", percent(*held_ratio)),
            }
        }
        PathStep::Running(share) => format!("on a CPU: {} of the time that it is held", percent(*share)),
        PathStep::Runnable(share) => format!("waiting for a CPU: {} of the time that it is held", percent(*share)),
        PathStep::Waiting(place, share) => {
            format!("{}: {} of the time that it is held", lock_or_place(wakes, *place), percent(*share))
        }
        PathStep::Circle(lock) => format!("waits for lock {} itself: a circle", lock + 1),
    }
}

fn percent(ratio: f64) -> String {
    format!("{} %", three_digits(ratio * 100.0))
}

/// `worker-3 (4713)`
fn thread_name(wakes: &Wakes, index: usize) -> String {
    let Some(thread) = wakes.threads.get(index) else { return "?".to_owned() };
    let name = printable(&thread.name.to_string_lossy());
    let name = if name.is_empty() { "a thread that has ended".to_owned() } else { name };
    format!("{name} ({})", thread.tid)
}

fn lock_or_place(wakes: &Wakes, place: WaitPlace) -> String {
    match place {
        WaitPlace::Futex(_) => format!("waits at {}", place_text(wakes, place)),
        WaitPlace::Call { .. } => place_text(wakes, place),
    }
}

/// `in fsync (D)`, `futex 0x7f…`
fn place_text(wakes: &Wakes, place: WaitPlace) -> String {
    match place {
        WaitPlace::Futex(index) => match wakes.futexes.get(index) {
            Some(futex) if futex.pid.is_none() => format!("futex {:#x} in shared memory", futex.address),
            Some(futex) => format!("futex {:#x}", futex.address),
            None => "futex".to_owned(),
        },
        WaitPlace::Call { number, uninterruptible } => {
            let state = if uninterruptible { " (D)" } else { "" };
            format!("in {}{state}", call_name(wakes, number))
        }
    }
}

fn call_name(wakes: &Wakes, number: Option<u16>) -> String {
    let Some(number) = number else { return "a page fault".to_owned() };
    let call = RawSyscall { number: i64::from(number), arguments: [0; 3] };
    Syscall::from_number(wakes.machine.as_bytes(), call)
        .map_or_else(|| format!("system call {number}"), |call| call.name.to_owned())
}

/// One object, one line: schema stalltop/1.
pub fn json(wakes: &Wakes, graph: &WaitGraph) -> String {
    let lock_number =
        |place: WaitPlace| graph.locks.iter().position(|lock| WaitPlace::Futex(lock.futex) == place).map(|at| at + 1);
    let place = |place: WaitPlace| PlaceJson::new(wakes, place, lock_number(place));
    let thread = |index: usize| ThreadJson::new(wakes, index);
    let holder = |holder: &Holder| HolderJson {
        thread: thread(holder.thread),
        wake_ups: holder.wake_ups,
        held_ratio: holder.held_ratio,
    };
    let edge = |edge: &Edge| EdgeJson {
        waiting: thread(edge.thread),
        woken_by: edge.holder.map(thread),
        wake_ups: edge.wake_ups,
        waiting_ratio: edge.waiting_ratio,
    };
    let locks = graph.locks.iter().map(|lock| LockJson {
        at: place(WaitPlace::Futex(lock.futex)),
        waiting_threads: lock.waiters,
        different_threads: lock.waiting_threads,
        wake_ups: lock.wake_ups,
        basis: match lock.evidence {
            LockEvidence::Value => "value",
            LockEvidence::PassedOn => "passed-on",
        },
        holders: lock.holders.iter().map(holder).collect(),
        while_held: WhileHeldJson {
            running_ratio: lock.while_held.running,
            runnable_ratio: lock.while_held.runnable,
            waiting_in: lock.while_held.waiting.map(|(at, _)| place(at)),
            waiting_ratio: lock.while_held.waiting.map(|(_, share)| share),
        },
        edges: lock.edges.iter().map(edge).collect(),
    });
    let others = graph.other_waits.iter().map(|wait| OtherJson {
        at: place(wait.place),
        waiting_threads: wait.threads,
        wake_ups: wait.wake_ups,
        most_by: wait.most_by.map(|(index, _)| thread(index)),
        most_by_wake_ups: wait.most_by.map(|(_, count)| count),
    });
    let critical_path = graph.critical_path.iter().map(|step| step_text(wakes, graph, step));
    to_line(&GraphJson {
        schema: "stalltop/1",
        from: rfc3339(wakes.realtime_ns.cast_signed()),
        to: rfc3339(wakes.realtime_ns.saturating_add(wakes.span_ns).cast_signed()),
        span_seconds: wakes.span_ns as f64 / 1e9,
        seconds: graph.seconds,
        wake_ups: graph.wake_ups,
        lost_events: graph.lost_events,
        processes: wakes
            .processes
            .iter()
            .map(|process| ProcessJson { pid: process.pid, name: process.name.to_string_lossy() })
            .collect(),
        critical_path: critical_path.collect(),
        locks: locks.collect(),
        other_waits: others.collect(),
        threads: (0..wakes.threads.len()).map(|index| TimesJson::new(wakes, index, graph.seconds)).collect(),
    })
}

#[derive(Serialize)]
struct GraphJson {
    schema: &'static str,
    from: String,
    to: String,
    span_seconds: f64,
    seconds: f64,
    wake_ups: u64,
    lost_events: u64,
    processes: Vec<ProcessJson>,
    critical_path: Vec<String>,
    locks: Vec<LockJson>,
    other_waits: Vec<OtherJson>,
    threads: Vec<TimesJson>,
}

#[derive(Serialize)]
struct ProcessJson {
    pid: u32,
    name: String,
}

#[derive(Serialize)]
struct LockJson {
    #[serde(flatten)]
    at: PlaceJson,
    waiting_threads: f64,
    different_threads: usize,
    wake_ups: u64,
    basis: &'static str,
    holders: Vec<HolderJson>,
    while_held: WhileHeldJson,
    edges: Vec<EdgeJson>,
}

#[derive(Serialize)]
struct EdgeJson {
    waiting: ThreadJson,
    woken_by: Option<ThreadJson>,
    wake_ups: u64,
    waiting_ratio: f64,
}

#[derive(Serialize)]
struct HolderJson {
    #[serde(flatten)]
    thread: ThreadJson,
    wake_ups: u64,
    held_ratio: f64,
}

#[derive(Serialize)]
struct WhileHeldJson {
    running_ratio: f64,
    runnable_ratio: f64,
    waiting_in: Option<PlaceJson>,
    waiting_ratio: Option<f64>,
}

#[derive(Serialize)]
struct OtherJson {
    #[serde(flatten)]
    at: PlaceJson,
    waiting_threads: f64,
    wake_ups: u64,
    most_by: Option<ThreadJson>,
    most_by_wake_ups: Option<u64>,
}

/// A futex, with the number of its lock from 1 on, or a system call.
#[derive(Serialize)]
struct PlaceJson {
    lock: Option<usize>,
    futex_address: Option<String>,
    futex_pid: Option<u32>,
    syscall: Option<String>,
    uninterruptible: Option<bool>,
}

impl PlaceJson {
    fn new(wakes: &Wakes, place: WaitPlace, lock: Option<usize>) -> PlaceJson {
        let futex = match place {
            WaitPlace::Futex(index) => wakes.futexes.get(index),
            WaitPlace::Call { .. } => None,
        };
        let call = match place {
            WaitPlace::Futex(_) => None,
            WaitPlace::Call { number, uninterruptible } => Some((call_name(wakes, number), uninterruptible)),
        };
        PlaceJson {
            lock,
            futex_address: futex.map(|futex| format!("{:#x}", futex.address)),
            futex_pid: futex.and_then(|futex| futex.pid),
            uninterruptible: call.as_ref().map(|call| call.1),
            syscall: call.map(|call| call.0),
        }
    }
}

#[derive(Serialize)]
struct ThreadJson {
    pid: Option<u32>,
    tid: Option<u32>,
    name: Option<String>,
}

impl ThreadJson {
    fn new(wakes: &Wakes, index: usize) -> ThreadJson {
        let thread = wakes.threads.get(index);
        ThreadJson {
            pid: thread.map(|thread| thread.pid),
            tid: thread.map(|thread| thread.tid),
            name: thread.map(|thread| thread.name.to_string_lossy()),
        }
    }
}

#[derive(Serialize)]
struct TimesJson {
    #[serde(flatten)]
    thread: ThreadJson,
    running_ratio: f64,
    runnable_ratio: f64,
}

impl TimesJson {
    fn new(wakes: &Wakes, index: usize, seconds: f64) -> TimesJson {
        let thread = wakes.threads.get(index);
        let ratio = |ns: Option<u64>| ns.unwrap_or(0) as f64 / 1e9 / seconds.max(1e-9);
        TimesJson {
            thread: ThreadJson::new(wakes, index),
            running_ratio: ratio(thread.map(|thread| thread.run_ns)),
            runnable_ratio: ratio(thread.map(|thread| thread.runnable_ns)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::wait_graph::wait_graph;
    use crate::sample::wakes::{HeldTime, TracedFutex, TracedProcess, TracedThread, TracedWait};

    const FSYNC: WaitPlace = WaitPlace::Call { number: Some(74), uninterruptible: true };

    /// Two threads that pass a mutex to each other, each 2 s in fsync meanwhile.
    fn wakes() -> Wakes {
        let thread = |tid, name: &str| TracedThread { pid: 7, tid, name: name.into(), run_ns: 0, runnable_ns: 0 };
        let held = HeldTime { total_ns: 2_000_000_000, wait_ns: 1_900_000_000, wait: Some(FSYNC), ..HeldTime::default() };
        let wait = |thread, waker| TracedWait {
            thread,
            place: WaitPlace::Futex(0),
            waker: Some(waker),
            count: 10,
            blocked_ns: 2_000_000_000,
            held,
        };
        Wakes {
            span_ns: 4_000_000_000,
            elapsed_ns: 4_000_000_000,
            machine: "x86_64".into(),
            processes: vec![TracedProcess { pid: 7, name: "db\u{1b}[31m".into() }],
            threads: vec![thread(8, "wal\u{1b}[31m"), thread(9, "")],
            futexes: vec![TracedFutex {
                address: 0x1000,
                pid: Some(7),
                waits: 20,
                lock_values: 20,
                wake_ups: 20,
                ..TracedFutex::default()
            }],
            waits: vec![wait(0, 1), wait(1, 0)],
            ..Wakes::default()
        }
    }

    #[test]
    fn text_says_who_holds_what_and_how_that_is_known() {
        let wakes = wakes();
        let said = text(&wakes, &wait_graph(&wakes));
        let expected = [
            "db\\u{1b}[31m (7), 2 threads, traced for 4.00 s: 20 wake-ups, none lost",
            "  1.00 threads wait for lock 1",
            "  ↳ held by 2 threads in turn, longest by wal\\u{1b}[31m (8): 50.0 % (known by waker: 10 of 20 wake-ups)",
            "  ↳ in fsync (D): 95.0 % of the time that it is held",
            "  50.0 %         10  a thread that has ended (9)",
            "  while it is held: in fsync (D) 95.0 %, on a CPU 0 %, waiting for a CPU 0 %",
        ];
        for line in expected {
            assert!(said.lines().any(|other| other == line), "{line} in\n{said}");
        }
    }

    #[test]
    fn a_part_of_the_time_and_lost_events_are_said() {
        let wakes = Wakes { span_ns: 16_000_000_000, lost_events: 3, ..wakes() };
        let said = text(&wakes, &wait_graph(&wakes));
        assert!(said.contains("traced for 4.00 of 16.0 s (more takes more than 1 % of a CPU: --probes on)"), "{said}");
        assert!(said.contains("3 events lost: figures are too low"), "{said}");
    }

    #[test]
    fn json_has_edges_for_locks() {
        let wakes = wakes();
        let line = json(&wakes, &wait_graph(&wakes));
        let graph: serde_json::Value = serde_json::from_str(&line).unwrap();
        let lock = &graph["locks"][0];
        assert_eq!((&lock["futex_address"], &lock["basis"]), (&"0x1000".into(), &"value".into()));
        assert_eq!(lock["while_held"]["waiting_in"]["syscall"], "fsync");
        let edge = &lock["edges"][0];
        assert_eq!((&edge["waiting"]["tid"], &edge["woken_by"]["tid"], &edge["wake_ups"]), (&8.into(), &9.into(), &10.into()));
        assert_eq!(graph["critical_path"].as_array().map(Vec::len), Some(3));
        assert!(!line.contains('\u{1b}'));
    }
}
