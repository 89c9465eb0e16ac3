//! Limits of the kernel that fail work while the machine is idle (loads/limits.py), and the same below them.

use std::path::Path;
use std::process::Command;

use crate::attempt::Attempt;
use crate::check_result::CheckResult;
use crate::disk_load::Load;
use crate::long;
use crate::scenario::Lab;

fn check(mode: &str, mut verify: impl FnMut(&mut CheckResult)) {
    let Some(_lab) = Lab::open(&["python3"]) else { return };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/loads/limits.py");
    let mut command = Command::new("python3");
    command.arg(source).args([mode, "60"]);
    let _load = Load::start(command);
    let state = tempfile::tempdir().expect("a folder");
    Attempt { seconds: 5, ..Attempt::new(&format!("limits-{mode}"), state.path()) }.check(|_, said| verify(said));
}

/// pids.events: `max` grows ten times a second.
#[test]
fn a_cgroup_whose_forks_fail() {
    check("tasks", |said| {
        let reached = said.must("limit-reached", "stalltop-limits-", "critical");
        said.evidence(&reached, "refused_per_second", 7.0, 11.0);
        said.says(&reached, &[" has 40 of 40 tasks (pids.max): fork and clone fail (EAGAIN), "]);
    });
}

#[test]
fn a_cgroup_with_two_thirds_of_its_tasks() {
    if !crate::long() {
        return;
    }
    check("tasks-few", |said| said.must_not("limit-reached"));
}

#[test]
fn a_process_without_a_free_descriptor() {
    check("files", |said| {
        let reached = said.must("limit-reached", "opener", "warning");
        said.says(
            &reached,
            &["opener (", " of 200 file descriptors open (RLIMIT_NOFILE): open, socket and accept fail (EMFILE)"],
        );
    });
}

#[test]
fn a_process_with_three_quarters_of_its_descriptors() {
    if !long() {
        return;
    }
    check("files-many", |said| said.must_not("limit-reached"));
}
