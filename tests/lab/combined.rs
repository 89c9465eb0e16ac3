//! Two loads at once: each is reported, and neither as the other; lost time comes before used time, and what follows from a cause behind it.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::attempt::Attempt;
use crate::blocked::{convoy, start_convoy};
use crate::child_guard::ChildGuard;
use crate::disk::{start_readers, thirty_two_readers};
use crate::proc::{Snapshot, cpus, read, ticks};
use crate::scenario::{DISK_TOOLS, Lab};

/// A load beside a scenario: the lab runs one scenario at a time. Ended when dropped.
struct Beside(ChildGuard);

impl Beside {
    fn start(program: &Path, arguments: &[&str]) -> Beside {
        let child =
            Command::new(program).args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Beside(ChildGuard(child.unwrap_or_else(|why| panic!("{}: {why}", program.display()))))
    }

    /// Waits until it has used some CPU.
    fn until_hot(&self) {
        while ticks(self.0.id()) < 30 {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
}

/// 07 beside 03: a saturated thread and blocked readers are both reported.
#[test]
fn a_hot_thread_beside_a_saturated_disk() {
    let Some(lab) = Lab::open(DISK_TOOLS) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let (_scenario, device) = start_readers(&lab);
    let hot = Beside::start(&lab.program("spin"), &["150", "pin", "1"]);
    hot.until_hot();
    Attempt { crowded: true, ..Attempt::new("03+07", state.path()) }.check(|window, said| {
        thirty_two_readers(&device, window, said);
        let ticks = window.ticks("cpu");
        let available = ticks.share(ticks.available);
        // From 60 % on no thread is the limit, since the host is busy, too: half of this host is used by the thread.
        window.known("available CPUs", available * cpus(), cpus() - 1.13, cpus() - 0.95);
        // Less than half of this host is left, which is no longer critical; of a larger one more is.
        let stuck = said.must("idle-but-blocked", "host", if available > 0.55 { "critical" } else { "warning" });
        let spare = window.available_each();
        said.value(&stuck, spare.least - 0.08, spare.most + 0.03);
        let thread = said.must("saturated-thread", "spin", "warning");
        said.value(&thread, window.used_each("spin").least - 0.03, 1.01);
        said.follows(&thread, "none");
        let core = said.must("saturated-core", "cpu1", "warning");
        said.follows(&core, "saturated-thread");
        said.nothing_wrong_but(&["idle-but-blocked", "disk-latency", "saturated-thread", "saturated-core"]);
    });
}

/// 15 beside a compile that uses all CPUs but half of one: the chain is reported although the CPUs are used.
#[test]
fn a_convoy_beside_a_compile() {
    let Some(lab) = Lab::open(DISK_TOOLS) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let (_scenario, device) = start_convoy(&lab, 10_000);
    let source = lab.source("waits.c");
    let object = state.path().join("waits.o");
    let compile = format!("while :; do gcc -O2 -w -c {} -o {}; done", source.display(), object.display());
    let _compile = Beside::start(Path::new("sh"), &["-c", &compile]);
    Attempt { crowded: true, ..Attempt::new("15+compile", state.path()) }.check(|window, said| {
        let ticks = window.ticks("cpu");
        let available = ticks.share(ticks.available);
        // A compiler is one thread: half of this host, an eighth of another one.
        window.known("busy CPUs", ticks.busy() * cpus(), 0.9, 1.4);
        convoy(&device, 10_000, window, said);
        // Over the whole time: the seconds of a compiler differ.
        said.figure("idle_but_blocked_ratio", available * 0.85, available + 0.03);
        said.must_not("cpu-saturated");
    });
}

/// 13 on a busy host: the throttled thread is reported as throttled, and its run-queue wait is not CPU saturation: with one
/// thread on each CPU the others wait for its quota's worth only.
#[test]
fn a_throttled_task_on_a_busy_host() {
    if !crate::long() {
        return;
    }
    let Some(lab) = Lab::open(&[]) else { return };
    let group = "lab-13-cgroup-throttled";
    let stat = format!("/sys/fs/cgroup/cpu/{group}/cpu.stat");
    if read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").is_empty() {
        println!("skipped: no cpu controller of cgroup v1 in /sys/fs/cgroup/cpu");
        return;
    }
    let state = tempfile::tempdir().expect("a folder");
    let mut scenario = lab.start("13-cgroup-throttled", 120, &[]);
    scenario.until("burns its quota", |_| !read(&stat).is_empty() && !read(&stat).contains("nr_throttled 0\n"));
    let busy: Vec<Beside> =
        (0..cpus() as u32).map(|cpu| Beside::start(&lab.program("spin"), &["120", "pin", &cpu.to_string()])).collect();
    busy.iter().for_each(Beside::until_hot);
    let held: Vec<u32> =
        read(&format!("/sys/fs/cgroup/cpu/{group}/cgroup.procs")).lines().filter_map(|pid| pid.parse().ok()).collect();
    let schedstats: Vec<String> =
        busy.iter().map(|spin| spin.0.id()).chain(held).map(|pid| format!("/proc/{pid}/schedstat")).collect();
    let files: Vec<String> = schedstats.iter().chain([&stat]).cloned().collect();
    Attempt { crowded: true, files, ..Attempt::new("13+busy", state.path()) }.check(|window, said| {
        let throttled_ns = |snapshot: &Snapshot| snapshot.pair(&stat, "throttled_time");
        let throttled = window.rate(throttled_ns) / 1e9;
        // The second number is the time spent waiting for a CPU; that of a throttled thread has its throttled time in it.
        let delay = |text: &str| text.split_whitespace().nth(1).and_then(|ns| ns.parse().ok()).unwrap_or(f64::NAN);
        let waits = |snapshot: &Snapshot| schedstats.iter().map(|file| delay(snapshot.text(file))).sum::<f64>();
        let waiting = window.rate_each(|snapshot| (waits(snapshot) - throttled_ns(snapshot)) / 1e9);
        // The throttled thread shares a CPU with another: both wait for each other. A quarter of the CPUs is too much.
        window.known("threads that wait for a CPU, throttled time left out", waiting.most, 0.0, 0.22 * cpus());
        window.known("busy", window.ticks("cpu").busy(), 0.97, 1.0);
        window.known("throttled", throttled, 0.3, 0.83);
        let held = said.must("cpu-throttled", group, "warning");
        let of_seconds = window.rate_each(|snapshot| throttled_ns(snapshot) / 1e9);
        said.value_in(&held, of_seconds.give_or_take(0.15));
        said.says(&held, &["spin"]);
        said.first("cpu-throttled", group);
        said.follows(&held, "none");
        for kind in ["saturated-core", "saturated-thread", "idle-but-blocked", "hung-task"] {
            said.must_not(kind);
        }
        // All CPUs are used, and hardly any thread waits for one: that is a note.
        said.at_most_a_note("cpu-saturated", "host");
    });
}
