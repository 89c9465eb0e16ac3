//! FUSE: a thread that waits for such a file system sleeps in S.

use super::machine::{Machine, ProcTree, ThreadFiles, one, only};
use crate::kernel::mounts::has_fuse_mounts;
use crate::sample::Absent;

#[test]
fn a_wait_for_a_file_system_in_user_space_is_known_of_a_thread_that_no_scan_saw_run() {
    let asks = |tid| ThreadFiles { wchan: "request_wait_answer", syscall: "0 0x3 0x0 0x0 0x0", ..one(tid) };
    for fuse in [false, true] {
        let kind = if fuse { "fuse.sshfs" } else { "ext4" };
        let mounts = format!("36 35 0:40 / /mnt rw - {kind} source rw\n");
        let mut machine = Machine::on(ProcTree::with([("proc/self/mountinfo", mounts)]), true);
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
    let is_one = |kind: &str| {
        let line = format!("36 35 0:40 / /mnt rw,noatime - {kind} source rw\n");
        has_fuse_mounts(&ProcTree::with([("proc/self/mountinfo", line)]).root())
    };
    assert!(is_one("fuse.sshfs") && is_one("fuseblk") && is_one("virtiofs"));
    assert!(!is_one("fusectl") && !is_one("ext4"));
}
