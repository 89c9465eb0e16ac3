//! Who waits for whom: from those that wait over the lock, the thread on storage, its file and mount to the device, each
//! link with how it is known.

use serde::Serialize;

use super::remote_waits::{KNOWN_BY, RemoteWait, remote_waits};
use crate::baseline::{LatencyStatus, MAX_UNCONTENDED_OUTSTANDING, find_status};
use crate::findings::formatting::{count, lossy_name, millis, multiple, plural, seconds};
use crate::ids::{DiskId, GroupId};
use crate::interval::Interval;
use crate::interval::disk::{DiskSpan, OpSpan, Operation};
use crate::interval::idle_blocked::{BlockedGroup, DeviceEvidence, WaitQueueSpan};
use crate::sample::disk::find_disk;
use crate::sample::task::TaskState;
use crate::sample::waits::{BlockedThread, Syscall, WaitClass, WaitQueueKind};
use crate::units::reaches_threshold;

/// One group and what it is stuck behind.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitChain {
    /// `postgres (64 processes)`
    pub group_label: String,
    /// Mean number of its threads that are stuck
    pub threads: f64,
    /// From those that wait to what they wait for
    pub links: Vec<ChainLink>,
    pub confidence: ChainConfidence,
}

/// One step of a chain.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChainLink {
    pub what: String,
    /// How it is known
    pub known_by: &'static str,
}

/// How far the whole chain is known: as far as its weakest link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChainConfidence {
    /// Who waits for whom is inferred, and so is the device
    Low,
    /// One link is inferred
    Medium,
    /// Each link is what the kernel says, or there is only one that it can be
    High,
}

impl ChainConfidence {
    pub fn as_str(self) -> &'static str {
        match self {
            ChainConfidence::Low => "low",
            ChainConfidence::Medium => "medium",
            ChainConfidence::High => "high",
        }
    }
}

/// Fewer threads on average are not spoken of.
pub(in crate::findings) const MIN_REPORTED_THREADS: f64 = 0.05;

/// A group spoken of beside the first one explains at least this share of what that one does.
pub(in crate::findings) const MIN_SECONDARY_SHARE: f64 = 0.2;

/// A wait that has lasted so long is told with its length; a shorter one is one of many.
const LONG_WAIT_SECONDS: f64 = 1.0;

/// The chains of the groups that matter, the most blocked first, at most three; after them who waits for remote hosts.
pub fn wait_chains(interval: &Interval, standings: &[LatencyStatus]) -> Vec<WaitChain> {
    let Some(blocked) = &interval.idle_blocked else { return Vec::new() };
    let least = blocked.groups.first().map_or(0.0, BlockedGroup::blocked_threads) * MIN_SECONDARY_SHARE;
    let groups = blocked.groups.iter().filter(|group| group.blocked_threads() >= MIN_REPORTED_THREADS.max(least));
    let chains = groups.map(|group| wait_chain(interval, standings, group));
    // Who only waits for another machine is told where there is room.
    let stuck = |waiting: &RemoteWait| blocked.groups.iter().any(|group| group.group == *waiting.group);
    let others = remote_waits(interval).into_iter().filter(|waiting| !stuck(waiting)).map(|waiting| WaitChain {
        links: vec![ChainLink { what: waiting.describe(), known_by: KNOWN_BY }],
        threads: waiting.threads,
        group_label: waiting.group_label,
        confidence: ChainConfidence::Medium,
    });
    chains.chain(others).take(3).collect()
}

