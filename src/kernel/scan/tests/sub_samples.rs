//! Sub-samples: what they read, and what they count.

use super::*;
use crate::ids::CpuId;

#[test]
fn sub_samples_count_threads_by_group() {
    let tree = ProcTree::empty();
    tree.link("70", "proc/self");
    let mut machine = Machine::on(tree, true);
    let disk = |tid| ThreadFiles { state: 'D', wchan: "submit_bio_wait", syscall: "74 0x3 0x0 0x0 0x0", ..one(tid) };
    let vfork = |tid| ThreadFiles { state: 'D', wchan: "kernel_clone", syscall: "58 0x0 0x0 0x0", ..one(tid) };
    machine.put(40, "db", 5, 10_000_000, &[disk(40)]);
    machine.put(50, "db", 6, 10_000_000, &[disk(50)]);
    machine.put(60, "make", 5, 10_000_000, &[vfork(60)]);
    machine.put(70, "monitor", 5, 10_000_000, &[disk(70)]);
    machine.scan();
    let mut watch = crate::kernel::waits::WaitCounter::default();
    let boottime_ns = machine.now_ns;
    let readings = crate::kernel::waits::SubSampleReadings { boottime_ns, ..Default::default() };
    watch.record_sub_sample(machine.scanner.sub_sampled_mut(), readings);
    watch.record_sub_sample(machine.scanner.sub_sampled_mut(), readings);
    let waits = watch.finish_interval().waits;
    // Both are children of 700 and have the same name: one group.
    assert_eq!(waits.groups.len(), 1);
    assert_eq!(
        waits.sub_samples.iter().map(|sub_sample| sub_sample.waits.iter().map(|row| row.threads).sum()).collect::<Vec<u16>>(),
        [2, 2]
    );
    assert_eq!(waits.blocked.iter().map(|thread| (thread.task.pid, thread.seen_count)).collect::<Vec<_>>(), [(40, 2), (50, 2)]);
    assert_eq!(waits.threads.iter().map(|thread| thread.seen_count).collect::<Vec<_>>(), [2, 2]);
    let [wait] = waits.observed.as_slice() else { panic!("both are in the same wait: {:?}", waits.observed) };
    assert_eq!((wait.state, wait.wchan.clone()), (TaskState::Blocked, Some("submit_bio_wait".into())));
    assert_eq!(wait.syscall.map(|call| (call.number, call.arguments)), Some((74, [0; 3])));
    assert!(watch.finish_interval().waits.sub_samples.is_empty());
}

#[test]
fn a_sub_sample_takes_the_state_from_a_wchan_that_implies_it() {
    let mut machine = Machine::new(true);
    machine.put(40, "server", 5, 10_000_000, &[one(40)]);
    machine.scan();
    // It ran and sleeps again. The state in stat is wrong on purpose: it shows whether stat was read.
    machine.put(40, "server", 5, 20_000_000, &[ThreadFiles { state: 'D', timeslices: 6, wchan: "ep_poll", ..one(40) }]);
    machine.scanner.sub_sample(machine.now_ns + 1);
    let known = machine.known(40, 40);
    assert_eq!((known.state, known.wait_class), (TaskState::Sleeping, Some(WaitClass::Poll)));
    machine.put(40, "server", 5, 20_000_000, &[ThreadFiles { timeslices: 6, wchan: "ep_poll", ..one(40) }]);
    let tasks = machine.scan();
    let (_, thread) = only(&tasks, 40);
    assert_eq!((thread.schedstat.map(|sched| sched.timeslices.0), thread.user_ticks), (Some(6), Counter(2)));
}

#[test]
fn a_wchan_of_uninterruptible_waits_does_not_imply_the_state() {
    let mut machine = Machine::new(true);
    machine.put(40, "server", 5, 10_000_000, &[one(40)]);
    machine.scan();
    let disk = ThreadFiles { state: 'D', timeslices: 7, wchan: "folio_wait_bit_common", syscall: "17 0x3 0x0 0x0", ..one(40) };
    machine.put(40, "server", 5, 20_000_000, &[disk]);
    machine.scanner.sub_sample(machine.now_ns + 1);
    assert_eq!((machine.known(40, 40).state, machine.known(40, 40).wait_class), (TaskState::Blocked, Some(WaitClass::Disk)));
}

