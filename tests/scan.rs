//! Scans of the machine that runs the tests, compared with the crate `procfs`, and with a new sampler that reads everything.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_possible_wrap,
    reason = "a test may fail loudly, and says why it skips"
)]

#[path = "support/child_guard.rs"]
mod child_guard;
#[path = "support/load_process.rs"]
mod load_process;

use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use load_process::{Load, plays, ready_until_killed};
use stalltop::interval::wait_counts::WaitCounts;
use stalltop::kernel::{Root, Sampler};
use stalltop::sample::Sample;
use stalltop::sample::task::{TaskState, Thread};
use stalltop::sample::waits::WaitClass;

/// One test at a time: equal loads would be siblings and so one group, and descriptors are counted for the whole process.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Six threads that wait for work that never comes, and one that sleeps and wakes.
#[test]
fn load_pool() {
    if !plays("load_pool") {
        return;
    }
    let pair = Arc::new((Mutex::new(0), Condvar::new()));
    for number in 0..6 {
        let pair = Arc::clone(&pair);
        let parked = move || {
            let mut waiting = pair.0.lock().unwrap();
            *waiting += 1;
            drop(pair.1.wait_while(waiting, |_| true));
        };
        thread::Builder::new().name(format!("parked-{number}")).spawn(parked).unwrap();
    }
    // A thread that has counted itself releases the lock by waiting.
    while *pair.0.lock().unwrap() < 6 {
        thread::yield_now();
    }
    let cycle = || loop {
        thread::sleep(Duration::from_millis(20));
    };
    thread::Builder::new().name("sleeper".to_owned()).spawn(cycle).unwrap();
    ready_until_killed();
}

/// Eight threads that want one lock, which each holds for 20 ms.
#[test]
fn load_convoy() {
    if !plays("load_convoy") {
        return;
    }
    let lock = Arc::new(Mutex::new(0_u64));
    for number in 0..8 {
        let lock = Arc::clone(&lock);
        let work = move || loop {
            let mut held = lock.lock().unwrap();
            thread::sleep(Duration::from_millis(20));
            *held += 1;
            drop(held);
            thread::yield_now();
        };
        thread::Builder::new().name(format!("convoy-{number}")).spawn(work).unwrap();
    }
    ready_until_killed();
}

/// Threads of one process that block and wake in turn, each in its own time.
#[test]
fn load_turns() {
    if !plays("load_turns") {
        return;
    }
    for number in 1..=40_u64 {
        let work = move || loop {
            thread::sleep(Duration::from_millis(3 * number));
        };
        thread::Builder::new().name(format!("turn-{number}")).spawn(work).unwrap();
    }
    ready_until_killed();
}

/// More threads than are asked one by one: most park, some sleep and wake.
#[test]
fn load_large() {
    if !plays("load_large") {
        return;
    }
    for number in 0..1_200_u64 {
        let work = move || loop {
            match number % 40 {
                0 => thread::sleep(Duration::from_millis(5 + number / 40)),
                _ => thread::park(),
            }
        };
        thread::Builder::new().stack_size(16 * 1024).spawn(work).unwrap();
    }
    ready_until_killed();
}

/// Threads that begin and end, and children that do.
#[test]
fn load_churn() {
    if !plays("load_churn") {
        return;
    }
    thread::spawn(|| {
        loop {
            let short: Vec<_> = (0..4).map(|_| thread::spawn(|| thread::sleep(Duration::from_millis(3)))).collect();
            let _ = Command::new("true").status();
            short.into_iter().for_each(|thread| thread.join().unwrap());
        }
    });
    ready_until_killed();
}

fn sampler() -> Sampler {
    Sampler::new(Root::host()).unwrap()
}

fn sees_all(sampler: &Sampler, what: &str) -> bool {
    let sees = sampler.host().privilege.has_cap_sys_ptrace;
    if !sees {
        println!("skipped: {what} needs CAP_SYS_PTRACE");
    }
    sees
}

fn thread_named<'a>(sample: &'a Sample, pid: u32, name: &str) -> &'a Thread {
    let process = sample.tasks.as_ref().unwrap().process(pid).unwrap();
    process.threads.iter().find(|thread| thread.comm.as_bytes() == name.as_bytes()).unwrap()
}

/// Nothing here takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Samples and sub-samples until a sample is as it should be.
fn sample_until(what: &str, sampler: &mut Sampler, mut done: impl FnMut(&Sample) -> bool) -> Sample {
    let begin = Instant::now();
    loop {
        for _ in 0..4 {
            thread::sleep(Duration::from_millis(50));
            sampler.sub_sample();
        }
        let sample = sampler.sample();
        if done(&sample) {
            return sample;
        }
        assert!(begin.elapsed() < PATIENCE, "no sample in which {what}");
    }
}

