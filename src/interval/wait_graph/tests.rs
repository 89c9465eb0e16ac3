//! Locks, their holders and the critical path, from made traces.

use super::*;

const SECOND: u64 = 1_000_000_000;
const FSYNC: WaitPlace = WaitPlace::Call { number: Some(74), uninterruptible: true };

/// `wakes` wake-ups of each of `threads` threads, which pass a lock on in a ring, with an fsync while they hold it.
fn ring(threads: usize, count: u64, futex: TracedFutex) -> Wakes {
    let each = 5 * SECOND / threads as u64;
    let held = HeldTime { total_ns: each, run_ns: each / 50, runnable_ns: 0, wait_ns: each / 50 * 48, wait: Some(FSYNC) };
    let waits = (0..threads).map(|thread| TracedWait {
        thread,
        place: WaitPlace::Futex(0),
        waker: Some((thread + 1) % threads),
        count,
        blocked_ns: 4 * SECOND,
        held,
    });
    Wakes { elapsed_ns: 5 * SECOND, futexes: vec![futex], waits: waits.collect(), ..Wakes::default() }
}

/// With the value of a contended mutex
fn mutex(waits: u64) -> TracedFutex {
    TracedFutex { waits, lock_values: waits, wake_ups: waits, ..TracedFutex::default() }
}

#[test]
fn the_holder_of_a_lock_is_the_thread_that_wakes_its_waiters() {
    let graph = wait_graph(&ring(5, 10, mutex(50)));
    let [lock] = graph.locks.as_slice() else { panic!("{graph:?}") };
    assert_eq!((lock.waiters, lock.waiting_threads, lock.wake_ups), (4.0, 5, 50));
    assert_eq!((lock.edges.len(), lock.edges[0].holder, lock.edges[0].wake_ups), (5, Some(1), 10));
    assert_eq!((lock.holders.len(), lock.holders[0].wake_ups, lock.holders[0].held_ratio), (5, 10, 0.2));
    let holder = lock.holders[0].clone();
    let expected = [PathStep::Lock(0), PathStep::Holder { lock: 0, holder }, PathStep::Waiting(FSYNC, 0.96)];
    assert_eq!(graph.critical_path, expected);
}

#[test]
fn a_condition_variable_is_no_lock() {
    // A dispatcher wakes all, and waits itself at no futex.
    let condition = TracedFutex { waits: 400, other_values: 390, wake_ups: 400, ..TracedFutex::default() };
    let mut pool = ring(8, 50, condition);
    pool.waits.iter_mut().for_each(|wait| wait.waker = Some(8));
    let graph = wait_graph(&pool);
    assert!(graph.locks.is_empty() && graph.critical_path.is_empty());
    assert_eq!(graph.other_waits[0].most_by, Some((8, 400)));
}

#[test]
fn workers_that_wake_the_next_one_before_they_work_hold_no_lock() {
    let passed_on_for = |passed_on_ns| TracedFutex {
        waits: 400,
        other_values: 390,
        wake_ups: 400,
        passed_on: 390,
        passed_on_ns,
        ..TracedFutex::default()
    };
    assert!(wait_graph(&ring(8, 50, passed_on_for(SECOND / 100))).locks.is_empty());
    let lock = &wait_graph(&ring(8, 50, passed_on_for(4 * SECOND))).locks[0];
    assert_eq!(lock.evidence, LockEvidence::PassedOn, "a read-write lock");
    assert!(wait_graph(&ring(3, 50, passed_on_for(4 * SECOND))).locks.is_empty(), "three may be a pipeline");
}

#[test]
fn a_lock_that_hardly_anything_waits_for_is_not_on_the_path() {
    let mut short = ring(5, 10, mutex(50));
    short.waits.iter_mut().for_each(|wait| wait.blocked_ns = SECOND / 100);
    let graph = wait_graph(&short);
    assert_eq!((graph.locks.len(), graph.critical_path.len()), (1, 0));
}

#[test]
fn what_most_of_the_held_time_is_waited_in_counts_not_what_was_last() {
    let read = WaitPlace::Call { number: Some(0), uninterruptible: false };
    let mut wakes = ring(5, 10, mutex(50));
    let short = HeldTime { total_ns: SECOND / 10, wait_ns: SECOND / 10, wait: Some(read), ..HeldTime::default() };
    let others: Vec<_> = wakes.waits.iter().map(|wait| TracedWait { held: short, count: 1, ..wait.clone() }).collect();
    wakes.waits.extend(others);
    let lock = &wait_graph(&wakes).locks[0];
    assert_eq!(lock.while_held.waiting.map(|(place, _)| place), Some(FSYNC));
    assert_eq!((lock.edges.len(), lock.edges[0].wake_ups), (5, 11), "one edge for each pair of threads");
}

#[test]
fn corrupt_counts_do_not_overflow() {
    let mut wakes = ring(5, u64::MAX, mutex(50));
    let held = HeldTime { total_ns: u64::MAX, run_ns: u64::MAX, runnable_ns: u64::MAX, wait_ns: u64::MAX, wait: Some(FSYNC) };
    wakes.waits.iter_mut().for_each(|wait| (wait.blocked_ns, wait.held) = (u64::MAX, held));
    assert_eq!(wait_graph(&wakes).wake_ups, u64::MAX);
}

#[test]
fn few_wake_ups_and_waits_with_a_timeout_are_no_lock() {
    assert!(wait_graph(&ring(5, 1, mutex(5))).locks.is_empty());
    let timed = TracedFutex { with_timeout: 1, ..mutex(50) };
    assert!(wait_graph(&ring(5, 10, timed)).locks.is_empty());
}

#[test]
fn the_path_goes_on_from_lock_to_lock_and_ends_in_a_cycle() {
    let wait = |futex, waker, blocked, of| TracedWait {
        thread: 9,
        place: WaitPlace::Futex(futex),
        waker: Some(waker),
        count: 50,
        blocked_ns: blocked * SECOND,
        held: HeldTime { total_ns: 5 * SECOND, run_ns: 0, runnable_ns: 0, wait_ns: 4 * SECOND, wait: Some(of) },
    };
    let futexes = vec![mutex(50), mutex(50)];
    let mut wakes = Wakes { elapsed_ns: 5 * SECOND, futexes, ..Wakes::default() };
    wakes.waits = vec![wait(0, 1, 20, WaitPlace::Futex(1)), wait(1, 2, 4, FSYNC)];
    let graph = wait_graph(&wakes);
    assert!(matches!(graph.critical_path[2], PathStep::Lock(1)), "{:?}", graph.critical_path);
    assert_eq!(graph.critical_path.last(), Some(&PathStep::Waiting(FSYNC, 0.8)));
    wakes.waits[1].held.wait = Some(WaitPlace::Futex(0));
    assert_eq!(wait_graph(&wakes).critical_path.last(), Some(&PathStep::Cycle(0)));
}
