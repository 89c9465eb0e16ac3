//! The system calls that the programs of assets/probe/file_systems.bpf.c count, by their numbers on this architecture.

use libc::c_long;

use crate::sample::file_systems::OtherOperation;

/// Numbers from here on are not counted: `SYSTEM_CALLS` in file_systems.bpf.c
pub const SYSTEM_CALLS: usize = 512;
/// `OTHER_BITS` in file_systems.bpf.c
const OTHER_BITS: u8 = 3;

/// What the arguments of a system call are: `enum argument_layout` in file_systems.bpf.c.
#[derive(Clone, Copy)]
enum ArgumentLayout {
    Reads = 1,
    Writes,
    ReadsAt,
    WritesAt,
    Sends,
    Copies,
    Submits,
    GetsEvents,
    Opens,
    /// Of a descriptor
    OfFd,
    /// Of a path
    OfPath,
    /// Of a directory's descriptor and a path
    AtPath,
    /// The path is the second argument.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "link and symlink have newer forms"))]
    NameOfPath,
    /// Directory and path are the second and third argument.
    NameAtPath,
}

#[cfg(target_arch = "x86_64")]
use ArgumentLayout::NameOfPath;
use ArgumentLayout::{
    AtPath, Copies, GetsEvents, NameAtPath, OfFd, OfPath, Opens, Reads, ReadsAt, Sends, Submits, Writes, WritesAt,
};
use OtherOperation::{Access, CreateRemove, GetattrSetattr, Other, Readdir};

/// Reads, writes and opens.
const DATA: &[(c_long, ArgumentLayout)] = &[
    (libc::SYS_read, Reads),
    (libc::SYS_readv, Reads),
    (libc::SYS_write, Writes),
    (libc::SYS_writev, Writes),
    (libc::SYS_pread64, ReadsAt),
    (libc::SYS_preadv, ReadsAt),
    (libc::SYS_preadv2, ReadsAt),
    (libc::SYS_pwrite64, WritesAt),
    (libc::SYS_pwritev, WritesAt),
    (libc::SYS_pwritev2, WritesAt),
    (libc::SYS_sendfile, Sends),
    (libc::SYS_copy_file_range, Copies),
    (libc::SYS_splice, Copies),
    (libc::SYS_io_submit, Submits),
    (libc::SYS_io_getevents, GetsEvents),
    (IO_PGETEVENTS, GetsEvents),
    (libc::SYS_openat, Opens),
    (libc::SYS_openat2, Opens),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, Opens),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, Opens),
];

/// libc does not have it for every target.
#[cfg(target_arch = "x86_64")]
const IO_PGETEVENTS: c_long = 333;
#[cfg(not(target_arch = "x86_64"))]
const IO_PGETEVENTS: c_long = 292;

/// The number of every architecture; libc does not have it for all.
const FCHMODAT2: c_long = 452;

/// Operations on names and attributes.
const OTHERS: &[(c_long, ArgumentLayout, OtherOperation)] = &[
    (libc::SYS_faccessat, AtPath, Access),
    (libc::SYS_faccessat2, AtPath, Access),
    (libc::SYS_getdents64, OfFd, Readdir),
    (libc::SYS_fstat, OfFd, GetattrSetattr),
    // On 32-bit x86, where nothing loads the programs, it has another name.
    #[cfg(not(target_arch = "x86"))]
    (libc::SYS_newfstatat, AtPath, GetattrSetattr),
    (libc::SYS_statx, AtPath, GetattrSetattr),
    (libc::SYS_fchmod, OfFd, GetattrSetattr),
    (libc::SYS_fchown, OfFd, GetattrSetattr),
    (libc::SYS_ftruncate, OfFd, GetattrSetattr),
    (libc::SYS_truncate, OfPath, GetattrSetattr),
    (libc::SYS_fchmodat, AtPath, GetattrSetattr),
    (FCHMODAT2, AtPath, GetattrSetattr),
    (libc::SYS_fchownat, AtPath, GetattrSetattr),
    (libc::SYS_utimensat, AtPath, GetattrSetattr),
    (libc::SYS_mkdirat, AtPath, CreateRemove),
    (libc::SYS_mknodat, AtPath, CreateRemove),
    (libc::SYS_unlinkat, AtPath, CreateRemove),
    (libc::SYS_linkat, AtPath, CreateRemove),
    (libc::SYS_symlinkat, NameAtPath, CreateRemove),
    (libc::SYS_renameat2, AtPath, Other),
    (libc::SYS_readlinkat, AtPath, Other),
    (libc::SYS_fsync, OfFd, Other),
    (libc::SYS_fdatasync, OfFd, Other),
    (libc::SYS_fallocate, OfFd, Other),
    (libc::SYS_fstatfs, OfFd, Other),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_access, OfPath, Access),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_getdents, OfFd, Readdir),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_stat, OfPath, GetattrSetattr),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_lstat, OfPath, GetattrSetattr),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, OfPath, GetattrSetattr),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chown, OfPath, GetattrSetattr),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_lchown, OfPath, GetattrSetattr),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_utime, OfPath, GetattrSetattr),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_utimes, OfPath, GetattrSetattr),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_futimesat, AtPath, GetattrSetattr),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mkdir, OfPath, CreateRemove),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_rmdir, OfPath, CreateRemove),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, OfPath, CreateRemove),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_unlink, OfPath, CreateRemove),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_link, NameOfPath, CreateRemove),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_symlink, NameOfPath, CreateRemove),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_rename, OfPath, Other),
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    (libc::SYS_renameat, AtPath, Other),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_readlink, OfPath, Other),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_statfs, OfPath, Other),
];

/// The layout of each system call, and in the low bits its `OtherOperation`; 0: it is not counted.
pub fn argument_layouts() -> [u8; SYSTEM_CALLS] {
    let mut layouts = [0; SYSTEM_CALLS];
    let data = DATA.iter().map(|&(number, layout)| (number, (layout as u8) << OTHER_BITS));
    let others = OTHERS.iter().map(|&(number, layout, other)| (number, (layout as u8) << OTHER_BITS | other as u8));
    for (number, layout) in data.chain(others) {
        if let Some(entry) = usize::try_from(number).ok().and_then(|number| layouts.get_mut(number)) {
            *entry = layout;
        }
    }
    layouts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_system_call_has_one_layout() {
        let counted = argument_layouts().iter().filter(|&&layout| layout != 0).count();
        assert_eq!(counted, DATA.len() + OTHERS.len());
        let layout_of = |number: c_long| argument_layouts()[usize::try_from(number).unwrap()];
        assert_eq!(layout_of(libc::SYS_pread64), 3 << 3);
        assert_eq!((layout_of(libc::SYS_fsync) & 7, layout_of(libc::SYS_getpid)), (Other as u8, 0));
    }
}
