//! Who waits for whom: from those that wait over the lock, the thread on storage, its file and mount to the device, each
//! link with how it is known.

use serde::Serialize;

use super::awaited::{Awaiting, KNOWN_BY, awaiting};
use crate::baseline::{ALONE, Standing, standing};
use crate::findings::words::{count, millis, multiple, name, plural, seconds};
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
pub struct Chain {
    /// `postgres (64 processes)`
    pub who: String,
    /// Mean number of its threads that are stuck
    pub threads: f64,
    /// From those that wait to what they wait for
    pub links: Vec<Link>,
    pub confidence: Confidence,
}

/// One step of a chain.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Link {
    pub what: String,
    /// How it is known
    pub known_by: &'static str,
}

/// How far the whole chain is known: as far as its weakest link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confidence {
    /// Who waits for whom is inferred, and so is the device
    Low,
    /// One link is inferred
    Medium,
    /// Each link is what the kernel says, or there is only one that it can be
    High,
}

impl Confidence {
    pub fn word(self) -> &'static str {
        match self {
            Confidence::Low => "low",
            Confidence::Medium => "medium",
            Confidence::High => "high",
        }
    }
}

/// Fewer threads on average are not spoken of.
pub(in crate::findings) const WORTH_A_WORD: f64 = 0.05;

/// A group spoken of beside the first one explains at least this share of what that one does.
pub(in crate::findings) const BESIDE: f64 = 0.2;

/// A wait that has lasted so long is told with its length; a shorter one is one of many.
const LONG_SECONDS: f64 = 1.0;

/// The chains of the groups that matter, the most blocked first, at most three; after them who waits for remote hosts.
pub fn chains(interval: &Interval, standings: &[Standing]) -> Vec<Chain> {
    let Some(blocked) = &interval.idle_blocked else { return Vec::new() };
    let least = blocked.groups.first().map_or(0.0, BlockedGroup::blocked_threads) * BESIDE;
    let groups = blocked.groups.iter().filter(|group| group.blocked_threads() >= WORTH_A_WORD.max(least));
    let chains = groups.map(|group| chain(interval, standings, group));
    // Who only waits for another machine is told where there is room.
    let stuck = |waiting: &Awaiting| blocked.groups.iter().any(|group| group.group == *waiting.group);
    let others = awaiting(interval).into_iter().filter(|waiting| !stuck(waiting)).map(|waiting| Chain {
        links: vec![Link { what: waiting.words(), known_by: KNOWN_BY }],
        threads: waiting.threads,
        who: waiting.who,
        confidence: Confidence::Medium,
    });
    chains.chain(others).take(3).collect()
}

/// The chain of one group.
pub(in crate::findings) fn chain(interval: &Interval, standings: &[Standing], group: &BlockedGroup) -> Chain {
    let mut links = Vec::new();
    let mut guesses = 0;
    let mut push = |what: String, known_by: &'static str, guess: bool| {
        guesses += usize::from(guess);
        links.push(Link { what, known_by });
    };
    for (what, known_by, guess) in waiting(group) {
        push(what, known_by, guess);
    }
    let on_storage = group.storage + group.hidden;
    if let Some(holder) = group.holder.as_ref().filter(|_| group.storage >= WORTH_A_WORD) {
        let behind = group.behind_lock() + group.behind_ipc_peer >= WORTH_A_WORD;
        let named = group.wait_queues.first().is_some_and(|queue| queue.holder == Some(holder.task.pid));
        let known_by = match (behind, named) {
            (true, true) => "the kernel names its process",
            (true, false) => "inference: who of them is on storage",
            (false, _) => "the wait channel",
        };
        // With several at a time on storage it may be any of them.
        let guess = behind && !named && group.storage >= 1.5 && group.lock_inferred < WORTH_A_WORD;
        push(holder_words(interval, group, holder), known_by, guess);
        if let Some(file) = &holder.file {
            let mount = holder.mount.as_ref().map_or_else(String::new, |mount| format!(", on {}", name(mount)));
            push(format!("file {}{mount}", name(file)), "the descriptor of its call", false);
        }
    } else if on_storage >= WORTH_A_WORD {
        let (place, known_by) = match group.hidden > group.storage {
            true => ("in D, where is hidden from this user", "the state"),
            false => ("on storage", "the wait channel"),
        };
        push(format!("{} {place}", plural(on_storage, "thread", "threads")), known_by, true);
    }
    if group.aio >= WORTH_A_WORD {
        push(
            format!("{} asleep for asynchronous completions", plural(group.aio, "thread", "threads")),
            "the wait channel",
            false,
        );
    }
    if group.memory >= WORTH_A_WORD {
        push(format!("{} in memory reclaim", plural(group.memory, "thread", "threads")), "the wait channel", false);
    }
    if let Some((device, by)) = group.holder_device {
        let limit = limit(interval, standings, device, group.holder.as_ref());
        let answers = limit.map_or_else(|| "answers nothing".into(), |limit| limit.words());
        let (known_by, guess) = match by {
            DeviceEvidence::File if is_device(group.holder.as_ref()) => ("that file is the device", false),
            DeviceEvidence::File => ("the mount of that file", false),
            DeviceEvidence::OnlyBusy => ("the only device with requests in flight", true),
        };
        push(format!("{}: {answers}", disk_name(interval, device)), known_by, guess);
    } else if on_storage + group.aio >= WORTH_A_WORD {
        guesses += 1;
    }
    let awaited = awaiting(interval).into_iter().find(|waiting| *waiting.group == group.group);
    links.extend(awaited.map(|waiting| Link { what: waiting.words(), known_by: KNOWN_BY }));
    let confidence = match guesses {
        0 => Confidence::High,
        1 => Confidence::Medium,
        _ => Confidence::Low,
    };
    Chain { who: who(group), threads: group.blocked_threads(), links, confidence }
}

