//! Kernel lock contention: threads that wait for locks inside the kernel (loads/klock.c), and the same calls without contention.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::attempt::Attempt;
use crate::disk_load::Load;
use crate::long;
use crate::scenario::{Lab, compiled};
use crate::watch::Place;

/// A lock with one holder at a time: the holder, or that alone where the holder is not known.
const ONE_HOLDER: [&str; 2] = [" behind ", "one at a time"];

/// The compiled load.
pub fn klock() -> PathBuf {
    compiled("klock.c", &["gcc", "-O2", "-pthread"])
}

/// `state` is a folder of the test.
fn start(state: &Path, mode: &str, count: u32) -> Load {
    let folder = state.join("files");
    std::fs::create_dir_all(&folder).expect("a folder");
    start_in(&folder, mode, count, 0)
}

/// In this folder, with a pause of so many microseconds after each call.
fn start_in(folder: &Path, mode: &str, count: u32, pause_us: u32) -> Load {
    let mut command = Command::new(klock());
    command.args([mode, &count.to_string(), "60"]).arg(folder).env("PAUSE_US", pause_us.to_string());
    Load::start_silent(&mut command)
}

/// 30 threads of this name: most are in D all the time, and CPUs are idle. Then the same threads and calls with pauses.
fn contention(mode: &str, thread: &str, folder: &Path, words: &[&str]) {
    let Some(_lab) = Lab::open(&["gcc"]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let waits = |place: &Place| place.comm == thread && place.state == 'D';
    {
        let load = start_in(folder, mode, 30, 0);
        Attempt { seconds: 5, ..Attempt::new(&format!("klock-{mode}"), state.path()) }.check(|window, said| {
            window.known("threads in D", window.mean(waits), 15.0, 30.0);
            let ticks = window.ticks("cpu");
            window.known("available", ticks.share(ticks.available), 0.15, 1.0);
            let found = said.must("kernel-lock-contention", "host", "note");
            said.says(&found, &[&format!("klock ({})", load.pid())]);
            said.says(&found, words);
            if mode != "link" {
                said.says_one_of(&found, &ONE_HOLDER);
            }
        });
    }
    let _load = start_in(folder, mode, 30, 1_000_000);
    Attempt { seconds: 5, ..Attempt::new(&format!("klock-{mode}-pauses"), state.path()) }.check(|window, said| {
        window.known("threads in D", window.mean(waits), 0.0, 3.0);
        said.must_not("kernel-lock-contention");
    });
}

/// 30 threads in mmap, page faults and munmap beside one that reads the smaps of its own process: 26 to 29 in D, a third of two
/// CPUs idle.
#[test]
fn threads_behind_mmap_lock() {
    let Some(_lab) = Lab::open(&["gcc"]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let load = start(state.path(), "mm", 30);
    Attempt { seconds: 5, ..Attempt::new("klock-mm", state.path()) }.check(|window, said| {
        let waits = |place: &Place| place.comm == "mapper" && place.state == 'D';
        let waiting = window.mean(waits);
        window.known("threads in D", waiting, 15.0, 30.0);
        let ticks = window.ticks("cpu");
        window.known("available", ticks.share(ticks.available), 0.2, 1.0);
        let found = said.must("kernel-lock-contention", "host", "note");
        said.evidence_in(&found, "waiting_threads", window.readings(waits).give_or_take(4.0));
        said.says(&found, &[&format!("klock ({})", load.pid()), "mmap_lock", "in munmap (", "in mmap ("]);
        said.says_one_of(&found, &ONE_HOLDER);
        said.must_not("hung-task");
        said.must_not("idle-but-blocked");
    });
}

/// The same beside a thread of theirs in fdatasync, which does not hold mmap_lock: they do not wait for the disk.
#[test]
fn threads_behind_mmap_lock_beside_one_on_storage() {
    if !crate::long() {
        return;
    }
    let Some(_lab) = Lab::open(&["gcc"]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let load = start(state.path(), "mm-sync", 30);
    Attempt { seconds: 5, ..Attempt::new("klock-mm-sync", state.path()) }.check(|window, said| {
        let waits = |place: &Place| place.comm == "mapper" && place.state == 'D';
        let syncs = |place: &Place| place.comm == "syncer" && place.state == 'D';
        window.known("threads in D for mmap_lock", window.mean(waits), 15.0, 30.0);
        window.known("threads on storage", window.mean(syncs), 0.3, 1.0);
        let found = said.must("kernel-lock-contention", "host", "note");
        said.says(&found, &[&format!("klock ({})", load.pid()), "mmap_lock", "in munmap (", "in mmap ("]);
    });
}

/// The same calls in 30 processes with pauses: nothing waits.
#[test]
fn threads_that_map_memory_of_their_own() {
    if !crate::long() {
        return;
    }
    let Some(_lab) = Lab::open(&["gcc"]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let _load = start(state.path(), "mm-apart", 30);
    Attempt { seconds: 5, ..Attempt::new("klock-mm-apart", state.path()) }.check(|window, said| {
        window.known("threads in D", window.mean(|place: &Place| place.comm == "mapper" && place.state == 'D'), 0.0, 0.3);
        said.must_not("kernel-lock-contention");
        said.must_not("load-not-cpu");
    });
}

/// Threads that rename in a directory of 100,000 files which another one lists: readers of the lock let no writer spin on a CPU.
#[test]
fn threads_behind_the_lock_of_a_directory() {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    contention("rename-list", "renamer", folder.path(), &["the lock of a directory", "in rename ("]);
}

/// A cgroup for the loads, removed with those in it when dropped.
struct CgroupTree(PathBuf);

impl CgroupTree {
    fn make(name: &str) -> Option<CgroupTree> {
        let roots = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup/pids", "/sys/fs/cgroup"].map(Path::new);
        let folder = roots.into_iter().find(|root| root.join("cgroup.procs").exists())?.join(name);
        std::fs::create_dir_all(&folder).expect("a cgroup");
        Some(CgroupTree(folder))
    }
}

impl Drop for CgroupTree {
    fn drop(&mut self) {
        let groups = std::fs::read_dir(&self.0).into_iter().flatten().flatten().map(|entry| entry.path());
        for group in groups.filter(|path| path.is_dir()) {
            let _ = std::fs::remove_dir(group.join("sub"));
            let _ = std::fs::remove_dir(group);
        }
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// 20 threads that make and remove cgroups, each in one of its own: they wait for cgroup_mutex.
#[test]
fn threads_behind_the_cgroup_mutex() {
    if !crate::long() {
        return;
    }
    let Some(_lab) = Lab::open(&["gcc"]) else { return };
    let Some(tree) = CgroupTree::make("lab-klock") else { return println!("skipped: no cgroup hierarchy is mounted") };
    let state = tempfile::tempdir().expect("a folder");
    let load = start_in(&tree.0, "cgroup-apart", 20, 0);
    Attempt { seconds: 5, ..Attempt::new("klock-cgroup", state.path()) }.check(|window, said| {
        let waits = |place: &Place| place.comm == "subgrouper" && place.state == 'D';
        window.known("threads in D", window.mean(waits), 10.0, 20.0);
        let ticks = window.ticks("cpu");
        window.known("available", ticks.share(ticks.available), 0.2, 1.0);
        let found = said.must("kernel-lock-contention", "host", "note");
        said.says(&found, &[&format!("klock ({})", load.pid()), "the cgroup locks (cgroup_mutex)", "in mkdir (", "in rmdir ("]);
        said.says_one_of(&found, &ONE_HOLDER);
        said.must_not("hung-task");
    });
    drop(load);
}

/// Threads that make and delete interfaces in one network namespace.
#[test]
fn threads_behind_the_network_configuration() {
    if !long() {
        return;
    }
    contention("link", "linker", Path::new("/tmp"), &["inside the kernel", "in sendto ("]);
}
