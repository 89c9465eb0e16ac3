//! What iowait and PSI say beside the verdict, where they mislead. They are witnesses, not the judge.

use super::formatting::{lossy_name, percent, plural};
use crate::interval::Interval;
use crate::interval::idle_blocked::{CrossChecks, IdleBlocked};
use crate::sample::Sample;
use crate::sample::task::TaskState;

/// iowait or PSI from which they are worth a word when they contradict the verdict.
const MIN_CONTRADICTING_SHARE: f64 = 0.3;

/// Threads, and requests, of which a stretch of time has next to none: a journal is written now and then on any machine.
const NEGLIGIBLE: f64 = 0.1;

/// One sentence where iowait or PSI mislead: they speak of nothing, or they do not count a convoy. `None` where they agree
/// with the verdict.
pub fn contradiction_sentence(interval: &Interval) -> Option<String> {
    let blocked = interval.idle_blocked.as_ref()?;
    current_io_uring_artifact(interval).or_else(|| waits_outside_iowait(blocked))
}

/// The first of them: iowait or PSI say that something waits, and nothing does.
pub fn current_io_uring_artifact(interval: &Interval) -> Option<String> {
    let blocked = interval.idle_blocked.as_ref()?;
    let sleeper = || io_uring_sleeper(&interval.newer);
    io_uring_artifact(&blocked.cross_checks, blocked.blocked_threads, blocked.lower_bound, sleeper)
}

/// The same of the means over any stretch of time. Since Linux 6.5 a thread that waits in io_uring_enter counts as waiting
/// for I/O whatever its requests are, a connection that nobody uses included (io_uring/io_uring.c, io_cqring_wait); since
/// 6.15 it may ask not to be (IORING_ENTER_NO_IOWAIT), and most do not.
pub fn io_uring_artifact(
    witnesses: &CrossChecks,
    blocked_threads: f64,
    lower_bound: bool,
    sleeper: impl FnOnce() -> Option<String>,
) -> Option<String> {
    let (iowait, psi) = (witnesses.iowait.unwrap_or(0.0), witnesses.psi_io_some);
    let loud = iowait >= MIN_CONTRADICTING_SHARE || psi.is_some_and(|psi| psi >= MIN_CONTRADICTING_SHARE);
    let nobody = blocked_threads < NEGLIGIBLE && witnesses.d_threads < NEGLIGIBLE && !lower_bound;
    let nothing = witnesses.in_flight.is_some_and(|requests| requests < NEGLIGIBLE);
    (loud && nobody && nothing).then(|| {
        let psi = psi.map_or_else(|| "-".into(), percent);
        let who = sleeper().map_or_else(String::new, |who| format!(" of {who}"));
        format!(
            "iowait {}, PSI io {psi}, but no blocked thread and nothing in flight: an io_uring artefact{who} (its idle waits \
             count as I/O), ignore it",
            percent(iowait)
        )
    })
}

/// The other way round: those that wait behind others are in no iowait.
fn waits_outside_iowait(blocked: &IdleBlocked) -> Option<String> {
    let iowait = blocked.cross_checks.iowait.unwrap_or(0.0);
    if blocked.ratio < 0.1 || iowait >= blocked.ratio / 2.0 {
        return None;
    }
    let threads = blocked.groups.iter().map(|group| group.behind_lock() + group.behind_ipc_peer + group.aio).sum();
    Some(format!(
        "iowait says {} where {} of the box is blocked: {} behind others or asleep for completions, which iowait does not count",
        percent(iowait),
        percent(blocked.ratio),
        plural(threads, "thread is", "threads are")
    ))
}

/// The process with most threads asleep in io_uring_enter, where their wait channels were read.
pub fn io_uring_sleeper(sample: &Sample) -> Option<String> {
    let processes = &sample.tasks.as_ref().ok()?.processes;
    let in_ring = |channel: &crate::sample::Name| channel.as_bytes() == b"io_cqring_wait";
    let asleep = |process: &crate::sample::task::Process| {
        let there = |thread: &&crate::sample::task::Thread| {
            thread.state == TaskState::Sleeping && thread.wait.wchan.as_ref().is_ok_and(in_ring)
        };
        process.threads.iter().filter(there).count()
    };
    let (most, process) = processes.iter().map(|process| (asleep(process), process)).max_by_key(|(threads, _)| *threads)?;
    (most > 0).then(|| format!("{} ({})", lossy_name(&process.comm), process.pid))
}
