//! Holders of locks inside the kernel (loads/klock.c), which the locks themselves name. The load writes which thread is in the call
//! that holds the lock.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use stalltop::kernel::probe::{LockRow, TaskIterator};

use crate::attempt::Attempt;
use crate::check_result::CheckResult;
use crate::disk_load::{DiskLoad, Load};
use crate::harness::program;
use crate::kernel_locks::klock;
use crate::scenario::Lab;

/// What the load wrote, and what its thread does.
#[derive(Clone, Debug, PartialEq)]
pub struct Truth {
    tid: u32,
    /// Odd inside of the call
    calls: u64,
    state: String,
    wchan: String,
    /// Not waiting for a CPU
    on_cpu: bool,
}

impl Truth {
    pub fn read(path: &Path) -> Option<Truth> {
        let bytes = fs::read(path).ok()?;
        let number = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let tid = u32::try_from(number(0)?).ok().filter(|&tid| tid > 0)?;
        let stat = fs::read_to_string(format!("/proc/{tid}/stat")).ok()?;
        let state = stat.rsplit(") ").next()?.chars().next()?.to_string();
        let wchan = fs::read_to_string(format!("/proc/{tid}/wchan")).ok()?;
        let (arrivals, departures) = switches(tid)?;
        Some(Truth { tid, calls: number(8)?, state, wchan, on_cpu: arrivals > departures })
    }

    /// It is inside of the call, and computes there. One that waits for a CPU may have been woken to take the lock.
    pub fn computes(&self) -> bool {
        self.calls % 2 == 1 && self.state == "R" && self.on_cpu
    }

    /// It is inside of the call, and on storage.
    pub fn is_on_storage(&self) -> bool {
        self.calls % 2 == 1 && ["__iomap_dio_rw", "submit_bio_wait", "jbd2_log_wait_commit"].contains(&self.wchan.as_str())
    }
}

/// How often a thread has got a CPU (its schedstat), and has left one (its status).
fn switches(tid: u32) -> Option<(u64, u64)> {
    let schedstat = fs::read_to_string(format!("/proc/{tid}/schedstat")).ok()?;
    let status = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let left = status.lines().filter(|line| line.contains("voluntary_ctxt_switches"));
    let left = left.filter_map(|line| line.split_whitespace().last()?.parse::<u64>().ok());
    Some((schedstat.split_whitespace().nth(2)?.parse().ok()?, left.sum()))
}

/// Looks without which nothing is known.
pub const MIN_LOOKS: u32 = 20;

/// Looks, four seconds long, at the owner fields during which the thread of the load held the lock all the time and threads
/// of the load waited: those in which all rows of these name it, and all of them.
pub fn looks(
    iterator: &TaskIterator,
    truth: &Path,
    is_row_of_load: impl Fn(&LockRow) -> bool,
    holds_the_lock: fn(&Truth) -> bool,
) -> (u32, u32) {
    let (mut right, mut all) = (0, 0);
    let begin = Instant::now();
    // On a busy machine the thread that holds the lock seldom has a CPU.
    while begin.elapsed() < Duration::from_secs(if all < MIN_LOOKS { 20 } else { 4 }) {
        let before = Truth::read(truth).expect("what the load wrote");
        let rows: Vec<_> = iterator.read_locks().expect("the rows").into_iter().filter(&is_row_of_load).collect();
        let after = Truth::read(truth).expect("what the load wrote");
        let holder = before.tid;
        if before == after && holds_the_lock(&before) && !rows.is_empty() {
            all += 1;
            let wrong = rows.iter().find(|row| row.owner_tid != holder);
            right += u32::from(wrong.is_none());
            if let Some(wrong) = wrong {
                println!("{wrong:?} while {before:?}");
            }
        }
        thread::sleep(Duration::from_millis(5));
    }
    (right, all)
}

pub fn is_named(said: &mut CheckResult, finding: &serde_json::Value, thread: &str, truth: &Path) {
    if finding.is_null() {
        return;
    }
    let holder = Truth::read(truth).expect("what the load wrote").tid;
    let text = finding["evidence"]["lock_holder"].as_str().unwrap_or_default();
    said.expect(text.contains(&format!("{thread}/{holder}")), || format!("`{text}` does not name {holder}"));
}

