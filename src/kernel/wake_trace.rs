//! A trace of some processes: which ones, by the programs of `probe/wakes`, with the names of their threads and the waits that have not
//! ended.

use std::io;
use std::path::Path;
use std::time::Duration;

use nix::time::ClockId;
use rustc_hash::FxHashMap;
use thiserror::Error;

use super::fields::{lines, parse_u64};
use super::probe::block_latencies::obstacle;
use super::probe::wakes::WakesProbe;
use super::root::Root;
use super::scan::read_clock_ns;
use super::task::files::TaskFiles;
use super::task::{parse_stat, parse_syscall};
use crate::sample::task::{RawSyscall, TaskState};
use crate::sample::waits::Syscall;
use crate::sample::waits::syscall::is_shared_operation;
use crate::sample::wakes::{HeldTime, TracedFutex, TracedProcess, TracedThread, TracedWait, WaitPlace, Wakes};
use crate::sample::{Absent, Name};

/// Threads of a process, or of processes of one name and parent, in futex calls from which it is traced without being named.
pub const MIN_FUTEX_WAITERS: usize = 4;
/// Processes at most; each takes a look at its threads.
const MAX_PROCESSES: usize = 256;

/// CPU time that the programs add to a context switch and the wake-up before it: docs/cost.md. Nearly all of it is what the kernel takes
/// to call a program at a tracepoint.
const NS_PER_SWITCH: u64 = 210;
/// After so long it is looked whether they take too much.
const SLICE_NS: u64 = 100_000_000;