/// Whether a thread's call is about a device and not about a file in a file system.
fn is_device(thread: Option<&BlockedThread>) -> bool {
    let file = thread.filter(|thread| thread.mount.is_none()).and_then(|thread| thread.file.as_ref());
    file.is_some_and(|file| file.as_bytes().starts_with(b"/dev/"))
}

/// `postgres (64 processes)`, `convoy (4711)`
pub(in crate::findings) fn who(group: &BlockedGroup) -> String {
    let alone = match &group.group {
        GroupId::Process(process) => Some(process.pid),
        GroupId::Siblings { .. } => group.pid,
    };
    match (group.processes, alone) {
        (_, Some(pid)) if group.name.as_bytes().is_empty() => format!("process {pid}"),
        (0 | 1, Some(pid)) => format!("{} ({pid})", name(&group.name)),
        (0 | 1, None) => name(&group.name),
        (many, _) => format!("{} ({many} processes)", name(&group.name)),
    }
}

/// Those that wait for others of their group: words, how it is known, whether that is a guess.
fn waiting(group: &BlockedGroup) -> Vec<(String, &'static str, bool)> {
    let mut list = Vec::new();
    for queue in group.wait_queues.iter().filter(|queue| is_counted(group, queue)) {
        let verb = if count(queue.threads) == "1" { "waits" } else { "wait" };
        let what = format!("{} {verb} for {}", count(queue.threads), object(queue));
        let (known_by, guess) = match queue.kind {
            WaitQueueKind::Mutex if is_one(queue) => ("the futex call: one address", false),
            WaitQueueKind::Mutex => ("the futex call", false),
            WaitQueueKind::Futex => ("inference: they cycle, and one of them is on storage", true),
            WaitQueueKind::FileLock if queue.holder.is_some() => ("the wait channel and /proc/locks", false),
            WaitQueueKind::FileLock | WaitQueueKind::KernelLock => ("the wait channel", false),
            WaitQueueKind::Pipe | WaitQueueKind::Socket | WaitQueueKind::Remote => ("who holds the other end", false),
        };
        list.push((what, known_by, guess));
    }
    if list.is_empty() && group.behind_lock() >= WORTH_A_WORD {
        let (known_by, guess) = match group.lock_inferred >= WORTH_A_WORD {
            true => ("inference: they cycle, and one of them is on storage", true),
            false => ("the futex call", false),
        };
        list.push((format!("{} wait for a lock", count(group.behind_lock())), known_by, guess));
    }
    list
}

/// Whether the threads of that queue are among those that are counted as stuck.
fn is_counted(group: &BlockedGroup, queue: &WaitQueueSpan) -> bool {
    let counted = match queue.kind {
        WaitQueueKind::Futex => group.lock_inferred,
        WaitQueueKind::Mutex | WaitQueueKind::FileLock | WaitQueueKind::KernelLock => group.lock_contended,
        WaitQueueKind::Pipe | WaitQueueKind::Socket => group.behind_ipc_peer,
        WaitQueueKind::Remote => return false,
    };
    counted >= WORTH_A_WORD && queue.threads >= WORTH_A_WORD
}

