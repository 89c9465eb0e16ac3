//! Which process has a socket open: found by walking /proc/PID/fd, which is dear, and therefore rare and bounded.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::ids::ProcessId;
use crate::kernel::fields::{number, small_number, sole_text, words};
use crate::kernel::root::Root;
use crate::sample::Name;

/// Walks begin at least this far apart.
const BETWEEN_WALKS: Duration = Duration::from_secs(10);
/// What was found, or not found, is believed this long.
const BELIEVED_FOR: Duration = Duration::from_secs(120);
/// A walk ends after this many descriptors, about 50 ms.
const MOST_LINKS: usize = 50_000;

/// The owners found so far.
#[derive(Debug, Default)]
pub struct Owners {
    known: FxHashMap<u32, Found>,
    walked: Option<Instant>,
}

#[derive(Debug)]
struct Found {
    at: Instant,
    owner: Option<(ProcessId, Name)>,
}

impl Owners {
    /// Looks for the owners that are not known yet.
    pub fn search(&mut self, root: &Root, inodes: impl Iterator<Item = u32>) {
        self.known.retain(|_, found| found.at.elapsed() < BELIEVED_FOR);
        let mut wanted: FxHashSet<u32> = inodes.filter(|inode| !self.known.contains_key(inode)).collect();
        let rested = self.walked.is_none_or(|walked| walked.elapsed() >= BETWEEN_WALKS);
        if wanted.is_empty() || !rested {
            return;
        }
        let at = Instant::now();
        for (inode, owner) in walk(root, &mut wanted) {
            self.known.insert(inode, Found { at, owner: Some(owner) });
        }
        self.known.extend(wanted.into_iter().map(|inode| (inode, Found { at, owner: None })));
        self.walked = Some(Instant::now());
    }

    /// Whose socket it is, if that was found.
    pub fn of(&self, inode: u32) -> Option<(ProcessId, Name)> {
        self.known.get(&inode)?.owner.clone()
    }
}

/// The first process that has each socket open; found ones leave `wanted`.
fn walk(root: &Root, wanted: &mut FxHashSet<u32>) -> Vec<(u32, (ProcessId, Name))> {
    let mut found = Vec::new();
    let mut links = 0;
    for entry in root.list("proc").unwrap_or_default() {
        let Some(pid) = small_number(entry.as_bytes()) else { continue };
        let directory = Path::new("proc").join(&entry);
        // Another user's process cannot be looked into without privilege.
        let Ok(descriptors) = root.list(directory.join("fd")) else { continue };
        links += descriptors.len();
        for descriptor in descriptors {
            let Ok(target) = root.read_link(directory.join("fd").join(descriptor)) else { continue };
            let Some(inode) = socket_inode(target.as_os_str().as_bytes()).filter(|inode| wanted.contains(inode)) else {
                continue;
            };
            if let Some(owner) = identity(root, pid, &directory) {
                wanted.remove(&inode);
                found.push((inode, owner));
            }
        }
        if wanted.is_empty() || links > MOST_LINKS {
            break;
        }
    }
    found
}

/// `socket:[12345]`
fn socket_inode(target: &[u8]) -> Option<u32> {
    small_number(target.strip_prefix(b"socket:[")?.strip_suffix(b"]")?)
}

fn identity(root: &Root, pid: u32, directory: &Path) -> Option<(ProcessId, Name)> {
    let stat = root.read_once(directory.join("stat")).ok()?;
    let start_ticks = start_ticks(&stat)?;
    let name = sole_text(&root.read_once(directory.join("comm")).ok()?)?;
    Some((ProcessId { pid, start_ticks }, name))
}

/// Field 22 of /proc/PID/stat; the name, field 2, may have blanks and parentheses in it.
fn start_ticks(stat: &[u8]) -> Option<u64> {
    let end_of_name = stat.iter().rposition(|byte| *byte == b')')?;
    words(stat.get(end_of_name + 1..)?).nth(19).and_then(number)
}
