//! Processes that end before they are read, and pids that are reused within one interval.

#![allow(unsafe_code, reason = "fork")]

use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, fork};
use stalltop::interval::Interval;
use stalltop::interval::task::ThreadSpan;
use stalltop::kernel::{Root, Sampler, now};
use stalltop::sample::{Host, Sample};
use stalltop::units::Ratio;

use crate::again::{Load, inside, is_root, plays, ready_until_killed};

/// Forks without end.
#[test]
fn a_fork_storm() {
    if !plays("processes::a_fork_storm") {
        return;
    }
    for _ in 0..2 {
        std::thread::spawn(|| {
            loop {
                // SAFETY: the child does nothing but end.
                match unsafe { fork() }.unwrap() {
                    // SAFETY: ends the child at once, without anything of this process's being run.
                    ForkResult::Child => unsafe { libc::_exit(0) },
                    ForkResult::Parent { child } => drop(waitpid(child, None)),
                }
            }
        });
    }
    ready_until_killed();
}

fn forks(sample: &Sample) -> u64 {
    sample.cpu.as_ref().unwrap().forks.unwrap().0
}

/// No figure that no machine could have: CPU time is at most what passed, with room for a starved machine on which the
/// moment of the sample and that of the reading are apart.
fn is_possible(interval: &Interval) {
    let most = interval.online_cpus() as f64 * (interval.seconds + 10.0);
    let tasks = interval.tasks.as_ref().unwrap();
    let used = |cpu: Option<stalltop::units::Ratio>| cpu.map_or(0.0, |cpu| cpu.0 * interval.seconds);
    for process in &tasks.active_processes {
        assert!((0.0..=most).contains(&used(process.cpu)), "{process:?}");
    }
    for thread in &tasks.threads {
        assert!((0.0..=most).contains(&used(thread.cpu)), "{thread:?}");
        assert!(thread.run_queue_wait.is_none_or(|wait| (0.0..1e6).contains(&wait.0)), "{thread:?}");
    }
}

#[test]
fn a_fork_storm_costs_rows_of_tasks_and_nothing_else() {
    let _storm = Load::start("processes::a_fork_storm");
    let mut sampler = Sampler::new(Root::host()).unwrap();
    let host: Arc<Host> = Arc::new(sampler.host().clone());
    let mut older = Arc::new(sampler.sample());
    let first = forks(&older);
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let mut most_open = 0;
    let mut rounds = 0;
    // So many that thousands end between being listed and being read.
    while forks(&older) < first + 6_000 || rounds < 20 {
        sampler.sub_sample();
        let newer = Arc::new(sampler.sample());
        let tasks = newer.tasks.as_ref().unwrap();
        assert!(tasks.processes.is_sorted_by_key(|process| process.pid));
        assert!(tasks.processes.iter().all(|process| !process.threads.is_empty()));
        assert!(tasks.process(std::process::id()).is_some(), "a process that still runs is in the sample");
        if let Some(interval) = Interval::between(&host, &older, &newer) {
            is_possible(&interval);
        }
        older = newer;
        rounds += 1;
        if rounds == 10 {
            most_open = open();
        }
    }
    // Thousands would be left of a storm; some come and go with the tests beside this one.
    assert!(open() < most_open + 1_000, "descriptors of ended tasks are given back: {} after {most_open}", open());
}

#[test]
fn a_pid_reused_within_an_interval_is_another_process() {
    if !is_root() {
        return println!("skipped: a pid namespace needs root");
    }
    let wrapper = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"];
    match inside(&wrapper, "processes::inside_a_pid_namespace") {
        Ok(said) => println!("{said}"),
        Err(why) => println!("skipped: {why}"),
    }
}

/// Makes the next task of this namespace have that number.
fn next_number_is(number: u32) -> bool {
    // The process that had this pid has been waited for, and disappears a moment later.
    while std::path::Path::new(&format!("/proc/{number}")).exists() {
        std::thread::yield_now();
    }
    std::fs::write("/proc/sys/kernel/ns_last_pid", (number - 1).to_string()).is_ok()
}

fn ended(mut child: Child) -> u32 {
    let number = child.id();
    child.kill().unwrap();
    child.wait().unwrap();
    number
}

