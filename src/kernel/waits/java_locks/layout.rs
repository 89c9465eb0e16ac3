//! Where a Java virtual machine (HotSpot) keeps its threads, its monitors and the objects of the program, as it says itself (`vm_tables`).

use super::vm_tables::VmTables;
use crate::kernel::root::Root;

/// Addresses of variables, and offsets of fields in their structures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub threads: ThreadList,
    /// JavaThread: its OSThread
    pub os_thread: u64,
    /// OSThread: the thread id (gettid)
    pub thread_id: u64,
    /// JavaThread: the ObjectMonitor that it waits to enter, or 0
    pub pending_monitor: u64,
    /// ObjectMonitor: its owner
    pub owner: u64,
    /// JavaThread: the first address behind its stack, and the length of that
    pub stack: (u64, u64),
    /// JavaThread: the number by which a monitor names it (version 24 and later); before, it names the address of the JavaThread, or one in
    /// its stack
    pub owner_id: Option<u64>,
    /// Version 21 and later
    pub lock_stack: Option<LockStack>,
    /// `None`: owners of locks of java.util.concurrent are not known.
    pub objects: Option<ObjectLayout>,
}

/// Offsets of what shows the owner of a monitor that does not know it: the lock stack of a JavaThread has the objects that it locked without
/// their monitors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockStack {
    /// ObjectMonitor: the address of a pointer to its object
    pub object: u64,
    /// JavaThread: the offset in it of the first free place, an int
    pub top: u64,
    /// JavaThread: the first place
    pub base: u64,
}

/// Where the list of JavaThreads is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadList {
    /// A variable with the address of a ThreadsList, which is replaced when a thread begins or ends (version 12 and later): offsets of its
    /// length and of its array of pointers
    Array { variable: u64, length: u64, threads: u64 },
    /// A variable with the address of the first JavaThread, and the offset of the next one's address
    Linked { variable: u64, next: u64 },
}

/// Objects of the program, their classes, and the fields of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectLayout {
    /// JavaThread: the address of its object of class Thread, or of a pointer to that; version 21 and later: that of the virtual thread that
    /// it runs
    pub thread_object: u64,
    /// Of an object: the address of its Klass, unless that is in the first word
    pub class: u64,
    /// Variables: the base and the shift of a reference of 4 bytes
    pub narrow_reference: (u64, u64),
    /// Variables: the base and the shift of an address of a Klass in 4 bytes
    pub narrow_class: (u64, u64),
    /// Klass: the one that it extends
    pub super_class: u64,
    /// Klass: its name, a Symbol
    pub name: u64,
    /// InstanceKlass: its ConstantPool, which has the names of fields
    pub constants: u64,
    /// ConstantPool: the first constant
    pub first_constant: u64,
    /// Symbol: its length, 2 bytes, and its text
    pub symbol: (u64, u64),
    pub fields: FieldList,
}

/// What an InstanceKlass has of the fields of its objects: an offset of the address of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldList {
    /// Of records (`FieldInfo`): before version 21. `count`: their number, 2 bytes; `begin`: the first one in the array
    Records { array: u64, count: u64, begin: u64 },
    /// Of numbers of different lengths (`FieldInfoStream`); `begin`: the first one in the array
    Stream { array: u64, begin: u64 },
}

/// The types of which fields or sizes are used.
const TYPES: [&str; 18] = [
    "JavaThread",
    "Thread",
    "OSThread",
    "ObjectMonitor",
    "LockStack",
    "Threads",
    "ThreadsList",
    "ThreadsSMRSupport",
    "oopDesc",
    "Klass",
    "InstanceKlass",
    "ConstantPool",
    "Symbol",
    "Universe",
    "CompressedOops",
    "CompressedKlassPointers",
    "Array<u1>",
    "Array<u2>",
];

/// Versions differ in which of the two has a field.
const THREAD: [&str; 2] = ["JavaThread", "Thread"];

/// The layout of a process's virtual machine. `None`: it has none, is of another kind, or may not be read.
pub fn find_layout(root: &Root, pid: u32) -> Option<Layout> {
    layout(&VmTables::read(root, pid, &TYPES)?)
}

