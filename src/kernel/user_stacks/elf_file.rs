//! What is needed of a program's or library's file: its unwind tables, its functions, and where it is mapped.

use std::fs::File;
use std::sync::Arc;

use crate::kernel::elf::{CodeSegment, ElfReader, SymbolTable, read_elf};

/// Sections of a file that are read, in bytes: unwind tables first, then symbols. What does not fit is not read.
const MAX_SECTION_BYTES: u64 = 32 << 20;
/// Functions and their names, whose sum the sizes of the sections do not bound: symbols may share one name.
const MAX_FUNCTION_BYTES: usize = 32 << 20;

/// A section with its address in the file.
#[derive(Clone, Debug)]
pub struct Section {
    pub address: u64,
    pub bytes: Arc<[u8]>,
}

#[derive(Debug, Default)]
pub struct ElfFile {
    code: Vec<CodeSegment>,
    pub eh_frame: Option<Section>,
    pub eh_frame_header: Option<Section>,
    /// Its unwind tables were not read because of their size.
    pub is_too_large: bool,
    pub functions: FunctionTable,
}

impl ElfFile {
    /// `None` if it is no 64-bit ELF file, or damaged, or with too many headers.
    pub fn read(file: &File) -> Option<ElfFile> {
        read_elf(file, MAX_SECTION_BYTES, ElfFile::from_reader)
    }

    fn from_reader(reader: &mut ElfReader) -> ElfFile {
        let mut elf = ElfFile { code: reader.code_segments().collect(), ..ElfFile::default() };
        let mut section = |name: &[u8]| {
            let section = reader.section(name)?;
            elf.is_too_large |= section.is_too_large;
            Some(Section { address: section.address, bytes: Arc::from(section.bytes?) })
        };
        elf.eh_frame = section(b".eh_frame");
        elf.eh_frame_header = section(b".eh_frame_hdr");
        elf.functions = functions(reader);
        elf
    }

    /// Load bias: address in memory − address in the file, if `offset` is mapped executable at `start`.
    pub fn load_bias(&self, start: u64, offset: u64) -> Option<u64> {
        let holds = |segment: &&CodeSegment| {
            // The kernel maps whole pages.
            let page = segment.offset & !0xfff;
            page <= offset && offset < segment.offset.saturating_add(segment.length)
        };
        let segment = self.code.iter().find(holds)?;
        Some(start.wrapping_sub(offset).wrapping_add(segment.offset).wrapping_sub(segment.address))
    }

    /// Memory that it takes.
    pub fn bytes(&self) -> usize {
        let section = |section: &Option<Section>| section.as_ref().map_or(0, |section| section.bytes.len());
        let code = self.code.capacity() * size_of::<CodeSegment>();
        code + section(&self.eh_frame) + section(&self.eh_frame_header) + self.functions.bytes()
    }
}

/// Those of the whole table of symbols; of a stripped file, or of one whose table is too large, those that it exports.
fn functions(reader: &mut ElfReader) -> FunctionTable {
    for table in [SymbolTable::All, SymbolTable::Exported] {
        if let Some(functions) = reader.functions(table, MAX_NAME_BYTES) {
            let rows = functions.map(|function| (function.address, function.size, function.name));
            return FunctionTable::new(rows, MAX_FUNCTION_BYTES);
        }
    }
    FunctionTable::default()
}

/// The functions of a file by address.
#[derive(Debug, Default)]
pub struct FunctionTable {
    functions: Vec<Function>,
    names: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Function {
    address: u64,
    /// 0: up to the next
    length: u32,
    name_at: u32,
    name_length: u16,
}

/// Longer ones, of C++ templates, are cut: then they cannot be demangled.
const MAX_NAME_BYTES: usize = 4096;

impl FunctionTable {
    /// Address, length and name of each, as far as they fit in so much memory; a length of 0: up to the next.
    pub fn new<Name: AsRef<[u8]>>(functions: impl Iterator<Item = (u64, u64, Name)>, max_bytes: usize) -> FunctionTable {
        let mut table = FunctionTable::default();
        for (address, length, name) in functions {
            if table.functions.len() * size_of::<Function>() + table.names.len() + MAX_NAME_BYTES > max_bytes {
                break;
            }
            table.add(address, length, name.as_ref());
        }
        table.finish();
        table
    }

    fn add(&mut self, address: u64, length: u64, name: &[u8]) {
        let name = name.get(..MAX_NAME_BYTES).unwrap_or(name);
        let (Ok(name_at), Ok(name_length)) = (u32::try_from(self.names.len()), u16::try_from(name.len())) else { return };
        if !name.is_empty() {
            self.names.extend_from_slice(name);
            let length = u32::try_from(length).unwrap_or(u32::MAX);
            self.functions.push(Function { address, length, name_at, name_length });
        }
    }

