//! Locks of java.util.concurrent of a made-up virtual machine in the memory of this process, in each format that objects may have.

mod heap;

use self::heap::{CARRIER, EETOP, FIRST_REFERENCE, FORMATS, Format, Heap, OWNER, field};
use super::objects::JavaField;
use super::synchronizers::{ParkedFor, Synchronizers};
use super::thread_list::JavaThread;
use crate::kernel::task::memory::is_readable;

/// Five threads, each with the object at the same place of `objects`, and locks.
struct Machine {
    heap: Heap,
    threads: Vec<JavaThread>,
    objects: Vec<u64>,
    reentrant: u64,
    /// A synchronizer of the program
    own: u64,
    condition: u64,
    virtual_thread: u64,
    thread_class: u64,
}

impl Machine {
    fn new(format: Format) -> Machine {
        let mut heap = Heap::new(format);
        let top = heap.object;
        let park_blocker = Machine::park_blocker(format);
        let constant = JavaField { is_static: true, ..field("parkBlocker", 8, true) };
        let fields = [
            constant,
            field("eetop", EETOP, false),
            field("name", FIRST_REFERENCE, true),
            field("parkBlocker", park_blocker, true),
        ];
        let thread = heap.class("java/lang/Thread", top, &fields);
        let worker = heap.class("org/example/Worker", thread, &[field("parkBlocker", 96, true)]);
        let carried = heap.class("java/lang/VirtualThread", thread, &[field("carrierThread", CARRIER, true)]);
        let synchronizer = heap.class(
            "java/util/concurrent/locks/AbstractOwnableSynchronizer",
            top,
            &[field("exclusiveOwnerThread", OWNER, true)],
        );
        let fair = heap.class("java/util/concurrent/locks/ReentrantLock$FairSync", synchronizer, &[]);
        let own = heap.class("org/example/Latch", synchronizer, &[]);
        let condition = heap.class("org/example/Condition", top, &[field("exclusiveOwnerThread", OWNER, true)]);
        let objects: Vec<u64> = [thread, worker, thread, worker, thread].map(|class| heap.object(class)).to_vec();
        let [reentrant, own, condition] = [fair, own, condition].map(|class| heap.object(class));
        let virtual_thread = heap.object(carried);
        let threads: Vec<JavaThread> = (101..).zip(&objects).map(|(tid, &object)| heap.java_thread(tid, object)).collect();
        for (thread, &object) in threads.iter().zip(&objects) {
            heap.put_long(object + EETOP, thread.address);
        }
        Machine { heap, threads, objects, reentrant, own, condition, virtual_thread, thread_class: thread }
    }

    fn park_blocker(format: Format) -> u64 {
        FIRST_REFERENCE + if format.is_narrow { 4 } else { 8 }
    }

    fn parks(&mut self, thread: usize, blocker: u64) {
        let place = self.objects[thread] + Machine::park_blocker(self.heap.format);
        self.heap.refer(place, blocker);
    }

    fn owns(&mut self, lock: u64, object: u64) {
        self.heap.refer(lock + OWNER, object);
    }

    fn waiters(&self, synchronizers: &mut Synchronizers) -> Vec<(u32, u64)> {
        let waits = synchronizers.waits(std::process::id(), &self.heap.layout(), &self.threads);
        let mut locks: Vec<(u32, u64)> = waits.into_iter().filter_map(in_lock).collect();
        locks.sort_unstable();
        locks
    }

    fn owner(&self, synchronizers: &mut Synchronizers, lock: u64) -> Option<u32> {
        let owner = synchronizers.owner(std::process::id(), &self.heap.layout(), lock, &self.threads);
        owner.map(|thread| thread.tid)
    }
}

fn in_lock((thread, parked): (JavaThread, ParkedFor)) -> Option<(u32, u64)> {
    match parked {
        ParkedFor::Lock(lock) => Some((thread.tid, lock)),
        ParkedFor::NotOwned | ParkedFor::Other => None,
    }
}

fn may_read_memory() -> bool {
    let may = is_readable(std::process::id()) == Ok(true);
    if !may {
        println!("skipped: this user may not read memory");
    }
    may
}

#[test]
fn threads_that_wait_for_locks_and_their_owners_are_found_in_each_format() {
    if !may_read_memory() {
        return;
    }
    for format in FORMATS {
        let mut machine = Machine::new(format);
        let (mut synchronizers, reentrant, own) = (Synchronizers::default(), machine.reentrant, machine.own);
        assert_eq!(machine.waiters(&mut synchronizers), [], "{format:?}");
        machine.parks(0, reentrant);
        machine.parks(1, own);
        machine.parks(2, machine.condition);
        machine.parks(4, reentrant);
        machine.owns(reentrant, machine.objects[3]);
        machine.owns(own, machine.objects[0]);
        machine.owns(machine.condition, machine.objects[3]);
        let waiters = machine.waiters(&mut synchronizers);
        assert_eq!(waiters, [(101, reentrant), (102, own), (105, reentrant)], "{format:?}: a condition is no lock");
        assert_eq!(machine.owner(&mut synchronizers, reentrant), Some(104), "{format:?}");
        assert_eq!(machine.owner(&mut synchronizers, own), Some(101), "{format:?}");
        assert_eq!(machine.owner(&mut synchronizers, machine.condition), None, "{format:?}");
    }
}

