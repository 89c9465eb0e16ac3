//! Rule stuck-server: connections wait for a process that is stopped or frozen, or behind a lock whose holder uses no CPU.
//! `interval::stuck_servers` finds them.

use super::lock_holder::describe_lock_holder;
use crate::findings::finding::{Evidence, Kind, Severity, Subject};
use crate::findings::formatting::{duration, lossy_name, plural, singular_or_plural};
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{
    Candidate, RuleContext, evidence_lock_chain, evidence_number, evidence_optional, evidence_text,
};
use crate::findings::server_causes::{BEHIND_FILE_LOCK, BEHIND_MUTEX};
use crate::findings::wait_chain::holder::{describe_halt, describe_process_group};
use crate::findings::wait_chain::link::{ChainConfidence, ChainLink};
use crate::findings::wait_chain::named_holder::{describe_named_holder, holder_confidence, known_by, named_holder_evidence};
use crate::interval::lock_holders::LockHolder;
use crate::interval::stuck_servers::{Halt, StuckCause, StuckServers};
use crate::interval::wait_queues::{WaitQueueKind, WaitQueueSpan};
use crate::units::reaches_threshold;

pub const STUCK_SERVER: Rule = Rule {
    kind: Kind::StuckServer,
    title: "Stuck server",
    meaning: "Connections of clients, or processes that write to its pipe, wait for a process that serves nothing: it is stopped by a \
              signal (SIGSTOP, ^Z) or a debugger, its cgroup is frozen, or its threads wait for a mutex or the lock of a file whose \
              holder uses no CPU and is not on storage. CPUs and disks look idle. (A server that waits for storage is \
              idle-but-blocked.)",
    computed: "A stopped or frozen process: every thread is in state T or t, or in the kernel's freezer. A process behind a lock: its \
               threads wait for a mutex that is certainly held (several futex calls with one address) or for the lock of a file in half \
               of the sub-samples, run in at most a fifth, and its group has no thread on storage. Connections count at addresses at \
               which this host listens: with unread data, and those in the accept queue of its listening socket (of a stopped process \
               only if no related process of the same name runs, which may accept them); behind a lock also those whose request is \
               read and not answered. A process that writes counts if it waits in a pipe of which a stopped process has the read end, \
               also over several pipes. A warning with one connection or behind a lock, critical with two connections of a stopped \
               process without a debugger.",
    caveats: "A paused container or a process under a debugger may be stopped on purpose. The holder of a mutex is named only if the \
              mutex names it (glibc, priority inheritance) or wake-ups show it (Rust, as root), and half of the threads in mutexes wait \
              for it. Clients that gave up, but whose connection is still open, count too.",
    next_steps: &[
        "a stopped process: kill -CONT PID; /proc/PID/status, TracerPid; the state of its container",
        "a lock: what the holder waits for (screen 5, Enter); gdb -p PID, thread apply all bt; lslocks for file locks",
    ],
    reference: "Stuck servers",
    hysteresis: Hysteresis::TwoOfThree,
    evaluate: stuck_server,
};

fn stuck_server(context: &RuleContext) -> Vec<Candidate> {
    context.interval.stuck_servers.iter().map(|server| candidate(context, server)).collect()
}

fn candidate(context: &RuleContext, server: &StuckServers) -> Candidate {
    let label = describe_process_group(&server.group, &server.label);
    let connections = plural(f64::from(server.connections), "connection waits", "connections wait");
    let waiters = describe_waiters(context, server, "it");
    let sentence = match &server.cause {
        StuckCause::Halted(halt, seconds) => {
            let time = seconds.map_or_else(String::new, |seconds| format!(" for {}", duration(seconds)));
            let verb = if server.label.processes > 1 { "are" } else { "is" };
            format!("{label} {verb} {}{time}: {waiters}", describe_halt(*halt))
        }
        StuckCause::Lock(queue) => format!("{label}: {}; {connections} for it", describe_queue(context, server, queue)),
    };
    let available = context.interval.idle_blocked.as_ref().map_or(0.0, |blocked| blocked.available * context.cpu_count());
    Candidate {
        severity: match &server.cause {
            StuckCause::Halted(Halt::Signal | Halt::Freezer, _) if server.connections > 1 => Severity::Critical,
            _ => Severity::Warning,
        },
        subject: Subject::Group { id: server.group.clone(), name: server.label.name.clone() },
        value: f64::from(server.waiting()),
        threshold: 1.0,
        unit: "count",
        sentence,
        evidence: evidence(context, server),
        explained_share: available.min(f64::from(server.waiting())) / context.cpu_count(),
    }
}

/// Processes that a sentence names.
const MAX_NAMED: usize = 3;

