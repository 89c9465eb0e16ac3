//! Where functions are in the file of a program, by its tables of symbols. The file may be hostile: each size in it is bounded before memory
//! is taken for it. It is read by read(2) and not mapped: a mapped file that another truncates would end this program (SIGBUS).

use std::fs::File;

use object::LittleEndian;
use object::elf::{
    FileHeader64, PF_X, PT_LOAD, SHN_UNDEF, SHT_DYNSYM, SHT_NOBITS, SHT_SYMTAB, STT_FUNC, SectionHeader64, Sym64,
};
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};

/// Program headers and section headers, of which a server has 40. The count is a number in the file.
const MAX_HEADERS: usize = 4096;
/// All sections that are read: debug builds of MySQL have 40 MiB of symbols and their names. What does not fit is not read.
const MAX_SECTION_BYTES: u64 = 64 << 20;
/// The longest of the functions that are wanted, with the types of its arguments, has 94.
const MAX_NAME_BYTES: usize = 512;

/// Name and offset in the file
pub type NamedOffset = (Vec<u8>, u64);

/// The first function with each name, of a name of C++ with such a beginning; `None` if it is no 64-bit ELF file, or damaged, or with too
/// many headers.
pub fn find_functions<const N: usize>(file: &File, wanted: [&[u8]; N]) -> Option<[Option<NamedOffset>; N]> {
    let data = &ReadCache::new(file);
    let header = FileHeader64::<LittleEndian>::parse(data).ok()?;
    let endian = header.endian().ok()?;
    if header.phnum(endian, data).ok()? > MAX_HEADERS || header.shnum(endian, data).ok()? > MAX_HEADERS {
        return None;
    }
    let segments = header.program_headers(endian, data).ok()?;
    let offset_of = |address: u64| {
        let code = segments.iter().filter(|segment| segment.p_type(endian) == PT_LOAD && segment.p_flags(endian) & PF_X != 0);
        let mut within = code.filter_map(|segment| {
            let at = address.checked_sub(segment.p_vaddr(endian)).filter(|&at| at < segment.p_filesz(endian))?;
            at.checked_add(segment.p_offset(endian))
        });
        within.next()
    };
    let mut reader = SymbolReader { data, sections: header.section_headers(endian, data).ok()?, bytes_left: MAX_SECTION_BYTES };
    let mut found = [const { None }; N];
    // A stripped program has only those that it exports.
    for kind in [SHT_DYNSYM, SHT_SYMTAB] {
        let Some((symbols, names)) = reader.read(kind) else { continue };
        for symbol in symbols {
            if symbol.st_type() != STT_FUNC || symbol.st_shndx(endian) == SHN_UNDEF {
                continue;
            }
            let Some(name) = name_at(names, symbol.st_name(endian)) else { continue };
            for (wanted, found) in wanted.iter().zip(&mut found) {
                // With a point: a part of it that the compiler has moved, `.cold`.
                let is_wanted = name == *wanted || name.starts_with(wanted) && name.starts_with(b"_Z") && !name.contains(&b'.');
                if found.is_none() && is_wanted {
                    *found = offset_of(symbol.st_value(endian)).map(|offset| (name.to_vec(), offset));
                }
            }
        }
    }
    Some(found)
}

/// The name that begins at this place of a table; `None` if it is too long, or has no end.
fn name_at(names: &[u8], at: u32) -> Option<&[u8]> {
    let names = names.get(at as usize..)?;
    let length = names.iter().take(MAX_NAME_BYTES + 1).position(|&byte| byte == 0)?;
    names.get(..length)
}

/// Reads tables of symbols as long as they fit.
struct SymbolReader<'a> {
    data: &'a ReadCache<&'a File>,
    sections: &'a [SectionHeader64<LittleEndian>],
    bytes_left: u64,
}

impl<'a> SymbolReader<'a> {
    /// The first table of this kind, and the names of its symbols.
    fn read(&mut self, kind: u32) -> Option<(&'a [Sym64<LittleEndian>], &'a [u8])> {
        let symbols = self.sections.iter().find(|section| section.sh_type(LittleEndian) == kind)?;
        let names = self.sections.get(usize::try_from(symbols.sh_link(LittleEndian)).ok()?)?;
        let symbols = object::pod::slice_from_all_bytes(self.bytes(symbols)?).ok()?;
        Some((symbols, self.bytes(names)?))
    }

