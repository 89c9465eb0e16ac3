//! Locks of java.util.concurrent of a made-up virtual machine in the memory of this process, in each format that objects may have.

use super::layout::{FieldList, ObjectLayout};
use super::objects::JavaField;
use super::synchronizers::{ParkedFor, Synchronizers};
use super::thread_list::JavaThread;
use crate::kernel::task::memory::is_readable;

/// How the machine has its objects.
#[derive(Clone, Copy, Debug)]
struct Format {
    /// References and addresses of classes have 4 bytes.
    is_narrow: bool,
    /// The first word of an object has its class.
    is_compact: bool,
    /// References have the bits of generational ZGC.
    is_colored: bool,
    /// Threads have the address of a reference to their object.
    has_handles: bool,
    /// Fields of classes are a stream.
    has_stream: bool,
}

const OLD: Format = Format { is_narrow: true, is_compact: false, is_colored: false, has_handles: false, has_stream: false };
const FORMATS: [Format; 5] = [
    OLD,
    Format { is_narrow: false, ..OLD },
    Format { has_handles: true, has_stream: true, ..OLD },
    Format { has_handles: true, has_stream: true, is_compact: true, ..OLD },
    Format { is_narrow: false, is_colored: true, has_handles: true, has_stream: true, ..OLD },
];

/// Words of memory; what is in it is allocated from the beginning.
struct Heap {
    words: Box<[u64]>,
    used: usize,
    format: Format,
    object: u64,
}

const SHIFT: u64 = 3;
/// Offsets: of an object its class; of an InstanceKlass its superclass, name, constants, fields, and their number; of a JavaThread its object; of
/// a ConstantPool the first constant
const CLASS: u64 = 8;
const SUPER: u64 = 8;
const NAME: u64 = 16;
const CONSTANTS: u64 = 24;
const FIELDS: u64 = 32;
const COUNT: u64 = 40;
const THREAD_OBJECT: u64 = 24;
const FIRST_CONSTANT: u64 = 16;
/// Of objects
const EETOP: u64 = 16;
const FIRST_REFERENCE: u64 = 32;
const CARRIER: u64 = 64;
const OWNER: u64 = 24;

impl Heap {
    fn new(format: Format) -> Heap {
        let mut heap = Heap { words: vec![0; 8192].into(), used: 8, format, object: 0 };
        heap.object = heap.class("java/lang/Object", 0, &[]);
        // Narrow references: base and shift
        (heap.words[0], heap.words[1]) = (heap.begin(), SHIFT);
        heap
    }

    fn begin(&self) -> u64 {
        self.words.as_ptr() as u64
    }

    fn layout(&self) -> ObjectLayout {
        let narrow = (self.begin(), self.begin() + 8);
        ObjectLayout {
            thread_object: THREAD_OBJECT,
            class: CLASS,
            narrow_reference: narrow,
            narrow_class: narrow,
            super_class: SUPER,
            name: NAME,
            constants: CONSTANTS,
            first_constant: FIRST_CONSTANT,
            symbol: (4, 6),
            fields: match self.format.has_stream {
                true => FieldList::Stream { array: FIELDS, begin: 4 },
                false => FieldList::Records { array: FIELDS, count: COUNT, begin: 4 },
            },
        }
    }

    /// The address of so many bytes, and that of which it is the first.
    fn allocate(&mut self, bytes: usize) -> u64 {
        let address = self.begin() + 8 * self.used as u64;
        self.used += bytes.div_ceil(8);
        assert!(self.used + 16 < self.words.len(), "names are read beyond their ends");
        address
    }

    fn put(&mut self, address: u64, bytes: &[u8]) {
        let at = usize::try_from(address - self.begin()).unwrap();
        for (at, &byte) in (at..).zip(bytes) {
            let word = &mut self.words[at / 8];
            let mut own = word.to_ne_bytes();
            own[at % 8] = byte;
            *word = u64::from_ne_bytes(own);
        }
    }

    fn put_long(&mut self, address: u64, long: u64) {
        self.put(address, &long.to_ne_bytes());
    }

