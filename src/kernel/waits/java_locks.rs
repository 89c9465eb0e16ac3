//! Reads which threads of a Java virtual machine (HotSpot) wait for a lock, a monitor (`synchronized`) or one of java.util.concurrent, and
//! which thread owns it, from the memory of the process.
//!
//! `vm_tables` reads where the virtual machine says that it has what, `layout` takes from that what is used, `thread_list` reads the
//! threads, `monitors` the owners of monitors, `synchronizers` the locks of java.util.concurrent, which are objects of the program (`objects`).
//!
//! Such a thread sleeps at a futex of its own, as an idle one does. The permission is that of /proc/PID/syscall.

mod layout;
mod monitors;
mod objects;
mod synchronizers;
mod thread_list;
mod threads;
mod vm_tables;

use std::cell::RefCell;

use rustc_hash::{FxHashMap, FxHashSet};

use self::layout::{Layout, find_layout};
use self::threads::JavaThreads;
use super::holder_wait::read_holder_wait;
use super::lock_owners::FutexLock;
use super::look_up::LookUp;
use super::namespace_tids::NamespaceTids;
use super::reading_turns::ReadingTurns;
use crate::ids::ProcessId;
use crate::kernel::root::Root;
use crate::kernel::scan::{JavaWait, KnownProcess, KnownThread, TaskScanner};
use crate::kernel::task::files::TaskFiles;
use crate::sample::task::TaskState;
use crate::sample::waits::{BlockedWait, JavaLock, JavaLockKind, OwnerField};

/// Virtual machines whose threads are read.
const MAX_VIRTUAL_MACHINES: usize = 64;
/// The smallest has more threads: of its garbage collector, its compilers, and for signals.
const MIN_THREADS: usize = 5;

/// The lock for which each thread waits, by thread id, of those that were read.
type JavaWaits = FxHashMap<u32, Option<JavaLock>>;

/// The locks of Java for which threads wait.
#[derive(Debug, Default)]
pub struct JavaLocks {
    virtual_machines: FxHashMap<ProcessId, VirtualMachine>,
    /// They were looked for in this interval.
    is_current: bool,
    /// Threads of the current sub-sample that wait
    waiters: FxHashMap<Place, u32>,
    turns: ReadingTurns<Place>,
    tids: NamespaceTids,
}

/// A lock of a process, and the group of the threads that wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Place {
    pid: u32,
    lock: JavaLock,
    group: u16,
}

#[derive(Debug, Default)]
struct VirtualMachine {
    layout: LookUp<Layout>,
    threads: JavaThreads,
    /// It was read before, completely: only threads that have run since may wait for something else than then.
    was_read: bool,
    /// It is read in this sub-sample: a thread may wait for a lock, or did so in the last one.
    is_read: bool,
}

