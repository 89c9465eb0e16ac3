//! Scans of a fixture tree, with CPU clocks that the test sets.

mod fuse;
mod machine;
mod parked;
mod reads;
mod sub_samples;
mod threads;
mod wait_channels;

use std::fs;

use machine::{Machine, ProcTree, SECOND, ThreadFiles, one, only};

use super::*;
use crate::sample::Absent;
use crate::sample::task::TaskState;
use crate::sample::waits::{JavaLock, JavaLockKind, WaitClass};
use crate::units::Counter;

#[test]
fn a_process_that_did_not_run_is_shared_and_not_read() {
    let mut machine = Machine::new(true);
    machine.put(40, "idle", 5, 10_000_000, &[one(40)]);
    let first = machine.scan();
    let clock = 10_000_000;
    machine.put(40, "changed", 5, clock, &[ThreadFiles { state: 'R', timeslices: 9, ..one(40) }]);
    let second = machine.scan();
    assert!(Arc::ptr_eq(&first.processes[0], &second.processes[0]));
    machine.clock(40, clock + 1);
    let third = machine.scan();
    assert!(!Arc::ptr_eq(&second.processes[0], &third.processes[0]));
    let (process, thread) = only(&third, 40);
    assert_eq!(
        (process.comm.as_bytes(), thread.state, thread.schedstat.unwrap().timeslices.0),
        (&b"changed"[..], TaskState::Running, 9)
    );
    assert_eq!(process.cpu_ns, Some(Counter(clock + 1)));
}

#[test]
fn without_clocks_everything_is_read() {
    let mut machine = Machine::new(true);
    for timeslices in [5, 6] {
        machine.put_without_clock(40, "idle", 5, 10_000_000, &[ThreadFiles { timeslices, ..one(40) }]);
        assert_eq!(only(&machine.scan(), 40).1.schedstat.unwrap().timeslices.0, timeslices);
    }
}

#[test]
fn a_reused_pid_is_another_process() {
    let mut machine = Machine::new(true);
    machine.put(40, "old", 5, 30_000_000, &[one(40), one(41)]);
    let first = machine.scan();
    machine.put(40, "new", 100_050, 10_000_000, &[one(40)]);
    let second = machine.scan();
    assert_ne!(first.processes[0].id(), second.processes[0].id());
    let (process, thread) = only(&second, 40);
    assert_eq!((process.comm.as_bytes(), process.threads.len(), thread.start_ticks), (&b"new"[..], 1, 100_050));
    assert!(
        thread.last_timeslice_ns.is_none() || thread.last_timeslice_ns > Some(1001 * SECOND),
        "it knows nothing of the old one's past"
    );
}

#[test]
fn a_parked_thread_is_never_active_and_a_worker_is_for_five_seconds() {
    let mut machine = Machine::new(true);
    let threads = |timeslices| [one(40), ThreadFiles { timeslices, ..one(41) }, one(42)];
    machine.put(40, "pool", 5, 30_000_000, &threads(5));
    let first = machine.scan();
    assert_eq!(machine.hot(), [] as [u32; 0], "being seen for the first time proves nothing");
    assert_eq!(first.processes[0].threads[1].last_timeslice_ns, None);
    machine.put(40, "pool", 5, 60_000_000, &threads(6));
    let second = machine.scan();
    assert_eq!(machine.hot(), [41]);
    let moved_ns = machine.now_ns;
    assert_eq!(second.processes[0].threads[1].last_timeslice_ns, Some(moved_ns));
    assert_eq!(second.processes[0].threads[2].last_timeslice_ns, None);
    for _ in 0..5 {
        assert_eq!(machine.hot(), [41]);
        machine.scan();
    }
    machine.scan();
    assert_eq!(machine.hot(), [] as [u32; 0]);
}

#[test]
fn a_process_started_between_two_scans_has_run() {
    let mut machine = Machine::new(true);
    machine.scan();
    let ticks = machine.now_ns / 10_000_000 + 3;
    machine.put(40, "young", ticks, 1_000, &[one(40)]);
    machine.scan();
    assert_eq!(machine.hot(), [40]);
}

