//! How full file systems of this host are: statfs, on a thread of its own, since the call may not return where a device does not answer.
//!
//! File systems of servers (NFS, SMB) and of FUSE are not asked, nor is one that is mounted below such a one.

mod asked_mounts;

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Builder;
use std::time::Duration;

use nix::sys::statvfs::{Statvfs, statvfs};
use rustc_hash::FxHashSet;

use self::asked_mounts::asked_mounts;
use super::reading::{ReadScope, is_near, used_share};
use crate::kernel::mounts::{Mount, MountTable};
use crate::kernel::root::Root;
use crate::sample::Name;
use crate::sample::limits::{Limit, LimitKind};
use crate::units::SmallSort;

/// Limits of file systems in a sample, those that are used most first.
const MAX_ROWS: usize = 16;
/// Smaller ones serve a single purpose and may be full by design.
const MIN_KILOBYTES: u128 = 1024;
/// An answer takes microseconds. A later one is of the next sample.
const MAX_WAIT: Duration = Duration::from_millis(5);
/// What was read is too old to be shown: the thread waits for a file system that does not answer.
const MAX_AGE_NS: u64 = 15_000_000_000;
/// The stack of the thread.
const STACK_BYTES: usize = 128 << 10;

/// The sampler's side of the thread, which is blocked while there is nothing to read, and ends with the sampler. A thread that waits for a
/// file system gets no further requests.
#[derive(Debug, Default)]
pub struct FileSystemReader {
    thread: Option<StatfsThread>,
    is_waiting: bool,
    /// When the last request was made
    asked_ns: u64,
    /// As last read
    rows: Vec<Limit>,
    read_ns: u64,
}

#[derive(Debug)]
struct StatfsThread {
    requests: SyncSender<ReadScope>,
    answers: Receiver<Vec<Limit>>,
}

impl FileSystemReader {
    /// `now_ns`: CLOCK_BOOTTIME.
    pub fn sample(&mut self, root: &Root, scope: ReadScope, now_ns: u64, rows: &mut Vec<Limit>) {
        let thread = self.thread.get_or_insert_with(|| StatfsThread::start(root.clone()));
        let is_due = scope == ReadScope::All || !self.rows.is_empty();
        let answer = if is_due && !self.is_waiting && thread.requests.try_send(scope).is_ok() {
            (self.is_waiting, self.asked_ns) = (true, now_ns);
            thread.answers.recv_timeout(MAX_WAIT).ok()
        } else {
            thread.answers.try_recv().ok()
        };
        if let Some(read) = answer {
            (self.rows, self.read_ns, self.is_waiting) = (read, now_ns, false);
        }
        if now_ns.saturating_sub(self.read_ns) > MAX_AGE_NS {
            self.rows.clear();
        }
        rows.extend_from_slice(&self.rows);
    }

    /// Whether a request has not been answered for so long that what was read is too old.
    pub fn is_unanswered(&self, now_ns: u64) -> bool {
        self.is_waiting && now_ns.saturating_sub(self.asked_ns) > MAX_AGE_NS
    }
}

impl StatfsThread {
    /// Without a thread no file system has a limit.
    fn start(root: Root) -> StatfsThread {
        let (requests, work) = sync_channel(1);
        let (sender, answers) = sync_channel(1);
        let body = move || {
            let mut known = KnownFileSystems::default();
            while let Ok(scope) = work.recv() {
                if sender.send(known.read(&root, scope)).is_err() {
                    return;
                }
            }
        };
        drop(Builder::new().name("file-systems".to_owned()).stack_size(STACK_BYTES).spawn(body));
        StatfsThread { requests, answers }
    }
}

/// The thread's side.
#[derive(Debug, Default)]
struct KnownFileSystems {
    table: MountTable,
    asked: Vec<Mount>,
    /// Mount ids of those that had a limit of which much was used
    near: FxHashSet<u32>,
}

impl KnownFileSystems {
    fn read(&mut self, root: &Root, scope: ReadScope) -> Vec<Limit> {
        match self.table.refresh(root) {
            Ok(true) => self.asked = asked_mounts(self.table.mounts()).into_iter().cloned().collect(),
            Ok(false) => {}
            // Without the table as it is now no mount point is known.
            Err(_) => return Vec::new(),
        }
        let wanted = self.asked.iter().filter(|mount| scope == ReadScope::All || self.near.contains(&mount.id));
        let read: Vec<(&Mount, Space)> =
            wanted.filter_map(|mount| Some((mount, Space::from(&statvfs(&mount.mount_point).ok()?)))).collect();
        // An overlay has the numbers of the file system that it writes to, which a container has at /etc/hosts, too.
        let of_overlay = read.iter().find(|(mount, _)| is_overlay(mount)).map(|(_, space)| *space);
        let mut rows = Vec::new();
        let mut near = FxHashSet::default();
        for (mount, space) in read.iter().filter(|(mount, space)| is_overlay(mount) || Some(*space) != of_overlay) {
            let limits = limits(&mount.mount_point, space);
            near.extend((!limits.is_empty()).then_some(mount.id));
            rows.extend(limits);
        }
        self.near = near;
        rows.small_sort_by(|a, b| used_share(b).total_cmp(&used_share(a)));
        rows.truncate(MAX_ROWS);
        rows
    }
}

