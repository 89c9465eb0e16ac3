//! CPU time and run-queue wait of threads.

use super::*;
use crate::units::Ratio;

/// The kernel adds a run-queue wait when it ends, and also counts a sleeper with a delayed dequeue as waiting.
#[test]
fn a_run_queue_wait_is_cut_to_the_interval() {
    let waited = |state: TaskState, waited_ns: u64| {
        let with = |state, run_ns, delay_ns| {
            let thread = synthetic::thread(50, "t").ran(run_ns, delay_ns, run_ns).state(state);
            synthetic::process(50, "p").ran(run_ns).threads([thread])
        };
        let older = synthetic::sample(10.0).processes([with(state, 0, 0)]).build();
        let newer = synthetic::sample(12.0).processes([with(TaskState::Sleeping, 500_000_000, waited_ns)]).build();
        between(&older, &newer).tasks.expect("tasks").run_queue_wait
    };
    let is = |waited: Option<f64>, threads: f64| waited.is_some_and(|waited| close(waited, threads));
    assert!(is(waited(TaskState::Running, 500_000_000), 0.25), "half a second of two");
    assert!(is(waited(TaskState::Sleeping, 500_000_000), 0.25), "woken within");
    assert!(is(waited(TaskState::Sleeping, 2_100_000_000), 1.0), "read a little later than the sample");
    assert!(is(waited(TaskState::Running, 29_000_000_000), 0.75), "since long before: all but what it ran");
    assert_eq!(waited(TaskState::Sleeping, 29_000_000_000), None, "it was asleep as the interval began");
}

/// Such a wait adds to the counter only when it ends.
#[test]
fn a_thread_that_is_runnable_and_does_not_run_waits_all_the_time() {
    let waited = |states: [TaskState; 2], run_ns: u64| {
        let with = |state, run_ns| {
            let thread = synthetic::thread(50, "t").started(1).ran(run_ns, 7, run_ns / 1_000_000).state(state).build();
            let process: Arc<Process> = synthetic::process(50, "p").started(1).ran(run_ns).threads([thread]).into();
            vec![process]
        };
        let (older, newer) = (with_tasks(10.0, with(states[0], 1_000_000)), with_tasks(12.0, with(states[1], run_ns)));
        between(&older, &newer).tasks.expect("tasks").run_queue_wait.unwrap_or(0.0)
    };
    use TaskState::{Running, Sleeping};
    assert!(close(waited([Running, Running], 1_000_000), 1.0));
    assert!(close(waited([Running, Running], 5_000_000), 0.0), "it ran");
    assert!(close(waited([Sleeping, Running], 1_000_000), 0.0), "it was woken at some time");
    assert!(close(waited([Running, Sleeping], 5_000_000), 0.0));
}

#[test]
fn a_thread_uses_at_most_one_cpu() {
    let at = |seconds, run_ns| with_tasks(seconds, vec![process(50, 1, run_ns)]);
    // It was read 20 ms later than the time before.
    let tasks = between(&at(10.0, 5_000_000_000), &at(11.0, 6_020_000_000)).tasks.expect("both samples have tasks");
    assert_eq!(tasks.threads[0].cpu, Some(Ratio(1.0)));
}

#[test]
fn without_schedstat_run_queue_wait_is_unknown() {
    let waited = |sched| {
        let mut process = Process::clone(&process(50, 1, 0));
        process.threads_mut()[0].schedstat = sched;
        // It did not run: both samples share it.
        let shared = vec![Arc::new(process)];
        between(&with_tasks(10.0, shared.clone()), &with_tasks(11.0, shared)).tasks.expect("tasks").run_queue_wait
    };
    assert_eq!(waited(None), None);
    assert_eq!(waited(Some(Schedstat::default())), Some(0.0));
}