#[test]
fn a_process_that_ends_is_gone_and_its_neighbours_stay() {
    let mut machine = Machine::new(true);
    for pid in [40, 50, 60] {
        machine.put(pid, "x", 5, 10_000_000, &[one(pid)]);
    }
    let first = machine.scan();
    machine.end(50);
    // Ended between listing and reading.
    fs::create_dir(machine.path("55")).unwrap();
    let second = machine.scan();
    assert_eq!(second.processes.iter().map(|process| process.pid).collect::<Vec<_>>(), [40, 60]);
    assert!(Arc::ptr_eq(&first.processes[2], &second.processes[1]));
}

#[test]
fn a_sleeping_process_whose_parent_ends_gets_its_new_parent() {
    let mut machine = Machine::new(true);
    for pid in [40, 50, 700] {
        machine.put(pid, "x", 5, 10_000_000, &[one(pid)]);
    }
    machine.scan();
    machine.end(700);
    let stat = fs::read_to_string(machine.path("40/stat")).unwrap();
    machine.write("40/stat", stat.replace(" S 700 ", " S 1 "));
    let tasks = machine.scan();
    assert_eq!([40, 50].map(|pid| only(&tasks, pid).0.ppid), [1, 700]);
}

#[test]
fn proc_is_not_listed_while_nothing_forks() {
    let mut machine = Machine::new(true);
    for pid in [40, 50] {
        machine.put(pid, "x", 5, 10_000_000, &[one(pid)]);
    }
    let pids = |tasks: &Tasks| tasks.processes.iter().map(|process| process.pid).collect::<Vec<_>>();
    let forks = |machine: &mut Machine, forks| {
        machine.scanner.scan(machine.now_ns, new_pids::ForkCounters { forks: Some(Counter(forks)), last_pid: None })
    };
    assert_eq!(pids(&forks(&mut machine, 7)), [40, 50]);
    machine.put(60, "x", 5, 10_000_000, &[one(60)]);
    machine.end(40);
    assert_eq!(pids(&forks(&mut machine, 7)), [50], "an end is seen by the clock, a new process by the fork counter");
    assert_eq!(pids(&forks(&mut machine, 8)), [50, 60]);
}

#[test]
fn new_processes_are_found_by_their_pids() {
    let mut machine = Machine::new(true);
    for pid in [40, 60, 100, 200, 300] {
        machine.put(pid, "x", 5, 10_000_000, &[one(pid)]);
    }
    let scan = |machine: &mut Machine, forks, last_pid| {
        let count = new_pids::ForkCounters { forks: Some(Counter(forks)), last_pid: Some(last_pid) };
        let tasks = machine.scanner.scan(machine.now_ns, count);
        tasks.processes.iter().map(|process| process.pid).collect::<Vec<_>>()
    };
    assert_eq!(scan(&mut machine, 7, 300), [40, 60, 100, 200, 300]);
    machine.put(302, "x", 5, 10_000_000, &[one(302)]);
    machine.put(50, "far", 5, 10_000_000, &[one(50)]);
    assert_eq!(scan(&mut machine, 9, 303), [40, 60, 100, 200, 300, 302], "between 301 and 303, and nowhere else");
    machine.put(303, "late", 5, 10_000_000, &[one(303)]);
    machine.put(304, "x", 5, 10_000_000, &[one(304)]);
    assert_eq!(scan(&mut machine, 10, 304), [40, 60, 100, 200, 300, 302, 303, 304], "its pid was assigned a second before");
    machine.now_ns += 30 * SECOND;
    assert_eq!(
        scan(&mut machine, 11, 305),
        [40, 50, 60, 100, 200, 300, 302, 303, 304],
        "a process that chose its pid is found by a listing of /proc"
    );
}

#[test]
fn names_may_hold_anything() {
    let mut machine = Machine::new(true);
    let names = ["a) R 1 (b", "two\nlines", "\x1b[2Jx"];
    for (pid, name) in (40..).zip(names) {
        machine.put(pid, name, 5, 10_000_000, &[one(pid)]);
    }
    let tasks = machine.scan();
    for (process, name) in tasks.processes.iter().zip(names) {
        assert_eq!((process.comm.as_bytes(), process.threads[0].state), (name.as_bytes(), TaskState::Sleeping));
        assert_eq!(process.threads[0].comm.as_bytes(), name.as_bytes());
    }
}

