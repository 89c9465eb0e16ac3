//! Threads that sub-samples saw blocked, one entry per thread, made from the waits in `Waits::blocked`.
//!
//! In a lock convoy each thread is on storage for a moment and waits for the lock for the rest of the time. So the last
//! sub-sample mostly sees it in the lock wait. To find what the group waits for, all sightings on storage are counted by kernel
//! function (wchan), and one thread of each group is shown in the function with the most sightings: the end of its wait chain.

use rustc_hash::FxHashMap;

use crate::ids::TaskId;
use crate::sample::task_state::RawSyscall;
use crate::sample::waits::{BlockedWait, Syscall, WaitClass, Waits, class};
use crate::sample::{Host, Name};

/// A thread that has been in its last wait for at least this long is shown in that wait, and sentences say how long.
/// docs/metrics.md, "Fixed thresholds".
pub const LONG_WAIT_NS: u64 = 1_000_000_000;

/// A thread that sub-samples saw blocked, in one of its waits.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockedThread {
    /// `seen_count` is of all its waits; `blocked_since_ns` of its last one
    pub wait: BlockedWait,
    /// Of state, wait channel and system call
    pub class: WaitClass,
}

impl BlockedThread {
    /// Classifies a wait. `machine` is `Host::machine`.
    pub fn new(machine: &[u8], wait: &BlockedWait) -> BlockedThread {
        let call = wait.syscall.and_then(|call| Syscall::from_number(machine, call));
        let class = WaitClass::classify(wait.state, wait.wchan.as_ref().map(Name::as_bytes), call);
        // The sampler keeps no thread whose state and wait channel contradict each other.
        BlockedThread { wait: wait.clone(), class: class.unwrap_or(WaitClass::Other) }
    }

    /// /proc/PID/syscall of a thread that is blocked outside a system call: a page fault.
    pub fn is_page_fault(&self) -> bool {
        self.wait.syscall.is_some_and(RawSyscall::is_page_fault)
    }

    /// Whether it waits for storage that is no block device of this host.
    pub fn is_non_block_storage(&self) -> bool {
        self.wait.wchan.as_ref().is_some_and(|channel| class::is_non_block_storage(channel.as_bytes()))
            || self.non_block_mount().is_some()
    }

    /// If it waits for a file on a file system that has no block device of this host: where that is mounted, and its type. Reads through
    /// the page cache of NFS wait where those of a disk do.
    pub fn non_block_mount(&self) -> Option<(&Name, &Name)> {
        let kind = self.wait.file_system.as_ref().filter(|kind| class::is_non_block_file_system(kind.as_bytes()))?;
        let waits_for_it = self.class == WaitClass::Disk && self.wait.disk.is_none();
        Some((self.wait.mount.as_ref().filter(|_| waits_for_it)?, kind))
    }
}

/// One entry per thread, sorted by task: its last wait, with the number of sightings of all its waits. One thread of each group
/// is shown in the wait on storage that was seen most often in that group instead.
pub fn blocked_threads(host: &Host, waits: &Waits) -> Vec<BlockedThread> {
    let machine = host.machine.as_bytes();
    let mut blocked: Vec<BlockedThread> = waits.blocked.iter().map(|wait| BlockedThread::new(machine, wait)).collect();
    for thread in blocked.iter_mut().filter(|thread| waits.dumps_core(thread.wait.task.pid)) {
        if thread.wait.wchan.as_ref().is_some_and(|channel| class::may_be_core_dump(channel.as_bytes())) {
            thread.class = WaitClass::CoreDump;
        }
    }
    merge_waits(&blocked, waits.sub_samples.last().map_or(0, |last| last.boottime_ns))
}