impl JavaLocks {
    /// Begins a sub-sample: reads for which locks threads wait, into `KnownThread::java_wait`. Of a virtual machine that was read before
    /// only threads that sub-samples saw in a futex; once an interval while none of them waits for a lock.
    pub fn read(&mut self, root: &Root, scanner: &mut TaskScanner) {
        self.waiters.clear();
        if !std::mem::replace(&mut self.is_current, true) {
            self.find_virtual_machines(scanner);
        }
        for (id, virtual_machine) in &mut self.virtual_machines {
            let (host, pid) = (root.clone(), id.pid);
            virtual_machine.layout.advance(move || find_layout(&host, pid));
            let Some(known) = scanner.process(pid).filter(|_| virtual_machine.is_read) else { continue };
            let (thread_count, in_futex, last) = (known.sampled.threads.len(), in_futex(known), Waits::of(known));
            let may_read = !known.memory_read_may_hang() && thread_count >= MIN_THREADS;
            let Some(&layout) = virtual_machine.layout.known().filter(|_| may_read) else { continue };
            let (tids, files) = (&mut self.tids, scanner.files());
            let tid_of = RefCell::new(|tid: u32| tids.in_our_namespace(files, pid, tid));
            let read = |virtual_machine: &mut VirtualMachine, is_wanted: &dyn Fn(u32) -> bool| {
                let own_tid = |tid: u32| (tid_of.borrow_mut())(tid);
                let was_read = virtual_machine.was_read;
                let is_wanted = |tid: u32| own_tid(tid).is_some_and(|tid| !was_read || is_wanted(tid));
                let had_lock = |tid: u32| own_tid(tid).is_some_and(|tid| last.locks.contains_key(&tid));
                let waits = virtual_machine.threads.waits(pid, &layout, thread_count, is_wanted, had_lock)?;
                Some(waits.into_iter().filter_map(|(tid, lock)| Some((own_tid(tid)?, lock))).collect::<JavaWaits>())
            };
            let is_due = |tid: u32| in_futex.contains(&tid) && last.must_be_read(tid);
            let Some(mut waits) = read(virtual_machine, &is_due) else { continue };
            let moved = last.moved(&waits);
            if virtual_machine.was_read && !moved.is_empty() {
                waits.extend(read(virtual_machine, &|tid| moved.contains(&tid)).unwrap_or_default());
            }
            virtual_machine.was_read |= virtual_machine.threads.is_complete(&layout);
            let lasts = last.locks.keys().any(|tid| !waits.contains_key(tid));
            virtual_machine.is_read = lasts || !virtual_machine.was_read || waits.values().any(Option::is_some);
            scanner.set_java_waits(pid, &waits);
        }
    }

    /// Begins an interval: looks for virtual machines, and chooses those that are read.
    fn find_virtual_machines(&mut self, scanner: &TaskScanner) {
        let mut found: FxHashMap<ProcessId, VirtualMachine> = FxHashMap::default();
        let mut usable = 0;
        for known in scanner.processes() {
            let id = known.sampled.id();
            let before = self.virtual_machines.remove(&id);
            if before.is_none() && !is_virtual_machine(known) {
                continue;
            }
            let mut virtual_machine = before.unwrap_or_default();
            let is_other = matches!(virtual_machine.layout, LookUp::Unknown);
            usable += usize::from(!is_other);
            if is_other || usable <= MAX_VIRTUAL_MACHINES {
                virtual_machine.threads.forget();
                virtual_machine.is_read = !virtual_machine.was_read || !in_futex(known).is_empty();
                found.insert(id, virtual_machine);
            }
        }
        self.virtual_machines = found;
    }

    /// Counts a thread that waits for a lock.
    pub fn add_waiter(&mut self, group: u16, pid: u32, lock: JavaLock) {
        *self.waiters.entry(Place { pid, lock, group }).or_default() += 1;
    }

    /// Ends the sub-sample: calls `found` with each lock for which threads of a group wait, whether its owner was read, and the owner.
    pub fn find_owners(&mut self, files: &mut TaskFiles, mut found: impl FnMut(FutexLock, bool, Option<BlockedWait>)) {
        let waiters = std::mem::take(&mut self.waiters);
        self.turns.chained.retain(|place| waiters.contains_key(place));
        let selected: FxHashSet<Place> =
            self.turns.select(waiters.iter().map(|(&place, &count)| (place, count)).collect()).into_iter().collect();
        self.turns.chained.retain(|place| !selected.contains(place));
        for (place, count) in waiters {
            let Place { pid, lock, group } = place;
            let is_read = selected.contains(&place);
            let owner = if is_read { self.read_owner(files, place) } else { None };
            let awaited_java_lock = owner.as_ref().and_then(|(_, awaited)| *awaited);
            if let Some(lock) = awaited_java_lock {
                self.turns.chained.extend([place, Place { lock, ..place }]);
            }
            let futex_lock = FutexLock {
                group,
                pid,
                address: lock.address,
                is_shared: false,
                field: match lock.kind {
                    JavaLockKind::Monitor => OwnerField::JavaMonitor,
                    JavaLockKind::Synchronizer => OwnerField::JavaSynchronizer,
                },
                waiters: count,
                timed_waiters: 0,
                awaited_java_lock,
            };
            found(futex_lock, is_read, owner.map(|(wait, _)| wait));
        }
    }