#[test]
fn slow_facts_are_read_and_follow_an_execve() {
    let mut machine = Machine::new(true);
    machine.put(40, "sh", 5, 10_000_000, &[one(40)]);
    machine.write("40/statm", "2048 300 120 40 0 90 0\n");
    let first = machine.scan();
    let (process, _) = only(&first, 40);
    assert_eq!((process.shared_pages, process.resident_pages), (Some(120), 2103));
    assert_eq!(process.facts.cmdline.as_ref().unwrap().as_bytes(), b"/bin/sh\0--flag");
    assert_eq!(process.facts.cgroup.as_ref().unwrap().path.as_bytes(), b"/a.slice");
    assert_eq!(process.facts.executable, Err(Absent::NoSuchFile));
    machine.put(40, "psql", 5, 20_000_000, &[one(40)]);
    machine.write("40/statm", "2048 300 130 40 0 90 0\n");
    let second = machine.scan();
    assert_eq!(only(&second, 40).0.shared_pages, Some(130));
    assert_eq!(only(&second, 40).0.facts.cmdline.as_ref().unwrap().as_bytes(), b"/bin/psql\0--flag");
    assert_eq!(only(&first, 40).0.comm.as_bytes(), b"sh", "the older sample stays what it was");
}

#[test]
fn the_title_of_a_process_that_fell_asleep_is_read_again() {
    let mut machine = Machine::new(true);
    machine.put(40, "postgres", 5, 10_000_000, &[one(40)]);
    let title = |tasks: &Tasks| only(tasks, 40).0.facts.cmdline.as_ref().unwrap().clone();
    machine.scan();
    machine.put(40, "postgres", 5, 20_000_000, &[one(40)]);
    machine.scan();
    machine.write("40/cmdline", "postgres: app shop [local] UPDATE waiting\0");
    let seen = (0..12).map(|_| title(&machine.scan())).filter(|title| title.as_bytes().ends_with(b"waiting")).count();
    assert!((1..=4).contains(&seen), "read once, 10 s after it was read before: {seen}");
}

#[test]
fn a_blocked_thread_has_its_wait_and_a_contradicting_pair_is_dropped() {
    let mut machine = Machine::new(true);
    let disk = ThreadFiles { state: 'D', wchan: "jbd2_log_wait_commit.isra.0\n", syscall: "74 0x3 0x0 0x0 0x0", ..one(40) };
    machine.put(40, "sync", 5, 10_000_000, &[disk]);
    machine.put(50, "odd", 5, 10_000_000, &[ThreadFiles { state: 'D', wchan: "do_epoll_wait", ..one(50) }]);
    machine.put(60, "gone", 5, 10_000_000, &[ThreadFiles { state: 'D', wchan: "0", syscall: "running", ..one(60) }]);
    let tasks = machine.scan();
    let wait = &only(&tasks, 40).1.wait;
    assert_eq!(wait.wchan.as_ref().unwrap().as_bytes(), b"jbd2_log_wait_commit");
    assert_eq!(wait.syscall().unwrap().arguments[0], 3);
    assert_eq!(machine.known(40, 40).wait_class, Some(WaitClass::Disk));
    assert_eq!(machine.known(60, 60).wait_class, None);
    assert_eq!(only(&tasks, 60).1.wait.wchan, Err(Absent::Vanished));
    assert_eq!(
        machine.known(50, 50).wait_class,
        Some(WaitClass::Frozen),
        "it did not run: the freezer stopped it in its sleep"
    );
    assert_eq!(tasks.hidden.wait_channels, 0);
    assert_eq!(machine.hot(), [40, 60]);
}

#[test]
fn hidden_wait_channels_are_marked_and_counted() {
    let mut machine = Machine::new(false);
    let hidden = ThreadFiles { state: 'D', wchan: "0", syscall: "running", ..one(40) };
    machine.put(40, "theirs", 5, 10_000_000, &[hidden, one(41)]);
    let tasks = machine.scan();
    assert_eq!(only(&tasks, 40).1.wait.wchan, Err(Absent::Hidden));
    assert_eq!(machine.known(40, 40).wait_class, Some(WaitClass::Hidden));
    assert_eq!(tasks.hidden.wait_channels, 2);
}

