//! Traces of threads of this process, as root.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread;

use super::*;
use crate::kernel::host::machine_architecture;
use crate::kernel::probe::program_loader::wake_ups::{WAKES, load_by};
use crate::kernel::task::parse_stat;
use crate::sample::task::TaskState;
use crate::sample::wakes::{TracedFutex, WaitPlace};

const THREADS: usize = 5;
const HOLDS: usize = 20;

/// Threads that hold a mutex of Rust's standard library in turn, for a millisecond each.
fn hold_in_turn(mutex: &Mutex<()>) -> Vec<u32> {
    let work = || {
        for _ in 0..HOLDS {
            let held = mutex.lock().unwrap();
            thread::sleep(Duration::from_millis(1));
            drop(held);
            thread::yield_now();
        }
        nix::unistd::gettid().as_raw().cast_unsigned()
    };
    thread::scope(|scope| {
        let all: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        all.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// A trace of these processes by programs that read tasks in this way, or why there is none here.
fn trace(pids: &[u32], access: TaskAccess) -> Result<WakeTrace, String> {
    let root = Root::host();
    trace_obstacle(&root).map_err(|why| why.to_string())?;
    let loaded = load_by(&WAKES, access).map_err(|why| why.to_string())?;
    let probe = WakesProbe::new(loaded).unwrap();
    let machine = machine_architecture(&root).unwrap_or_default();
    let processes = TracedProcesses::open(&mut TaskFiles::open(&root).unwrap(), pids).unwrap();
    Ok(WakeTrace::with_probe(&root, probe, &machine, processes, None).unwrap())
}

#[test]
fn the_threads_that_hold_a_mutex_are_those_that_wake_its_waiters() {
    holders_are_those_that_wake_others(TaskAccess::Types);
}

#[test]
fn without_the_types_of_the_kernel_holders_are_the_same() {
    holders_are_those_that_wake_others(TaskAccess::Layout);
}

fn holders_are_those_that_wake_others(access: TaskAccess) {
    let mut trace = match trace(&[std::process::id()], access) {
        Ok(trace) => trace,
        Err(why) => return println!("skipped: {why}"),
    };
    let mutex = Mutex::new(());
    let mut tids = Vec::new();
    let end_with_the_threads = |_| {
        tids = hold_in_turn(&mutex);
        true
    };
    trace.run(Duration::from_secs(60), end_with_the_threads).unwrap();
    let wakes = trace.finish().unwrap();
    let word = std::ptr::from_ref(&mutex) as u64;
    let is_ours = |futex: &TracedFutex| futex.address == word && futex.pid == Some(std::process::id());
    let index = wakes.futexes.iter().position(is_ours).expect("the futex word is the first of a mutex");
    let futex = &wakes.futexes[index];
    assert!(futex.wake_ups > 0 && futex.lock_values == futex.waits && futex.with_timeout == 0, "{futex:?}");
    let wakers = wakes.waits.iter().filter(|wait| wait.place == WaitPlace::Futex(index)).filter_map(|wait| wait.waker);
    let wakers: Vec<u32> = wakers.map(|waker| wakes.threads[waker].tid).collect();
    assert!(!wakers.is_empty() && wakers.iter().all(|waker| tids.contains(waker)), "{wakers:?} of {tids:?}");
    // The threads of all tests that run meanwhile are traced: the tables may have no place for some.
    assert!(wakes.lost_events.is_some());
    let process = wakes.processes.iter().find(|process| process.pid == std::process::id());
    assert!(process.is_some_and(|process| !process.has_ended), "{:?}", wakes.processes);
}

#[test]
fn a_trace_ends_with_its_last_process() {
    let mut child = Command::new("sleep").arg("600").spawn().unwrap();
    let mut trace = match trace(&[child.id()], TaskAccess::Types) {
        Ok(trace) => trace,
        Err(why) => {
            child.kill().unwrap();
            child.wait().unwrap();
            return println!("skipped: {why}");
        }
    };
    // As if the time never were over.
    let mut kill = |_| {
        child.kill().unwrap();
        false
    };
    trace.run(Duration::MAX, &mut kill).unwrap();
    child.wait().unwrap();
    let wakes = trace.finish().unwrap();
    assert!(wakes.processes.iter().all(|process| process.has_ended), "{:?}", wakes.processes);
    assert_eq!(wakes.threads.first().map(|thread| (thread.tid, thread.name.clone())), Some((child.id(), "sleep".into())));
}

#[test]
fn a_thread_that_runs_and_one_that_waits_all_the_time_are_counted_to_the_end() {
    let mut trace = match trace(&[std::process::id()], TaskAccess::Types) {
        Ok(trace) => trace,
        Err(why) => return println!("skipped: {why}"),
    };
    let own_tid = || nix::unistd::gettid().as_raw().cast_unsigned();
    let (stop, stopped) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let waiting = {
        let tell = tell.clone();
        thread::spawn(move || {
            tell.send(own_tid()).unwrap();
            stopped.recv().unwrap_err()
        })
    };
    let waiter = told.recv().unwrap();
    let mut files = TaskFiles::open(&Root::host()).unwrap();
    let mut stat_of = |tid: u32| {
        let stat = parse_stat(files.read_once(format_args!("{}/task/{tid}/stat", std::process::id())).unwrap()).unwrap();
        (stat.state, stat.user_ticks.0)
    };
    while stat_of(waiter).0 != TaskState::Sleeping {
        thread::yield_now();
    }
    let ended = AtomicBool::new(false);
    let runner = thread::scope(|scope| {
        scope.spawn(|| {
            tell.send(own_tid()).unwrap();
            while !ended.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let runner = told.recv().unwrap();
        let until_it_ran = |_| {
            let before = stat_of(runner).1;
            while stat_of(runner).1 < before + 2 {
                thread::yield_now();
            }
            true
        };
        trace.run(Duration::from_secs(60), until_it_ran).unwrap();
        ended.store(true, Ordering::Relaxed);
        runner
    });
    drop(stop);
    waiting.join().unwrap();
    let wakes = trace.finish().unwrap();
    if wakes.lost_events != Some(0) {
        return println!("skipped: the threads of other tests have filled the tables");
    }
    let index = |tid| wakes.threads.iter().position(|thread| thread.tid == tid).unwrap();
    let times = wakes.threads[index(runner)].times.unwrap();
    assert!(times.run_ns > 0 && times.run_ns + times.runnable_ns <= wakes.elapsed_ns, "{times:?} of {}", wakes.elapsed_ns);
    let waits = wakes.waits.iter().filter(|wait| wait.thread == index(waiter));
    assert_eq!(waits.map(|wait| (wait.count, wait.blocked_ns)).collect::<Vec<_>>(), [(0, wakes.elapsed_ns)]);
}

#[test]
fn captured_files_cannot_be_traced() {
    let why = trace_obstacle(&Root::at_directory("/nonexistent".into())).unwrap_err();
    assert_eq!(why.to_string(), "captured files have no kernel");
}
