//! Cgroup limits that bind while the machine has room, each with a counterpart that must not be reported: a limit that does not
//! bind, or that slows no task.
//!
//! The cgroups are of version 1; the truth is read from their own counters and from /proc of their tasks.

use std::path::{Path, PathBuf};

use stalltop::app::evaluation::SampleEvaluator;
use stalltop::baseline::Baselines;
use stalltop::findings::{Evaluator, Kind, Severity};
use stalltop::recording::Replayer;

use crate::attempt::{Attempt, Window};
use crate::check_result::CheckResult;
use crate::long;
use crate::proc::{READS_COMPLETED, Snapshot, cpus, diskstat, processes, read, ticks};
use crate::scenario::{DISK_TOOLS, Lab, Scenario};

/// The lab, where this machine has that controller.
fn open(controller: &str, tools: &[&str]) -> Option<Lab> {
    let lab = Lab::open(tools)?;
    let there = Path::new("/sys/fs/cgroup").join(controller).join("cgroup.procs").exists();
    if !there {
        println!("skipped: no cgroup v1 hierarchy {controller}");
    }
    there.then_some(lab)
}

fn start(lab: &Lab, name: &str, environment: &[(&str, &str)]) -> Scenario {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/lab/loads").join(format!("{name}.sh"));
    lab.start_script(&script, 120, environment)
}

/// A file of the group of a load.
fn of_group(controller: &str, load: &str, file: &str) -> String {
    format!("/sys/fs/cgroup/{controller}/lab-{load}/{file}")
}

/// Four processes that map more than their limit of 32 MiB, and a folder for what is learned.
pub fn start_mappers() -> Option<(Lab, Scenario, tempfile::TempDir)> {
    let lab = open("memory", DISK_TOOLS)?;
    let state = tempfile::tempdir().expect("a folder");
    let mut scenario = start(&lab, "memory-thrash", &[]);
    let device = scenario.device();
    let before = diskstat(&device, READS_COMPLETED);
    // Their first 32 MiB fit into the limit.
    scenario.until("reads what was taken from it", |_| diskstat(&device, READS_COMPLETED) >= before + 20_000);
    Some((lab, scenario, state))
}

/// Four processes in page faults under 32 MiB. Each fault takes a read of 1 ms, and the kernel's work on it: they are in D
/// at least 80 % of the time, and the rest of the host has enough memory.
#[test]
fn a_cgroup_that_is_larger_than_its_memory_limit() {
    if !crate::long() {
        return;
    }
    let Some((_lab, _scenario, state)) = start_mappers() else { return };
    let stat = of_group("memory", "memory-thrash", "memory.stat");
    let failures = of_group("memory", "memory-thrash", "memory.failcnt");
    let files = vec![stat.clone(), failures.clone()];
    Attempt { files, ..Attempt::new("memory-thrash", state.path()) }.check(|window, said| {
        let faults = window.rate(|snapshot| snapshot.pair(&stat, "pgmajfault"));
        let hits = window.rate(|snapshot| snapshot.text(&failures).trim().parse().unwrap_or(f64::NAN));
        let faulting = window.threads("fio", 'D');
        window.known("major faults/s", faults, 1000.0, 4000.0);
        window.known("hits of the limit/s", hits, 500.0, f64::MAX);
        window.known("processes in D", faulting, 3.0, 4.0);
        let want = said.must("memory-pressure", "lab-memory-thrash", "warning");
        said.evidence(&want, "memory_limit_bytes", 33_554_432.0, 33_554_432.0);
        // The pages are random, and so is the load of other processes.
        let each = |counter: &dyn Fn(&Snapshot) -> f64| window.rate_each(counter).within(0.15);
        said.evidence_in(&want, "major_faults_per_second", each(&|at| at.pair(&stat, "pgmajfault")));
        said.evidence_in(&want, "refaults_per_second", each(&|at| at.pair(&stat, "workingset_refault_file")));
        said.evidence_in(&want, "limit_hits_per_second", each(&|at| at.text(&failures).trim().parse().unwrap_or(f64::NAN)));
        // Their share contains the kernel's work on a fault, too, beside the D states that the watch sees five times per second.
        said.evidence(&want, "time_in_faults_ratio", faulting / 4.0 - 0.15, 1.0);
        said.says(&want, &["limit of 32.0 MiB", "4 of its processes", "page faults", "the host has", "fio"]);
        for kind in ["swapping", "oom-kill", "disk-stalled", "io-throttled", "hung-task", "cpu-saturated"] {
            said.must_not(kind);
        }
        said.nothing_wrong_but(&["memory-pressure", "idle-but-blocked"]);
    });
}

