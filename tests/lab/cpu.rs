//! CPUs: one thread at its limit, a quota, a high load average on an idle machine, a process that the timer tick does not see.

use std::path::Path;

use crate::attempt::{Attempt, Window};
use crate::check_result::CheckResult;
use crate::long;
use crate::proc::{cpus, processes, read, ticks};
use crate::scenario::{Lab, Scenario};

/// /proc/stat counts in ticks of 10 ms, stalltop and this test read it some milliseconds apart, and stalltop's own work
/// between is in it: 3 per cent of one CPU.
const TICK: f64 = 0.03;

fn wait_for_spin(scenario: &mut Scenario) {
    scenario.until("burns CPU", |_| processes("spin").iter().any(|pid| ticks(*pid) >= 30));
}

/// What holds for one saturated thread on any CPU.
fn one_hot_thread(window: &mut Window, said: &mut CheckResult) {
    let busy = window.ticks("cpu").busy();
    // schedstat: 99.88 %; utime + stime are scaled to the same run time.
    window.known("the thread's CPU", window.used("spin"), 0.97, 1.03);
    window.known("busy CPUs", busy * cpus(), 0.97, 1.2);
    let thread = said.must("saturated-thread", "spin", "warning");
    said.value(&thread, window.used_each("spin").least - 0.03, 1.0);
    said.says(&thread, &["spin", "more CPUs won't help"]);
    said.figure_is("busy_ratio", busy, TICK);
    for kind in ["cpu-saturated", "idle-but-blocked", "cpu-throttled", "load-not-cpu", "hung-task", "hidden-cpu"] {
        said.must_not(kind);
    }
}