/// The chain of one group.
pub(in crate::findings) fn wait_chain(interval: &Interval, standings: &[LatencyStatus], group: &BlockedGroup) -> WaitChain {
    let mut links = Vec::new();
    let mut guesses = 0;
    let mut push = |what: String, known_by: &'static str, guess: bool| {
        guesses += usize::from(guess);
        links.push(ChainLink { what, known_by });
    };
    for (what, known_by, guess) in queue_links(group) {
        push(what, known_by, guess);
    }
    let on_storage = group.storage + group.hidden;
    if let Some(holder) = group.holder.as_ref().filter(|_| group.storage >= MIN_REPORTED_THREADS) {
        let behind = group.behind_lock() + group.behind_ipc_peer >= MIN_REPORTED_THREADS;
        let named = group.wait_queues.first().is_some_and(|queue| queue.holder == Some(holder.task.pid));
        let known_by = match (behind, named) {
            (true, true) => "the kernel names its process",
            (true, false) => "inference: who of them is on storage",
            (false, _) => "the wait channel",
        };
        // With several at a time on storage it may be any of them.
        let guess = behind && !named && group.storage >= 1.5 && group.lock_inferred < MIN_REPORTED_THREADS;
        push(describe_holder(interval, group, holder), known_by, guess);
        if let Some(file) = &holder.file {
            let mount = holder.mount.as_ref().map_or_else(String::new, |mount| format!(", on {}", lossy_name(mount)));
            push(format!("file {}{mount}", lossy_name(file)), "the descriptor of its call", false);
        }
    } else if on_storage >= MIN_REPORTED_THREADS {
        let (place, known_by) = match group.hidden > group.storage {
            true => ("in D, where is hidden from this user", "the state"),
            false => ("on storage", "the wait channel"),
        };
        push(format!("{} {place}", plural(on_storage, "thread", "threads")), known_by, true);
    }
    if group.aio >= MIN_REPORTED_THREADS {
        push(
            format!("{} asleep for asynchronous completions", plural(group.aio, "thread", "threads")),
            "the wait channel",
            false,
        );
    }
    if group.memory >= MIN_REPORTED_THREADS {
        push(format!("{} in memory reclaim", plural(group.memory, "thread", "threads")), "the wait channel", false);
    }
    if let Some((device, by)) = group.holder_device {
        let limit = bottleneck(interval, standings, device, group.holder.as_ref());
        let answers = limit.map_or_else(|| "answers nothing".into(), |limit| limit.with_iostat_column());
        let (known_by, guess) = match by {
            DeviceEvidence::File if is_block_device_file(group.holder.as_ref()) => ("that file is the device", false),
            DeviceEvidence::File => ("the mount of that file", false),
            DeviceEvidence::OnlyBusy => ("the only device with requests in flight", true),
        };
        push(format!("{}: {answers}", disk_name(interval, device)), known_by, guess);
    } else if on_storage + group.aio >= MIN_REPORTED_THREADS {
        guesses += 1;
    }
    let awaited = remote_waits(interval).into_iter().find(|waiting| *waiting.group == group.group);
    links.extend(awaited.map(|waiting| ChainLink { what: waiting.describe(), known_by: KNOWN_BY }));
    let confidence = match guesses {
        0 => ChainConfidence::High,
        1 => ChainConfidence::Medium,
        _ => ChainConfidence::Low,
    };
    WaitChain { group_label: describe_group(group), threads: group.blocked_threads(), links, confidence }
}

/// Whether a thread's call is about a device and not about a file in a file system.
fn is_block_device_file(thread: Option<&BlockedThread>) -> bool {
    let file = thread.filter(|thread| thread.mount.is_none()).and_then(|thread| thread.file.as_ref());
    file.is_some_and(|file| file.as_bytes().starts_with(b"/dev/"))
}

/// `postgres (64 processes)`, `convoy (4711)`
pub(in crate::findings) fn describe_group(group: &BlockedGroup) -> String {
    let alone = match &group.group {
        GroupId::Process(process) => Some(process.pid),
        GroupId::Siblings { .. } => group.pid,
    };
    match (group.processes, alone) {
        (_, Some(pid)) if group.name.as_bytes().is_empty() => format!("process {pid}"),
        (0 | 1, Some(pid)) => format!("{} ({pid})", lossy_name(&group.name)),
        (0 | 1, None) => lossy_name(&group.name),
        (many, _) => format!("{} ({many} processes)", lossy_name(&group.name)),
    }
}

/// Those that wait for others of their group: words, how it is known, whether that is a guess.
fn queue_links(group: &BlockedGroup) -> Vec<(String, &'static str, bool)> {
    let mut list = Vec::new();
    for queue in group.wait_queues.iter().filter(|queue| is_counted_as_blocked(group, queue)) {
        let verb = if count(queue.threads) == "1" { "waits" } else { "wait" };
        let what = format!("{} {verb} for {}", count(queue.threads), lock_description(queue));
        let (known_by, guess) = match queue.kind {
            WaitQueueKind::Mutex if is_one_address(queue) => ("the futex call: one address", false),
            WaitQueueKind::Mutex => ("the futex call", false),
            WaitQueueKind::Futex => ("inference: they cycle, and one of them is on storage", true),
            WaitQueueKind::FileLock if queue.holder.is_some() => ("the wait channel and /proc/locks", false),
            WaitQueueKind::FileLock | WaitQueueKind::KernelLock => ("the wait channel", false),
            WaitQueueKind::Pipe | WaitQueueKind::Socket | WaitQueueKind::Remote => ("who holds the other end", false),
        };
        list.push((what, known_by, guess));
    }
    if list.is_empty() && group.behind_lock() >= MIN_REPORTED_THREADS {
        let (known_by, guess) = match group.lock_inferred >= MIN_REPORTED_THREADS {
            true => ("inference: they cycle, and one of them is on storage", true),
            false => ("the futex call", false),
        };
        list.push((format!("{} wait for a lock", count(group.behind_lock())), known_by, guess));
    }
    list
}

