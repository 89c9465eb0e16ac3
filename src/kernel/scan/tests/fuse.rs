//! FUSE: a thread that waits for such a file system sleeps in S.

use std::fs;

use super::super::*;
use super::machine::{Given, Machine, one, only};
use crate::kernel::mounts::has_fuse_mounts;
use crate::sample::Absent;

#[test]
fn a_wait_for_a_file_system_in_user_space_is_known_of_a_thread_that_no_scan_saw_run() {
    let asks = |tid| Given { channel: "request_wait_answer", call: "0 0x3 0x0 0x0 0x0", ..one(tid) };
    for fuse in [false, true] {
        let mut machine = Machine::new(true);
        machine.set_has_fuse_mounts(fuse);
        machine.put(40, "sh", 5, 10_000_000, &[asks(40)]);
        machine.put(50, "sh", 5, 10_000_000, &[one(50)]);
        let tasks = machine.scan();
        assert_eq!(machine.hot(), if fuse { vec![40] } else { vec![] });
        assert_eq!(only(&tasks, 40).1.wait.wchan.is_ok(), fuse);
        assert_eq!(only(&tasks, 50).1.wait.wchan, Err(Absent::NotRead), "of others nothing is told that was not before");
    }
}

#[test]
fn file_systems_in_user_space_are_found_among_the_mounts() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir_all(directory.path().join("proc/self")).unwrap();
    let is_one = |kind: &str| {
        let line = format!("36 35 0:40 / /mnt rw,noatime - {kind} source rw\n");
        fs::write(directory.path().join("proc/self/mountinfo"), line).unwrap();
        has_fuse_mounts(&Root::at_directory(directory.path().to_owned()))
    };
    assert!(is_one("fuse.sshfs") && is_one("fuseblk") && is_one("virtiofs"));
    assert!(!is_one("fusectl") && !is_one("ext4"));
}
