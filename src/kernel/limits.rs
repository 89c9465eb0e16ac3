//! Reads limits that are nearly used up: tasks of cgroups, file descriptors, connection tracking, local ports, tasks, file systems.
//!
//! Everything is read every 5 s; each second only what was near its limit. Nothing is read of a process that did not run.

mod cgroup_tasks;
mod file_systems;
mod host;
mod local_ports;
mod open_files;
mod reading;

use self::cgroup_tasks::CgroupTaskReader;
use self::file_systems::FileSystemReader;
use self::host::HostLimitReader;
use self::local_ports::LocalPortReader;
use self::open_files::OpenFileReader;
use self::reading::{ReadScope, used_share};
use super::root::Root;
use super::task::files::TaskFiles;
use crate::sample::Absent;
use crate::sample::limits::{Limits, MAX_LIMITS};
use crate::units::SmallSort;

pub use self::reading::KnownReadings;

/// Time between two readings of everything.
const FULL_INTERVAL_NS: u64 = 5_000_000_000;

/// Keeps what it read.
#[derive(Debug, Default)]
pub struct LimitReader {
    next_full_ns: u64,
    open_files: OpenFileReader,
    cgroup_tasks: CgroupTaskReader,
    host: HostLimitReader,
    local_ports: LocalPortReader,
    file_systems: FileSystemReader,
}

impl LimitReader {
    /// The limits of which at least four fifths are used, as last read.
    pub fn sample(&mut self, root: &Root, files: &TaskFiles, known: KnownReadings<'_>) -> Limits {
        let scope = if known.now_ns >= self.next_full_ns { ReadScope::All } else { ReadScope::Near };
        // Cgroups of processes are read in the first scans.
        let is_complete = known.tasks.processes.iter().all(|process| process.facts.cgroup != Err(Absent::NotRead));
        if scope == ReadScope::All && is_complete {
            self.next_full_ns = known.now_ns.saturating_add(FULL_INTERVAL_NS);
        }
        let mut rows = Vec::new();
        self.host.sample(root, scope, known, &mut rows);
        self.cgroup_tasks.sample(root, scope, known, &mut rows);
        if root.is_host() {
            self.open_files.sample(root, files, scope, known, &mut rows);
            self.local_ports.sample(root, scope, known.now_ns, &mut rows);
            self.file_systems.sample(root, scope, known.now_ns, &mut rows);
        }
        rows.small_sort_by(|a, b| used_share(b).total_cmp(&used_share(a)));
        rows.truncate(MAX_LIMITS);
        Limits {
            has_descriptor_counts: self.open_files.are_counts_supported(),
            has_unanswered_statfs: self.file_systems.is_unanswered(known.now_ns),
            rows,
        }
    }
}
