//! Which processes are in another network namespace than stalltop: /proc/PID/ns/net, read with the facts of a process (when it is
//! new, after execve, and every 10 s while it runs).

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;

use crate::kernel::fields::parse_u64;
use crate::kernel::root::Root;
use crate::kernel::task::files::TaskFiles;
use crate::sample::Absent;

/// Empty on a machine without other network namespaces.
#[derive(Debug, Default)]
pub struct NetworkNamespaceMembers {
    /// The namespace of stalltop; `None` if it cannot be read, and then no other one is
    own: Option<u64>,
    /// Inode of the namespace of each process in another one, by pid
    inodes: BTreeMap<u32, u64>,
    /// Processes whose namespace this user may not read
    hidden: BTreeSet<u32>,
}

impl NetworkNamespaceMembers {
    pub fn new(root: &Root) -> NetworkNamespaceMembers {
        let link = root.read_link("proc/self/ns/net").ok();
        let own = link.and_then(|link| parse_namespace_inode(link.as_os_str().as_bytes()));
        NetworkNamespaceMembers { own, ..NetworkNamespaceMembers::default() }
    }

    /// Reads the namespace of a process.
    pub fn read(&mut self, files: &TaskFiles, pid: u32) {
        if self.own.is_none() {
            return;
        }
        let link = files.read_link(format_args!("{pid}/ns/net"));
        match &link {
            Err(Absent::NoPermission) => self.hidden.insert(pid),
            _ => self.hidden.remove(&pid),
        };
        match link.ok().and_then(|link| parse_namespace_inode(link.as_bytes())) {
            Some(inode) if Some(inode) != self.own => self.inodes.insert(pid, inode),
            _ => self.inodes.remove(&pid),
        };
    }

    /// Whether the namespace of stalltop can be read, so that others can be distinguished from it.
    pub fn is_own_known(&self) -> bool {
        self.own.is_some()
    }

    /// Forgets the processes that ended.
    pub fn retain(&mut self, exists: impl Fn(u32) -> bool) {
        self.inodes.retain(|&pid, _| exists(pid));
        self.hidden.retain(|&pid| exists(pid));
    }

    /// The pids in each namespace, by inode; pids are sorted.
    pub fn by_inode(&self) -> BTreeMap<u64, Vec<u32>> {
        let mut namespaces: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
        for (&pid, &inode) in &self.inodes {
            namespaces.entry(inode).or_default().push(pid);
        }
        namespaces
    }

    /// The namespace of stalltop, if there are processes in others.
    pub fn own_among_others(&self) -> Option<u64> {
        self.own.filter(|_| !self.inodes.is_empty())
    }

    /// Number of processes whose namespace this user may not read.
    pub fn hidden_count(&self) -> usize {
        self.hidden.len()
    }
}

/// The inode in `net:[4026531840]`.
pub fn parse_namespace_inode(link: &[u8]) -> Option<u64> {
    parse_u64(link.strip_prefix(b"net:[")?.strip_suffix(b"]")?)
}
