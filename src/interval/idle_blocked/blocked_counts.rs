//! Counts the blocked threads of one sub-sample by group: which threads count depends on what the whole interval shows of
//! their group.

use super::blocked_group::is_busy;
use super::weighted_sub_samples::WeightedSubSample;
use crate::ids::DiskId;
use crate::interval::aio_waits::AioWaits;
use crate::interval::blocked_threads::BlockedThread;
use crate::interval::disk::DiskSpan;
use crate::interval::ipc_peers::IpcPeers;
use crate::interval::lock_holders::{HolderActivity, LockHolder};
use crate::interval::storage_turns::StorageTurns;
use crate::interval::wait_counts::{GroupWaits, WaitCounts};
use crate::interval::wait_queues::file_lock_holders;
use crate::sample::Sample;
use crate::sample::task::TaskState;
use crate::sample::waits::WaitClass;
use crate::sample::waits::class::{self, HeldOnStorage};

/// What the whole interval shows of each group, by index into `Waits::groups`.
pub struct GroupConditions<'a> {
    /// Whether a thread of the group was on storage for enough of the interval
    on_storage: Vec<bool>,
    /// Whether the file lock that its threads wait for is held by a process of another group
    file_lock_held_outside: Vec<bool>,
    /// Which threads in io_getevents and io_uring_enter may wait for requests
    aio_waits: &'a AioWaits,
    /// Share of its threads in contended futexes whose lock names its holder
    known_holder_share: Vec<f64>,
    /// Share of its threads in contended futexes whose lock names a holder that waits for an event
    event_waiter_share: Vec<f64>,
    /// Which threads in futexes may wait for a thread on storage
    turns: StorageTurns,
    /// Share of its threads in D in functions that are not known whose file is on a block device with requests in flight
    unknown_on_device_share: Vec<f64>,
    /// Whether a thread of the group was on storage in a page fault, or in a call that changes the memory map, for enough of the interval
    on_storage_in_memory_map: Vec<bool>,
    /// Whether the lock inside the kernel that its threads wait for is held by a thread on storage; `None` if the holder is not known
    kernel_lock_behind_storage: Vec<Option<bool>>,
    /// Whether that holder was on a CPU, or runnable, in the few readings of the interval
    kernel_lock_holder_runs: Vec<bool>,
    /// Share of its threads in pipes and sockets that wait for a process on storage
    behind_ipc_peer_share: Vec<f64>,
}

/// Holders of locks that name them, by group.
#[derive(Clone, Copy, Default)]
pub struct Holders<'a> {
    pub futex: &'a [LockHolder],
    pub kernel: &'a [LockHolder],
    /// `LockSpans::event_waiter_shares`
    pub event_waiter_shares: &'a [f64],
}

/// Numbers of threads of one group that count as blocked in one sub-sample.
#[derive(Debug)]
pub struct BlockedCounts {
    pub storage: f64,
    pub aio: f64,
    pub memory: f64,
    pub hidden: f64,
    pub lock_contended: f64,
    pub lock_inferred: f64,
    /// Part of `lock_inferred`: no thread was seen to take its turn on storage
    pub lock_unconfirmed: f64,
    pub behind_ipc_peer: f64,
}

/// Readings of the holders of locks inside the kernel in an interval from which a runnable one counts as the holder of a file's lock.
const MIN_RUNNING_READINGS: u32 = 4;