/// Whether the threads of that queue are among those that are counted as stuck.
fn is_counted_as_blocked(group: &BlockedGroup, queue: &WaitQueueSpan) -> bool {
    let counted = match queue.kind {
        WaitQueueKind::Futex => group.lock_inferred,
        WaitQueueKind::Mutex | WaitQueueKind::FileLock | WaitQueueKind::KernelLock => group.lock_contended,
        WaitQueueKind::Pipe | WaitQueueKind::Socket => group.behind_ipc_peer,
        WaitQueueKind::Remote => return false,
    };
    counted >= MIN_REPORTED_THREADS && queue.threads >= MIN_REPORTED_THREADS
}

/// Whether all of them stand at one address.
fn is_one_address(queue: &WaitQueueSpan) -> bool {
    queue.one_address_share >= 0.8
}

fn lock_description(queue: &WaitQueueSpan) -> String {
    match (queue.kind, &queue.file, &queue.wchan) {
        (WaitQueueKind::Mutex, ..) if is_one_address(queue) => "one mutex".into(),
        (WaitQueueKind::Mutex, ..) => "mutexes".into(),
        (WaitQueueKind::Futex, _, Some(channel)) => format!("a lock, a semaphore or a condition ({})", lossy_name(channel)),
        (WaitQueueKind::Futex, ..) => "a lock, a semaphore or a condition".into(),
        (WaitQueueKind::FileLock, Some(file), _) => format!("the lock of {}", lossy_name(file)),
        (WaitQueueKind::FileLock, ..) => "the lock of a file".into(),
        (WaitQueueKind::KernelLock, file, channel) => {
            let of = file.as_ref().map_or_else(String::new, |file| format!(" of {}", lossy_name(file)));
            let at = channel.as_ref().map_or_else(String::new, |channel| format!(" ({})", lossy_name(channel)));
            format!("a lock inside the kernel{of}{at}")
        }
        (WaitQueueKind::Pipe, ..) => "the other end of a pipe".into(),
        (WaitQueueKind::Socket | WaitQueueKind::Remote, ..) => "the other end of a socket".into(),
    }
}

/// What the judgement that threads wait for a lock rests on, in the words of a sentence.
pub(in crate::findings) fn lock_basis(group: &BlockedGroup) -> String {
    let (call, guessed) = (group.lock_contended >= MIN_REPORTED_THREADS, group.lock_inferred >= MIN_REPORTED_THREADS);
    let most = group.wait_queues.iter().find(|queue| is_counted_as_blocked(group, queue) && queue.kind != WaitQueueKind::Futex);
    let by_call = match most.map(|queue| (queue.kind, queue)) {
        Some((WaitQueueKind::Mutex, queue)) if is_one_address(queue) => "one mutex, by the futex call".to_owned(),
        Some((WaitQueueKind::FileLock, queue)) => match &queue.file {
            Some(file) => format!("of {}, by the wait channel", lossy_name(file)),
            None => "of a file, by the wait channel".into(),
        },
        Some((WaitQueueKind::KernelLock, _)) => "inside the kernel, by the wait channel".into(),
        _ => "by the futex call".into(),
    };
    match (call, guessed) {
        (true, false) => by_call,
        (true, true) => format!("{} {by_call}, the others by inference", count(group.lock_contended)),
        _ => "by inference".into(),
    }
}

/// `in fdatasync (jbd2_log_wait_commit)`
pub(in crate::findings) fn wait_location(interval: &Interval, holder: &BlockedThread) -> String {
    match (syscall_name(interval, holder), &holder.wchan) {
        (Some(call), Some(channel)) => format!("in {call} ({})", lossy_name(channel)),
        (Some(call), None) => format!("in {call}"),
        (None, Some(channel)) => format!("in {}", lossy_name(channel)),
        (None, None) => "on storage".into(),
    }
}

fn syscall_name(interval: &Interval, thread: &BlockedThread) -> Option<&'static str> {
    let call = thread.syscall?;
    match call.number {
        -1 => Some("a page fault"),
        _ => Syscall::from_number(interval.host.machine.as_bytes(), call).map(|call| call.name),
    }
}