/// Whether all of them stand at one address.
fn is_one(queue: &WaitQueueSpan) -> bool {
    queue.one_address_share >= 0.8
}

fn object(queue: &WaitQueueSpan) -> String {
    match (queue.kind, &queue.file, &queue.wchan) {
        (WaitQueueKind::Mutex, ..) if is_one(queue) => "one mutex".into(),
        (WaitQueueKind::Mutex, ..) => "mutexes".into(),
        (WaitQueueKind::Futex, _, Some(channel)) => format!("a lock, a semaphore or a condition ({})", name(channel)),
        (WaitQueueKind::Futex, ..) => "a lock, a semaphore or a condition".into(),
        (WaitQueueKind::FileLock, Some(file), _) => format!("the lock of {}", name(file)),
        (WaitQueueKind::FileLock, ..) => "the lock of a file".into(),
        (WaitQueueKind::KernelLock, file, channel) => {
            let of = file.as_ref().map_or_else(String::new, |file| format!(" of {}", name(file)));
            let at = channel.as_ref().map_or_else(String::new, |channel| format!(" ({})", name(channel)));
            format!("a lock inside the kernel{of}{at}")
        }
        (WaitQueueKind::Pipe, ..) => "the other end of a pipe".into(),
        (WaitQueueKind::Socket | WaitQueueKind::Remote, ..) => "the other end of a socket".into(),
    }
}

