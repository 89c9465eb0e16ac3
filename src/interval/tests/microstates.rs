//! The shares of a thread's time by state.

use super::*;
use crate::interval::task::Microstates;
use crate::sample::waits::ThreadWait;

#[test]
fn a_thread_seen_first_that_is_not_new_has_no_rates() {
    let older = with_tasks(10.0, Vec::new());
    let newer = with_tasks(11.0, vec![process(50, 1, 300_000_000)]);
    let tasks = between(&older, &newer).tasks.expect("both samples have tasks");
    let states = tasks.threads[0].states;
    assert!(close(states.unknown, 1.0) && close(states.non_sleep() + states.sleep, 0.0), "{states:?}");
    assert!(close(tasks.active_processes[0].states.unknown, 1.0));
}

#[test]
fn microstates_of_a_thread_add_up_to_one() {
    let mut older = with_tasks(10.0, vec![process(50, 1, 0)]);
    let mut newer = with_tasks(11.0, vec![process(50, 1, 300_000_000)]);
    let group = GroupId::Process(ProcessId { pid: 50, start_ticks: 1 });
    let seen = [(WaitClass::Disk, 4), (WaitClass::Lock, 2), (WaitClass::Poll, 2)];
    newer.waits = Waits {
        groups: vec![group],
        observed: synthetic::waits::observed(),
        threads: synthetic::waits::thread(TaskId { pid: 50, tid: 50, start_ticks: 1 }, 0, &seen),
        ..Waits::default()
    };
    older.waits = Waits::default();
    let tasks = between(&older, &newer).tasks.expect("both samples have tasks");
    let states = tasks.threads[0].states;
    assert!(close(states.non_sleep() + states.sleep, 1.0), "{states:?}");
    assert!(close(states.user + states.system, 0.3) && close(states.run_queue, 0.15));
    assert!(close(states.disk, 0.55 / 2.0) && close(states.lock, 0.55 / 4.0) && close(states.sleep, 0.55 / 4.0));
}

/// The states of a thread that waits for completions: with this many requests in flight, of a process that read and wrote so many bytes.
fn waiting_for_completions(in_flight: Option<u32>, bytes: Option<u64>) -> Microstates {
    let with_io = |run_ns: u64, bytes: Option<u64>| {
        let io = bytes.map(|bytes| TaskIo { read_bytes: Counter(bytes), ..TaskIo::default() });
        vec![Arc::new(Process { io: io.ok_or(Absent::NoPermission), ..(*process(50, 1, run_ns)).clone() })]
    };
    let older = with_tasks(10.0, with_io(0, bytes.map(|_| 0)));
    let mut newer = with_tasks(11.0, with_io(400_000_000, bytes));
    newer.waits = Waits {
        sub_samples: vec![SubSample { in_flight, ..SubSample::default() }],
        groups: vec![GroupId::Process(ProcessId { pid: 50, start_ticks: 1 })],
        observed: synthetic::waits::observed(),
        threads: synthetic::waits::thread(TaskId { pid: 50, tid: 50, start_ticks: 1 }, 0, &[(WaitClass::Aio, 4)]),
        ..Waits::default()
    };
    between(&older, &newer).tasks.expect("both samples have tasks").threads[0].states
}

#[test]
fn a_wait_for_completions_without_the_requests_in_flight_is_unknown() {
    let left = 0.4;
    let states = |in_flight| waiting_for_completions(in_flight, None);
    assert!(close(states(Some(1)).disk, left) && close(states(Some(0)).sleep, left), "{:?}", states(Some(0)));
    assert!(close(states(None).unknown, left) && close(states(None).disk, 0.0), "{:?}", states(None));
}

#[test]
fn a_process_that_moved_no_bytes_waits_for_no_request_of_others() {
    let idle = waiting_for_completions(Some(1), Some(0));
    assert!(close(idle.disk, 0.0) && close(idle.sleep, 0.4), "{idle:?}");
    let unknown = waiting_for_completions(None, Some(0));
    assert!(close(unknown.unknown, 0.0) && close(unknown.sleep, 0.4), "{unknown:?}");
}

