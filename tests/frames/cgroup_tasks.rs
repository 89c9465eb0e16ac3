//! The tasks screen grouped by container, pod, unit or other cgroup.

use std::sync::Arc;

use stalltop::findings::Evaluation;
use stalltop::sample::Sample;
use stalltop::sample::task::{Process, ProcessFacts, Tasks};
use stalltop::state::{Effect, Event, Item, Key, Source, State, TaskList, TaskRows, update};

use crate::scenes;
use crate::screen::{press, setup, text};
use crate::synthetic::{cgroup_id, docker_name};

const ID: &str = "4f797c539e6c745de61a93ca3ff892358ecbcaccd8414d5db545c38428142970";

/// A container with a group below it, a unit with two, and processes in no unit.
fn path(process: &Process) -> String {
    match (process.comm.as_bytes(), process.pid % 2) {
        (b"postgres", _) => format!("/system.slice/docker-{ID}.scope"),
        (b"redis-server", _) => format!("/system.slice/docker-{ID}.scope/below"),
        (_, 0) => "/system.slice/cron.service".to_owned(),
        (_, _) => "/system.slice/cron.service/job".to_owned(),
    }
}

fn with_cgroups(mut evaluation: Evaluation) -> Evaluation {
    let interval = Arc::make_mut(&mut evaluation.interval);
    let sample = Sample::clone(&interval.newer);
    let mut tasks: Tasks = sample.tasks.clone().unwrap();
    for process in &mut tasks.processes {
        let facts = ProcessFacts { cgroup: Ok(cgroup_id(&path(process))), ..ProcessFacts::clone(&process.facts) };
        Arc::make_mut(process).facts = Arc::new(facts);
    }
    let name = docker_name(ID, "db-1");
    interval.newer = Arc::new(Sample { tasks: Ok(tasks), container_names: vec![name], ..sample });
    evaluation
}

fn state(size: (u16, u16)) -> State {
    let mut state = State::new(setup(size, Source::Live));
    for evaluation in scenes::lock_convoy().intervals(90, 50) {
        update(&mut state, Event::Evaluation(with_cgroups(evaluation)));
    }
    press(&mut state, "5u");
    state
}

#[test]
fn a_row_has_the_sums_of_a_container_or_unit() {
    for size in [(40, 10), (80, 24), (120, 40), (200, 50)] {
        let state = state(size);
        insta::assert_snapshot!(format!("tasks-cgroups-{}x{}", size.0, size.1), text(&state));
    }
}

#[test]
fn the_selection_is_the_container_and_enter_opens_its_page() {
    let mut state = state((120, 40));
    let container = Item::Cgroup(cgroup_id(&format!("/system.slice/docker-{ID}.scope")));
    press(&mut state, "g");
    assert_eq!(state.selected_item(), Some(container.clone()), "{}", text(&state));
    press(&mut state, "S");
    assert_eq!(state.selected_item(), Some(container), "it stays selected when the order is reversed");
    press(&mut state, "\n");
    let page = text(&state);
    assert!(page.contains("container db-1 (docker)") && page.contains("MEMBERS") && page.contains("postgres"), "{page}");
    assert!(page.contains("none of its own") && page.contains("TIME GOES TO"), "{page}");
}

#[test]
fn the_filter_and_the_sort_order_work_on_groups() {
    let mut state = state((80, 24));
    let rows = state.rows().len();
    press(&mut state, "/db-1\n");
    assert_eq!(state.rows().len(), 1, "{}", text(&state));
    press(&mut state, "/\x1b");
    press(&mut state, "/postgres\n");
    assert_eq!(state.rows().len(), 1, "by the name of a process");
    press(&mut state, "/\x1b");
    assert_eq!(state.rows().len(), rows);
    while state.sort().column.label() != "command" {
        press(&mut state, "s");
    }
    press(&mut state, "g");
    assert_eq!(state.selected_item(), Some(Item::Cgroup(cgroup_id("/system.slice/cron.service"))), "{}", text(&state));
}

#[test]
fn the_kind_of_rows_is_saved() {
    let mut state = state((80, 24));
    assert_eq!(state.lists.task_rows, TaskRows::Cgroups(TaskList::Processes));
    for (key, rows) in [
        ('u', TaskRows::Tasks(TaskList::Processes)),
        ('t', TaskRows::Tasks(TaskList::Threads)),
        ('u', TaskRows::Cgroups(TaskList::Threads)),
        ('c', TaskRows::WaitClasses(TaskList::Threads)),
        ('u', TaskRows::Cgroups(TaskList::Threads)),
        ('T', TaskRows::Tasks(TaskList::TreeWithThreads)),
    ] {
        assert_eq!(update(&mut state, Event::Key(Key::Char(key))), Effect::SaveChoices);
        assert_eq!(state.lists.task_rows, rows);
    }
}
