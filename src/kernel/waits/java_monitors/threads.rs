//! The threads of one Java virtual machine, the monitors that they wait to enter, and the owners of these, from its memory.
//!
//! Nothing stops the virtual machine meanwhile: what is read of a thread counts only if the thread is still the same afterwards.

use super::layout::{Layout, LockStack, ThreadList};
use crate::kernel::task::memory::{read_longs, read_memory, read_scattered};

/// Threads of one virtual machine that are read; of larger ones the first.
const MAX_JAVA_THREADS: usize = 4096;
/// The owner of a monitor that another thread made, while the owner had locked the object without one.
const ANONYMOUS_OWNER: u64 = 1;
/// 0: no owner; 2: the monitor is being removed
const MAX_RESERVED_OWNER: u64 = 2;
/// Places of a lock stack
const LOCK_STACK_PLACES: usize = 8;

/// A thread that runs Java code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct JavaThread {
    /// Of the JavaThread
    address: u64,
    os_thread: u64,
    /// In the pid namespace of the process
    tid: u32,
}

/// A thread that waits to enter a monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MonitorWaiter {
    /// In the pid namespace of the process
    pub tid: u32,
    /// Address of the ObjectMonitor
    pub monitor: u64,
}

/// The owner of a monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MonitorOwner {
    /// In the pid namespace of the process
    pub tid: u32,
    monitor: u64,
    thread: JavaThread,
    sign: OwnerSign,
}

/// What shows that a thread owns a monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnerSign {
    /// The monitor has this word, which names the thread.
    Named(u64),
    /// The monitor has this number, which the thread has at this offset.
    Id { word: u64, offset: u64 },
    /// The monitor does not name it, and the thread's lock stack has this object.
    Locked { object: u64, stack: LockStack },
}

/// The threads of one virtual machine.
#[derive(Debug, Default)]
pub struct JavaThreads {
    /// `None`: not read in this interval
    threads: Option<Vec<JavaThread>>,
    /// The numbers by which monitors name them, as they were in this sub-sample: `Layout::owner_id`
    owner_ids: Vec<u64>,
}

impl JavaThreads {
    /// Begins an interval: threads may have begun or ended.
    pub fn forget(&mut self) {
        self.threads = None;
    }

    /// Begins a sub-sample: those of the threads for which `is_wanted` holds that wait to enter a monitor. `most`: threads of the process
    pub fn waiters(
        &mut self,
        pid: u32,
        layout: &Layout,
        most: usize,
        mut is_wanted: impl FnMut(u32) -> bool,
    ) -> Vec<MonitorWaiter> {
        self.owner_ids.clear();
        let threads =
            self.threads.get_or_insert_with(|| read_threads(pid, layout, most.min(MAX_JAVA_THREADS)).unwrap_or_default());
        let wanted: Vec<JavaThread> = threads.iter().filter(|thread| is_wanted(thread.tid)).copied().collect();
        let pending = of_each(pid, &wanted, layout.pending_monitor);
        let may_wait = wanted.into_iter().zip(pending).filter(|&(_, monitor)| is_object(monitor));
        let (waiting, monitors): (Vec<JavaThread>, Vec<u64>) = may_wait.unzip();
        let are_same = are_same(pid, layout, &waiting);
        let waiters = waiting.into_iter().zip(monitors).zip(are_same).filter(|&(_, is_same)| is_same);
        waiters.map(|((thread, monitor), _)| MonitorWaiter { tid: thread.tid, monitor }).collect()
    }

