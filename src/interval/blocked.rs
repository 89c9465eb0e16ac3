//! Idle-but-blocked, the headline: how much of the time that no task used would have been used, had the tasks of this
//! box not been stuck. metrics.md section 3.
//!
//! Blocked are threads on storage (D, or asleep for asynchronous completions while a device has requests in flight), in
//! memory reclaim, and behind storage: in a lock wait, or waiting for a peer of the group, in a group that has a thread on
//! storage. It is an upper bound of what is to be gained. Who counts at one sub-sample is said in `blocked/counted.rs`.

mod counted;
mod looks;

use rustc_hash::FxHashSet;

use crate::ids::{DiskId, GroupId};
use crate::interval::cpu::CpuSpan;
use crate::interval::disk::DiskSpan;
use crate::interval::pressure::PressureSpan;
use crate::interval::task::TaskSpan;
use crate::sample::waits::{BlockedThread, Call, Queue, QueueKind, ThreadWaits, WaitClass};
use crate::sample::{Host, Name, Sample};
use crate::units::reaches;
use counted::{Circumstances, Counted};
use looks::{Look, looks};

/// The figures behind the verdict; shares of the box.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IdleBlocked {
    /// Share of the box that was available while a blocked thread could have used it.
    pub ratio: f64,
    /// The same as a number of CPUs
    pub cpus: f64,
    /// available − idle-but-blocked: the real headroom
    pub free: f64,
    /// idle + iowait, over the same sub-samples
    pub available: f64,
    /// Something that would count could not be seen: the figure is written `≥`.
    pub lower_bound: bool,
    /// Mean number of blocked threads
    pub blocked_threads: f64,
    /// Groups with blocked threads, most blocked first.
    pub groups: Vec<GroupBlocked>,
    pub witnesses: Witnesses,
    /// Sub-samples that this rests on
    pub sub_samples: u32,
}

/// One group of threads that work together.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupBlocked {
    pub group: GroupId,
    /// What it is called: the command of its process, or of its siblings
    pub name: Name,
    pub processes: u32,
    /// Of one process alone
    pub pid: Option<u32>,
    /// Mean numbers of its threads over the sub-samples
    pub storage: f64,
    pub aio: f64,
    pub memory: f64,
    /// In D with a hidden wait channel while some device had requests in flight
    pub hidden: f64,
    /// Behind storage, as the futex call itself (or a kernel lock) shows
    pub lock_by_call: f64,
    /// Behind storage, by inference from wake-ups and a holder on storage
    pub lock_by_inference: f64,
    /// Waiting for a process of the group, over a pipe or a socket, that is on storage
    pub behind_peer: f64,
    /// Share of the box that it explains
    pub ratio: f64,
    /// The thread that was seen on storage most: the end of the chain
    pub holder: Option<BlockedThread>,
    /// The device that the holder waits for
    pub device: Option<(DiskId, DeviceBy)>,
    /// How many of its threads were seen on storage in this interval: in a convoy they are so in turn
    pub seen_on_storage: u32,
    /// What stands between those that wait and the holder, most waiters first
    pub queues: Vec<Queueing>,
}

/// One kind of queue of a group, as a mean over the interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Queueing {
    pub kind: QueueKind,
    /// Mean number of threads in it
    pub threads: f64,
    /// Share of them at one futex address
    pub at_one: f64,
    pub channel: Option<Name>,
    /// The file whose lock they wait for
    pub file: Option<Name>,
    /// The process that has it, where the kernel says so
    pub holder: Option<u32>,
}

impl GroupBlocked {
    /// Mean number of threads behind a lock.
    pub fn behind(&self) -> f64 {
        self.lock_by_call + self.lock_by_inference
    }

    /// Whether the end of its chain is storage that is no block device of this machine.
    pub fn is_elsewhere(&self) -> bool {
        self.holder.as_ref().is_some_and(BlockedThread::is_elsewhere)
    }

