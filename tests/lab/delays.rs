//! Delay accounting, turned on for the time of a test: what stalltop makes of taskstats against what the kernel writes into
//! /proc/PID/task/TID/stat of the same threads, which another part of it converts.

use std::fs;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use stalltop::interval::Interval;
use stalltop::kernel::{Root, Sampler};

use crate::ground::Ground;
use crate::machine::{READS_COMPLETED, read, threads, ticks_per_second};

const SWITCH: &str = "/proc/sys/kernel/task_delayacct";

/// As it was before, when dropped.
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
    let stat = read(&format!("/proc/{pid}/task/{tid}/stat"));
    let (_, rest) = stat.rsplit_once(')').expect("a thread");
    let ticks: f64 = rest.split_whitespace().nth(39).and_then(|word| word.parse().ok()).expect("field 42");
    ticks / ticks_per_second()
}

/// Eight threads in page faults wait for block I/O nearly all the time; a thread that sleeps waits for none.
#[test]
fn delays_are_those_that_the_kernel_counts() {
    let Some(mut ground) = Ground::open() else { return };
    // Only tasks that are forked afterwards are counted.
    let Some(_switch) = Switch::on() else { return };
    let load = ground.start("faults", 8);
    ground.until(READS_COMPLETED, 1000);
    let mut sampler = Sampler::new(Root::host()).expect("/proc");
    let host = Arc::new(sampler.host().clone());
    // The first sample does not know yet who works.
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
        let said = interval.delays_of(process.task_id(thread)).and_then(|span| span.block_io);
        let said = said.map_or(0.0, |share| share.0 * interval.seconds);
        println!("{tid}: {least:.3} to {most:.3} s by its stat, {said:.3} s by taskstats");
        stuck += u32::from(least > 1.0);
        // A tick at each end.
        assert!((least - 0.02..=most + 0.02).contains(&said), "{tid}: {said} s by taskstats, {least} to {most} by its stat");
    }
    assert_eq!(stuck, 8, "the threads that fault");
}