fn layout(tables: &VmTables) -> Option<Layout> {
    let array = || {
        Some(ThreadList::Array {
            variable: tables.address(&["ThreadsSMRSupport"], "_java_thread_list")?,
            length: tables.offset(&["ThreadsList"], "_length")?,
            threads: tables.offset(&["ThreadsList"], "_threads")?,
        })
    };
    let linked = || {
        Some(ThreadList::Linked {
            variable: tables.address(&["Threads"], "_thread_list")?,
            next: tables.offset(&["JavaThread"], "_next")?,
        })
    };
    let lock_stack = || {
        let begin = tables.offset(&["JavaThread"], "_lock_stack")?;
        Some(LockStack {
            object: tables.offset(&["ObjectMonitor"], "_object")?,
            top: begin.checked_add(tables.offset(&["LockStack"], "_top")?)?,
            base: begin.checked_add(tables.offset(&["LockStack"], "_base[0]")?)?,
        })
    };
    Some(Layout {
        threads: array().or_else(linked)?,
        os_thread: tables.offset(&THREAD, "_osthread")?,
        thread_id: tables.offset(&["OSThread"], "_thread_id")?,
        pending_monitor: tables.offset(&THREAD, "_current_pending_monitor")?,
        owner: tables.offset(&["ObjectMonitor"], "_owner")?,
        stack: (tables.offset(&THREAD, "_stack_base")?, tables.offset(&THREAD, "_stack_size")?),
        owner_id: tables.offset(&THREAD, "_monitor_owner_id"),
        lock_stack: lock_stack(),
        objects: object_layout(tables),
    })
}