#[test]
fn parked_waiters_for_a_held_lock_are_found_beside_a_stuck_thread() {
    let mut machine = Machine::new(true);
    // Threads are asked for the waits that they began before the first scan.
    machine.scan();
    let waiter = |tid| ThreadFiles { wchan: "futex_do_wait", syscall: "202 0x7000 0x80 0x2 0x0", ..one(tid) };
    let parked = |tid| ThreadFiles { wchan: "futex_do_wait", syscall: "202 0x7000 0x189 0x0 0x0", ..one(tid) };
    let holder = ThreadFiles { state: 'D', wchan: "submit_bio_wait", syscall: "74 0x3 0x0 0x0 0x0", ..one(40) };
    machine.put(40, "convoy", 5, 10_000_000, &[holder, waiter(41), waiter(42), parked(43)]);
    machine.put(50, "pool", 5, 10_000_000, &[one(50), waiter(51)]);
    machine.scan();
    assert_eq!(machine.hot(), [40, 41, 42], "a process without a blocked thread is not read");
}

#[test]
fn parked_processes_that_wait_for_the_lock_of_a_stuck_sibling_are_found() {
    let mut machine = Machine::new(true);
    let waits = |tid| ThreadFiles { wchan: "locks_lock_inode_wait", syscall: "73 0x3 0x2 0x0 0x0", ..one(tid) };
    let holder = ThreadFiles { state: 'D', wchan: "jbd2_log_wait_commit", syscall: "74 0x3 0x0 0x0 0x0", ..one(50) };
    machine.put(50, "mail", 5, 10_000_000, &[holder]);
    machine.put(51, "mail", 6, 10_000_000, &[waits(51)]);
    machine.put(52, "other", 7, 10_000_000, &[waits(52)]);
    let tasks = machine.scan();
    assert_eq!(machine.known(51, 51).wait_class, Some(WaitClass::Lock));
    assert_eq!(only(&tasks, 52).1.wait.wchan, Err(Absent::NotRead), "no sibling: it has another name");
    assert_eq!(machine.hot(), [50, 51]);
}

#[test]
fn processes_that_wait_for_a_file_lock_since_before_the_first_scan_are_found() {
    let locks = "1: FLOCK  ADVISORY  WRITE 60 08:01:77 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 51 08:01:77 0 EOF\n";
    let mut machine = Machine::on(ProcTree::with([("proc/locks", locks)]), true);
    let waits = |tid| ThreadFiles { wchan: "locks_lock_inode_wait", syscall: "73 0x3 0x2 0x0 0x0", ..one(tid) };
    let sleeps = ThreadFiles { wchan: "hrtimer_nanosleep", ..one(60) };
    machine.put(51, "job", 6, 10_000_000, &[waits(51)]);
    machine.put(60, "holder", 7, 10_000_000, &[sleeps]);
    machine.put(61, "other", 7, 10_000_000, &[ThreadFiles { wchan: "hrtimer_nanosleep", ..one(61) }]);
    let tasks = machine.scan();
    assert_eq!(machine.known(51, 51).wait_class, Some(WaitClass::Lock));
    assert_eq!(only(&tasks, 60).1.wait.wchan, Ok("hrtimer_nanosleep".into()));
    assert_eq!(only(&tasks, 61).1.wait.wchan, Err(Absent::NotRead));
    assert_eq!(machine.hot(), [51]);
}

#[test]
fn threads_that_wait_for_a_mutex_since_before_the_first_scan_are_found() {
    let mut machine = Machine::new(true);
    let waits = |tid, call| ThreadFiles { wchan: "futex_do_wait", syscall: call, ..one(tid) };
    let contended = "202 0x7f00 0x80 0x2 0x0";
    machine.put(70, "app", 7, 10_000_000, &[waits(70, contended), waits(71, "202 0x7f80 0x189 0x0 0x0"), one(72)]);
    machine.put(80, "alone", 8, 10_000_000, &[waits(80, contended)]);
    let tasks = machine.scan();
    assert_eq!(machine.known(70, 70).wait_class, Some(WaitClass::Lock));
    assert_eq!(machine.known(70, 71).wait.wchan, Err(Absent::NotRead), "a condition variable");
    assert_eq!(only(&tasks, 80).1.wait.wchan, Err(Absent::NotRead), "no other thread could hold it");
    assert_eq!(machine.hot(), [70]);
}

