//! The file of a program or library: its code, its sections and its symbols. It may be hostile: each size in it is bounded before memory
//! is taken for it. It is read by read(2) and not mapped: a mapped file that another truncates would end this program (SIGBUS).
//!
//! All readers of such files use this one. It does not know what symbols and unwind tables are for.

#[cfg(test)]
#[path = "elf/tests/program.rs"]
pub mod test_program;

use std::fs::File;

use object::LittleEndian;
use object::elf::{
    FileHeader64, PF_X, PT_LOAD, ProgramHeader64, SHN_UNDEF, SHT_DYNSYM, SHT_NOBITS, SHT_SYMTAB, STT_FUNC, STT_GNU_IFUNC,
    STT_OBJECT, SectionHeader64, Sym64,
};
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};

/// Program headers and section headers: the kernel runs no program with more than 1,170 of the former, and a server has 40 of both.
/// The count is a number in the file.
pub const MAX_HEADERS: usize = 4096;

/// The name of a thread that looks up a symbol of a program. If it panics, the symbol is not known.
pub const SYMBOLS_THREAD: &str = "elf-symbols";

/// An open file whose headers are read.
pub struct ElfReader<'a> {
    data: &'a ReadCache<&'a File>,
    segments: &'a [ProgramHeader64<LittleEndian>],
    sections: &'a [SectionHeader64<LittleEndian>],
    /// Names of sections; empty if they do not fit
    section_names: &'a [u8],
    bytes_left: u64,
    entry: u64,
}

/// A part of the file that is mapped executable.
#[derive(Clone, Copy, Debug)]
pub struct CodeSegment {
    /// In the file
    pub offset: u64,
    pub address: u64,
    pub length: u64,
}

/// A section, by its name.
pub struct Section<'a> {
    pub address: u64,
    /// `None` if it does not fit, or is not in the file
    pub bytes: Option<&'a [u8]>,
    /// It is larger than what may still be read.
    pub is_too_large: bool,
}

/// A table of symbols: all of them, which a file may lack (stripped), or the exported ones.
#[derive(Clone, Copy, Debug)]
pub enum SymbolTable {
    All,
    Exported,
}

/// A function that a table of symbols names.
pub struct FunctionSymbol<'a> {
    pub address: u64,
    pub size: u64,
    /// Chosen when the program starts (STT_GNU_IFUNC)
    pub is_indirect: bool,
    pub name: &'a [u8],
    /// The name is complete, not cut.
    pub is_name_whole: bool,
}

/// Opens an ELF file for `read`, which may read sections of `max_section_bytes` together. `None`: it is no 64-bit ELF file, is damaged,
/// or has too many headers.
pub fn read_elf<T>(file: &File, max_section_bytes: u64, read: impl FnOnce(&mut ElfReader) -> T) -> Option<T> {
    let data = &ReadCache::new(file);
    Some(read(&mut ElfReader::new(data, max_section_bytes)?))
}

