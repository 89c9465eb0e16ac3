//! Reads control groups that have a limit (CPU quota, cpuset, memory, I/O), of cgroup v1, v2 or both.
//!
//! A walk over the hierarchies, spread over many samples, finds the groups with a limit; only these are read. If there are too
//! many for one sample, groups at a limit are read in each sample, and the others in turn, each in two consecutive samples.

mod files;
mod parse;
mod walk;
mod weights;

use std::path::PathBuf;
use std::time::{Duration, Instant};

pub use parse::{parse_cpu_max, parse_cpu_stat, parse_limit, parse_memory_stat};

use self::files::Group;
use self::walk::{Hierarchy, Walk, hierarchies, pids_hierarchy};
use self::weights::WeightReader;
use super::mounts::MountTable;
use super::root::Root;
use crate::ids::CgroupId;
use crate::sample::cgroup::{Cgroup, CgroupWeight, IoLimit};
use crate::sample::task::Tasks;
use crate::sample::{Absent, Reading};
use crate::units::{Counter, SmallSort};

/// Time for the walk in one sample.
const WALK_TIME_PER_SAMPLE: Duration = Duration::from_millis(4);
/// The next walk starts this long after the end of the last, or this many times its cost.
const MIN_WALK_INTERVAL: Duration = Duration::from_secs(5);
const WALK_INTERVAL_PER_COST: u32 = 400;
/// Groups whose files remain open: descriptors are few where the limit is 1,024.
const MAX_OPEN_GROUPS: usize = 48;
/// Groups read in one sample: half of them are groups at a limit, half are read in turn.
const MAX_GROUPS_PER_SAMPLE: usize = 512;

/// Reads groups that have a limit.
#[derive(Debug, Default)]
pub struct CgroupReader {
    mounts: MountTable,
    hierarchies: Vec<Hierarchy>,
    groups: Vec<Group>,
    walk: Option<Walk>,
    last_walk: Option<(Instant, Duration)>,
    /// Index of the part of `groups` for the next sample.
    next_part: usize,
    weights: WeightReader,
    /// oom_kill of /proc/vmstat at this sample: the files of groups are read again when it has changed.
    host_oom_kills: Option<Counter>,
    buffer: Vec<u8>,
}

impl CgroupReader {
    /// Sets the OOM kills of the host (oom_kill of /proc/vmstat). To be called before `sample`.
    pub fn set_host_oom_kills(&mut self, kills: Option<Counter>) {
        self.host_oom_kills = kills;
    }

    /// The known groups that have a limit, or as many as one sample may read, sorted by id; and their I/O on devices where it
    /// is limited.
    pub fn sample(&mut self, root: &Root) -> (Reading<Vec<Cgroup>>, Vec<IoLimit>) {
        let mut io = Vec::new();
        let cgroups = self.read_groups(root, &mut io);
        io.small_sort_by(|a, b| (&a.cgroup, a.disk).cmp(&(&b.cgroup, b.disk)));
        (cgroups, io)
    }

    /// The CPU weights of groups with runnable tasks. To be called after `sample`.
    pub fn weights(&mut self, root: &Root, tasks: &Tasks) -> Vec<CgroupWeight> {
        self.weights.sample(root, &self.hierarchies, tasks, Instant::now())
    }

    /// The groups that their CPU quota throttled between the last two samples.
    pub fn throttled(&self) -> impl Iterator<Item = &CgroupId> {
        self.groups.iter().filter(|group| group.is_throttled()).map(Group::id)
    }

    /// The directory of a group in the hierarchy with the pids controller.
    pub fn pids_directory(&self, id: &CgroupId) -> Option<PathBuf> {
        pids_hierarchy(self.mounts.mounts(), id.version)?.directory(id.path.as_bytes())
    }

    fn read_groups(&mut self, root: &Root, io: &mut Vec<IoLimit>) -> Reading<Vec<Cgroup>> {
        if self.mounts.refresh(root)? {
            self.use_hierarchies(hierarchies(self.mounts.mounts()));
        }
        if self.hierarchies.is_empty() {
            return Err(Absent::NoSuchFile);
        }
        self.continue_walk(root);
        let mut plan = ReadPlan::new(&self.groups, self.next_part);
        let mut cgroups = Vec::with_capacity(self.groups.len().min(MAX_GROUPS_PER_SAMPLE));
        let (buffer, host_oom_kills) = (&mut self.buffer, self.host_oom_kills);
        let mut at = 0;
        self.groups.retain_mut(|group| {
            let wanted = plan.includes(at, group);
            at += 1;
            if !wanted {
                return true;
            }
            let cgroup = group.sample(root, host_oom_kills, buffer, io);
            let alive = cgroup.is_some();
            cgroups.extend(cgroup);
            alive
        });
        self.next_part = plan.next_part;
        for group in self.groups.iter_mut().skip(MAX_OPEN_GROUPS) {
            group.close_files();
        }
        Ok(cgroups)
    }

    /// Forgets all groups if these are other hierarchies. Containers mount often; most mounts change no hierarchy.
    fn use_hierarchies(&mut self, hierarchies: Vec<Hierarchy>) {
        if hierarchies != self.hierarchies {
            self.hierarchies = hierarchies;
            self.groups.clear();
            (self.walk, self.last_walk) = (None, None);
        }
    }

    /// Whether a walk is running: until the first is complete, groups may be missing.
    pub fn is_walking(&self) -> bool {
        self.walk.is_some()
    }

