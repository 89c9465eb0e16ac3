//! Reads the mount table, /proc/self/mountinfo, when the kernel reports a change (poll).

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::fields::{lines, parse_u32, words};
use super::root::{Root, read_whole};
use crate::ids::DiskId;
use crate::sample::Reading;

/// One mount, with octal escapes decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Mount id, `mnt_id` in /proc/PID/fdinfo; unique over all mount namespaces.
    pub id: u32,
    /// Mount id of the mount that it is on
    pub parent: u32,
    /// st_dev of its files, major and minor; 0:N where the file system has no block device of its own (btrfs, overlay, proc).
    pub device: DiskId,
    /// The directory of the file system that is mounted; `/` for the whole.
    pub subdirectory: Vec<u8>,
    pub mount_point: PathBuf,
    pub fs_type: Vec<u8>,
    pub source: Vec<u8>,
    /// Options of the superblock (not of this mount), separated by commas.
    pub options: Vec<u8>,
}

impl Mount {
    /// The value of an option `name=value`, empty for `name` alone; `None` where it is not given.
    pub fn option(&self, name: &[u8]) -> Option<&[u8]> {
        self.options.split(|byte| *byte == b',').find_map(|option| match option.strip_prefix(name) {
            Some(b"") => Some(&b""[..]),
            Some(rest) => rest.strip_prefix(b"="),
            None => None,
        })
    }
}

/// The mount table of this process, read again only when the kernel reports a change.
#[derive(Debug, Default)]
pub struct MountTable {
    file: Option<File>,
    mounts: Vec<Mount>,
}

impl MountTable {
    /// Reads the table if it has changed since the last call or was never read. Returns whether it was read.
    pub fn refresh(&mut self, root: &Root) -> Reading<bool> {
        if self.file.as_ref().is_some_and(|file| !has_changed(file)) {
            return Ok(false);
        }
        let file = match self.file.take() {
            Some(file) => file,
            None => root.open("proc/self/mountinfo")?,
        };
        let mut table = Vec::new();
        read_whole(&file, &mut table)?;
        self.file = Some(file);
        self.mounts = parse_mountinfo(&table);
        Ok(true)
    }

    /// The mounts as last read.
    pub fn mounts(&self) -> &[Mount] {
        &self.mounts
    }
}

/// The innermost mount that a path is in, of mounts in the order of the table: of several at one place the last one covers the others.
pub fn innermost<'m, T>(mounts: &'m [T], mount_point: impl Fn(&T) -> &Path, path: &Path) -> Option<&'m T> {
    let around = mounts.iter().filter(|mount| path.starts_with(mount_point(mount)));
    around.max_by_key(|mount| mount_point(mount).as_os_str().len())
}

/// Whether FUSE file systems are mounted: threads wait for them in interruptible sleep.
pub fn has_fuse_mounts(root: &Root) -> bool {
    let is_one = |kind: &[u8]| kind.starts_with(b"fuse") && kind != b"fusectl" || kind == b"virtiofs";
    let table = root.read_once("proc/self/mountinfo").unwrap_or_default();
    parse_mountinfo(&table).iter().any(|mount| is_one(&mount.fs_type))
}

/// Parses the lines, and leaves out damaged ones:
/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`
pub fn parse_mountinfo(bytes: &[u8]) -> Vec<Mount> {
    lines(bytes).filter_map(parse_mount).collect()
}

fn parse_mount(line: &[u8]) -> Option<Mount> {
    let mut words = words(line);
    let id = parse_u32(words.next()?)?;
    let parent = parse_u32(words.next()?)?;
    let mut device = words.next()?.splitn(2, |byte| *byte == b':').map(parse_u32);
    let device = DiskId { major: device.next()??, minor: device.next()?? };
    let root = unescape_octal(words.next()?);
    let mount_point = PathBuf::from(OsString::from_vec(unescape_octal(words.next()?)));
    // Any number of optional fields such as `shared:1` come before the separator `-`.
    words.by_ref().find(|word| *word == b"-")?;
    let kind = unescape_octal(words.next()?);
    let rest: Vec<&[u8]> = words.collect();
    // The source may be empty: then there is one word less.
    let (source, options) = match rest.as_slice() {
        [options] => (Vec::new(), unescape_octal(options)),
        [source, options, ..] => (unescape_octal(source), unescape_octal(options)),
        [] => return None,
    };
    Some(Mount { id, parent, device, subdirectory: root, mount_point, fs_type: kind, source, options })
}

/// Decodes space, tab, newline and backslash, which the file has as `\040` and so on.
fn unescape_octal(word: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((first, tail)) = rest.split_first() {
        match rest {
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..] => {
                text.push((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'));
                rest = after;
            }
            _ => {
                text.push(*first);
                rest = tail;
            }
        }
    }
    text
}

/// Whether the table changed: the kernel raises POLLERR and POLLPRI on the open file once after each change.
fn has_changed(file: &File) -> bool {
    let mut poll_fds = [PollFd::new(file.as_fd(), PollFlags::POLLPRI)];
    let raised = poll(&mut poll_fds, PollTimeout::ZERO).is_ok_and(|ready| ready > 0);
    let events = poll_fds[0].revents().unwrap_or(PollFlags::empty());
    raised && events.intersects(PollFlags::POLLPRI | PollFlags::POLLERR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_with_escapes_and_optional_fields() {
        let mounts = parse_mountinfo(
            b"36 35 98:0 / /mnt/a\\040b rw,noatime master:1 shared:7 - ext3 /dev/sd\\134a rw,errors=continue,hidepid=2\n\
              37 35 0:22 / /proc rw -  proc rw,hidepid=invisible\nnonsense\n38 35 0:5 / /cut rw - tmp",
        );
        assert_eq!(mounts.len(), 2);
        assert_eq!(mounts[0].id, 36);
        assert_eq!(mounts[0].device, DiskId { major: 98, minor: 0 });
        assert_eq!(mounts[0].mount_point, PathBuf::from("/mnt/a b"));
        assert_eq!(mounts[0].source, b"/dev/sd\\a");
        assert_eq!(mounts[0].option(b"hidepid"), Some(&b"2"[..]));
        assert_eq!(mounts[0].option(b"rw"), Some(&b""[..]));
        assert_eq!(mounts[0].option(b"hide"), None);
    }

    #[test]
    fn the_mount_table_is_read_once_while_it_does_not_change() {
        let mut table = MountTable::default();
        assert_eq!(table.refresh(&Root::host()), Ok(true));
        assert!(table.mounts().iter().any(|mount| mount.fs_type == b"proc"));
        assert_eq!(table.refresh(&Root::host()), Ok(false));
    }
}
