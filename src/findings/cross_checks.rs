//! Cross-checks: sentences for cases in which iowait or PSI contradict idle-but-blocked. docs/metrics.md, "Cross-checks".

use super::formatting::{lossy_name, percent, plural};
use super::wait_chain::reported_threads::MIN_REPORTED_THREADS;
use crate::interval::Interval;
use crate::interval::idle_blocked::{CrossChecks, IdleBlocked};
use crate::sample::Sample;
use crate::sample::task::TaskState;

/// iowait or PSI from which a contradiction is reported.
const MIN_CONTRADICTING_SHARE: f64 = 0.3;

/// Mean numbers of threads and requests below this are negligible: every machine writes a journal from time to time.
const NEGLIGIBLE: f64 = 0.1;

/// Idle-but-blocked from which an iowait that is too low is reported. docs/metrics.md, "Fixed thresholds".
const MIN_REPORTED_BLOCKED: f64 = 0.1;

/// iowait below this share of idle-but-blocked is too low.
const LOW_IOWAIT_SHARE: f64 = 0.5;

/// A sentence if iowait or PSI mislead: they report waiting although nothing waits, or they do not count threads that wait for
/// locks. `None` if they agree with idle-but-blocked.
pub fn contradiction_sentence(interval: &Interval) -> Option<String> {
    let blocked = interval.idle_blocked.as_ref()?;
    current_io_uring_artefact(interval).or_else(|| waits_outside_iowait(blocked))
}

/// iowait or PSI without waiting, for the current interval.
pub fn current_io_uring_artefact(interval: &Interval) -> Option<String> {
    let blocked = interval.idle_blocked.as_ref()?;
    let sleeper = || io_uring_sleeper(&interval.newer);
    io_uring_artefact(&blocked.cross_checks, blocked.blocked_threads, blocked.lower_bound, sleeper)
}

/// iowait or PSI without waiting, for means over any time. Since Linux 6.5 a thread in io_uring_enter counts as waiting for I/O
/// whatever its requests are (io_uring/io_uring.c, io_cqring_wait); since 6.15 a program can opt out (IORING_ENTER_NO_IOWAIT),
/// which few do.
pub fn io_uring_artefact(
    cross_checks: &CrossChecks,
    blocked_threads: f64,
    lower_bound: bool,
    sleeper: impl FnOnce() -> Option<String>,
) -> Option<String> {
    let (iowait, psi) = (cross_checks.iowait.unwrap_or(0.0), cross_checks.psi_io_some);
    let is_high = iowait >= MIN_CONTRADICTING_SHARE || psi.is_some_and(|psi| psi >= MIN_CONTRADICTING_SHARE);
    let none_blocked = blocked_threads < NEGLIGIBLE && cross_checks.d_threads < NEGLIGIBLE && !lower_bound;
    let nothing = cross_checks.in_flight.is_some_and(|requests| requests < NEGLIGIBLE);
    (is_high && none_blocked && nothing).then(|| {
        let psi = psi.map_or_else(|| "-".into(), percent);
        let cause = match sleeper() {
            Some(label) => format!("an io_uring artefact of {label} (its idle waits count as I/O); ignore it"),
            None => "an io_uring artefact (its idle waits count as I/O), or kernel threads, which are not counted, wait".into(),
        };
        format!("iowait {}, PSI io {psi}, but no blocked thread and nothing in flight: {cause}", percent(iowait))
    })
}

/// Second case: threads that wait for other threads do not count as iowait.
fn waits_outside_iowait(blocked: &IdleBlocked) -> Option<String> {
    let iowait = blocked.cross_checks.iowait.unwrap_or(0.0);
    if blocked.ratio < MIN_REPORTED_BLOCKED || iowait >= blocked.ratio * LOW_IOWAIT_SHARE {
        return None;
    }
    let threads: f64 = blocked.groups.iter().map(|group| group.behind_lock() + group.behind_ipc_peer + group.aio).sum();
    let why = if threads < MIN_REPORTED_THREADS {
        "the kernel does not count these waits as iowait".to_owned()
    } else {
        let threads = plural(threads, "thread is", "threads are");
        format!("{threads} waiting for other threads or for completions, which iowait does not count")
    };
    Some(format!("iowait says {} where {} of the host is blocked: {why}", percent(iowait), percent(blocked.ratio)))
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
