//! Finds the groups that have a limit by a walk over the hierarchies, some milliseconds at a time.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::files::{CgroupLimits, Group, effective_cpus_file};
use super::parse::{parse_cpu_max, parse_device_limits, parse_io_max, parse_limit};
use crate::ids::{CgroupId, CgroupVersion, DiskId};
use crate::kernel::clock::CpuTimer;
use crate::kernel::fields::{parse_single_line, parse_single_u64};
use crate::kernel::mounts::Mount;
use crate::kernel::root::Root;
use crate::sample::Name;
use crate::sample::cgroup::IoMax;

/// Groups that are kept: the first found.
const MAX_GROUPS: usize = 10_000;
/// Groups of one hierarchy that are examined, most of which have no limit.
const MAX_VISITS: usize = 100_000;
/// Depth of the walk.
const MAX_DEPTH: usize = 32;

/// A mounted hierarchy and its controllers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    pub version: CgroupVersion,
    pub mount_point: PathBuf,
    /// The group that is mounted, `/` except in a container.
    pub mounted_root: Vec<u8>,
    pub controllers: Controllers,
    /// v1 only: mount point of cpuacct.
    pub cpuacct: Option<PathBuf>,
}

/// The controllers with limits that a hierarchy has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Controllers {
    pub cpu: bool,
    pub memory: bool,
    pub cpuset: bool,
    pub io: bool,
}

/// The hierarchies of the mount table; of one that is mounted twice the first mount.
pub fn hierarchies(mounts: &[Mount]) -> Vec<Hierarchy> {
    let mut found: Vec<Hierarchy> = Vec::new();
    let cpuacct = mounts.iter().find(|mount| mount.fs_type == b"cgroup" && mount.option(b"cpuacct").is_some());
    for mount in mounts {
        let has = |controller: &[u8]| mount.option(controller).is_some();
        let all = Controllers { cpu: true, memory: true, cpuset: true, io: true };
        let named = Controllers { cpu: has(b"cpu"), memory: has(b"memory"), cpuset: has(b"cpuset"), io: has(b"blkio") };
        let (version, controllers) = match mount.fs_type.as_slice() {
            b"cgroup2" => (CgroupVersion::V2, all),
            b"cgroup" if named != Controllers::default() => (CgroupVersion::V1, named),
            _ => continue,
        };
        if found.iter().any(|other| other.version == version && other.controllers == controllers) {
            continue;
        }
        found.push(Hierarchy {
            version,
            mount_point: mount.mount_point.clone(),
            mounted_root: mount.subdirectory.clone(),
            controllers,
            cpuacct: cpuacct.filter(|_| version == CgroupVersion::V1 && controllers.cpu).map(|mount| mount.mount_point.clone()),
        });
    }
    found
}

/// The hierarchy with the pids controller: that of v2, or the one of v1 that has it. It is not walked.
pub fn pids_hierarchy(mounts: &[Mount], version: CgroupVersion) -> Option<Hierarchy> {
    let has_pids = |mount: &&Mount| match version {
        CgroupVersion::V1 => mount.fs_type == b"cgroup" && mount.option(b"pids").is_some(),
        CgroupVersion::V2 => mount.fs_type == b"cgroup2",
    };
    mounts.iter().find(has_pids).map(|mount| Hierarchy {
        version,
        mount_point: mount.mount_point.clone(),
        mounted_root: mount.subdirectory.clone(),
        controllers: Controllers::default(),
        cpuacct: None,
    })
}

impl Hierarchy {
    /// What the paths of its groups in /proc/PID/cgroup begin with.
    fn path_base(&self) -> &[u8] {
        // In a cgroup namespace groups outside of it begin with `/..`.
        let base = if self.mounted_root.starts_with(b"/..") { b"/" } else { self.mounted_root.as_slice() };
        base.strip_suffix(b"/").unwrap_or(base)
    }

    /// The directory of a group with this path in /proc/PID/cgroup; `None` if it is not below the mount.
    pub fn directory(&self, path: &[u8]) -> Option<PathBuf> {
        let relative = path.strip_prefix(self.path_base())?;
        Some(self.mount_point.join(OsStr::from_bytes(relative.strip_prefix(b"/").unwrap_or(relative))))
    }