/// The kind and severity of the first finding at each sample, from so many seconds on.
fn first_findings(recording: &Path, from_seconds: usize) -> Vec<(Kind, Severity)> {
    let mut replayer = Replayer::open(recording).expect("its recording");
    let mut evaluator = SampleEvaluator::new(replayer.host(0), Evaluator::new(Baselines::default()));
    let samples: Vec<_> = (0..replayer.len()).map(|at| replayer.sample(at).expect("a sample")).collect();
    let evaluations = samples.into_iter().map(|sample| evaluator.evaluate(sample)).skip(from_seconds);
    evaluations.filter_map(|evaluation| evaluation?.active.first().map(|first| (first.kind, first.severity))).collect()
}

/// The same for 13 s, at constant load: one incident, told as one, and steady.
#[test]
fn a_cgroup_at_its_memory_limit_is_one_steady_incident() {
    let Some((_lab, scenario, state)) = start_mappers() else { return };
    let device = scenario.device();
    Attempt { seconds: 13, ..Attempt::new("memory-steady", state.path()) }.check(|_, said| {
        said.first("memory-pressure", "lab-memory-thrash");
        let memory = said.must("memory-pressure", "lab-memory-thrash", "warning");
        said.follows(&memory, "none");
        let blocked = said.must("idle-but-blocked", "host", "warning");
        said.follows(&blocked, "memory-pressure");
        let disks = said.about_subject(&device);
        said.expect(!disks.is_empty(), || format!("nothing is said of {device}"));
        for disk in &disks {
            said.follows(disk, "memory-pressure");
        }
        let first = first_findings(said.recording(), 5);
        let changes = first.windows(2).filter(|pair| pair[0] != pair[1]).count();
        said.expect(changes <= 1, || format!("the first finding changes {changes} times: {first:?}"));
        said.expect(first.len() >= 6, || format!("only {} evaluations", first.len()));
    });
}

/// The opposite case: one process that reads 8 GiB from end to end under 64 MiB. It is at its limit all the time, and nothing is
/// read again: more memory would not make it faster.
#[test]
fn a_backup_that_reaches_its_memory_limit() {
    if !crate::long() {
        return;
    }
    let Some(lab) = open("memory", DISK_TOOLS) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let mut scenario = start(&lab, "memory-backup", &[]);
    let device = scenario.device();
    let failures = of_group("memory", "memory-backup", "memory.failcnt");
    let hits = |text: &str| text.trim().parse::<f64>().unwrap_or(0.0);
    scenario.until("meets its limit", |_| hits(&read(&failures)) > 0.0);
    let stat = of_group("memory", "memory-backup", "memory.stat");
    let files = vec![stat.clone(), failures.clone()];
    Attempt { files, ..Attempt::new("memory-backup", state.path()) }.check(|window, said| {
        window.known("hits of the limit/s", window.rate(|snapshot| hits(snapshot.text(&failures))), 10.0, f64::MAX);
        window.known("refaults/s", window.rate(|snapshot| snapshot.pair(&stat, "workingset_refault_file")), 0.0, 5.0);
        window.known("reads/s", window.disk(&device).reads, 50.0, f64::MAX);
        for kind in ["memory-pressure", "swapping", "oom-kill", "io-throttled", "hung-task", "disk-stalled"] {
            said.must_not(kind);
        }
        // It is as fast as its disk.
        said.at_most_a_note("idle-but-blocked", "host");
    });
}