fn is_overlay(mount: &Mount) -> bool {
    mount.fs_type == b"overlay"
}

/// What statfs reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Space {
    block_bytes: u128,
    blocks: u128,
    free: u128,
    /// Without what is reserved for root
    available: u128,
    /// 0 where inodes are made as they are needed
    files: u128,
    free_files: u128,
}

impl From<&Statvfs> for Space {
    fn from(read: &Statvfs) -> Space {
        Space {
            block_bytes: read.fragment_size().into(),
            blocks: read.blocks().into(),
            free: read.blocks_free().into(),
            available: read.blocks_available().into(),
            files: read.files().into(),
            free_files: read.files_free().into(),
        }
    }
}

/// The limits that a sample keeps.
fn limits(mount_point: &Path, of: &Space) -> Vec<Limit> {
    let limit = |kind, used: u128, max: u128| {
        let [used, max] = [used, max].map(|number| u64::try_from(number).unwrap_or(u64::MAX));
        let mount_point = Some(Name::from(mount_point.as_os_str().as_encoded_bytes()));
        Limit { mount_point, ..Limit::new(kind, used, max) }
    };
    let [used, usable] = [of.blocks.saturating_sub(of.free), of.blocks.saturating_sub(of.free) + of.available]
        .map(|blocks| blocks.saturating_mul(of.block_bytes) / 1024);
    if usable < MIN_KILOBYTES {
        return Vec::new();
    }
    let space = limit(LimitKind::FileSystemSpace, used, usable);
    let inodes = limit(LimitKind::FileSystemInodes, of.files.saturating_sub(of.free_files), of.files);
    [space, inodes].into_iter().filter(|limit| limit.max > 0 && is_near(limit)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reserved_for_root_is_neither_used_nor_left() {
        let full = Space { block_bytes: 4096, blocks: 1000, free: 50, available: 0, files: 100, free_files: 90 };
        let kept = |space: &Space| -> Vec<_> {
            limits(Path::new("/x"), space).iter().map(|limit| (limit.kind, limit.used, limit.max)).collect()
        };
        assert_eq!(kept(&full), [(LimitKind::FileSystemSpace, 3800, 3800)]);
        assert_eq!(kept(&Space { free: 250, available: 200, ..full }), [], "less than four fifths");
        let inodes = Space { free: 1000, available: 950, free_files: 3, ..full };
        assert_eq!(kept(&inodes), [(LimitKind::FileSystemInodes, 97, 100)]);
        assert_eq!(kept(&Space { files: 0, free_files: 0, ..inodes }), []);
        assert_eq!(kept(&Space { block_bytes: 1024, ..full }), [], "a small one");
    }

    #[test]
    fn what_was_read_goes_when_nothing_is_read_any_more() {
        let (requests, work) = sync_channel(1);
        let (sender, answers) = sync_channel(1);
        let mut reader = FileSystemReader { thread: Some(StatfsThread { requests, answers }), ..FileSystemReader::default() };
        let mut rows_at = |seconds: u64, scope| {
            let mut rows = Vec::new();
            reader.sample(&Root::host(), scope, seconds * 1_000_000_000, &mut rows);
            rows.len()
        };
        assert_eq!(rows_at(1000, ReadScope::Near), 0);
        assert!(work.try_recv().is_err(), "nothing is near");
        sender.send(vec![Limit::new(LimitKind::FileSystemSpace, 1, 1)]).unwrap();
        assert_eq!(rows_at(1001, ReadScope::All), 1);
        assert_eq!(work.try_recv(), Ok(ReadScope::All));
        assert_eq!(rows_at(1002, ReadScope::Near), 1);
        assert_eq!(work.try_recv(), Ok(ReadScope::Near), "each second while one is near");
        assert_eq!([rows_at(1005, ReadScope::All), rows_at(1016, ReadScope::Near)], [1, 1]);
        assert!(work.try_recv().is_err(), "the last request is not answered");
        assert_eq!(rows_at(1017, ReadScope::All), 0, "no answer for 15 s");
        assert_eq!([1017, 1018].map(|seconds| reader.is_unanswered(seconds * 1_000_000_000)), [false, true], "asked at 1002");
    }
}