#[test]
fn without_permission_the_state_is_read_from_stat() {
    let mut machine = Machine::new(false);
    machine.put(40, "server", 5, 10_000_000, &[one(40)]);
    machine.scan();
    machine.put(40, "server", 5, 20_000_000, &[ThreadFiles { state: 'D', timeslices: 6, wchan: "0", ..one(40) }]);
    machine.scanner.sub_sample(machine.now_ns + 1);
    assert_eq!(machine.known(40, 40).state, TaskState::Blocked);
}

#[test]
fn threads_are_not_read_if_others_account_for_the_process_clock() {
    let mut machine = Machine::new(true);
    let mut threads: Vec<ThreadFiles<'_>> = (40..48).map(one).collect();
    machine.put(40, "pool", 5, 80_000_000, &threads);
    machine.scan();
    let ran = |machine: &mut Machine, clock_ns: u64, moved: &[(u32, u64)]| {
        for &(tid, run_ns) in moved {
            let directory = if tid == 40 { "40".to_owned() } else { format!("40/task/{tid}") };
            machine.write(&format!("{directory}/schedstat"), format!("{run_ns} 7 {}\n", run_ns / 1_000_000));
        }
        machine.clock(40, clock_ns);
        machine.scan();
        machine.scanner.tasks_read()
    };
    assert_eq!(ran(&mut machine, 81_000_000, &[(43, 11_000_000)]), 2, "all are asked, one has run, and the process");
    assert_eq!(machine.hot(), [43]);
    // A thread is not read as long as the others account for the clock.
    let before = machine.known(40, 45).last_read_ns;
    assert_eq!(ran(&mut machine, 82_000_000, &[(43, 12_000_000)]), 2);
    assert_eq!(machine.known(40, 45).last_read_ns, before);
    assert_eq!(ran(&mut machine, 84_000_000, &[(43, 13_000_000), (45, 11_000_000)]), 3, "and here it has");
    assert_eq!(machine.hot(), [43, 45]);
    threads.pop();
    machine.put(40, "pool", 5, 84_000_000, &threads);
    machine.clock(40, 84_000_001);
    assert_eq!(machine.scan().processes[0].threads.len(), 7, "one that ended is missed all the same");
}

#[test]
fn a_futex_wait_with_a_timeout_is_not_counted_as_a_lock_wait() {
    let mut machine = Machine::new(true);
    let holder = ThreadFiles { state: 'D', wchan: "jbd2_log_wait_commit", syscall: "74 0x3 0x0 0x0 0x0", ..one(40) };
    let futex = |tid, timeslices, call| ThreadFiles { timeslices, wchan: "futex_do_wait", syscall: call, ..one(tid) };
    let (for_ever, timed) = ("202 0x7000 0x189 0x0 0x0 0x0 0x0 0x1 0x2", "202 0x8000 0x89 0x0 0x7f1d 0x0 0x0 0x1 0x2");
    machine.put(40, "java", 5, 10_000_000, &[holder, futex(41, 5, for_ever), futex(42, 5, timed)]);
    machine.scan();
    machine.put(40, "java", 5, 20_000_000, &[holder, futex(41, 6, for_ever), futex(42, 6, timed)]);
    machine.scan();
    let mut watch = crate::kernel::waits::WaitCounter::default();
    let boottime_ns = machine.now_ns;
    watch.record_sub_sample(
        machine.scanner.sub_sampled_mut(),
        crate::kernel::waits::SubSampleReadings { boottime_ns, ..Default::default() },
    );
    let waits = watch.finish_interval().waits;
    let classes: Vec<WaitClass> = waits.observed.iter().map(|wait| wait.class(b"x86_64")).collect();
    assert_eq!(classes, [WaitClass::Disk, WaitClass::Futex, WaitClass::Other]);
    assert!(waits.sub_samples[0].waits.iter().all(|row| (row.threads, row.at_shared_address) == (1, 0)));
}

