//! Where a Java virtual machine (HotSpot) keeps its threads and monitors: it exports a table of its own fields for debuggers
//! (`gHotSpotVMStructs`, src/hotspot/share/runtime/vmStructs.cpp), which is read from its memory.

use std::ffi::OsStr;

use rustc_hash::FxHashMap;

use crate::kernel::elf::read_elf;
use crate::kernel::fields::lines;
use crate::kernel::mapped_files::open_mapped;
use crate::kernel::mappings::{Mapping, parse_mapping};
use crate::kernel::root::Root;
use crate::kernel::task::memory::{read_longs, read_scattered};

/// The exported symbols of version 25 and their names have 30 KiB.
const MAX_SECTION_BYTES: u64 = 4 << 20;
const LIBRARY: &[u8] = b"libjvm.so";
/// Version 17 has 788.
const MAX_ENTRIES: u64 = 4096;
/// Bytes of an entry; version 17 has 48.
const MAX_STRIDE: u64 = 256;
/// Of the names of types and fields
const MAX_NAME_BYTES: usize = 48;
/// Fields of an object are within so many bytes: a JavaThread of version 25 has 2 KiB.
const MAX_OFFSET: u64 = 1 << 20;

/// Addresses of variables, and offsets of fields in their objects.
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

/// The layout of a process's virtual machine. `None`: it has none, is of another kind, or may not be read.
pub fn find_layout(root: &Root, pid: u32) -> Option<Layout> {
    let library = find_library(root, pid)?;
    let variables = exported_variables(root, pid, &library)?;
    let read_exported = |name: &str| {
        let address = library.start.checked_add(*variables.get(name)?)?;
        read_longs(pid, &[address]).ok()?.first().copied()
    };
    let table = EntryTable {
        begin: read_exported("gHotSpotVMStructs")?,
        stride: read_exported("gHotSpotVMStructEntryArrayStride").filter(|stride| (8..=MAX_STRIDE).contains(stride))?,
        type_name: read_exported("gHotSpotVMStructEntryTypeNameOffset")?,
        field_name: read_exported("gHotSpotVMStructEntryFieldNameOffset")?,
        offset: read_exported("gHotSpotVMStructEntryOffsetOffset")?,
        address: read_exported("gHotSpotVMStructEntryAddressOffset")?,
    };
    Fields { by_name: table.read(pid)? }.layout()
}

/// The mapping of the beginning of the virtual machine's file.
fn find_library(root: &Root, pid: u32) -> Option<Mapping> {
    let maps = root.read_once(format!("proc/{pid}/maps")).ok()?;
    lines(&maps).filter_map(parse_mapping).find(is_beginning_of_library)
}

fn is_beginning_of_library(mapping: &Mapping) -> bool {
    mapping.file_name() == LIBRARY && mapping.offset == 0 && mapping.inode != 0
}

/// Offsets from the beginning of the library, of the variables that describe its table.
fn exported_variables(root: &Root, pid: u32, library: &Mapping) -> Option<FxHashMap<&'static str, u64>> {
    const NAMES: [&str; 6] = [
        "gHotSpotVMStructs",
        "gHotSpotVMStructEntryArrayStride",
        "gHotSpotVMStructEntryTypeNameOffset",
        "gHotSpotVMStructEntryFieldNameOffset",
        "gHotSpotVMStructEntryOffsetOffset",
        "gHotSpotVMStructEntryAddressOffset",
    ];
    let file = open_mapped(root, pid, library, OsStr::new(""), |_| {}).ok()?;
    read_elf(&file, MAX_SECTION_BYTES, |elf| {
        NAMES.into_iter().map(|name| Some((name, elf.exported_object(name.as_bytes(), size_of::<u64>() as u64)?))).collect()
    })?
}

/// The table of fields: where it begins, and the offsets of what is read of an entry.
struct EntryTable {
    begin: u64,
    stride: u64,
    type_name: u64,
    field_name: u64,
    /// Of a field of objects: its offset in them
    offset: u64,
    /// Of a variable: its address
    address: u64,
}

/// One field: its offset, or of a variable its address.
#[derive(Clone, Copy)]
struct Field {
    offset: u64,
    address: u64,
}

