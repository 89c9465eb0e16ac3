//! Locks of java.util.concurrent (ReentrantLock, ReentrantReadWriteLock, and what extends AbstractOwnableSynchronizer): which threads wait
//! for one, and which thread owns it, by the objects of the Java program.
//!
//! A thread that waits says for what: `Thread.parkBlocker`, set by LockSupport.park. The object names its owner:
//! `AbstractOwnableSynchronizer.exclusiveOwnerThread`. That of a semaphore, a latch, a condition or a queue names none: they are no locks.

use rustc_hash::FxHashMap;

use super::layout::ObjectLayout;
use super::objects::{ClassPointer, JavaField, NarrowBase, Objects, ReferenceFormat};
use super::thread_list::{JavaThread, is_object};

const THREAD: &[u8] = b"java/lang/Thread";
const VIRTUAL_THREAD: &[u8] = b"java/lang/VirtualThread";
const SYNCHRONIZER: &[u8] = b"java/util/concurrent/locks/AbstractOwnableSynchronizer";
/// ReentrantLock and ReentrantReadWriteLock: they are locks also while none of their owners is named, at a handover or with readers.
const REENTRANT: &[u8] = b"java/util/concurrent/locks/Reentrant";

/// Classes of objects for which threads wait, and those of them that are looked up in one interval.
const MAX_CLASSES: usize = 256;
const MAX_NEW_CLASSES: usize = 16;
/// Threads by whose objects the format is sought in an interval, and in how many intervals: it may be none that is known. After as many with
/// too many new classes none is waited for.
const TRIED_THREADS: usize = 4;
const MAX_TRIES: u32 = 20;

/// The locks of one virtual machine.
#[derive(Debug, Default)]
pub struct Synchronizers {
    format: Option<Format>,
    /// Intervals in which it was sought
    tries: u32,
    /// It was sought in this one.
    is_tried: bool,
    classes: FxHashMap<u64, ClassFields>,
    /// Classes that were looked up in this interval, and whether there were more
    new_classes: usize,
    has_missed_class: bool,
    /// Intervals in which there were more
    missed_intervals: u32,
}

/// For what a thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParkedFor {
    /// A lock, by its address
    Lock(u64),
    /// A synchronizer of the program or of the library that has no owner, as a semaphore: it may be a lock between two owners.
    NotOwned,
    /// Nothing, or what is no synchronizer
    Other,
}

/// How a virtual machine has its objects, and fields of java.lang.Thread.
#[derive(Clone, Copy, Debug)]
struct Format {
    class_pointer: ClassPointer,
    references: ReferenceFormat,
    narrow_reference: NarrowBase,
    narrow_class: NarrowBase,
    /// The JavaThread has the address of a pointer to its object.
    has_handles: bool,
    /// `Thread.parkBlocker`: for what it waits in LockSupport.park
    park_blocker: u64,
    /// `Thread.eetop`: its JavaThread; 0: a virtual thread
    java_thread: u64,
}

/// Offsets in objects of one class.
#[derive(Clone, Copy, Debug)]
struct ClassFields {
    /// `AbstractOwnableSynchronizer.exclusiveOwnerThread`
    owner: Option<u64>,
    is_reentrant_lock: bool,
    /// `VirtualThread.carrierThread`: the thread that runs it
    carrier: Option<u64>,
}

impl Synchronizers {
    /// Begins an interval.
    pub fn begin_interval(&mut self) {
        self.missed_intervals = self.missed_intervals.saturating_add(u32::from(self.has_missed_class));
        (self.is_tried, self.new_classes, self.has_missed_class) = (false, 0, false);
    }

    /// Whether a reading of a thread now shows what it waits for, or no later one will.
    pub fn is_complete(&self) -> bool {
        let has_all_classes = !self.has_missed_class || self.missed_intervals >= MAX_TRIES;
        (self.format.is_some() || self.tries >= MAX_TRIES) && has_all_classes
    }

