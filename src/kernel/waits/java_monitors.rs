//! Reads which threads of a Java virtual machine (HotSpot) wait to enter a monitor (`synchronized`), and which thread owns it, from the
//! memory of the process (`layout`, `threads`).
//!
//! Such a thread sleeps at a futex of its own, as an idle one does. The permission is that of /proc/PID/syscall.

mod layout;
mod threads;

use rustc_hash::FxHashMap;

use self::layout::{Layout, find_layout};
use self::threads::JavaThreads;
use super::holder_wait::read_holder_wait;
use super::lock_owners::FutexLock;
use super::look_up::LookUp;
use super::namespace_tids::NamespaceTids;
use crate::ids::ProcessId;
use crate::kernel::root::Root;
use crate::kernel::scan::{KnownProcess, TaskScanner};
use crate::kernel::task::files::TaskFiles;
use crate::sample::task::TaskState;
use crate::sample::waits::{BlockedWait, OwnerField};
use crate::units::SmallSort;

/// Virtual machines whose threads are read.
const MAX_MACHINES: usize = 64;
/// The smallest has more threads: of its garbage collector, its compilers, and for signals.
const MIN_THREADS: usize = 5;
/// Monitors whose owner is read in one sub-sample: those with most waiters.
const MAX_MONITORS: usize = 8;

/// The Java monitors for which threads wait.
#[derive(Debug, Default)]
pub struct JavaMonitors {
    machines: FxHashMap<ProcessId, Machine>,
    /// The machines were read in this interval.
    is_read: bool,
    /// Waiters of the current sub-sample, by process, monitor and group
    waiters: FxHashMap<(u32, u64, u16), u32>,
    tids: NamespaceTids,
}

/// One virtual machine.
#[derive(Debug, Default)]
struct Machine {
    layout: LookUp<Layout>,
    threads: JavaThreads,
    /// A thread waited for a monitor when it was last read.
    has_waiters: bool,
}

impl JavaMonitors {
    /// Begins a sub-sample: reads for which monitors threads wait, into `KnownThread::java_monitor`. Virtual machines without such threads
    /// are read once an interval.
    pub fn read(&mut self, root: &Root, scanner: &mut TaskScanner) {
        self.waiters.clear();
        if !std::mem::replace(&mut self.is_read, true) {
            self.find_machines(root, scanner);
        }
        for (id, machine) in &mut self.machines {
            let (Some(layout), true) = (machine.layout.known(), machine.has_waiters) else { continue };
            let found = machine.threads.waiters(id.pid, layout);
            machine.has_waiters = !found.is_empty();
            let mut monitors: FxHashMap<u32, u64> = FxHashMap::default();
            for waiter in found {
                if let Some(tid) = self.tids.in_our_namespace(scanner.files(), id.pid, waiter.tid) {
                    monitors.insert(tid, waiter.monitor);
                }
            }
            let Some(known) = scanner.process_mut(id.pid) else { continue };
            for thread in known.threads_mut() {
                let sleeps = thread.state == TaskState::Sleeping;
                thread.java_monitor = monitors.get(&thread.tid).copied().filter(|_| sleeps);
            }
        }
    }

    /// Looks for virtual machines, and reads the lists of their threads. All of them are read in this sub-sample.
    fn find_machines(&mut self, root: &Root, scanner: &TaskScanner) {
        let mut found: FxHashMap<ProcessId, Machine> = FxHashMap::default();
        for known in scanner.processes().iter().filter(|known| is_virtual_machine(known)) {
            let id = known.sampled.id();
            let mut machine = self.machines.remove(&id).unwrap_or_default();
            if found.len() < MAX_MACHINES && !known.memory_read_may_hang() {
                let (host, pid) = (root.clone(), id.pid);
                machine.layout.advance(move || find_layout(&host, pid));
                let is_current = |layout| machine.threads.refresh(pid, layout).is_some();
                machine.has_waiters = machine.layout.known().is_some_and(is_current);
                found.insert(id, machine);
            }
        }
        self.machines = found;
    }

    /// Counts a thread that waits for a monitor.
    pub fn add_waiter(&mut self, group: u16, pid: u32, monitor: u64) {
        *self.waiters.entry((pid, monitor, group)).or_default() += 1;
    }

    /// Ends the sub-sample: calls `found` with each monitor for which threads of a group wait, whether its owner was read, and the owner.
    pub fn find_owners(&mut self, files: &mut TaskFiles, mut found: impl FnMut(FutexLock, bool, Option<BlockedWait>)) {
        let mut waiters: Vec<((u32, u64, u16), u32)> = self.waiters.drain().collect();
        waiters.small_sort_by_key(|&(place, count)| (std::cmp::Reverse(count), place));
        for (at, ((pid, monitor, group), count)) in waiters.into_iter().enumerate() {
            let is_read = at < MAX_MONITORS;
            let owner = if is_read { self.read_owner(files, pid, monitor, group) } else { None };
            let lock = FutexLock {
                group,
                pid,
                address: monitor,
                is_shared: false,
                field: OwnerField::JavaMonitor,
                waiters: count,
                timed_waiters: 0,
                awaited_monitor: owner.as_ref().and_then(|(_, monitor)| *monitor),
            };
            found(lock, is_read, owner.map(|(wait, _)| wait));
        }
    }

    /// The owner, if it is the same before and after what it does was read, and the monitor that it waits to enter itself.
    fn read_owner(&mut self, files: &mut TaskFiles, pid: u32, monitor: u64, group: u16) -> Option<(BlockedWait, Option<u64>)> {
        let (_, machine) = self.machines.iter().find(|(id, _)| id.pid == pid)?;
        let layout = machine.layout.known()?;
        let owner = machine.threads.owner(pid, layout, monitor)?;
        let tid = self.tids.in_our_namespace(files, pid, owner.tid)?;
        let wait = read_holder_wait(files, pid, tid, group)?;
        let is_same = machine.threads.owner(pid, layout, monitor) == Some(owner);
        is_same.then_some((wait, owner.pending_monitor))
    }

    /// Ends an interval.
    pub fn finish_interval(&mut self) {
        self.is_read = false;
        self.tids.finish_interval();
    }
}

/// Whether the process may be a Java virtual machine: by its name, or by the name of a thread that each has since version 9.
fn is_virtual_machine(known: &KnownProcess) -> bool {
    let (threads, _) = known.threads();
    let has_its_thread = || threads.iter().any(|thread| thread.comm.as_bytes() == b"VM Thread");
    threads.len() >= MIN_THREADS && (known.sampled.comm.as_bytes() == b"java" || has_its_thread())
}
