//! Limits of the whole host: open files, tasks, and the table of connection tracking.

use super::reading::{Extent, KnownReadings, is_near};
use crate::kernel::fields::{lines, parse_single_u64, parse_u64, words};
use crate::kernel::root::{FileHandle, Root};
use crate::sample::limits::{Limit, LimitKind};
use crate::units::Counter;

/// Keeps the files open that are read repeatedly.
#[derive(Debug)]
pub struct HostLimitReader {
    file_nr: FileHandle,
    tracked_count: FileHandle,
    tracking_statistics: FileHandle,
    /// As last read
    rows: Vec<Limit>,
    buffer: Vec<u8>,
}

/// They may change at any time, and connection tracking begins when its module is loaded: they are read as often as what is used.
#[derive(Clone, Copy, Debug)]
struct Maxima {
    /// kernel.threads-max
    threads: Option<u64>,
    /// kernel.pid_max
    pids: Option<u64>,
    /// net.netfilter.nf_conntrack_max; `None` without connection tracking
    tracked: Option<u64>,
}

impl Default for HostLimitReader {
    fn default() -> HostLimitReader {
        HostLimitReader {
            file_nr: FileHandle::new("proc/sys/fs/file-nr"),
            tracked_count: FileHandle::new("proc/sys/net/netfilter/nf_conntrack_count"),
            tracking_statistics: FileHandle::new("proc/net/stat/nf_conntrack"),
            rows: Vec::new(),
            buffer: Vec::new(),
        }
    }
}

impl HostLimitReader {
    pub fn sample(&mut self, root: &Root, extent: Extent, known: KnownReadings<'_>, rows: &mut Vec<Limit>) {
        if extent == Extent::All || !self.rows.is_empty() {
            self.rows = self.read(root, known);
        }
        rows.extend_from_slice(&self.rows);
    }

    fn read(&mut self, root: &Root, known: KnownReadings<'_>) -> Vec<Limit> {
        let mut number = |path: &str| root.read(path, &mut self.buffer).ok().and_then(|()| parse_single_u64(&self.buffer));
        let maxima = Maxima {
            threads: number("proc/sys/kernel/threads-max"),
            pids: number("proc/sys/kernel/pid_max"),
            tracked: number("proc/sys/net/netfilter/nf_conntrack_max"),
        };
        let mut rows = Vec::new();
        let mut add = |limit: Limit| rows.extend(is_near(&limit).then_some(limit));
        if self.file_nr.read(root, &mut self.buffer).is_ok()
            && let Some((used, max)) = parse_file_nr(&self.buffer)
        {
            add(Limit::new(LimitKind::HostFiles, used, max));
        }
        if let Some(tasks) = known.load.map(|load| u64::from(load.entities)) {
            let threads = maxima.threads.map(|max| (max, LimitKind::HostTasks));
            let pids = maxima.pids.map(|max| (max, LimitKind::TaskIds));
            // The lower of the two is the limit.
            if let Some((max, kind)) = threads.into_iter().chain(pids).min_by_key(|&(max, _)| max) {
                add(Limit::new(kind, tasks, max));
            }
        }
        // 0 is no limit.
        if let Some(max) = maxima.tracked.filter(|max| *max > 0)
            && self.tracked_count.read(root, &mut self.buffer).is_ok()
            && let Some(used) = parse_single_u64(&self.buffer)
        {
            let mut limit = Limit::new(LimitKind::TrackedConnections, used, max);
            if is_near(&limit) && self.tracking_statistics.read(root, &mut self.buffer).is_ok() {
                limit.refused = parse_dropped_packets(&self.buffer);
            }
            add(limit);
        }
        rows
    }
}

/// Open files and their limit: the first and the third number of /proc/sys/fs/file-nr. The second is 0 since Linux 2.6.
fn parse_file_nr(text: &[u8]) -> Option<(u64, u64)> {
    let mut numbers = words(lines(text).next()?).map(parse_u64);
    let (open, _, max) = (numbers.next()??, numbers.next()??, numbers.next()??);
    Some((open, max))
}

/// Sum of the column `drop` of /proc/net/stat/nf_conntrack, hexadecimal, one line for each CPU.
fn parse_dropped_packets(text: &[u8]) -> Option<Counter> {
    let mut lines = lines(text);
    let column = words(lines.next()?).position(|name| name == b"drop")?;
    let number = |line: &[u8]| u64::from_str_radix(std::str::from_utf8(words(line).nth(column)?).ok()?, 16).ok();
    lines.map(number).try_fold(0_u64, |sum, count| sum.checked_add(count?)).map(Counter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::cgroup::CgroupReader;
    use crate::sample::task::Tasks;

    #[test]
    fn dropped_packets_are_added_up_over_cpus() {
        let text = b"entries  clashres found insert_failed drop early_drop icmp_error\n\
            0000ffff  00000000 00000001 00000000 0000001f 00000000 00000000\n\
            0000ffff  00000000 00000001 00000000 00000001 00000000 00000000\n";
        assert_eq!(parse_dropped_packets(text), Some(Counter(32)));
        assert_eq!(parse_dropped_packets(b"entries found\n1 2\n"), None);
    }

    #[test]
    fn a_maximum_that_changes_is_seen_at_the_next_reading() {
        use std::fs;
        let tree = tempfile::tempdir().unwrap();
        let root = Root::at_directory(tree.path().to_owned());
        fs::create_dir_all(tree.path().join("proc/sys/net/netfilter")).unwrap();
        let write = |file: &str, number: u32| {
            fs::write(tree.path().join("proc/sys/net/netfilter").join(file), format!("{number}\n")).unwrap();
        };
        let (tasks, cgroups) = (Tasks::default(), CgroupReader::default());
        let mut reader = HostLimitReader::default();
        let mut read = |now_ns| {
            let mut rows = Vec::new();
            let known = KnownReadings { tasks: &tasks, load: None, cgroups: &cgroups, now_ns };
            reader.sample(&root, Extent::All, known, &mut rows);
            rows.into_iter().map(|row| (row.kind, row.used, row.max)).collect::<Vec<_>>()
        };
        assert_eq!(read(1), [], "without connection tracking");
        write("nf_conntrack_count", 900);
        write("nf_conntrack_max", 100_000);
        assert_eq!(read(5_000_000_001), []);
        write("nf_conntrack_max", 1_000);
        assert_eq!(read(10_000_000_001), [(LimitKind::TrackedConnections, 900, 1_000)]);
        write("nf_conntrack_max", 100_000);
        assert_eq!(read(15_000_000_001), [], "raised");
    }

    #[test]
    fn open_files_and_their_limit_are_the_first_and_the_last_number() {
        assert_eq!(parse_file_nr(b"2064\t0\t2466170\n"), Some((2064, 2_466_170)));
        assert_eq!(parse_file_nr(b"2064\n"), None);
    }
}