#[test]
fn parked_threads_are_not_sub_sampled_and_a_sleeping_worker_is() {
    let _alone = alone();
    let load = Load::start("load_pool");
    let mut sampler = sampler();
    sampler.sample();
    let sees = sees_all(&sampler, "the sleeper's wait channel");
    let hot = |sample: &Sample| {
        let hot = sample.waits.threads.iter().filter(|waits| waits.task.pid == load.0.id());
        let mut tids: Vec<u32> = hot.map(|waits| waits.task.tid).collect();
        tids.dedup();
        tids
    };
    // The thread that reported that all are ready may still have run after the first sample.
    let is_it = |sample: &Sample| hot(sample) == [thread_named(sample, load.0.id(), "sleeper").tid];
    let sample = sample_until("only the sleeper is hot", &mut sampler, is_it);
    let sleeper = thread_named(&sample, load.0.id(), "sleeper");
    assert_eq!(hot(&sample), [sleeper.tid]);
    assert!(sleeper.last_timeslice_ns.is_some());
    assert_eq!(thread_named(&sample, load.0.id(), "parked-3").last_timeslice_ns, None);
    if sees {
        let counts = WaitCounts::new(sampler.host(), &sample.waits);
        let waits = counts.threads.iter().find(|waits| waits.task.tid == sleeper.tid).unwrap();
        assert!(waits.count(WaitClass::Timer) > 0, "{waits:?}");
    }
}

#[test]
fn a_lock_convoy_is_seen_waiting_for_a_lock() {
    let _alone = alone();
    let load = Load::start("load_convoy");
    let mut sampler = sampler();
    sampler.sample();
    if !sees_all(&sampler, "the convoy's wait channels") {
        return;
    }
    let host = sampler.host().clone();
    let waiting = |sample: &Sample| {
        let of_load = |group: u16| {
            let process = sample.tasks.as_ref().unwrap().process(load.0.id()).unwrap();
            sample.waits.groups[usize::from(group)] == process.group()
        };
        let counts = WaitCounts::new(&host, &sample.waits);
        let of_load = counts.sub_samples.iter().flatten().filter(|counts| of_load(counts.group));
        of_load.map(|counts| counts.lock_inferred + counts.lock_contended).max().unwrap_or(0)
    };
    let sample = sample_until("six threads wait for the lock", &mut sampler, |sample| waiting(sample) >= 6);
    // Seven wait at a time; the threads are read one after the other, so that the former holder may be found waiting, too.
    assert!((6..=8).contains(&waiting(&sample)), "{} of eight", waiting(&sample));
    let counts = WaitCounts::new(&host, &sample.waits);
    let of_load = counts.process_threads(load.0.id()).iter();
    let locked = of_load.filter(|waits| waits.count(WaitClass::Lock) + waits.count(WaitClass::Futex) > 0).count();
    assert!((6..=8).contains(&locked), "{locked}");
}

#[test]
fn a_sampler_can_be_moved_to_another_thread() {
    let _alone = alone();
    let sampler = sampler();
    let taken = thread::spawn(move || ({ sampler }).sample()).join().unwrap();
    assert!(taken.tasks.unwrap().process(std::process::id()).is_some());
}

#[test]
fn without_proc_there_is_no_sampler() {
    let _alone = alone();
    let empty = tempfile::tempdir().unwrap();
    let error = Sampler::new(Root::at_directory(empty.path().to_owned())).err().unwrap();
    assert_eq!(error.to_string(), "/proc is not mounted");
}

#[test]
fn the_monitor_does_not_watch_itself() {
    let _alone = alone();
    let mut sampler = sampler();
    sampler.sample();
    sampler.sub_sample();
    let sample = sampler.sample();
    assert!(sample.tasks.as_ref().unwrap().process(std::process::id()).is_some());
    assert!(sample.waits.threads.iter().all(|waits| waits.task.pid != std::process::id()));
    assert_eq!(sample.waits.sub_samples.len(), 2);
    assert!(sample.cost.scan_cpu_ns > 0 && sample.cost.sub_samples_cpu_ns > 0 && sample.cost.process_cpu_ns.0 > 0);
}

/// The parts of a thread that stay as they are while it does not run.
fn standing(thread: &Thread) -> impl PartialEq + std::fmt::Debug + use<'_> {
    let counters = (thread.minor_faults, thread.major_faults);
    // Since 6.12 a sleeper whose dequeue was put off is counted as waiting for a CPU when it is done after all.
    let sched = thread.schedstat.map(|sched| (sched.run_ns, sched.timeslices));
    (thread.state, sched, thread.comm.as_bytes(), thread.processor, counters, thread.start_ticks)
}

