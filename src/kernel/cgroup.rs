//! Control groups with a CPU quota or a memory limit, through whichever of v1 and v2 is mounted (both may be).
//!
//! Which groups have a limit is found by a walk that goes on in the background of many samples; only those are read each time.

mod files;
mod walk;

use std::time::{Duration, Instant};

pub use files::{parse_cpu_max, parse_cpu_stat, parse_limit, parse_memory_stat};

use self::files::Group;
use self::walk::{Hierarchy, Walk, hierarchies};
use super::mounts::MountTable;
use super::root::Root;
use crate::sample::cgroup::Cgroup;
use crate::sample::{Absent, Reading};

/// The walk may take this long of one sample.
const WALK_FOR: Duration = Duration::from_millis(4);
/// A new walk begins so long after the last has ended, or after this many times its cost.
const WALK_AGAIN_AFTER: Duration = Duration::from_secs(5);
const WALK_AGAIN_TIMES: u32 = 400;
/// Groups whose counters stay open; descriptors are few where the limit is 1024.
const MOST_OPEN: usize = 48;

/// Reads limited groups again and again.
#[derive(Debug, Default)]
pub struct CgroupReader {
    mounts: MountTable,
    hierarchies: Vec<Hierarchy>,
    groups: Vec<Group>,
    walk: Option<Walk>,
    walked: Option<(Instant, Duration)>,
    buffer: Vec<u8>,
}

impl CgroupReader {
    /// Every group that is known to have a limit, sorted by id.
    pub fn sample(&mut self, root: &Root) -> Reading<Vec<Cgroup>> {
        if self.mounts.refresh(root)? {
            self.hierarchies = hierarchies(self.mounts.mounts());
            self.groups.clear();
            (self.walk, self.walked) = (None, None);
        }
        if self.hierarchies.is_empty() {
            return Err(Absent::NoSuchFile);
        }
        self.walk_on(root);
        let mut cgroups = Vec::with_capacity(self.groups.len());
        self.groups.retain_mut(|group| match group.sample(root, &mut self.buffer) {
            Some(cgroup) => {
                cgroups.push(cgroup);
                true
            }
            None => false,
        });
        for group in self.groups.iter_mut().skip(MOST_OPEN) {
            group.release();
        }
        Ok(cgroups)
    }

    /// Whether the walk for limited groups goes on in the next sample: until the first has ended, groups may be missing.
    pub fn is_walking(&self) -> bool {
        self.walk.is_some()
    }

    fn walk_on(&mut self, root: &Root) {
        let rested = self
            .walked
            .is_none_or(|(ended, cost)| ended.elapsed() >= WALK_AGAIN_AFTER.max(cost.saturating_mul(WALK_AGAIN_TIMES)));
        if self.walk.is_none() && !rested {
            return;
        }
        let mut walk = self.walk.take().unwrap_or_else(|| Walk::over(&self.hierarchies));
        let complete = walk.go_on(root, WALK_FOR, &mut self.buffer);
        // The first walk shows what it has found so far; later ones replace the last when they are complete.
        let shown = complete || self.walked.is_none();
        let mut found = if shown { walk.groups() } else { Vec::new() };
        if complete {
            self.walked = Some((Instant::now(), walk.cost()));
        } else {
            self.walk = Some(walk);
        }
        if !shown {
            return;
        }
        for group in &mut found {
            let place = self.groups.binary_search_by(|known| known.id().cmp(group.id()));
            if let Some(known) = place.ok().and_then(|place| self.groups.get_mut(place)) {
                group.take_over(known);
            }
        }
        self.groups = found;
    }
}