    /// What those of the threads wait for of which it could be read: the garbage collector may be moving objects.
    pub fn waits(&mut self, pid: u32, layout: &ObjectLayout, threads: &[JavaThread]) -> Vec<(JavaThread, ParkedFor)> {
        let Some(format) = self.format(pid, layout, threads) else { return Vec::new() };
        let objects = format.objects(pid, layout);
        let (threads, thread_objects) = format.thread_objects(&objects, threads);
        let (mut waits, mut parked) = (Vec::new(), Vec::new());
        for (thread, blocker) in threads.into_iter().zip(references_at(&objects, &thread_objects, format.park_blocker)) {
            match blocker {
                Some(0) => waits.push((thread, ParkedFor::Other)),
                Some(blocker) if is_object(blocker) => parked.push((thread, blocker)),
                _ => {}
            }
        }
        let blockers: Vec<u64> = parked.iter().map(|&(_, blocker)| blocker).collect();
        let mut synchronizers = Vec::new();
        for ((thread, blocker), class) in parked.into_iter().zip(objects.classes(&blockers)) {
            let Some(fields) = class.and_then(|class| self.class_fields(&objects, class)) else { continue };
            match fields.owner {
                Some(owner) => synchronizers.push((thread, blocker, owner, fields.is_reentrant_lock)),
                None => waits.push((thread, ParkedFor::Other)),
            }
        }
        let places: Vec<u64> = synchronizers.iter().map(|&(_, blocker, owner, _)| blocker.saturating_add(owner)).collect();
        for ((thread, blocker, _, is_reentrant_lock), owner) in synchronizers.into_iter().zip(objects.references(&places)) {
            let Some(owner) = owner else { continue };
            let is_lock = is_reentrant_lock || owner != 0;
            waits.push((thread, if is_lock { ParkedFor::Lock(blocker) } else { ParkedFor::NotOwned }));
        }
        waits
    }

    /// The thread that owns the lock. `None`: none, or it is not known, as of a virtual thread that runs on no thread.
    pub fn owner(&mut self, pid: u32, layout: &ObjectLayout, lock: u64, threads: &[JavaThread]) -> Option<JavaThread> {
        let format = self.format?;
        let objects = format.objects(pid, layout);
        let class = first(objects.classes(&[lock]))?;
        let owner = reference_at(&objects, lock, self.class_fields(&objects, class)?.owner?)?;
        let java_thread = match objects.long(owner, format.java_thread)? {
            0 => {
                let class = first(objects.classes(&[owner]))?;
                let carrier = reference_at(&objects, owner, self.class_fields(&objects, class)?.carrier?)?;
                objects.long(carrier, format.java_thread)?
            }
            address => address,
        };
        threads.iter().find(|thread| thread.address == java_thread).copied()
    }

    fn format(&mut self, pid: u32, layout: &ObjectLayout, threads: &[JavaThread]) -> Option<Format> {
        if self.format.is_none() && !self.is_tried && self.tries < MAX_TRIES && !threads.is_empty() {
            (self.is_tried, self.tries) = (true, self.tries + 1);
            self.format = threads.iter().take(TRIED_THREADS).find_map(|thread| find_format(pid, layout, thread));
        }
        self.format
    }

    /// `None`: it is no class, or too many are new.
    fn class_fields(&mut self, objects: &Objects, class: u64) -> Option<ClassFields> {
        if let Some(&fields) = self.classes.get(&class) {
            return Some(fields);
        }
        if self.classes.len() >= MAX_CLASSES {
            return None;
        }
        if self.new_classes >= MAX_NEW_CLASSES {
            self.has_missed_class = true;
            return None;
        }
        self.new_classes += 1;
        let fields = find_class_fields(objects, class)?;
        self.classes.insert(class, fields);
        Some(fields)
    }
}

impl Format {
    fn objects<'a>(&self, pid: u32, layout: &'a ObjectLayout) -> Objects<'a> {
        let Format { class_pointer, references, narrow_reference, narrow_class, .. } = *self;
        Objects { pid, layout, class_pointer, references, narrow_reference, narrow_class }
    }

    /// The threads that have an object of class Thread, and that
    fn thread_objects(&self, objects: &Objects, threads: &[JavaThread]) -> (Vec<JavaThread>, Vec<u64>) {
        let places: Vec<u64> =
            threads.iter().map(|thread| thread.address.saturating_add(objects.layout.thread_object)).collect();
        match self.has_handles {
            true => {
                let (threads, handles) = with_objects(threads.to_vec(), objects.pointers(&places));
                with_objects(threads, objects.long_references(&handles))
            }
            false => with_objects(threads.to_vec(), objects.long_references(&places)),
        }
    }
}