/// `worker/4755 in fsync (jbd2_log_wait_commit), one of 9 in turn`
fn describe_holder(interval: &Interval, group: &BlockedGroup, holder: &BlockedThread) -> String {
    let mut words = format!("{}/{} {}", lossy_name(&holder.comm), holder.task.tid, wait_location(interval, holder));
    match current_wait_seconds(interval, holder).filter(|&length| length >= LONG_WAIT_SECONDS) {
        Some(length) => words.push_str(&format!(", for {}", seconds(length))),
        None if f64::from(group.seen_on_storage) >= group.storage + 1.0 => {
            words.push_str(&format!(", one of {} seen there in turn", group.seen_on_storage));
        }
        None if group.storage >= 1.5 => words.push_str(&format!(", one of {} there", count(group.storage))),
        None => {}
    }
    words
}

/// How long a thread has been in the one wait it is in; `None` when it is in it no more.
pub(in crate::findings) fn current_wait_seconds(interval: &Interval, thread: &BlockedThread) -> Option<f64> {
    if let Ok(tasks) = &interval.newer.tasks {
        let (_, now) = tasks.thread(thread.task)?;
        let same = (now.state == TaskState::Blocked || thread.is_non_block_storage())
            && now.last_timeslice_ns.is_none_or(|at| at <= thread.blocked_since_ns)
            // In a convoy it may queue again, for as long as that lasts.
            && now.wait.wchan.as_ref().ok().is_none_or(|channel| thread.wchan.as_ref().is_none_or(|there| there == channel));
        if !same {
            return None;
        }
    }
    Some(interval.at().boottime_ns.saturating_sub(thread.blocked_since_ns) as f64 / 1e9)
}

/// The operation that bounds who waits for a device.
#[derive(Clone, Copy, Debug)]
pub(in crate::findings) struct Bottleneck<'a> {
    pub operation: Operation,
    pub span: &'a OpSpan,
    pub standing: Option<&'a LatencyStatus>,
}

impl Bottleneck<'_> {
    /// `f_await 10.3 ms = 1.0× its baseline`
    pub fn with_iostat_column(&self) -> String {
        let column = match self.operation {
            Operation::Read => "r_await",
            Operation::Write => "w_await",
            Operation::Flush => "f_await",
            Operation::Discard => "d_await",
        };
        self.versus_baseline(column)
    }

    /// `flushes 10.3 ms = 1.0× its baseline`
    pub fn sentence(&self) -> String {
        self.versus_baseline(self.operation.plural())
    }

    pub fn multiple(&self) -> Option<f64> {
        // What a device does with one request at a time is its baseline, until that is learned.
        let told = |standing: &&LatencyStatus| !standing.provisional || self.span.concurrency > MAX_UNCONTENDED_OUTSTANDING;
        self.standing.filter(told)?.multiple
    }

    fn versus_baseline(&self, word: &str) -> String {
        let time = self.span.r#await.map_or_else(|| "-".into(), |time| millis(time.0));
        let baseline = self.standing.and_then(|standing| Some((self.multiple()?, standing.provisional)));
        let baseline = baseline.map(|(times, provisional)| {
            format!(" = {} its {}baseline", multiple(times), if provisional { "provisional " } else { "" })
        });
        format!("{word} {time}{}", baseline.unwrap_or_default())
    }
}

/// What a thread in that call needs of the device.
enum RequiredIo {
    Reads,
    Writes,
    /// All of it on the medium: a flush, and the writes before it
    Durability,
    Unknown,
}

fn required_io(interval: &Interval, holder: &BlockedThread) -> RequiredIo {
    const JOURNALS: [&str; 8] = [
        "jbd2_",
        "wait_transaction",
        "start_this_handle",
        "add_transaction_credits",
        "do_get_write_access",
        "xlog_",
        "xfs_log",
        "btrfs_wait_log",
    ];
    let channel = holder.wchan.as_ref().map(|channel| channel.as_bytes()).unwrap_or_default();
    if JOURNALS.iter().any(|prefix| channel.starts_with(prefix.as_bytes())) {
        return RequiredIo::Durability;
    }
    match syscall_name(interval, holder) {
        Some("read" | "pread64" | "readv" | "preadv" | "preadv2" | "a page fault") => RequiredIo::Reads,
        Some("write" | "pwrite64" | "writev" | "pwritev" | "pwritev2") => RequiredIo::Writes,
        Some("fsync" | "fdatasync" | "sync" | "syncfs" | "sync_file_range" | "msync") => RequiredIo::Durability,
        _ => RequiredIo::Unknown,
    }
}