    fn bytes(&mut self, section: &SectionHeader64<LittleEndian>) -> Option<&'a [u8]> {
        let is_in_file = section.sh_type(LittleEndian) != SHT_NOBITS;
        self.bytes_left = self.bytes_left.checked_sub(section.sh_size(LittleEndian)).filter(|_| is_in_file)?;
        section.data(LittleEndian, self.data).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn functions_are_found_in_a_program() {
        let [function] = find_functions(&File::open("/proc/self/exe").unwrap(), [b"main"]).unwrap();
        assert!(function.is_some_and(|(_, offset)| offset > 0));
        assert!(find_functions(&File::open("Cargo.toml").unwrap(), [b"main"]).is_none());
    }

    const PROGRAM_HEADER: usize = 64;
    /// Three section headers of 64 bytes: none, the symbols, their names
    const SECTIONS: usize = PROGRAM_HEADER + 56;
    const SYMBOL: usize = SECTIONS + 3 * 64;
    const NAMES: usize = SYMBOL + 24;
    const NAME: &[u8] = b"\0_Z8dispatchi\0";

    fn put(file: &mut [u8], at: usize, bytes: &[u8]) {
        file[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn put_number(file: &mut [u8], at: usize, number: usize) {
        put(file, at, &(number as u64).to_le_bytes());
    }

    /// A program with one function, at 0x1010 in memory and 0x10 in the file.
    fn program() -> Vec<u8> {
        let mut file = vec![0; NAMES];
        // e_ident; e_type, e_machine, e_version; e_phoff, e_shoff; e_ehsize, e_phentsize, e_phnum, e_shentsize, e_shnum
        put(&mut file, 0, b"\x7fELF\x02\x01\x01");
        put(&mut file, 16, &[2, 0, 62, 0, 1]);
        put_number(&mut file, 32, PROGRAM_HEADER);
        put_number(&mut file, 40, SECTIONS);
        put(&mut file, 52, &[64, 0, 56, 0, 1, 0, 64, 0, 3]);
        // p_type, p_flags; p_vaddr; p_filesz
        put(&mut file, PROGRAM_HEADER, &[1, 0, 0, 0, 5]);
        put_number(&mut file, PROGRAM_HEADER + 16, 0x1000);
        put_number(&mut file, PROGRAM_HEADER + 32, 0x100);
        // sh_type; sh_offset, sh_size; sh_link
        for (section, kind, at, size, link) in [(1, 2, SYMBOL, 24, 2), (2, 3, NAMES, NAME.len(), 0)] {
            let header = SECTIONS + section * 64;
            put(&mut file, header + 4, &[kind]);
            put_number(&mut file, header + 24, at);
            put_number(&mut file, header + 32, size);
            put(&mut file, header + 40, &[link]);
        }
        // st_name, st_info, st_shndx; st_value
        put(&mut file, SYMBOL, &[1, 0, 0, 0, 0x12, 0, 1]);
        put_number(&mut file, SYMBOL + 8, 0x1010);
        file.extend_from_slice(NAME);
        file
    }

    /// The function of this file, which is so long: the rest takes no room on the disk.
    fn function_in(bytes: &[u8], length: u64) -> Option<Option<NamedOffset>> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.set_len(length).unwrap();
        find_functions(&file, [b"_Z8dispatch"]).map(|[function]| function)
    }

    fn function(change: impl FnOnce(&mut Vec<u8>)) -> Option<Option<NamedOffset>> {
        let mut file = program();
        change(&mut file);
        let length = file.len() as u64;
        function_in(&file, length)
    }

    /// With a size of the section that one of its headers names, and a name of so many bytes, of which the file has the rest.
    fn function_with_name(length: usize, end: &[u8]) -> Option<Option<NamedOffset>> {
        function(|file| {
            file.truncate(NAMES + 1);
            file.extend_from_slice(b"_Z8dispatch");
            file.resize(NAMES + 1 + length, b'i');
            file.extend_from_slice(end);
            put_number(file, SECTIONS + 2 * 64 + 32, 1 + length + end.len());
        })
    }

    #[test]
    fn a_function_has_its_offset_in_the_file() {
        let found = function(|_| {});
        assert_eq!(found, Some(Some((b"_Z8dispatchi".to_vec(), 0x10))));
        let outside = function(|file| put_number(file, SYMBOL + 8, 0x1100));
        let not_executable = function(|file| put(file, PROGRAM_HEADER + 4, &[4]));
        let imported = function(|file| put(file, SYMBOL + 6, &[0]));
        let moved = function(|file| put(file, NAMES + 12, b"."));
        assert_eq!([outside, not_executable, imported, moved], [const { Some(None) }; 4]);
    }

    #[test]
    fn a_name_that_is_too_long_or_has_no_end_is_not_taken() {
        let length = |found: Option<Option<NamedOffset>>| found.unwrap().map(|(name, _)| name.len());
        assert_eq!(length(function_with_name(MAX_NAME_BYTES, b"\0")), Some(MAX_NAME_BYTES));
        assert_eq!(length(function_with_name(MAX_NAME_BYTES + 1, b"\0")), None);
        assert_eq!(length(function_with_name(11, b"")), None);
        for at in [NAME.len() as u32, u32::MAX] {
            assert_eq!(length(function(|file| put(file, SYMBOL, &at.to_le_bytes()))), None, "{at}");
        }
    }

    #[test]
    fn a_file_with_too_many_headers_is_refused() {
        if tempfile::tempfile().unwrap().set_len(1 << 40).is_err() {
            return println!("skipped: no file of 1 TiB here");
        }
        let refused = |file: &[u8]| function_in(file, 1 << 40).is_none();
        assert!(!refused(&program()));
        // In the header: e_phnum, e_shnum
        for at in [56, 60] {
            let mut file = program();
            put(&mut file, at, &(MAX_HEADERS as u16 + 1).to_le_bytes());
            assert!(refused(&file), "{at}");
        }
        // In the first section header: sh_size in place of e_shnum, sh_info in place of e_phnum
        for count in [MAX_HEADERS + 1, 1 << 33, usize::MAX] {
            let mut file = program();
            put(&mut file, 60, &[0, 0]);
            put_number(&mut file, SECTIONS + 32, count);
            assert!(refused(&file), "{count}");
        }
        let mut file = program();
        put(&mut file, 56, &[0xff, 0xff]);
        put(&mut file, SECTIONS + 44, &[0xff; 4]);
        assert!(refused(&file));
    }

    #[test]
    fn sections_beyond_the_file_or_too_large_are_not_read() {
        // Symbols and names
        for header in [SECTIONS + 64, SECTIONS + 2 * 64] {
            for (field, value) in [(24, 1 << 20), (24, usize::MAX), (32, 1 << 20), (32, usize::MAX), (32, usize::MAX / 2)] {
                assert_eq!(function(|file| put_number(file, header + field, value)), Some(None), "{field}: {value}");
            }
        }
        // No section of that number, and itself
        for link in [3, 255, 1] {
            assert_eq!(function(|file| put(file, SECTIONS + 64 + 40, &[link])), Some(None), "{link}");
        }
        let mut file = program();
        put_number(&mut file, SECTIONS + 2 * 64 + 32, MAX_SECTION_BYTES as usize - 24);
        assert!(function_in(&file, 1 << 30).unwrap().is_some());
        put_number(&mut file, SECTIONS + 2 * 64 + 32, MAX_SECTION_BYTES as usize - 23);
        assert_eq!(function_in(&file, 1 << 30), Some(None), "together with the symbols");
    }

    #[test]
    fn a_file_that_ends_or_changes_anywhere_does_no_harm() {
        let whole = program();
        for length in 0..whole.len() {
            assert!(function_in(&whole[..length], length as u64).flatten().is_none(), "{length}");
        }
        for at in 0..whole.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let _ = function(|file| file[at] = value);
            }
        }
    }
}
