//! Tasks that started within an interval.

use super::*;
use crate::sample::context_switches::{ContextSwitches, TaskContextSwitches};
use crate::sample::task::{ChildrenCpuTime, TaskIo};

#[test]
fn all_counters_of_a_new_task_belong_to_the_interval() {
    let new = |start_ticks| {
        let io = TaskIo { read_bytes: Counter(8192), ..TaskIo::default() };
        let mut process = Process { minor_faults: Counter(30), io: Ok(io), ..Process::clone(&process(50, start_ticks, 0)) };
        process.threads_mut()[0].major_faults = Counter(4);
        with_tasks(12.0, vec![Arc::new(process)])
    };
    let older = with_tasks(10.0, Vec::new());
    let tasks = between(&older, &new(1001)).tasks.expect("both samples have tasks");
    let (process, thread) = (tasks.active_processes[0], tasks.threads[0]);
    let rates = [process.minor_faults, process.read_bytes, process.write_bytes, thread.major_faults, thread.minor_faults];
    assert_eq!(rates.map(|rate| rate.map(|rate| rate.0)), [Some(15.0), Some(4096.0), Some(0.0), Some(2.0), Some(0.0)]);
    let tasks = between(&older, &new(900)).tasks.expect("both samples have tasks");
    assert_eq!(
        (tasks.active_processes[0].read_bytes, tasks.threads[0].major_faults),
        (None, None),
        "it was there before, unseen"
    );
}

#[test]
fn context_switches_of_a_new_thread_count_from_zero() {
    let counted = |tid: u32, start_ticks, voluntary, involuntary| TaskContextSwitches {
        task: TaskId { pid: 50, tid, start_ticks },
        counts: ContextSwitches { voluntary: Counter(voluntary), involuntary: Counter(involuntary) },
    };
    let older = Sample { context_switches: Ok(vec![counted(50, 1, 100, 10)]), ..with_tasks(10.0, Vec::new()) };
    let now = vec![counted(50, 1, 300, 11), counted(51, 1010, 8, 0), counted(52, 1, 8, 0)];
    let newer = Sample { context_switches: Ok(now), ..with_tasks(12.0, Vec::new()) };
    let switches = between(&older, &newer).context_switches.expect("context switches were read");
    let of = |tid, start_ticks| {
        let rates = switches.task(TaskId { pid: 50, tid, start_ticks })?;
        Some((rates.voluntary.0, rates.involuntary.0))
    };
    assert_eq!([of(50, 1), of(51, 1010), of(52, 1)], [Some((100.0, 0.5)), Some((4.0, 0.0)), None]);
    let process = Process { threads: Arc::new([thread(50, 1, 0), thread(51, 1010, 0)]), ..Process::clone(&process(50, 1, 0)) };
    assert_eq!(switches.process(&process).map(|rates| rates.voluntary.0), Some(104.0));
    assert!(between(&with_tasks(10.0, Vec::new()), &with_tasks(12.0, Vec::new())).context_switches.is_none());
}

#[test]
fn cpu_time_of_exited_children_is_shown_at_their_parent() {
    let parent = |ended: Option<u64>| {
        let children = ended.map(|ticks| ChildrenCpuTime { user_ticks: Counter(ticks), system_ticks: Counter(ticks) });
        vec![Arc::new(Process {
            children_cpu: children,
            minor_faults: Counter(ended.unwrap_or(0)),
            ..Process::clone(&process(50, 1, 0))
        })]
    };
    let share = |was, now| {
        let tasks = between(&with_tasks(10.0, parent(was)), &with_tasks(12.0, parent(now))).tasks.expect("tasks");
        tasks.process(&parent(now)[0]).children_cpu.map(|share| share.0)
    };
    assert_eq!([share(Some(10), Some(110)), share(Some(10), Some(10)), share(None, Some(10))], [Some(1.0), Some(0.0), None]);
}