/// `blocked`: the waits, sorted by task.
fn merge_waits(blocked: &[BlockedThread], now_ns: u64) -> Vec<BlockedThread> {
    let mut threads: Vec<BlockedThread> = blocked.chunk_by(|a, b| a.wait.task == b.wait.task).filter_map(last_wait).collect();
    for end in chain_ends(blocked, |end| may_stand_for(&threads, end, now_ns)) {
        let Ok(at) = threads.binary_search_by_key(&end.wait.task, |thread| thread.wait.task) else { continue };
        let Some(thread) = threads.get_mut(at) else { continue };
        let (seen_count, blocked_since_ns) = (thread.wait.seen_count, thread.wait.blocked_since_ns);
        thread.clone_from(end);
        (thread.wait.seen_count, thread.wait.blocked_since_ns) = (seen_count, blocked_since_ns);
    }
    threads
}

/// The wait of one thread that was seen last, with the sightings of all.
fn last_wait(waits: &[BlockedThread]) -> Option<BlockedThread> {
    let last = waits.iter().max_by_key(|thread| thread.wait.last_sub_sample)?;
    let seen_count = waits.iter().fold(0_u16, |sum, thread| sum.saturating_add(thread.wait.seen_count));
    Some(BlockedThread { wait: BlockedWait { seen_count, ..last.wait.clone() }, ..*last })
}

/// Sightings of a group on storage in one kernel function.
#[derive(Default)]
struct Location<'a> {
    seen_count: u32,
    has_syscall: bool,
    waits: Vec<&'a BlockedThread>,
}

/// Of each group a wait where most of its sightings on storage were: one whose system call is known, which names the file, and that
/// was seen last, of a thread that `may_stand_for` it.
fn chain_ends(waits: &[BlockedThread], may_stand_for: impl Fn(&BlockedThread) -> bool) -> Vec<&BlockedThread> {
    let mut locations: FxHashMap<(u16, Option<&Name>), Location> = FxHashMap::default();
    for thread in waits.iter().filter(|thread| thread.class == WaitClass::Disk) {
        let wait = &thread.wait;
        let location = locations.entry((wait.group, wait.wchan.as_ref())).or_default();
        location.seen_count += u32::from(wait.seen_count);
        location.has_syscall |= wait.syscall.is_some();
        location.waits.push(thread);
    }
    let mut most: FxHashMap<u16, (Option<&Name>, Location)> = FxHashMap::default();
    for ((group, wchan), location) in locations {
        // The name decides between equals, so that the same sample always gives the same result.
        let rank = |wchan, location: &Location| (location.seen_count, location.has_syscall, wchan);
        if most.get(&group).is_none_or(|(name, best)| rank(wchan, &location) > rank(*name, best)) {
            most.insert(group, (wchan, location));
        }
    }
    let ends = most.into_values().filter_map(|(_, location)| {
        let candidates = location.waits.into_iter().filter(|thread| may_stand_for(thread));
        candidates.max_by_key(|thread| (thread.wait.syscall.is_some(), thread.wait.last_sub_sample, thread.wait.task))
    });
    ends.collect()
}

/// Whether a thread may be shown in an earlier wait: not if it waits for memory or for completions by now, or has been in its last wait
/// for long.
fn may_stand_for(threads: &[BlockedThread], end: &BlockedThread, now_ns: u64) -> bool {
    let last = threads
        .binary_search_by_key(&end.wait.task, |thread: &BlockedThread| thread.wait.task)
        .ok()
        .and_then(|at| threads.get(at));
    last.is_some_and(|last| {
        let short = now_ns.saturating_sub(last.wait.blocked_since_ns) < LONG_WAIT_NS;
        matches!(last.class, WaitClass::Disk | WaitClass::Lock) && (short || last.wait.wchan == end.wait.wchan)
    })
}

