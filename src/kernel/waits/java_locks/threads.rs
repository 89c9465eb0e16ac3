//! The threads of one Java virtual machine, the locks that they wait for, and the owners of these, from its memory: in `monitors`
//! those of monitors, in `synchronizers` those of locks of java.util.concurrent.
//!
//! Nothing stops the virtual machine meanwhile: what is read of a thread counts only if the thread is still the same afterwards.

use super::layout::Layout;
use super::monitors::{OwnerSign, monitor_owner, still_owns};
use super::synchronizers::{ParkedFor, Synchronizers};
use super::thread_list::{JavaThread, are_same, is_object, of_each, read_threads};
use crate::sample::waits::{JavaLock, JavaLockKind};

/// Threads of one virtual machine that are read; of larger ones the first.
const MAX_JAVA_THREADS: usize = 4096;

/// The owner of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JavaLockOwner {
    /// In the pid namespace of the process
    pub tid: u32,
    lock: JavaLock,
    thread: JavaThread,
    /// Of a monitor: what shows it
    sign: Option<OwnerSign>,
}

/// The threads of one virtual machine.
#[derive(Debug, Default)]
pub struct JavaThreads {
    /// `None`: not read in this interval
    threads: Option<Vec<JavaThread>>,
    /// The numbers by which monitors name them, as they were in this sub-sample: `Layout::owner_id`
    owner_ids: Vec<u64>,
    synchronizers: Synchronizers,
}

impl JavaThreads {
    /// Begins an interval: threads may have begun or ended.
    pub fn forget(&mut self) {
        self.threads = None;
        self.synchronizers.begin_interval();
    }

    /// Begins a sub-sample: the lock for which each of the threads waits for which `is_wanted` holds, by thread id in the pid namespace of the
    /// process. A thread is left out where it could not be read; one that waits for a synchronizer without an owner keeps what it had: `had_lock`.
    /// `most`: threads of the process. `None`: the list of threads could not be read.
    pub fn waits(
        &mut self,
        pid: u32,
        layout: &Layout,
        most: usize,
        mut is_wanted: impl FnMut(u32) -> bool,
        mut had_lock: impl FnMut(u32) -> bool,
    ) -> Option<Vec<(u32, Option<JavaLock>)>> {
        self.owner_ids.clear();
        if self.threads.is_none() {
            self.threads = read_threads(pid, layout, most.min(MAX_JAVA_THREADS));
        }
        let wanted: Vec<JavaThread> = self.threads.as_ref()?.iter().filter(|thread| is_wanted(thread.tid)).copied().collect();
        let pending = of_each(pid, &wanted, layout.pending_monitor);
        let (in_monitor, others): (Vec<_>, Vec<_>) =
            wanted.into_iter().zip(pending).partition(|&(_, monitor)| is_object(monitor));
        let others: Vec<JavaThread> = others.into_iter().map(|(thread, _)| thread).collect();
        let parked = match layout.objects {
            Some(objects) => self.synchronizers.waits(pid, &objects, &others),
            None => others.into_iter().map(|thread| (thread, ParkedFor::Other)).collect(),
        };
        let monitor = |(thread, address)| (thread, Some(JavaLock { kind: JavaLockKind::Monitor, address }));
        let synchronizer = |(thread, parked): (JavaThread, ParkedFor)| match parked {
            ParkedFor::Lock(address) => Some((thread, Some(JavaLock { kind: JavaLockKind::Synchronizer, address }))),
            ParkedFor::NotOwned if had_lock(thread.tid) => None,
            ParkedFor::NotOwned | ParkedFor::Other => Some((thread, None)),
        };
        let waits = in_monitor.into_iter().map(monitor).chain(parked.into_iter().filter_map(synchronizer));
        let (threads, locks): (Vec<JavaThread>, Vec<Option<JavaLock>>) = waits.unzip();
        let are_same = are_same(pid, layout, &threads);
        let waits = threads.into_iter().zip(locks).zip(are_same).filter(|&(_, is_same)| is_same);
        Some(waits.map(|((thread, lock), _)| (thread.tid, lock)).collect())
    }

    /// Whether a later reading would show no more of a thread that does not run.
    pub fn is_complete(&self, layout: &Layout) -> bool {
        self.threads.is_some() && (layout.objects.is_none() || self.synchronizers.is_complete())
    }

    /// The thread that owns the lock. `None`: none, or it is not known, as of a virtual thread that runs on no thread.
    pub fn owner(&mut self, pid: u32, layout: &Layout, lock: JavaLock) -> Option<JavaLockOwner> {
        let (thread, sign) = match lock.kind {
            JavaLockKind::Monitor => {
                let (thread, sign) = monitor_owner(pid, layout, self.threads.as_deref()?, &mut self.owner_ids, lock.address)?;
                (thread, Some(sign))
            }
            JavaLockKind::Synchronizer => (self.synchronizer_owner(pid, layout, lock.address)?, None),
        };
        Some(JavaLockOwner { tid: thread.tid, lock, thread, sign })
    }

