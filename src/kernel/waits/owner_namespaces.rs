//! The network namespaces of those owners of locks that are in another one than this program, and sockets that are open there.

use rustc_hash::FxHashMap;

use crate::kernel::network::namespaces::NamespaceReader;
use crate::kernel::network::netlink::Netlink;
use crate::kernel::scan::NetworkNamespaceMembers;
use crate::sample::waits::Waits;

/// Empty on a machine without other network namespaces.
pub struct OwnerNamespaces<'a> {
    /// The inode of the namespace, by pid of an owner
    inodes: FxHashMap<u32, u64>,
    namespaces: &'a mut NamespaceReader,
}

impl<'a> OwnerNamespaces<'a> {
    pub fn new(waits: &Waits, members: &NetworkNamespaceMembers, namespaces: &'a mut NamespaceReader) -> OwnerNamespaces<'a> {
        let of_futexes = waits.lock_owners.iter().map(|row| row.owner.task.pid);
        let of_kernel_locks = waits.kernel_lock_owners.iter().map(|row| row.owner.task.pid);
        let pids = of_futexes.chain(of_kernel_locks);
        let inodes = pids.filter_map(|pid| Some((pid, members.other_namespace(pid)?))).collect();
        OwnerNamespaces { inodes, namespaces }
    }

    /// The namespace of a process; `None` if it is that of this program.
    pub fn of_process(&self, pid: u32) -> Option<u64> {
        self.inodes.get(&pid).copied()
    }

    /// A sock_diag socket in a namespace, if one could be opened there.
    pub fn diag_socket(&mut self, namespace: u64) -> Option<&mut Netlink> {
        self.namespaces.diag_socket(namespace)
    }
}
