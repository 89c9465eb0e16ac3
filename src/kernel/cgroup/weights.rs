//! Reads the CPU weights of cgroups with runnable tasks, and of the cgroups above them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::walk::Hierarchy;
use crate::ids::{CgroupId, CgroupVersion};
use crate::kernel::fields::parse_single_u64;
use crate::kernel::root::Root;
use crate::sample::Name;
use crate::sample::cgroup::CgroupWeight;
use crate::sample::task::{TaskState, Tasks};
use crate::units::SmallSort;

/// A weight is read again after this time.
const TTL: Duration = Duration::from_secs(10);
/// Files that are read in one sample.
const MAX_READS: usize = 32;
/// Groups that are kept beside those with runnable tasks.
const MAX_KEPT: usize = 1_000;

/// Keeps the weights that were read.
#[derive(Debug, Default)]
pub struct WeightReader {
    known: BTreeMap<CgroupId, KnownWeight>,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct KnownWeight {
    /// `None` if the group has no weight, as the root
    weight: Option<u64>,
    read_at: Instant,
}

impl WeightReader {
    /// The weights of the groups with runnable tasks, sorted by id; old ones where more are due than one sample reads.
    pub fn sample(&mut self, root: &Root, hierarchies: &[Hierarchy], tasks: &Tasks, now: Instant) -> Vec<CgroupWeight> {
        let groups = runnable_groups(tasks);
        if self.known.len() > MAX_KEPT {
            self.known.retain(|id, _| groups.contains(id));
        }
        let last_read = |id: &CgroupId| self.known.get(id).map(|known| known.read_at);
        let is_old = |read_at| now.saturating_duration_since(read_at) >= TTL;
        let mut due: Vec<_> = groups.iter().map(|id| (last_read(id), id)).filter(|(last, _)| last.is_none_or(is_old)).collect();
        // Those that were never read first, then the oldest.
        due.small_sort_by_key(|&due| due);
        for (_, id) in due.into_iter().take(MAX_READS) {
            let weight = self.read(root, hierarchies, id);
            self.known.insert(id.clone(), KnownWeight { weight, read_at: now });
        }
        let known = groups.into_iter().filter_map(|id| Some((self.known.get(&id)?.weight?, id)));
        known.map(|(weight, id)| CgroupWeight { id, weight }).collect()
    }

    fn read(&mut self, root: &Root, hierarchies: &[Hierarchy], id: &CgroupId) -> Option<u64> {
        let hierarchy = hierarchies.iter().find(|hierarchy| hierarchy.version == id.version && hierarchy.controllers.cpu)?;
        let file = match id.version {
            CgroupVersion::V1 => "cpu.shares",
            CgroupVersion::V2 => "cpu.weight",
        };
        root.read(hierarchy.directory(id.path.as_bytes())?.join(file), &mut self.buffer).ok()?;
        parse_single_u64(&self.buffer)
    }
}

/// The groups of the processes with a runnable thread, and those above them, without the root.
fn runnable_groups(tasks: &Tasks) -> BTreeSet<CgroupId> {
    let runnable =
        tasks.processes.iter().filter(|process| process.threads.iter().any(|thread| thread.state == TaskState::Running));
    let own: BTreeSet<&CgroupId> = runnable.filter_map(|process| process.facts.cgroup.as_ref().ok()).collect();
    let groups = own.into_iter().flat_map(|id| id.path_with_ancestors().map(|path| (id.version, path)));
    let below_root = groups.filter(|(_, path)| *path != b"/");
    below_root.map(|(version, path)| CgroupId { version, path: Name::from(path) }).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::kernel::cgroup::walk::hierarchies;
    use crate::kernel::mounts::parse_mountinfo;
    use crate::proc_tree::ProcTree;
    use crate::sample::task::{Process, ProcessFacts};
    use crate::synthetic;

    fn process(pid: u32, state: TaskState, group: &CgroupId) -> Arc<Process> {
        let facts = ProcessFacts { cgroup: Ok(group.clone()), ..ProcessFacts::default() };
        Arc::new(synthetic::process(pid, "sh").facts(facts).threads([synthetic::thread(pid, "sh").state(state)]).build())
    }

    #[test]
    fn weights_of_groups_with_runnable_tasks_are_read_up_to_the_root() {
        let weights = [("web", "100\n"), ("web/php", "20\n"), ("batch", "0\n"), ("idle", "50\n")];
        let tree = ProcTree::with(weights.map(|(group, weight)| (format!("sys/fs/cgroup/{group}/cpu.weight"), weight)));
        let mounts = parse_mountinfo(b"26 21 0:24 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        let group = |path: &str| CgroupId { version: CgroupVersion::V2, path: path.into() };
        let processes = vec![
            process(2, TaskState::Running, &group("/")),
            process(3, TaskState::Running, &group("/web/php")),
            process(4, TaskState::Running, &group("/batch")),
            process(5, TaskState::Sleeping, &group("/idle")),
            process(6, TaskState::Running, &group("/gone")),
        ];
        let tasks = Tasks { processes, ..Tasks::default() };
        let read = WeightReader::default().sample(&tree.root(), &hierarchies(&mounts), &tasks, Instant::now());
        let expected = [("/batch", 0), ("/web", 100), ("/web/php", 20)];
        assert_eq!(read, expected.map(|(path, weight)| CgroupWeight { id: group(path), weight }));
    }

    #[test]
    fn each_of_many_groups_is_read_in_its_turn() {
        const SECONDS: u32 = 12;
        let tree = ProcTree::empty();
        let mounts = hierarchies(&parse_mountinfo(b"26 21 0:24 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"));
        let group = |number: u32| CgroupId { version: CgroupVersion::V2, path: format!("/g{number}").as_str().into() };
        let numbers = 0..MAX_READS as u32 * SECONDS;
        for number in numbers.clone() {
            tree.write(format!("sys/fs/cgroup/g{number}/cpu.weight"), "100\n");
        }
        let processes = numbers.clone().map(|number| process(number + 2, TaskState::Running, &group(number))).collect();
        let tasks = Tasks { processes, ..Tasks::default() };
        let (mut reader, begin) = (WeightReader::default(), Instant::now());
        let mut count = |second| reader.sample(&tree.root(), &mounts, &tasks, begin + Duration::from_secs(second)).len();
        let counts: Vec<_> = (1..=u64::from(SECONDS)).map(&mut count).collect();
        assert!(counts.is_sorted() && counts.last() == Some(&numbers.len()), "{counts:?}");
        tree.write("sys/fs/cgroup/g7/cpu.weight", "50\n");
        let changed = |second| {
            let weights = reader.sample(&tree.root(), &mounts, &tasks, begin + Duration::from_secs(second));
            weights.iter().any(|weight| weight.weight == 50)
        };
        assert!((13..13 + u64::from(SECONDS)).any(changed));
    }
}
