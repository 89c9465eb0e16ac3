//! The tasks of cgroups against pids.max. How many tasks a group has is counted from the scan of all tasks, so that pids.current and
//! pids.events are read only of groups that may be near their limit.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::reading::{KnownReadings, ReadScope, is_near};
use crate::ids::CgroupId;
use crate::kernel::fields::{lines, parse_named_u64, parse_single_u64};
use crate::kernel::root::Root;
use crate::sample::Name;
use crate::sample::cgroup::Controller;
use crate::sample::limits::{Limit, LimitKind};
use crate::sample::task::Tasks;
use crate::units::Counter;

/// Files pids.max that are read every 5 s, about 0.2 ms: all of them on most machines, otherwise those that were read longest ago.
const MAX_READS: usize = 32;
/// A group with this share of its limit in the scan is watched: the scan misses tasks that end soon.
const MIN_WATCHED_SHARE: f64 = 0.5;
/// For this long after its last refusal a group is watched whatever the scan counts.
const WATCH_NS: u64 = 60_000_000_000;

/// Keeps the limit of each group.
#[derive(Debug, Default)]
pub struct CgroupTaskReader {
    known: BTreeMap<CgroupId, KnownGroup>,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct KnownGroup {
    directory: PathBuf,
    /// pids.max; `None`: no limit
    max: Option<u64>,
    /// CLOCK_BOOTTIME
    max_read_ns: u64,
    is_watched: bool,
    refused: Option<Counter>,
    /// CLOCK_BOOTTIME when `refused` was last seen to grow
    last_refusal_ns: Option<u64>,
}

impl CgroupTaskReader {
    pub fn sample(&mut self, root: &Root, scope: ReadScope, known: KnownReadings<'_>, rows: &mut Vec<Limit>) {
        if scope == ReadScope::All {
            self.find_watched(root, known);
        }
        let Self { known: groups, buffer } = self;
        for (id, group) in groups.iter_mut().filter(|(_, group)| group.is_watched) {
            let Some(max) = group.max else { continue };
            let current = root.read(group.directory.join("pids.current"), buffer).ok().and_then(|()| parse_single_u64(buffer));
            let Some(used) = current else { continue };
            let refused = root.read(group.directory.join("pids.events"), buffer).ok().and_then(|()| parse_max_events(buffer));
            if refused != group.refused && group.refused.is_some() {
                group.last_refusal_ns = Some(known.now_ns);
            }
            group.refused = refused;
            let limit = Limit { cgroup: Some(id.clone()), refused, ..Limit::new(LimitKind::CgroupTasks, used, max) };
            rows.extend((is_near(&limit) || refused.is_some_and(|refused| refused.0 > 0)).then_some(limit));
        }
    }

    /// Counts the tasks of each group, reads limits again, and decides which groups are watched.
    fn find_watched(&mut self, root: &Root, known: KnownReadings<'_>) {
        let counts = count_tasks(known.tasks);
        self.known.retain(|id, _| counts.contains_key(id));
        // New groups first, then those near their limit; half of the reads are for those that were read longest ago, whatever they are.
        let order = |id: &CgroupId| self.known.get(id).map(|group| (!group.is_watched, group.max_read_ns));
        let mut due: Vec<&CgroupId> = counts.keys().collect();
        due.sort_by_cached_key(|id| order(id));
        let mut others = due.split_off(due.len().min(MAX_READS / 2));
        others.sort_by_cached_key(|id| self.known.get(id).map(|group| group.max_read_ns));
        for id in due.into_iter().chain(others.into_iter().take(MAX_READS / 2)) {
            self.read_max(root, known, id);
        }
        for (id, count) in counts {
            let Some(group) = self.known.get_mut(&id) else { continue };
            let refused_lately = group.last_refusal_ns.is_some_and(|at| known.now_ns.saturating_sub(at) < WATCH_NS);
            let is_large = group.max.is_some_and(|max| count as f64 >= max as f64 * MIN_WATCHED_SHARE);
            group.is_watched = is_large || (group.max.is_some() && refused_lately);
        }
    }