    /// Several names of one function: that with the fewest underscores in front, then the shortest: `fdatasync`, not `__fdatasync`.
    fn finish(&mut self) {
        let names = std::mem::take(&mut self.names);
        let key = |function: &Function| {
            let name = name_of(&names, function);
            let underscores = name.iter().take_while(|&&byte| byte == b'_').count();
            // The names of C++ and Rust begin with one.
            let is_mangled = name.starts_with(b"_Z") || name.starts_with(b"_R");
            (function.address, function.length == 0, if is_mangled { 0 } else { underscores }, function.name_length)
        };
        self.functions.sort_unstable_by_key(key);
        self.functions.dedup_by_key(|function| function.address);
        self.functions.shrink_to_fit();
        self.names = names;
        self.names.shrink_to_fit();
    }

    /// The function with this address: its address and its name.
    pub fn find(&self, address: u64) -> Option<(u64, &[u8])> {
        let behind = self.functions.partition_point(|function| function.address <= address);
        let function = self.functions.get(behind.checked_sub(1)?)?;
        let end = match function.length {
            0 => self.functions.get(behind).map_or(u64::MAX, |next| next.address),
            length => function.address.saturating_add(u64::from(length)),
        };
        (address < end).then(|| (function.address, name_of(&self.names, function)))
    }

    /// Whether a function begins at this address.
    pub fn begins_at(&self, address: u64) -> bool {
        self.functions.binary_search_by_key(&address, |function| function.address).is_ok()
    }

    /// Memory that it takes.
    pub fn bytes(&self) -> usize {
        self.functions.capacity() * size_of::<Function>() + self.names.capacity()
    }
}

fn name_of<'a>(names: &'a [u8], function: &Function) -> &'a [u8] {
    let at = function.name_at as usize;
    names.get(at..at + usize::from(function.name_length)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::mappings::{find_mapping, read_mappings};
    use crate::kernel::root::Root;

    fn table(functions: &[(u64, u64, &str)]) -> FunctionTable {
        FunctionTable::new(functions.iter().copied(), 1 << 20)
    }

    fn name(table: &FunctionTable, address: u64) -> Option<&str> {
        table.find(address).map(|(_, name)| std::str::from_utf8(name).unwrap())
    }

    #[test]
    fn an_address_is_in_the_function_that_begins_before_it() {
        let table = table(&[(32, 8, "b"), (16, 8, "a"), (64, 0, "to_the_end")]);
        let names = [15, 16, 23, 24, 39, 40, 1000].map(|address| name(&table, address));
        assert_eq!(names, [None, Some("a"), Some("a"), None, Some("b"), None, Some("to_the_end")]);
        assert!(table.begins_at(16) && !table.begins_at(17));
    }

    #[test]
    fn of_several_names_the_public_one_is_taken() {
        let table = table(&[(16, 8, "__fdatasync"), (16, 8, "fdatasync"), (32, 8, "_ZN1a1bEv"), (32, 8, "c_alias_of_b")]);
        assert_eq!([name(&table, 16), name(&table, 32)], [Some("fdatasync"), Some("_ZN1a1bEv")]);
    }

    #[test]
    fn this_program_has_its_tables_and_functions() {
        let elf = ElfFile::read(&File::open("/proc/self/exe").unwrap()).unwrap();
        assert!(elf.eh_frame.is_some() && !elf.is_too_large, "{} bytes", elf.bytes());
        // A function of this module, at its address in the file.
        let address = (table as *const ()).addr() as u64;
        let mappings = read_mappings(&Root::host(), std::process::id(), &mut Vec::new()).unwrap();
        let mapping = find_mapping(&mappings, address).unwrap();
        let address = address.wrapping_sub(elf.load_bias(mapping.start, mapping.offset).unwrap());
        if elf.functions.bytes() == 0 {
            println!("skipped: this program is stripped");
        } else {
            assert!(elf.functions.begins_at(address));
            assert!(name(&elf.functions, address).unwrap().contains("elf_file5tests5table"));
        }
        assert!(ElfFile::read(&File::open("Cargo.toml").unwrap()).is_none());
    }

    #[test]
    fn symbols_that_share_a_long_name_do_not_take_memory_without_bound() {
        let name = [b'x'; MAX_NAME_BYTES];
        let table = FunctionTable::new((0..10_000).map(|number| (number, 1, &name)), 1 << 20);
        assert!(table.find(0).is_some() && table.bytes() <= 1 << 20, "{}", table.bytes());
    }
}
