//! Opens files of a process, which its user controls: those that it has mapped, and others by their paths in its root directory. Where their
//! file system does not answer, these functions block.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::sys::stat::{FileStat, fstat};

use super::mappings::Mapping;
use crate::kernel::regular_file::{open_link, open_place_below, reopen_regular};
use crate::kernel::root::{Root, absent_from_errno};
use crate::kernel::sys_admin;
use crate::sample::{Absent, Reading};

/// What an access may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessTarget {
    /// A file system, by its device number
    Device(u64),
    /// A process whose memory is locked (mmap_lock), or a path in its root directory, which may lead to any file system
    Process(u32),
}

/// Opens the file of a mapping: also one of a container, and one that was deleted. `executable`: the link /proc/PID/exe. `before_access`
/// is called before each access that may block.
pub fn open_mapped(
    root: &Root,
    pid: u32,
    mapping: &Mapping,
    executable: &OsStr,
    before_access: impl Fn(AccessTarget),
) -> Reading<File> {
    // It is the file itself, whatever its path leads to now. Takes CAP_SYS_ADMIN.
    if sys_admin::check_permitted().is_ok() {
        // The link takes the lock of the process's memory, the file touches its file system.
        before_access(AccessTarget::Process(pid));
        let link = root.path(format!("proc/{pid}/map_files/{:x}-{:x}", mapping.start, mapping.end));
        if let Ok(file) = sys_admin::with_sys_admin(|| open_link(&link)).flatten() {
            before_access(AccessTarget::Device(mapping.device));
            if let Ok(file) = reopen_regular(file) {
                return Ok(file);
            }
        }
    }
    // A path may lead to any file system.
    before_access(AccessTarget::Process(pid));
    let file = if mapping.path[..] == *executable.as_bytes() {
        open_link(&root.path(format!("proc/{pid}/exe")))?
    } else if mapping.is_deleted() {
        return Err(Absent::NoSuchFile);
    } else {
        place_of_mapping(root, pid, mapping)?
    };
    let status = fstat(&file).map_err(absent_from_errno)?;
    if !is_mapped_file(&status, mapping) {
        return Err(Absent::NoSuchFile);
    }
    if status.st_dev == mapping.device {
        before_access(AccessTarget::Device(mapping.device));
    }
    reopen_regular(file)
}

/// The kernel writes the path as stalltop sees it, also of a process in a chroot; of one in another mount namespace as that process sees
/// it.
fn place_of_mapping(root: &Root, pid: u32, mapping: &Mapping) -> Reading<OwnedFd> {
    let path = Path::new(OsStr::from_bytes(&mapping.path));
    if let Ok(file) = place_below_root(root, pid, path)
        && fstat(&file).is_ok_and(|status| is_mapped_file(&status, mapping))
    {
        return Ok(file);
    }
    let file = open_place_below(open_link(&root.path("/"))?, path)?;
    // The process's user may choose the path and the inode of a file system of its own: here the device must be the same.
    let status = fstat(&file).map_err(absent_from_errno)?;
    if status.st_dev == mapping.device { Ok(file) } else { Err(Absent::NoSuchFile) }
}

/// Opens a regular file by its path in the root directory of a process.
pub fn open_below_root(root: &Root, pid: u32, path: &Path) -> Reading<File> {
    place_below_root(root, pid, path).and_then(reopen_regular)
}

/// Paths of mappings have no symbolic links.
fn place_below_root(root: &Root, pid: u32, path: &Path) -> Reading<OwnedFd> {
    open_place_below(open_link(&root.path(format!("proc/{pid}/root")))?, path)
}