    fn synchronizer_owner(&mut self, pid: u32, layout: &Layout, lock: u64) -> Option<JavaThread> {
        self.synchronizers.owner(pid, &layout.objects?, lock, self.threads.as_deref()?)
    }

    /// The lock for which the owner of another one waits itself. The outer `None`: it does not own that any more.
    pub fn awaited_by_owner(&mut self, pid: u32, layout: &Layout, owner: &JavaLockOwner) -> Option<Option<JavaLock>> {
        let JavaLockOwner { lock, thread, sign, .. } = *owner;
        let pending = of_each(pid, &[thread], layout.pending_monitor).first().copied()?;
        let awaited = match layout.objects {
            _ if is_object(pending) => Some(JavaLock { kind: JavaLockKind::Monitor, address: pending }),
            Some(objects) => match *self.synchronizers.waits(pid, &objects, &[thread]) {
                [(_, ParkedFor::Lock(address))] => Some(JavaLock { kind: JavaLockKind::Synchronizer, address }),
                _ => None,
            },
            None => None,
        };
        let is_owner = match sign {
            Some(sign) => still_owns(pid, layout, lock.address, &thread, sign),
            None => self.synchronizer_owner(pid, layout, lock.address) == Some(thread),
        };
        let is_same = are_same(pid, layout, &[thread]) == [true];
        (is_owner && is_same).then_some(awaited)
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::{LockStack, ThreadList};
    use super::*;
    use crate::kernel::task::memory::is_readable;

    /// Objects of a virtual machine, in the memory of this process: offsets as in `layout`.
    #[repr(C, align(8))]
    struct Machine {
        list: u64,
        threads_list: [u64; 2],
        pointers: [u64; 3],
        /// next, OSThread, pending monitor, end and length of the stack, owner id; top of the lock stack and 8 places
        java_threads: [[u64; 15]; 3],
        /// Thread id
        os_threads: [[u32; 2]; 3],
        /// Owner, address of the pointer to its object, that pointer
        monitors: [[u64; 3]; 2],
    }

    impl Machine {
        /// Three threads, with the thread ids 101 to 103 and stacks from 0x1000, 0x2000 and 0x3000 on, of 0x800 bytes.
        fn new() -> Box<Machine> {
            let mut machine = Box::new(Machine {
                list: 0,
                threads_list: [3, 0],
                pointers: [0; 3],
                java_threads: [[0; 15]; 3],
                os_threads: [[101, 0], [102, 0], [103, 0]],
                monitors: [[0; 3]; 2],
            });
            machine.list = address(&machine.threads_list);
            machine.threads_list[1] = address(&machine.pointers);
            for at in 0..3 {
                machine.pointers[at] = address(&machine.java_threads[at]);
                let next = machine.java_threads.get(at + 1).map_or(0, address);
                let os_thread = address(&machine.os_threads[at]);
                let thread = [next, os_thread, 0, 0x1800 + 0x1000 * at as u64, 0x800, 11 + at as u64, 56];
                machine.java_threads[at][..7].copy_from_slice(&thread);
            }
            machine
        }

        fn layout(&self, threads: ThreadList) -> Layout {
            let (os_thread, pending_monitor, stack) = (8, 16, (24, 32));
            Layout {
                threads,
                os_thread,
                thread_id: 0,
                pending_monitor,
                owner: 0,
                stack,
                owner_id: None,
                lock_stack: None,
                objects: None,
            }
        }

        fn array(&self) -> Layout {
            self.layout(ThreadList::Array { variable: address(&self.list), length: 0, threads: 8 })
        }
    }

    fn address<T>(of: &T) -> u64 {
        std::ptr::from_ref(of) as u64
    }

    /// The threads that wait for a lock. `most`: threads of the process
    fn waiters(threads: &mut JavaThreads, pid: u32, layout: &Layout, most: usize) -> Vec<(u32, JavaLock)> {
        let waits = threads.waits(pid, layout, most, |_| true, |_| false).unwrap_or_default();
        waits.into_iter().filter_map(|(tid, lock)| Some((tid, lock?))).collect()
    }

    fn monitor(address: u64) -> JavaLock {
        JavaLock { address, kind: JavaLockKind::Monitor }
    }

    fn own_pid() -> Option<u32> {
        let pid = std::process::id();
        if is_readable(pid) != Ok(true) {
            println!("skipped: this user may not read memory");
            return None;
        }
        Some(pid)
    }

    #[test]
    fn threads_that_wait_for_a_monitor_and_its_owner_are_found() {
        let Some(pid) = own_pid() else { return };
        let mut machine = Machine::new();
        let (first, second) = (address(&machine.monitors[0]), address(&machine.monitors[1]));
        machine.java_threads[1][2] = first;
        machine.java_threads[2][2] = first;
        machine.monitors = [[address(&machine.java_threads[0]), 0, 0], [0x2100, 0, 0]];
        machine.java_threads[0][2] = second;
        let linked = ThreadList::Linked { variable: address(&machine.pointers[0]), next: 0 };
        for layout in [machine.array(), machine.layout(linked)] {
            let mut threads = JavaThreads::default();
            let found = waiters(&mut threads, pid, &layout, 9);
            assert_eq!(found, [(101, monitor(second)), (102, monitor(first)), (103, monitor(first))]);
            assert_eq!(threads.waits(pid, &layout, 9, |tid| tid == 102, |_| false).map(|waits| waits.len()), Some(1));
            let owner = threads.owner(pid, &layout, monitor(first)).unwrap();
            assert_eq!((owner.tid, threads.awaited_by_owner(pid, &layout, &owner)), (101, Some(Some(monitor(second)))));
            // A lock record in the stack of the second one.
            let owner = threads.owner(pid, &layout, monitor(second)).unwrap();
            assert_eq!((owner.tid, threads.awaited_by_owner(pid, &layout, &owner)), (102, Some(Some(monitor(first)))));
            assert_eq!(waiters(&mut threads, pid, &layout, 9).len(), 3);
            threads.forget();
            assert_eq!(waiters(&mut threads, pid, &layout, 2).len(), 2, "as many as the process has threads");
        }
    }

    #[test]
    fn a_monitor_names_its_owner_by_a_number_since_version_24() {
        let Some(pid) = own_pid() else { return };
        let mut machine = Machine::new();
        let first = address(&machine.monitors[0]);
        machine.monitors[0][0] = 13;
        let layout = Layout { owner_id: Some(40), ..machine.array() };
        let mut threads = JavaThreads::default();
        assert!(waiters(&mut threads, pid, &layout, 9).len() <= 1);
        assert_eq!(threads.owner(pid, &layout, monitor(first)).map(|owner| owner.tid), Some(103));
        machine.monitors[0][0] = 14;
        assert_eq!(threads.owner(pid, &layout, monitor(first)), None, "a virtual thread");
    }

    #[test]
    fn a_monitor_that_does_not_know_its_owner_is_that_of_the_thread_that_locked_its_object() {
        let Some(pid) = own_pid() else { return };
        let mut machine = Machine::new();
        let first = address(&machine.monitors[0]);
        machine.monitors[0] = [1, address(&machine.monitors[0][2]), 0x7000];
        let layout = Layout { lock_stack: Some(LockStack { object: 8, top: 48, base: 56 }), ..machine.array() };
        let mut threads = JavaThreads::default();
        assert!(waiters(&mut threads, pid, &layout, 9).len() <= 1);
        // Behind the top is what was locked before.
        machine.java_threads[0][7] = 0x7000;
        machine.java_threads[1][7..9].copy_from_slice(&[0x6000, 0x7000]);
        machine.java_threads[1][6] = 56 + 16;
        assert_eq!(threads.owner(pid, &layout, monitor(first)).map(|owner| owner.tid), Some(102));
        machine.java_threads[1][6] = 56 + 8;
        assert_eq!(threads.owner(pid, &layout, monitor(first)), None, "it has unlocked it");
    }

    #[test]
    fn a_monitor_without_owner_and_a_thread_that_is_another_now_count_as_nothing() {
        let Some(pid) = own_pid() else { return };
        let mut machine = Machine::new();
        let first = address(&machine.monitors[0]);
        machine.java_threads[0][2] = first;
        let layout = machine.array();
        let mut threads = JavaThreads::default();
        assert!(waiters(&mut threads, pid, &layout, 9).len() <= 1);
        for reserved in [0, 1, 2, 0x9000] {
            machine.monitors[0][0] = reserved;
            assert_eq!(threads.owner(pid, &layout, monitor(first)), None, "{reserved}");
        }
        assert_eq!(waiters(&mut threads, pid, &layout, 9).len(), 1);
        machine.java_threads[0][1] = address(&machine.os_threads[1]);
        assert_eq!(waiters(&mut threads, pid, &layout, 9), [], "its memory has been used again");
        machine.list = 8;
        threads.forget();
        assert_eq!(waiters(&mut threads, pid, &layout, 9), [], "no list");
    }
}
