//! Finds the groups that have a limit: a walk over the hierarchies, a few milliseconds at a time.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::time::ClockId;

use super::files::{Group, Limits, parse_cpu_max, parse_limit};
use crate::ids::{CgroupId, CgroupVersion};
use crate::kernel::clock;
use crate::kernel::fields::sole_number;
use crate::kernel::mounts::Mount;
use crate::kernel::root::Root;
use crate::sample::Name;

/// No box of sane size has more groups; one that has keeps those that were found first.
const MOST_GROUPS: usize = 10_000;
/// Nor deeper ones.
const DEEPEST: usize = 32;

/// A mounted hierarchy with the controllers of interest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    pub version: CgroupVersion,
    pub mount_point: PathBuf,
    /// What of the hierarchy is mounted, `/` unless in a container.
    pub root: Vec<u8>,
    pub cpu: bool,
    pub memory: bool,
    /// v1 only: where cpuacct is mounted.
    pub cpuacct: Option<PathBuf>,
}

/// Those in the mount table; of one that is mounted twice the first.
pub fn hierarchies(mounts: &[Mount]) -> Vec<Hierarchy> {
    let mut found: Vec<Hierarchy> = Vec::new();
    let cpuacct = mounts.iter().find(|mount| mount.kind == b"cgroup" && mount.option(b"cpuacct").is_some());
    for mount in mounts {
        let has = |controller: &[u8]| mount.option(controller).is_some();
        let (version, cpu, memory) = match mount.kind.as_slice() {
            b"cgroup2" => (CgroupVersion::V2, true, true),
            b"cgroup" if has(b"cpu") || has(b"memory") => (CgroupVersion::V1, has(b"cpu"), has(b"memory")),
            _ => continue,
        };
        if found.iter().any(|other| other.version == version && (other.cpu, other.memory) == (cpu, memory)) {
            continue;
        }
        found.push(Hierarchy {
            version,
            mount_point: mount.mount_point.clone(),
            root: mount.root.clone(),
            cpu,
            memory,
            cpuacct: cpuacct.filter(|_| version == CgroupVersion::V1 && cpu).map(|mount| mount.mount_point.clone()),
        });
    }
    found
}

impl Hierarchy {
    /// The path of a group as /proc/PID/cgroup has it.
    fn path(&self, relative: &Path) -> Name {
        // Seen from inside a cgroup namespace what lies outside begins with `/..`: no name that anybody knows.
        let base = if self.root.starts_with(b"/..") { b"/" } else { self.root.as_slice() };
        let mut path = base.strip_suffix(b"/").unwrap_or(base).to_vec();
        if !relative.as_os_str().is_empty() {
            path.push(b'/');
            path.extend(relative.as_os_str().as_bytes());
        }
        if path.is_empty() {
            path.push(b'/');
        }
        Name::from(path.as_slice())
    }
}

/// A walk that is under way.
#[derive(Debug)]
pub struct Walk {
    pending: Vec<Step>,
    found: BTreeMap<CgroupId, Limits>,
    visited: usize,
    cost: Duration,
}

#[derive(Debug)]
struct Step {
    hierarchy: Hierarchy,
    relative: PathBuf,
    depth: usize,
}

impl Walk {
    pub fn over(hierarchies: &[Hierarchy]) -> Walk {
        let first = |hierarchy: &Hierarchy| Step { hierarchy: hierarchy.clone(), relative: PathBuf::new(), depth: 0 };
        Walk { pending: hierarchies.iter().map(first).collect(), found: BTreeMap::new(), visited: 0, cost: Duration::ZERO }
    }

    /// Goes on until it is complete (then true) or the time is over.
    pub fn go_on(&mut self, root: &Root, time: Duration, buffer: &mut Vec<u8>) -> bool {
        let begin = Instant::now();
        let begin_cpu = clock(ClockId::CLOCK_THREAD_CPUTIME_ID);
        while let Some(step) = self.pending.pop() {
            self.visited += 1;
            if self.visited > MOST_GROUPS {
                self.pending.clear();
                break;
            }
            self.visit(root, step, buffer);
            if begin.elapsed() >= time {
                break;
            }
        }
        self.cost += Duration::from_nanos(clock(ClockId::CLOCK_THREAD_CPUTIME_ID).saturating_sub(begin_cpu));
        self.pending.is_empty()
    }

