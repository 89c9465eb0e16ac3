//! Sessions of PostgreSQL behind WALWriteLock: what its wait events and /proc say of its holder, and idle sessions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use stalltop::sample::waits::{LockOwner, OwnerField};

use crate::attempt::{Attempt, compare_until_equal};
use crate::check_result::{CheckResult, check as stalltop_check};
use crate::held_truth::{HeldTruth, samples};
use crate::proc::{FLUSHES_COMPLETED, Stat, diskstat, processes, read};
use crate::scenario::{DISK_TOOLS, Lab, Scenario, has_postgres};

/// Numbers of system calls on x86_64
const FDATASYNC: &str = "75 ";
const PWRITE: &str = "18 ";

/// Share of the readings in which the holder must be the process that /proc shows in fdatasync, or in the write before it.
const MIN_RIGHT: f64 = 0.95;

fn open() -> Option<Lab> {
    let lab = Lab::open(&[DISK_TOOLS, &["runuser"]].concat())?;
    if !has_postgres() {
        println!("skipped: PostgreSQL is not installed: the lab's setup.sh does that");
        return None;
    }
    Some(lab)
}

/// 64 clients, each flush of the log takes 40 ms.
fn commits(lab: &Lab) -> Scenario {
    let mut scenario = lab.start("01-commit-serialised-db", 120, &[("FLUSH_US", "40000")]);
    scenario.until_ready();
    let device = scenario.device();
    let before = diskstat(&device, FLUSHES_COMPLETED);
    scenario.until("commits", |_| diskstat(&device, FLUSHES_COMPLETED) >= before + 30);
    scenario
}

fn is_in_fdatasync(pid: u32) -> bool {
    read(&format!("/proc/{pid}/syscall")).starts_with(FDATASYNC)
}

/// Whether its system call writes a file of the log, or brings it to the device.
fn writes_log(pid: u32) -> bool {
    let call = read(&format!("/proc/{pid}/syscall"));
    let descriptor =
        call.split_whitespace().nth(1).and_then(|word| u32::from_str_radix(word.trim_start_matches("0x"), 16).ok());
    let is_of_log = |descriptor| {
        std::fs::read_link(format!("/proc/{pid}/fd/{descriptor}")).is_ok_and(|file| file.to_string_lossy().contains("/pg_wal/"))
    };
    [FDATASYNC, PWRITE].iter().any(|number| call.starts_with(number)) && descriptor.is_some_and(is_of_log)
}

/// Which process wrote or flushed the log at which time.
struct LogWatch {
    ends: Arc<AtomicBool>,
    thread: JoinHandle<Vec<String>>,
}

impl LogWatch {
    fn start() -> LogWatch {
        let ends = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&ends);
        let now_ns = || SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_nanos();
        let thread = thread::spawn(move || {
            let pids = processes("postgres");
            // Since when, and until when it was not there before
            let mut there = vec![None; pids.len()];
            let (mut held, mut last) = (Vec::new(), now_ns());
            while !stop.load(Ordering::Relaxed) {
                let now = now_ns();
                for (&pid, since) in pids.iter().zip(&mut there) {
                    match (writes_log(pid), *since) {
                        (true, None) => *since = Some(last),
                        (false, Some(begin)) => {
                            held.push(format!("{begin} {} {pid}", now_ns()));
                            *since = None;
                        }
                        _ => {}
                    }
                }
                last = now;
                thread::sleep(Duration::from_millis(2));
            }
            held
        });
        LogWatch { ends, thread }
    }

    fn end(self) -> HeldTruth {
        self.ends.store(true, Ordering::Relaxed);
        let held = self.thread.join().expect("the watch");
        HeldTruth::parse(held.iter().map(String::as_str))
    }
}

fn is_of_log(row: &LockOwner) -> bool {
    row.field == OwnerField::PostgresLog
}

fn rows(said: &CheckResult) -> usize {
    samples(said.recording()).iter().flat_map(|sample| &sample.waits.lock_owners).filter(|row| is_of_log(row)).count()
}