impl<'a> GroupConditions<'a> {
    /// `weighted`: the sub-samples, with the time that each counts for.
    pub fn new(
        older: &Sample,
        newer: &Sample,
        (counts, weighted): (&WaitCounts, &[WeightedSubSample]),
        (disks, aio_waits): (&[DiskSpan], &'a AioWaits),
        (ipc_peers, holders, turns): (&IpcPeers, Holders, &StorageTurns),
        blocked_threads: &[BlockedThread],
    ) -> GroupConditions<'a> {
        let groups = newer.waits.groups.len();
        let mut seconds = vec![0.0; counts.sub_samples.len()];
        for entry in weighted {
            if let Some(weight) = seconds.get_mut(entry.index) {
                *weight = entry.seconds;
            }
        }
        let mut locked_by_others = vec![false; groups];
        for (group, holder) in file_lock_holders(&newer.waits, counts) {
            let tasks = [newer, older].into_iter().flat_map(|sample| &sample.tasks);
            let process = tasks.filter_map(|tasks| tasks.process(holder)).next();
            let (Some(process), Some(id)) = (process, newer.waits.groups.get(usize::from(group))) else { continue };
            if let Some(others) = locked_by_others.get_mut(usize::from(group)) {
                *others = process.group() != *id;
            }
        }
        let mut known_holder_share = vec![0.0; groups];
        for holder in holders.futex {
            if let Some(share) = known_holder_share.get_mut(usize::from(holder.group)) {
                *share = holder.share;
            }
        }
        let mut kernel_lock_behind_storage = vec![None; groups];
        let mut kernel_lock_holder_runs = vec![false; groups];
        for holder in holders.kernel {
            let group = usize::from(holder.group);
            if let (Some(behind), Some(runs)) =
                (kernel_lock_behind_storage.get_mut(group), kernel_lock_holder_runs.get_mut(group))
            {
                *behind = holder.is_behind_storage().then_some(true).or(holder.is_off_storage().then_some(false));
                *runs = holder.last_activity() == HolderActivity::Running
                    && newer.waits.kernel_lock_readings < MIN_RUNNING_READINGS;
            }
        }
        GroupConditions {
            known_holder_share,
            event_waiter_share: holders.event_waiter_shares.to_vec(),
            turns: turns.clone(),
            unknown_on_device_share: unknown_on_device_shares(newer, disks, blocked_threads),
            kernel_lock_behind_storage,
            kernel_lock_holder_runs,
            on_storage: counts.groups_on_storage(groups, seconds.iter().copied()),
            on_storage_in_memory_map: counts.groups_seen(groups, seconds.into_iter(), |row| row.storage_in_memory_map > 0),
            file_lock_held_outside: locked_by_others,
            aio_waits,
            behind_ipc_peer_share: ipc_peers.blocked_shares(groups, counts),
        }
    }

    /// Parallel to `rows`, the groups of one sub-sample. `in_flight`: of the same sub-sample. If it is unknown, threads that wait for
    /// completions, and hidden ones in D, are not counted, and the figure is a lower bound (`is_lower_bound`).
    pub fn blocked_counts(&self, rows: &[GroupWaits], in_flight: Option<u32>) -> Vec<BlockedCounts> {
        let requests = f64::from(in_flight.unwrap_or(0));
        let storage: f64 = rows.iter().map(|row| f64::from(row.storage)).sum();
        let sleepers: f64 = rows.iter().map(|row| self.aio_waiters(row)).sum();
        // At most as many threads wait for completions as there are requests for which no thread in D waits.
        let most = (requests - storage).max(0.0);
        let part = if sleepers > most { most / sleepers } else { 1.0 };
        rows.iter().map(|row| self.count_group(row, requests > 0.0, part)).collect()
    }

    /// Whether a thread of that group is in memory reclaim in the sub-sample.
    pub fn is_in_reclaim(group: u16, rows: &[GroupWaits]) -> bool {
        rows.iter().any(|row| row.group == group && row.memory > 0)
    }

    /// Whether threads of that group that wait for a lock count as blocked. `rows`: the groups of the sub-sample.
    pub fn is_behind_storage(&self, group: u16, rows: &[GroupWaits]) -> bool {
        let now = rows.iter().find(|row| row.group == group).is_some_and(|row| row.storage > 0);
        now || self.on_storage.get(usize::from(group)).copied().unwrap_or(false)
    }

