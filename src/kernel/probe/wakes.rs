//! Which thread wakes which, by the eBPF programs of assets/probe/wakes.bpf.c, which count in memory that this process shares with
//! them. This process tells them which processes to watch, and reads what they have counted.
//!
//! Nothing is pinned: the programs are detached and unloaded when this process ends, however it ends.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use nix::time::ClockId;
use rustc_hash::FxHashMap;

use super::loader_process::{LoaderProcess, ProbeProgram};
use crate::kernel::fields::{lines, parse_u64};
use crate::kernel::scan::read_clock_ns;
use crate::kernel::sys::{self, SharedWords};
use crate::sample::wakes::{HeldTime, TracedFutex, TracedThread, TracedWait, WaitPlace, Wakes};

/// As in wakes.bpf.c: places of the tables, and words of 64 bits of one place.
const WATCHED_WORDS: usize = 1024;
const THREADS: usize = 4096;
const FUTEXES: usize = 1024;
const EDGES: usize = 16_384;
const THREAD_WORDS: usize = 16;
const FUTEX_WORDS: usize = 16;
const EDGE_WORDS: usize = 8;
/// `struct control`
const SINCE: usize = 0;
const WATCHED: usize = 8;
const LOST: usize = WATCHED + WATCHED_WORDS;
const CONTROL_WORDS: usize = LOST + 1;
/// `BLOCKED`
const BLOCKED: u32 = 3;
const NO_CALL: u64 = 0xffff;
const IN_D: u64 = 1 << 16;
const IS_FUTEX: u64 = 1 << 17;

/// The loaded programs. Dropping it detaches and unloads them.
#[derive(Debug)]
pub struct WakesProbe {
    /// `waking` and `switched`
    programs: [OwnedFd; 2],
    links: Vec<OwnedFd>,
    control: SharedWords,
    threads: SharedWords,
    futexes: SharedWords,
    edges: SharedWords,
    pids: Vec<u32>,
    /// CLOCK_MONOTONIC when it was last attached, and detached
    attached_ns: u64,
    detached_ns: u64,
    /// For how long it was attached
    elapsed_ns: u64,
}

/// What was counted, and which threads were blocked at the end.
#[derive(Debug, Default)]
pub struct WakeCounts {
    /// Without names, the machine, and waits that have not ended
    pub wakes: Wakes,
    /// Index into `Wakes::threads`, and how long the thread had been blocked
    pub blocked: Vec<(usize, u64)>,
}

impl WakesProbe {
    /// Loads the programs, and waits for that. `program` is this one.
    pub fn load(program: &Path) -> Result<WakesProbe, String> {
        let mut loader =
            LoaderProcess::spawn(program, ProbeProgram::Wakes).map_err(|why| format!("its loader cannot be started: {why}"))?;
        WakesProbe::new(loader.wait_for_result()?.descriptors).map_err(|why| format!("the kernel refuses the probe: {why}"))
    }

