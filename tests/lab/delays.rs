//! Delay accounting, enabled during a test: stalltop's figures from taskstats compared with those of
//! /proc/PID/task/TID/stat for the same threads.

use std::fs;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use stalltop::interval::Interval;
use stalltop::kernel::{Root, Sampler};

use crate::attempt::Attempt;
use crate::cgroups::start_mappers;
use crate::disk_load::DiskLoad;
use crate::proc::{READS_COMPLETED, Snapshot, read, threads, ticks_per_second};

const SWITCH: &str = "/proc/sys/kernel/task_delayacct";

/// Restores the old value when dropped.
struct Switch {
    before: String,
}

impl Switch {
    fn on() -> Option<Switch> {
        let before = read(SWITCH).trim().to_owned();
        if before.is_empty() || fs::write(SWITCH, "1").is_err() {
            println!("skipped: this kernel has no switch for delay accounting");
            return None;
        }
        Some(Switch { before })
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        let _ = fs::write(SWITCH, &self.before);
    }
}

/// Field 42 of a thread's stat: how long it has waited for block I/O in all, in seconds.
fn waited(pid: u32, tid: u32) -> f64 {
    waited_by(&read(&format!("/proc/{pid}/task/{tid}/stat"))).expect("field 42")
}

fn waited_by(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let ticks: f64 = rest.split_whitespace().nth(39)?.parse().ok()?;
    Some(ticks / ticks_per_second())
}

/// Four processes under a memory limit they do not fit in: a wait for a refaulted page counts as thrashing and as
/// block I/O. The figures of `check` are no larger than the block I/O delay in stat, and never more than the whole time.
#[test]
fn waits_under_several_causes_are_reported_once() {
    let Some(_switch) = Switch::on() else { return };
    let Some((_lab, _scenario, state)) = start_mappers() else { return };
    let fio = crate::proc::processes("fio");
    let files: Vec<String> = fio.iter().map(|pid| format!("/proc/{pid}/stat")).collect();
    Attempt { files: files.clone(), ..Attempt::new("delays", state.path()) }.check(|window, said| {
        let waited = |at: &Snapshot| files.iter().filter_map(|file| waited_by(at.text(file))).sum();
        let block_io = window.rate_each(waited);
        // On Linux 6.12 and later more than all of them where CPUs are short.
        window.known("processes that wait for block I/O", block_io.least, 2.5, 4.1);
        let want = said.must("memory-pressure", "lab-memory-thrash", "warning");
        // Refaults of pages that were never active are not counted: there may be none.
        said.evidence(&want, "thrashing_threads", 0.0, block_io.most.min(4.0) + 0.2);
        said.evidence(&want, "reclaiming_threads", 0.0, 2.0);
        said.evidence(&want, "time_in_faults_ratio", block_io.least.min(4.0) / 4.0 - 0.15, 1.0);
    });
}

/// Eight threads in page faults wait for block I/O nearly all the time; a thread that sleeps waits for none.
#[test]
fn delays_are_those_that_the_kernel_counts() {
    let Some(mut ground) = DiskLoad::open() else { return };
    // Only tasks that are forked afterwards are counted.
    let Some(_switch) = Switch::on() else { return };
    let load = ground.start("faults", 8);
    ground.until(READS_COMPLETED, 1000);
    let mut sampler = Sampler::new(Root::host()).expect("/proc");
    let host = Arc::new(sampler.host().clone());
    // The first sample does not know yet which threads are active.
    sampler.sample();
    sampler.sub_sample();
    let tids = threads(load.pid());
    let measure = || -> Vec<f64> { tids.iter().map(|&tid| waited(load.pid(), tid)).collect() };
    // Before and after each sample: the account is read somewhere in between.
    let began = Instant::now();
    let (before_older, older, after_older) = (measure(), Arc::new(sampler.sample()), measure());
    while began.elapsed() < Duration::from_secs(5) {
        thread::sleep(Duration::from_millis(100));
        sampler.sub_sample();
    }
    let (before_newer, newer, after_newer) = (measure(), Arc::new(sampler.sample()), measure());
    let interval = Interval::between(&host, &older, &newer).expect("5 s apart");
    let process = newer.tasks.as_ref().expect("tasks").process(load.pid()).expect("the load");
    let mut stuck = 0;
    for (at, &tid) in tids.iter().enumerate() {
        let (least, most) = (before_newer[at] - after_older[at], after_newer[at] - before_older[at]);
        let thread = process.threads.iter().find(|thread| thread.tid == tid).expect("the thread");
        let said = interval.task_delays(process.task_id(thread)).and_then(|span| span.block_io);
        let said = said.map_or(0.0, |share| share.0 * interval.seconds);
        println!("{tid}: {least:.3} to {most:.3} s by its stat, {said:.3} s by taskstats");
        stuck += u32::from(least > 1.0);
        // The kernel may count more than there was time. A tick at each end.
        let (least, most) = (least.min(interval.seconds), most.min(interval.seconds));
        assert!((least - 0.02..=most + 0.02).contains(&said), "{tid}: {said} s by taskstats, {least} to {most} by its stat");
    }
    assert_eq!(stuck, 8, "the threads that fault");
}