    /// The owner, if it is the same before and after what it does was read, and the lock for which it waits itself.
    fn read_owner(&mut self, files: &mut TaskFiles, place: Place) -> Option<(BlockedWait, Option<JavaLock>)> {
        let Place { pid, lock, group } = place;
        let (_, virtual_machine) = self.virtual_machines.iter_mut().find(|(id, _)| id.pid == pid)?;
        let layout = virtual_machine.layout.known()?;
        let owner = virtual_machine.threads.owner(pid, layout, lock)?;
        let tid = self.tids.in_our_namespace(files, pid, owner.tid)?;
        let wait = read_holder_wait(files, pid, tid, group)?;
        let awaited = virtual_machine.threads.awaited_by_owner(pid, layout, &owner)?;
        Some((wait, awaited))
    }

    /// Ends an interval.
    pub fn finish_interval(&mut self) {
        self.is_current = false;
        self.tids.finish_interval();
    }
}

/// What is known of threads that have not run since it was read: a thread must run to leave a wait, and to begin one.
struct Waits {
    locks: FxHashMap<u32, JavaLock>,
    /// Threads that wait for no lock
    others: FxHashSet<u32>,
    /// Of the threads that wait for each lock of java.util.concurrent one: it shows whether the garbage collector has moved the lock since.
    /// Monitors are not moved.
    compared: FxHashMap<JavaLock, u32>,
}

impl Waits {
    fn of(known: &KnownProcess) -> Waits {
        let mut waits = Waits { locks: FxHashMap::default(), others: FxHashSet::default(), compared: FxHashMap::default() };
        // Without schedstat it is not known which ran.
        for thread in known.threads().0.iter().filter(|thread| thread.schedstat.is_some()) {
            match thread.java_wait {
                JavaWait::NotRead => {}
                JavaWait::NoLock => {
                    waits.others.insert(thread.tid);
                }
                JavaWait::Lock(lock) => {
                    waits.locks.insert(thread.tid, lock);
                    if lock.kind == JavaLockKind::Synchronizer {
                        waits.compared.insert(lock, thread.tid);
                    }
                }
            }
        }
        waits
    }

    fn must_be_read(&self, tid: u32) -> bool {
        let is_compared = |lock: &JavaLock| self.compared.get(lock) == Some(&tid);
        !self.others.contains(&tid) && self.locks.get(&tid).is_none_or(is_compared)
    }

    /// The threads behind locks that are elsewhere now, by what was read of those that are compared.
    fn moved(&self, read: &JavaWaits) -> FxHashSet<u32> {
        let is_elsewhere = |lock: &JavaLock| {
            let now = self.compared.get(lock).and_then(|tid| read.get(tid));
            now.is_some_and(|now| now.as_ref() != Some(lock))
        };
        self.locks.iter().filter(|(_, lock)| is_elsewhere(lock)).map(|(&tid, _)| tid).collect()
    }
}

/// Its threads that sub-samples read and saw asleep in a futex, and those that have not run since they waited for a lock of Java.
fn in_futex(known: &KnownProcess) -> FxHashSet<u32> {
    let sleeps_there = |thread: &&KnownThread| thread.state == TaskState::Sleeping && thread.futex_wait.is_some();
    let waits = |thread: &&KnownThread| thread.java_wait.lock().is_some();
    let waiting = known.threads().0.iter().filter(waits);
    known.hot_threads().filter(sleeps_there).chain(waiting).map(|thread| thread.tid).collect()
}

/// Whether the process may be a Java virtual machine: by its name, or by the name of a thread that each has since version 9.
fn is_virtual_machine(known: &KnownProcess) -> bool {
    let threads = &known.sampled.threads;
    let has_its_thread = || threads.iter().any(|thread| thread.comm.as_bytes() == b"VM Thread");
    threads.len() >= MIN_THREADS && (known.sampled.comm.as_bytes() == b"java" || has_its_thread())
}

#[cfg(test)]
mod tests;
