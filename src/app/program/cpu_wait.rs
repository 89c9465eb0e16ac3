//! How long the threads of this process waited for a CPU, and whether one of them waits now: what tells a slow disk from a machine
//! without a free CPU.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::unistd::{Pid, gettid};

/// Run-queue wait of threads that have ended, ns.
static ENDED_THREADS_NS: AtomicU64 = AtomicU64::new(0);

/// The calling thread is about to end: its wait is counted in `total`.
pub fn add_ended_thread() {
    let ns = run_delay(gettid()).map_or(0, |delay| u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX));
    ENDED_THREADS_NS.fetch_add(ns, Ordering::Relaxed);
}

/// Run-queue wait of all threads of this process since its start (field 2 of /proc/PID/task/TID/schedstat). Waits that have not
/// ended are not in it. 0 on a kernel without CONFIG_SCHED_INFO.
pub fn total() -> Duration {
    let ended = Duration::from_nanos(ENDED_THREADS_NS.load(Ordering::Relaxed));
    threads().filter_map(run_delay).fold(ended, Duration::saturating_add)
}

/// Whether a thread of this process is runnable, or was blocked for less than `allowed` of the time since it started.
pub fn lacks_cpu(tid: Pid, since_start: Duration, allowed: Duration) -> bool {
    let blocked = since_start.saturating_sub(run_delay(tid).unwrap_or_default());
    is_runnable(tid) || blocked < allowed
}

/// Whether a thread of this name is runnable.
pub fn is_named_thread_runnable(name: &str) -> bool {
    let is_named = |tid: &Pid| read(*tid, "comm").is_some_and(|comm| comm.trim_end() == name);
    threads().filter(is_named).any(is_runnable)
}

fn is_runnable(tid: Pid) -> bool {
    read(tid, "stat").is_some_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with('R')))
}

fn run_delay(tid: Pid) -> Option<Duration> {
    read(tid, "schedstat")?.split_ascii_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

fn read(tid: Pid, file: &str) -> Option<String> {
    fs::read_to_string(format!("/proc/self/task/{tid}/{file}")).ok()
}

fn threads() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid::from_raw))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_thread_is_runnable_and_a_sleeping_one_is_not() {
        let own = gettid();
        assert!(is_runnable(own) && lacks_cpu(own, Duration::from_secs(3600), Duration::ZERO));
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let (tid_sender, tid) = std::sync::mpsc::channel();
        let sleeper = std::thread::spawn(move || {
            tid_sender.send(gettid()).unwrap();
            receiver.recv()
        });
        let tid = tid.recv().unwrap();
        // Until it sleeps.
        while is_runnable(tid) {}
        assert!(!lacks_cpu(tid, Duration::from_secs(3600), Duration::from_secs(1)));
        drop(sender);
        sleeper.join().unwrap().unwrap_err();
    }
}