impl EntryTable {
    /// The fields of the types that are used, by type and name. The table ends with an entry without a type.
    fn read(&self, pid: u32) -> Option<FxHashMap<(String, String), Field>> {
        const TYPES: [&str; 8] =
            ["JavaThread", "Thread", "OSThread", "ObjectMonitor", "LockStack", "Threads", "ThreadsList", "ThreadsSMRSupport"];
        let column = |offset: u64, rows: u64| -> Option<Vec<u64>> {
            let at = |row: u64| self.begin.checked_add(row * self.stride)?.checked_add(offset.min(MAX_STRIDE));
            read_longs(pid, &(0..rows).map(at).collect::<Option<Vec<u64>>>()?).ok()
        };
        let mut types = column(self.type_name, MAX_ENTRIES)?;
        types.truncate(types.iter().position(|&name| name == 0)?);
        let rows = u64::try_from(types.len()).ok()?;
        let names = column(self.field_name, rows)?;
        let (offsets, addresses) = (column(self.offset, rows)?, column(self.address, rows)?);
        let types = read_names(pid, &types)?;
        let used: Vec<usize> =
            (0..types.len()).filter(|&row| types.get(row).is_some_and(|name| TYPES.contains(&&**name))).collect();
        let used_names: Vec<u64> = used.iter().filter_map(|&row| names.get(row)).copied().collect();
        let names = read_names(pid, &used_names)?;
        let field = |(row, name): (usize, String)| {
            let field = Field { offset: *offsets.get(row)?, address: *addresses.get(row)? };
            Some(((types.get(row)?.clone(), name), field))
        };
        used.into_iter().zip(names).map(field).collect()
    }
}

/// The texts at these addresses; what is longer is cut off.
fn read_names(pid: u32, addresses: &[u64]) -> Option<Vec<String>> {
    let bytes = read_scattered(pid, addresses, MAX_NAME_BYTES).ok()?;
    let name = |bytes: &[u8]| String::from_utf8_lossy(bytes.split(|&byte| byte == 0).next().unwrap_or_default()).into_owned();
    let names: Vec<String> = bytes.chunks_exact(MAX_NAME_BYTES).map(name).collect();
    (names.len() == addresses.len()).then_some(names)
}

struct Fields {
    by_name: FxHashMap<(String, String), Field>,
}

impl Fields {
    fn layout(&self) -> Option<Layout> {
        let array = || {
            Some(ThreadList::Array {
                variable: self.address(&["ThreadsSMRSupport"], "_java_thread_list")?,
                length: self.offset(&["ThreadsList"], "_length")?,
                threads: self.offset(&["ThreadsList"], "_threads")?,
            })
        };
        let linked = || {
            Some(ThreadList::Linked {
                variable: self.address(&["Threads"], "_thread_list")?,
                next: self.offset(&["JavaThread"], "_next")?,
            })
        };
        let lock_stack = || {
            let begin = self.offset(&["JavaThread"], "_lock_stack")?;
            Some(LockStack {
                object: self.offset(&["ObjectMonitor"], "_object")?,
                top: begin.checked_add(self.offset(&["LockStack"], "_top")?)?,
                base: begin.checked_add(self.offset(&["LockStack"], "_base[0]")?)?,
            })
        };
        // Versions differ in which of the two has a field.
        const THREAD: [&str; 2] = ["JavaThread", "Thread"];
        Some(Layout {
            threads: array().or_else(linked)?,
            os_thread: self.offset(&THREAD, "_osthread")?,
            thread_id: self.offset(&["OSThread"], "_thread_id")?,
            pending_monitor: self.offset(&THREAD, "_current_pending_monitor")?,
            owner: self.offset(&["ObjectMonitor"], "_owner")?,
            stack: (self.offset(&THREAD, "_stack_base")?, self.offset(&THREAD, "_stack_size")?),
            owner_id: self.offset(&THREAD, "_monitor_owner_id"),
            lock_stack: lock_stack(),
        })
    }

    fn field(&self, types: &[&str], name: &str) -> Option<Field> {
        types.iter().find_map(|of| self.by_name.get(&((*of).to_owned(), name.to_owned()))).copied()
    }

    fn offset(&self, types: &[&str], name: &str) -> Option<u64> {
        Some(self.field(types, name)?.offset).filter(|&offset| offset < MAX_OFFSET)
    }