    /// The path of a group as in /proc/PID/cgroup.
    fn cgroup_path(&self, relative: &Path) -> Name {
        let mut path = self.path_base().to_vec();
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

/// A running walk: one hierarchy after the other.
#[derive(Debug)]
pub struct Walk {
    /// The roots of the next hierarchies
    roots: Vec<PendingGroup>,
    /// Of the present hierarchy
    pending: Vec<PendingGroup>,
    /// Of the present hierarchy
    visited: usize,
    found: BTreeMap<CgroupId, CgroupLimits>,
    cpu_time: Duration,
}

#[derive(Debug)]
struct PendingGroup {
    hierarchy: Hierarchy,
    relative: PathBuf,
    depth: usize,
    /// The CPUs of the parent group
    cpus: Option<Name>,
}

impl Walk {
    /// A walk that starts at the roots of these hierarchies.
    pub fn new(hierarchies: &[Hierarchy]) -> Walk {
        let first = |hierarchy: &Hierarchy| PendingGroup {
            hierarchy: hierarchy.clone(),
            relative: PathBuf::new(),
            depth: 0,
            cpus: None,
        };
        Walk {
            roots: hierarchies.iter().map(first).collect(),
            pending: Vec::new(),
            visited: 0,
            found: BTreeMap::new(),
            cpu_time: Duration::ZERO,
        }
    }

    /// Continues until the walk is complete (returns true) or the time is over.
    pub fn run_for(&mut self, root: &Root, time: Duration) -> bool {
        let mut buffer = Vec::new();
        let begin = Instant::now();
        let timer = CpuTimer::start();
        while let Some(step) = self.next_step() {
            self.visit(root, step, &mut buffer);
            if begin.elapsed() >= time {
                break;
            }
        }
        self.cpu_time += timer.elapsed();
        self.pending.is_empty() && self.roots.is_empty()
    }

    /// The next group of this hierarchy, up to `MAX_VISITS`, or the root of the next one.
    fn next_step(&mut self) -> Option<PendingGroup> {
        if self.visited >= MAX_VISITS {
            self.pending.clear();
        }
        if self.pending.is_empty() {
            self.pending.push(self.roots.pop()?);
            self.visited = 0;
        }
        self.visited += 1;
        self.pending.pop()
    }

    /// CPU time of the walk so far.
    pub fn cpu_time(&self) -> Duration {
        self.cpu_time
    }

    /// The groups found so far that have a limit, sorted by id.
    pub fn groups(&self) -> Vec<Group> {
        self.found.iter().map(|(id, limits)| Group::new(id.clone(), limits.clone())).collect()
    }

    fn visit(&mut self, root: &Root, step: PendingGroup, buffer: &mut Vec<u8>) {
        let directory = step.hierarchy.mount_point.join(&step.relative);
        let mut visit = GroupVisit { root, step: &step, directory: &directory, buffer, has_controllers: false, cpus: None };
        let limits = visit.read_limits();
        let (has_controllers, cpus) = (visit.has_controllers, visit.cpus);
        if limits.is_limited() {
            let id = CgroupId { version: step.hierarchy.version, path: step.hierarchy.cgroup_path(&step.relative) };
            if self.found.len() < MAX_GROUPS || self.found.contains_key(&id) {
                self.found.entry(id).or_default().merge(limits);
            }
        }
        // In v2 children have only the controllers of their parent; the root has no limits of its own.
        let may_have_more = has_controllers || step.depth == 0 || step.hierarchy.version == CgroupVersion::V1;
        if may_have_more && step.depth < MAX_DEPTH {
            let cpus = cpus.or_else(|| step.cpus.clone());
            self.pending.extend(subdirectories(root, &directory).into_iter().map(|name| PendingGroup {
                hierarchy: step.hierarchy.clone(),
                relative: step.relative.join(name),
                depth: step.depth + 1,
                cpus: cpus.clone(),
            }));
        }
    }
}

/// The subdirectories. A directory has two links and one for each subdirectory: most have none and are not listed.
fn subdirectories(root: &Root, directory: &Path) -> Vec<OsString> {
    let path = root.path(directory);
    if std::fs::symlink_metadata(&path).is_ok_and(|directory| directory.nlink() == 2) {
        return Vec::new();
    }
    let Ok(entries) = std::fs::read_dir(path) else { return Vec::new() };
    let is_directory = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    entries.filter_map(Result::ok).filter(is_directory).map(|entry| entry.file_name()).collect()
}

/// One group of the walk.
struct GroupVisit<'a> {
    root: &'a Root,
    step: &'a PendingGroup,
    directory: &'a Path,
    buffer: &'a mut Vec<u8>,
    /// Whether it has any of the limits' files.
    has_controllers: bool,
    /// The CPUs that its tasks may use.
    cpus: Option<Name>,
}

impl GroupVisit<'_> {
    fn read(&mut self, name: &str) -> Option<&[u8]> {
        self.root.read(self.directory.join(name), self.buffer).ok()?;
        self.has_controllers = true;
        Some(self.buffer)
    }

