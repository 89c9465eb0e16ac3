//! Processes that wait in pipes for a slow process (`interval::pipelines`), as a clause of its finding and as links of its chain.

use crate::findings::formatting::{lossy_name, percent, plural, singular_or_plural};
use crate::findings::wait_chain::link::ChainLink;
use crate::interval::Interval;
use crate::interval::idle_blocked::BlockedGroup;
use crate::interval::pipelines::{PipeWait, PipeWaitKind, pipe_waits};

/// CPUs that a reader uses from which it waits for the data of a pipe: one that uses less reads a log.
/// docs/metrics.md, "Fixed thresholds".
const MIN_READER_CPUS: f64 = 0.01;

/// Processes that a clause names.
const MAX_NAMED: usize = 3;

/// The processes that wait for a process in pipes.
pub struct Pipeline {
    waits: Vec<PipeWait>,
}

impl Pipeline {
    /// Those that wait for this process; empty for most processes.
    pub fn from_process(interval: &Interval, pid: u32) -> Pipeline {
        let mut waits = pipe_waits(&interval.host, &interval.newer.waits, &interval.wait_counts, interval.tasks.as_ref());
        waits.retain(|wait| wait.root == pid && is_reported(interval, wait));
        Pipeline { waits }
    }

    pub fn is_empty(&self) -> bool {
        self.waits.is_empty()
    }

    /// `; cat (123) waits for it in a pipe`, `; tar (124) waits for its output in a pipe`; empty without waiters.
    pub fn clause(&self, interval: &Interval) -> String {
        let mut clause = String::new();
        for (kind, object) in [(PipeWaitKind::Write, "it"), (PipeWaitKind::Read, "its output")] {
            let waiters: Vec<String> = self.of_kind(kind).map(|wait| label(interval, wait.task.pid)).collect();
            if waiters.is_empty() {
                continue;
            }
            let verb = singular_or_plural(waiters.len(), "waits", "wait");
            let mut named = waiters.iter().take(MAX_NAMED).cloned().collect::<Vec<_>>().join(", ");
            if waiters.len() > MAX_NAMED {
                named =
                    format!("{named} and {}", plural((waiters.len() - MAX_NAMED) as f64, "other process", "other processes"));
            }
            clause.push_str(&format!("; {named} {verb} for {object} in a pipe"));
        }
        clause
    }

    /// The links from the farthest waiter to the process next to the slow one.
    pub fn links(&self, interval: &Interval) -> Vec<ChainLink> {
        let link = |wait: &PipeWait| {
            let (verb, end) = match wait.kind {
                PipeWaitKind::Write => ("write to", "reads"),
                PipeWaitKind::Read => ("read from", "writes"),
            };
            let (waiter, next) = (label(interval, wait.task.pid), label(interval, wait.next));
            ChainLink {
                what: format!("{waiter} waits to {verb} a pipe that {next} {end}, {} of the time", percent(wait.share)),
                known_by: "the wait channel, and the descriptors of both processes".into(),
            }
        };
        self.waits.iter().rev().map(link).collect()
    }

    fn of_kind(&self, kind: PipeWaitKind) -> impl Iterator<Item = &PipeWait> {
        self.waits.iter().filter(move |wait| wait.kind == kind)
    }
}

/// A writer waits at a full pipe. A reader may wait for a log line.
fn is_reported(interval: &Interval, wait: &PipeWait) -> bool {
    let cpus = || interval.tasks.as_ref()?.process(interval.process(wait.task.pid)?).cpu;
    wait.kind == PipeWaitKind::Write || cpus().is_some_and(|used| used.0 >= MIN_READER_CPUS)
}

fn label(interval: &Interval, pid: u32) -> String {
    let name = interval.process(pid).map(|process| lossy_name(&process.comm)).unwrap_or_default();
    if name.is_empty() { format!("process {pid}") } else { format!("{name} ({pid})") }
}

/// The processes that wait in pipes for the process on storage of a group.
pub fn holder_pipeline(interval: &Interval, group: &BlockedGroup) -> Option<Pipeline> {
    let holder = group.holder.as_ref()?;
    Some(Pipeline::from_process(interval, holder.wait.task.pid)).filter(|pipeline| !pipeline.is_empty())
}
