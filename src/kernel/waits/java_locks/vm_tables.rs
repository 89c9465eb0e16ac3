//! The tables that a Java virtual machine (HotSpot) exports of itself for debuggers, read from its memory: the fields of its structures
//! (`gHotSpotVMStructs`) and the sizes of its types (`gHotSpotVMTypes`); src/hotspot/share/runtime/vmStructs.cpp.

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
/// Version 17 has 788 fields and 1,005 types.
const MAX_ENTRIES: u64 = 4096;
/// Bytes of an entry; version 17 has 48.
const MAX_STRIDE: u64 = 256;
/// Of the names of types and fields
const MAX_NAME_BYTES: usize = 48;
/// Fields of a structure are within so many bytes, and a type is not larger: a JavaThread of version 25 has 2 KiB.
const MAX_OFFSET: u64 = 1 << 20;

/// The fields and sizes of some types, by name.
#[derive(Default)]
pub struct VmTables {
    fields: FxHashMap<(String, String), Field>,
    sizes: FxHashMap<String, u64>,
}

/// One field: its offset, or of a variable its address.
#[derive(Clone, Copy)]
pub struct Field {
    offset: u64,
    address: u64,
}

/// Where a table begins, and how long one entry of it is.
struct EntryTable {
    begin: u64,
    stride: u64,
}

impl VmTables {
    /// What the virtual machine of a process says of these types. `None`: it has none, is of another kind, or may not be read.
    pub fn read(root: &Root, pid: u32, types: &[&str]) -> Option<VmTables> {
        let library = find_library(root, pid)?;
        let variables = exported_variables(root, pid, &library)?;
        let exported = |name: &str| {
            let address = library.start.checked_add(*variables.get(name)?)?;
            read_longs(pid, &[address]).ok()?.first().copied()
        };
        let is_stride = |stride: &u64| (8..=MAX_STRIDE).contains(stride);
        let structures = EntryTable {
            begin: exported("gHotSpotVMStructs")?,
            stride: exported("gHotSpotVMStructEntryArrayStride").filter(is_stride)?,
        };
        let sizes = EntryTable {
            begin: exported("gHotSpotVMTypes")?,
            stride: exported("gHotSpotVMTypeEntryArrayStride").filter(is_stride)?,
        };
        let places = FieldColumns {
            type_name: exported("gHotSpotVMStructEntryTypeNameOffset")?,
            field_name: exported("gHotSpotVMStructEntryFieldNameOffset")?,
            offset: exported("gHotSpotVMStructEntryOffsetOffset")?,
            address: exported("gHotSpotVMStructEntryAddressOffset")?,
        };
        let (type_name, size) = (exported("gHotSpotVMTypeEntryTypeNameOffset")?, exported("gHotSpotVMTypeEntrySizeOffset")?);
        Some(VmTables {
            fields: structures.read_fields(pid, &places, types)?,
            sizes: sizes.read_sizes(pid, type_name, size, types)?,
        })
    }

    /// The offset of a field, of the first of the types that has it.
    pub fn offset(&self, types: &[&str], name: &str) -> Option<u64> {
        Some(self.field(types, name)?.offset).filter(|&offset| offset < MAX_OFFSET)
    }

    /// The address of a variable, of the first of the types that has it.
    pub fn address(&self, types: &[&str], name: &str) -> Option<u64> {
        Some(self.field(types, name)?.address).filter(|&address| address != 0)
    }

    pub fn size(&self, of: &str) -> Option<u64> {
        self.sizes.get(of).copied().filter(|&size| size < MAX_OFFSET)
    }

    fn field(&self, types: &[&str], name: &str) -> Option<Field> {
        types.iter().find_map(|of| self.fields.get(&((*of).to_owned(), name.to_owned()))).copied()
    }
}

/// The mapping of the beginning of the virtual machine's file.
fn find_library(root: &Root, pid: u32) -> Option<Mapping> {
    let maps = root.read_once(format!("proc/{pid}/maps")).ok()?;
    lines(&maps).filter_map(parse_mapping).find(is_beginning_of_library)
}

fn is_beginning_of_library(mapping: &Mapping) -> bool {
    mapping.file_name() == LIBRARY && mapping.offset == 0 && mapping.inode != 0
}

/// Offsets from the beginning of the library, of the variables that describe its tables.
fn exported_variables(root: &Root, pid: u32, library: &Mapping) -> Option<FxHashMap<&'static str, u64>> {
    const NAMES: [&str; 10] = [
        "gHotSpotVMStructs",
        "gHotSpotVMStructEntryArrayStride",
        "gHotSpotVMStructEntryTypeNameOffset",
        "gHotSpotVMStructEntryFieldNameOffset",
        "gHotSpotVMStructEntryOffsetOffset",
        "gHotSpotVMStructEntryAddressOffset",
        "gHotSpotVMTypes",
        "gHotSpotVMTypeEntryArrayStride",
        "gHotSpotVMTypeEntryTypeNameOffset",
        "gHotSpotVMTypeEntrySizeOffset",
    ];
    let file = open_mapped(root, pid, library, OsStr::new(""), |_| {}).ok()?;
    read_elf(&file, MAX_SECTION_BYTES, |elf| {
        NAMES.into_iter().map(|name| Some((name, elf.exported_object(name.as_bytes(), size_of::<u64>() as u64)?))).collect()
    })?
}

