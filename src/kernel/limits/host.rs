//! Limits of the whole host: open files, tasks, the tables of connection tracking and of neighbours, reserved memory, memory of TCP.

use super::reading::{KnownReadings, ReadScope, is_near};
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
    pub fn sample(&mut self, root: &Root, scope: ReadScope, known: KnownReadings<'_>, rows: &mut Vec<Limit>) {
        if scope == ReadScope::All || !self.rows.is_empty() {
            self.rows = self.read(root, known);
        }
        rows.extend_from_slice(&self.rows);
    }

    fn read(&mut self, root: &Root, known: KnownReadings<'_>) -> Vec<Limit> {
        let number = |buffer: &mut Vec<u8>, path: &str| {
            root.read(path, buffer).ok()?;
            parse_single_u64(buffer)
        };
        let maxima = Maxima {
            threads: number(&mut self.buffer, "proc/sys/kernel/threads-max"),
            pids: number(&mut self.buffer, "proc/sys/kernel/pid_max"),
            tracked: number(&mut self.buffer, "proc/sys/net/netfilter/nf_conntrack_max"),
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
                limit.refused = hexadecimal_sum(&self.buffer, "drop");
            }
            add(limit);
        }
        for (kind, statistics, threshold) in NEIGHBOUR_TABLES {
            if let Some(max) = number(&mut self.buffer, threshold).filter(|max| *max > 0)
                && root.read(statistics, &mut self.buffer).is_ok()
                && let Some(used) = first_hexadecimal(&self.buffer, "entries")
            {
                add(Limit { refused: hexadecimal_sum(&self.buffer, "table_fulls"), ..Limit::new(kind, used, max) });
            }
        }
        // Otherwise the kernel allows more than the limit.
        if number(&mut self.buffer, "proc/sys/vm/overcommit_memory") == Some(2)
            && root.read("proc/meminfo", &mut self.buffer).is_ok()
            && let Some((used, max)) = parse_committed(&self.buffer)
        {
            add(Limit::new(LimitKind::CommittedMemory, used, max));
        }
        if root.read("proc/sys/net/ipv4/tcp_mem", &mut self.buffer).is_ok()
            && let Some(max) = parse_tcp_mem_limit(&self.buffer)
            && root.read("proc/net/sockstat", &mut self.buffer).is_ok()
            && let Some(used) = parse_tcp_pages(&self.buffer)
        {
            add(Limit::new(LimitKind::TcpMemory, used, max));
        }
        rows
    }
}

/// Their statistics, and where their limit is set.
const NEIGHBOUR_TABLES: [(LimitKind, &str, &str); 2] = [
    (LimitKind::Neighbours, "proc/net/stat/arp_cache", "proc/sys/net/ipv4/neigh/default/gc_thresh3"),
    (LimitKind::Neighbours6, "proc/net/stat/ndisc_cache", "proc/sys/net/ipv6/neigh/default/gc_thresh3"),
];

/// `Committed_AS:` and `CommitLimit:` of /proc/meminfo, in KB.
fn parse_committed(meminfo: &[u8]) -> Option<(u64, u64)> {
    let number = |name: &[u8]| {
        let line = lines(meminfo).find_map(|line| line.strip_prefix(name))?;
        words(line).next().and_then(parse_u64)
    };
    Some((number(b"Committed_AS:")?, number(b"CommitLimit:")?))
}

/// The third number of net.ipv4.tcp_mem.
fn parse_tcp_mem_limit(text: &[u8]) -> Option<u64> {
    let line = lines(text).next()?;
    words(line).nth(2).and_then(parse_u64)
}

/// `mem` of the line `TCP:` of /proc/net/sockstat.
fn parse_tcp_pages(sockstat: &[u8]) -> Option<u64> {
    let mut words = words(lines(sockstat).find_map(|line| line.strip_prefix(b"TCP:"))?);
    words.find(|word| *word == b"mem")?;
    words.next().and_then(parse_u64)
}

/// Open files and their limit: the first and the third number of /proc/sys/fs/file-nr. The second is 0 since Linux 2.6.
fn parse_file_nr(text: &[u8]) -> Option<(u64, u64)> {
    let mut numbers = words(lines(text).next()?).map(parse_u64);
    let (open, _, max) = (numbers.next()??, numbers.next()??, numbers.next()??);
    Some((open, max))
}

