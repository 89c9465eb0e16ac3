//! Wait chains: from the waiting threads via the lock to the thread on storage (`holder`), its file, mount and device
//! (`bottleneck`). Each link says how it is known.

pub mod bottleneck;
pub mod dirty_limit;
pub mod holder;
pub mod link;
pub mod named_holder;
pub mod pipelines;
pub mod queues;
pub mod remote_waits;
pub mod reported_threads;
pub mod stacks;
pub mod user_stacks;

use std::borrow::Cow;

use crate::baseline::LatencyStatus;
use crate::findings::formatting::{lossy_name, plural};
use crate::findings::wait_chain::bottleneck::bottleneck;
use crate::findings::wait_chain::holder::describe_group;
use crate::findings::wait_chain::holder::describe_holder;
use crate::findings::wait_chain::link::{ChainConfidence, ChainLink, WaitChain};
use crate::findings::wait_chain::named_holder::{holder_links, is_inferred, known_by_checks};
use crate::findings::wait_chain::pipelines::holder_pipeline;
use crate::findings::wait_chain::queues::queue_links;
use crate::findings::wait_chain::remote_waits::{KNOWN_BY, remote_waits, server_links, servers_of, unix_chains};
use crate::findings::wait_chain::reported_threads::{
    MIN_REPORTED_THREADS, MIN_SECONDARY_SHARE, MIN_SEVERAL_THREADS, ReportedWaiters,
};
use crate::ids::{DiskId, GroupId};
use crate::interval::Interval;
use crate::interval::blocked_threads::BlockedThread;
use crate::interval::idle_blocked::{BlockedGroup, DeviceEvidence};
use crate::sample::Name;
use crate::sample::disk::find_disk;

/// At most three chains: of the most blocked groups, then of groups that wait for remote hosts, then for Unix sockets.
pub fn wait_chains(interval: &Interval, statuses: &[LatencyStatus]) -> Vec<WaitChain> {
    let Some(blocked) = &interval.idle_blocked else { return Vec::new() };
    let least = blocked.groups.first().map_or(0.0, BlockedGroup::blocked_threads) * MIN_SECONDARY_SHARE;
    let groups = blocked.groups.iter().filter(|group| group.blocked_threads() >= MIN_REPORTED_THREADS.max(least));
    let chains = groups.map(|group| wait_chain(interval, statuses, group));
    // Groups that only wait for a remote host come last.
    let stuck = |waiting: &GroupId| blocked.groups.iter().any(|group| group.group == *waiting);
    let others = remote_waits(interval).into_iter().filter(|waiting| !stuck(waiting.group)).map(|waiting| {
        let behind = server_links(interval, &servers_of(interval, &waiting));
        let confidence = if behind.is_empty() { ChainConfidence::Medium } else { ChainConfidence::Low };
        let links = std::iter::once(ChainLink::new(waiting.describe(), KNOWN_BY)).chain(behind).collect();
        WaitChain { links, threads: waiting.threads, group_label: waiting.group_label, confidence }
    });
    let in_unix_sockets = unix_chains(interval).into_iter().filter(|(group, _)| !stuck(group)).map(|(_, chain)| chain);
    chains.chain(others).chain(in_unix_sockets).take(3).collect()
}

/// Links, and how many of them are inferred.
#[derive(Default)]
struct ChainBuilder {
    links: Vec<ChainLink>,
    inferred_links: usize,
}

impl ChainBuilder {
    fn push(&mut self, what: String, known_by: impl Into<Cow<'static, str>>, is_inferred: bool) {
        self.inferred_links += usize::from(is_inferred);
        self.links.push(ChainLink { what, known_by: known_by.into() });
    }
}