    fn continue_walk(&mut self, root: &Root) {
        let rested = self
            .last_walk
            .is_none_or(|(ended, cost)| ended.elapsed() >= MIN_WALK_INTERVAL.max(cost.saturating_mul(WALK_INTERVAL_PER_COST)));
        if self.walk.is_none() && !rested {
            return;
        }
        let mut walk = self.walk.take().unwrap_or_else(|| Walk::new(&self.hierarchies));
        let complete = walk.run_for(root, WALK_TIME_PER_SAMPLE);
        // The groups found by the first walk are used at once, those of later walks when the walk is complete.
        let shown = complete || self.last_walk.is_none();
        let mut found = if shown { walk.groups() } else { Vec::new() };
        if complete {
            self.last_walk = Some((Instant::now(), walk.cpu_time()));
        } else {
            self.walk = Some(walk);
        }
        if !shown {
            return;
        }
        for group in &mut found {
            let place = self.groups.binary_search_by(|known| known.id().cmp(group.id()));
            if let Some(known) = place.ok().and_then(|place| self.groups.get_mut(place)) {
                group.inherit_from(known);
            }
        }
        self.groups = found;
    }
}

/// The groups to be read in this sample.
#[derive(Debug)]
struct ReadPlan {
    reads_all: bool,
    range: std::ops::Range<usize>,
    constrained_left: usize,
    next_part: usize,
}

impl ReadPlan {
    fn new(groups: &[Group], turn: usize) -> ReadPlan {
        const STEP: usize = MAX_GROUPS_PER_SAMPLE / 4;
        let all = groups.len() <= MAX_GROUPS_PER_SAMPLE;
        // Each part overlaps half of the part before: every group is read in two consecutive samples, which give an interval.
        let end = turn.saturating_add(1).saturating_mul(STEP);
        let part = end.saturating_sub(2 * STEP)..end;
        let next_turn = if all || end.saturating_sub(STEP) >= groups.len() { 0 } else { turn + 1 };
        ReadPlan { reads_all: all, range: part, constrained_left: MAX_GROUPS_PER_SAMPLE - 2 * STEP, next_part: next_turn }
    }

    fn includes(&mut self, at: usize, group: &Group) -> bool {
        if self.reads_all || self.range.contains(&at) {
            return true;
        }
        let hot = group.is_constrained() && self.constrained_left > 0;
        self.constrained_left -= usize::from(hot);
        hot
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::mounts::parse_mountinfo;
    use crate::proc_tree::ProcTree;

    /// As many as are read in one sample, and more than a walk finds in one.
    #[test]
    fn a_mount_of_another_file_system_does_not_restart_the_walk() {
        let cgroups = "26 21 0:24 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let tree = ProcTree::with([("proc/self/mountinfo", cgroups)]);
        let root = tree.root();
        for number in 0..MAX_GROUPS_PER_SAMPLE {
            let group = format!("sys/fs/cgroup/g{number}");
            tree.write(format!("{group}/cpu.max"), "20000 100000\n");
            tree.write(format!("{group}/cpu.stat"), "usage_usec 1\nnr_periods 7\nnr_throttled 7\nthrottled_usec 7\n");
        }
        let found = |reader: &mut CgroupReader| reader.sample(&root).0.map_or(0, |groups| groups.len());
        let mut reader = CgroupReader::default();
        while found(&mut reader) < MAX_GROUPS_PER_SAMPLE || reader.is_walking() {}
        // A regular file, unlike mountinfo, does not report changes by poll.
        let mounts = format!("{cgroups}27 21 0:25 / /run/containerd/x rw - tmpfs tmpfs rw\n");
        reader.use_hierarchies(hierarchies(&parse_mountinfo(mounts.as_bytes())));
        assert_eq!(found(&mut reader), MAX_GROUPS_PER_SAMPLE);
        reader.use_hierarchies(Vec::new());
        assert_eq!(reader.sample(&root).0, Err(Absent::NoSuchFile), "no hierarchy, no group");
    }

    /// More groups without a limit than groups with one are kept.
    #[test]
    fn each_hierarchy_is_examined_however_many_groups_another_one_has() {
        let mounts = "26 21 0:24 / /cpu rw - cgroup cgroup rw,cpu\n27 21 0:25 / /memory rw - cgroup cgroup rw,memory\n";
        let tree = ProcTree::with([
            ("proc/self/mountinfo", mounts),
            ("cpu/limited/cpu.cfs_quota_us", "20000\n"),
            ("cpu/limited/cpu.cfs_period_us", "100000\n"),
            ("cpu/limited/cpu.stat", "nr_periods 7\nnr_throttled 7\nthrottled_time 7\n"),
            ("memory/limited/memory.limit_in_bytes", "4096\n"),
            ("memory/limited/memory.usage_in_bytes", "1\n"),
        ]);
        let (root, mut reader) = (tree.root(), CgroupReader::default());
        (0..10_000).for_each(|number| std::fs::create_dir_all(tree.path(format!("memory/g{number}"))).unwrap());
        let mut groups = reader.sample(&root).0.unwrap();
        while reader.is_walking() {
            groups = reader.sample(&root).0.unwrap();
        }
        let limited = groups.iter().map(|group| (group.id.path.as_bytes(), group.quota_us, group.memory_limit_bytes));
        assert_eq!(limited.collect::<Vec<_>>(), [(&b"/limited"[..], Some(20_000), Some(4096))]);
    }
}