/// On btrfs and overlayfs stat(2) and /proc/PID/maps name different devices: both made up (major 0), or that below an overlayfs and a
/// made-up one.
fn is_mapped_file(status: &FileStat, mapping: &Mapping) -> bool {
    let is_made_up = |device: u64| libc::major(device) == 0;
    let is_same_device = status.st_dev == mapping.device || is_made_up(status.st_dev) || is_made_up(mapping.device);
    #[allow(clippy::useless_conversion, reason = "it has 32 bits on i686")]
    let inode = u64::from(status.st_ino);
    inode == mapping.inode && is_same_device
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::{MetadataExt, symlink};
    use std::process::{Command, Stdio};

    use super::*;
    use crate::child_guard::ChildGuard;
    use crate::kernel::mappings::read_mappings;

    /// A mapping of a file at a place where this process has none.
    fn mapping(path: &Path) -> Mapping {
        let status = fs::metadata(path).unwrap();
        Mapping {
            start: 0x1000,
            end: 0x2000,
            is_executable: true,
            offset: 0,
            device: status.dev(),
            inode: status.ino(),
            path: path.as_os_str().as_bytes().into(),
        }
    }

    fn content(mapping: &Mapping) -> Reading<String> {
        let mut file = open_mapped(&Root::host(), std::process::id(), mapping, OsStr::new(""), |_| {})?;
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        Ok(text)
    }

    #[test]
    fn only_the_file_that_is_mapped_is_opened() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path().canonicalize().unwrap();
        let [library, other] = ["lib.so", "other.so"].map(|name| directory.join(name));
        fs::write(&library, "tables").unwrap();
        fs::write(&other, "other").unwrap();
        let mapped = mapping(&library);
        assert_eq!(content(&mapped).as_deref(), Ok("tables"));
        fs::rename(&library, directory.join("moved.so")).unwrap();
        symlink("moved.so", &library).unwrap();
        assert_eq!(content(&mapped), Err(Absent::NoSuchFile), "a symbolic link to the file itself");
        fs::rename(&other, &library).unwrap();
        assert_eq!(content(&mapped), Err(Absent::NoSuchFile), "another file");
    }

    /// A process in a chroot, in which none of its files is; killed when dropped.
    struct Chroot(ChildGuard);

    impl Chroot {
        /// `None`, with the reason printed, without the permission or perl.
        fn start(directory: &Path) -> Option<Chroot> {
            let script = "chroot($ARGV[0]) or die; $| = 1; print 'ready'; sleep 600";
            let perl =
                Command::new("perl").args(["-e", script]).arg(directory).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
            let Ok(mut child) = perl else {
                println!("skipped: no perl");
                return None;
            };
            let is_ready = child.stdout.as_mut().unwrap().read_exact(&mut [0; 5]).is_ok();
            let process = Chroot(ChildGuard(child));
            if !is_ready {
                println!("skipped: chroot(2) needs CAP_SYS_CHROOT");
            }
            is_ready.then_some(process)
        }
    }

    #[test]
    fn a_file_of_a_process_in_a_chroot_is_found_by_the_path_that_stalltop_sees() {
        let directory = tempfile::tempdir().unwrap();
        let Some(process) = Chroot::start(directory.path()) else { return };
        let (root, pid) = (Root::host(), process.0.id());
        let mappings = read_mappings(&root, pid, &mut Vec::new()).unwrap();
        let library = mappings.iter().find(|mapping| mapping.file_name().starts_with(b"libc")).unwrap();
        let path = Path::new(OsStr::from_bytes(&library.path));
        if fs::metadata(path).unwrap().dev() != library.device {
            println!("skipped: stat and maps name different devices here");
            return;
        }
        assert!(place_below_root(&root, pid, path).is_err(), "not in its root directory");
        assert!(place_of_mapping(&root, pid, library).is_ok_and(|file| is_mapped_file(&fstat(&file).unwrap(), library)));
    }

    #[test]
    fn a_file_is_the_mapped_one_by_inode_and_device() {
        let mut status = nix::sys::stat::stat("/").unwrap();
        let mapping = Mapping { device: libc::makedev(8, 1), inode: 7, ..mapping(Path::new("/")) };
        let mut is_mapped = |inode: u64, device: u64| {
            (status.st_ino, status.st_dev) = (inode, device);
            is_mapped_file(&status, &mapping)
        };
        assert!(is_mapped(7, libc::makedev(8, 1)) && is_mapped(7, libc::makedev(0, 40)), "itself, and on an overlayfs");
        assert!(
            !is_mapped(7, libc::makedev(8, 2)) && !is_mapped(8, libc::makedev(8, 1)) && !is_mapped(8, libc::makedev(0, 40))
        );
    }

    #[test]
    fn a_deleted_file_is_not_opened_by_the_path_in_its_mapping() {
        let directory = tempfile::tempdir().unwrap();
        let deleted = directory.path().canonicalize().unwrap().join("a.so (deleted)");
        fs::write(&deleted, "").unwrap();
        assert!(open_below_root(&Root::host(), std::process::id(), &deleted).is_ok());
        assert_eq!(content(&mapping(&deleted)), Err(Absent::NoSuchFile));
    }
}
