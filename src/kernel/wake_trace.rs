//! A trace of some processes by the programs of `probe/wakes`: for how long these are attached, and when it ends.

mod processes;
mod uncounted_times;

use std::io;
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::time::ClockId;
use thiserror::Error;

use self::processes::TracedProcesses;
pub use self::processes::{MAX_PROCESSES, MIN_FUTEX_WAITERS, WaitingProcesses, waiting_processes};
use self::uncounted_times::UncountedTimes;
use super::fields::{lines, parse_u64};
use super::probe::loader_process::TaskAccess;
use super::probe::permission_obstacle;
use super::probe::probe_error::ProbeError;
use super::probe::wakes::{WakesProbe, clock_ns};
use super::root::Root;
use super::task::files::TaskFiles;
use crate::sample::wakes::Wakes;
use crate::sample::{Absent, Name, Reading};

/// CPU time that the programs add to a context switch and the wake-up before it: docs/cost.md. Nearly all of it is what the kernel takes
/// to call a program at a tracepoint.
fn ns_per_switch(access: TaskAccess) -> u64 {
    match access {
        TaskAccess::Types => 210,
        TaskAccess::Layout => 290,
    }
}

/// After so long it is checked whether they take too much, and whether the processes have ended.
const SLICE_NS: u64 = 100_000_000;

/// Why there is no trace.
#[derive(Debug, Error)]
pub enum TraceError {
    #[error("{0}")]
    NotPossible(&'static str),
    #[error("this is a pid namespace of its own, and the kernel numbers threads as the host does")]
    OtherPidNamespace,
    #[error(transparent)]
    Probe(ProbeError),
    #[error("there is no process {0}")]
    NoProcess(u32),
    #[error("it cannot be seen when process {0} ends: {1}")]
    CannotWatch(u32, Errno),
    #[error("/proc cannot be read: {0}")]
    NoProc(Absent),
    #[error("context switches, by which the cost is limited, cannot be read (ctxt of /proc/stat): {0}")]
    NoSwitches(Absent),
    #[error(transparent)]
    NoClock(io::Error),
}

/// An attached trace.
#[derive(Debug)]
pub struct WakeTrace {
    root: Root,
    files: TaskFiles,
    probe: WakesProbe,
    machine: Name,
    processes: TracedProcesses,
    uncounted: UncountedTimes,
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
    if let Some(why) = permission_obstacle() {
        return Err(TraceError::NotPossible(why));
    }
    if !files.is_in_initial_pid_namespace() {
        return Err(TraceError::OtherPidNamespace);
    }
    Ok(())
}

/// Loads the programs, attaches and detaches them: for `doctor`; how they read what the kernel has of a task. `program`: the path
/// of stalltop, run again as the loader.
pub fn try_to_attach(root: &Root, program: &Path) -> Result<TaskAccess, TraceError> {
    trace_obstacle(root)?;
    let mut probe = WakesProbe::load(program).map_err(TraceError::Probe)?;
    probe.attach().map_err(refused)?;
    Ok(probe.access())
}

fn refused(why: io::Error) -> TraceError {
    TraceError::Probe(ProbeError::Refused(why))
}

impl WakeTrace {
    /// Loads the programs. `program`: the path of stalltop, run again as the loader. With a share, they are attached for so much
    /// of the time that they take at most that much of one CPU.
    pub fn new(
        root: &Root,
        program: &Path,
        machine: &Name,
        pids: &[u32],
        max_cpu_share: Option<f64>,
    ) -> Result<WakeTrace, TraceError> {
        trace_obstacle(root)?;
        let mut files = TaskFiles::open(root).map_err(TraceError::NoProc)?;
        let processes = TracedProcesses::open(&mut files, pids)?;
        let probe = WakesProbe::load(program).map_err(TraceError::Probe)?;
        WakeTrace::with_probe(root, probe, machine, processes, max_cpu_share)
    }

    fn with_probe(
        root: &Root,
        mut probe: WakesProbe,
        machine: &Name,
        processes: TracedProcesses,
        max_cpu_share: Option<f64>,
    ) -> Result<WakeTrace, TraceError> {
        let mut files = TaskFiles::open(root).map_err(TraceError::NoProc)?;
        probe.watch(&processes.running());
        let uncounted = UncountedTimes::with_names(&mut files, &processes.running());
        Ok(WakeTrace {
            root: root.clone(),
            files,
            probe,
            machine: machine.clone(),
            processes,
            uncounted,
            began_ns: (super::clock::clock_ns(ClockId::CLOCK_REALTIME), monotonic_ns()?),
            max_cpu_share,
        })
    }

