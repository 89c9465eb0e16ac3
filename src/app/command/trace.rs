//! `trace`: which thread wakes which, for some seconds, and the wait-for graph that follows.

use std::sync::mpsc;

use crate::app::config::Settings;
use crate::app::program::exit::{Exit, Failure};
use crate::app::program::privileges::HOST_PIDS;
use crate::app::program::signals::TerminationSignals;
use crate::app::program::stdio;
use crate::app::sampling::MAX_PROBE_CPU_SHARE;
use crate::cli::trace::Trace;
use crate::cli::{Configuration, ProbeMode};
use crate::interval::wait_graph::wait_graph;
use crate::kernel::host::machine_architecture;
use crate::kernel::probe::kernel_has_cap_bpf;
use crate::kernel::probe::loader_process::own_executable;
use crate::kernel::root::Root;
use crate::kernel::wake_trace::{
    MIN_FUTEX_WAITERS, TraceError, WaitingProcesses, WakeTrace, trace_obstacle, waiting_processes,
};
use crate::report::wait_graph as report;
use crate::sample::wakes::Wakes;
use crate::units::format::pluralize;

pub fn trace(root: &Root, configuration: &Configuration, trace: &Trace) -> Result<Exit, Failure> {
    let signals = TerminationSignals::block().map_err(|error| Failure::new(Exit::Failed, "cannot trace", error, ""))?;
    let settings = Settings::load_and_warn(root, configuration)?;
    if settings.probes() == ProbeMode::Off {
        return Err(Failure::new(Exit::Refused, "cannot trace", "probes = \"off\"", "give --probes on"));
    }
    let wakes = wakes(root, &settings, trace, signals)?;
    let graph = wait_graph(&wakes);
    match trace.json {
        true => stdio::print(&report::json(&wakes, &graph)),
        false => stdio::print_localized(&report::text(&wakes, &graph)),
    }
    .map(|_| Exit::Success)
}

/// Traces, until the time is over, all processes have ended, or a signal ends it.
fn wakes(root: &Root, settings: &Settings, trace: &Trace, signals: TerminationSignals) -> Result<Wakes, Failure> {
    trace_obstacle(root).map_err(failure)?;
    let machine = machine_architecture(root).unwrap_or_default();
    let max_cpu_share = (settings.probes() == ProbeMode::Auto).then_some(MAX_PROBE_CPU_SHARE);
    let begin = |pids: &[u32]| WakeTrace::new(root, &own_executable(), &machine, pids, max_cpu_share);
    let (mut running, found) = match trace.pids.as_slice() {
        [] => trace_waiting(waiting_processes(root, &machine).map_err(failure)?, begin)?,
        pids => (begin(pids).map_err(failure)?, WaitingProcesses::default()),
    };
    let (stop, stopped) = mpsc::channel();
    signals.on_signal(move || {
        // The trace may be over.
        let _ = stop.send(());
    })?;
    // A signal ends it earlier, with what was counted until then.
    running.run(trace.span, |time| stopped.recv_timeout(time).is_ok()).map_err(failure)?;
    let wakes = running.finish().map_err(failure)?;
    let hidden_threads = wakes.hidden_threads.max(found.hidden_threads);
    Ok(Wakes { processes_left_out: found.left_out, hidden_threads, ..wakes })
}

/// Begins a trace of those of these processes that still exist.
fn trace_waiting(
    mut found: WaitingProcesses,
    begin: impl Fn(&[u32]) -> Result<WakeTrace, TraceError>,
) -> Result<(WakeTrace, WaitingProcesses), Failure> {
    while !found.pids.is_empty() {
        match begin(&found.pids) {
            Ok(running) => return Ok((running, found)),
            Err(TraceError::NoProcess(ended)) => found.pids.retain(|&pid| pid != ended),
            Err(error) => return Err(failure(error)),
        }
    }
    let (why, remedy) = match found.hidden_threads {
        0 => (format!("no process has {MIN_FUTEX_WAITERS} threads in futex calls"), "give the PID of a process"),
        hidden => (
            format!("system calls of {} cannot be read", pluralize(hidden, "thread")),
            "run it as root, or with CAP_SYS_PTRACE, too",
        ),
    };
    Err(Failure::new(Exit::Failed, "nothing to trace", why, remedy))
}

fn failure(error: TraceError) -> Failure {
    let (exit, remedy) = match &error {
        TraceError::NoProcess(_) | TraceError::NoSwitches(_) | TraceError::NoClock(_) => (Exit::Failed, ""),
        TraceError::CannotWatch(..) => (Exit::Failed, "give fewer processes"),
        TraceError::NoProc(_) => (Exit::NoProc, "mount it: mount -t proc proc /proc"),
        TraceError::NotPossible(_) if kernel_has_cap_bpf() => {
            (Exit::Refused, "run it on the host as root, or with CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE")
        }
        TraceError::OtherPidNamespace => (Exit::Refused, HOST_PIDS),
        TraceError::NotPossible(_) | TraceError::Probe(_) => {
            (Exit::Refused, "Linux 5.15 or later with eBPF (CONFIG_BPF_SYSCALL) is needed")
        }
    };
    Failure::new(exit, "cannot trace", error, remedy)
}
