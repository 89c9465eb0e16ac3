//! Opens regular files that another user controls. A path is walked without symbolic links, and a file is opened for reading only after
//! its inode was checked: to open a device or a pipe may have an effect. Where its file system does not answer, these functions block.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path};

use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::{Mode, SFlag, fstat};

use super::root::{absent_from_errno, absent_from_io_error};
use crate::sample::{Absent, Reading};

/// Follows a link of /proc, which leads to one file or directory. Opens nothing for reading.
pub fn open_link(link: &Path) -> Reading<OwnedFd> {
    open(link, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty()).map_err(absent_from_errno)
}

/// What this path leads to below the directory; each component by itself, so that no link and no `..` leaves it. Opens nothing for reading.
pub fn open_place_below(directory: OwnedFd, path: &Path) -> Reading<OwnedFd> {
    let mut place = directory;
    for component in path.components() {
        let name = match component {
            Component::RootDir => continue,
            Component::Normal(name) => name,
            _ => return Err(Absent::NoSuchFile),
        };
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        place = openat(place.as_fd(), name, flags, Mode::empty()).map_err(absent_from_errno)?;
    }
    Ok(place)
}

/// Opens for reading what was opened with O_PATH, unless it is no regular file.
pub fn reopen_regular(place: OwnedFd) -> Reading<File> {
    let kind = fstat(&place).map_err(absent_from_errno)?.st_mode & SFlag::S_IFMT.bits();
    if kind != SFlag::S_IFREG.bits() {
        return Err(Absent::NoSuchFile);
    }
    // A lease of another process must not block.
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let path = path_of_descriptor(&place);
    OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(|error| absent_from_io_error(&error))
}

/// A path that leads this process to the open file itself: also to one in a container, and to one that was deleted.
pub fn path_of_descriptor(file: &impl AsRawFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn no_link_is_followed_and_nothing_but_a_regular_file_is_opened() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        fs::create_dir(directory.join("lib")).unwrap();
        fs::write(directory.join("lib/a.so"), "").unwrap();
        symlink("lib", directory.join("lib64")).unwrap();
        symlink("/dev/null", directory.join("a.so (deleted)")).unwrap();
        nix::unistd::mkfifo(&directory.join("pipe"), Mode::S_IRWXU).unwrap();
        let opened = |name: &str| {
            open_link(directory).and_then(|place| open_place_below(place, Path::new(name))).and_then(reopen_regular).is_ok()
        };
        assert!(opened("lib/a.so") && opened("/lib/a.so"));
        for name in ["lib64/a.so", "a.so (deleted)", "pipe", "lib", "lib/../lib/a.so", "../a.so", "lib/b.so"] {
            assert!(!opened(name), "{name}");
        }
    }

    #[test]
    fn the_path_of_a_descriptor_leads_to_a_file_that_was_deleted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("server");
        fs::write(&path, "of the process").unwrap();
        let file = open_link(&path).and_then(reopen_regular).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "newer").unwrap();
        let mut text = String::new();
        File::open(path_of_descriptor(&file)).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "of the process");
    }
}