    /// Maps the memory of the programs: of the descriptors that the loader sends.
    pub fn new(descriptors: Vec<OwnedFd>) -> io::Result<WakesProbe> {
        let [waking, switched, control, threads, futexes, edges] = <[OwnedFd; 6]>::try_from(descriptors)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "its loader did not send its maps"))?;
        Ok(WakesProbe {
            control: SharedWords::map(control.as_fd(), CONTROL_WORDS)?,
            threads: SharedWords::map(threads.as_fd(), THREADS * THREAD_WORDS)?,
            futexes: SharedWords::map(futexes.as_fd(), FUTEXES * FUTEX_WORDS)?,
            edges: SharedWords::map(edges.as_fd(), EDGES * EDGE_WORDS)?,
            programs: [waking, switched],
            links: Vec::new(),
            pids: Vec::new(),
            attached_ns: 0,
            detached_ns: 0,
            elapsed_ns: 0,
        })
    }

    /// Has the threads of these processes counted.
    pub fn watch(&mut self, pids: &[u32]) {
        for &pid in pids {
            let at = WATCHED + pid as usize / 64 % WATCHED_WORDS;
            self.control.set(at, self.control.get(at) | 1 << (pid % 64));
        }
        self.pids = pids.to_vec();
    }

    /// Counts from now on.
    pub fn attach(&mut self) -> io::Result<()> {
        self.attached_ns = monotonic_ns()?;
        self.control.set(SINCE, self.attached_ns);
        for program in &self.programs {
            self.links.push(sys::bpf_raw_tracepoint_open(program.as_fd())?);
        }
        Ok(())
    }

    /// Stops counting: switches cost nothing more then.
    pub fn detach(&mut self) -> io::Result<()> {
        self.links.clear();
        self.detached_ns = monotonic_ns()?;
        self.elapsed_ns += self.detached_ns.saturating_sub(self.attached_ns);
        Ok(())
    }

    /// What was counted while it was attached.
    pub fn read(&self) -> WakeCounts {
        let mut counts = WakeCounts::default();
        let threads = self.read_threads(&mut counts);
        let futexes = self.read_futexes(&mut counts.wakes);
        let edges = (0..EDGES).filter_map(|place| self.read_edge(place, &threads, &futexes));
        counts.wakes.waits = edges.collect();
        counts.wakes.elapsed_ns = self.elapsed_ns;
        counts.wakes.lost_events = self.control.get(LOST).saturating_add(self.programs.iter().map(missed_events).sum());
        counts
    }

    /// The index of the thread at each place of the table.
    fn read_threads(&self, counts: &mut WakeCounts) -> FxHashMap<u64, usize> {
        let mut indexes = FxHashMap::default();
        for place in 0..THREADS {
            let word = |at: usize| self.threads.get(place * THREAD_WORDS + at);
            let (key, since) = (word(0), word(1));
            let (pid, tid) = ((key >> 32) as u32, key as u32);
            // Of another process with the same bit, or of none.
            if !self.pids.contains(&pid) {
                continue;
            }
            let index = counts.wakes.threads.len();
            indexes.insert(place as u64, index);
            let (state, _) = halves(word(2));
            if state == BLOCKED && since >= self.attached_ns {
                counts.blocked.push((index, self.detached_ns.saturating_sub(since)));
            }
            let (run_ns, runnable_ns) = (word(3), word(4));
            counts.wakes.threads.push(TracedThread { pid, tid, name: "".into(), run_ns, runnable_ns });
        }
        indexes
    }

    /// The index of the futex at each place of the table.
    fn read_futexes(&self, wakes: &mut Wakes) -> FxHashMap<u64, usize> {
        let mut indexes = FxHashMap::default();
        for place in 0..FUTEXES {
            let word = |at: usize| self.futexes.get(place * FUTEX_WORDS + at);
            if word(0) == 0 {
                continue;
            }
            indexes.insert(place as u64, wakes.futexes.len());
            let (pid, _) = halves(word(2));
            wakes.futexes.push(TracedFutex {
                address: word(1),
                pid: (pid != 0).then_some(pid),
                waits: word(3),
                lock_values: word(4),
                with_timeout: word(5),
                other_values: word(6),
                wake_ups: word(9),
                passed_on: word(10),
                passed_on_ns: word(11),
            });
        }
        indexes
    }

    fn read_edge(&self, place: usize, threads: &FxHashMap<u64, usize>, futexes: &FxHashMap<u64, usize>) -> Option<TracedWait> {
        let word = |at: usize| self.edges.get(place * EDGE_WORDS + at);
        let key = word(0);
        let thread = *threads.get(&(key >> 40 & 0x1fff))?;
        let waker = (key >> 20 & 0xf_ffff).checked_sub(1).map(|place| threads.get(&place).copied());
        let place_of = |what: u64| match what {
            _ if what & IS_FUTEX != 0 => futexes.get(&((what & 0xffff).checked_sub(1)?)).copied().map(WaitPlace::Futex),
            _ => Some(WaitPlace::Call {
                number: u16::try_from(what & NO_CALL).ok().filter(|&number| u64::from(number) != NO_CALL),
                uninterruptible: what & IN_D != 0,
            }),
        };
        let wait_ns = word(6);
        Some(TracedWait {
            thread,
            place: place_of(key & 0xf_ffff)?,
            waker: waker.flatten(),
            count: word(1),
            blocked_ns: word(2),
            held: HeldTime {
                total_ns: word(3),
                run_ns: word(4),
                runnable_ns: word(5),
                wait_ns,
                wait: if wait_ns > 0 { place_of(word(7)) } else { None },
            },
        })
    }
}

fn monotonic_ns() -> io::Result<u64> {
    read_clock_ns(ClockId::CLOCK_MONOTONIC).ok_or_else(|| io::ErrorKind::Unsupported.into())
}

/// Two numbers of 32 bits, the first one at the lower address.
fn halves(word: u64) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
    (u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h]))
}

/// Events during which the program was running already on that CPU: `recursion_misses` of its descriptor.
fn missed_events(program: &OwnedFd) -> u64 {
    let text = std::fs::read(format!("/proc/self/fdinfo/{}", program.as_raw_fd())).unwrap_or_default();
    let missed = lines(&text).find_map(|line| line.strip_prefix(b"recursion_misses:"));
    missed.and_then(|number| parse_u64(number.trim_ascii())).unwrap_or(0)
}