/// Samples until that process has used so much CPU time: what is kept of it is kept open by then.
fn worked_up(sampler: &mut Sampler, number: u32, wanted_ns: u64) -> Arc<Sample> {
    loop {
        sampler.sub_sample();
        let sample = Arc::new(sampler.sample());
        let used = sample.tasks.as_ref().unwrap().process(number).and_then(|process| process.cpu_ns);
        if used.is_some_and(|used| used.0 >= wanted_ns) {
            return sample;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// The next sample, once enough time has passed since that one for there to be an interval.
fn next_after(sampler: &mut Sampler, older: &Sample) -> Arc<Sample> {
    while now().seconds_since(older.at) < 0.002 {
        std::thread::yield_now();
    }
    Arc::new(sampler.sample())
}

/// The other half of the test above.
#[test]
fn inside_a_pid_namespace() {
    if !plays("processes::inside_a_pid_namespace") {
        return;
    }
    if !next_number_is(300) {
        return println!("skipped: this kernel has no ns_last_pid");
    }
    let mut sampler = Sampler::new(Root::host()).unwrap();
    let host: Arc<Host> = Arc::new(sampler.host().clone());
    let mut reused = 0;
    for round in 0..12 {
        let busy = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let older = worked_up(&mut sampler, busy.id(), 60_000_000);
        let number = ended(busy);
        assert!(next_number_is(number));
        // A stranger under the same number: sometimes one that sleeps, sometimes one that works, too.
        let program: &[&str] = if round % 2 == 0 { &["sleep", "1000"] } else { &["sh", "-c", "while :; do :; done"] };
        let stranger = Command::new(program[0]).args(&program[1..]).spawn().unwrap();
        let is_same_number = stranger.id() == number;
        if round % 3 == 0 {
            sampler.sub_sample();
        }
        let newer = next_after(&mut sampler, &older);
        if is_same_number {
            reused += 1;
            let before = older.tasks.as_ref().unwrap().process(number).unwrap();
            let after = newer.tasks.as_ref().unwrap().process(number).unwrap();
            assert_eq!(after.comm.as_bytes(), program[0].as_bytes(), "the figures of the one that is there now");
            let interval = Interval::between(&host, &older, &newer).unwrap();
            is_possible(&interval);
            let row = interval.tasks.as_ref().unwrap().active_processes.iter().find(|row| row.id.pid == number).unwrap();
            if after.start_ticks != before.start_ticks {
                // What it used since it began is its own; nothing is counted across the two.
                let own = after.cpu_ns.unwrap().0 as f64 / 1e9 / interval.seconds;
                let is_its_own = |cpu: Option<Ratio>| cpu.is_none_or(|cpu| cpu.0 <= own + 1e-9);
                let faults = after.minor_faults.0 as f64 / interval.seconds;
                let its_faults = row.minor_faults.is_none_or(|rate| rate.0 <= faults + 1e-9);
                assert!(is_its_own(row.cpu) && its_faults, "{row:?}, of its own {own} and {faults}");
                // The thread is read after its process, and may have run in between.
                let thread = after.threads.iter().find(|thread| thread.tid == number).and_then(|thread| thread.schedstat);
                let own = thread.map_or(own, |sched| own.max(sched.run_ns.0 as f64 / 1e9 / interval.seconds));
                let rows = &interval.tasks.as_ref().unwrap().threads;
                let its_own = |row: &ThreadSpan| row.id.tid != number || row.cpu.is_none_or(|cpu| cpu.0 <= own + 1e-9);
                assert!(rows.iter().all(its_own), "{rows:?}, of its own {own}");
            }
            if round % 2 == 0 {
                assert!(after.cpu_ns.unwrap() < before.cpu_ns.unwrap(), "{after:?}");
                let thread = after.threads.iter().find(|thread| thread.tid == number).unwrap();
                assert!(thread.schedstat.unwrap().run_ns < before.threads[0].schedstat.unwrap().run_ns, "{thread:?}");
            }
        }
        ended(stranger);
    }
    assert!(reused > 4, "numbers were given away again {reused} times only");
    threads_too(&mut sampler, &host);
}

/// A thread of this process, busy until it is told to end; its number.
fn thread(busy: bool) -> (u32, Arc<AtomicBool>, std::thread::JoinHandle<()>) {
    let (number, over) = (Arc::new(AtomicI32::new(0)), Arc::new(AtomicBool::new(false)));
    let (told, end) = (Arc::clone(&number), Arc::clone(&over));
    let body = move || {
        told.store(nix::unistd::gettid().as_raw(), Ordering::SeqCst);
        while !end.load(Ordering::SeqCst) {
            if !busy {
                std::thread::park();
            }
        }
    };
    let thread = std::thread::spawn(body);
    while number.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    (number.load(Ordering::SeqCst) as u32, over, thread)
}

fn threads_too(sampler: &mut Sampler, host: &Arc<Host>) {
    let own = std::process::id();
    let of = |sample: &Sample, number: u32| {
        sample.tasks.as_ref().unwrap().process(own).unwrap().threads.iter().find(|thread| thread.tid == number).cloned()
    };
    for _ in 0..3 {
        let (number, over, busy) = thread(true);
        let older = loop {
            sampler.sub_sample();
            let sample = Arc::new(sampler.sample());
            if of(&sample, number).and_then(|thread| thread.schedstat).is_some_and(|sched| sched.run_ns.0 > 60_000_000) {
                break sample;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        };
        over.store(true, Ordering::SeqCst);
        busy.join().unwrap();
        let (over, idle) = thread_of_number(number);
        let newer = next_after(sampler, &older);
        let (before, after) = (of(&older, number).unwrap(), of(&newer, number).unwrap());
        assert!(after.schedstat.unwrap().run_ns < before.schedstat.unwrap().run_ns, "{after:?}");
        let interval = Interval::between(host, &older, &newer).unwrap();
        is_possible(&interval);
        if before.start_ticks != after.start_ticks {
            let rows = &interval.tasks.as_ref().unwrap().threads;
            assert!(
                rows.iter().filter(|row| row.id.tid == number).all(|row| row.cpu.is_none_or(|cpu| cpu.0 < 0.5)),
                "{rows:?}"
            );
        }
        end(over, idle);
    }
}

/// An idle thread of that number, which another one had. A joined thread has left /proc, and the kernel takes its number back
/// a moment later: until then the next one gets another.
fn thread_of_number(number: u32) -> (Arc<AtomicBool>, std::thread::JoinHandle<()>) {
    for _ in 0..100_000 {
        assert!(next_number_is(number));
        let (got, over, idle) = thread(false);
        if got == number {
            return (over, idle);
        }
        end(over, idle);
    }
    panic!("{number} is not given away again");
}

fn end(over: Arc<AtomicBool>, idle: std::thread::JoinHandle<()>) {
    over.store(true, Ordering::SeqCst);
    idle.thread().unpark();
    idle.join().unwrap();
}