/// What the judgement that threads wait for a lock rests on, in the words of a sentence.
pub(in crate::findings) fn basis(group: &BlockedGroup) -> String {
    let (call, guessed) = (group.lock_contended >= WORTH_A_WORD, group.lock_inferred >= WORTH_A_WORD);
    let most = group.wait_queues.iter().find(|queue| is_counted(group, queue) && queue.kind != WaitQueueKind::Futex);
    let by_call = match most.map(|queue| (queue.kind, queue)) {
        Some((WaitQueueKind::Mutex, queue)) if is_one(queue) => "one mutex, by the futex call".to_owned(),
        Some((WaitQueueKind::FileLock, queue)) => match &queue.file {
            Some(file) => format!("of {}, by the wait channel", name(file)),
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
pub(in crate::findings) fn place(interval: &Interval, holder: &BlockedThread) -> String {
    match (call_name(interval, holder), &holder.wchan) {
        (Some(call), Some(channel)) => format!("in {call} ({})", name(channel)),
        (Some(call), None) => format!("in {call}"),
        (None, Some(channel)) => format!("in {}", name(channel)),
        (None, None) => "on storage".into(),
    }
}

fn call_name(interval: &Interval, thread: &BlockedThread) -> Option<&'static str> {
    let call = thread.syscall?;
    match call.number {
        -1 => Some("a page fault"),
        _ => Syscall::from_number(interval.host.machine.as_bytes(), call).map(|call| call.name),
    }
}

/// `worker/4755 in fsync (jbd2_log_wait_commit), one of 9 in turn`
fn holder_words(interval: &Interval, group: &BlockedGroup, holder: &BlockedThread) -> String {
    let mut words = format!("{}/{} {}", name(&holder.comm), holder.task.tid, place(interval, holder));
    match waits_seconds(interval, holder).filter(|&length| length >= LONG_SECONDS) {
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
pub(in crate::findings) fn waits_seconds(interval: &Interval, thread: &BlockedThread) -> Option<f64> {
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
pub(in crate::findings) struct Limit<'a> {
    pub operation: Operation,
    pub op: &'a OpSpan,
    pub standing: Option<&'a Standing>,
}

impl Limit<'_> {
    /// `f_await 10.3 ms = 1.0× its baseline`
    pub fn words(&self) -> String {
        let column = match self.operation {
            Operation::Read => "r_await",
            Operation::Write => "w_await",
            Operation::Flush => "f_await",
            Operation::Discard => "d_await",
        };
        self.against(column)
    }

    /// `flushes 10.3 ms = 1.0× its baseline`
    pub fn sentence(&self) -> String {
        self.against(self.operation.plural())
    }

    pub fn multiple(&self) -> Option<f64> {
        // What a device does with one request at a time is its baseline, until that is learned.
        let told = |standing: &&Standing| !standing.provisional || self.op.concurrency > ALONE;
        self.standing.filter(told)?.multiple
    }

    fn against(&self, word: &str) -> String {
        let time = self.op.r#await.map_or_else(|| "-".into(), |time| millis(time.0));
        let baseline = self.standing.and_then(|standing| Some((self.multiple()?, standing.provisional)));
        let baseline = baseline.map(|(times, provisional)| {
            format!(" = {} its {}baseline", multiple(times), if provisional { "provisional " } else { "" })
        });
        format!("{word} {time}{}", baseline.unwrap_or_default())
    }
}

/// What a thread in that call needs of the device.
enum Need {
    Reads,
    Writes,
    /// All of it on the medium: a flush, and the writes before it
    Durability,
    Unknown,
}

fn need(interval: &Interval, holder: &BlockedThread) -> Need {
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
        return Need::Durability;
    }
    match call_name(interval, holder) {
        Some("read" | "pread64" | "readv" | "preadv" | "preadv2" | "a page fault") => Need::Reads,
        Some("write" | "pwrite64" | "writev" | "pwritev" | "pwritev2") => Need::Writes,
        Some("fsync" | "fdatasync" | "sync" | "syncfs" | "sync_file_range" | "msync") => Need::Durability,
        _ => Need::Unknown,
    }
}

/// Which operation of a device bounds who waits for it: the one that the holder's call needs, else the one that takes most
/// of the device's time. `None` where nothing completed.
pub(in crate::findings) fn limit<'a>(
    interval: &'a Interval,
    standings: &'a [Standing],
    device: DiskId,
    holder: Option<&BlockedThread>,
) -> Option<Limit<'a>> {
    let span = interval.disk(device)?;
    let done = || span.operations().filter(|(_, op)| op.completed > 0 && op.r#await.is_some());
    let only = |wanted: Operation| done().find(|(operation, _)| *operation == wanted);
    let wanted = match holder.map(|holder| need(interval, holder)) {
        Some(Need::Reads) => only(Operation::Read),
        Some(Need::Writes) => only(Operation::Write),
        Some(Need::Durability) => durability(span).and_then(only),
        Some(Need::Unknown) | None => None,
    };
    let (operation, op) = wanted.or_else(|| done().max_by(|a, b| a.1.concurrency.total_cmp(&b.1.concurrency)))?;
    let standing = standing(standings, device, operation);
    Some(Limit { operation, op, standing })
}

/// A write that waits for a flush, or brings one along, has the flush's time in its own await. So flushes bound, unless
/// the writes take much longer than that.
fn durability(span: &DiskSpan) -> Option<Operation> {
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
pub(in crate::findings) fn is_waited_for(interval: &Interval, device: DiskId, threads: f64) -> bool {
    let Some(blocked) = &interval.idle_blocked else { return true };
    if blocked.lower_bound {
        return true;
    }
    let leads_to_it = |above: DiskId| above == device || stands_on(interval, above, device, MOST_STOREYS);
    let may_be_on_it =
        |group: &BlockedGroup| group.holder_device.map_or(!group.is_non_block_storage(), |(of_group, _)| leads_to_it(of_group));
    let stuck = |group: &BlockedGroup| group.storage + group.aio + group.memory + group.hidden;
    if blocked.groups.iter().any(|group| may_be_on_it(group) && reaches_threshold(stuck(group), threads)) {
        return true;
    }
    interval.newer.waits.blocked.iter().any(|thread| match (thread.class, thread.disk) {
        (WaitClass::Disk, Some(disk)) => leads_to_it(disk),
        (WaitClass::Disk | WaitClass::Aio, None) => {
            let id = interval.newer.waits.groups.get(usize::from(thread.group));
            blocked.groups.iter().any(|group| Some(&group.group) == id && may_be_on_it(group))
        }
        _ => false,
    })
}

/// A device stands on others that stand on others: no more storeys than these are gone down.
const MOST_STOREYS: u32 = 8;

/// Whether requests to the one device become requests to the other. What a loop device's file is on is not known.
fn stands_on(interval: &Interval, above: DiskId, below: DiskId, storeys: u32) -> bool {
    let find = |id: DiskId| find_disk(interval.newer.disks.as_ref().ok()?, id);
    let Some(disk) = find(above).filter(|_| storeys > 0) else { return false };
    let is_loop = |id: DiskId| find(id).is_some_and(|disk| disk.facts.backing_file.is_some());
    (disk.facts.backing_file.is_some() && !is_loop(below))
        || disk.facts.slaves.iter().any(|&slave| slave == below || stands_on(interval, slave, below, storeys - 1))
}

fn disk_name(interval: &Interval, id: DiskId) -> String {
    let disk = interval.newer.disks.as_ref().ok().and_then(|disks| find_disk(disks, id));
    disk.map_or_else(|| format!("device {}:{}", id.major, id.minor), |disk| name(&disk.name))
}