/// The chain of one group.
pub fn wait_chain(interval: &Interval, statuses: &[LatencyStatus], group: &BlockedGroup) -> WaitChain {
    let mut chain = ChainBuilder::default();
    if let Ok(connections) = group.waiting_connections
        && group.connections_behind() >= 1.0
    {
        let what = format!("{connections} connections wait for an answer");
        chain.push(what, "the receive queues and tcp_info of its sockets", false);
    }
    for (what, known_by, inferred) in queue_links(group) {
        chain.push(what, known_by, inferred);
    }
    if let Some(pipeline) = holder_pipeline(interval, group) {
        for ChainLink { what, known_by } in pipeline.links(interval) {
            chain.push(what, known_by, false);
        }
    }
    let named_holder = group.lock_holder.as_ref().filter(|_| ReportedWaiters::new(group).lock);
    if let Some(holder) = group.holder_off_storage().filter(|_| named_holder.is_some()) {
        for ChainLink { what, known_by } in holder_links(interval, holder) {
            chain.push(what, known_by, false);
        }
        chain.inferred_links += usize::from(is_inferred(holder));
        let end = holder.last_thread();
        if let Some(file) = &end.wait.file {
            chain.push(format!("file {}", file_and_mount(file, end)), "the file descriptor of its system call", false);
        }
    }
    let on_storage = group.storage + group.hidden;
    if let Some(holder) = group.holder.as_ref().filter(|_| group.storage >= MIN_REPORTED_THREADS) {
        let behind = ReportedWaiters::new(group).any();
        let named = group.wait_queues.first().is_some_and(|queue| queue.holder == Some(holder.wait.task.pid));
        let owner = named_holder.filter(|owner| owner.thread.wait.task == holder.wait.task);
        let known_by = match (behind, named) {
            _ if let Some(owner) = owner => known_by_checks(owner.field),
            (true, true) => "the kernel names its process".into(),
            (true, false) => "inference: the thread seen on storage".into(),
            (false, _) => "the wait channel".into(),
        };
        // With several threads on storage at a time it may be any of them.
        let is_one_of_several =
            behind && !named && group.storage >= MIN_SEVERAL_THREADS && group.lock_inferred < MIN_REPORTED_THREADS;
        let inferred = owner.map_or(is_one_of_several, is_inferred);
        chain.push(describe_holder(interval, group, holder), known_by, inferred);
        if let Some(file) = &holder.wait.file {
            chain.push(format!("file {}", file_and_mount(file, holder)), "the file descriptor of its system call", false);
        }
        if let Some(limit) = dirty_limit::dirty_limit(interval, group) {
            chain.push(limit, dirty_limit::KNOWN_BY, false);
        }
    } else if on_storage >= MIN_REPORTED_THREADS {
        let (place, known_by) = match group.hidden > group.storage {
            true => ("in D (their waits are not readable)", "the state"),
            false => ("on storage", "the wait channel"),
        };
        chain.push(format!("{} {place}", plural(on_storage, "thread", "threads")), known_by, true);
    }
    if group.aio >= MIN_REPORTED_THREADS {
        chain.push(
            format!("{} waiting for asynchronous I/O", plural(group.aio, "thread", "threads")),
            "the wait channel",
            false,
        );
    }
    if group.memory >= MIN_REPORTED_THREADS {
        chain.push(format!("{} in memory reclaim", plural(group.memory, "thread", "threads")), "the wait channel", false);
    }
    if let Some((device, by)) = group.holder_device {
        let limit = bottleneck(interval, statuses, device, group.holder.as_ref());
        let answers = limit.map_or_else(|| "completes nothing".into(), |limit| limit.with_iostat_column());
        let (known_by, inferred) = match by {
            DeviceEvidence::File if is_block_device_file(group.holder.as_ref()) => ("that file is the device", false),
            DeviceEvidence::File => ("the mount of that file", false),
            DeviceEvidence::OnlyBusy => ("the only device with requests in flight", true),
        };
        chain.push(format!("{}: {answers}", disk_name(interval, device)), known_by, inferred);
    } else if on_storage + group.aio >= MIN_REPORTED_THREADS {
        chain.inferred_links += 1;
    }
    let awaited = remote_waits(interval).into_iter().find(|waiting| *waiting.group == group.group);
    if let Some(waiting) = awaited {
        chain.push(waiting.describe(), KNOWN_BY, false);
        for ChainLink { what, known_by } in server_links(interval, &servers_of(interval, &waiting)) {
            chain.push(what, known_by, true);
        }
    }
    let confidence = ChainConfidence::from_inferred_links(chain.inferred_links);
    WaitChain { group_label: describe_group(group), threads: group.blocked_threads(), links: chain.links, confidence }
}

/// `/srv/db/wal, on /srv`
fn file_and_mount(file: &Name, thread: &BlockedThread) -> String {
    let mount = thread.wait.mount.as_ref().map_or_else(String::new, |mount| format!(", on {}", lossy_name(mount)));
    format!("{}{mount}", lossy_name(file))
}

/// Whether a thread's system call is about a device file, not a file in a file system.
fn is_block_device_file(thread: Option<&BlockedThread>) -> bool {
    let file = thread.filter(|thread| thread.wait.mount.is_none()).and_then(|thread| thread.wait.file.as_ref());
    file.is_some_and(|file| file.as_bytes().starts_with(b"/dev/"))
}

/// The name of a device for a sentence.
pub fn disk_name(interval: &Interval, id: DiskId) -> String {
    let disk = interval.newer.disks.as_ref().ok().and_then(|disks| find_disk(disks, id));
    disk.map_or_else(|| format!("device {}:{}", id.major, id.minor), |disk| lossy_name(&disk.name))
}
