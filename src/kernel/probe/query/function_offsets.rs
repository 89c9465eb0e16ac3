//! Finds the file offsets of functions in a program's symbol tables.

use std::fs::File;

use crate::kernel::elf::{ElfReader, SymbolTable, read_elf};

/// All sections that are read: debug builds of MySQL have 40 MiB of symbols and their names. What does not fit is not read.
const MAX_SECTION_BYTES: u64 = 64 << 20;
/// The longest of the functions that are wanted, with the types of its arguments, has 94.
const MAX_NAME_BYTES: usize = 512;

/// Name and offset in the file
pub type NamedOffset = (Vec<u8>, u64);

/// The first function with each name (of a C++ name: with that prefix); `None` if it is no 64-bit ELF file, or damaged, or with
/// too many headers.
pub fn find_functions<const N: usize>(file: &File, wanted: [&[u8]; N]) -> Option<[Option<NamedOffset>; N]> {
    read_elf(file, MAX_SECTION_BYTES, |elf| find_in(elf, wanted))
}

fn find_in<const N: usize>(elf: &mut ElfReader, wanted: [&[u8]; N]) -> [Option<NamedOffset>; N] {
    let mut found = [const { None }; N];
    // A stripped program has only those that it exports.
    for table in [SymbolTable::Exported, SymbolTable::All] {
        for function in elf.functions(table, MAX_NAME_BYTES).into_iter().flatten() {
            if function.is_indirect || !function.is_name_whole {
                continue;
            }
            let name = function.name;
            for (wanted, found) in wanted.iter().zip(&mut found) {
                // With a point: a part of it that the compiler has moved, `.cold`.
                let is_wanted = name == *wanted || name.starts_with(wanted) && name.starts_with(b"_Z") && !name.contains(&b'.');
                if found.is_none() && is_wanted {
                    *found = offset_of(elf, function.address).map(|offset| (name.to_vec(), offset));
                }
            }
        }
    }
    found
}

/// The place in the file of an address in its code.
fn offset_of(elf: &ElfReader, address: u64) -> Option<u64> {
    elf.code_segments().find_map(|segment| {
        let at = address.checked_sub(segment.address).filter(|&at| at < segment.length)?;
        at.checked_add(segment.offset)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::elf::test_program::{NAME, NAMES, PROGRAM_HEADER, SYMBOL, changed, put, put_number, section_header};

    /// What is found of a program that is changed first.
    fn function(change: impl FnOnce(&mut Vec<u8>)) -> Option<Option<NamedOffset>> {
        find_functions(&changed(change), [b"_Z8dispatch"]).map(|[function]| function)
    }

    #[test]
    fn functions_are_found_in_a_program() {
        let [function] = find_functions(&File::open("/proc/self/exe").unwrap(), [b"main"]).unwrap();
        assert!(function.is_some_and(|(_, offset)| offset > 0));
        assert!(find_functions(&File::open("Cargo.toml").unwrap(), [b"main"]).is_none());
    }

    #[test]
    fn a_function_has_its_offset_in_the_file() {
        let found = function(|_| {});
        assert_eq!(found, Some(Some((b"_Z8dispatchi".to_vec(), 0x10))));
        let outside = function(|file| put_number(file, SYMBOL + 8, 0x1100));
        let not_executable = function(|file| put(file, PROGRAM_HEADER + 4, &[4]));
        let imported = function(|file| put(file, SYMBOL + 6, &[0]));
        let indirect = function(|file| put(file, SYMBOL + 4, &[0x1a]));
        let moved = function(|file| put(file, NAMES + 12, b"."));
        assert_eq!([outside, not_executable, imported, indirect, moved], [const { Some(None) }; 5]);
    }

    /// With a name of so many bytes, and what the table has behind it.
    fn function_with_name(length: usize, end: &[u8]) -> Option<Option<NamedOffset>> {
        function(|file| {
            file.truncate(NAMES + 1);
            file.extend_from_slice(b"_Z8dispatch");
            file.resize(NAMES + 1 + length, b'i');
            file.extend_from_slice(end);
            put_number(file, section_header(2) + 32, 1 + length + end.len());
        })
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
}
