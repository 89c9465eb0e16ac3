//! The names of containers, from the state files of Docker, containerd, CRI-O and Podman.
//!
//! Every few seconds the cgroups of processes and those with a limit are searched for containers; the files of new ones are read
//! by a thread of its own. The state directories may be on a file system that does not answer: that thread then stays blocked,
//! and no other is started.

mod file_thread;
mod state_files;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use self::file_thread::FileThread;
use self::state_files::ContainerKey;
use super::root::Root;
use crate::sample::cgroup::ContainerName;
use crate::sample::cgroup::owner::{CgroupOwner, OwnerKind};
use crate::sample::{Name, Sample};
use crate::units::SmallSort;

/// Time between two searches for containers.
const SEARCH_INTERVAL: Duration = Duration::from_secs(5);
/// A name is read again after this time: a container may be renamed, and state may appear after the cgroup.
const NAME_TTL: Duration = Duration::from_secs(60);
/// Containers whose names are kept.
const MAX_CONTAINERS: usize = 2_000;

/// Keeps the names of the containers that exist.
#[derive(Debug, Default)]
pub struct ContainerReader {
    known: BTreeMap<Name, KnownContainer>,
    last_search: Option<Instant>,
    file_thread: Option<FileThread>,
    names: Vec<ContainerName>,
}

#[derive(Debug)]
struct KnownContainer {
    key: ContainerKey,
    /// When its name was last requested; `None`: not yet, since the thread was busy
    requested: Option<Instant>,
    name: Option<ContainerName>,
}

impl ContainerReader {
    /// The known names of the containers in this sample, sorted by id.
    pub fn sample(&mut self, root: &Root, sample: &Sample, now: Instant) -> Vec<ContainerName> {
        let mut changed = self.receive();
        if self.last_search.is_none_or(|last| now.saturating_duration_since(last) >= SEARCH_INTERVAL) {
            self.last_search = Some(now);
            changed |= self.search(sample);
            self.request(root, now);
        }
        if changed {
            self.names = self.known.values().filter_map(|known| known.name.clone()).collect();
        }
        self.names.clone()
    }

    /// Takes what the thread has read.
    fn receive(&mut self) -> bool {
        let mut changed = false;
        while let Some((id, name)) = self.file_thread.as_ref().and_then(FileThread::receive) {
            if let Some(known) = self.known.get_mut(&id) {
                // State that cannot be read at the moment does not take the name away.
                let name = name.or_else(|| known.name.clone());
                changed |= known.name != name;
                known.name = name;
            }
        }
        changed
    }

    /// Finds the containers that exist now. Returns whether one with a name is gone.
    fn search(&mut self, sample: &Sample) -> bool {
        let processes = sample.tasks.as_ref().map_or(&[][..], |tasks| tasks.processes.as_slice());
        let of_processes = processes.iter().filter_map(|process| process.facts.cgroup.as_ref().ok()).map(|id| &id.path);
        let of_limits = sample.cgroups.as_deref().unwrap_or_default().iter().map(|group| &group.id.path);
        // Processes of one group share the allocation of its path.
        let paths: BTreeMap<*const u8, &Name> =
            of_processes.chain(of_limits).map(|path| (path.as_bytes().as_ptr(), path)).collect();
        let mut present = BTreeSet::new();
        for path in paths.into_values() {
            let Some(CgroupOwner { kind: OwnerKind::Container { runtime, id, pod }, .. }) =
                CgroupOwner::from_path(path.as_bytes())
            else {
                continue;
            };
            if present.len() >= MAX_CONTAINERS {
                break;
            }
            let id = Name::from(id);
            if !self.known.contains_key(&id) {
                let pod_uid = pod.map(|pod| Name::from(pod.uid.as_str()));
                let key = ContainerKey { id: id.clone(), runtime, pod_uid };
                self.known.insert(id.clone(), KnownContainer { key, requested: None, name: None });
            }
            present.insert(id);
        }
        let before = self.known.len();
        self.known.retain(|id, _| present.contains(id));
        self.known.len() < before
    }

    /// Requests the names that are not known, or old, from the thread; while it is busy the others wait for the next search.
    fn request(&mut self, root: &Root, now: Instant) {
        let is_old = |requested| now.saturating_duration_since(requested) >= NAME_TTL;
        let due = |known: &&mut KnownContainer| known.requested.is_none_or(is_old);
        let mut due: Vec<_> = self.known.values_mut().filter(due).collect();
        // Those that were never requested first, then the oldest: there may be more than the thread reads in `NAME_TTL`.
        due.small_sort_by_key(|known| known.requested);
        for known in due {
            let thread = self.file_thread.get_or_insert_with(|| FileThread::start(root.clone()));
            if !thread.request(known.key.clone()) {
                return;
            }
            known.requested = Some(now);
        }
    }
}

#[cfg(test)]
mod tests;
