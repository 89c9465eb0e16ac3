//! The wait-for graph of a trace as one JSON object.

use serde::Serialize;

use super::{call_name, step_text};
use crate::interval::wait_graph::{Edge, Holder, LockEvidence, WaitGraph};
use crate::report::json::to_line;
use crate::sample::wakes::{ThreadTimes, WaitPlace, Wakes};
use crate::units::time::rfc3339;

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
        held_is_lower_bound: graph.held_is_lower_bound,
        hidden_threads: wakes.hidden_threads,
        processes_left_out: wakes.processes_left_out,
        processes: wakes
            .processes
            .iter()
            .map(|process| ProcessJson { pid: process.pid, name: process.name.to_string_lossy(), has_ended: process.has_ended })
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
    lost_events: Option<u64>,
    held_is_lower_bound: bool,
    hidden_threads: usize,
    processes_left_out: usize,
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
    has_ended: bool,
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
            // It ended before its name was read.
            name: thread.map(|thread| thread.name.to_string_lossy()).filter(|name| !name.is_empty()),
        }
    }
}

#[derive(Serialize)]
struct TimesJson {
    #[serde(flatten)]
    thread: ThreadJson,
    running_ratio: Option<f64>,
    runnable_ratio: Option<f64>,
}

impl TimesJson {
    fn new(wakes: &Wakes, index: usize, seconds: f64) -> TimesJson {
        let times = wakes.threads.get(index).and_then(|thread| thread.times);
        let ratio = |ns: fn(ThreadTimes) -> u64| times.map(|times| ns(times) as f64 / 1e9 / seconds.max(1e-9));
        TimesJson {
            thread: ThreadJson::new(wakes, index),
            running_ratio: ratio(|times| times.run_ns),
            runnable_ratio: ratio(|times| times.runnable_ns),
        }
    }
}
