//! What the groups of threads of "idle but blocked" wait for, as far as another finding is the cause of it.

use std::sync::Arc;

use super::super::device_waiters::leads_to_device;
use super::super::finding::Subject;
use super::super::hung_threads::waits_for_fuse;
use super::super::rule_context::RuleContext;
use crate::ids::DiskId;
use crate::interval::idle_blocked::{BlockedGroup, IdleBlocked};
use crate::interval::lock_holders::HolderActivity;
use crate::sample::task::Process;
use crate::units::reaches_threshold;

/// Mean number of threads of a group on storage from which any busy device may be the one that they wait for.
const MIN_ON_UNKNOWN_DEVICE: f64 = 0.5;

/// Whether a blocked group waits for the device, or for one above it.
pub fn waits_for_device(context: &RuleContext, blocked: &IdleBlocked, device: DiskId) -> bool {
    let devices = blocked.groups.iter().filter_map(|group| Some(group.holder_device?.0));
    devices.into_iter().any(|of_group| leads_to_device(context.interval, of_group, device))
}

/// Whether a group has threads on storage whose device is not known: several devices have requests in flight.
pub fn has_group_of_unknown_device(blocked: &IdleBlocked) -> bool {
    let is_unknown = |group: &BlockedGroup| group.holder_device.is_none() && !group.waits_for_no_block_device();
    let on_storage = |group: &BlockedGroup| group.storage + group.aio + group.memory + group.hidden;
    blocked.groups.iter().any(|group| is_unknown(group) && reaches_threshold(on_storage(group), MIN_ON_UNKNOWN_DEVICE))
}

/// Whether more threads are in D for locks of the kernel than for storage or memory.
pub fn is_mostly_in_kernel_locks(blocked: &IdleBlocked) -> bool {
    let in_d: f64 = blocked.groups.iter().map(|group| group.storage + group.memory + group.hidden).sum();
    blocked.kernel_locks.as_ref().is_some_and(|locks| locks.threads > in_d)
}

/// Whether threads of a group wait for a lock, and its holder, or one further in the chain, for an answer of that address and port. A
/// server on this host is in the chain, too, behind its address.
pub fn is_in_chain(blocked: &IdleBlocked, server: &Subject) -> bool {
    let Subject::RemoteHost(address) = server else { return false };
    let holders = blocked.groups.iter().filter_map(|group| group.lock_holder.as_ref());
    let mut activities =
        holders.flat_map(|holder| std::iter::once(holder.activity).chain(holder.chain.iter().map(|next| next.activity)));
    activities
        .any(|one| matches!(one, HolderActivity::RemoteHost(remote) if remote.to_string().as_bytes() == address.as_bytes()))
}

/// Whether the group waits for a file system in user space whose server is the process of the busy thread: by the type of the mount,
/// `fuse.NAME`, for which libfuse takes the name of the program, if no other process has that name.
pub fn waits_for_busy_fuse_server(context: &RuleContext, group: &BlockedGroup, busy: &Subject) -> bool {
    let name = group
        .holder
        .as_ref()
        .filter(|holder| waits_for_fuse(holder))
        .and_then(|holder| holder.wait.file_system.as_ref()?.as_bytes().strip_prefix(b"fuse."));
    let (Some(name), Ok(tasks)) = (name, &context.interval.newer.tasks) else { return false };
    let is_named = |process: &&Arc<Process>| {
        let executable =
            process.facts.executable.as_ref().ok().and_then(|path| path.as_bytes().rsplit(|&byte| byte == b'/').next());
        !process.kernel_thread && (executable == Some(name) || process.comm.as_bytes() == name)
    };
    let mut servers = tasks.processes.iter().filter(is_named);
    let (Some(server), None) = (servers.next(), servers.next()) else { return false };
    match busy {
        Subject::Task { id, .. } => id.pid == server.pid,
        Subject::Group { id, .. } => *id == server.group(),
        _ => false,
    }
}

pub fn is_most_blocked_group(blocked: Option<&IdleBlocked>, subject: &Subject) -> bool {
    let most = blocked.and_then(|blocked| blocked.groups.first());
    most.is_some_and(|most| matches!(subject, Subject::Group { id, .. } if *id == most.group))
}
