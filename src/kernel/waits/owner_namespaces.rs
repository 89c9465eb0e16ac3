//! The network namespaces of owners of locks and of the processes for which they wait, where they are in another one than this program,
//! and sockets that are open there.

use std::os::unix::ffi::OsStrExt;

use crate::kernel::network::namespaces::NamespaceReader;
use crate::kernel::network::netlink::Netlink;
use crate::kernel::scan::{NetworkNamespaceMembers, parse_namespace_inode};
use crate::kernel::task::files::TaskFiles;

pub struct OwnerNamespaces<'a> {
    /// That of this program; `None` on a machine without others
    own: Option<u64>,
    namespaces: &'a mut NamespaceReader,
}

impl<'a> OwnerNamespaces<'a> {
    pub fn new(members: &NetworkNamespaceMembers, namespaces: &'a mut NamespaceReader) -> OwnerNamespaces<'a> {
        OwnerNamespaces { own: members.own_among_others(), namespaces }
    }

    /// The inode of the namespace of a process; `None` if it is that of this program, or is not known.
    pub fn of_process(&self, pid: u32, files: &TaskFiles) -> Option<u64> {
        let own = self.own?;
        let link = files.read_link(format_args!("{pid}/ns/net")).ok()?;
        parse_namespace_inode(link.as_bytes()).filter(|&inode| inode != own)
    }

    /// A sock_diag socket in a namespace, if one could be opened there.
    pub fn diag_socket(&mut self, namespace: u64) -> Option<&mut Netlink> {
        self.namespaces.diag_socket(namespace)
    }
}