    /// The thread that owns the monitor. `None`: none, or it is not known, as of a virtual thread that runs on no thread.
    pub fn owner(&mut self, pid: u32, layout: &Layout, monitor: u64) -> Option<MonitorOwner> {
        let threads = self.threads.as_deref()?;
        let word = read_long(pid, monitor.checked_add(layout.owner)?)?;
        let (thread, sign) = match (layout.lock_stack, layout.owner_id) {
            (Some(stack), _) if word == ANONYMOUS_OWNER => {
                let pointer = read_long(pid, monitor.checked_add(stack.object)?).filter(|&pointer| is_object(pointer))?;
                let object = read_long(pid, pointer).filter(|&object| is_object(object))?;
                (locked_by(pid, &stack, threads, object)?, OwnerSign::Locked { object, stack })
            }
            _ if word <= MAX_RESERVED_OWNER => return None,
            (_, Some(offset)) => {
                if self.owner_ids.is_empty() {
                    self.owner_ids = of_each(pid, threads, offset);
                }
                let (thread, _) = threads.iter().zip(&self.owner_ids).find(|&(_, &id)| id == word)?;
                (*thread, OwnerSign::Id { word, offset })
            }
            (_, None) => {
                let by_address = threads.iter().find(|thread| thread.address == word).copied();
                (by_address.or_else(|| with_stack_address(pid, layout, threads, word))?, OwnerSign::Named(word))
            }
        };
        Some(MonitorOwner { tid: thread.tid, monitor, thread, sign })
    }

    /// The monitor that the owner of another one waits to enter itself. The outer `None`: it does not own that any more.
    pub fn awaited_by_owner(&self, pid: u32, layout: &Layout, owner: &MonitorOwner) -> Option<Option<u64>> {
        let MonitorOwner { monitor, thread, sign, .. } = *owner;
        let pending = of_each(pid, &[thread], layout.pending_monitor).first().copied()?;
        let word = read_long(pid, monitor.checked_add(layout.owner)?)?;
        let is_owner = match sign {
            OwnerSign::Named(named) => word == named,
            OwnerSign::Id { word: id, offset } => word == id && of_each(pid, &[thread], offset) == [id],
            OwnerSign::Locked { object, stack } => {
                word == ANONYMOUS_OWNER && locked_by(pid, &stack, &[thread], object).is_some()
            }
        };
        let is_same = are_same(pid, layout, &[thread]) == [true];
        (is_owner && is_same).then_some(Some(pending).filter(|&pending| is_object(pending)))
    }
}

/// The thread whose lock stack has the object.
fn locked_by(pid: u32, stack: &LockStack, threads: &[JavaThread], object: u64) -> Option<JavaThread> {
    let used = |top: u64| u64::from(low_half(top)).saturating_sub(stack.base) / size_of::<u64>() as u64;
    let tops = threads.iter().zip(of_each(pid, threads, stack.top));
    let locking: Vec<(JavaThread, u64)> =
        tops.map(|(&thread, top)| (thread, used(top))).filter(|&(_, used)| used > 0).collect();
    let bases: Vec<u64> = locking.iter().map(|(thread, _)| thread.address.saturating_add(stack.base)).collect();
    let places = read_scattered(pid, &bases, LOCK_STACK_PLACES * size_of::<u64>()).ok()?;
    let (places, _) = places.as_chunks::<{ size_of::<u64>() }>();
    let has_locked = |used: u64, places: &[[u8; 8]]| {
        let used = usize::try_from(used).unwrap_or(usize::MAX);
        places.iter().take(used).any(|&place| u64::from_ne_bytes(place) == object)
    };
    let mut stacks = locking.into_iter().zip(places.chunks_exact(LOCK_STACK_PLACES));
    stacks.find(|&((_, used), places)| has_locked(used, places)).map(|((thread, _), _)| thread)
}

/// The thread in whose stack the address is.
fn with_stack_address(pid: u32, layout: &Layout, threads: &[JavaThread], address: u64) -> Option<JavaThread> {
    let (ends, lengths) = (of_each(pid, threads, layout.stack.0), of_each(pid, threads, layout.stack.1));
    let is_inside = |(&end, &length): (&u64, &u64)| (end.saturating_sub(length)..end).contains(&address);
    threads.iter().zip(ends.iter().zip(&lengths)).find(|&(_, stack)| is_inside(stack)).map(|(thread, _)| *thread)
}

/// What each thread has at an offset; of those from the first one that is not mapped 0.
fn of_each(pid: u32, threads: &[JavaThread], offset: u64) -> Vec<u64> {
    let addresses: Vec<u64> = threads.iter().map(|thread| thread.address.saturating_add(offset)).collect();
    let mut longs = read_longs(pid, &addresses).unwrap_or_default();
    longs.resize(threads.len(), 0);
    longs
}

