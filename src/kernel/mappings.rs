//! The mappings of a process (/proc/PID/maps).

use crate::kernel::fields::{lines, parse_hexadecimal};
use crate::kernel::root::Root;
use crate::sample::Reading;
use crate::units::SmallSort;

/// The kernel's own limit (vm.max_map_count) is 65,530 unless raised.
const MAX_MAPPINGS: usize = 100_000;
/// Of their names, too
const MAX_BYTES: usize = 16 << 20;
/// The largest buffer that is kept
const KEPT_BUFFER_BYTES: usize = 1 << 20;
const DELETED: &[u8] = b" (deleted)";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    pub is_executable: bool,
    /// Bytes from the beginning of the file
    pub offset: u64,
    /// Major and minor number, as in `makedev`
    pub device: u64,
    /// 0: of no file
    pub inode: u64,
    /// As the kernel writes it: a path, `[vdso]`, or nothing
    pub path: Box<[u8]>,
}

impl Mapping {
    /// Whether its file has no path any more, as the kernel marks it.
    pub fn is_deleted(&self) -> bool {
        self.path.ends_with(DELETED)
    }

    /// Memory that it takes.
    pub fn bytes(&self) -> usize {
        size_of::<Mapping>() + self.path.len()
    }

    /// The last part of the path: `libc.so.6`, `[vdso]`, `//anon`.
    pub fn file_name(&self) -> &[u8] {
        let path = self.path.strip_suffix(DELETED).unwrap_or(&self.path);
        path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
    }
}

/// All mappings, by address.
pub fn read_mappings(root: &Root, pid: u32, buffer: &mut Vec<u8>) -> Reading<Vec<Mapping>> {
    let read = root.read(format!("proc/{pid}/maps"), buffer);
    let mut bytes = 0;
    let fits = |mapping: &Mapping| {
        bytes += mapping.bytes();
        bytes <= MAX_BYTES
    };
    let mut mappings: Vec<Mapping> = lines(buffer).filter_map(parse_mapping).take(MAX_MAPPINGS).take_while(fits).collect();
    buffer.clear();
    buffer.shrink_to(KEPT_BUFFER_BYTES);
    read?;
    mappings.small_sort_by_key(|mapping| mapping.start);
    Ok(mappings)
}

/// The one with this address.
pub fn find_mapping(mappings: &[Mapping], address: u64) -> Option<&Mapping> {
    let behind = mappings.partition_point(|mapping| mapping.start <= address);
    mappings.get(behind.checked_sub(1)?).filter(|mapping| address < mapping.end)
}

/// `7f0000-7f1000 r-xp 00026000 08:01 1234    /usr/lib/libc.so.6`
pub fn parse_mapping(line: &[u8]) -> Option<Mapping> {
    let mut words = line.splitn(6, |&byte| byte == b' ');
    let (range, rights, offset, device, rest) =
        (words.next()?, words.next()?, words.next()?, words.next()?, (words.next()?, words.next()));
    let (start, end) = split_hex(range, b'-')?;
    let (major, minor) = split_hex(device, b':')?;
    Some(Mapping {
        start,
        end: (start < end).then_some(end)?,
        is_executable: rights.get(2) == Some(&b'x'),
        offset: parse_hexadecimal(offset)?,
        device: libc::makedev(u32::try_from(major).ok()?, u32::try_from(minor).ok()?),
        inode: std::str::from_utf8(rest.0).ok()?.parse().ok()?,
        path: rest.1.unwrap_or_default().trim_ascii_start().into(),
    })
}

fn split_hex(word: &[u8], separator: u8) -> Option<(u64, u64)> {
    let at = word.iter().position(|&byte| byte == separator)?;
    Some((parse_hexadecimal(word.get(..at)?)?, parse_hexadecimal(word.get(at + 1..)?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_range_file_and_place_in_it() {
        let line = b"7f0000-7f1000 r-xp 00026000 08:01 1234                       /usr/lib/my lib.so (deleted)";
        let mapping = parse_mapping(line).unwrap();
        assert_eq!((mapping.start, mapping.end, mapping.offset), (0x7f_0000, 0x7f_1000, 0x2_6000));
        assert_eq!((mapping.device, mapping.inode, mapping.is_executable), (libc::makedev(8, 1), 1234, true));
        assert_eq!(mapping.file_name(), b"my lib.so");
        let anonymous = parse_mapping(b"7f0000-7f1000 rw-p 00000000 00:00 0 ").unwrap();
        assert_eq!((anonymous.inode, anonymous.is_executable, &*anonymous.path), (0, false, &b""[..]));
    }

    #[test]
    fn an_address_is_in_one_mapping_or_in_none() {
        let mapping = |start: u64| parse_mapping(format!("{start:x}-{:x} r-xp 0 0:0 0", start + 16).as_bytes()).unwrap();
        let mappings = [mapping(16), mapping(48)];
        let found = [15, 16, 31, 32, 48, 63, 64].map(|address| find_mapping(&mappings, address).map(|mapping| mapping.start));
        assert_eq!(found, [None, Some(16), Some(16), None, Some(48), Some(48), None]);
    }

    #[test]
    fn damaged_lines_are_no_mappings() {
        for line in ["", "7f-7e r-xp 0 0:0 0", "7f r-xp 0 0:0 0", "7f-80 r-xp 0 0 0", "7f-80", "x-y r-xp 0 0:0 0 /a"] {
            assert_eq!(parse_mapping(line.as_bytes()), None, "{line}");
        }
    }
}