    fn address(&self, types: &[&str], name: &str) -> Option<u64> {
        Some(self.field(types, name)?.address).filter(|&address| address != 0)
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;
    use crate::kernel::task::memory::is_readable;

    #[test]
    fn the_library_is_found_by_the_mapping_of_its_beginning() {
        let is_beginning = |line: &str| parse_mapping(line.as_bytes()).is_some_and(|mapping| is_beginning_of_library(&mapping));
        assert!(is_beginning("7f1d80000000-7f1d80001000 r--p 00000000 08:01 1234      /opt/my jdk/lib/server/libjvm.so"));
        assert!(is_beginning("7f1d80000000-7f1d80001000 r--p 00000000 08:01 1234 /x/libjvm.so (deleted)"), "upgraded");
        assert!(!is_beginning("7f1d80001000-7f1d80002000 r-xp 00001000 08:01 1234 /opt/jdk/lib/server/libjvm.so"));
        assert!(!is_beginning("7f1d80000000-7f1d80001000 r--p 00000000 08:01 1234 /opt/jdk/lib/libjava.so"));
        assert!(!is_beginning("7ffd2c000000-7ffd2c001000 rw-p 00000000 00:00 0 [stack]"));
    }

    /// A table in the memory of this process, as a virtual machine exports it.
    fn read_table(rows: &[(&CStr, &CStr, u64, u64)], ends: bool) -> Option<FxHashMap<(String, String), Field>> {
        let row = |&(of, name, offset, address): &(&CStr, &CStr, u64, u64)| {
            [of.as_ptr() as u64, name.as_ptr() as u64, 0, 0, offset, address]
        };
        let mut words: Vec<u64> = rows.iter().flat_map(row).collect();
        // Names are read beyond their ends, and rows beyond the last one.
        words.resize(if ends { 6 * 8192 } else { words.len() }, 0);
        let begin = words.as_ptr() as u64;
        EntryTable { begin, stride: 48, type_name: 0, field_name: 8, offset: 32, address: 40 }.read(std::process::id())
    }

    #[test]
    fn fields_are_taken_from_the_table_and_a_layout_needs_all_of_them() {
        if is_readable(std::process::id()) != Ok(true) {
            println!("skipped: this user may not read memory");
            return;
        }
        let rows = [
            (c"Klass", c"_osthread", 1, 0),
            (c"JavaThread", c"_next", 16, 0),
            (c"Thread", c"_osthread", 24, 0),
            (c"OSThread", c"_thread_id", 12, 0),
            (c"JavaThread", c"_current_pending_monitor", 32, 0),
            (c"ObjectMonitor", c"_owner", 64, 0),
            (c"JavaThread", c"_stack_base", 40, 0),
            (c"JavaThread", c"_stack_size", 48, 0),
            (c"Threads", c"_thread_list", 0, 0x7000),
        ];
        let layout = Fields { by_name: read_table(&rows, true).unwrap() }.layout().unwrap();
        assert_eq!(layout.threads, ThreadList::Linked { variable: 0x7000, next: 16 });
        assert_eq!((layout.os_thread, layout.thread_id, layout.pending_monitor, layout.owner), (24, 12, 32, 64));
        assert_eq!((layout.stack, layout.owner_id, layout.lock_stack), ((40, 48), None, None));
        let newer = [
            (c"ThreadsSMRSupport", c"_java_thread_list", 0, 0x8000),
            (c"ThreadsList", c"_length", 4, 0),
            (c"ThreadsList", c"_threads", 16, 0),
            (c"JavaThread", c"_monitor_owner_id", 56, 0),
            (c"JavaThread", c"_lock_stack", 100, 0),
            (c"LockStack", c"_top", 0, 0),
            (c"LockStack", c"_base[0]", 8, 0),
            (c"ObjectMonitor", c"_object", 8, 0),
        ];
        let layout = Fields { by_name: read_table(&[&rows[..], &newer].concat(), true).unwrap() }.layout().unwrap();
        assert_eq!(layout.threads, ThreadList::Array { variable: 0x8000, length: 4, threads: 16 });
        assert_eq!((layout.owner_id, layout.lock_stack), (Some(56), Some(LockStack { object: 8, top: 100, base: 108 })));
        for missing in 1..rows.len() {
            let mut fewer = rows.to_vec();
            fewer.remove(missing);
            assert_eq!(Fields { by_name: read_table(&fewer, true).unwrap() }.layout(), None, "without {:?}", rows[missing]);
        }
        let mut hostile = rows.to_vec();
        hostile[5].2 = u64::MAX;
        assert_eq!(Fields { by_name: read_table(&hostile, true).unwrap() }.layout(), None, "no object is so large");
    }
}