    /// Mean number of blocked threads.
    pub fn blocked(&self) -> f64 {
        self.storage + self.aio + self.memory + self.hidden + self.behind() + self.behind_peer
    }
}

/// How it is known which device a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceBy {
    /// The descriptor of its system call leads to a file on that device.
    File,
    /// It is the only device with requests in flight.
    OnlyBusy,
}

/// What the classic tools say of the same time, side by side.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Witnesses {
    pub iowait: Option<f64>,
    pub psi_io_some: Option<f64>,
    /// Mean number of threads in D (storage, reclaim or other), kernel threads left out; with those that wait in S for reclaim or
    /// for a file system in user space
    pub d_threads: f64,
    /// Mean number of requests outstanding; `None` where diskstats could not be read
    pub in_flight: Option<f64>,
    /// Mean number of threads waiting for a CPU
    pub run_queue_wait: Option<f64>,
}

/// A device with at least this mean number of requests outstanding has something to do.
const AT_WORK: f64 = 0.2;

impl IdleBlocked {
    pub(super) fn between(
        host: &Host,
        older: &Sample,
        newer: &Sample,
        cpu: Option<&CpuSpan>,
        tasks: Option<&TaskSpan>,
        pressure: &PressureSpan,
        disks: &[DiskSpan],
    ) -> Option<IdleBlocked> {
        let cpus = newer.cpu.as_ref().ok()?.cpus.len().max(1) as f64;
        let looks: Vec<Look> = looks(host.ticks_per_second as f64, older, newer, cpus);
        let whole: f64 = looks.iter().map(|look| look.seconds).sum();
        if whole <= 0.0 {
            return None;
        }
        let circumstances = Circumstances::of(older, newer, looks.iter().map(|look| (look.sub, look.seconds)), disks);
        let mut result = IdleBlocked { sub_samples: u32::try_from(looks.len()).unwrap_or(u32::MAX), ..IdleBlocked::default() };
        let mut groups: Vec<Option<GroupBlocked>> = vec![None; newer.waits.groups.len()];
        let (mut in_flight, mut d_threads) = (Some(0.0), 0.0);
        for look in &looks {
            let part = look.seconds / whole;
            let outstanding = look.sub.in_flight;
            in_flight = in_flight.zip(outstanding).map(|(sum, now)| sum + f64::from(now) * part);
            let counted: Vec<Counted> = circumstances.counted(look.sub);
            let blocked: f64 = counted.iter().map(Counted::sum).sum();
            let stuck = look.available.min(blocked);
            result.cpus += stuck * part;
            result.available += look.available * part / cpus;
            result.blocked_threads += blocked * part;
            for (row, counted) in look.sub.groups.iter().zip(&counted) {
                d_threads += (f64::from(row.storage) + f64::from(row.memory) + f64::from(row.other_blocked)) * part;
                let index = usize::from(row.group);
                let (Some(slot), Some(id)) = (groups.get_mut(index), newer.waits.groups.get(index)) else { continue };
                if counted.sum() > 0.0 {
                    let group = slot.get_or_insert_with(|| GroupBlocked::new(id, older, newer));
                    group.add(counted, part, stuck * part / cpus * counted.sum() / blocked);
                }
            }
        }
        result.ratio = result.cpus / cpus;
        // Time that was used without a tick seeing it is not free, whatever /proc/stat calls it.
        if let Some(cpu) = cpu.filter(|cpu| cpu.hidden > 0.0) {
            result.available = result.available.min(cpu.available());
        }
        result.free = (result.available - result.ratio).max(0.0);
        result.lower_bound = is_lower_bound(host, newer, in_flight);
        let mut found = Vec::new();
        let only_busy = only_busy(newer, disks);
        for (index, group) in groups.into_iter().enumerate() {
            let Some(mut group) = group else { continue };
            group.queues = queues(newer, index, result.sub_samples);
            group.holder = holder(host, newer, index, &group);
            group.device = device(group.holder.as_ref(), only_busy);
            group.seen_on_storage = u32::try_from(on_storage(newer, index).count()).unwrap_or(u32::MAX);
            found.push(group);
        }
        found.sort_by(|a, b| b.blocked().total_cmp(&a.blocked()));
        result.groups = found;
        result.witnesses = Witnesses {
            iowait: cpu.map(|cpu| cpu.total.iowait),
            psi_io_some: pressure.io_some.map(|share| share.0),
            d_threads,
            in_flight,
            run_queue_wait: tasks.and_then(|tasks| tasks.run_queue_wait),
        };
        Some(result)
    }
}

