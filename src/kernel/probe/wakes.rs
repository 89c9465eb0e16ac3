//! Which thread wakes which, by the eBPF programs of assets/probe/wakes.bpf.c, which count in memory that this process shares with
//! them. This process tells them which processes to watch, and reads what they have counted.
//!
//! Nothing is pinned: the programs are detached and unloaded when this process ends, however it ends.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use nix::time::ClockId;
use rustc_hash::{FxHashMap, FxHashSet};

use super::loader_process::{Loaded, LoaderProcess, ProbeProgram, TaskAccess};
use super::map_words::split_halves;
use super::probe_error::ProbeError;
use super::tracepoint_program::TracepointProgram;
use crate::kernel::scan::read_clock_ns;
use crate::kernel::sys::SharedWords;
use crate::sample::wakes::{HeldTime, ThreadTimes, TracedFutex, TracedThread, TracedWait, WaitPlace, Wakes};

/// As in wakes.bpf.c: places of the tables, and words of 64 bits of one place.
const WATCHED_WORDS: usize = 1024;
const THREADS: usize = 4096;
const FUTEXES: usize = 1024;
const EDGES: usize = 32_768;
const THREAD_WORDS: usize = 16;
const FUTEX_WORDS: usize = 16;
const EDGE_WORDS: usize = 8;
/// `struct thread`, in words
mod thread_words {
    pub const KEY: usize = 0;
    pub const SINCE: usize = 1;
    /// And `woken_at`
    pub const STATE: usize = 2;
    pub const RUN_NS: usize = 3;
    pub const RUNNABLE_NS: usize = 4;
}
/// `struct futex`
mod futex_words {
    pub const KEY: usize = 0;
    pub const ADDRESS: usize = 1;
    /// And `command`
    pub const TGID: usize = 2;
    pub const WAITS: usize = 3;
    pub const LOCK_VALUES: usize = 4;
    pub const TIMEOUTS: usize = 5;
    pub const OTHER_VALUES: usize = 6;
    pub const WAKES: usize = 9;
    pub const PASSED_ON: usize = 10;
    pub const PASSED_ON_NS: usize = 11;
}
/// `struct edge`
mod edge_words {
    pub const KEY: usize = 0;
    pub const COUNT: usize = 1;
    pub const BLOCKED_NS: usize = 2;
    pub const HELD_NS: usize = 3;
    pub const RUN_NS: usize = 4;
    pub const RUNNABLE_NS: usize = 5;
    pub const WAIT_NS: usize = 6;
}
/// `struct control`
const SINCE: usize = 0;
const WATCHED: usize = 8;
const LOST: usize = WATCHED + WATCHED_WORDS;
const CONTROL_WORDS: usize = LOST + 1;
/// States of a thread
const RUNNING: u32 = 1;
const RUNNABLE: u32 = 2;
const BLOCKED: u32 = 3;
/// Parts of the key of an edge
const PLACE_MASK: u64 = (1 << 18) - 1;
const WAKER_SHIFT: u32 = 18;
const WAKER_MASK: u64 = (1 << 13) - 1;
const HOLD_SHIFT: u32 = 31;
const AT_SHIFT: u32 = 49;
const AT_MASK: u64 = THREADS as u64 - 1;
const NO_CALL: u64 = 0xffff;
const IN_D: u64 = 1 << 16;
const IS_FUTEX: u64 = 1 << 17;

/// The loaded programs. Dropping it detaches and unloads them.
#[derive(Debug)]
pub struct WakesProbe {
    /// `waking` and `switched`
    programs: [TracepointProgram; 2],
    access: TaskAccess,
    links: Vec<OwnedFd>,
    control: SharedWords,
    threads: SharedWords,
    futexes: SharedWords,
    edges: SharedWords,
    pids: FxHashSet<u32>,
    /// CLOCK_MONOTONIC when it was last attached, and detached
    attached_ns: u64,
    detached_ns: u64,
    /// For how long it was attached
    elapsed_ns: u64,
}

/// What a thread had been doing, since its last event, when the programs were detached. Times are in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastState {
    Running(u64),
    Runnable(u64),
    Blocked(u64),
    /// It had no event since they were attached
    NoEvent,
}