    /// Counts for this time, or until all processes have ended. `wait` waits for a time, and returns whether it was ended before.
    pub fn run(&mut self, span: Duration, mut wait: impl FnMut(Duration) -> bool) -> Result<(), TraceError> {
        let end = monotonic_ns()?.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX));
        loop {
            self.probe.attach().map_err(refused)?;
            let pause = self.count_while_cheap(end, &mut wait);
            self.probe.detach().map_err(refused)?;
            let cpu_ns = super::clock::clock_ns(ClockId::CLOCK_THREAD_CPUTIME_ID);
            self.uncounted.add(&mut self.files, &self.machine, &self.processes.running(), &self.probe);
            let cpu_ns = super::clock::clock_ns(ClockId::CLOCK_THREAD_CPUTIME_ID).saturating_sub(cpu_ns);
            let Some(pause_ns) = pause? else { return Ok(()) };
            if self.pause(pause_ns.saturating_add(self.time_for(cpu_ns)), end, &mut wait)? {
                return Ok(());
            }
        }
    }

    /// Waits until the programs have taken too much; returns for how long they are to be detached, or `None` at the end of the trace.
    fn count_while_cheap(&mut self, end: u64, wait: &mut impl FnMut(Duration) -> bool) -> Result<Option<u64>, TraceError> {
        loop {
            let (began, switches) = (monotonic_ns()?, self.switches());
            if self.wait_for_slice(end.saturating_sub(began), wait) {
                return Ok(None);
            }
            if self.max_cpu_share.is_none() {
                continue;
            }
            let elapsed = monotonic_ns()?.saturating_sub(began);
            let switches = self.switches().and_then(|now| Ok(now.saturating_sub(switches?))).map_err(TraceError::NoSwitches)?;
            let pause_ns = self.time_for(switches.saturating_mul(ns_per_switch(self.probe.access()))).saturating_sub(elapsed);
            if pause_ns > 0 {
                return Ok(Some(pause_ns));
            }
        }
    }

    /// Waits, detached, for this time. Returns whether this is the end of the trace.
    fn pause(&mut self, pause_ns: u64, end: u64, wait: &mut impl FnMut(Duration) -> bool) -> Result<bool, TraceError> {
        let until = monotonic_ns()?.saturating_add(pause_ns);
        loop {
            let now = monotonic_ns()?;
            if now >= until {
                return Ok(now >= end);
            }
            if self.wait_for_slice(until.min(end).saturating_sub(now), wait) {
                return Ok(true);
            }
        }
    }

    /// Waits for this time, in ns, or a slice. Returns whether there was nothing to wait for, `wait` was ended before, or all processes
    /// have ended.
    fn wait_for_slice(&mut self, left_ns: u64, wait: &mut impl FnMut(Duration) -> bool) -> bool {
        if left_ns == 0 || wait(Duration::from_nanos(left_ns.min(SLICE_NS))) {
            return true;
        }
        if !self.processes.find_ended() {
            return false;
        }
        let running = self.processes.running();
        // The pids of the others may be given to other processes.
        self.probe.watch(&running);
        running.is_empty()
    }

    /// How long it takes, in ns, until this CPU time is the share that is allowed.
    fn time_for(&self, cpu_ns: u64) -> u64 {
        self.max_cpu_share.map_or(0, |share| (cpu_ns as f64 / share) as u64)
    }

    /// Context switches of the machine since boot.
    fn switches(&self) -> Reading<u64> {
        let stat = self.root.read_once("proc/stat")?;
        let count = lines(&stat).find_map(|line| line.strip_prefix(b"ctxt ")).ok_or(Absent::NoSuchFile)?;
        parse_u64(count.trim_ascii()).ok_or(Absent::Malformed)
    }

    /// What was counted.
    pub fn finish(self) -> Result<Wakes, TraceError> {
        let (realtime_ns, monotonic_before_ns) = self.began_ns;
        let mut wakes = Wakes {
            machine: self.machine,
            realtime_ns,
            span_ns: monotonic_ns()?.saturating_sub(monotonic_before_ns),
            processes: self.processes.into_sample(),
            ..self.probe.read()
        };
        self.uncounted.into_sample(&mut wakes);
        Ok(wakes)
    }
}

fn monotonic_ns() -> Result<u64, TraceError> {
    clock_ns().map_err(TraceError::NoClock)
}

#[cfg(test)]
#[cfg(not(target_arch = "x86"))]
mod tests;