/// A lone thread's ticks are its process's where that has been so from the beginning, and the kernel splits time into user and
/// system for each of the two by itself: the sum may be off by what each is rounded down.
fn ticks(thread: &Thread) -> u64 {
    thread.user_ticks.0 + thread.system_ticks.0
}

#[test]
fn the_scan_equals_a_full_reading() {
    let _alone = alone();
    let _loads = [Load::start("load_pool"), Load::start("load_convoy"), Load::start("load_turns"), Load::start("load_churn")];
    let mut remembering = sampler();
    remembering.sample();
    compare_with_full_readings(&mut remembering, 25);
}

#[test]
fn the_scan_of_thousands_of_threads_equals_a_full_reading() {
    let _alone = alone();
    let _loads = [Load::start("load_large"), Load::start("load_churn")];
    let mut remembering = sampler();
    remembering.sample();
    compare_with_full_readings(&mut remembering, 10);
}

/// What a sampler says of tasks that stood still between two full readings around it is what these say. So many rounds, and
/// more where so few threads stood still, or ran meanwhile: how long a sample takes is this machine's doing.
fn compare_with_full_readings(remembering: &mut Sampler, rounds: u64) {
    let (mut compared, mut overtaken) = (0, 0);
    let begin = Instant::now();
    let enough = |compared, overtaken| compared > rounds * 20 && overtaken > rounds;
    for round in 0.. {
        if round >= rounds && (enough(compared, overtaken) || begin.elapsed() > Duration::from_secs(60)) {
            break;
        }
        thread::sleep(Duration::from_millis(7 * (round % 5)));
        remembering.sub_sample();
        thread::sleep(Duration::from_millis(11));
        let before = sampler().sample().tasks.unwrap();
        let sample = remembering.sample().tasks.unwrap();
        let after = sampler().sample().tasks.unwrap();
        for (old, new) in before.processes.iter().filter_map(|old| Some((old, after.process(old.pid)?))) {
            if old.id() != new.id() {
                continue;
            }
            let process = sample.process(old.pid).unwrap_or_else(|| panic!("{} is not in the sample", old.pid));
            for (first, last) in old.threads.iter().filter_map(|first| Some((first, new.thread(first.tid)?))) {
                if standing(first) != standing(last) {
                    // Threads block and wake all the while: what was over before the sample is in it.
                    let slices = |thread: &Thread| thread.schedstat.map(|sched| sched.timeslices);
                    // A run that takes no time by the scheduler's clock, as one of migration/1, advances no CPU clock.
                    let run_ns = |thread: &Thread| thread.schedstat.map(|sched| sched.run_ns);
                    let could_be_seen = |thread: &&Thread| first.state != TaskState::Running && run_ns(thread) != run_ns(first);
                    if let Some(thread) = process.thread(first.tid).filter(could_be_seen) {
                        let (seen, there) = (thread.schedstat, first.schedstat);
                        assert!(
                            slices(thread) >= slices(first),
                            "{}, {:?}: {seen:?} before {there:?}",
                            first.tid,
                            process.comm
                        );
                        overtaken += 1;
                    }
                    continue;
                }
                let thread = process.thread(first.tid).unwrap_or_else(|| panic!("{} of {} is not there", first.tid, old.pid));
                // A task that is runnable may run at any time, and its clock is only set on a tick or a switch.
                if first.state != TaskState::Running {
                    assert_eq!(standing(thread), standing(first), "{} of {:?}", first.tid, process.comm);
                    assert!(ticks(thread).abs_diff(ticks(first)) <= 1, "{thread:?} {first:?}");
                    compared += 1;
                }
            }
            let ran = (old.user_ticks, old.system_ticks) != (new.user_ticks, new.system_ticks) || old.cpu_ns != new.cpu_ns;
            if !ran {
                assert_eq!((process.user_ticks, process.system_ticks), (old.user_ticks, old.system_ticks));
                assert_eq!((process.cpu_ns, &process.comm), (old.cpu_ns, &old.comm));
                // Its parent may have ended meanwhile.
                assert!([old.ppid, new.ppid].contains(&process.ppid), "{old:?} {}", process.ppid);
            }
        }
    }
    assert!(compared > rounds * 20, "only {compared} threads stood still");
    assert!(overtaken > rounds, "only {overtaken} threads ran meanwhile");
}