/// The offsets of what is read of an entry for a field.
struct FieldColumns {
    type_name: u64,
    field_name: u64,
    /// Of a field of objects: its offset in them
    offset: u64,
    /// Of a variable: its address
    address: u64,
}

impl EntryTable {
    /// The fields of these types, by type and name.
    fn read_fields(&self, pid: u32, columns: &FieldColumns, types: &[&str]) -> Option<FxHashMap<(String, String), Field>> {
        let named = self.type_names(pid, columns.type_name)?;
        let rows = u64::try_from(named.len()).ok()?;
        let names = self.column(pid, columns.field_name, rows)?;
        let (offsets, addresses) = (self.column(pid, columns.offset, rows)?, self.column(pid, columns.address, rows)?);
        let used: Vec<usize> =
            (0..named.len()).filter(|&row| named.get(row).is_some_and(|name| types.contains(&&**name))).collect();
        let used_names: Vec<u64> = used.iter().filter_map(|&row| names.get(row)).copied().collect();
        let names = read_names(pid, &used_names)?;
        let field = |(row, name): (usize, String)| {
            let field = Field { offset: *offsets.get(row)?, address: *addresses.get(row)? };
            Some(((named.get(row)?.clone(), name), field))
        };
        used.into_iter().zip(names).map(field).collect()
    }

    /// The sizes of these types in bytes, by name.
    fn read_sizes(&self, pid: u32, type_name: u64, size: u64, types: &[&str]) -> Option<FxHashMap<String, u64>> {
        let named = self.type_names(pid, type_name)?;
        let sizes = self.column(pid, size, u64::try_from(named.len()).ok()?)?;
        Some(named.into_iter().zip(sizes).filter(|(name, _)| types.contains(&&**name)).collect())
    }

    /// The name of the type of each entry. The table ends with an entry without one.
    fn type_names(&self, pid: u32, type_name: u64) -> Option<Vec<String>> {
        let mut types = self.column(pid, type_name, MAX_ENTRIES)?;
        types.truncate(types.iter().position(|&name| name == 0)?);
        read_names(pid, &types)
    }

    fn column(&self, pid: u32, offset: u64, rows: u64) -> Option<Vec<u64>> {
        let at = |row: u64| self.begin.checked_add(row * self.stride)?.checked_add(offset.min(MAX_STRIDE));
        read_longs(pid, &(0..rows).map(at).collect::<Option<Vec<u64>>>()?).ok()
    }
}

/// The texts at these addresses; what is longer is cut off.
fn read_names(pid: u32, addresses: &[u64]) -> Option<Vec<String>> {
    let bytes = read_scattered(pid, addresses, MAX_NAME_BYTES).ok()?;
    let name = |bytes: &[u8]| String::from_utf8_lossy(bytes.split(|&byte| byte == 0).next().unwrap_or_default()).into_owned();
    let names: Vec<String> = bytes.chunks_exact(MAX_NAME_BYTES).map(name).collect();
    (names.len() == addresses.len()).then_some(names)
}

#[cfg(test)]
pub mod tests {
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

    /// Tables with these fields (type, name, offset, address) and sizes.
    pub fn made_up(fields: &[(&str, &str, u64, u64)], sizes: &[(&str, u64)]) -> VmTables {
        let field = |&(of, name, offset, address): &(&str, &str, u64, u64)| {
            ((of.to_owned(), name.to_owned()), Field { offset, address })
        };
        VmTables {
            fields: fields.iter().map(field).collect(),
            sizes: sizes.iter().map(|&(of, size)| (of.to_owned(), size)).collect(),
        }
    }

    #[test]
    fn fields_and_sizes_are_read_up_to_the_entry_without_a_type() {
        let pid = std::process::id();
        if is_readable(pid) != Ok(true) {
            println!("skipped: this user may not read memory");
            return;
        }
        let row = |of: &CStr, name: &CStr, offset, address| [of.as_ptr() as u64, name.as_ptr() as u64, 0, 0, offset, address];
        let rows = [row(c"Klass", c"_name", 24, 0), row(c"Thread", c"_osthread", 16, 0), row(c"Threads", c"_list", 0, 0x7000)];
        let mut words: Vec<u64> = rows.into_iter().flatten().collect();
        // Names are read beyond their ends, and rows beyond the last one.
        words.resize(6 * 8192, 0);
        let table = EntryTable { begin: words.as_ptr() as u64, stride: 48 };
        let columns = FieldColumns { type_name: 0, field_name: 8, offset: 32, address: 40 };
        let fields = table.read_fields(pid, &columns, &["Thread", "Threads"]).unwrap();
        let sizes = table.read_sizes(pid, 0, 32, &["Klass"]).unwrap();
        let tables = VmTables { fields, sizes };
        assert_eq!(tables.offset(&["JavaThread", "Thread"], "_osthread"), Some(16));
        assert_eq!(tables.address(&["Threads"], "_list"), Some(0x7000));
        assert_eq!(tables.offset(&["Klass"], "_name"), None, "of another type");
        assert_eq!((tables.size("Klass"), tables.size("Thread")), (Some(24), None));
        assert!(EntryTable { begin: 8, stride: 48 }.read_fields(pid, &columns, &["Thread"]).is_none(), "not mapped");
    }
}