fn object_layout(tables: &VmTables) -> Option<ObjectLayout> {
    let records = || {
        Some(FieldList::Records {
            array: tables.offset(&["InstanceKlass"], "_fields")?,
            count: tables.offset(&["InstanceKlass"], "_java_fields_count")?,
            begin: tables.offset(&["Array<u2>"], "_data")?,
        })
    };
    let stream = || {
        Some(FieldList::Stream {
            array: tables.offset(&["InstanceKlass"], "_fieldinfo_stream")?,
            begin: tables.offset(&["Array<u1>"], "_data")?,
        })
    };
    // Before version 13 they are those of Universe, before version 23 their names are the longer ones.
    let narrow = |of: &str, long: &str| {
        let variable = |part: &str| {
            let by_long_name = tables.address(&["Universe", of], &format!("{long}.{part}"));
            by_long_name.or_else(|| tables.address(&[of], part))
        };
        Some((variable("_base")?, variable("_shift")?))
    };
    Some(ObjectLayout {
        thread_object: tables.offset(&THREAD, "_vthread").or_else(|| tables.offset(&THREAD, "_threadObj"))?,
        class: tables.offset(&["oopDesc"], "_metadata._klass")?,
        narrow_reference: narrow("CompressedOops", "_narrow_oop")?,
        narrow_class: narrow("CompressedKlassPointers", "_narrow_klass")?,
        super_class: tables.offset(&["Klass"], "_super")?,
        name: tables.offset(&["Klass"], "_name")?,
        constants: tables.offset(&["InstanceKlass"], "_constants")?,
        first_constant: tables.size("ConstantPool")?,
        symbol: (tables.offset(&["Symbol"], "_length")?, tables.offset(&["Symbol"], "_body")?),
        fields: stream().or_else(records)?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::vm_tables::tests::made_up;
    use super::*;

    const OLD: [(&str, &str, u64, u64); 8] = [
        ("JavaThread", "_next", 16, 0),
        ("Thread", "_osthread", 24, 0),
        ("OSThread", "_thread_id", 12, 0),
        ("JavaThread", "_current_pending_monitor", 32, 0),
        ("ObjectMonitor", "_owner", 64, 0),
        ("JavaThread", "_stack_base", 40, 0),
        ("JavaThread", "_stack_size", 48, 0),
        ("Threads", "_thread_list", 0, 0x7000),
    ];

    #[test]
    fn a_layout_is_taken_from_the_tables_and_needs_all_of_its_fields() {
        let found = layout(&made_up(&OLD, &[])).unwrap();
        assert_eq!(found.threads, ThreadList::Linked { variable: 0x7000, next: 16 });
        assert_eq!((found.os_thread, found.thread_id, found.pending_monitor, found.owner), (24, 12, 32, 64));
        assert_eq!((found.stack, found.owner_id, found.lock_stack, found.objects), ((40, 48), None, None, None));
        let newer = [
            ("ThreadsSMRSupport", "_java_thread_list", 0, 0x8000),
            ("ThreadsList", "_length", 4, 0),
            ("ThreadsList", "_threads", 16, 0),
            ("JavaThread", "_monitor_owner_id", 56, 0),
            ("JavaThread", "_lock_stack", 100, 0),
            ("LockStack", "_top", 0, 0),
            ("LockStack", "_base[0]", 8, 0),
            ("ObjectMonitor", "_object", 8, 0),
        ];
        let found = layout(&made_up(&[&OLD[..], &newer].concat(), &[])).unwrap();
        assert_eq!(found.threads, ThreadList::Array { variable: 0x8000, length: 4, threads: 16 });
        assert_eq!((found.owner_id, found.lock_stack), (Some(56), Some(LockStack { object: 8, top: 100, base: 108 })));
        for (missing, row) in OLD.iter().enumerate() {
            let mut fewer = OLD.to_vec();
            fewer.remove(missing);
            assert_eq!(layout(&made_up(&fewer, &[])), None, "without {row:?}");
        }
        let mut hostile = OLD.to_vec();
        hostile[4].2 = u64::MAX;
        assert_eq!(layout(&made_up(&hostile, &[])), None, "no object is so large");
    }

    #[test]
    fn the_layout_of_objects_is_that_of_the_version() {
        let common = [
            ("oopDesc", "_metadata._klass", 8, 0),
            ("Klass", "_super", 120, 0),
            ("Klass", "_name", 24, 0),
            ("InstanceKlass", "_constants", 224, 0),
            ("Symbol", "_length", 4, 0),
            ("Symbol", "_body", 6, 0),
        ];
        let version_11 = [
            ("Universe", "_narrow_oop._base", 0, 0x100),
            ("Universe", "_narrow_oop._shift", 0, 0x108),
            ("Universe", "_narrow_klass._base", 0, 0x110),
            ("Universe", "_narrow_klass._shift", 0, 0x118),
            ("JavaThread", "_threadObj", 800, 0),
            ("InstanceKlass", "_fields", 456, 0),
            ("InstanceKlass", "_java_fields_count", 302, 0),
            ("Array<u2>", "_data", 4, 0),
        ];
        let found = |rows: &[(&'static str, &'static str, u64, u64)]| {
            layout(&made_up(&[&OLD[..], &common, rows].concat(), &[("ConstantPool", 64)])).unwrap().objects
        };
        let old = found(&version_11).unwrap();
        assert_eq!((old.thread_object, old.first_constant, old.symbol), (800, 64, (4, 6)));
        assert_eq!((old.narrow_reference, old.narrow_class), ((0x100, 0x108), (0x110, 0x118)));
        assert_eq!(old.fields, FieldList::Records { array: 456, count: 302, begin: 4 });
        let version_25 = [
            ("CompressedOops", "_base", 0, 0x200),
            ("CompressedOops", "_shift", 0, 0x208),
            ("CompressedKlassPointers", "_base", 0, 0x210),
            ("CompressedKlassPointers", "_shift", 0, 0x218),
            ("JavaThread", "_threadObj", 1120, 0),
            ("JavaThread", "_vthread", 1128, 0),
            ("InstanceKlass", "_fieldinfo_stream", 448, 0),
            ("Array<u1>", "_data", 4, 0),
        ];
        let new = found(&version_25).unwrap();
        assert_eq!((new.thread_object, new.narrow_reference, new.narrow_class), (1128, (0x200, 0x208), (0x210, 0x218)));
        assert_eq!(new.fields, FieldList::Stream { array: 448, begin: 4 });
        assert_eq!(found(&version_25[1..]), None, "a part is missing");
    }
}