    fn symbol(&mut self, text: &str) -> u64 {
        let symbol = self.allocate(6 + text.len());
        self.put(symbol + 4, &u16::try_from(text.len()).unwrap().to_ne_bytes());
        self.put(symbol + 6, text.as_bytes());
        symbol
    }

    /// A class with fields of its own.
    fn class(&mut self, name: &str, super_class: u64, fields: &[JavaField]) -> u64 {
        let class = self.allocate(48);
        let constants = self.allocate(16 + 16 * fields.len());
        let name = self.symbol(name);
        let mut list = if self.format.has_stream { stream(fields) } else { records(fields) };
        for (at, field) in (0..).zip(fields) {
            let signature = if field.is_reference { "Ljava/lang/Object;" } else { "J" };
            let texts = [self.symbol(std::str::from_utf8(&field.name).unwrap()), self.symbol(signature)];
            for (place, text) in (2 * at..).zip(texts) {
                self.put_long(constants + FIRST_CONSTANT + 8 * place, text);
            }
        }
        let length = u32::try_from(list.len()).unwrap();
        list.splice(0..0, length.to_ne_bytes());
        let array = self.allocate(list.len());
        self.put(array, &list);
        for (offset, long) in [(SUPER, super_class), (NAME, name), (CONSTANTS, constants), (FIELDS, array)] {
            self.put_long(class + offset, long);
        }
        self.put(class + COUNT, &u16::try_from(fields.len()).unwrap().to_ne_bytes());
        class
    }

    fn object(&mut self, class: u64) -> u64 {
        let object = self.allocate(128);
        let narrow = (class - self.begin()) >> SHIFT;
        match self.format {
            Format { is_compact: true, .. } => self.put_long(object, narrow << 42 | 1),
            Format { is_narrow: true, .. } => self.put(object + CLASS, &u32::try_from(narrow).unwrap().to_ne_bytes()),
            _ => self.put_long(object + CLASS, class),
        }
        object
    }

    /// A reference in a structure of the virtual machine: with the bits of a collector where it has them.
    fn long_reference(&self, object: u64) -> u64 {
        if self.format.is_colored && object != 0 { object << 14 | 1 << 13 | 0x10 } else { object }
    }

    fn refer(&mut self, place: u64, object: u64) {
        let narrow = if object == 0 { 0 } else { object.wrapping_sub(self.begin()) >> SHIFT };
        match self.format.is_narrow {
            true => self.put(place, &u32::try_from(narrow).unwrap().to_ne_bytes()),
            false => self.put_long(place, self.long_reference(object)),
        }
    }

    /// The thread that runs with this object of class Thread.
    fn java_thread(&mut self, tid: u32, object: u64) -> JavaThread {
        let address = self.allocate(32);
        let reference = self.long_reference(object);
        let pointer = match self.format.has_handles {
            true => {
                let handle = self.allocate(8);
                self.put_long(handle, reference);
                handle
            }
            false => reference,
        };
        self.put_long(address + THREAD_OBJECT, pointer);
        JavaThread { address, os_thread: 8, tid }
    }
}

fn field(name: &str, offset: u64, is_reference: bool) -> JavaField {
    JavaField { name: name.into(), offset, is_reference, is_static: false }
}

/// Access flags, name, signature, initial value, and the offset with two bits that say what it is.
fn records(fields: &[JavaField]) -> Vec<u8> {
    let record = |(at, field): (u16, &JavaField)| {
        let offset = u16::try_from(field.offset << 2 | 1).unwrap();
        [u16::from(field.is_static) * 8, 2 * at, 2 * at + 1, 0, offset, 0]
    };
    (0..).zip(fields).flat_map(record).flat_map(u16::to_ne_bytes).collect()
}

/// The same as small numbers, of which each is one byte that is 1 more; the first field has an initial value.
fn stream(fields: &[JavaField]) -> Vec<u8> {
    let mut numbers = vec![fields.len() as u8, 0];
    for (at, field) in (0..).zip(fields) {
        numbers.extend([2 * at, 2 * at + 1, field.offset as u8, u8::from(field.is_static) * 8, u8::from(at == 0)]);
        numbers.extend((at == 0).then_some(7));
    }
    numbers.into_iter().map(|number| number + 1).collect()
}

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