/// The states of a thread that sub-samples saw twice on storage, and twice in the wait with this id.
fn half_on_storage(id: u32) -> Microstates {
    let task = TaskId { pid: 50, tid: 50, start_ticks: 1 };
    let older = with_tasks(10.0, vec![process(50, 1, 0)]);
    let mut newer = with_tasks(11.0, vec![process(50, 1, 400_000_000)]);
    let mut threads = synthetic::waits::thread(task, 0, &[(WaitClass::Disk, 2)]);
    threads.push(ThreadWait { task, wait: id, group: 0, seen_count: 2 });
    let groups = vec![GroupId::Process(ProcessId { pid: 50, start_ticks: 1 })];
    newer.waits = Waits { groups, observed: synthetic::waits::observed(), threads, ..Waits::default() };
    between(&older, &newer).tasks.expect("both samples have tasks").threads[0].states
}

#[test]
fn a_wait_in_d_of_no_class_is_no_sleep() {
    for id in [synthetic::waits::OTHER_BLOCKED, synthetic::waits::HIDDEN_BLOCKED] {
        let states = half_on_storage(id);
        assert!(close(states.other_blocked, 0.2) && close(states.disk, 0.2) && close(states.sleep, 0.0), "{states:?}");
    }
    let asleep = half_on_storage(WaitClass::Poll as u32);
    assert!(close(asleep.sleep, 0.2) && close(asleep.other_blocked, 0.0), "{asleep:?}");
}

/// It slept for 6 s, so that no sub-sample read it, and then waited for a lock.
#[test]
fn sub_samples_that_did_not_read_a_sleeping_thread_saw_it_asleep() {
    let task = TaskId { pid: 50, tid: 50, start_ticks: 1 };
    let states = |older: Vec<Arc<Process>>| {
        let mut newer = with_tasks(18.0, vec![process(50, 1, 0)]);
        newer.waits = Waits {
            sub_samples: vec![SubSample::default(); 80],
            groups: vec![GroupId::Process(ProcessId { pid: 50, start_ticks: 1 })],
            observed: synthetic::waits::observed(),
            threads: synthetic::waits::thread(task, 0, &[(WaitClass::Lock, 20)]),
            ..Waits::default()
        };
        between(&with_tasks(10.0, older), &newer).tasks.expect("both samples have tasks").threads[0].states
    };
    let asleep = states(vec![process(50, 1, 0)]);
    assert!(close(asleep.lock, 0.25) && close(asleep.sleep, 0.75), "{asleep:?}");
    let mut running = Process::clone(&process(50, 1, 0));
    running.threads_mut()[0].state = TaskState::Running;
    assert!(close(states(vec![Arc::new(running)]).lock, 1.0), "it was hot from the beginning");
    assert!(close(states(Vec::new()).lock, 1.0), "it was not there, as far as is known");
}

/// Another thread called execve: the first thread's tid and start time are its own now, and so are the counters.
#[test]
fn a_thread_that_ran_for_longer_than_its_process_is_another_one() {
    let ms = 1_000_000;
    let with_thread = |seconds, comm: &str, process_ms: u64, thread_ms: u64| {
        let thread = Thread { comm: comm.into(), ..thread(50, 1, thread_ms * ms) };
        with_tasks(seconds, vec![synthetic::process(50, "p").started(1).ran(process_ms * ms).threads([thread]).into()])
    };
    let older = with_thread(10.0, "p", 30_000, 1_000);
    let cpu = |newer| between(&older, &newer).tasks.expect("both samples have tasks").threads[0].cpu.map(|cpu| cpu.0);
    assert_eq!(cpu(with_thread(11.0, "p", 30_100, 25_000)), None);
    assert_eq!(cpu(with_thread(11.0, "other", 30_100, 1_500)), None);
    let same = cpu(with_thread(11.0, "p", 30_500, 1_550));
    assert!(close(same.expect("the same thread"), 0.55), "read a little later than the clock of its process: {same:?}");
    let without_ticks = cpu(with_thread(11.0, "p", 31_000, 2_900));
    assert!(close(without_ticks.expect("the same thread"), 1.0), "its run time was old: {without_ticks:?}");
}