impl WakesProbe {
    /// Loads the programs, and waits for that. `program`: the path of stalltop, run again as the loader.
    pub fn load(program: &Path) -> Result<WakesProbe, ProbeError> {
        WakesProbe::new(LoaderProcess::load(program, ProbeProgram::Wakes)?)
    }

    /// Maps the memory of the programs.
    pub fn new(loaded: Loaded) -> Result<WakesProbe, ProbeError> {
        let [waking, switched, control, threads, futexes, edges] =
            <[OwnedFd; 6]>::try_from(loaded.descriptors).map_err(|_| ProbeError::Descriptors)?;
        Ok(WakesProbe {
            control: SharedWords::map(control.as_fd(), CONTROL_WORDS)?,
            threads: SharedWords::map(threads.as_fd(), THREADS * THREAD_WORDS)?,
            futexes: SharedWords::map(futexes.as_fd(), FUTEXES * FUTEX_WORDS)?,
            edges: SharedWords::map(edges.as_fd(), EDGES * EDGE_WORDS)?,
            programs: [
                TracepointProgram::new(waking, c"sched_waking", loaded.access),
                TracepointProgram::new(switched, c"sched_switch", loaded.access),
            ],
            access: loaded.access,
            links: Vec::new(),
            pids: FxHashSet::default(),
            attached_ns: 0,
            detached_ns: 0,
            elapsed_ns: 0,
        })
    }

    /// How the programs read what the kernel has of a task.
    pub fn access(&self) -> TaskAccess {
        self.access
    }

    /// Counts the threads of these processes from now on, and of no others. What was counted of others before remains.
    pub fn watch(&mut self, pids: &[u32]) {
        let mut wanted = [0_u64; WATCHED_WORDS];
        for &pid in pids {
            if let Some(word) = wanted.get_mut(pid as usize / 64 % WATCHED_WORDS) {
                *word |= 1 << (pid % 64);
            }
        }
        for (at, &word) in (WATCHED..).zip(&wanted) {
            self.control.set(at, word);
        }
        self.pids.extend(pids);
    }

    /// Counts from now on.
    pub fn attach(&mut self) -> io::Result<()> {
        self.attached_ns = clock_ns()?;
        self.control.set(SINCE, self.attached_ns);
        for program in &self.programs {
            self.links.push(program.attach()?);
        }
        Ok(())
    }

    /// Stops counting: switches cost nothing more then.
    pub fn detach(&mut self) -> io::Result<()> {
        self.links.clear();
        self.detached_ns = clock_ns()?;
        self.elapsed_ns += self.detached_ns.saturating_sub(self.attached_ns);
        Ok(())
    }

    /// How long it was attached the last time, in ns.
    pub fn slice_ns(&self) -> u64 {
        self.detached_ns.saturating_sub(self.attached_ns)
    }

    /// What the threads, by pid and tid, had been doing when it was detached. Those without an event in the trace are missing.
    pub fn last_states(&self) -> FxHashMap<(u32, u32), LastState> {
        let state = |(place, thread): (usize, (u32, u32))| {
            let word = |at: usize| self.threads.get(place * THREAD_WORDS + at);
            let (since, (state, _)) = (word(thread_words::SINCE), split_halves(word(thread_words::STATE)));
            let open_ns = self.detached_ns.saturating_sub(since);
            let last = match state {
                _ if since < self.attached_ns => LastState::NoEvent,
                RUNNING => LastState::Running(open_ns),
                RUNNABLE => LastState::Runnable(open_ns),
                BLOCKED => LastState::Blocked(open_ns),
                _ => return None,
            };
            Some((thread, last))
        };
        self.traced_threads().filter_map(state).collect()
    }

    /// Events that were not counted; `None` if the kernel does not report them.
    pub fn lost_events(&self) -> Option<u64> {
        self.programs
            .iter()
            .try_fold(self.control.get(LOST), |lost, program| Some(lost.saturating_add(program.missed_events()?)))
    }

    /// What was counted while it was attached: without names, the machine, and what threads had been doing since their last event.
    pub fn read(&self) -> Wakes {
        let mut wakes = Wakes::default();
        let threads = self.read_threads(&mut wakes);
        let futexes = self.read_futexes(&mut wakes);
        let edges = (0..EDGES).filter_map(|place| self.read_edge(place, &threads, &futexes));
        wakes.waits = edges.collect();
        wakes.elapsed_ns = self.elapsed_ns;
        wakes.lost_events = self.lost_events();
        wakes
    }