    fn read_limits(&mut self) -> CgroupLimits {
        let mut limits = CgroupLimits::default();
        let Hierarchy { version, controllers, cpuacct, .. } = &self.step.hierarchy;
        if controllers.cpu {
            self.read_cpu_quota(*version, &mut limits);
        }
        if controllers.memory {
            limits.memory_bytes = self.read_memory_limit(*version);
        }
        if controllers.cpuset {
            self.cpus = self.read(effective_cpus_file(*version)).and_then(parse_single_line);
            // A group with the CPUs of its parent is not limited by its own cpuset.
            limits.cpus = self.cpus.clone().filter(|cpus| self.step.cpus.as_ref().is_some_and(|above| above != cpus));
        }
        if controllers.io {
            limits.io = self.read_io_max(*version);
        }
        let here = |limited: bool| limited.then(|| self.directory.to_owned());
        limits.directories.cpu = here(limits.quota_us.is_some());
        limits.directories.memory = here(limits.memory_bytes.is_some());
        limits.directories.cpuset = here(limits.cpus.is_some());
        limits.directories.io = here(!limits.io.is_empty());
        if limits.quota_us.is_some() {
            limits.directories.cpuacct = cpuacct.as_ref().map(|mount| mount.join(&self.step.relative));
        }
        limits
    }

    fn read_cpu_quota(&mut self, version: CgroupVersion, limits: &mut CgroupLimits) {
        if version == CgroupVersion::V2 {
            (limits.quota_us, limits.period_us) = self.read("cpu.max").and_then(parse_cpu_max).unzip();
            return;
        }
        // -1 is no limit; it is not parsed as a number.
        limits.quota_us = self.read("cpu.cfs_quota_us").and_then(parse_single_u64).filter(|quota| *quota > 0);
        if limits.quota_us.is_some() {
            limits.period_us = self.read("cpu.cfs_period_us").and_then(parse_single_u64);
        }
    }

    fn read_memory_limit(&mut self, version: CgroupVersion) -> Option<u64> {
        if version == CgroupVersion::V1 {
            return self.read("memory.limit_in_bytes").and_then(parse_limit);
        }
        let max = self.read("memory.max").and_then(parse_limit);
        // Above memory.high the group is throttled and reclaimed from, below memory.max.
        let high = self.read("memory.high").and_then(parse_limit);
        max.into_iter().chain(high).min()
    }

    fn read_io_max(&mut self, version: CgroupVersion) -> Vec<(DiskId, IoMax)> {
        if version == CgroupVersion::V2 {
            return self.read("io.max").map(parse_io_max).unwrap_or_default();
        }
        let mut found: BTreeMap<DiskId, IoMax> = BTreeMap::new();
        let mut see = |file: &str, field: fn(&mut IoMax) -> &mut Option<u64>| {
            for (disk, most) in self.read(file).map(parse_device_limits).unwrap_or_default() {
                *field(found.entry(disk).or_default()) = Some(most);
            }
        };
        see("blkio.throttle.read_bps_device", |rates| &mut rates.read_bytes);
        see("blkio.throttle.write_bps_device", |rates| &mut rates.write_bytes);
        see("blkio.throttle.read_iops_device", |rates| &mut rates.reads);
        see("blkio.throttle.write_iops_device", |rates| &mut rates.writes);
        found.into_iter().collect()
    }
}
