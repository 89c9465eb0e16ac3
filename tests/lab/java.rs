//! Threads of a Java virtual machine behind locks, monitors and those of java.util.concurrent (loads/JavaLocks.java), which name their owners.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use stalltop::sample::waits::OwnerField;

use crate::attempt::{Attempt, compare_until_equal};
use crate::check_result::{CheckResult, check as stalltop_check};
use crate::disk_load::link;
use crate::executable::copy_executable;
use crate::harness::program;
use crate::held_truth::{HeldTruth, samples};
use crate::scenario::Lab;

const BY_MONITOR: &str = "the owner field of the Java monitor (HotSpot)";
const BY_SYNCHRONIZER: &str = "the owner field of the java.util.concurrent lock (exclusiveOwnerThread)";
/// Share of the readings of a lock in which it must name the thread that owned it.
const MIN_RIGHT: f64 = 0.99;
/// Readings that are enough to judge by: a third of those on an idle machine in ten seconds.
const MIN_READINGS: usize = 15;

/// The load; killed when dropped.
struct JavaLocks(Child);

impl JavaLocks {
    /// Begins it, and waits until its threads run.
    fn start(kind: &str, mode: &str, seconds: u32, truth: &Path) -> JavaLocks {
        let mut command = Command::new("java");
        command.arg("-Xmx64m").arg(source()).args([kind, mode, &seconds.to_string()]).arg(truth);
        JavaLocks::when_ready(command)
    }

    fn when_ready(mut command: Command) -> JavaLocks {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("java starts");
        let mut ready = [0; 6];
        child.stdout.as_mut().expect("its output").read_exact(&mut ready).expect("it is ready");
        JavaLocks(child)
    }
}

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/loads/JavaLocks.java")
}

