//! The wait-for graph of a trace (`trace`) as text and as JSON.

mod json;

use std::fmt::Write;

pub use self::json::json;
use super::formatting::{pluralize, printable};
use crate::interval::wait_graph::{Holder, Lock, LockEvidence, MIN_PATH_WAITERS, PathStep, WaitGraph};
use crate::sample::task::RawSyscall;
use crate::sample::waits::Syscall;
use crate::sample::wakes::{WaitPlace, Wakes};
use crate::units::format::{percent, plural, three_digits};

/// Rows of a list in text; JSON has all.
const MAX_ROWS: usize = 8;
/// Mean number of threads below which a wait is not listed in text.
const MIN_THREADS: f64 = 0.005;

/// For people.
pub fn text(wakes: &Wakes, graph: &WaitGraph) -> String {
    let mut text = String::new();
    // Into memory: cannot fail.
    let _ = write_text(&mut text, wakes, graph);
    text
}

fn write_text(text: &mut String, wakes: &Wakes, graph: &WaitGraph) -> std::fmt::Result {
    write_heading(text, wakes, graph)?;
    writeln!(text, "\ncritical path")?;
    if graph.locks.is_empty() {
        writeln!(text, "  no futex is taken for a lock")?;
    } else if graph.critical_path.is_empty() {
        writeln!(text, "  fewer than {MIN_PATH_WAITERS} threads wait for each lock")?;
    }
    for (depth, step) in graph.critical_path.iter().enumerate() {
        let arrow = if depth == 0 { "" } else { "↳ " };
        writeln!(text, "  {arrow}{}", step_text(wakes, graph, step))?;
    }
    for (number, lock) in (1..).zip(&graph.locks).filter(|(_, lock)| lock.waiters >= MIN_THREADS).take(MAX_ROWS) {
        write_lock(text, wakes, number, lock, at_least(graph))?;
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

fn write_heading(text: &mut String, wakes: &Wakes, graph: &WaitGraph) -> std::fmt::Result {
    let traced = match wakes.processes.as_slice() {
        [process] => format!("{} ({})", printable(&process.name.to_string_lossy()), process.pid),
        processes => plural(processes.len(), "process", "processes"),
    };
    let ended = wakes.processes.iter().filter(|process| process.has_ended).count();
    let ended = match (ended, wakes.processes.len()) {
        (0, _) => String::new(),
        (1, 1) => " (it has ended)".to_owned(),
        (ended, _) => format!(" ({ended} of them ended)"),
    };
    let lost = match graph.lost_events {
        Some(0) => "none lost".to_owned(),
        Some(lost) => format!("{} lost: figures are too low", pluralize(lost, "event")),
        None => "lost events: -".to_owned(),
    };
    let threads = pluralize(wakes.threads.len(), "thread");
    let wake_ups = pluralize(graph.wake_ups, "wake-up");
    let seconds = three_digits(graph.seconds);
    let time = match graph.held_is_lower_bound {
        true => {
            let span = three_digits(wakes.span_ns as f64 / 1e9);
            format!("{seconds} of {span} s (more takes more than 1 % of a CPU: --probes on)")
        }
        false => format!("{seconds} s"),
    };
    writeln!(text, "{traced}{ended}, {threads}, traced for {time}: {wake_ups}, {lost}")?;
    if wakes.processes_left_out > 0 {
        let left_out = plural(wakes.processes_left_out, "further process is", "further processes are");
        writeln!(text, "{left_out} not traced: these are the {} with most threads in futex calls", wakes.processes.len())?;
    }
    if wakes.hidden_threads > 0 {
        let threads = pluralize(wakes.hidden_threads, "thread");
        writeln!(text, "system calls of {threads} cannot be read, nor what they wait in: that needs CAP_SYS_PTRACE")?;
    }
    Ok(())
}

/// Before the times that a lock was held: of those that had not ended when the programs were detached, a part is missing.
fn at_least(graph: &WaitGraph) -> &'static str {
    if graph.held_is_lower_bound { "≥" } else { "" }
}

fn write_lock(text: &mut String, wakes: &Wakes, number: usize, lock: &Lock, at_least: &str) -> std::fmt::Result {
    let place = place_text(wakes, WaitPlace::Futex(lock.futex));
    let threads = plural(three_digits(lock.waiters), "thread waits", "threads wait");
    let basis = match lock.evidence {
        LockEvidence::Value => "its value is that of a contended lock",
        LockEvidence::PassedOn => "those that are woken wake the next",
    };
    writeln!(text, "\nlock {number}: {threads}, {} different ones ({place}; {basis})", lock.waiting_threads)?;
    writeln!(text, "    held   wake-ups  by")?;
    for holder in lock.holders.iter().take(MAX_ROWS) {
        let (held, name) = (format!("{at_least}{}", percent(holder.held_ratio)), thread_name(wakes, holder.thread));
        writeln!(text, " {held:>7}  {:>9}  {name}", holder.wake_ups)?;
    }
    if let Some(others) = lock.holders.get(MAX_ROWS..).filter(|others| !others.is_empty()) {
        let held = format!("{at_least}{}", percent(others.iter().map(|holder| holder.held_ratio).sum()));
        let wake_ups = others.iter().fold(0, |sum: u64, holder| sum.saturating_add(holder.wake_ups));
        writeln!(text, " {held:>7}  {wake_ups:>9}  {}", pluralize(others.len(), "other thread"))?;
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
                many => {
                    let held = percent(*held_ratio);
                    format!("held by {many} threads in turn, longest by {name}: {}{held} ({known})", at_least(graph))
                }
            }
        }
        PathStep::Running(share) => format!("on a CPU: {} of the time that it is held", percent(*share)),
        PathStep::Runnable(share) => format!("waiting for a CPU: {} of the time that it is held", percent(*share)),
        PathStep::Waiting(place, share) => {
            format!("{}: {} of the time that it is held", lock_or_place(wakes, *place), percent(*share))
        }
        PathStep::Cycle(lock) => format!("waits for lock {} itself: a cycle", lock + 1),
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documented_keys::assert_documented;
    use crate::interval::wait_graph::wait_graph;
    use crate::sample::wakes::{HeldTime, TracedFutex, TracedThread, TracedWait, WakeTraceProcess};

    const FSYNC: WaitPlace = WaitPlace::Call { number: Some(74), uninterruptible: true };

    /// Two threads that pass a mutex to each other, each 2 s in fsync meanwhile.
    fn wakes() -> Wakes {
        let thread = |tid, name: &str| TracedThread { pid: 7, tid, name: name.into(), times: None };
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
            processes: vec![WakeTraceProcess { pid: 7, name: "db\u{1b}[31m".into(), has_ended: false }],
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
            lost_events: Some(0),
            ..Wakes::default()
        }
    }

    #[test]
    fn text_says_which_thread_holds_what_and_how_that_is_known() {
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
    fn what_is_missing_is_said() {
        let process = |pid, has_ended| WakeTraceProcess { pid, name: "db".into(), has_ended };
        let wakes = Wakes {
            span_ns: 16_000_000_000,
            lost_events: Some(3),
            processes: vec![process(7, true), process(8, false)],
            processes_left_out: 1,
            hidden_threads: 5,
            ..wakes()
        };
        let said = text(&wakes, &wait_graph(&wakes));
        let expected = [
            "2 processes (1 of them ended), 2 threads, traced for 4.00 of 16.0 s (more takes more than 1 % of a CPU: --probes on): \
             20 wake-ups, 3 events lost: figures are too low",
            "1 further process is not traced: these are the 2 with most threads in futex calls",
            "system calls of 5 threads cannot be read, nor what they wait in: that needs CAP_SYS_PTRACE",
            "  ↳ held by 2 threads in turn, longest by wal\\u{1b}[31m (8): ≥50.0 % (known by waker: 10 of 20 wake-ups)",
            " ≥50.0 %         10  wal\\u{1b}[31m (8)",
        ];
        for line in expected {
            assert!(said.lines().any(|other| other == line), "{line} in\n{said}");
        }
    }

    #[test]
    fn why_there_is_no_critical_path_is_said() {
        let mut few = wakes();
        few.waits.iter_mut().for_each(|wait| wait.blocked_ns /= 100);
        assert!(text(&few, &wait_graph(&few)).contains("fewer than 0.1 threads wait for each lock"));
        few.futexes[0].with_timeout = 1;
        assert!(text(&few, &wait_graph(&few)).contains("no futex is taken for a lock"));
    }

    #[test]
    fn what_is_not_known_is_null_in_json() {
        let wakes = Wakes { lost_events: None, ..wakes() };
        let graph: serde_json::Value = serde_json::from_str(&json(&wakes, &wait_graph(&wakes))).unwrap();
        let ended = &graph["threads"][1];
        assert_eq!((&ended["tid"], &graph["processes"][0]["has_ended"]), (&9.into(), &false.into()));
        for unknown in [&graph["lost_events"], &ended["name"], &ended["running_ratio"], &ended["runnable_ratio"]] {
            assert!(unknown.is_null(), "{graph}");
        }
    }

    #[test]
    fn json_has_edges_for_locks() {
        let wakes = wakes();
        let line = json(&wakes, &wait_graph(&wakes));
        let graph: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_documented("trace --json", &graph);
        let lock = &graph["locks"][0];
        assert_eq!((&lock["futex_address"], &lock["basis"]), (&"0x1000".into(), &"value".into()));
        assert_eq!(lock["while_held"]["waiting_in"]["syscall"], "fsync");
        let edge = &lock["edges"][0];
        assert_eq!((&edge["waiting"]["tid"], &edge["woken_by"]["tid"], &edge["wake_ups"]), (&8.into(), &9.into(), &10.into()));
        assert_eq!(graph["critical_path"].as_array().map(Vec::len), Some(3));
        assert!(!line.contains('\u{1b}'));
    }
}