#[test]
fn a_synchronizer_without_owner_is_a_lock_only_where_its_class_is_one() {
    if !may_read_memory() {
        return;
    }
    let mut machine = Machine::new(FORMATS[2]);
    let (mut synchronizers, reentrant) = (Synchronizers::default(), machine.reentrant);
    machine.parks(0, reentrant);
    machine.parks(1, machine.own);
    assert_eq!(machine.waiters(&mut synchronizers), [(101, reentrant)], "a semaphore or a latch never has an owner");
    assert_eq!(machine.owner(&mut synchronizers, reentrant), None, "between two owners");
}

#[test]
fn a_virtual_thread_owns_a_lock_by_the_thread_that_runs_it() {
    if !may_read_memory() {
        return;
    }
    let mut machine = Machine::new(FORMATS[2]);
    let (mut synchronizers, reentrant, carried) = (Synchronizers::default(), machine.reentrant, machine.virtual_thread);
    machine.parks(0, reentrant);
    machine.owns(reentrant, carried);
    assert_eq!(machine.waiters(&mut synchronizers), [(101, reentrant)]);
    assert_eq!(machine.owner(&mut synchronizers, reentrant), None, "it runs on none");
    machine.heap.refer(carried + CARRIER, machine.objects[2]);
    assert_eq!(machine.owner(&mut synchronizers, reentrant), Some(103));
}

#[test]
fn what_is_no_object_and_threads_that_are_not_known_count_as_nothing() {
    if !may_read_memory() {
        return;
    }
    let mut machine = Machine::new(FORMATS[1]);
    let (mut synchronizers, reentrant) = (Synchronizers::default(), machine.reentrant);
    machine.owns(reentrant, machine.objects[3]);
    machine.parks(4, reentrant);
    for hostile in [0x10, u64::MAX - 7, machine.heap.begin(), machine.objects[0], machine.threads[0].address] {
        machine.parks(0, hostile);
        assert_eq!(machine.waiters(&mut synchronizers), [(105, reentrant)], "{hostile:#x}");
        machine.owns(machine.own, hostile);
        assert!(matches!(machine.owner(&mut synchronizers, machine.own), None | Some(101)), "{hostile:#x}");
    }
    // What it waits for is not known, which differs from nothing.
    machine.parks(0, 0x10);
    let waits = synchronizers.waits(std::process::id(), &machine.heap.layout(), &machine.threads);
    let read: Vec<u32> = waits.iter().map(|(thread, _)| thread.tid).collect();
    assert_eq!((read.len(), read.contains(&101)), (4, false));
    machine.threads.remove(3);
    assert_eq!(machine.owner(&mut synchronizers, reentrant), None);
    // Nothing leads to java.lang.Thread.
    let mut other = Machine::new(FORMATS[1]);
    other.heap.words.fill(8);
    assert_eq!(other.waiters(&mut Synchronizers::default()), []);
}

#[test]
fn of_very_many_classes_some_are_looked_up_in_each_interval() {
    if !may_read_memory() {
        return;
    }
    let mut machine = Machine::new(FORMATS[1]);
    let top = machine.heap.object;
    let blockers: Vec<u64> = (0..40)
        .map(|number| {
            let class = machine.heap.class(&format!("Class{number}"), top, &[]);
            machine.heap.object(class)
        })
        .collect();
    for &blocker in &blockers {
        let object = machine.heap.object(machine.thread_class);
        let thread = machine.heap.java_thread(200, object);
        machine.objects.push(object);
        machine.threads.push(thread);
        machine.parks(machine.threads.len() - 1, blocker);
    }
    let mut synchronizers = Synchronizers::default();
    let mut known = |machine: &Machine| {
        synchronizers.begin_interval();
        let layout = machine.heap.layout();
        // More readings in an interval find no more.
        let waits = [(); 2].map(|()| synchronizers.waits(std::process::id(), &layout, &machine.threads).len());
        assert_eq!(waits[0], waits[1]);
        (waits[0], synchronizers.is_complete())
    };
    assert_eq!(known(&machine), (5 + 16, false));
    assert_eq!(known(&machine), (5 + 32, false));
    assert_eq!(known(&machine), (5 + 40, true));
}