impl Drop for JavaLocks {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn check(kind: &str, mode: &str, mut verify: impl FnMut(&mut CheckResult)) {
    let Some(_lab) = Lab::open(&["java", "javac"]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let _load = JavaLocks::start(kind, mode, 120, &state.path().join("truth"));
    Attempt { seconds: 5, ..Attempt::new(&format!("java-{kind}-{mode}"), state.path()) }.check(|_, said| verify(said));
}

/// `behind`: the lock for which the threads wait, and its holder; `end`: what the chain ends in, known by `basis`.
fn held(kind: &str, mode: &str, severity: &str, behind: &str, (end, basis): (&str, &str)) {
    check(kind, mode, |said| {
        let found = said.must("idle-but-blocked", "host", severity);
        said.says(&found, &["threads wait for a lock (", behind]);
        let first = if kind == "monitor" { BY_MONITOR } else { BY_SYNCHRONIZER };
        said.word(&found, "lock_holder_basis", first);
        if !found.is_null() {
            link(said, &found, end, basis);
        }
        said.must_not("deadlock");
    });
}

const BEHIND_NESTED: &str = "which waits for a lock that nested/";
const SLEEPS: &str = "sleeps or waits for another thread, with a timeout (futex)";
const COMPUTES: &str = "computes while it holds the lock";

#[test]
fn an_owner_of_a_monitor_that_sleeps() {
    held("monitor", "sleep", "critical", "(one Java monitor) behind worker/", (SLEEPS, BY_MONITOR));
}

#[test]
fn an_owner_of_a_monitor_that_computes() {
    held("monitor", "compute", "warning", "(one Java monitor) behind worker/", (COMPUTES, BY_MONITOR));
}

#[test]
fn an_owner_of_a_monitor_that_waits_for_a_second_one() {
    held("monitor", "nested", "critical", BEHIND_NESTED, ("that lock is held by nested/", BY_MONITOR));
}

#[test]
fn an_owner_of_a_reentrant_lock_that_sleeps() {
    held("concurrent", "sleep", "critical", "(one java.util.concurrent lock) behind worker/", (SLEEPS, BY_SYNCHRONIZER));
}

#[test]
fn an_owner_of_a_reentrant_lock_that_computes() {
    if !crate::long() {
        return;
    }
    held("concurrent", "compute", "warning", "(one java.util.concurrent lock) behind worker/", (COMPUTES, BY_SYNCHRONIZER));
}

#[test]
fn an_owner_of_a_reentrant_lock_that_waits_for_a_read_write_lock() {
    if !crate::long() {
        return;
    }
    held("concurrent", "nested", "critical", BEHIND_NESTED, ("that lock is held by nested/", BY_SYNCHRONIZER));
}

#[test]
fn an_owner_of_a_reentrant_lock_that_waits_for_a_monitor() {
    held("mixed", "nested", "critical", BEHIND_NESTED, ("that lock is held by nested/", BY_MONITOR));
}

/// Since long before stalltop began: none of the threads has run meanwhile.
fn deadlock(kind: &str, lock: &str) {
    check(kind, "deadlock", |said| {
        let found = said.must("deadlock", "java", "critical");
        let [waits, behind] = [format!(" waits for a {lock} that "), format!("more threads wait for these {lock}s")];
        said.says(&found, &["one/", "two/", &waits, "neither proceeds", &behind]);
    });
}

#[test]
fn two_threads_that_wait_for_each_others_monitor() {
    deadlock("monitor", "Java monitor");
}

#[test]
fn two_threads_that_wait_for_each_others_lock_of_java_util_concurrent() {
    deadlock("concurrent", "java.util.concurrent lock");
}

#[test]
fn a_thread_with_a_reentrant_lock_and_one_with_a_monitor_that_wait_for_each_other() {
    if !crate::long() {
        return;
    }
    deadlock("mixed", "lock");
}

/// They wait for work, a condition, a permit, a latch or a result.
#[test]
fn threads_without_work_wait_for_no_lock() {
    check("concurrent", "idle", |said| {
        for finding in ["idle-but-blocked", "mutex-queue", "deadlock"] {
            said.must_not(finding);
        }
    });
}

#[test]
fn each_reading_of_a_monitor_names_the_thread_that_owns_it() {
    compare_readings("monitor", OwnerField::JavaMonitor);
}

#[test]
fn each_reading_of_a_reentrant_lock_names_the_thread_that_owns_it() {
    compare_readings("concurrent", OwnerField::JavaSynchronizer);
}

fn compare_readings(kind: &str, field: OwnerField) {
    let Some(_lab) = Lab::open(&["java", "javac"]) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let truth = folder.path().join("truth");
    compare_until_equal(&format!("owners of a lock ({kind})"), || {
        let load = JavaLocks::start(kind, "sleep", 60, &truth);
        let said = stalltop_check(&format!("java-readings-{kind}"), folder.path(), 10, "1s");
        drop(load);
        let held = HeldTruth::parse(std::fs::read_to_string(&truth).expect("what the load wrote").lines());
        let samples = samples(said.recording());
        let all = samples.iter().flat_map(|sample| sample.waits.lock_owners.iter().map(move |row| (sample, row)));
        let of_lock = all.filter(|(_, row)| row.field == field && row.awaited_java_lock.is_none());
        // Of those that were owned when the load was killed there is no line.
        let last = held.last_end();
        let readings: Vec<bool> = of_lock
            .filter(|(sample, _)| i128::from(sample.at.realtime_ns) <= last)
            .map(|(sample, row)| held.agrees(sample, row))
            .collect();
        let right = readings.iter().filter(|&&is_right| is_right).count();
        println!("{kind}: the owner is right in {right} of {} readings", readings.len());
        match readings.len() >= MIN_READINGS && right as f64 >= readings.len() as f64 * MIN_RIGHT {
            true => Ok(()),
            false => Err(format!("right in {right} of {} readings", readings.len())),
        }
    });
}

/// `process_vm_readv` of a process of the same user needs no capability.
#[test]
fn an_ordinary_user_sees_the_owners_of_its_own_locks() {
    let Some(_lab) = Lab::open(&["java", "javac", "setpriv"]) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    // Directories above the build may not be readable for others.
    let (copy, state) = (folder.path().join("stalltop"), folder.path().join("state"));
    let copy_of_source = folder.path().join("JavaLocks.java");
    copy_executable(program(), &copy);
    std::fs::copy(source(), &copy_of_source).expect("a copy");
    std::fs::create_dir(&state).expect("a folder");
    for path in [folder.path(), &state, &copy, &copy_of_source] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).expect("permissions");
    }
    let as_nobody = |program: &Path| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]).arg(program).current_dir("/");
        command
    };
    let sees = |kind: &str, lock: &str| {
        compare_until_equal(&format!("locks of an ordinary user ({kind})"), || {
            let mut command = as_nobody(Path::new("java"));
            command.arg("-Xmx64m").arg(&copy_of_source).args([kind, "sleep", "60"]).arg(state.join("truth"));
            let _load = JavaLocks::when_ready(command);
            let mut check = as_nobody(&copy);
            check.args(["check", "--for", "4s", "--no-config"]).env("XDG_STATE_HOME", &state);
            let said = String::from_utf8(check.output().expect("stalltop runs").stdout).expect("UTF-8");
            match said.contains(&format!(" threads wait for a lock ({lock}) behind worker/")) {
                true => Ok(()),
                false => Err(said),
            }
        });
    };
    sees("monitor", "one Java monitor");
    sees("concurrent", "one java.util.concurrent lock");
}
