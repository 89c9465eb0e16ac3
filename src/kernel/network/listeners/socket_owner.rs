//! Finds the process that has a socket open by searching /proc/PID/fd. The search is expensive, hence rare and limited.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::ids::ProcessId;
use crate::kernel::clock::CpuTimer;
use crate::kernel::cost_pacer::CostPacer;
use crate::kernel::fields::{parse_single_line, parse_u32, parse_u64, words};
use crate::kernel::root::Root;
use crate::sample::Name;
use crate::units::SmallSort;

/// Minimum time between two searches.
const MIN_SEARCH_INTERVAL: Duration = Duration::from_secs(10);
/// A result, also that nothing was found, is used for this time.
const CACHE_TTL: Duration = Duration::from_secs(120);
/// The next search comes after this many times the CPU time of the last: at most 0.5 % of one CPU.
const INTERVAL_PER_COST: u32 = 200;
/// A search ends after this many descriptors, about 50 ms. Of one process it reads half of them, the lowest ones: a proxy may have a
/// million.
const MAX_DESCRIPTORS: usize = 50_000;
/// Sockets kept of a process beside those that were searched for.
const MAX_OTHER_SOCKETS: usize = 256;
/// Its other sockets are mostly those of services.
const INIT: u32 = 1;

/// The cached owners by socket inode.
#[derive(Debug, Default)]
pub struct SocketOwners {
    cache: FxHashMap<u32, CachedOwner>,
    pacer: CostPacer,
}

#[derive(Debug)]
struct CachedOwner {
    found_at: Instant,
    owner: Option<(ProcessId, Name)>,
}

impl SocketOwners {
    /// Searches for the owners that are not cached, unless the last search was less than `MIN_SEARCH_INTERVAL` or less than
    /// `INTERVAL_PER_COST` times its cost ago.
    pub fn search(&mut self, root: &Root, inodes: impl Iterator<Item = u32>) {
        if self.pacer.is_due(Instant::now()) {
            self.search_now(root, inodes);
        }
    }

    /// Searches for the owners that are not cached. The caller limits how often.
    pub fn search_now(&mut self, root: &Root, inodes: impl Iterator<Item = u32>) {
        self.cache.retain(|_, found| found.found_at.elapsed() < CACHE_TTL);
        let mut wanted: FxHashSet<u32> = inodes.filter(|inode| !self.cache.contains_key(inode)).collect();
        if wanted.is_empty() {
            return;
        }
        let (at, timer) = (Instant::now(), CpuTimer::start());
        for (inode, owner) in search_descriptors(root, &mut wanted, MAX_DESCRIPTORS) {
            let cached = self.cache.entry(inode).or_insert(CachedOwner { found_at: at, owner: None });
            if cached.owner.is_none() {
                *cached = CachedOwner { found_at: at, owner: Some(owner) };
            }
        }
        self.cache.extend(wanted.into_iter().map(|inode| (inode, CachedOwner { found_at: at, owner: None })));
        let end = Instant::now();
        self.pacer.schedule_next(end, timer.elapsed(), INTERVAL_PER_COST);
        self.pacer.postpone_until(end + MIN_SEARCH_INTERVAL);
    }

    /// The owner of a socket, if it was found.
    pub fn owner(&self, inode: u32) -> Option<(ProcessId, Name)> {
        self.cache.get(&inode)?.owner.clone()
    }
}

/// The first process that has each socket open, and the other sockets of these processes: the worst connection to a host changes from
/// scan to scan. Sockets that are found are removed from `wanted`. Reads at most `max_descriptors`.
fn search_descriptors(root: &Root, wanted: &mut FxHashSet<u32>, max_descriptors: usize) -> Vec<(u32, (ProcessId, Name))> {
    let mut found = Vec::new();
    let mut left = max_descriptors;
    let mut entries = root.list_directory("proc").unwrap_or_default();
    // Init keeps the sockets of services that it starts on demand open: the service itself comes first.
    entries.small_sort_by_key(|entry| parse_u32(entry.as_bytes()) == Some(INIT));
    for entry in entries {
        if wanted.is_empty() || left == 0 {
            break;
        }
        let Some(pid) = parse_u32(entry.as_bytes()) else { continue };
        let directory = Path::new("proc").join(&entry);
        // Another user's descriptors need CAP_SYS_PTRACE.
        let max_read = left.min(max_descriptors / 2);
        let Ok(descriptors) = root.list_directory_start(directory.join("fd"), max_read) else { continue };
        left -= descriptors.len();
        let max_others = if pid == INIT { 0 } else { MAX_OTHER_SOCKETS };
        let (mut sockets, mut is_owner) = (Vec::new(), false);
        for descriptor in descriptors {
            let Ok(target) = root.read_link(directory.join("fd").join(descriptor)) else { continue };
            let Some(inode) = parse_socket_inode(target.as_os_str().as_bytes()) else { continue };
            let is_wanted = wanted.contains(&inode);
            is_owner |= is_wanted;
            if is_wanted || sockets.len() < max_others {
                sockets.push(inode);
            }
        }
        if is_owner && let Some(owner) = read_identity(root, pid, &directory) {
            for inode in sockets {
                wanted.remove(&inode);
                found.push((inode, owner.clone()));
            }
        }
    }
    found
}