#[test]
fn every_field_equals_what_procfs_reads() {
    let _alone = alone();
    let load = Load::start("load_pool");
    let mut sampler = sampler();
    sampler.sample();
    let oracle = || {
        let tasks = procfs::process::all_processes().unwrap().filter_map(Result::ok);
        let tasks = tasks.filter_map(|process| process.tasks().ok()).flatten().filter_map(Result::ok);
        let stats =
            tasks.filter_map(|task| Some((task.pid as u32, task.tid as u32, task.stat().ok()?, task.schedstat().ok()?)));
        stats.collect::<Vec<_>>()
    };
    let processes = || {
        let stats = procfs::process::all_processes().unwrap().filter_map(|process| process.ok()?.stat().ok());
        stats.map(|stat| (stat.pid as u32, stat)).collect::<std::collections::HashMap<_, _>>()
    };
    let (of_processes, before) = (processes(), oracle());
    let sample = sampler.sample().tasks.unwrap();
    let of_processes_later = processes();
    let after: std::collections::HashMap<_, _> =
        oracle().into_iter().map(|(_, tid, stat, sched)| (tid, (stat, sched))).collect();
    let mut compared = Vec::new();
    for (pid, tid, stat, sched) in &before {
        let Some((later, later_sched)) = after.get(tid).filter(|(later, _)| later.starttime == stat.starttime) else {
            continue;
        };
        let process = sample.process(*pid).unwrap_or_else(|| panic!("{pid} is not in the sample"));
        let thread = process.thread(*tid).unwrap_or_else(|| panic!("{tid} of {pid} is not in the sample"));
        assert_eq!(thread.start_ticks, stat.starttime);
        let within = |what, low: u64, ours: u64, high: u64| {
            assert!((low..=high).contains(&ours), "{what} of {tid}: {ours} is not in {low}..={high}")
        };
        // What the kernel scales may step back by a tick. It splits what a process used by itself: of one that is all one
        // thread we know only that.
        let split = |stat: &procfs::process::Stat| (stat.utime, stat.stime);
        let as_process = process.threads.len() == 1
            && (thread.user_ticks, thread.system_ticks) == (process.user_ticks, process.system_ticks);
        let (low, high) = match (of_processes.get(pid), of_processes_later.get(pid)) {
            (Some(low), Some(high)) if as_process => (split(low), split(high)),
            _ => (split(stat), split(later)),
        };
        within("utime", low.0.saturating_sub(1), thread.user_ticks.0, high.0 + 1);
        within("stime", low.1.saturating_sub(1), thread.system_ticks.0, high.1 + 1);
        let both = thread.user_ticks.0 + thread.system_ticks.0;
        within("both", (stat.utime + stat.stime).saturating_sub(1), both, later.utime + later.stime + 1);
        within("minflt", stat.minflt, thread.minor_faults.0, later.minflt);
        within("majflt", stat.majflt, thread.major_faults.0, later.majflt);
        if let Some(ours) = thread.schedstat {
            within("timeslices", sched.pcount, ours.timeslices.0, later_sched.pcount);
            within("run delay", sched.run_delay, ours.run_delay_ns.0, later_sched.run_delay);
        }
        if sched.pcount == later_sched.pcount && stat.state == later.state && stat.state != 'R' {
            assert_eq!((thread.state.as_char(), i32::try_from(thread.processor).ok()), (stat.state, stat.processor), "{tid}");
            assert_eq!(String::from_utf8_lossy(thread.comm.as_bytes()), stat.comm);
            assert_eq!(Some(thread.block_io_delay_ticks.0), stat.delayacct_blkio_ticks);
            assert_eq!(Some(thread.guest_ticks.0), stat.guest_time);
            compared.push((*pid, stat.comm.clone()));
        }
        if pid == tid {
            assert_eq!((i64::from(process.ppid), process.kernel_thread), (i64::from(stat.ppid), stat.flags & 0x0020_0000 != 0));
        }
    }
    // Those of the load that wait for work that never comes stand still on any machine.
    let parked = compared.iter().filter(|(pid, comm)| *pid == load.0.id() && comm.starts_with("parked-"));
    assert_eq!(parked.count(), 6, "{compared:?} stood still");
}

#[test]
fn tasks_that_start_and_exit_during_a_scan_cause_no_error() {
    let _alone = alone();
    let _load = Load::start("load_churn");
    let mut sampler = sampler();
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let mut most = 0;
    for round in 0..60 {
        let sample = sampler.sample();
        let tasks = sample.tasks.unwrap();
        assert!(tasks.processes.is_sorted_by_key(|process| process.pid));
        for process in &tasks.processes {
            assert!(!process.threads.is_empty(), "{process:?}");
            assert!(process.threads.is_sorted_by_key(|thread| thread.tid));
        }
        sampler.sub_sample();
        if round == 30 {
            most = open();
        }
    }
    assert!(open() <= most + 64, "descriptors of ended tasks are given back: {} after {most}", open());
}