/// Which operation of a device bounds who waits for it: the one that the holder's call needs, else the one that takes most
/// of the device's time. `None` where nothing completed.
pub(in crate::findings) fn bottleneck<'a>(
    interval: &'a Interval,
    standings: &'a [LatencyStatus],
    device: DiskId,
    holder: Option<&BlockedThread>,
) -> Option<Bottleneck<'a>> {
    let span = interval.disk(device)?;
    let done = || span.operations().filter(|(_, op)| op.completed > 0 && op.r#await.is_some());
    let only = |wanted: Operation| done().find(|(operation, _)| *operation == wanted);
    let wanted = match holder.map(|holder| required_io(interval, holder)) {
        Some(RequiredIo::Reads) => only(Operation::Read),
        Some(RequiredIo::Writes) => only(Operation::Write),
        Some(RequiredIo::Durability) => durability_operation(span).and_then(only),
        Some(RequiredIo::Unknown) | None => None,
    };
    let (operation, op) = wanted.or_else(|| done().max_by(|a, b| a.1.concurrency.total_cmp(&b.1.concurrency)))?;
    let standing = find_status(standings, device, operation);
    Some(Bottleneck { operation, span: op, standing })
}

/// A write that waits for a flush, or brings one along, has the flush's time in its own await. So flushes bound, unless
/// the writes take much longer than that.
fn durability_operation(span: &DiskSpan) -> Option<Operation> {
    let flush = span.flushes.filter(|op| op.completed > 0).and_then(|op| op.r#await);
    match (flush, span.writes.r#await) {
        (Some(flush), Some(write)) if write.0 > flush.0 * 2.0 => Some(Operation::Write),
        (Some(_), _) => Some(Operation::Flush),
        (None, Some(_)) => Some(Operation::Write),
        (None, None) => None,
    }
}

/// Whether threads wait for a device: a group is stuck on it (or may be), for `threads` on average, or some thread was seen
/// to be, were it only once: with a file on it, or, of a group that is stuck on nothing else.
pub(in crate::findings) fn has_waiters(interval: &Interval, device: DiskId, threads: f64) -> bool {
    let Some(blocked) = &interval.idle_blocked else { return true };
    if blocked.lower_bound {
        return true;
    }
    let leads_to_it = |above: DiskId| above == device || is_stacked_on(interval, above, device, MAX_DEVICE_DEPTH);
    let may_be_on_it =
        |group: &BlockedGroup| group.holder_device.map_or(!group.is_non_block_storage(), |(of_group, _)| leads_to_it(of_group));
    let stuck = |group: &BlockedGroup| group.storage + group.aio + group.memory + group.hidden;
    if blocked.groups.iter().any(|group| may_be_on_it(group) && reaches_threshold(stuck(group), threads)) {
        return true;
    }
    interval.blocked_threads.iter().any(|thread| match (thread.class, thread.disk) {
        (WaitClass::Disk, Some(disk)) => leads_to_it(disk),
        (WaitClass::Disk | WaitClass::Aio, None) => {
            let id = interval.newer.waits.groups.get(usize::from(thread.group));
            blocked.groups.iter().any(|group| Some(&group.group) == id && may_be_on_it(group))
        }
        _ => false,
    })
}

/// A device stands on others that stand on others: no more storeys than these are gone down.
const MAX_DEVICE_DEPTH: u32 = 8;

/// Whether requests to the one device become requests to the other. What a loop device's file is on is not known.
fn is_stacked_on(interval: &Interval, above: DiskId, below: DiskId, storeys: u32) -> bool {
    let find = |id: DiskId| find_disk(interval.newer.disks.as_ref().ok()?, id);
    let Some(disk) = find(above).filter(|_| storeys > 0) else { return false };
    let is_loop = |id: DiskId| find(id).is_some_and(|disk| disk.facts.backing_file.is_some());
    (disk.facts.backing_file.is_some() && !is_loop(below))
        || disk.facts.slaves.iter().any(|&slave| slave == below || is_stacked_on(interval, slave, below, storeys - 1))
}

fn disk_name(interval: &Interval, id: DiskId) -> String {
    let disk = interval.newer.disks.as_ref().ok().and_then(|disks| find_disk(disks, id));
    disk.map_or_else(|| format!("device {}:{}", id.major, id.minor), |disk| lossy_name(&disk.name))
}