impl<'a> ElfReader<'a> {
    fn new(data: &'a ReadCache<&'a File>, max_section_bytes: u64) -> Option<ElfReader<'a>> {
        let header = FileHeader64::<LittleEndian>::parse(data).ok()?;
        let endian = header.endian().ok()?;
        if header.phnum(endian, data).ok()? > MAX_HEADERS || header.shnum(endian, data).ok()? > MAX_HEADERS {
            return None;
        }
        let segments = header.program_headers(endian, data).ok()?;
        // Without its sections a file still has code.
        let sections = header.section_headers(endian, data).unwrap_or_default();
        let mut elf = ElfReader {
            data,
            segments,
            sections,
            section_names: &[],
            bytes_left: max_section_bytes,
            entry: header.e_entry(endian),
        };
        let names = header.shstrndx(endian, data).ok().and_then(|index| sections.get(usize::try_from(index).ok()?));
        elf.section_names = names.and_then(|names| elf.bytes(names)).unwrap_or_default();
        Some(elf)
    }

    /// Where the program begins
    pub fn entry(&self) -> u64 {
        self.entry
    }

    /// The address of an exported variable with this name and size.
    pub fn exported_object(&mut self, name: &[u8], size: u64) -> Option<u64> {
        let (symbols, names) = self.symbols(SymbolTable::Exported)?;
        let is_it = |symbol: &&Sym64<LittleEndian>| {
            symbol.st_type() == STT_OBJECT
                && symbol.st_shndx(LittleEndian) != SHN_UNDEF
                && symbol.st_size(LittleEndian) == size
                && name_at(names, symbol.st_name(LittleEndian), name.len()) == (name, true)
        };
        symbols.iter().find(is_it).map(|symbol| symbol.st_value(LittleEndian))
    }

    pub fn code_segments(&self) -> impl Iterator<Item = CodeSegment> + use<'a> {
        let segments = self.segments.iter();
        let code =
            segments.filter(|segment| segment.p_type(LittleEndian) == PT_LOAD && segment.p_flags(LittleEndian) & PF_X != 0);
        code.map(|segment| CodeSegment {
            offset: segment.p_offset(LittleEndian),
            address: segment.p_vaddr(LittleEndian),
            length: segment.p_filesz(LittleEndian),
        })
    }

    /// The first section with this name; `None` if there is none.
    pub fn section(&mut self, name: &[u8]) -> Option<Section<'a>> {
        let is_it = |section: &&SectionHeader64<LittleEndian>| {
            name_at(self.section_names, section.sh_name(LittleEndian), name.len()) == (name, true)
        };
        let section = self.sections.iter().find(is_it)?;
        let is_too_large = section.sh_size(LittleEndian) > self.bytes_left;
        Some(Section { address: section.sh_addr(LittleEndian), bytes: self.bytes(section), is_too_large })
    }

    /// The functions of a table, with at most so many bytes of each name. `None` if there is no such table, or it does not fit together
    /// with its names.
    pub fn functions(
        &mut self,
        table: SymbolTable,
        max_name_bytes: usize,
    ) -> Option<impl Iterator<Item = FunctionSymbol<'a>> + use<'a>> {
        let (symbols, names) = self.symbols(table)?;
        let is_function = |symbol: &&Sym64<LittleEndian>| {
            matches!(symbol.st_type(), STT_FUNC | STT_GNU_IFUNC) && symbol.st_shndx(LittleEndian) != SHN_UNDEF
        };
        Some(symbols.iter().filter(is_function).map(move |symbol| {
            let (name, is_name_whole) = name_at(names, symbol.st_name(LittleEndian), max_name_bytes);
            FunctionSymbol {
                address: symbol.st_value(LittleEndian),
                size: symbol.st_size(LittleEndian),
                is_indirect: symbol.st_type() == STT_GNU_IFUNC,
                name,
                is_name_whole,
            }
        }))
    }

    /// The symbols of a table, and their names.
    fn symbols(&mut self, table: SymbolTable) -> Option<(&'a [Sym64<LittleEndian>], &'a [u8])> {
        let kind = match table {
            SymbolTable::All => SHT_SYMTAB,
            SymbolTable::Exported => SHT_DYNSYM,
        };
        let symbols = self.sections.iter().find(|section| section.sh_type(LittleEndian) == kind)?;
        let names = self.sections.get(usize::try_from(symbols.sh_link(LittleEndian)).ok()?)?;
        if symbols.sh_size(LittleEndian).saturating_add(names.sh_size(LittleEndian)) > self.bytes_left {
            return None;
        }
        let symbols: &[Sym64<LittleEndian>] = object::pod::slice_from_all_bytes(self.bytes(symbols)?).ok()?;
        Some((symbols, self.bytes(names)?))
    }

    /// The contents of a section, if they are in the file and what is read of it stays within its bound.
    fn bytes(&mut self, section: &SectionHeader64<LittleEndian>) -> Option<&'a [u8]> {
        let is_in_file = section.sh_type(LittleEndian) != SHT_NOBITS;
        let left = self.bytes_left.checked_sub(section.sh_size(LittleEndian)).filter(|_| is_in_file)?;
        let bytes = section.data(LittleEndian, self.data).ok()?;
        self.bytes_left = left;
        Some(bytes)
    }
}