/// Whether threads may be stuck that we cannot see being so: processes are hidden, or a thread that is at work keeps its
/// wait channel from us where others of its group are in D. Without privilege it may also wait for completions.
fn is_lower_bound(host: &Host, newer: &Sample, in_flight: Option<f64>) -> bool {
    if newer.tasks.as_ref().is_ok_and(|tasks| tasks.hidden.processes) {
        return true;
    }
    let rows = newer.waits.sub_samples.iter().flat_map(|sub| &sub.groups);
    let in_d: FxHashSet<u16> = rows.filter(|row| row.storage > 0 || row.other_blocked > 0).map(|row| row.group).collect();
    let completions = !host.privilege.sees_other_users && in_flight.is_some_and(|requests| requests >= 0.5);
    let mut at_work = newer.waits.threads.iter().filter(|waits| waits.seen[WaitClass::Hidden as usize] > 0);
    at_work.any(|waits| completions || in_d.contains(&waits.group))
}

impl GroupBlocked {
    fn new(id: &GroupId, older: &Sample, newer: &Sample) -> GroupBlocked {
        let Called { name, processes, pid } = called(id, older, newer);
        GroupBlocked {
            group: id.clone(),
            name,
            processes,
            pid,
            storage: 0.0,
            aio: 0.0,
            memory: 0.0,
            hidden: 0.0,
            lock_by_call: 0.0,
            lock_by_inference: 0.0,
            behind_peer: 0.0,
            ratio: 0.0,
            holder: None,
            device: None,
            seen_on_storage: 0,
            queues: Vec::new(),
        }
    }

    fn add(&mut self, counted: &Counted, part: f64, ratio: f64) {
        self.storage += counted.storage * part;
        self.aio += counted.aio * part;
        self.memory += counted.memory * part;
        self.hidden += counted.hidden * part;
        self.lock_by_call += counted.lock_by_call * part;
        self.lock_by_inference += counted.lock_by_inference * part;
        self.behind_peer += counted.behind_peer * part;
        self.ratio += ratio;
    }
}

/// What a group is called, and how many processes it has. One that has ended is called what it was when it was last seen: in
/// the older sample, or by the sub-samples.
pub fn called(id: &GroupId, older: &Sample, newer: &Sample) -> Called {
    let seen = [newer, older].into_iter().find_map(|sample| {
        let mut members = sample.tasks.as_ref().ok()?.members(id);
        let first = members.next()?;
        let processes = u32::try_from(members.count()).unwrap_or(u32::MAX).saturating_add(1);
        Some(Called { name: first.comm.clone(), processes, pid: (processes == 1).then_some(first.pid) })
    });
    seen.unwrap_or_else(|| {
        let index = newer.waits.groups.iter().position(|group| group == id);
        let at_work = newer.waits.blocked.iter().find(|thread| index == Some(usize::from(thread.group)));
        let name = at_work.map(|thread| thread.comm.clone()).unwrap_or_default();
        Called { name, processes: 0, pid: at_work.map(|thread| thread.task.pid) }
    })
}

/// How a group is spoken of.
#[derive(Clone, Debug)]
pub struct Called {
    pub name: Name,
    pub processes: u32,
    /// Of one process alone
    pub pid: Option<u32>,
}