/// Whether each of these threads still is what it was when the list was read.
fn are_same(pid: u32, layout: &Layout, threads: &[JavaThread]) -> Vec<bool> {
    let os_threads = of_each(pid, threads, layout.os_thread);
    let addresses: Vec<u64> = threads.iter().map(|thread| thread.os_thread.saturating_add(layout.thread_id)).collect();
    let mut tids = read_longs(pid, &addresses).unwrap_or_default();
    tids.resize(threads.len(), 0);
    let now = os_threads.into_iter().zip(tids);
    let is_same =
        |(thread, (os_thread, tid)): (&JavaThread, (u64, u64))| (thread.os_thread, thread.tid) == (os_thread, low_half(tid));
    threads.iter().zip(now).map(is_same).collect()
}

/// At most so many of the threads.
fn read_threads(pid: u32, layout: &Layout, most: usize) -> Option<Vec<JavaThread>> {
    let addresses = match layout.threads {
        ThreadList::Array { variable, length, threads } => {
            let list = read_long(pid, variable)?;
            let count = usize::try_from(read_int(pid, list.checked_add(length)?)?).ok()?.min(most);
            let begin = read_long(pid, list.checked_add(threads)?)?;
            let mut bytes = vec![0; count * size_of::<u64>()];
            read_memory(pid, begin, &mut bytes).ok()?;
            let (pointers, _) = bytes.as_chunks();
            pointers.iter().map(|&pointer| u64::from_ne_bytes(pointer)).collect()
        }
        ThreadList::Linked { variable, next } => follow_links(pid, read_long(pid, variable)?, next, most),
    };
    let column = |objects: &[u64], offset: u64| {
        let addresses: Vec<u64> = objects.iter().map(|object| object.saturating_add(offset)).collect();
        read_longs(pid, &addresses).ok().filter(|longs| longs.len() == addresses.len())
    };
    let os_threads = column(&addresses, layout.os_thread)?;
    // One that begins has no OSThread yet.
    let begun = addresses.iter().zip(os_threads).filter(|&(&address, os_thread)| is_object(address) && is_object(os_thread));
    let (addresses, os_threads): (Vec<u64>, Vec<u64>) = begun.unzip();
    let tids = column(&os_threads, layout.thread_id)?;
    let rows = addresses.into_iter().zip(os_threads).zip(tids);
    let thread = |((address, os_thread), tid)| JavaThread { address, os_thread, tid: low_half(tid) };
    Some(rows.map(thread).filter(|thread| thread.tid > 0).collect())
}

fn follow_links(pid: u32, first: u64, next: u64, most: usize) -> Vec<u64> {
    let follow = |&address: &u64| read_long(pid, address.checked_add(next)?).filter(|&next| is_object(next));
    std::iter::successors(Some(first).filter(|&first| is_object(first)), follow).take(most).collect()
}

/// An int, of the 8 bytes that begin with it.
fn low_half(long: u64) -> u32 {
    let bytes = long.to_ne_bytes();
    bytes.first_chunk().map_or(0, |&half| u32::from_ne_bytes(half))
}

/// Whether an address may be that of an object.
fn is_object(address: u64) -> bool {
    address > MAX_RESERVED_OWNER && address.is_multiple_of(size_of::<u64>() as u64)
}

fn read_long(pid: u32, address: u64) -> Option<u64> {
    read_longs(pid, &[address]).ok()?.first().copied()
}