    /// What CPU time the walk has taken so far.
    pub fn cost(&self) -> Duration {
        self.cost
    }

    /// The groups found so far that have a limit, sorted by id.
    pub fn groups(&self) -> Vec<Group> {
        self.found.iter().map(|(id, limits)| Group::new(id.clone(), limits.clone())).collect()
    }

    fn visit(&mut self, root: &Root, step: Step, buffer: &mut Vec<u8>) {
        let directory = step.hierarchy.mount_point.join(&step.relative);
        let (limits, has_controllers) = limits(root, &step.hierarchy, &directory, &step.relative, buffer);
        if limits.any() {
            let id = CgroupId { version: step.hierarchy.version, path: step.hierarchy.path(&step.relative) };
            self.found.entry(id).or_default().merge(limits);
        }
        // In v2 what a group does not have its children cannot have; only the root has no limits of its own.
        let may_have_more = has_controllers || step.depth == 0 || step.hierarchy.version == CgroupVersion::V1;
        if may_have_more && step.depth < DEEPEST {
            self.pending.extend(children(root, &directory).into_iter().map(|name| Step {
                hierarchy: step.hierarchy.clone(),
                relative: step.relative.join(name),
                depth: step.depth + 1,
            }));
        }
    }
}

/// Subdirectories. A directory of cgroupfs has two links and one for each of them: most have none and need no listing.
fn children(root: &Root, directory: &Path) -> Vec<OsString> {
    let path = root.path(directory);
    if std::fs::symlink_metadata(&path).is_ok_and(|directory| directory.nlink() == 2) {
        return Vec::new();
    }
    let Ok(entries) = std::fs::read_dir(path) else { return Vec::new() };
    let is_directory = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    entries.filter_map(Result::ok).filter(is_directory).map(|entry| entry.file_name()).collect()
}

/// What limits the group has, and whether it has the files at all.
fn limits(root: &Root, hierarchy: &Hierarchy, directory: &Path, relative: &Path, buffer: &mut Vec<u8>) -> (Limits, bool) {
    let mut limits = Limits::default();
    let mut has_controllers = false;
    let mut read = |name: &str| {
        root.read(directory.join(name), buffer).ok()?;
        has_controllers = true;
        Some(buffer.clone())
    };
    match hierarchy.version {
        CgroupVersion::V2 => {
            (limits.quota_us, limits.period_us) = read("cpu.max").and_then(|bytes| parse_cpu_max(&bytes)).unzip();
            let of = |bytes: Option<Vec<u8>>| bytes.and_then(|bytes| parse_limit(&bytes));
            // Over memory.high a group is throttled and reclaimed from, long before it reaches memory.max.
            limits.memory_bytes = of(read("memory.max")).into_iter().chain(of(read("memory.high"))).min();
        }
        CgroupVersion::V1 => {
            if hierarchy.cpu {
                // −1 is no limit, and no number here.
                limits.quota_us = read("cpu.cfs_quota_us").as_deref().and_then(sole_number).filter(|quota| *quota > 0);
                if limits.quota_us.is_some() {
                    limits.period_us = read("cpu.cfs_period_us").as_deref().and_then(sole_number);
                }
            }
            if hierarchy.memory {
                limits.memory_bytes = read("memory.limit_in_bytes").and_then(|bytes| parse_limit(&bytes));
            }
        }
    }
    if limits.quota_us.is_some() {
        limits.cpu_directory = Some(directory.to_owned());
        limits.cpuacct_directory = hierarchy.cpuacct.as_ref().map(|mount| mount.join(relative));
    }
    if limits.memory_bytes.is_some() {
        limits.memory_directory = Some(directory.to_owned());
    }
    (limits, has_controllers)
}