    /// Whether threads of that group that wait for a lock inside the kernel count as blocked: its holder is on storage or, if it is not
    /// known, a thread of the group is there in a call in which it may hold that lock.
    pub fn is_kernel_lock_behind_storage(&self, group: u16, rows: &[GroupWaits], held: HeldOnStorage) -> bool {
        let by_holder = self.kernel_lock_behind_storage.get(usize::from(group)).copied().flatten();
        let runs = self.kernel_lock_holder_runs.get(usize::from(group)).copied().unwrap_or(false);
        // The holder of a file's lock on a fast device is on a CPU in between: few readings say little.
        let by_holder = by_holder.filter(|_| !runs || !matches!(held, HeldOnStorage::Any));
        by_holder.unwrap_or_else(|| match held {
            HeldOnStorage::Any => self.is_behind_storage(group, rows),
            HeldOnStorage::MemoryMapCalls => {
                let now = rows.iter().any(|row| row.group == group && row.storage_in_memory_map > 0);
                now || self.on_storage_in_memory_map.get(usize::from(group)).copied().unwrap_or(false)
            }
            HeldOnStorage::Never => false,
        })
    }

    /// Of the threads of a group in locks inside the kernel, those that count as blocked.
    fn behind_kernel_locks(&self, row: &GroupWaits) -> f64 {
        let others = row.kernel_lock.saturating_sub(row.mmap_lock).saturating_sub(row.lock_off_storage);
        let locks = [
            (others, HeldOnStorage::Any),
            (row.mmap_lock, HeldOnStorage::MemoryMapCalls),
            (row.lock_off_storage, HeldOnStorage::Never),
        ];
        let is_behind = |held| self.is_kernel_lock_behind_storage(row.group, std::slice::from_ref(row), held);
        locks.into_iter().filter(|&(_, held)| is_behind(held)).map(|(threads, _)| f64::from(threads)).sum()
    }

    fn aio_waiters(&self, row: &GroupWaits) -> f64 {
        f64::from(row.aio) * self.aio_waits.share_of_group(row.group)
    }

    fn count_group(&self, row: &GroupWaits, outstanding: bool, part: f64) -> BlockedCounts {
        let is = |flags: &[bool]| flags.get(usize::from(row.group)).copied().unwrap_or(false);
        let behind = self.is_behind_storage(row.group, std::slice::from_ref(row));
        let when = |condition: bool, threads: u16| if condition { f64::from(threads) } else { 0.0 };
        let known = self.known_holder_share.get(usize::from(row.group)).copied().unwrap_or(0.0);
        let events = self.event_waiter_share.get(usize::from(row.group)).copied().unwrap_or(0.0);
        let turns = self.turns.group(row.group);
        let elsewhere = if is(&self.file_lock_held_outside) { row.file_lock } else { 0 };
        let kernel = self.behind_kernel_locks(row);
        let file = f64::from(row.file_lock.saturating_sub(elsewhere));
        let futex = f64::from(row.lock_contended.saturating_sub(row.file_lock).saturating_sub(row.kernel_lock));
        let inferred = row.lock_inferred.saturating_sub(row.lock_likely);
        // Idle workers are in the same wait as threads behind a lock: a crowd that was not seen to take turns counts only while a thread of
        // the group is on storage.
        let unconfirmed = when(row.storage > 0, inferred) * (turns.inferred - turns.seen);
        // A thread may wait for an event because another one writes for it.
        let (events, behind_writer) = if turns.inferred > turns.seen { (0.0, events) } else { (events, 0.0) };
        let unknown = row.other_blocked.saturating_sub(row.hidden_blocked);
        let on_device = self.unknown_on_device_share.get(usize::from(row.group)).copied().unwrap_or(0.0);
        BlockedCounts {
            storage: f64::from(row.storage) + when(outstanding, unknown) * on_device,
            aio: self.aio_waiters(row) * part,
            memory: f64::from(row.memory),
            hidden: when(outstanding, row.hidden_blocked),
            // Where mutexes name their holders, a lone waiter waits for one, too.
            lock_contended: match behind {
                true => file + futex * turns.contended.min(1.0 - events).max(known) + kernel,
                false => (file + futex + f64::from(row.lock_alone)) * known + kernel,
            },
            lock_inferred: when(behind, row.lock_likely) * turns.contended + when(behind, inferred) * turns.seen + unconfirmed,
            lock_unconfirmed: unconfirmed + if behind { futex * turns.contended.min(behind_writer) } else { 0.0 },
            behind_ipc_peer: when(behind, row.ipc_peer)
                * self.behind_ipc_peer_share.get(usize::from(row.group)).copied().unwrap_or(0.0),
        }
    }
}