#[test]
fn of_many_threads_behind_a_lock_those_that_wait_longest_are_read_until_they_account_for_the_process_clock() {
    let mut machine = Machine::new(true);
    let waiting = |tid| {
        let syscall = "202 0x7000 0x80 0x2 0x0 0x0 0x0 0x0 0x0";
        ThreadFiles { timeslices: 6, wchan: "futex_do_wait", syscall, ..one(tid) }
    };
    let waiters: Vec<ThreadFiles<'_>> = (40..140).map(waiting).collect();
    machine.put(40, "pool", 5, 1_000_000_000, &(40..140).map(one).collect::<Vec<_>>());
    machine.scan();
    machine.put(40, "pool", 5, 1_100_000_000, &waiters);
    machine.scan();
    // All but one ran once more, one second later.
    let ran = |machine: &mut Machine, tid: u32, run_ns: u64, timeslices: u32| {
        let directory = if tid == 40 { "40".to_owned() } else { format!("40/task/{tid}") };
        machine.write(&format!("{directory}/schedstat"), format!("{run_ns} 902341 {timeslices}\n"));
    };
    (40..140).filter(|&tid| tid != 120).for_each(|tid| ran(&mut machine, tid, 12_000_000, 7));
    machine.clock(40, 1_100_000_000 + 99 * 1_000_000);
    machine.scan();
    machine.scan();
    machine.scan();
    assert_eq!(machine.hot().len(), 100, "all wait for a lock");
    ran(&mut machine, 120, 12_000_000, 7);
    machine.clock(40, 1_100_000_000 + 100 * 1_000_000);
    let now_ns = machine.now_ns + 1;
    machine.scanner.sub_sample(now_ns);
    let read_at = |machine: &mut Machine, at: u64| -> Vec<u32> {
        (40..140).filter(|&tid| machine.known(40, tid).last_read_ns == at).collect()
    };
    assert_eq!(read_at(&mut machine, now_ns), [120]);
    // That one hands it over to the first of the others.
    ran(&mut machine, 120, 13_000_000, 8);
    ran(&mut machine, 40, 13_000_000, 8);
    machine.clock(40, 1_100_000_000 + 102 * 1_000_000);
    machine.scanner.sub_sample(now_ns + 1);
    assert_eq!(read_at(&mut machine, now_ns + 1), [40, 120]);
    ran(&mut machine, 41, 13_000_000, 8);
    machine.clock(40, 1_100_000_000 + 103 * 1_000_000);
    machine.scan();
    let now_ns = machine.now_ns;
    assert_eq!(
        read_at(&mut machine, now_ns),
        [40, 41, 120],
        "those that the last sample does not have yet, and the one that ran"
    );
    // Where the one that ran is not the one that waited longest, it is found as well.
    ran(&mut machine, 90, 14_000_000, 9);
    machine.clock(40, 1_100_000_000 + 105 * 1_000_000);
    machine.scanner.sub_sample(now_ns + 1);
    assert_eq!(machine.known(40, 90).last_timeslice_ns, Some(now_ns + 1));
}

#[test]
fn few_hot_threads_of_many_are_sub_sampled_without_the_process_clock() {
    let mut machine = Machine::new(true);
    let threads: Vec<ThreadFiles<'_>> = (40..170).map(one).collect();
    machine.put(40, "java", 5, 1_300_000_000, &threads);
    machine.scan();
    machine.write("40/task/43/schedstat", "11000000 7 6\n");
    machine.clock(40, 1_301_000_000);
    machine.scan();
    assert_eq!(machine.hot(), [43]);
    let stat = fs::read_to_string(machine.path("40/task/43/stat")).unwrap();
    machine.write("40/task/43/stat", stat.replace(" S ", " D "));
    machine.write("40/task/43/schedstat", "12000000 7 7\n");
    machine.write("40/task/43/wchan", "submit_bio_wait");
    machine.scanner.sub_sample(machine.now_ns + 1);
    assert_eq!(machine.known(40, 43).wait_class, Some(WaitClass::Disk), "though the clock stands still");
}