/// Why there is no trace.
#[derive(Debug, Error)]
pub enum TraceError {
    #[error("{0}")]
    NotPossible(&'static str),
    #[error("{0}")]
    Probe(String),
    #[error("there is no process {0}")]
    NoProcess(u32),
    #[error("/proc cannot be read: {0}")]
    NoProc(Absent),
}

/// An attached trace.
#[derive(Debug)]
pub struct WakeTrace {
    root: Root,
    files: TaskFiles,
    probe: WakesProbe,
    machine: Name,
    pids: Vec<u32>,
    /// CLOCK_REALTIME and CLOCK_MONOTONIC of the beginning
    began_ns: (u64, u64),
    /// Of one CPU that the programs may take; `None`: any
    max_cpu_share: Option<f64>,
}

/// Why these programs cannot be loaded here, before it is tried.
pub fn trace_obstacle(root: &Root) -> Result<(), TraceError> {
    if !root.is_host() {
        return Err(TraceError::NotPossible("captured files have no kernel"));
    }
    let files = TaskFiles::open(root).map_err(TraceError::NoProc)?;
    if let Some((_, why)) = obstacle(root) {
        return Err(TraceError::NotPossible(why));
    }
    if !files.is_in_initial_pid_namespace() {
        return Err(TraceError::NotPossible(
            "this is a pid namespace of its own, and the kernel numbers threads as the host does",
        ));
    }
    Ok(())
}

/// Loads the programs, attaches and detaches them: for `doctor`. `program` is this one.
pub fn try_to_attach(root: &Root, program: &Path) -> Result<(), TraceError> {
    trace_obstacle(root)?;
    let mut probe = WakesProbe::load(program).map_err(TraceError::Probe)?;
    probe.attach().map_err(refused)
}

fn refused(why: io::Error) -> TraceError {
    TraceError::Probe(format!("the kernel refuses the probe: {why}"))
}

/// Processes with `MIN_FUTEX_WAITERS` threads in futex calls, alone or together with others of their name and parent. Not this one.
pub fn waiting_processes(root: &Root, machine: &Name) -> Result<Vec<u32>, TraceError> {
    let mut files = TaskFiles::open(root).map_err(TraceError::NoProc)?;
    let (mut pids, mut tids) = (Vec::new(), Vec::new());
    files.list_processes(&mut pids);
    let mut found: Vec<(u32, Family, usize)> = Vec::new();
    for pid in pids.into_iter().filter(|&pid| pid != std::process::id()) {
        // Kernel threads have no system call, and processes may end meanwhile.
        let Some(family) = family_of(&mut files, pid) else { continue };
        if files.list_threads(pid, &mut tids).is_err() {
            continue;
        }
        let in_futex = tids.iter().filter(|&&tid| futex_call(&mut files, machine, pid, tid).is_some()).count();
        if in_futex > 0 {
            found.push((pid, family, in_futex));
        }
    }
    let mut families: FxHashMap<&Family, usize> = FxHashMap::default();
    for (_, family, in_futex) in &found {
        *families.entry(family).or_default() += in_futex;
    }
    let mut chosen: Vec<(usize, u32)> = found
        .iter()
        .map(|(pid, family, in_futex)| (families.get(family).copied().unwrap_or(*in_futex), *pid))
        .filter(|&(waiters, _)| waiters >= MIN_FUTEX_WAITERS)
        .collect();
    chosen.sort_by_key(|&(waiters, pid)| (std::cmp::Reverse(waiters), pid));
    Ok(chosen.into_iter().take(MAX_PROCESSES).map(|(_, pid)| pid).collect())
}

/// The clock; 0 if it cannot be read.
fn clock_ns(clock: ClockId) -> u64 {
    read_clock_ns(clock).unwrap_or(0)
}

/// Parent and name.
type Family = (u32, Vec<u8>);

fn family_of(files: &mut TaskFiles, pid: u32) -> Option<Family> {
    let stat = parse_stat(files.read_once(format_args!("{pid}/stat")).ok()?)?;
    (!stat.kernel_thread).then(|| (stat.ppid, stat.comm.to_vec()))
}

/// The futex call in which a thread is.
fn futex_call(files: &mut TaskFiles, machine: &Name, pid: u32, tid: u32) -> Option<Syscall> {
    let call = parse_syscall(files.read_once(format_args!("{pid}/task/{tid}/syscall")).ok()?).ok()?;
    Syscall::from_number(machine.as_bytes(), call).filter(|call| call.name == "futex")
}

impl WakeTrace {
    /// Loads the programs. `program` is this one. With a share, they are attached for so much of the time that they take at most
    /// that much of one CPU.
    pub fn new(
        root: &Root,
        program: &Path,
        machine: &Name,
        pids: &[u32],
        max_cpu_share: Option<f64>,
    ) -> Result<WakeTrace, TraceError> {
        trace_obstacle(root)?;
        if let Some(&missing) = pids.iter().find(|&&pid| !root.exists(format!("proc/{pid}/task/{pid}"))) {
            return Err(TraceError::NoProcess(missing));
        }
        let probe = WakesProbe::load(program).map_err(TraceError::Probe)?;
        WakeTrace::with_probe(root, probe, machine, pids, max_cpu_share)
    }

    fn with_probe(
        root: &Root,
        mut probe: WakesProbe,
        machine: &Name,
        pids: &[u32],
        max_cpu_share: Option<f64>,
    ) -> Result<WakeTrace, TraceError> {
        let files = TaskFiles::open(root).map_err(TraceError::NoProc)?;
        probe.watch(pids);
        let began_ns = (clock_ns(ClockId::CLOCK_REALTIME), clock_ns(ClockId::CLOCK_MONOTONIC));
        Ok(WakeTrace {
            root: root.clone(),
            files,
            probe,
            machine: machine.clone(),
            pids: pids.to_vec(),
            began_ns,
            max_cpu_share,
        })
    }

