//! The rows of the tasks screen: processes or threads, sorted or as a tree, wait classes, and containers, pods and units.

use std::sync::Arc;

use super::filter::FilterMatcher;
use super::process_tree::tree;
use super::rows::{Row, TaskList, TaskRows, sort_by_value};
use super::sort::{SortBy, SortColumn};
use super::{Sort, State};
use crate::figures::FigureInput;
use crate::figures::task::ProcessRow;
use crate::figures::thread::ThreadRow;
use crate::findings::Evaluation;
use crate::interval::Interval;
use crate::interval::cgroup_names::CgroupName;
use crate::interval::cgroup_tasks::cgroup_tasks;
use crate::interval::task::{ProcessSpan, ThreadSpan};
use crate::interval::task_activity::{TaskActivity, floor_to_hundredth};
use crate::sample::task::{Process, Tasks};
use crate::sample::waits::WaitClass;

pub fn task_rows(state: &State, evaluation: &Evaluation, sort: Sort, mut filter: FilterMatcher) -> Vec<Row> {
    let (interval, input) = (&*evaluation.interval, FigureInput::from(evaluation));
    let (Some(span), Ok(sample)) = (&interval.tasks, &interval.newer.tasks) else { return Vec::new() };
    let list = match state.lists.task_rows {
        TaskRows::WaitClasses(_) => return wait_classes(interval, sample),
        TaskRows::Cgroups(_) => return cgroups(evaluation, sample, sort, filter),
        TaskRows::Tasks(list) => list,
    };
    let with_threads = matches!(list, TaskList::Threads | TaskList::TreeWithThreads);
    if state.lists.task_rows.is_tree() && !filter.is_active() {
        return tree(sample, with_threads, &state.lists.folded);
    }
    let activity = TaskActivity::new(interval);
    let mut keyed: Vec<(f64, Row)> = Vec::with_capacity(sample.processes.len());
    for (index, (process, row)) in span.processes_with_spans(&sample.processes).enumerate() {
        if filter.is_active() && !filter.matches_process(process, &interval.newer) {
            continue;
        }
        if with_threads {
            for (thread, facts) in process.threads.iter().enumerate() {
                let value = thread_sort_value(
                    sort.column.by,
                    &input,
                    process,
                    (thread, span.thread(process.task_id(facts))),
                    &activity,
                );
                keyed.push((value, Row::Thread { process: index, thread, depth: 0 }));
            }
        } else {
            let mut value = process_sort_value(sort.column.by, &input, process, row, &activity);
            if value <= 0.0 && process.kernel_thread && sort.column == SortColumn::TASK_ACTIVITY {
                // Idle kernel threads follow idle programs.
                value = -1.0;
            }
            keyed.push((value, Row::Process { index, depth: 0 }));
        }
    }
    if matches!(sort.column.by, SortBy::Command | SortBy::User) {
        let text = |row: &Row| match *row {
            Row::Process { index, .. } | Row::Thread { process: index, .. } => sample.processes.get(index).map(|process| {
                let owner = sample.users.get(&process.uid);
                (if sort.column == SortColumn::TASK_COMMAND { Some(&process.comm) } else { owner }, process.uid)
            }),
            _ => None,
        };
        keyed.sort_by(|a, b| text(&a.1).cmp(&text(&b.1)));
        let rows = keyed.into_iter().map(|(_, row)| row);
        return if sort.reversed { rows.rev().collect() } else { rows.collect() };
    }
    sort_by_value(keyed, sort)
}

/// A row for each container, pod, unit or other cgroup. A filter matches its name, its path and the names of its processes.
fn cgroups(evaluation: &Evaluation, sample: &Tasks, sort: Sort, mut filter: FilterMatcher) -> Vec<Row> {
    let (interval, input) = (&*evaluation.interval, FigureInput::from(evaluation));
    let mut keyed: Vec<(f64, String, Row)> = Vec::new();
    for group in cgroup_tasks(interval) {
        let path = group.cgroup.map_or(&b""[..], |(_, path)| path);
        let label = CgroupName::from_path(&interval.newer, path).label();
        if filter.is_active() {
            let names: Vec<String> = group.names.iter().map(|(name, _)| name.to_string_lossy()).collect();
            if !filter.matches_text(&format!("{label} {} {}", String::from_utf8_lossy(path), names.join(" "))) {
                continue;
            }
        }
        let first = sample.processes.get(group.first_process);
        let value = match sort.column.by {
            SortBy::Task(figure, _) => {
                first.and_then(|first| figure.number(&input, &ProcessRow::new(first, group.span))).unwrap_or(0.0)
            }
            _ => floor_to_hundredth(group.activity),
        };
        keyed.push((value, label, Row::CgroupTasks { first_process: group.first_process }));
    }
    keyed.sort_by(|a, b| a.1.cmp(&b.1));
    if matches!(sort.column.by, SortBy::Command | SortBy::User) {
        let rows = keyed.into_iter().map(|(.., row)| row);
        return if sort.reversed { rows.rev().collect() } else { rows.collect() };
    }
    sort_by_value(keyed.into_iter().map(|(value, _, row)| (value, row)).collect(), sort)
}

