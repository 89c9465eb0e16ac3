//! What each thread of a trace was doing when the programs were detached: the time since its last event, which they have not counted, and
//! the wait that has not ended.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use super::processes::is_hidden;
use crate::kernel::probe::wakes::{LastState, WakesProbe};
use crate::kernel::task::files::TaskFiles;
use crate::kernel::task::{parse_stat, parse_syscall};
use crate::sample::task::{RawSyscall, TaskState};
use crate::sample::waits::Syscall;
use crate::sample::waits::syscall::is_shared_operation;
use crate::sample::wakes::{HeldTime, ThreadTimes, TracedFutex, TracedThread, TracedWait, WaitPlace, Wakes};
use crate::sample::{Name, Reading};

/// By pid and tid.
type Thread = (u32, u32);

/// Sums over all times that the programs were attached.
#[derive(Debug, Default)]
pub struct UncountedTimes {
    threads: BTreeMap<Thread, UncountedThread>,
    hidden: BTreeSet<Thread>,
}

#[derive(Debug, Default)]
struct UncountedThread {
    name: Name,
    times: Option<ThreadTimes>,
    waits: BTreeMap<OpenPlace, u64>,
    /// CPU time at the last reading
    cpu_ticks: u64,
}

/// As `WaitPlace`, before the futexes have their indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum OpenPlace {
    Futex { address: u64, pid: Option<u32> },
    Call { number: Option<u16>, uninterruptible: bool },
}

impl UncountedTimes {
    /// Without times; reads the names of these processes' threads now, since they may end.
    pub fn with_names(files: &mut TaskFiles, pids: &[u32]) -> UncountedTimes {
        let mut times = UncountedTimes::default();
        times.for_each_thread(files, pids, |_, _, _, _, _| ());
        times
    }

    /// Adds the time from the last event of each thread of these processes until the programs were detached, which was a moment ago.
    pub fn add(&mut self, files: &mut TaskFiles, machine: &Name, pids: &[u32], probe: &WakesProbe) {
        let last_states = probe.last_states();
        let none_lost = probe.lost_events() == Some(0);
        let mut hidden = std::mem::take(&mut self.hidden);
        self.for_each_thread(files, pids, |files, id, state, has_run, thread| {
            let is_blocked = matches!(state, TaskState::Sleeping | TaskState::Blocked);
            let (mut run_ns, mut runnable_ns) = (0, 0);
            let blocked_ns = match last_states.get(&id) {
                Some(&LastState::Blocked(ns)) => Some(ns),
                Some(&LastState::Running(ns)) => {
                    run_ns = ns;
                    None
                }
                Some(&LastState::Runnable(ns)) => {
                    runnable_ns = ns;
                    None
                }
                // It may have found no place in the tables.
                None if !none_lost => None,
                // Without an event it has been in one state all the time.
                Some(&LastState::NoEvent) | None if is_blocked => Some(probe.slice_ns()),
                Some(&LastState::NoEvent) | None if has_run && state == TaskState::Running => {
                    run_ns = probe.slice_ns();
                    None
                }
                Some(&LastState::NoEvent) | None => None,
            };
            if run_ns > 0 || runnable_ns > 0 {
                thread.add(run_ns, runnable_ns);
            }
            let Some(blocked_ns) = blocked_ns.filter(|_| is_blocked) else { return };
            thread.times.get_or_insert_default();
            match read_place(files, machine, id, state) {
                Ok(place) => {
                    let sum = thread.waits.entry(place).or_default();
                    *sum = sum.saturating_add(blocked_ns);
                }
                Err(why) if is_hidden(&why) => {
                    hidden.insert(id);
                }
                // It runs by now.
                Err(_) => {}
            }
        });
        self.hidden = hidden;
    }