fn on_storage(newer: &Sample, group: usize) -> impl Iterator<Item = &BlockedThread> {
    let there = move |thread: &&BlockedThread| usize::from(thread.group) == group && thread.class == WaitClass::Disk;
    newer.waits.blocked.iter().filter(there)
}

/// The end of a group's chain: whom the kernel names as holder of a file lock that he keeps, else who was seen on storage
/// most. A lock that many want is held through an fsync rather than through a read that missed the cache. Where it goes from
/// one to the next, any of them will do: best one of whom is known what he did.
fn holder(host: &Host, newer: &Sample, index: usize, group: &GroupBlocked) -> Option<BlockedThread> {
    let first = group.queues.first();
    let named = first.and_then(|queue| queue.holder);
    let goes_round =
        first.is_some_and(|queue| queue.kind == QueueKind::FileLock) && named.is_some_and(|pid| queues_too(newer, pid));
    let queued = reaches(group.behind(), 1.0);
    let syncs = |thread: &BlockedThread| {
        let call = thread.call.and_then(|call| Call::from_number(host.machine.as_bytes(), call));
        queued && call.is_some_and(Call::is_sync)
    };
    let rank = |thread: &&BlockedThread| {
        let is_named = Some(thread.task.pid) == named;
        (is_named && !goes_round, syncs(thread), thread.disk.is_some(), is_named, thread.times)
    };
    on_storage(newer, index).max_by_key(rank).cloned()
}

/// Whether a process waits for locks longer than it is on storage, where it is at all: it has its lock for a moment.
fn queues_too(newer: &Sample, pid: u32) -> bool {
    let looks = |waits: &ThreadWaits, class: WaitClass| u32::from(waits.seen[class as usize]);
    let threads = newer.waits.threads.iter().filter(|waits| waits.task.pid == pid && looks(waits, WaitClass::Disk) > 0);
    let (locks, storage) = threads.fold((0, 0), |(locks, storage), waits| {
        (locks + looks(waits, WaitClass::Lock), storage + looks(waits, WaitClass::Disk))
    });
    locks > storage
}

fn queues(newer: &Sample, group: usize, looks: u32) -> Vec<Queueing> {
    let mean = |queue: &Queue| Queueing {
        kind: queue.kind,
        threads: f64::from(queue.times) / f64::from(looks.max(1)),
        at_one: f64::from(queue.times_at_one) / f64::from(queue.times.max(1)),
        channel: queue.channel.clone(),
        file: queue.file.clone(),
        holder: queue.holder,
    };
    let mut list: Vec<Queueing> =
        newer.waits.queues.iter().filter(|queue| usize::from(queue.group) == group).map(mean).collect();
    list.sort_by(|a, b| b.threads.total_cmp(&a.threads));
    list
}

/// By the file that the holder has open, or because no other device has anything to do.
fn device(holder: Option<&BlockedThread>, only_busy: Option<DiskId>) -> Option<(DiskId, DeviceBy)> {
    match holder {
        Some(holder) if holder.disk.is_some() => holder.disk.map(|disk| (disk, DeviceBy::File)),
        Some(holder) if holder.is_elsewhere() => None,
        _ => only_busy.map(|disk| (disk, DeviceBy::OnlyBusy)),
    }
}

/// The one device that has something to do. A device that others stand on is busy for them.
fn only_busy(newer: &Sample, disks: &[DiskSpan]) -> Option<DiskId> {
    let facts = newer.disks.as_ref().ok()?;
    let at_work = |span: &&DiskSpan| span.silent || span.operations().map(|(_, op)| op.concurrency).sum::<f64>() >= AT_WORK;
    let busy: Vec<&DiskSpan> = disks.iter().filter(at_work).collect();
    let below: Vec<DiskId> =
        busy.iter().filter_map(|span| facts.get(span.index)).flat_map(|disk| disk.facts.slaves.iter().copied()).collect();
    let mut top = busy.iter().filter(|span| !below.contains(&span.id));
    top.next().filter(|_| top.next().is_none()).map(|only| only.id)
}