/// 07: one busy thread pinned to CPU 1. mpstat: cpu1 100.00, cpu0 6; schedstat: 99.88 %, run delay 0.12 %.
#[test]
fn one_hot_thread_on_one_cpu() {
    if !crate::long() {
        return;
    }
    let Some(lab) = Lab::open(&[]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let mut scenario = lab.start("07-one-hot-thread-pinned", 120, &[]);
    wait_for_spin(&mut scenario);
    // The default duration of `check`.
    Attempt { seconds: 5, ..Attempt::new("07", state.path()) }.check(|window, said| {
        one_hot_thread(window, said);
        let busy = window.ticks("cpu1").busy();
        window.known("busy of CPU 1", busy, 0.97, 1.0);
        let core = said.must("saturated-core", "cpu1", "warning");
        said.value(&core, window.each(|span| span.ticks("cpu1").busy()).least - TICK, 1.0);
        said.says(&core, &["spin"]);
        said.nothing_wrong_but(&["saturated-thread", "saturated-core"]);
    });
}

fn migrating(name: &str, every_ms: &str) {
    let Some(lab) = Lab::open(&[]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let mut scenario = lab.start("08-one-hot-thread-migrating", 120, &[("MS", every_ms)]);
    wait_for_spin(&mut scenario);
    Attempt { seconds: 5, ..Attempt::new(name, state.path()) }.check(|window, said| {
        one_hot_thread(window, said);
        window.known("busy of CPU 1", window.ticks("cpu1").busy(), 0.3, 0.8);
        said.must_not("saturated-core");
        said.nothing_wrong_but(&["saturated-thread"]);
    });
}

/// 08: the same thread moved every 100 ms: both CPUs 50 % by mpstat, the thread 99.88 % by /proc.
#[test]
fn one_hot_thread_that_no_cpu_shows() {
    if !crate::long() {
        return;
    }
    migrating("08", "100");
}

#[test]
fn one_hot_thread_that_moves_more_often() {
    if long() {
        migrating("08-often", "17");
    }
}

/// 13: a quota in periods of 100 ms. With 20 ms: cpu.stat: throttled 0.80 s per second, in each period; mpstat: 88 % idle;
/// PSI cpu 77 % and run delay 80 % mislead.
fn throttled(name: &str, quota_us: u32) {
    let Some(lab) = Lab::open(&[]) else { return };
    let group = "lab-13-cgroup-throttled";
    let stat = format!("/sys/fs/cgroup/cpu/{group}/cpu.stat");
    if read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").is_empty() {
        println!("skipped: no cpu controller of cgroup v1 in /sys/fs/cgroup/cpu");
        return;
    }
    let state = tempfile::tempdir().expect("a folder");
    let quota = f64::from(quota_us) / 100_000.0;
    let mut scenario = lab.start("13-cgroup-throttled", 120, &[("QUOTA_US", &quota_us.to_string())]);
    scenario.until("burns its quota", |scenario| {
        let pid = scenario.note("pid").and_then(|pid| pid.parse().ok());
        pid.is_some_and(|pid: u32| ticks(pid) >= 3) && !read(&stat).contains("nr_throttled 0\n")
    });
    Attempt { files: vec![stat.clone()], ..Attempt::new(name, state.path()) }.check(|window, said| {
        let throttled = window.rate(|snapshot| snapshot.pair(&stat, "throttled_time")) / 1e9;
        let busy = window.ticks("cpu").busy();
        window.known("throttled", throttled, (0.98 - quota) * 0.95, 1.0 - quota + 0.02);
        window.known("CPU used", window.used("spin"), quota * 0.9, quota * 1.1 + 0.01);
        let held = said.must("cpu-throttled", group, "warning");
        // An interval of a second has ten periods, and may end inside one: a part of 100 ms is in this one or the next.
        let of_seconds = window.rate_each(|snapshot| snapshot.pair(&stat, "throttled_time") / 1e9);
        said.value_in(&held, of_seconds.give_or_take(0.1));
        said.evidence(&held, "quota_cpus", quota * 0.999, quota * 1.001);
        said.says(&held, &["spin"]);
        said.figure_is("busy_ratio", busy, TICK);
        for kind in ["cpu-saturated", "saturated-core", "saturated-thread", "idle-but-blocked", "load-not-cpu"] {
            said.must_not(kind);
        }
        said.nothing_wrong_but(&["cpu-throttled"]);
    });
}

#[test]
fn a_throttled_task_on_an_idle_host() {
    throttled("13", 20_000);
}

#[test]
fn a_task_throttled_for_half_of_the_time() {
    if long() {
        throttled("13-half", 50_000);
    }
}

#[test]
fn a_task_throttled_nearly_all_the_time() {
    if long() {
        throttled("13-hard", 6_000);
    }
}

/// 06: this number of processes in vfork, whose children sleep. After 25 s the load is 341 and rises; mpstat: 85 % idle.
fn vforks(name: &str, count: u32) {
    let Some(lab) = Lab::open(&[]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let mut scenario = lab.start("06-vfork-thousand", 120, &[("N", &count.to_string())]);
    let load = || read("/proc/loadavg").split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0);
    scenario.until("has them all, and the load shows it", |scenario| {
        scenario.said().contains("processes waiting in vfork") && load() >= 2.5 * cpus()
    });
    Attempt::new(name, state.path()).check(|window, said| {
        window.known("busy", window.ticks("cpu").busy(), 0.0, 0.3);
        let high = said.must("load-not-cpu", "host", "note");
        said.evidence(&high, "blocked_vfork", f64::from(count), f64::from(count));
        said.evidence(&high, "load1", 2.0 * cpus(), f64::from(count));
        said.says(&high, &[&format!("{count} in vfork"), "harmless"]);
        said.figure("idle_but_blocked_ratio", 0.0, 0.02);
        said.figure("free_ratio", 0.7, 1.0);
        for kind in ["idle-but-blocked", "hung-task", "cpu-saturated", "disk-latency", "io-throttled", "memory-pressure"] {
            said.must_not(kind);
        }
        said.nothing_wrong_but(&[]);
    });
}

#[test]
fn a_thousand_in_vfork_are_harmless() {
    vforks("06", 1000);
}

#[test]
fn two_hundred_in_vfork_are_harmless() {
    if long() {
        vforks("06-few", 230);
    }
}

/// 12: a thread of CPU 1 that is asleep whenever the clock ticks. schedstat: 77 % of a CPU; /proc/stat: 2 % busy, and three
/// quarters of that CPU's time in no field, so that mpstat says 92 % idle.
fn hides(name: &str, margin_us: &str, least: f64) {
    let Some(lab) = Lab::open(&["chrt"]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let mut scenario = lab.start("12-hide-from-clock", 120, &[("MARGIN", margin_us)]);
    let mut pid = 0;
    scenario.until("runs", |scenario| {
        pid = scenario.note("pid").and_then(|pid| pid.parse().ok()).unwrap_or(0);
        ticks(pid) >= 100
    });
    let schedstat = format!("/proc/{pid}/schedstat");
    Attempt { files: vec![schedstat.clone()], ..Attempt::new(name, state.path()) }.check(|window, said| {
        let run_ns = |text: &str| text.split_whitespace().next().and_then(|ns| ns.parse().ok()).unwrap_or(f64::NAN);
        let used = window.rate(|snapshot| run_ns(snapshot.text(&schedstat))) / 1e9;
        let seen = window.ticks("cpu1");
        let missing = window.missing("cpu1");
        window.known("the thread's CPU", used, least, 0.85);
        window.known("part of CPU 1's time in no field", missing, least - 0.1, 0.85);
        window.known("busy of CPU 1 by ticks", seen.busy(), 0.0, 0.25);

        let hidden = said.must("hidden-cpu", "cpu1", "warning");
        let used_each = window.rate_each(|snapshot| run_ns(snapshot.text(&schedstat)) / 1e9);
        said.evidence(&hidden, "core_scheduler_ratio", used_each.least - 0.05, used_each.most + 0.08);
        let missing_each = window.each(|span| span.missing("cpu1"));
        said.evidence_in(&hidden, "core_unaccounted_ratio", missing_each.give_or_take(0.08));
        said.says(&hidden, &["cheat", "CPU 1"]);
        // By mpstat nearly all of the host is free.
        said.figure("free_ratio", 0.0, 1.0 - used * 0.9 / cpus());
        for kind in ["cpu-saturated", "idle-but-blocked", "cpu-throttled", "cpu-stolen"] {
            said.must_not(kind);
        }
        said.nothing_wrong_but(&["hidden-cpu"]);
    });
}

#[test]
fn a_thread_hidden_from_the_tick() {
    hides("12", "700", 0.6);
}

#[test]
fn a_thread_hidden_from_the_tick_for_half_of_the_time() {
    if long() {
        hides("12-half", "1600", 0.35);
    }
}

/// A thread that fills CPU 1 while CPU 0 is `percent` busy: it is the limit only if CPU 0 has 0.25 of its time left.
fn beside_a_busy_cpu(percent: u32, verify: impl Fn(&mut CheckResult)) {
    let Some(lab) = Lab::open(&[]) else { return };
    if cpus() != 2.0 {
        println!("skipped: made for two CPUs");
        return;
    }
    let state = tempfile::tempdir().expect("a folder");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/loads/one-of-two.sh");
    let mut scenario = lab.start_script(&script, 120, &[("PERCENT", &percent.to_string())]);
    wait_for_spin(&mut scenario);
    Attempt { crowded: true, ..Attempt::new(&format!("one-of-two-{percent}"), state.path()) }.check(|window, said| {
        let wanted = f64::from(percent) / 100.0;
        window.known("the thread's CPU", window.used("spin"), 0.95, 1.03);
        window.known("busy of CPU 0", window.ticks("cpu0").busy(), wanted - 0.06, wanted + 0.1);
        verify(said);
    });
}

#[test]
fn one_hot_thread_on_a_host_that_is_80_per_cent_busy() {
    beside_a_busy_cpu(55, |said| {
        let thread = said.must("saturated-thread", "spin", "warning");
        said.says(&thread, &["more CPUs won't help", "CPU is idle"]);
        said.evidence(&thread, "free_cpus", 0.25, 0.55);
        said.nothing_wrong_but(&["saturated-thread", "saturated-core"]);
    });
}

#[test]
fn one_hot_thread_beside_a_cpu_without_free_time() {
    if !crate::long() {
        return;
    }
    beside_a_busy_cpu(90, |said| {
        said.must_not("saturated-thread");
        said.must_not("saturated-core");
    });
}