/// The truth of CPU 1: its ticks, and the run-queue wait of the processes that are pinned to it.
fn one_cpu(count: u32, window: &mut Window, spins: &[String]) -> f64 {
    let delay = |text: &str| text.split_whitespace().nth(1).and_then(|ns| ns.parse().ok()).unwrap_or(f64::NAN);
    let waits = spins.iter().map(|file| window.rate(|snapshot| delay(snapshot.text(file))) / 1e9).sum();
    window.known("busy of CPU 1", window.ticks("cpu1").busy(), 0.97, 1.0);
    window.known("CPU used", window.used("spin"), 0.9, 1.02);
    window.known("processes that wait", waits, f64::from(count) - 1.0, f64::from(count) - 0.9);
    waits
}

fn restricted(mode: &str, count: u32, verify: impl Fn(f64, &mut Window, &mut CheckResult)) {
    let Some(lab) = open("cpuset", &["taskset"]) else { return };
    if cpus() < 2.0 {
        println!("skipped: one CPU is the whole host");
        return;
    }
    let state = tempfile::tempdir().expect("a folder");
    let mut scenario = start(&lab, "one-cpu", &[("MODE", mode), ("THREADS", &count.to_string())]);
    scenario.until("burns CPU", |_| {
        let spins = processes("spin");
        spins.len() == count as usize && spins.iter().all(|pid| ticks(*pid) >= 10)
    });
    let spins: Vec<String> = processes("spin").iter().map(|pid| format!("/proc/{pid}/schedstat")).collect();
    // Other threads that the scheduler puts on that CPU are woken late.
    let name = format!("one-cpu-{mode}-{count}");
    Attempt { crowded: true, files: spins.clone(), ..Attempt::new(&name, state.path()) }.check(|window, said| {
        let waits = one_cpu(count, window, &spins);
        verify(waits, window, said);
        for kind in ["cpu-throttled", "idle-but-blocked", "hung-task", "saturated-thread"] {
            said.must_not(kind);
        }
    });
}

/// Four processes in a cpuset of one CPU; the other CPU is idle.
fn four_for_one(subject: &str, whose: &str, waits: f64, said: &mut CheckResult) {
    let crowd = said.must("cpu-saturated", subject, "warning");
    said.value(&crowd, waits - 0.15, waits + 0.15);
    said.evidence(&crowd, "runnable_threads", waits + 0.8, waits + 1.2);
    said.word(&crowd, "allowed_cpus", "1");
    said.says(&crowd, &["4 runnable threads for CPU 1", whose, "spin"]);
    said.nothing_wrong_but(&["cpu-saturated", "saturated-core"]);
}

#[test]
fn a_saturated_cpuset_on_an_idle_host() {
    restricted("cpuset", 4, |waits, _, said| four_for_one("lab-one-cpu", "cpuset /lab-one-cpu allows", waits, said));
}

#[test]
fn a_saturated_affinity_mask_on_an_idle_host() {
    if !crate::long() {
        return;
    }
    restricted("taskset", 4, |waits, _, said| four_for_one("cpu1", "CPU affinity allows", waits, said));
}

/// The opposite case: one process that has the CPU of its cpuset for itself. It is at its limit; no thread waits.
#[test]
fn a_cpuset_for_one_thread() {
    if !long() {
        return;
    }
    let Some(lab) = open("cpuset", &[]) else { return };
    if cpus() < 2.0 {
        println!("skipped: one CPU is the whole host");
        return;
    }
    let state = tempfile::tempdir().expect("a folder");
    let mut scenario = start(&lab, "one-cpu", &[("THREADS", "1")]);
    scenario.until("burns CPU", |_| processes("spin").iter().any(|pid| ticks(*pid) >= 30));
    Attempt::new("one-cpu-alone", state.path()).check(|window, said| {
        window.known("CPU used", window.used("spin"), 0.97, 1.03);
        said.must("saturated-thread", "spin", "warning");
        said.must_not("cpu-saturated");
        said.must_not("cpu-throttled");
        said.nothing_wrong_but(&["saturated-thread", "saturated-core"]);
    });
}