#[test]
fn threads_that_wait_for_a_read_write_lock_since_before_the_first_scan_are_found() {
    let mut machine = Machine::new(true);
    let waits = |tid, syscall| ThreadFiles { wchan: "futex_do_wait", syscall, ..one(tid) };
    let threads = [waits(70, "202 0x7f88 0x189 0x3 0x0 0x0"), waits(71, "202 0x7f8c 0x189 0x3 0x0 0x0"), one(72)];
    machine.put(70, "app", 7, 10_000_000, &threads);
    machine.put(80, "idle", 8, 10_000_000, &[waits(80, "202 0x7f88 0x189 0x4 0x0 0x0"), one(81)]);
    machine.scan();
    assert_eq!(machine.hot(), [70, 71]);
    assert_eq!(machine.known(70, 71).lock_address(), Some(0x7f88), "readers and writers wait at different words of one lock");
}

#[test]
fn threads_of_a_sleeping_process_that_wait_for_a_java_lock_are_sub_sampled_until_they_run() {
    let mut machine = Machine::new(true);
    let waits =
        |tid, timeslices| ThreadFiles { wchan: "futex_do_wait", syscall: "202 0x7f80 0x189 0x0 0x0", timeslices, ..one(tid) };
    machine.put(70, "java", 7, 10_000_000, &[waits(70, 5), waits(71, 5)]);
    machine.scan();
    assert!(machine.hot().is_empty());
    let locks = FxHashMap::from_iter([(71, Some(JavaLock { address: 0x1000, kind: JavaLockKind::Monitor }))]);
    machine.scanner.set_java_waits(70, &locks);
    for _ in 0..8 {
        machine.scan();
        assert_eq!(machine.hot(), [71]);
        machine.now_ns += SECOND / 10;
        machine.scanner.sub_sample(machine.now_ns);
        let thread = machine.known(70, 71);
        assert_eq!((thread.lock_address(), thread.wait_class), (Some(0x1000), Some(WaitClass::Futex)));
    }
    machine.put(70, "java", 7, 20_000_000, &[waits(70, 5), waits(71, 6)]);
    machine.scan();
    assert_eq!(machine.known(70, 71).lock_address(), Some(0x7f80), "it ran");
}

#[test]
fn a_scan_reads_what_only_a_sub_sample_has_seen() {
    let mut machine = Machine::new(true);
    let worker = |state, timeslices, channel| ThreadFiles { state, timeslices, wchan: channel, ..one(40) };
    machine.put(40, "worker", 5, 10_000_000, &[worker('R', 5, "0")]);
    machine.scan();
    machine.put(40, "worker", 5, 20_000_000, &[worker('D', 6, "submit_bio_wait")]);
    machine.now_ns += SECOND / 10;
    machine.scanner.sub_sample(machine.now_ns);
    assert_eq!(machine.known(40, 40).wait_class, Some(WaitClass::Disk));
    assert!(machine.ran_recently(40));
    // Nothing ran since the sub-sample, but the last sample does not have it.
    let tasks = machine.scan();
    let (process, thread) = only(&tasks, 40);
    assert_eq!((thread.state, thread.schedstat.unwrap().timeslices.0), (TaskState::Blocked, 6));
    assert_eq!(thread.wait.wchan.as_ref().unwrap().as_bytes(), b"submit_bio_wait");
    assert_eq!((process.cpu_ns, process.user_ticks), (Some(Counter(20_000_000)), Counter(2)));
    let again = machine.scan();
    assert!(Arc::ptr_eq(&tasks.processes[0], &again.processes[0]), "blocked in the same wait");
}

#[test]
fn without_schedstat_ticks_show_which_threads_ran() {
    // A kernel without CONFIG_SCHED_INFO
    let mut machine = Machine::on(ProcTree::with([("proc/self/schedstat", "0 0 0\n")]), true);
    machine.put(40, "old", 5, 10_000_000, &[one(40), one(41)]);
    let first = machine.scan();
    assert_eq!((only(&first, 40).1.schedstat, first.hidden.schedstats), (None, 2));
    assert_eq!(machine.hot(), [] as [u32; 0]);
    machine.put(40, "old", 5, 50_000_000, &[one(40), one(41)]);
    machine.scan();
    assert_eq!(machine.hot(), [40, 41]);
}

#[test]
fn a_thread_that_never_ran_has_a_schedstat_all_the_same() {
    let mut machine = Machine::new(true);
    machine.put(40, "new", 5, 0, &[ThreadFiles { timeslices: 0, ..one(40) }]);
    assert_eq!(machine.scan().hidden.schedstats, 0);
}
