//! Holders of locks inside the kernel for which threads wait that do not say it themselves (`task_struct.blocker`): by the tracepoint
//! contention_begin. The load (loads/klock.c) writes which thread is in the call that holds the lock.

use std::fs;
use std::path::Path;

use stalltop::kernel::probe::program_loader::load_tasks_without_blocker;
use stalltop::kernel::probe::{LockRow, TaskIterator};

use crate::attempt::Attempt;
use crate::disk_load::DiskLoad;
use crate::kernel_holders::{MIN_LOOKS, Truth, is_named, looks, start};
use crate::scenario::Lab;

/// The iterator as on a kernel before 6.15, with the programs attached; `None`: the test is skipped.
fn iterator() -> Option<TaskIterator> {
    let loaded = load_tasks_without_blocker().expect("the eBPF programs are loaded");
    let mut iterator = TaskIterator::attach(loaded.descriptors).expect("the iterator is attached");
    let Some(programs) = iterator.contention() else {
        println!("skipped: the kernel has no tracepoint contention_begin");
        return None;
    };
    programs.attach().expect("the programs are attached");
    Some(iterator)
}

fn check_looks(folder: &Path, mode: &str, holds_the_lock: fn(&Truth) -> bool) {
    let Some(iterator) = iterator() else { return };
    let state = tempfile::tempdir().expect("a folder");
    let (load, truth) = start(state.path(), folder, mode);
    let is_row_of_load = |row: &LockRow| row.pid == load.pid() && row.is_by_contention;
    let (right, all) = looks(&iterator, &truth, is_row_of_load, holds_the_lock);
    println!("{mode}: {right} of {all} looks name the thread that holds the lock");
    assert!(all >= MIN_LOOKS, "only {all} looks while the thread held the lock");
    assert!(f64::from(right) >= f64::from(all) * 0.95, "{right} of {all} looks");
}

#[test]
fn the_writer_of_mmap_lock_by_contention() {
    let Some(_lab) = Lab::open(&["gcc"]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    check_looks(state.path(), "protect", Truth::computes);
}

/// A mutex, and rw-semaphores behind which threads wait to read and to write, in waits that a fatal signal ends or not.
#[test]
fn holders_on_storage_by_contention() {
    let Some(disk) = DiskLoad::open_with(&["gcc"], &[("READ_US", "50000"), ("WRITE_US", "50000")]) else { return };
    for mode in ["position", "direct", "dir-sync", "list-sync"] {
        let folder = disk.folder.join(mode);
        fs::create_dir(&folder).expect("a directory");
        check_looks(&folder, mode, Truth::is_on_storage);
    }
}

/// 28 threads that list a directory behind one that renames in it and commits the journal while it holds the lock: of waits that a
/// fatal signal ends no kernel says the lock.
#[test]
fn the_writer_of_a_directory_that_others_list() {
    let Some(disk) = DiskLoad::open_with(&["gcc"], &[("WRITE_US", "50000")]) else { return };
    if iterator().is_none() {
        return;
    }
    let state = tempfile::tempdir().expect("a folder");
    let folder = disk.folder.join("directory");
    fs::create_dir(&folder).expect("a directory");
    let (_load, truth) = start(state.path(), &folder, "list-sync");
    Attempt { seconds: 6, ..Attempt::new("klock-list-sync", state.path()) }.check(|_, said| {
        let found = said.must("idle-but-blocked", "host", "warning");
        said.says(&found, &["threads wait for a lock (inside the kernel, by the wait channel) behind 1", " in rename on "]);
        said.word(&found, "lock_holder_basis", "the owner field of the kernel's rw-semaphore");
        is_named(said, &found, "dir_syncer", &truth);
    });
}