fn process_sort_value(
    by: SortBy,
    input: &FigureInput,
    process: &Arc<Process>,
    span: ProcessSpan,
    activity: &TaskActivity,
) -> f64 {
    match by {
        SortBy::Task(figure, _) => figure.number(input, &ProcessRow::new(process, span)).unwrap_or(0.0),
        _ => floor_to_hundredth(activity.weight(process, &span.states, span.cpu, span.run_queue_wait)),
    }
}

/// The sort value of a thread, given by its index in the process. A thread without a span slept for the whole interval.
fn thread_sort_value(
    by: SortBy,
    input: &FigureInput,
    process: &Arc<Process>,
    (thread, span): (usize, Option<&ThreadSpan>),
    activity: &TaskActivity,
) -> f64 {
    match (by, span) {
        (SortBy::Task(_, Some(figure)), span) => {
            figure.number(input, &ThreadRow::new(process, thread, span.copied())).unwrap_or(0.0)
        }
        (SortBy::Task(figure, None), _) => {
            let span = input.interval.tasks.as_ref().map(|tasks| tasks.process(process));
            span.and_then(|span| figure.number(input, &ProcessRow::new(process, span))).unwrap_or(0.0)
        }
        (_, None) => 0.0,
        (_, Some(span)) => floor_to_hundredth(activity.weight(process, &span.states, span.cpu, span.run_queue_wait)),
    }
}

fn wait_classes(interval: &Interval, sample: &Tasks) -> Vec<Row> {
    let mut counts = [0_u32; WaitClass::COUNT];
    let activity = TaskActivity::new(interval);
    for process in &sample.processes {
        for thread in process.threads.iter() {
            if let Some(count) = counts.get_mut(activity.wait_class(&interval.host, process, thread) as usize) {
                *count += 1;
            }
        }
    }
    let rows = WaitClass::ALL.iter().zip(counts).filter(|(_, threads)| *threads > 0);
    rows.map(|(&class, threads)| Row::WaitClass { class, threads }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Source;
    use crate::state::filter::MatchMode;
    use crate::synthetic::{evaluation, process, sample, screen, thread};
    use crate::units::Counter;

    /// The process with the most CPU time has no thread with the most: those that used it have ended.
    #[test]
    fn threads_are_sorted_by_their_own_cpu_time() {
        let with_ticks = |tid, ticks| thread(tid, "work").with(|thread| thread.user_ticks = Counter(ticks));
        let at = |seconds| {
            let of_ended = process(10, "a").threads([with_ticks(10, 5), with_ticks(11, 50)]);
            let of_running = process(20, "b").threads([with_ticks(20, 900), with_ticks(21, 7)]);
            let of_ended = of_ended.with(|process| process.user_ticks = Counter(100_000));
            sample(seconds).processes([of_ended, of_running])
        };
        let evaluation = evaluation(at(100.0), at(101.0));
        let mut state = screen((80, 24), Source::Live);
        state.lists.task_rows = TaskRows::Tasks(TaskList::Threads);
        let sort = Sort { column: SortColumn::TASK_TIME, reversed: false };
        let rows = task_rows(&state, &evaluation, sort, FilterMatcher::new("", MatchMode::Literal));
        let shown: Vec<(usize, usize)> = rows
            .iter()
            .map(|row| match *row {
                Row::Thread { process, thread, .. } => (process, thread),
                _ => unreachable!("the list has threads alone"),
            })
            .collect();
        assert_eq!(shown, [(1, 0), (0, 1), (1, 1), (0, 0)]);
    }
}