    /// The places of the table that have a thread, with its pid and tid: not those of other processes with the same bit.
    fn traced_threads(&self) -> impl Iterator<Item = (usize, (u32, u32))> {
        let thread = |place: usize| {
            let key = self.threads.get(place * THREAD_WORDS + thread_words::KEY);
            (place, ((key >> 32) as u32, key as u32))
        };
        (0..THREADS).map(thread).filter(|(_, (pid, _))| self.pids.contains(pid))
    }

    /// The index of the thread at each place of the table.
    fn read_threads(&self, wakes: &mut Wakes) -> FxHashMap<u64, usize> {
        let mut indexes = FxHashMap::default();
        for (place, (pid, tid)) in self.traced_threads() {
            let word = |at: usize| self.threads.get(place * THREAD_WORDS + at);
            indexes.insert(place as u64, wakes.threads.len());
            // It has woken another one, but was not switched.
            let has_event = word(thread_words::SINCE) != 0;
            let times = has_event
                .then(|| ThreadTimes { run_ns: word(thread_words::RUN_NS), runnable_ns: word(thread_words::RUNNABLE_NS) });
            wakes.threads.push(TracedThread { pid, tid, name: "".into(), times });
        }
        indexes
    }

    /// The index of the futex at each place of the table.
    fn read_futexes(&self, wakes: &mut Wakes) -> FxHashMap<u64, usize> {
        let mut indexes = FxHashMap::default();
        for place in 0..FUTEXES {
            let word = |at: usize| self.futexes.get(place * FUTEX_WORDS + at);
            if word(futex_words::KEY) == 0 {
                continue;
            }
            indexes.insert(place as u64, wakes.futexes.len());
            let (pid, _) = split_halves(word(futex_words::TGID));
            wakes.futexes.push(TracedFutex {
                address: word(futex_words::ADDRESS),
                pid: (pid != 0).then_some(pid),
                waits: word(futex_words::WAITS),
                lock_values: word(futex_words::LOCK_VALUES),
                with_timeout: word(futex_words::TIMEOUTS),
                other_values: word(futex_words::OTHER_VALUES),
                wake_ups: word(futex_words::WAKES),
                passed_on: word(futex_words::PASSED_ON),
                passed_on_ns: word(futex_words::PASSED_ON_NS),
            });
        }
        indexes
    }

    fn read_edge(&self, place: usize, threads: &FxHashMap<u64, usize>, futexes: &FxHashMap<u64, usize>) -> Option<TracedWait> {
        let word = |at: usize| self.edges.get(place * EDGE_WORDS + at);
        let key = word(edge_words::KEY);
        if key == 0 {
            return None;
        }
        let thread = *threads.get(&(key >> AT_SHIFT & AT_MASK))?;
        let waker = (key >> WAKER_SHIFT & WAKER_MASK).checked_sub(1).map(|place| threads.get(&place).copied());
        let place_of = |what: u64| match what {
            _ if what & IS_FUTEX != 0 => futexes.get(&((what & 0xffff).checked_sub(1)?)).copied().map(WaitPlace::Futex),
            _ => Some(WaitPlace::Call {
                number: u16::try_from(what & NO_CALL).ok().filter(|&number| u64::from(number) != NO_CALL),
                uninterruptible: what & IN_D != 0,
            }),
        };
        let wait_ns = word(edge_words::WAIT_NS);
        Some(TracedWait {
            thread,
            place: place_of(key & PLACE_MASK)?,
            waker: waker.flatten(),
            count: word(edge_words::COUNT),
            blocked_ns: word(edge_words::BLOCKED_NS),
            held: HeldTime {
                total_ns: word(edge_words::HELD_NS),
                run_ns: word(edge_words::RUN_NS),
                runnable_ns: word(edge_words::RUNNABLE_NS),
                wait_ns,
                wait: if wait_ns > 0 { place_of(key >> HOLD_SHIFT & PLACE_MASK) } else { None },
            },
        })
    }
}

/// CLOCK_MONOTONIC, which the programs read, too.
pub fn clock_ns() -> io::Result<u64> {
    read_clock_ns(ClockId::CLOCK_MONOTONIC).ok_or_else(|| io::Error::other("CLOCK_MONOTONIC cannot be read"))
}