    /// Calls this for each thread of these processes that exists, with its state and whether it ran since the last time, and keeps its name.
    fn for_each_thread(
        &mut self,
        files: &mut TaskFiles,
        pids: &[u32],
        mut each: impl FnMut(&mut TaskFiles, Thread, TaskState, bool, &mut UncountedThread),
    ) {
        let mut tids = Vec::new();
        for &pid in pids {
            // It has ended, if this fails.
            let _ = files.list_threads(pid, &mut tids);
            for &tid in &tids {
                let Ok(stat) = files.read_once(format_args!("{pid}/task/{tid}/stat")) else { continue };
                let Some(stat) = parse_stat(stat) else { continue };
                let thread = self.threads.entry((pid, tid)).or_default();
                thread.name = Name::from(stat.comm);
                let (state, cpu_ticks) = (stat.state, stat.user_ticks.0.saturating_add(stat.system_ticks.0));
                let has_run = std::mem::replace(&mut thread.cpu_ticks, cpu_ticks) < cpu_ticks;
                each(files, (pid, tid), state, has_run, thread);
            }
        }
    }

    /// Adds them, and the names, to what was counted.
    pub fn into_sample(self, wakes: &mut Wakes) {
        let mut indexes: FxHashMap<Thread, usize> =
            wakes.threads.iter().enumerate().map(|(at, thread)| ((thread.pid, thread.tid), at)).collect();
        wakes.hidden_threads = wakes.hidden_threads.max(self.hidden.len());
        for ((pid, tid), open) in self.threads {
            let index = *indexes.entry((pid, tid)).or_insert_with(|| {
                wakes.threads.push(TracedThread { pid, tid, name: "".into(), times: None });
                wakes.threads.len() - 1
            });
            if let Some(thread) = wakes.threads.get_mut(index) {
                thread.name = open.name;
                if let Some(more) = open.times {
                    let times = thread.times.get_or_insert_default();
                    times.run_ns = times.run_ns.saturating_add(more.run_ns);
                    times.runnable_ns = times.runnable_ns.saturating_add(more.runnable_ns);
                }
            }
            for (place, blocked_ns) in open.waits {
                let place = index_place(wakes, place);
                let held = HeldTime::default();
                wakes.waits.push(TracedWait { thread: index, place, waker: None, count: 0, blocked_ns, held });
            }
        }
    }
}

impl UncountedThread {
    fn add(&mut self, run_ns: u64, runnable_ns: u64) {
        let times = self.times.get_or_insert_default();
        times.run_ns = times.run_ns.saturating_add(run_ns);
        times.runnable_ns = times.runnable_ns.saturating_add(runnable_ns);
    }
}

fn read_place(files: &mut TaskFiles, machine: &Name, (pid, tid): Thread, state: TaskState) -> Reading<OpenPlace> {
    let call = files.read_once(format_args!("{pid}/task/{tid}/syscall")).and_then(parse_syscall)?;
    Ok(place_of(machine, pid, call, state))
}

fn place_of(machine: &Name, pid: u32, call: RawSyscall, state: TaskState) -> OpenPlace {
    let futex = Syscall::from_number(machine.as_bytes(), call).filter(|call| call.futex_wait().is_some());
    match futex.map(|call| call.arguments) {
        Some([address, operation, _]) => OpenPlace::Futex { address, pid: (!is_shared_operation(operation)).then_some(pid) },
        None => OpenPlace::Call {
            number: u16::try_from(call.number_in_32_bit_program().unwrap_or(call.number)).ok(),
            uninterruptible: state == TaskState::Blocked,
        },
    }
}

fn index_place(wakes: &mut Wakes, place: OpenPlace) -> WaitPlace {
    match place {
        OpenPlace::Call { number, uninterruptible } => WaitPlace::Call { number, uninterruptible },
        OpenPlace::Futex { address, pid } => {
            let same = wakes.futexes.iter().position(|futex| (futex.address, futex.pid) == (address, pid));
            WaitPlace::Futex(same.unwrap_or_else(|| {
                wakes.futexes.push(TracedFutex { address, pid, ..TracedFutex::default() });
                wakes.futexes.len() - 1
            }))
        }
    }
}