/// The quota is of a group above the one that the task is in: that group is named, with the task.
#[test]
fn a_task_throttled_by_the_quota_of_a_parent_group() {
    let Some(lab) = open("cpu", &[]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let mut scenario = start(&lab, "nested-quota", &[]);
    let stat = of_group("cpu", "nested-quota", "cpu.stat");
    scenario.until("burns its quota", |_| processes("spin").iter().any(|pid| ticks(*pid) >= 10));
    Attempt { files: vec![stat.clone()], ..Attempt::new("nested-quota", state.path()) }.check(|window, said| {
        let throttled = window.rate(|snapshot| snapshot.pair(&stat, "throttled_time")) / 1e9;
        window.known("throttled", throttled, 0.6, 0.72);
        window.known("CPU used", window.used("spin"), 0.27, 0.34);
        let held = said.must("cpu-throttled", "lab-nested-quota", "warning");
        // An interval of a second has ten periods, and may end inside one: a part of 100 ms is in this one or the next.
        let of_seconds = window.rate_each(|snapshot| snapshot.pair(&stat, "throttled_time") / 1e9);
        said.value_in(&held, of_seconds.give_or_take(0.1));
        said.evidence(&held, "quota_cpus", 0.2999, 0.3001);
        said.says(&held, &["idle host, throttled: cgroup /lab-nested-quota ", "0.30 CPU", "spin"]);
        for kind in ["cpu-saturated", "saturated-core", "saturated-thread", "idle-but-blocked", "load-not-cpu"] {
            said.must_not(kind);
        }
        said.nothing_wrong_but(&["cpu-throttled"]);
    });
}

/// The opposite case: the same groups, and a quota of 1.5 CPUs for one thread, which cannot use it up.
#[test]
fn a_parent_quota_that_is_not_used_up() {
    if !crate::long() {
        return;
    }
    let Some(lab) = open("cpu", &[]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let mut scenario = start(&lab, "nested-quota", &[("QUOTA_US", "150000")]);
    let stat = of_group("cpu", "nested-quota", "cpu.stat");
    scenario.until("burns CPU", |_| processes("spin").iter().any(|pid| ticks(*pid) >= 30));
    Attempt { files: vec![stat.clone()], ..Attempt::new("nested-quota-room", state.path()) }.check(|window, said| {
        window.known("throttled", window.rate(|snapshot| snapshot.pair(&stat, "throttled_time")), 0.0, 1e7);
        window.known("CPU used", window.used("spin"), 0.97, 1.03);
        said.must("saturated-thread", "spin", "warning");
        said.must_not("cpu-throttled");
        said.nothing_wrong_but(&["saturated-thread", "saturated-core"]);
    });
}

/// A cgroup with the path and the state file of a container: the finding has the name of the container, its runtime and its pod.
fn container(layout: &str, words: &[&str]) {
    let Some(lab) = open("cpu", &[]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let mut scenario = start(&lab, "container", &[("LAYOUT", layout)]);
    scenario.until("burns its quota", |_| processes("spin").iter().any(|pid| ticks(*pid) >= 10));
    Attempt::new(&format!("container-{layout}"), state.path()).check(|window, said| {
        window.known("CPU used", window.used("spin"), 0.17, 0.23);
        let held = said.must("cpu-throttled", "5fa1170b0a1b", "warning");
        said.evidence(&held, "quota_cpus", 0.1999, 0.2001);
        said.says(&held, words);
        said.nothing_wrong_but(&["cpu-throttled"]);
    });
}

#[test]
fn a_throttled_container_has_its_name() {
    container("docker", &["container web-1 (docker) is limited to its quota of 0.20 CPU", "spin"]);
}

#[test]
fn a_throttled_container_of_a_pod_has_both_names() {
    if !long() {
        return;
    }
    container("pod", &["container api (containerd) of pod shop/api-7d9f", "0.20 CPU", "spin"]);
}

/// Without a state file the id is the name; a quota that is not used up is none of its faults.
#[test]
fn a_container_without_a_state_file() {
    if !long() {
        return;
    }
    let Some(lab) = open("cpu", &[]) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let mut scenario = start(&lab, "container", &[("STATE", "no")]);
    scenario.until("burns its quota", |_| processes("spin").iter().any(|pid| ticks(*pid) >= 10));
    Attempt::new("container-no-state", state.path()).check(|_, said| {
        let held = said.must("cpu-throttled", "5fa1170b0a1b", "warning");
        said.says(&held, &["container 5fa1170b0a1b (docker)"]);
    });
    drop(scenario);
    let mut scenario = start(&lab, "container", &[("QUOTA_US", "150000")]);
    scenario.until("burns CPU", |_| processes("spin").iter().any(|pid| ticks(*pid) >= 30));
    Attempt::new("container-room", state.path()).check(|_, said| said.must_not("cpu-throttled"));
}

/// How often each group was served, by its own count.
fn serviced() -> String {
    of_group("blkio", "io-limit", "blkio.throttle.io_serviced")
}

fn reads_under_a_limit(name: &str, limit: u32, verify: impl Fn(&str, f64, &mut Window, &mut CheckResult)) {
    let Some(lab) = open("blkio", DISK_TOOLS) else { return };
    let state = tempfile::tempdir().expect("a folder");
    let mut scenario = start(&lab, "io-limit", &[("LIMIT", &limit.to_string())]);
    let device = scenario.device();
    scenario.until("reads", |_| diskstat(&device, READS_COMPLETED) > 100);
    Attempt { files: vec![serviced()], ..Attempt::new(name, state.path()) }.check(|window, said| {
        let reads = window.rate(|snapshot| snapshot.pair(&serviced(), "Read"));
        verify(&device, reads, window, said);
        for kind in ["disk-stalled", "hung-task", "disk-latency", "cpu-throttled", "memory-pressure"] {
            said.must_not(kind);
        }
    });
}

/// 50 reads per second by the group's own count, each of which waits 20 ms above a disk that answers in less than 1 ms.
#[test]
fn reads_throttled_by_the_io_limit_of_their_cgroup() {
    reads_under_a_limit("io-limit", 50, |device, reads, window, said| {
        let truth = window.disk(device);
        window.known("reads/s by the group's count", reads, 47.0, 53.0);
        window.known("await", truth.read_await, 0.0001, 0.001);
        window.known("readers in D", window.threads("fio", 'D'), 0.9, 1.0);
        let held = said.must("io-throttled", "fio", "warning");
        said.word(&held, "limiting_cgroup", "/lab-io-limit");
        said.evidence(&held, "limit_per_second", 50.0, 50.0);
        // The kernel lets them through in slices of 100 ms: a slice may be of this second or of the next.
        let of_seconds = window.rate_each(|snapshot| snapshot.pair(&serviced(), "Read") / 50.0);
        said.evidence_in(&held, "limit_used_ratio", of_seconds.give_or_take(0.1));
        // The slices of the limit have a fixed period: several readings of a second may be at the same phase.
        said.evidence(&held, "blocked_threads", 0.45, 1.05);
        said.figure_is("blocked_threads", window.threads("fio", 'D'), 0.2);
        // Requests in the device, by Little's law.
        said.evidence(&held, "requests_in_devices", 0.0, window.each(|span| span.disk(device).queue).most * 2.0 + 0.02);
        said.says(&held, &["/lab-io-limit", "50.0 reads/s", device]);
        said.nothing_wrong_but(&["io-throttled", "idle-but-blocked"]);
    });
}

/// The opposite case: the same reader under a limit that it never reaches. It is as fast as its disk.
#[test]
fn reads_below_the_io_limit_of_their_cgroup() {
    if !crate::long() {
        return;
    }
    reads_under_a_limit("io-limit-room", 100_000, |device, reads, window, said| {
        window.known("reads/s by the group's count", reads, 500.0, 7000.0);
        window.known("reads/s of the disk", window.disk(device).reads, reads * 0.98, reads * 1.02);
        said.must_not("io-throttled");
        said.at_most_a_note("idle-but-blocked", "host");
        said.nothing_wrong_but(&[]);
    });
}