#[test]
fn sessions_behind_a_flush_of_the_log_wait_for_walwrite() {
    let Some(lab) = open() else { return };
    let _scenario = commits(&lab);
    let state = tempfile::tempdir().expect("a folder");
    compare_until_equal("holder of WALWriteLock", || {
        let watch = LogWatch::start();
        let said = stalltop_check("postgres-walwrite", state.path(), 20, "1s");
        let held = watch.end();
        let samples = samples(said.recording());
        let all = samples.iter().flat_map(|sample| sample.waits.lock_owners.iter().map(move |row| (sample, row)));
        // /proc shows no system call of a process that runs.
        let asleep = all.filter(|(_, row)| is_of_log(row) && row.owner.syscall.is_some());
        let readings: Vec<bool> = asleep.map(|(sample, row)| held.agrees(sample, row)).collect();
        let right = readings.iter().filter(|&&is_right| is_right).count();
        println!("WALWriteLock: the holder is right in {right} of {} readings", readings.len());
        let sentences = said.sentences();
        // One that was woken in between has no event: it waits by inference.
        let is_said = |sentence: &String| {
            sentence.contains("threads wait for a lock (") && sentence.contains("WALWrite, by PostgreSQL's wait event")
        };
        match readings.len() >= 15 && right as f64 >= readings.len() as f64 * MIN_RIGHT && sentences.iter().any(is_said) {
            true => Ok(()),
            false => Err(format!("right in {right} of {} readings: {sentences:?}", readings.len())),
        }
    });
}

/// A process that is stopped while it flushes the log; it goes on when dropped.
struct StoppedHolder(u32);

impl StoppedHolder {
    fn stop(scenario: &mut Scenario) -> StoppedHolder {
        let mut stopped = None;
        scenario.until("has a process in fdatasync", |_| {
            let pid = processes("postgres").into_iter().find(|&pid| is_in_fdatasync(pid));
            let Some(holder) = pid.map(StoppedHolder) else { return false };
            holder.signal(Signal::SIGSTOP);
            let is_stopped = || Stat::read_process(holder.0).is_some_and(|stat| stat.state == 'T');
            while !is_stopped() {
                thread::sleep(Duration::from_millis(1));
            }
            // It may have left the call before the signal came.
            if is_in_fdatasync(holder.0) {
                stopped = Some(holder);
            }
            stopped.is_some()
        });
        stopped.expect("a stopped process")
    }

    fn signal(&self, signal: Signal) {
        let _ = kill(Pid::from_raw(self.0.cast_signed()), signal);
    }
}

impl Drop for StoppedHolder {
    fn drop(&mut self) {
        self.signal(Signal::SIGCONT);
    }
}

#[test]
fn sessions_behind_a_stopped_holder_of_walwrite() {
    let Some(lab) = open() else { return };
    let mut scenario = commits(&lab);
    let holder = StoppedHolder::stop(&mut scenario);
    let state = tempfile::tempdir().expect("a folder");
    Attempt::new("postgres-stopped", state.path()).check(|_, said| {
        let stuck = said.must("idle-but-blocked", "host", "critical");
        let behind = format!(
            "threads wait for a lock (WALWrite, by PostgreSQL's wait event) behind postgres/{}, which is stopped",
            holder.0
        );
        said.says(&stuck, &[&behind]);
        said.evidence(&stuck, "group_behind_lock_threads", 60.0, 66.0);
    });
}

#[test]
fn idle_sessions_wait_for_no_lock() {
    let Some(lab) = open() else { return };
    let mut scenario = lab.start("17-idle-database", 90, &[]);
    scenario.until_ready();
    let state = tempfile::tempdir().expect("a folder");
    Attempt::new("postgres-idle", state.path()).check(|_, said| {
        said.must_not("idle-but-blocked");
        said.must_not("mutex-queue");
        said.figure("blocked_threads", 0.0, 0.5);
        let holders = rows(said);
        said.expect(holders == 0, || format!("{holders} holders of WALWriteLock"));
        said.nothing_wrong_but(&[]);
    });
}