/// At most so many bytes of the name that begins at this place of a table, and whether they end there; empty beyond the table.
fn name_at(names: &[u8], at: u32, max_bytes: usize) -> (&[u8], bool) {
    let names = names.get(at as usize..).unwrap_or_default();
    let end = names.iter().take(max_bytes.saturating_add(1)).position(|&byte| byte == 0);
    let length = end.unwrap_or(max_bytes).min(names.len());
    (names.get(..length).unwrap_or_default(), end.is_some())
}

#[cfg(test)]
mod tests {
    use super::test_program::{
        NAMES, SECTION_NAMES, SECTIONS, SYMBOL, changed, program, put, put_number, section_header, written,
    };
    use super::*;

    const MAX_SECTION_BYTES: u64 = 1 << 20;

    /// Address and name of the functions of a file; `None` if the file is refused. Nothing is left out silently.
    fn functions(file: &File) -> Option<Vec<(u64, Vec<u8>, bool)>> {
        let rows = |elf: &mut ElfReader| {
            let functions = elf.functions(SymbolTable::All, 64).into_iter().flatten();
            functions.map(|function| (function.address, function.name.to_vec(), function.is_name_whole)).collect()
        };
        read_elf(file, MAX_SECTION_BYTES, rows)
    }

    fn section(file: &File, name: &[u8]) -> Option<(Option<usize>, bool)> {
        let read = |elf: &mut ElfReader| {
            let section = elf.section(name)?;
            Some((section.bytes.map(<[u8]>::len), section.is_too_large))
        };
        read_elf(file, MAX_SECTION_BYTES, read).flatten()
    }

    fn dispatch() -> Vec<(u64, Vec<u8>, bool)> {
        vec![(0x1010, b"_Z8dispatchi".to_vec(), true)]
    }