fn read_int(pid: u32, address: u64) -> Option<u32> {
    let mut bytes = [0; size_of::<u32>()];
    read_memory(pid, address, &mut bytes).ok()?;
    Some(u32::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
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
            Layout { threads, os_thread, thread_id: 0, pending_monitor, owner: 0, stack, owner_id: None, lock_stack: None }
        }

        fn array(&self) -> Layout {
            self.layout(ThreadList::Array { variable: address(&self.list), length: 0, threads: 8 })
        }
    }

    fn address<T>(of: &T) -> u64 {
        std::ptr::from_ref(of) as u64
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
            let waiters: Vec<(u32, u64)> =
                threads.waiters(pid, &layout, 9, |_| true).iter().map(|row| (row.tid, row.monitor)).collect();
            assert_eq!(waiters, [(101, second), (102, first), (103, first)]);
            assert_eq!(threads.waiters(pid, &layout, 9, |tid| tid == 102).len(), 1);
            let owner = threads.owner(pid, &layout, first).unwrap();
            assert_eq!((owner.tid, threads.awaited_by_owner(pid, &layout, &owner)), (101, Some(Some(second))));
            // A lock record in the stack of the second one.
            let owner = threads.owner(pid, &layout, second).unwrap();
            assert_eq!((owner.tid, threads.awaited_by_owner(pid, &layout, &owner)), (102, Some(Some(first))));
            assert_eq!(threads.waiters(pid, &layout, 9, |_| true).len(), 3);
            threads.forget();
            assert_eq!(threads.waiters(pid, &layout, 2, |_| true).len(), 2, "as many as the process has threads");
        }
    }

    #[test]
    fn a_monitor_names_its_owner_by_a_number_since_version_24() {
        let Some(pid) = own_pid() else { return };
        let mut machine = Machine::new();
        let monitor = address(&machine.monitors[0]);
        machine.monitors[0][0] = 13;
        let layout = Layout { owner_id: Some(40), ..machine.array() };
        let mut threads = JavaThreads::default();
        assert!(threads.waiters(pid, &layout, 9, |_| true).len() <= 1);
        assert_eq!(threads.owner(pid, &layout, monitor).map(|owner| owner.tid), Some(103));
        machine.monitors[0][0] = 14;
        assert_eq!(threads.owner(pid, &layout, monitor), None, "a virtual thread");
    }

    #[test]
    fn a_monitor_that_does_not_know_its_owner_is_that_of_the_thread_that_locked_its_object() {
        let Some(pid) = own_pid() else { return };
        let mut machine = Machine::new();
        let monitor = address(&machine.monitors[0]);
        machine.monitors[0] = [ANONYMOUS_OWNER, address(&machine.monitors[0][2]), 0x7000];
        let layout = Layout { lock_stack: Some(LockStack { object: 8, top: 48, base: 56 }), ..machine.array() };
        let mut threads = JavaThreads::default();
        assert!(threads.waiters(pid, &layout, 9, |_| true).len() <= 1);
        // Behind the top is what was locked before.
        machine.java_threads[0][7] = 0x7000;
        machine.java_threads[1][7..9].copy_from_slice(&[0x6000, 0x7000]);
        machine.java_threads[1][6] = 56 + 16;
        assert_eq!(threads.owner(pid, &layout, monitor).map(|owner| owner.tid), Some(102));
        machine.java_threads[1][6] = 56 + 8;
        assert_eq!(threads.owner(pid, &layout, monitor), None, "it has unlocked it");
    }

    #[test]
    fn a_monitor_without_owner_and_a_thread_that_is_another_now_count_as_nothing() {
        let Some(pid) = own_pid() else { return };
        let mut machine = Machine::new();
        let monitor = address(&machine.monitors[0]);
        machine.java_threads[0][2] = monitor;
        let layout = machine.array();
        let mut threads = JavaThreads::default();
        assert!(threads.waiters(pid, &layout, 9, |_| true).len() <= 1);
        for reserved in [0, 1, 2, 0x9000] {
            machine.monitors[0][0] = reserved;
            assert_eq!(threads.owner(pid, &layout, monitor), None, "{reserved}");
        }
        assert_eq!(threads.waiters(pid, &layout, 9, |_| true).len(), 1);
        machine.java_threads[0][1] = address(&machine.os_threads[1]);
        assert_eq!(threads.waiters(pid, &layout, 9, |_| true), [], "its memory has been used again");
        machine.list = 8;
        threads.forget();
        assert_eq!(threads.waiters(pid, &layout, 9, |_| true), [], "no list");
    }
}
