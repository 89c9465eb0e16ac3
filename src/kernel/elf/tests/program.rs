//! A made-up program, byte by byte, for tests of hostile files.

use std::fs::File;
use std::io::Write;

pub const PROGRAM_HEADER: usize = 64;
/// Four section headers of 64 bytes: none, the symbols, their names, the names of sections
pub const SECTIONS: usize = PROGRAM_HEADER + 56;
pub const SYMBOL: usize = SECTIONS + 4 * 64;
pub const SECTION_NAMES: usize = SYMBOL + 24;
const NAMES_OF_SECTIONS: &[u8] = b"\0.symtab\0.strtab\0";
pub const NAMES: usize = SECTION_NAMES + NAMES_OF_SECTIONS.len();
pub const NAME: &[u8] = b"\0_Z8dispatchi\0";
/// The header of that section
pub const fn section_header(number: usize) -> usize {
    SECTIONS + number * 64
}

pub fn put(file: &mut [u8], at: usize, bytes: &[u8]) {
    file[at..at + bytes.len()].copy_from_slice(bytes);
}

pub fn put_number(file: &mut [u8], at: usize, number: usize) {
    put(file, at, &(number as u64).to_le_bytes());
}

/// A program with one function, at 0x1010 in memory and 0x10 in the file.
pub fn program() -> Vec<u8> {
    let mut file = vec![0; NAMES];
    // e_ident; e_type, e_machine, e_version; e_phoff, e_shoff; e_ehsize, e_phentsize, e_phnum, e_shentsize, e_shnum, e_shstrndx
    put(&mut file, 0, b"\x7fELF\x02\x01\x01");
    put(&mut file, 16, &[2, 0, 62, 0, 1]);
    put_number(&mut file, 32, PROGRAM_HEADER);
    put_number(&mut file, 40, SECTIONS);
    put(&mut file, 52, &[64, 0, 56, 0, 1, 0, 64, 0, 4, 0, 3]);
    // p_type, p_flags; p_vaddr; p_filesz
    put(&mut file, PROGRAM_HEADER, &[1, 0, 0, 0, 5]);
    put_number(&mut file, PROGRAM_HEADER + 16, 0x1000);
    put_number(&mut file, PROGRAM_HEADER + 32, 0x100);
    // sh_name, sh_type; sh_offset, sh_size; sh_link
    let sections =
        [(1, [1, 2], SYMBOL, 24, 2), (2, [9, 3], NAMES, NAME.len(), 0), (3, [0, 3], SECTION_NAMES, NAMES_OF_SECTIONS.len(), 0)];
    for (section, [name, kind], at, size, link) in sections {
        let header = section_header(section);
        put(&mut file, header, &[name, 0, 0, 0, kind]);
        put_number(&mut file, header + 24, at);
        put_number(&mut file, header + 32, size);
        put(&mut file, header + 40, &[link]);
    }
    // st_name, st_info, st_shndx; st_value
    put(&mut file, SYMBOL, &[1, 0, 0, 0, 0x12, 0, 1]);
    put_number(&mut file, SYMBOL + 8, 0x1010);
    put(&mut file, SECTION_NAMES, NAMES_OF_SECTIONS);
    file.extend_from_slice(NAME);
    file
}

/// A program that is changed before it is written.
pub fn changed(change: impl FnOnce(&mut Vec<u8>)) -> File {
    let mut file = program();
    change(&mut file);
    let length = file.len() as u64;
    written(&file, length)
}

/// A file of this content, which is so long: the rest takes no room on the disk.
pub fn written(bytes: &[u8], length: u64) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.set_len(length).unwrap();
    file
}