/// `2 connections wait for it` (`what`), `tar (4711) waits to write to its pipe`, or both
fn describe_waiters(context: &RuleContext, server: &StuckServers, what: &str) -> String {
    let mut parts = Vec::new();
    if server.connections > 0 {
        parts.push(format!("{} for {what}", plural(f64::from(server.connections), "connection waits", "connections wait")));
    }
    if !server.pipe_writers.is_empty() {
        let label = |pid: &u32| match context.process(*pid) {
            Some(process) => format!("{} ({pid})", lossy_name(&process.comm)),
            None => format!("process {pid}"),
        };
        let named: Vec<String> = server.pipe_writers.iter().take(MAX_NAMED).map(label).collect();
        let more = server.pipe_writers.len().saturating_sub(MAX_NAMED);
        let others =
            if more == 0 { String::new() } else { format!(" and {}", plural(more as f64, "other process", "other processes")) };
        let verb = singular_or_plural(server.pipe_writers.len(), "waits", "wait");
        parts.push(format!("{}{others} {verb} to write to its pipe", named.join(", ")));
    }
    parts.join("; ")
}

/// `4 threads wait for the lock of /srv/lock, held by backup (4711), which sleeps in clock_nanosleep`
fn describe_queue(context: &RuleContext, server: &StuckServers, queue: &WaitQueueSpan) -> String {
    let threads = plural(queue.threads, "thread waits", "threads wait");
    match (queue.kind, queue.holder) {
        (WaitQueueKind::FileLock, Some(holder)) => {
            format!("{threads} for {}, held by {}", file_lock(queue), describe_lock_holder(context, holder))
        }
        (WaitQueueKind::FileLock, None) => format!("{threads} for {}", file_lock(queue)),
        _ => match named_holder(context, server) {
            Some(holder) => format!("{threads} for a mutex, held by {}", describe_named_holder(context.interval, holder)),
            None => format!("{threads} for a mutex, whose holder is neither on a CPU nor on storage"),
        },
    }
}

/// Share of the group's threads in mutexes that must wait for those of one holder, so that it is named.
const MIN_HOLDER_SHARE: f64 = 0.5;

/// The holder of the mutex that most of the server's waiting threads wait for, where the mutex names it or wake-ups show it.
fn named_holder<'a>(context: &RuleContext<'a>, server: &StuckServers) -> Option<&'a LockHolder> {
    let mut queues = context.interval.locks.mutex_queues.iter().filter(|queue| queue.group == server.group);
    queues.find_map(|queue| queue.named.as_ref()).filter(|holder| reaches_threshold(holder.share, MIN_HOLDER_SHARE))
}

/// `the lock of /srv/lock`
pub fn file_lock(queue: &WaitQueueSpan) -> String {
    queue.file.as_ref().map_or_else(|| "the lock of a file".into(), |file| format!("the lock of {}", lossy_name(file)))
}

fn evidence(context: &RuleContext, server: &StuckServers) -> Vec<Evidence> {
    let label = describe_process_group(&server.group, &server.label);
    let waiters =
        ChainLink::new(describe_waiters(context, server, &label), "the receive queues and tcp_info of its sockets, its pipes");
    let (mut chain, mut confidence) = (vec![waiters], ChainConfidence::High);
    match &server.cause {
        StuckCause::Halted(halt, _) => {
            chain.push(ChainLink::new(format!("{label}: {}", describe_halt(*halt)), "the state in /proc/PID/stat"));
        }
        StuckCause::Lock(queue) => {
            let how = match (queue.kind, named_holder(context, server)) {
                (WaitQueueKind::FileLock, _) => "/proc/locks",
                (_, Some(holder)) => {
                    confidence = holder_confidence(holder);
                    known_by(holder.field)
                }
                (_, None) => {
                    confidence = ChainConfidence::Medium;
                    "the futex call of its threads"
                }
            };
            chain.push(ChainLink::new(format!("{label}: {}", describe_queue(context, server, queue)), how));
        }
    }
    let mut list = vec![
        evidence_text("group", server.label.name.clone()),
        evidence_number("waiting_connections", f64::from(server.connections)),
        evidence_number("waiting_pipe_writers", server.pipe_writers.len() as f64),
        evidence_number("stuck_processes", f64::from(server.label.processes)),
    ];
    match &server.cause {
        StuckCause::Halted(halt, seconds) => {
            let cause = match halt {
                Halt::Signal => "stopped",
                Halt::Debugger => "debugger",
                Halt::Freezer => "frozen",
            };
            list.push(evidence_text("cause", cause));
            list.push(evidence_optional("stopped_seconds", *seconds));
        }
        StuckCause::Lock(queue) => {
            list.push(evidence_text(
                "cause",
                if queue.kind == WaitQueueKind::FileLock { BEHIND_FILE_LOCK } else { BEHIND_MUTEX },
            ));
            list.push(evidence_number("behind_lock_threads", queue.threads));
            let named = named_holder(context, server).filter(|_| queue.kind != WaitQueueKind::FileLock);
            let holder = named.map(|holder| holder.thread.wait.task.pid).or(queue.holder);
            list.push(evidence_optional("holder_pid", holder.map(f64::from)));
            list.extend(named.map(|holder| evidence_number("holder_tid", f64::from(holder.thread.wait.task.tid))));
            list.extend(named.into_iter().flat_map(|holder| named_holder_evidence(context.interval, holder)));
        }
    }
    list.extend(evidence_lock_chain(chain, confidence));
    list
}
