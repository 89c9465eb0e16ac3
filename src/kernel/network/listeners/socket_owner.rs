//! Finds the process that has a socket open by searching /proc/PID/fd. The search is expensive, hence rare and limited.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::ids::ProcessId;
use crate::kernel::fields::{parse_single_line, parse_u32, parse_u64, words};
use crate::kernel::root::Root;
use crate::sample::Name;
use crate::units::SmallSort;

/// Minimum time between two searches.
const MIN_SEARCH_INTERVAL: Duration = Duration::from_secs(10);
/// A result, also that nothing was found, is used for this time.
const CACHE_TTL: Duration = Duration::from_secs(120);
/// A search ends after this many descriptors, about 50 ms.
const MAX_DESCRIPTORS: usize = 50_000;
/// Sockets kept of a process beside those that were searched for.
const MAX_OTHER_SOCKETS: usize = 256;

/// The cached owners by socket inode.
#[derive(Debug, Default)]
pub struct SocketOwners {
    cache: FxHashMap<u32, CachedOwner>,
    last_search: Option<Instant>,
}

#[derive(Debug)]
struct CachedOwner {
    found_at: Instant,
    owner: Option<(ProcessId, Name)>,
}

impl SocketOwners {
    /// Searches for the owners that are not cached, unless the last search was less than `MIN_SEARCH_INTERVAL` ago.
    pub fn search(&mut self, root: &Root, inodes: impl Iterator<Item = u32>) {
        if self.last_search.is_none_or(|walked| walked.elapsed() >= MIN_SEARCH_INTERVAL) {
            self.search_now(root, inodes);
        }
    }

    /// Searches for the owners that are not cached. The caller limits the cost.
    pub fn search_now(&mut self, root: &Root, inodes: impl Iterator<Item = u32>) {
        self.cache.retain(|_, found| found.found_at.elapsed() < CACHE_TTL);
        let mut wanted: FxHashSet<u32> = inodes.filter(|inode| !self.cache.contains_key(inode)).collect();
        if wanted.is_empty() {
            return;
        }
        let at = Instant::now();
        for (inode, owner) in search_descriptors(root, &mut wanted) {
            self.cache.insert(inode, CachedOwner { found_at: at, owner: Some(owner) });
        }
        self.cache.extend(wanted.into_iter().map(|inode| (inode, CachedOwner { found_at: at, owner: None })));
        self.last_search = Some(Instant::now());
    }

    /// The owner of a socket, if it was found.
    pub fn owner(&self, inode: u32) -> Option<(ProcessId, Name)> {
        self.cache.get(&inode)?.owner.clone()
    }
}

/// The first process that has each socket open, and the other sockets of these processes: the worst connection to a host changes from
/// scan to scan. Sockets that are found are removed from `wanted`.
fn search_descriptors(root: &Root, wanted: &mut FxHashSet<u32>) -> Vec<(u32, (ProcessId, Name))> {
    let mut found = Vec::new();
    let mut links = 0;
    let mut entries = root.list_directory("proc").unwrap_or_default();
    // Init keeps the sockets of services that it starts on demand open: the service itself comes first.
    entries.small_sort_by_key(|entry| entry.as_bytes() == b"1");
    for entry in entries {
        let Some(pid) = parse_u32(entry.as_bytes()) else { continue };
        let directory = Path::new("proc").join(&entry);
        // Another user's descriptors need CAP_SYS_PTRACE.
        let Ok(descriptors) = root.list_directory(directory.join("fd")) else { continue };
        links += descriptors.len();
        let (mut sockets, mut is_owner) = (Vec::new(), false);
        for descriptor in descriptors {
            let Ok(target) = root.read_link(directory.join("fd").join(descriptor)) else { continue };
            let Some(inode) = parse_socket_inode(target.as_os_str().as_bytes()) else { continue };
            let is_wanted = wanted.contains(&inode);
            is_owner |= is_wanted;
            if is_wanted || sockets.len() < MAX_OTHER_SOCKETS {
                sockets.push(inode);
            }
        }
        if is_owner && let Some(owner) = read_identity(root, pid, &directory) {
            for inode in sockets {
                wanted.remove(&inode);
                found.push((inode, owner.clone()));
            }
        }
        if wanted.is_empty() || links > MAX_DESCRIPTORS {
            break;
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