#[test]
fn steady_processes_are_sub_sampled_less_often_than_others() {
    let mut machine = Machine::new(true);
    machine.put(40, "server", 5, 10_000_000, &[one(40)]);
    machine.scan();
    let mut clock_ns = 10_000_000;
    let mut count_sub_samples = |machine: &mut Machine, given: ThreadFiles<'_>, times: u64| {
        let before = machine.scanner.tasks_read();
        for _ in 0..times {
            clock_ns += 1_000_000;
            machine.put(40, "server", 5, clock_ns, &[ThreadFiles { timeslices: clock_ns / 1_000_000, ..given }]);
            machine.now_ns += SECOND / 10;
            machine.scanner.sub_sample(machine.now_ns);
        }
        machine.scanner.tasks_read() - before
    };
    let poll = ThreadFiles { wchan: "ep_poll", ..one(40) };
    let disk = ThreadFiles { state: 'D', wchan: "submit_bio_wait", syscall: "74 0x3 0x0 0x0 0x0", ..one(40) };
    assert_eq!(count_sub_samples(&mut machine, poll, 20), 20, "it has just begun to work");
    count_sub_samples(&mut machine, poll, 3);
    assert_eq!(count_sub_samples(&mut machine, poll, 30), 10, "steady");
    assert_eq!(count_sub_samples(&mut machine, disk, 3), 1, "found at its turn, which is not put forward");
    count_sub_samples(&mut machine, disk, 2);
    assert_eq!(count_sub_samples(&mut machine, disk, 10), 10);
    assert_eq!(count_sub_samples(&mut machine, poll, 20), 20, "it may be back");
    count_sub_samples(&mut machine, poll, 3);
    assert_eq!(count_sub_samples(&mut machine, poll, 30), 10);
}

#[test]
fn the_run_times_of_a_thread_that_moves_are_kept_with_its_cpus() {
    let mut machine = Machine::new(true);
    let running = |timeslices| ThreadFiles { state: 'R', timeslices, wchan: "0", syscall: "running", ..one(40) };
    machine.put(40, "mover", 5, 10_000_000, &[running(5)]);
    machine.scan();
    machine.put(40, "mover", 5, 310_000_000, &[running(6)]);
    machine.scanner.sub_sample(machine.now_ns + 1);
    machine.put(40, "mover", 5, 410_000_000, &[running(7)]);
    let stat = std::fs::read_to_string(machine.path("40/task/40/stat")).unwrap();
    machine.write("40/task/40/stat", stat.replace(" 17 1 0 ", " 17 3 0 "));
    let tasks = machine.scan();
    let readings: Vec<_> = tasks.run_times.iter().map(|reading| (reading.cpu, reading.run_ns.0)).collect();
    assert_eq!(readings, [(None, 10_000_000), (Some(CpuId(1)), 310_000_000), (Some(CpuId(3)), 410_000_000)]);
    assert_eq!(tasks.run_times(tasks.run_times[0].task).len(), 3);
    assert!(machine.scan().run_times.is_empty(), "they are those since the last sample");
}

/// Stopped, so that it is not hot at the next scan.
#[test]
fn the_run_times_of_a_thread_that_was_stopped_are_not_those_of_the_next_interval() {
    let mut machine = Machine::new(true);
    let on_cpu = |machine: &Machine, cpu: &str| {
        let stat = fs::read_to_string(machine.path("40/task/40/stat")).unwrap();
        machine.write("40/task/40/stat", stat.replace(" 17 1 0 ", cpu));
    };
    let thread = |state, timeslices| ThreadFiles { state, timeslices, wchan: "0", syscall: "running", ..one(40) };
    machine.put(40, "mover", 5, 10_000_000, &[thread('R', 5)]);
    machine.scan();
    machine.put(40, "mover", 5, 310_000_000, &[thread('R', 6)]);
    machine.scanner.sub_sample(machine.now_ns + 1);
    machine.put(40, "mover", 5, 410_000_000, &[thread('T', 7)]);
    on_cpu(&machine, " 17 3 0 ");
    assert!(machine.scan().run_times.is_empty(), "it is not hot");
    machine.put(40, "mover", 5, 420_000_000, &[thread('R', 8)]);
    assert!(machine.scan().run_times.is_empty(), "it ran for 10 ms since the last sample");
}