/// Those of the threads for which an object was found
fn with_objects(threads: Vec<JavaThread>, found: Vec<Option<u64>>) -> (Vec<JavaThread>, Vec<u64>) {
    let objects = threads.into_iter().zip(found).filter_map(|(thread, object)| Some((thread, object?)));
    objects.filter(|&(_, object)| is_object(object)).unzip()
}

/// The object of a thread is sought in each way in which a virtual machine may have it: the right one leads to the class java.lang.Thread.
fn find_format(pid: u32, layout: &ObjectLayout, thread: &JavaThread) -> Option<Format> {
    const CLASS_POINTERS: [ClassPointer; 3] = [ClassPointer::Narrow, ClassPointer::Wide, ClassPointer::InMark];
    const REFERENCES: [ReferenceFormat; 2] = [ReferenceFormat::Wide, ReferenceFormat::Colored];
    let narrow_reference = NarrowBase::read(pid, layout.narrow_reference)?;
    let narrow_class = NarrowBase::read(pid, layout.narrow_class)?;
    let with_references = |class_pointer| {
        let objects = |references| Objects { pid, layout, class_pointer, references, narrow_reference, narrow_class };
        REFERENCES.map(objects)
    };
    let place = thread.address.checked_add(layout.thread_object)?;
    for objects in CLASS_POINTERS.into_iter().flat_map(with_references) {
        for (has_handles, place) in [(true, first(objects.pointers(&[place]))), (false, Some(place))] {
            let object = place.and_then(|place| first(objects.long_references(&[place])));
            let class = object.and_then(|object| first(objects.classes(&[object])));
            let classes = class.map_or_else(Vec::new, |class| objects.super_classes(class));
            let Some((class, _)) = classes.iter().find(|(_, name)| name == THREAD) else { continue };
            let fields: Vec<JavaField> = objects.fields(*class).into_iter().filter(|field| !field.is_static).collect();
            let offset = |name: &[u8]| fields.iter().find(|field| field.name == name).map(|field| field.offset);
            let has_narrow_references = reference_bytes(&fields)? == size_of::<u32>() as u64;
            return Some(Format {
                class_pointer: objects.class_pointer,
                narrow_reference,
                narrow_class,
                references: if has_narrow_references { ReferenceFormat::Narrow } else { objects.references },
                has_handles,
                park_blocker: offset(b"parkBlocker")?,
                java_thread: offset(b"eetop")?,
            });
        }
    }
    None
}

/// Of one address; `None`: nothing was found there.
fn first(found: Vec<Option<u64>>) -> Option<u64> {
    found.first().copied().flatten().filter(|&address| address != 0)
}

/// The length of a reference: the smallest distance between two of them.
fn reference_bytes(fields: &[JavaField]) -> Option<u64> {
    let mut offsets: Vec<u64> = fields.iter().filter(|field| field.is_reference).map(|field| field.offset).collect();
    offsets.sort_unstable();
    offsets.array_windows().map(|[one, next]| next - one).min()
}

/// `None`: it is no class, or cannot be read.
fn find_class_fields(objects: &Objects, class: u64) -> Option<ClassFields> {
    let classes = objects.super_classes(class);
    if classes.is_empty() {
        return None;
    }
    // The outer `None`: it extends that class, whose fields cannot be read.
    let field_of = |of: &[u8], name: &[u8]| {
        let Some((class, _)) = classes.iter().find(|(_, class)| class == of) else { return Some(None) };
        let fields = objects.fields(*class);
        fields.into_iter().find(|field| field.name == name && !field.is_static).map(|field| Some(field.offset))
    };
    Some(ClassFields {
        owner: field_of(SYNCHRONIZER, b"exclusiveOwnerThread")?,
        is_reentrant_lock: classes.iter().any(|(_, name)| name.starts_with(REENTRANT)),
        carrier: field_of(VIRTUAL_THREAD, b"carrierThread")?,
    })
}

/// What each object refers to at an offset
fn references_at(objects: &Objects, of: &[u64], offset: u64) -> Vec<Option<u64>> {
    objects.references(&of.iter().map(|object| object.saturating_add(offset)).collect::<Vec<u64>>())
}

fn reference_at(objects: &Objects, of: u64, offset: u64) -> Option<u64> {
    first(references_at(objects, &[of], offset)).filter(|&object| is_object(object))
}