/// The numbers of a column of a file of /proc/net/stat: hexadecimal, one line for each CPU below the names.
fn hexadecimal_column<'a>(text: &'a [u8], name: &str) -> Option<impl Iterator<Item = Option<u64>> + use<'a>> {
    let mut lines = lines(text);
    let column = words(lines.next()?).position(|other| other == name.as_bytes())?;
    Some(lines.map(move |line| u64::from_str_radix(std::str::from_utf8(words(line).nth(column)?).ok()?, 16).ok()))
}

/// Of a counter that each CPU has.
fn hexadecimal_sum(text: &[u8], name: &str) -> Option<Counter> {
    hexadecimal_column(text, name)?.try_fold(0_u64, |sum, count| sum.checked_add(count?)).map(Counter)
}

/// Of a number that is the same in all lines.
fn first_hexadecimal(text: &[u8], name: &str) -> Option<u64> {
    hexadecimal_column(text, name)?.next()?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::cgroup::CgroupReader;
    use crate::proc_tree::ProcTree;
    use crate::sample::task::Tasks;

    #[test]
    fn dropped_packets_are_added_up_over_cpus() {
        let text = b"entries  clashres found insert_failed drop early_drop icmp_error\n\
            0000ffff  00000000 00000001 00000000 0000001f 00000000 00000000\n\
            0000ffff  00000000 00000001 00000000 00000001 00000000 00000000\n";
        assert_eq!(hexadecimal_sum(text, "drop"), Some(Counter(32)));
        assert_eq!(hexadecimal_sum(b"entries found\n1 2\n", "drop"), None);
        assert_eq!(first_hexadecimal(text, "entries"), Some(65_535));
        assert_eq!(first_hexadecimal(b"entries\nx\n", "entries"), None);
    }

    #[test]
    fn neighbours_reserved_memory_and_memory_of_tcp_are_read() {
        let tree = ProcTree::empty();
        let root = tree.root();
        let (tasks, cgroups) = (Tasks::default(), CgroupReader::default());
        let read = || {
            let known = KnownReadings { tasks: &tasks, load: None, cgroups: &cgroups, now_ns: 1 };
            let mut rows = Vec::new();
            HostLimitReader::default().sample(&root, ReadScope::All, known, &mut rows);
            rows.into_iter().map(|row| (row.kind, row.used, row.max, row.refused)).collect::<Vec<_>>()
        };
        let full = "entries,  allocs   destroys table_fulls\n000003ff  00000001 00000000 00000002\n000003ff  00000001 00000000 00000001\n";
        tree.write("proc/net/stat/arp_cache", full.replace("entries,", "entries"));
        tree.write("proc/sys/net/ipv4/neigh/default/gc_thresh3", "1024\n");
        tree.write("proc/meminfo", "MemTotal: 1000 kB\nCommitLimit:     1000 kB\nCommitted_AS:     950 kB\n");
        tree.write("proc/sys/vm/overcommit_memory", "0\n");
        tree.write("proc/net/sockstat", "sockets: used 3\nTCP: inuse 5 orphan 0 tw 1 alloc 6 mem 900\nUDP: inuse 1 mem 2\n");
        tree.write("proc/sys/net/ipv4/tcp_mem", "500\t700\t1000\n");
        let neighbours = (LimitKind::Neighbours, 1023, 1024, Some(Counter(3)));
        let of_tcp = (LimitKind::TcpMemory, 900, 1000, None);
        assert_eq!(read(), [neighbours, of_tcp], "memory that is reserved has no limit");
        tree.write("proc/sys/vm/overcommit_memory", "2\n");
        assert_eq!(read(), [neighbours, (LimitKind::CommittedMemory, 950, 1000, None), of_tcp]);
    }

    #[test]
    fn a_maximum_that_changes_is_seen_at_the_next_reading() {
        let tree = ProcTree::empty();
        let root = tree.root();
        let write = |file: &str, number: u32| tree.write(format!("proc/sys/net/netfilter/{file}"), format!("{number}\n"));
        let (tasks, cgroups) = (Tasks::default(), CgroupReader::default());
        let mut reader = HostLimitReader::default();
        let mut read = |now_ns| {
            let mut rows = Vec::new();
            let known = KnownReadings { tasks: &tasks, load: None, cgroups: &cgroups, now_ns };
            reader.sample(&root, ReadScope::All, known, &mut rows);
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