fn check_looks(load: &Load, truth: &Path, holds_the_lock: fn(&Truth) -> bool) {
    let iterator = TaskIterator::load(Path::new(program())).expect("the eBPF program is loaded");
    let (right, all) = looks(&iterator, truth, |row| row.pid == load.pid(), holds_the_lock);
    println!("{right} of {all} looks name the thread that holds the lock");
    assert!(all >= MIN_LOOKS, "only {all} looks while the thread held the lock");
    assert!(f64::from(right) >= f64::from(all) * 0.99, "{right} of {all} looks");
}

pub fn start(state: &Path, folder: &Path, mode: &str) -> (Load, PathBuf) {
    let truth = state.join("truth");
    let mut command = Command::new(klock());
    command.args([mode, "28", "60"]).arg(folder).env("TRUTH", &truth);
    let load = Load::start_silent(&mut command);
    while Truth::read(&truth).is_none_or(|truth| truth.calls == 0) {
        thread::sleep(Duration::from_millis(20));
    }
    (load, truth)
}

/// 28 threads that map memory beside one that changes the protection of 1 GiB, as the writer of mmap_lock.
#[test]
fn the_writer_of_mmap_lock() {
    let Some(_lab) = Lab::open(&["gcc"]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let (load, truth) = start(state.path(), state.path(), "protect");
    check_looks(&load, &truth, Truth::computes);
    Attempt { seconds: 5, ..Attempt::new("klock-protect", state.path()) }.check(|_, said| {
        let found = said.must("kernel-lock-contention", "host", "note");
        said.says(&found, &["mmap_lock", " behind protector/", "which runs with the lock held"]);
        said.word(&found, "lock_holder_basis", "the owner field of the kernel's rw-semaphore");
        is_named(said, &found, "protector", &truth);
    });
}

/// 28 threads that write to the page cache of a file, behind another process that appends to it with O_DIRECT on a slow disk.
#[test]
fn the_writer_of_a_file_on_storage() {
    let Some(disk) = DiskLoad::open_with(&["gcc"], &[("WRITE_US", "50000")]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let (load, truth) = start(state.path(), &disk.folder, "direct");
    check_looks(&load, &truth, Truth::is_on_storage);
    let holder = Truth::read(&truth).expect("what the load wrote").tid;
    Attempt { seconds: 5, ..Attempt::new("klock-direct", state.path()) }.check(|_, said| {
        let stacks = said.kernel_stacks(holder);
        // It holds the lock in the whole of that function: on storage, and while it commits what it appended.
        let known = stacks.iter().filter(|stack| stack.lines().any(|function| function == "ext4_file_write_iter")).count();
        said.expect(stacks.len() >= 2 && known == stacks.len(), || format!("{known} stacks of {holder} of: {stacks:?}"));
    });
}

/// 28 threads that look up names in a directory, as readers of its lock, behind one that renames in it and commits the journal while
/// it holds the lock, on a slow disk.
#[test]
fn the_writer_of_a_directory_on_storage() {
    let Some(disk) = DiskLoad::open_with(&["gcc"], &[("WRITE_US", "50000")]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let folder = disk.folder.join("directory");
    fs::create_dir(&folder).expect("a directory");
    let (load, truth) = start(state.path(), &folder, "dir-sync");
    check_looks(&load, &truth, Truth::is_on_storage);
    Attempt { seconds: 5, ..Attempt::new("klock-dir-sync", state.path()) }.check(|_, said| {
        // Critical from half of the host, about as long as the writer has the lock.
        let found = said.must("idle-but-blocked", "host", "warning");
        said.says(&found, &["threads wait for a lock (inside the kernel, by the wait channel) behind 1", " in rename on "]);
        said.word(&found, "lock_holder_basis", "the owner field of the kernel's rw-semaphore");
        is_named(said, &found, "dir_syncer", &truth);
    });
}

/// 28 threads that ask for the position of an open file, which a mutex protects, behind one that reads from a slow disk with the same
/// descriptor.
#[test]
fn the_reader_of_a_file_whose_position_others_ask_for() {
    let Some(disk) = DiskLoad::open_with(&["gcc"], &[("READ_US", "50000")]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let (load, truth) = start(state.path(), &disk.folder, "position");
    check_looks(&load, &truth, Truth::is_on_storage);
    Attempt { seconds: 5, ..Attempt::new("klock-position", state.path()) }.check(|_, said| {
        let found = said.must("idle-but-blocked", "host", "warning");
        said.says(&found, &["threads wait for a lock (inside the kernel, by the wait channel) behind 1", " in read on "]);
        said.word(&found, "lock_holder_basis", "the owner field of the kernel's mutex");
        is_named(said, &found, "holder", &truth);
    });
}