/// The inode in `socket:[12345]`.
pub fn parse_socket_inode(target: &[u8]) -> Option<u32> {
    parse_u32(target.strip_prefix(b"socket:[")?.strip_suffix(b"]")?)
}

fn read_identity(root: &Root, pid: u32, directory: &Path) -> Option<(ProcessId, Name)> {
    let stat = root.read_once(directory.join("stat")).ok()?;
    let start_ticks = parse_start_ticks(&stat)?;
    let name = parse_single_line(&root.read_once(directory.join("comm")).ok()?)?;
    Some((ProcessId { pid, start_ticks }, name))
}

/// Start time, field 22 of /proc/PID/stat; the name, field 2, may contain spaces and parentheses.
fn parse_start_ticks(stat: &[u8]) -> Option<u64> {
    let end_of_name = stat.iter().rposition(|byte| *byte == b')')?;
    words(stat.get(end_of_name + 1..)?).nth(19).and_then(parse_u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc_tree::{ProcTree, ThreadFiles};

    fn add_process(tree: &ProcTree, pid: u32, name: &str, sockets: impl IntoIterator<Item = u32>) {
        tree.process(pid, name, 77, 0, &[ThreadFiles::sleeping(pid)]);
        tree.write(format!("proc/{pid}/comm"), format!("{name}\n"));
        for (descriptor, inode) in sockets.into_iter().enumerate() {
            tree.link(format!("socket:[{inode}]"), format!("proc/{pid}/fd/{descriptor}"));
        }
    }

    fn owner(owners: &SocketOwners, inode: u32) -> Option<u32> {
        owners.owner(inode).map(|(process, _)| process.pid)
    }

    #[test]
    fn a_socket_of_a_service_belongs_to_the_service_and_not_to_init() {
        let tree = ProcTree::empty();
        add_process(&tree, 1, "systemd", [11, 12, 13]);
        add_process(&tree, 200, "service", [11]);
        let mut together = SocketOwners::default();
        together.search_now(&tree.root(), [11, 12].into_iter());
        assert_eq!([11, 12].map(|inode| owner(&together, inode)), [Some(200), Some(1)]);
        let mut later = SocketOwners::default();
        later.search_now(&tree.root(), [12].into_iter());
        later.search_now(&tree.root(), [11].into_iter());
        assert_eq!([11, 12, 13].map(|inode| owner(&later, inode)), [Some(200), Some(1), None]);
    }

    #[test]
    fn other_sockets_of_an_owner_are_known_also_if_they_were_not_found_before() {
        let tree = ProcTree::empty();
        let mut owners = SocketOwners::default();
        owners.search_now(&tree.root(), [11].into_iter());
        assert_eq!(owner(&owners, 11), None);
        add_process(&tree, 200, "service", [11, 12]);
        owners.search_now(&tree.root(), [12].into_iter());
        assert_eq!([11, 12].map(|inode| owner(&owners, inode)), [Some(200), Some(200)]);
    }

    #[test]
    fn a_process_with_many_descriptors_neither_ends_the_search_nor_exceeds_its_limit() {
        let tree = ProcTree::empty();
        add_process(&tree, 200, "proxy", 1000..1100);
        // It is searched last.
        add_process(&tree, 1, "init", 1..=6);
        let root = tree.root();
        let find = |max_descriptors| {
            let mut wanted = FxHashSet::from_iter([1, 2, 3, 4, 5, 6]);
            search_descriptors(&root, &mut wanted, max_descriptors).len()
        };
        assert_eq!(find(12), 6);
        assert_eq!(find(6), 3);
    }
}