impl BlockedCounts {
    pub fn total(&self) -> f64 {
        self.storage + self.aio + self.memory + self.hidden + self.lock_contended + self.lock_inferred + self.behind_ipc_peer
    }
}

/// Of each group, by index into `Waits::groups`: of its threads in D in functions that are not known, the share with a file on a block device
/// that has requests in flight.
fn unknown_on_device_shares(newer: &Sample, disks: &[DiskSpan], blocked_threads: &[BlockedThread]) -> Vec<f64> {
    let mut sums = vec![(0.0, 0.0); newer.waits.groups.len()];
    let has_requests = |id: DiskId| disks.iter().any(|disk| disk.id == id && (disk.in_flight > 0 || is_busy(disk)));
    for thread in
        blocked_threads.iter().filter(|thread| thread.class == WaitClass::Other && thread.wait.state == TaskState::Blocked)
    {
        let Some((on_device, all)) = sums.get_mut(usize::from(thread.wait.group)) else { continue };
        let seen = f64::from(thread.wait.seen_count);
        *all += seen;
        *on_device +=
            if is_on_unknown_wait_of_device(thread) && thread.wait.disk.is_some_and(has_requests) { seen } else { 0.0 };
    }
    sums.into_iter().map(|(on_device, all)| if all > 0.0 { on_device / all } else { 0.0 }).collect()
}

/// Whether a thread in D in a function that is not known has a file on a block device.
pub fn is_on_unknown_wait_of_device(thread: &BlockedThread) -> bool {
    thread.class == WaitClass::Other
        && thread.wait.state == TaskState::Blocked
        && thread.wait.disk.is_some()
        && !thread.wait.wchan.as_ref().is_some_and(|channel| class::is_kernel_delay(channel.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{GroupId, ProcessId};
    use crate::sample::Instant;
    use crate::sample::waits::SubSample;

    /// Threads that count as behind a lock in each of ten sub-samples, of five that wait all the time, if the first `holding` sub-samples saw
    /// one of their group on storage.
    fn behind(holding: usize) -> Vec<f64> {
        let sample = |ns| Sample::empty(Instant { boottime_ns: ns, monotonic_ns: ns, realtime_ns: 0 });
        let (older, mut newer) = (sample(0), sample(1_000_000_000));
        newer.waits.groups = vec![GroupId::Process(ProcessId { pid: 7, start_ticks: 1 })];
        let row = |entry| GroupWaits { storage: u16::from(entry < holding), lock_contended: 5, ..GroupWaits::default() };
        let counts = WaitCounts { sub_samples: (0..10).map(|entry| vec![row(entry)]).collect(), ..WaitCounts::default() };
        newer.waits.sub_samples = vec![SubSample::default(); 10];
        let weighted = newer.waits.sub_samples.iter().enumerate();
        let weighted: Vec<WeightedSubSample> = weighted
            .map(|(index, sub_sample)| WeightedSubSample { sub_sample, index, seconds: 0.1, available_cpus: 1.0 })
            .collect();
        let aio_waits = AioWaits::default();
        let conditions = GroupConditions::new(
            &older,
            &newer,
            (&counts, &weighted),
            (&[], &aio_waits),
            (&IpcPeers::default(), Holders::default(), &StorageTurns::default()),
            &[],
        );
        let counted =
            |rows: &Vec<GroupWaits>| conditions.blocked_counts(rows, None).iter().map(|counted| counted.lock_contended).sum();
        counts.sub_samples.iter().map(counted).collect()
    }

    #[test]
    fn a_group_that_is_on_storage_for_a_fifth_of_the_time_is_behind_it_all_the_time() {
        assert_eq!(behind(0), [0.0; 10]);
        assert_eq!(behind(1), [5.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], "only when one was seen there");
        assert_eq!(behind(2), [5.0; 10], "a fifth of the time");
        assert_eq!(behind(3), [5.0; 10]);
    }
}
