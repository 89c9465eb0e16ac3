//! Threads of a Java virtual machine behind monitors (loads/Monitors.java), whose owners the virtual machine names.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use stalltop::sample::waits::OwnerField;

use crate::attempt::{Attempt, compare_until_equal};
use crate::check_result::{CheckResult, check as stalltop_check};
use crate::disk_load::link;
use crate::executable::copy_executable;
use crate::harness::program;
use crate::held_truth::{HeldTruth, samples};
use crate::scenario::Lab;

const BASIS: &str = "the owner field of the Java monitor (HotSpot)";
/// Share of the readings of a monitor in which it must name the thread that owned it.
const MIN_RIGHT: f64 = 0.99;
/// Readings that are enough to judge by: a third of those on an idle machine in ten seconds.
const MIN_READINGS: usize = 15;

/// The load; killed when dropped.
struct Monitors(Child);

impl Monitors {
    /// Begins it, and waits until its threads run.
    fn start(mode: &str, seconds: u32, truth: &Path) -> Monitors {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/loads/Monitors.java");
        let mut command = Command::new("java");
        command.arg("-Xmx64m").arg(source).args([mode, &seconds.to_string()]).arg(truth);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("java starts");
        let mut ready = [0; 6];
        child.stdout.as_mut().expect("its output").read_exact(&mut ready).expect("it is ready");
        Monitors(child)
    }
}

impl Drop for Monitors {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn check(mode: &str, mut verify: impl FnMut(&mut CheckResult)) {
    let Some(_lab) = Lab::open(&["java", "javac"]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let _load = Monitors::start(mode, 120, &state.path().join("truth"));
    Attempt { seconds: 5, ..Attempt::new(&format!("java-{mode}"), state.path()) }.check(|_, said| verify(said));
}

fn held(mode: &str, severity: &str, says: &str, ends: &str) {
    check(mode, |said| {
        let found = said.must("idle-but-blocked", "host", severity);
        said.says(&found, &["threads wait for a lock (", says]);
        said.word(&found, "lock_holder_basis", BASIS);
        if !found.is_null() {
            link(said, &found, ends, BASIS);
        }
        said.must_not("deadlock");
    });
}

#[test]
fn an_owner_that_sleeps() {
    held(
        "sleep",
        "critical",
        "(one Java monitor) behind worker/",
        "sleeps or waits for another thread, with a timeout (futex)",
    );
}

#[test]
fn an_owner_that_computes() {
    held("compute", "warning", "(one Java monitor) behind worker/", "computes while it holds the lock");
}

#[test]
fn an_owner_that_waits_for_a_second_monitor() {
    held("nested", "critical", "which waits for a lock that nested/", "that lock is held by nested/");
}

/// Since long before stalltop began: none of the threads has run meanwhile.
#[test]
fn two_threads_that_wait_for_each_others_monitor() {
    check("deadlock", |said| {
        let found = said.must("deadlock", "java", "critical");
        said.says(
            &found,
            &[
                "one/",
                "two/",
                " waits for a Java monitor that ",
                "neither proceeds",
                "more threads wait for these Java monitors",
            ],
        );
    });
}

#[test]
fn threads_without_work_wait_for_no_monitor() {
    check("idle", |said| {
        for kind in ["idle-but-blocked", "mutex-queue", "deadlock"] {
            said.must_not(kind);
        }
    });
}

#[test]
fn each_reading_of_a_monitor_names_the_thread_that_owns_it() {
    let Some(_lab) = Lab::open(&["java", "javac"]) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let truth = folder.path().join("truth");
    compare_until_equal("owners of a monitor", || {
        let load = Monitors::start("sleep", 60, &truth);
        let said = stalltop_check("java-readings", folder.path(), 10, "1s");
        drop(load);
        let held = HeldTruth::parse(std::fs::read_to_string(&truth).expect("what the load wrote").lines());
        let samples = samples(said.recording());
        let all = samples.iter().flat_map(|sample| sample.waits.lock_owners.iter().map(move |row| (sample, row)));
        let of_monitor = all.filter(|(_, row)| row.field == OwnerField::JavaMonitor && row.awaited_monitor.is_none());
        // Of those that were owned when the load was killed there is no line.
        let last = held.last_end();
        let readings: Vec<bool> = of_monitor
            .filter(|(sample, _)| i128::from(sample.at.realtime_ns) <= last)
            .map(|(sample, row)| held.agrees(sample, row))
            .collect();
        let right = readings.iter().filter(|&&is_right| is_right).count();
        println!("monitor: the owner is right in {right} of {} readings", readings.len());
        match readings.len() >= MIN_READINGS && right as f64 >= readings.len() as f64 * MIN_RIGHT {
            true => Ok(()),
            false => Err(format!("right in {right} of {} readings", readings.len())),
        }
    });
}

/// `process_vm_readv` of a process of the same user needs no capability.
#[test]
fn an_ordinary_user_sees_the_owners_of_its_own_monitors() {
    let Some(_lab) = Lab::open(&["java", "javac", "setpriv"]) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    // Directories above the build may not be readable for others.
    let (copy, state) = (folder.path().join("stalltop"), folder.path().join("state"));
    let source = folder.path().join("Monitors.java");
    copy_executable(program(), &copy);
    std::fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/loads/Monitors.java"), &source).expect("a copy");
    std::fs::create_dir(&state).expect("a folder");
    for path in [folder.path(), &state, &copy, &source] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).expect("permissions");
    }
    let as_nobody = |program: &Path| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]).arg(program).current_dir("/");
        command
    };
    compare_until_equal("monitors of an ordinary user", || {
        let mut command = as_nobody(Path::new("java"));
        command.arg("-Xmx64m").arg(&source).args(["sleep", "60"]).arg(state.join("truth"));
        let mut child = command.stdout(Stdio::piped()).spawn().expect("java starts");
        let mut ready = [0; 6];
        child.stdout.as_mut().expect("its output").read_exact(&mut ready).expect("it is ready");
        let _load = Monitors(child);
        let mut check = as_nobody(&copy);
        check.args(["check", "--for", "4s", "--no-config"]).env("XDG_STATE_HOME", &state);
        let said = String::from_utf8(check.output().expect("stalltop runs").stdout).expect("UTF-8");
        match said.contains(" threads wait for a lock (one Java monitor) behind worker/") {
            true => Ok(()),
            false => Err(said),
        }
    });
}