    #[test]
    fn code_sections_and_functions_are_read() {
        let file = changed(|_| {});
        assert_eq!(functions(&file), Some(dispatch()));
        assert_eq!(section(&file, b".symtab"), Some((Some(24), false)));
        assert_eq!([section(&file, b".sym"), section(&file, b".symtab2"), section(&file, b".debug")], [None; 3]);
        let code = read_elf(&file, 0, |elf| elf.code_segments().map(|code| (code.address, code.length)).collect());
        assert_eq!(code, Some(vec![(0x1000, 0x100)]), "whatever may be read of sections");
        assert!(functions(&File::open("/proc/self/exe").unwrap()).is_some());
        assert_eq!(functions(&File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).unwrap()), None);
    }

    #[test]
    fn a_file_with_too_many_headers_is_refused() {
        if tempfile::tempfile().unwrap().set_len(1 << 40).is_err() {
            return println!("skipped: no file of 1 TiB here");
        }
        let is_refused = |file: &[u8]| functions(&written(file, 1 << 40)).is_none();
        assert!(!is_refused(&program()));
        // In the header: e_phnum, e_shnum
        for at in [56, 60] {
            let mut file = program();
            put(&mut file, at, &(MAX_HEADERS as u16 + 1).to_le_bytes());
            assert!(is_refused(&file), "{at}");
        }
        // In the first section header: sh_size in place of e_shnum, sh_info in place of e_phnum
        for count in [MAX_HEADERS + 1, 1 << 33, usize::MAX] {
            let mut file = program();
            put(&mut file, 60, &[0, 0]);
            put_number(&mut file, SECTIONS + 32, count);
            assert!(is_refused(&file), "{count}");
        }
        let mut file = program();
        put(&mut file, 56, &[0xff, 0xff]);
        put(&mut file, SECTIONS + 44, &[0xff; 4]);
        assert!(is_refused(&file));
    }

    #[test]
    fn sections_beyond_the_file_or_too_large_are_not_read() {
        let none = Some(Vec::new());
        // Symbols and names
        for header in [section_header(1), section_header(2)] {
            for (field, value) in [(24, 1 << 20), (24, usize::MAX), (32, 1 << 20), (32, usize::MAX), (32, usize::MAX / 2)] {
                assert_eq!(functions(&changed(|file| put_number(file, header + field, value))), none, "{field}: {value}");
            }
        }
        // No section of that number
        for link in [4, 255] {
            assert_eq!(functions(&changed(|file| put(file, section_header(1) + 40, &[link]))), none, "{link}");
        }
        // The symbols themselves in place of their names
        assert_ne!(functions(&changed(|file| put(file, section_header(1) + 40, &[1]))), Some(dispatch()));
        // SHT_NOBITS has no bytes in the file.
        assert_eq!(functions(&changed(|file| put(file, section_header(2) + 4, &[8]))), none);
    }

    #[test]
    fn sections_are_read_up_to_a_bound_together() {
        let size = MAX_SECTION_BYTES as usize;
        let mut file = program();
        // The names of sections take 18 bytes, the symbols 24.
        put_number(&mut file, section_header(2) + 32, size - (NAMES - SECTION_NAMES) - 24);
        assert_eq!(functions(&written(&file, 1 << 30)), Some(dispatch()));
        put_number(&mut file, section_header(2) + 32, size - (NAMES - SECTION_NAMES) - 23);
        assert_eq!(functions(&written(&file, 1 << 30)), Some(Vec::new()));
        assert_eq!(section(&written(&file, 1 << 30), b".strtab"), Some((Some(size - (NAMES - SECTION_NAMES) - 23), false)));
        put_number(&mut file, section_header(2) + 32, size);
        assert_eq!(section(&written(&file, 1 << 30), b".strtab"), Some((None, true)), "and said");
    }

    #[test]
    fn names_of_sections_that_do_not_fit_or_are_not_there_hide_sections_only() {
        for (field, value) in [(24, 1 << 40), (32, 1 << 40), (32, usize::MAX)] {
            let file = changed(|file| put_number(file, section_header(3) + field, value));
            assert_eq!((section(&file, b".symtab"), functions(&file)), (None, Some(dispatch())), "{field}: {value}");
        }
        for index in [0, 9, 0xff] {
            let file = changed(|file| put(file, 62, &[index]));
            assert_eq!((section(&file, b".symtab"), functions(&file)), (None, Some(dispatch())), "{index}");
        }
    }

    #[test]
    fn a_name_is_cut_and_that_is_said() {
        let name = |at: u32| functions(&changed(|file| put(file, SYMBOL, &at.to_le_bytes()))).unwrap().remove(0);
        assert_eq!(name(3), (0x1010, b"8dispatchi".to_vec(), true));
        assert_eq!(name(u32::MAX), (0x1010, Vec::new(), false), "beyond the table");
        let without_end = changed(|file| put_number(file, section_header(2) + 32, 5));
        assert_eq!(functions(&without_end), Some(vec![(0x1010, b"_Z8d".to_vec(), false)]));
        let long = changed(|file| {
            file.truncate(NAMES + 1);
            file.resize(NAMES + 66, b'x');
            put_number(file, section_header(2) + 32, 66);
        });
        assert_eq!(functions(&long), Some(vec![(0x1010, vec![b'x'; 64], false)]));
    }

    #[test]
    fn a_file_that_ends_or_changes_anywhere_does_no_harm() {
        let whole = program();
        for length in 0..whole.len() {
            let found = functions(&written(&whole[..length], length as u64));
            assert_eq!(found.unwrap_or_default(), [], "{length}");
        }
        for at in 0..whole.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let file = changed(|file| file[at] = value);
                let _ = (functions(&file), section(&file, b".symtab"));
            }
        }
    }
}