    /// Counts for this time. `wait` waits for a time, and returns whether it was ended before.
    pub fn run(&mut self, span: Duration, mut wait: impl FnMut(Duration) -> bool) -> Result<(), TraceError> {
        let end = clock_ns(ClockId::CLOCK_MONOTONIC).saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX));
        loop {
            self.probe.attach().map_err(refused)?;
            let (ended, pause_ns) = self.count_while_cheap(end, &mut wait);
            self.probe.detach().map_err(refused)?;
            let left = end.saturating_sub(clock_ns(ClockId::CLOCK_MONOTONIC));
            if ended || left == 0 || wait(Duration::from_nanos(pause_ns.min(left))) || pause_ns >= left {
                return Ok(());
            }
        }
    }

    /// Waits until the end, or until the programs have taken too much. Returns whether `wait` was ended before, and for how long they
    /// are to be detached.
    fn count_while_cheap(&mut self, end: u64, wait: &mut impl FnMut(Duration) -> bool) -> (bool, u64) {
        loop {
            let (began, switches) = (clock_ns(ClockId::CLOCK_MONOTONIC), self.switches());
            let slice = end.saturating_sub(began).min(SLICE_NS);
            if slice == 0 || wait(Duration::from_nanos(slice)) {
                return (slice != 0, 0);
            }
            let elapsed = clock_ns(ClockId::CLOCK_MONOTONIC).saturating_sub(began);
            let cost_ns = self.switches().saturating_sub(switches).saturating_mul(NS_PER_SWITCH);
            let Some(share) = self.max_cpu_share else { continue };
            let pause_ns = ((cost_ns as f64 / share) as u64).saturating_sub(elapsed);
            if pause_ns > 0 {
                return (false, pause_ns);
            }
        }
    }

    /// Context switches of the machine since boot; 0 if they cannot be read.
    fn switches(&mut self) -> u64 {
        let stat = self.root.read_once("proc/stat").unwrap_or_default();
        let count = lines(&stat).find_map(|line| line.strip_prefix(b"ctxt "));
        count.and_then(|count| parse_u64(count.trim_ascii())).unwrap_or(0)
    }

    /// What was counted.
    pub fn finish(mut self) -> Wakes {
        let counts = self.probe.read();
        let (realtime_ns, monotonic_ns) = self.began_ns;
        let span_ns = clock_ns(ClockId::CLOCK_MONOTONIC).saturating_sub(monotonic_ns);
        let mut wakes = Wakes { machine: self.machine.clone(), realtime_ns, span_ns, ..counts.wakes };
        let known: FxHashMap<u32, usize> = wakes.threads.iter().enumerate().map(|(at, thread)| (thread.tid, at)).collect();
        let blocked: FxHashMap<usize, u64> = counts.blocked.into_iter().collect();
        let mut tids = Vec::new();
        for pid in std::mem::take(&mut self.pids) {
            let Some((_, name)) = family_of(&mut self.files, pid) else { continue };
            wakes.processes.push(TracedProcess { pid, name: Name::from(name.as_slice()) });
            // It has ended since, if this fails.
            let _ = self.files.list_threads(pid, &mut tids);
            for &tid in &tids {
                self.add_thread(&mut wakes, (pid, tid), &known, &blocked);
            }
        }
        wakes
    }

    /// Adds the name of a thread, and the wait in which it has been since before or within the trace.
    fn add_thread(
        &mut self,
        wakes: &mut Wakes,
        (pid, tid): (u32, u32),
        known: &FxHashMap<u32, usize>,
        blocked: &FxHashMap<usize, u64>,
    ) {
        let Ok(stat) = self.files.read_once(format_args!("{pid}/task/{tid}/stat")) else { return };
        let Some((name, state)) = parse_stat(stat).map(|stat| (Name::from(stat.comm), stat.state)) else { return };
        let index = match known.get(&tid) {
            Some(&index) => index,
            None => {
                wakes.threads.push(TracedThread { pid, tid, name: "".into(), run_ns: 0, runnable_ns: 0 });
                wakes.threads.len() - 1
            }
        };
        if let Some(thread) = wakes.threads.get_mut(index) {
            thread.name = name;
        }
        let blocked_ns = match known.contains_key(&tid) {
            true => blocked.get(&index).copied(),
            false => Some(wakes.elapsed_ns),
        };
        let (Some(blocked_ns), TaskState::Sleeping | TaskState::Blocked) = (blocked_ns, state) else { return };
        let call = self.files.read_once(format_args!("{pid}/task/{tid}/syscall")).and_then(parse_syscall);
        // It runs by now, or its call is not readable.
        let Ok(call) = call else { return };
        let place = self.place(wakes, pid, call, state);
        let held = HeldTime::default();
        wakes.waits.push(TracedWait { thread: index, place, waker: None, count: 0, blocked_ns, held });
    }

    fn place(&self, wakes: &mut Wakes, pid: u32, call: RawSyscall, state: TaskState) -> WaitPlace {
        let futex = Syscall::from_number(self.machine.as_bytes(), call).filter(|call| call.futex_wait().is_some());
        let Some([address, operation, _]) = futex.map(|call| call.arguments) else {
            return WaitPlace::Call { number: u16::try_from(call.number).ok(), uninterruptible: state == TaskState::Blocked };
        };
        let pid = (!is_shared_operation(operation)).then_some(pid);
        let same = wakes.futexes.iter().position(|futex| (futex.address, futex.pid) == (address, pid));
        WaitPlace::Futex(same.unwrap_or_else(|| {
            wakes.futexes.push(TracedFutex { address, pid, ..TracedFutex::default() });
            wakes.futexes.len() - 1
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::thread;

    use super::*;
    use crate::kernel::host::machine_architecture;
    use crate::kernel::probe::loader_process::ProbeProgram;
    use crate::kernel::probe::program_loader::load_program;

    const THREADS: usize = 5;
    const HOLDS: usize = 20;

    /// Threads that hold a mutex of Rust's standard library in turn, for a millisecond each.
    fn hold_in_turn(mutex: &Mutex<()>) -> Vec<u32> {
        let work = || {
            for _ in 0..HOLDS {
                let held = mutex.lock().unwrap();
                thread::sleep(Duration::from_millis(1));
                drop(held);
                thread::yield_now();
            }
            nix::unistd::gettid().as_raw().cast_unsigned()
        };
        thread::scope(|scope| {
            let all: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
            all.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    #[test]
    fn the_threads_that_hold_a_mutex_are_those_that_wake_its_waiters() {
        let root = Root::host();
        let loaded = trace_obstacle(&root).map_err(|why| why.to_string());
        let loaded = loaded.and_then(|()| load_program(ProbeProgram::Wakes).map_err(|why| why.to_string()));
        let descriptors = match loaded {
            Ok(loaded) => loaded.descriptors,
            Err(why) => return println!("skipped: {why}"),
        };
        let probe = WakesProbe::new(descriptors).unwrap();
        let machine = machine_architecture(&root).unwrap_or_default();
        let mut trace = WakeTrace::with_probe(&root, probe, &machine, &[std::process::id()], None).unwrap();
        let mutex = Mutex::new(());
        let mut tids = Vec::new();
        let end_with_the_threads = |_| {
            tids = hold_in_turn(&mutex);
            true
        };
        trace.run(Duration::from_secs(60), end_with_the_threads).unwrap();
        let wakes = trace.finish();
        let word = std::ptr::from_ref(&mutex) as u64;
        let is_ours = |futex: &TracedFutex| futex.address == word && futex.pid == Some(std::process::id());
        let index = wakes.futexes.iter().position(is_ours).expect("the futex word is the first of a mutex");
        let futex = &wakes.futexes[index];
        assert!(futex.wake_ups > 0 && futex.lock_values == futex.waits && futex.with_timeout == 0, "{futex:?}");
        let wakers = wakes.waits.iter().filter(|wait| wait.place == WaitPlace::Futex(index)).filter_map(|wait| wait.waker);
        let wakers: Vec<u32> = wakers.map(|waker| wakes.threads[waker].tid).collect();
        assert!(wakers.iter().all(|waker| tids.contains(waker)), "{wakers:?} of {tids:?}");
        assert_eq!(wakes.lost_events, 0);
        assert!(wakes.processes.iter().any(|process| process.pid == std::process::id()));
    }

    #[test]
    fn captured_files_cannot_be_traced() {
        let why = trace_obstacle(&Root::at_directory("/nonexistent".into())).unwrap_err();
        assert_eq!(why.to_string(), "captured files have no kernel");
    }
}
