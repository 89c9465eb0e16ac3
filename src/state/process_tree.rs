//! The tree of processes on the tasks screen: each below its parent, and the branches that are folded into one row.

use rustc_hash::{FxHashMap, FxHashSet};

use super::notice::Notice;
use super::rows::{self, Item, Row, TaskList, TaskRows};
use super::{Screen, State};
use crate::ids::ProcessId;
use crate::sample::task::{Process, Tasks};

/// Each process below its parent, sorted by pid. A folded one has no rows below it.
pub(super) fn tree(sample: &Tasks, threads: bool, folded: &FxHashSet<ProcessId>) -> Vec<Row> {
    let mut children: FxHashMap<u32, Vec<usize>> = FxHashMap::default();
    let mut waiting: Vec<(usize, u8)> = Vec::new();
    for (index, process) in sample.processes.iter().enumerate() {
        if has_parent(sample, process) {
            children.entry(process.ppid).or_default().push(index);
        } else {
            waiting.push((index, 0));
        }
    }
    waiting.reverse();
    let mut rows = Vec::with_capacity(sample.processes.len());
    while let Some((index, depth)) = waiting.pop() {
        rows.push(Row::Process { index, depth });
        let Some(process) = sample.processes.get(index) else { continue };
        if folded.contains(&process.id()) {
            continue;
        }
        if threads && process.threads.len() > 1 {
            let depth = depth.saturating_add(1);
            rows.extend((0..process.threads.len()).map(|thread| Row::Thread { process: index, thread, depth }));
        }
        // Removed, so that a cycle of parents in a damaged recording ends.
        if let Some(below) = children.remove(&process.pid) {
            waiting.extend(below.into_iter().rev().map(|child| (child, depth.saturating_add(1))));
        }
    }
    rows
}

fn has_parent(sample: &Tasks, process: &Process) -> bool {
    process.ppid != process.pid && sample.process(process.ppid).is_some()
}

impl State {
    /// Whether the rows are the tree.
    fn shows_tree(&self) -> bool {
        self.screen == Screen::Tasks && self.lists.task_rows.is_tree() && self.filter().is_empty()
    }

    /// Whether the rows below this process are folded into its row.
    pub fn is_folded(&self, process: ProcessId) -> bool {
        self.shows_tree() && self.lists.folded.contains(&process)
    }

    /// Folds the branch of the selected process, or unfolds it. Of a process without rows below it, folds the branch that it is in.
    pub(super) fn toggle_branch(&mut self) {
        if !self.shows_tree() {
            self.notify(Notice::new("x folds branches of the tree: T shows it"));
            return;
        }
        let Some(branch) = self.branch_to_toggle() else { return };
        if !self.lists.folded.remove(&branch) {
            self.lists.folded.insert(branch);
        }
        self.rebuild_rows();
        let is_branch = |&row: &Row| rows::row_item(self, row) == Some(Item::Process(branch));
        if let Some(row) = self.lists.rows.iter().position(is_branch) {
            self.select_row(row);
        }
    }

    fn branch_to_toggle(&self) -> Option<ProcessId> {
        let tasks = self.current()?.interval.newer.tasks.as_ref().ok()?;
        let pid = match self.selected_item()? {
            Item::Process(id) => id.pid,
            // A row below its process
            Item::Thread(id) => return tasks.process(id.pid).map(|process| process.id()),
            _ => return None,
        };
        let process = tasks.process(pid)?;
        if self.lists.folded.contains(&process.id()) {
            return Some(process.id());
        }
        let has_threads = self.lists.task_rows == TaskRows::Tasks(TaskList::TreeWithThreads) && process.threads.len() > 1;
        let is_parent = |other: &Process| other.ppid == pid && other.pid != pid;
        if has_threads || tasks.processes.iter().any(|other| is_parent(other)) {
            return Some(process.id());
        }
        has_parent(tasks, process).then(|| tasks.process(process.ppid)).flatten().map(|parent| parent.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Event, Key, Source, update};
    use crate::synthetic::{process, sample, screen, thread};

    /// pid or tid of each row, and its depth.
    fn shown(state: &State) -> Vec<(u32, u8)> {
        let tasks = state.current().unwrap().interval.newer.tasks.as_ref().unwrap();
        let row = |row: &Row| match *row {
            Row::Process { index, depth } => (tasks.processes[index].pid, depth),
            Row::Thread { process, thread, depth } => (tasks.processes[process].threads[thread].tid, depth),
            _ => unreachable!("the list has tasks alone"),
        };
        state.rows().iter().map(row).collect()
    }

    #[test]
    fn a_folded_branch_is_one_row() {
        let evaluation = |with_workers: bool| {
            let at = |seconds| {
                let mut processes = vec![
                    process(1, "init").parent(0),
                    process(10, "server").parent(1),
                    process(20, "cron").parent(1).threads([thread(20, "cron"), thread(21, "job")]),
                ];
                if with_workers {
                    processes.splice(2..2, [process(11, "worker").parent(10), process(12, "helper").parent(11)]);
                }
                sample(seconds).processes(processes)
            };
            crate::synthetic::evaluation(at(100.0), at(101.0))
        };
        let mut state = screen((80, 24), Source::Replay { name: "x".to_owned() });
        let show = |state: &mut State, with_workers| {
            update(state, Event::SeekCompleted { evaluation: evaluation(with_workers), preceding: Vec::new() });
        };
        let press_keys = |state: &mut State, keys: &str| {
            for key in keys.chars() {
                update(state, Event::Key(Key::Char(key)));
            }
            shown(state)
        };
        show(&mut state, true);
        let mut press = |keys: &str| press_keys(&mut state, keys);
        let whole = [(1, 0), (10, 1), (11, 2), (12, 3), (20, 1)];
        assert_eq!(press("5T"), whole);
        assert_eq!(press("jx"), [(1, 0), (10, 1), (20, 1)], "the second row is the server");
        assert_eq!(press("x"), whole, "it is still selected");
        assert_eq!(press("jjx"), [(1, 0), (10, 1), (11, 2), (20, 1)], "the last process of a branch folds it");
        assert_eq!(press("gx"), [(1, 0)]);
        assert_eq!(press("xt"), [(1, 0), (10, 1), (11, 2), (20, 1), (20, 2), (21, 2)], "with threads");
        assert_eq!(press("Gx"), [(1, 0), (10, 1), (11, 2), (20, 1)], "a thread folds its process");
        assert_eq!(press("tT").len(), 5, "a flat list has all processes");
        assert_eq!(press("Tgjx"), [(1, 0), (10, 1), (20, 1)]);
        show(&mut state, false);
        assert_eq!(press_keys(&mut state, "x"), [(1, 0), (10, 1), (20, 1)], "its last child has ended: it is no longer folded");
        show(&mut state, true);
        assert_eq!(shown(&state), [(1, 0), (10, 1), (11, 2), (20, 1)], "the worker is folded still");
    }
}
