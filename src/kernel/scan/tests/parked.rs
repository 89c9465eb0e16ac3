//! Parked processes: only the data of the last sample are kept of them.

use super::machine::{Machine, SECOND, ThreadFiles, one};
use super::new_pids::ForkCounters;
use super::reads::ran;
use crate::sample::task::Tasks;
use crate::sample::waits::WaitClass;
use crate::units::Counter;

fn is_parked(machine: &Machine) -> bool {
    machine.is_parked(40)
}

#[test]
fn an_activated_process_has_what_the_last_sample_had() {
    let mut machine = Machine::new(true);
    machine.put(40, "pool", 5, 30_000_000, &[one(40), ThreadFiles { wchan: "do_epoll_wait", ..one(41) }, one(42)]);
    machine.scan();
    let first_seen_ns = machine.now_ns;
    assert!(is_parked(&machine), "it was not seen to run");
    machine.put(
        40,
        "pool",
        5,
        60_000_000,
        &[one(40), ThreadFiles { wchan: "do_epoll_wait", timeslices: 6, ..one(41) }, one(42)],
    );
    machine.scan();
    let moved_ns = machine.now_ns;
    for _ in 0..5 {
        machine.scan();
        assert!(!is_parked(&machine), "it may run again at any moment");
    }
    machine.scan();
    assert!(is_parked(&machine));
    ran(&mut machine, 40, 61_000_000, &[(42, 21_000_000)]);
    machine.write("40/task/42/schedstat", "21000000 7 9\n");
    let tasks = machine.scan();
    assert!(!is_parked(&machine));
    let threads = &tasks.processes[0].threads;
    assert_eq!(
        threads.iter().map(|thread| thread.last_timeslice_ns).collect::<Vec<_>>(),
        [None, Some(moved_ns), Some(machine.now_ns)]
    );
    assert_eq!(threads[1].wait.wchan.as_ref().unwrap().as_bytes(), b"do_epoll_wait");
    assert_eq!(machine.known(40, 41).wait_class, Some(WaitClass::Poll));
    assert_eq!(machine.known(40, 40).waiting_since_ns(), first_seen_ns);
    assert_eq!(machine.known(40, 42).schedstat.unwrap().run_ns, Counter(21_000_000));
}

#[test]
fn a_sub_sample_activates_a_parked_process_that_ran() {
    let mut machine = Machine::new(true);
    machine.put(40, "shell", 5, 30_000_000, &[one(40)]);
    machine.scan();
    machine.now_ns += SECOND / 10;
    machine.scanner.sub_sample(machine.now_ns);
    assert!(is_parked(&machine), "its clock stands still");
    machine.put(40, "shell", 5, 31_000_000, &[ThreadFiles { state: 'R', timeslices: 6, ..one(40) }]);
    machine.now_ns += SECOND / 10;
    machine.scanner.sub_sample(machine.now_ns);
    assert_eq!(machine.hot(), [40]);
}

#[test]
fn a_blocked_process_is_not_parked() {
    let mut machine = Machine::new(true);
    // Frozen by its cgroup.
    machine.put(40, "frozen", 5, 30_000_000, &[ThreadFiles { state: 'D', wchan: "do_freezer_trap", ..one(40) }]);
    machine.scan();
    assert!(!is_parked(&machine));
}

#[test]
fn the_memory_of_a_parked_process_is_read_in_turns() {
    let mut machine = Machine::new(true);
    let pids = 40..100;
    pids.clone().for_each(|pid| machine.put(pid, "idle", 5, 30_000_000, &[one(pid)]));
    let scan = |machine: &mut Machine| {
        machine.now_ns += SECOND;
        machine.scanner.scan(machine.now_ns, ForkCounters { forks: Some(Counter(7)), last_pid: None })
    };
    scan(&mut machine);
    for pid in pids.clone() {
        let path = format!("{pid}/task/{pid}/stat");
        let stat = std::fs::read_to_string(machine.path(&path)).unwrap();
        machine.write(&path, stat.replace(" 2103 ", " 44 "));
    }
    let small = |tasks: &Tasks| tasks.processes.iter().filter(|process| process.resident_pages == 44).count();
    assert_eq!((1..=30).map(|_| small(&scan(&mut machine))).collect::<Vec<_>>(), (1..=30).map(|n| 2 * n).collect::<Vec<_>>());
    assert!(machine.is_parked(40));
}

/// The freezer of Linux 6.1 and later changes the state alone.
#[test]
fn a_parked_process_that_is_frozen_and_thawed_is_seen_within_thirty_samples() {
    let mut machine = Machine::new(true);
    let thread = |tid, state| ThreadFiles { state, wchan: "do_epoll_wait", timeslices: 6, ..one(tid) };
    machine.put(40, "server", 5, 30_000_000, &[one(40), one(41)]);
    machine.scan();
    // They run, so that their waits are read.
    machine.put(40, "server", 5, 40_000_000, &[thread(40, 'S'), thread(41, 'S')]);
    for (state, stopped) in [('S', false), ('D', true), ('S', false)] {
        machine.put(40, "server", 5, 40_000_000, &[thread(40, state), thread(41, state)]);
        let tasks = (0..30).map(|_| machine.scan()).last().unwrap();
        assert_eq!(tasks.processes[0].is_stopped(), stopped);
        assert_eq!(machine.hot(), [0; 0], "neither blocked nor active");
        assert_eq!(tasks.processes[0].threads[1].wait.wchan, Ok("do_epoll_wait".into()));
    }
    assert!(is_parked(&machine));
}

/// The wait of a mutex of Rust, and of one of glibc with a timeout, is FUTEX_WAIT_BITSET with value 2.
#[test]
fn a_process_with_a_timed_wait_is_parked_again_after_another_thread_ran() {
    let mut machine = Machine::new(true);
    machine.scanner.follow_likely_mutexes();
    let timed = |timeslices| {
        let syscall = "202 0x7000 0x189 0x2 0x7f1d 0x0 0x0 0x1 0x2";
        ThreadFiles { wchan: "futex_do_wait", syscall, timeslices, ..one(41) }
    };
    machine.put(40, "pool", 5, 30_000_000, &[one(40), timed(5)]);
    machine.scan();
    machine.put(40, "pool", 5, 40_000_000, &[one(40), timed(6)]);
    let parks = |machine: &mut Machine| (0..9).any(|_| (machine.scan(), is_parked(machine)).1);
    assert!(parks(&mut machine));
    machine.put(40, "pool", 5, 50_000_000, &[ThreadFiles { timeslices: 6, ..one(40) }, timed(6)]);
    machine.scan();
    assert_eq!(machine.hot(), [40]);
    assert!(parks(&mut machine));
}