/// The entry of a thread in a list that is sorted by task.
pub fn find_blocked(threads: &[BlockedThread], task: TaskId) -> Option<&BlockedThread> {
    let at = threads.binary_search_by_key(&task, |thread| thread.wait.task).ok()?;
    threads.get(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::task::RawSyscall;
    use crate::synthetic;

    const NOW_NS: u64 = 100 * LONG_WAIT_NS;

    /// A wait in `wchan`, in the system call with this number.
    fn wait(
        tid: u32,
        class: WaitClass,
        wchan: &str,
        call: Option<i64>,
        seen_count: u16,
        last_sub_sample: u16,
    ) -> BlockedThread {
        let wait = BlockedWait {
            wchan: Some(Name::from(wchan)),
            syscall: call.map(|number| RawSyscall { number, arguments: [3, 0, 0] }),
            seen_count,
            last_sub_sample,
            blocked_since_ns: NOW_NS,
            ..synthetic::waits::blocked(synthetic::task_id(1, tid), Name::default())
        };
        BlockedThread { wait, class }
    }

    fn with(thread: &BlockedThread, seen_count: u16, blocked_since_ns: u64) -> BlockedThread {
        BlockedThread { wait: BlockedWait { seen_count, blocked_since_ns, ..thread.wait.clone() }, class: thread.class }
    }

    fn merged(blocked: &[BlockedThread]) -> Vec<BlockedThread> {
        merge_waits(blocked, NOW_NS)
    }

    #[test]
    fn a_thread_that_queues_again_is_shown_where_it_was_on_storage() {
        let on_storage = wait(40, WaitClass::Disk, "__iomap_dio_rw", Some(18), 1, 3);
        let (recent, long_ago) = (NOW_NS - 1, NOW_NS - LONG_WAIT_NS);
        let cases = [
            (WaitClass::Lock, recent, true),
            (WaitClass::Memory, recent, false),
            (WaitClass::Aio, recent, false),
            (WaitClass::Lock, long_ago, false),
        ];
        for (class, since_ns, is_end) in cases {
            let last = with(&wait(40, class, "last", None, 8, 9), 8, since_ns);
            let other = wait(41, WaitClass::Lock, "last", None, 9, 9);
            let found = merged(&[on_storage.clone(), last.clone(), other.clone()]);
            let expected = if is_end { &on_storage } else { &last };
            assert_eq!(found, [with(expected, 9, since_ns), other], "{class:?} since {since_ns}");
        }
    }

    #[test]
    fn another_thread_of_the_group_stands_in_for_one_that_waits_elsewhere() {
        let found = merged(&[
            wait(40, WaitClass::Disk, "__iomap_dio_rw", Some(18), 1, 0),
            wait(40, WaitClass::Lock, "last", None, 9, 9),
            wait(41, WaitClass::Disk, "__iomap_dio_rw", Some(18), 1, 1),
            wait(41, WaitClass::Memory, "last", None, 9, 9),
        ]);
        assert_eq!(found.iter().map(|thread| thread.class).collect::<Vec<_>>(), [WaitClass::Disk, WaitClass::Memory]);
    }

    #[test]
    fn the_location_with_most_sightings_is_the_end_with_the_system_call_that_is_known() {
        let found = merged(&[
            wait(40, WaitClass::Disk, "folio_wait_bit", None, 1, 9),
            wait(40, WaitClass::Disk, "jbd2_log_wait_commit", Some(74), 1, 0),
            wait(41, WaitClass::Disk, "folio_wait_bit", None, 1, 1),
            wait(42, WaitClass::Disk, "jbd2_log_wait_commit", None, 2, 4),
            wait(43, WaitClass::Disk, "submit_bio_wait", None, 1, 5),
        ]);
        let short: Vec<_> = found.iter().map(|thread| (thread.wait.wchan.clone().unwrap(), thread.wait.seen_count)).collect();
        let expected =
            [("jbd2_log_wait_commit", 2), ("folio_wait_bit", 1), ("jbd2_log_wait_commit", 2), ("submit_bio_wait", 1)];
        assert_eq!(short, expected.map(|(name, count)| (Name::from(name), count)));
        assert_eq!(found[0].wait.syscall.map(|call| call.number), Some(74));
    }
}