    fn read_max(&mut self, root: &Root, known: KnownReadings<'_>, id: &CgroupId) {
        let Some(directory) = known.cgroups.pids_directory(id) else { return };
        let max = root.read(directory.join("pids.max"), &mut self.buffer).ok().and_then(|()| parse_single_u64(&self.buffer));
        let group = self.known.entry(id.clone()).or_insert_with(|| KnownGroup {
            directory,
            max: None,
            max_read_ns: 0,
            is_watched: false,
            refused: None,
            last_refusal_ns: None,
        });
        (group.max, group.max_read_ns) = (max, known.now_ns);
    }
}

/// Tasks of each group, those of the groups below it included; without the root, which has no limit.
fn count_tasks(tasks: &Tasks) -> BTreeMap<CgroupId, u64> {
    let mut own: BTreeMap<&CgroupId, u64> = BTreeMap::new();
    for process in tasks.processes.iter().filter(|process| !process.kernel_thread) {
        if let Some(id) = process.cgroup_for(Controller::Pids) {
            *own.entry(id).or_default() += process.threads.len() as u64;
        }
    }
    let mut counts: BTreeMap<CgroupId, u64> = BTreeMap::new();
    for (id, count) in own {
        for path in id.path_with_ancestors().filter(|path| *path != b"/") {
            *counts.entry(CgroupId { version: id.version, path: Name::from(path) }).or_default() += count;
        }
    }
    counts
}

/// `max` of pids.events.
fn parse_max_events(text: &[u8]) -> Option<Counter> {
    lines(text).filter_map(parse_named_u64).find(|(name, _)| *name == b"max").map(|(_, count)| Counter(count))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::ids::CgroupVersion;
    use crate::kernel::cgroup::CgroupReader;
    use crate::proc_tree::ProcTree;
    use crate::sample::cgroup::Memberships;
    use crate::sample::task::ProcessFacts;
    use crate::synthetic;

    /// In v1 the group of the pids controller, not that of the CPU controller.
    #[test]
    fn a_group_is_read_from_half_of_its_limit_and_kept_near_it_or_after_a_refusal() {
        let mounts = "26 21 0:24 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n27 21 0:25 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        let tree = ProcTree::with([("proc/self/mountinfo", mounts)]);
        let root = tree.root();
        let write = |group: &str, current: u32, refused: u32| {
            let directory = format!("sys/fs/cgroup/pids/{group}");
            tree.write(format!("{directory}/pids.max"), if group == "free" { "max\n" } else { "4\n" });
            tree.write(format!("{directory}/pids.current"), format!("{current}\n"));
            tree.write(format!("{directory}/pids.events"), format!("max {refused}\n"));
        };
        for (group, current, refused) in [("full", 4, 7), ("half", 2, 0), ("refused", 3, 1), ("small", 4, 9), ("free", 4, 0)] {
            write(group, current, refused);
        }
        let mut cgroups = CgroupReader::default();
        cgroups.sample(&root).0.unwrap();
        let group = |path: &str| CgroupId { version: CgroupVersion::V1, path: path.into() };
        let process = |pid: u32, path: &str| {
            let memberships = Some(Arc::new(Memberships { pids: Some(group(path)), ..Memberships::default() }));
            let facts = ProcessFacts { cgroup: Ok(group("/")), memberships, ..ProcessFacts::default() };
            Arc::new(synthetic::process(pid, "sh").facts(facts).threads([synthetic::thread(pid, "sh")]).build())
        };
        let paths = ["/full", "/full", "/half", "/half", "/refused", "/refused", "/small", "/free", "/free", "/gone"];
        let processes = paths.iter().zip(1..).map(|(path, pid)| process(pid, path)).collect();
        let tasks = Tasks { processes, ..Tasks::default() };
        let mut reader = CgroupTaskReader::default();
        let mut read = |scope, now_ns| {
            let mut rows = Vec::new();
            reader.sample(&root, scope, KnownReadings { tasks: &tasks, load: None, cgroups: &cgroups, now_ns }, &mut rows);
            rows.into_iter().map(|row| (row.cgroup.unwrap(), row.used, row.max, row.refused)).collect::<Vec<_>>()
        };
        let expected = vec![(group("/full"), 4, 4, Some(Counter(7))), (group("/refused"), 3, 4, Some(Counter(1)))];
        assert_eq!(read(ReadScope::All, 1), expected, "the scan counts one task of /small");
        write("half", 4, 1);
        tree.write("sys/fs/cgroup/pids/free/pids.max", "1\n");
        let later = read(ReadScope::Near, 1_000_000_001);
        assert_eq!(later.len(), 3, "each second while it has half of its limit: {later:?}");
        let full = read(ReadScope::All, 5_000_000_001);
        assert!(
            full.iter().any(|(id, used, max, _)| *id == group("/free") && (*used, *max) == (4, 1)),
            "a new limit: {full:?}"
        );
    }
}
