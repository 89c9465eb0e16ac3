//! Functions that a process has compiled itself (Java, Node.js, …), by the file that it writes for perf: /tmp/perf-PID.map, with a line
//! `START SIZE NAME` for each, in hexadecimal.

use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::elf_file::FunctionTable;
use crate::kernel::fields::{lines, parse_hexadecimal, parse_u32, words};
use crate::kernel::mapped_files::open_below_root;
use crate::kernel::root::Root;
use crate::kernel::waits::namespace_tids::innermost_tid;

/// A larger file is read as far as this.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// Functions that are kept, in bytes
const MAX_TABLE_BYTES: usize = 16 << 20;
/// The process adds to it as it compiles.
const REFRESH: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub struct PerfMap {
    functions: FunctionTable,
    read_at: Option<Instant>,
}

impl PerfMap {
    /// Reads the file again if the function with this address is not known, at most every 10 s.
    pub fn refresh(&mut self, root: &Root, pid: u32, address: u64) {
        if self.read_at.is_none_or(|at| at.elapsed() >= REFRESH) && self.find(address).is_none() {
            self.read_at = Some(Instant::now());
            self.functions = read(root, pid).map(|text| parse(&text)).unwrap_or_default();
        }
    }

    /// The name of the function with this address.
    pub fn find(&self, address: u64) -> Option<&[u8]> {
        self.functions.find(address).map(|(_, name)| name)
    }

    /// Memory that it takes.
    pub fn bytes(&self) -> usize {
        self.functions.bytes()
    }

    /// Forgets the functions. They are read again at the earliest after 10 s.
    pub fn clear(&mut self) {
        self.functions = FunctionTable::default();
    }
}

/// The file of a process in its own mount and pid namespace. One of another user, who may write to /tmp as well, is not believed.
fn read(root: &Root, pid: u32) -> Option<Vec<u8>> {
    let status = root.read_once(format!("proc/{pid}/status")).ok()?;
    let own = innermost_tid(&status)?;
    let file = open_below_root(root, pid, Path::new(&format!("tmp/perf-{own}.map"))).ok()?;
    let owner = file.metadata().ok()?.uid();
    if owner != 0 && Some(owner) != effective_user(&status) {
        return None;
    }
    let mut text = Vec::new();
    file.take(MAX_FILE_BYTES).read_to_end(&mut text).ok()?;
    Some(text)
}

/// `Uid:` with the real, effective, saved and file system's user.
fn effective_user(status: &[u8]) -> Option<u32> {
    let users = lines(status).find_map(|line| line.strip_prefix(b"Uid:"))?;
    words(users).nth(1).and_then(parse_u32)
}

fn parse(text: &[u8]) -> FunctionTable {
    let hex = |word: &[u8]| parse_hexadecimal(word.strip_prefix(b"0x").unwrap_or(word));
    let function = |line: &'_ [u8]| {
        let mut words = line.splitn(3, |&byte| byte == b' ');
        Some((hex(words.next()?)?, hex(words.next()?)?, words.next()?.to_vec()))
    };
    FunctionTable::new(lines(text).filter_map(function), MAX_TABLE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_of_a_process_is_its_effective_user() {
        assert_eq!(effective_user(b"Name:\tjava\nUid:\t1000\t1001\t1002\t1003\n"), Some(1001));
        assert_eq!(effective_user(b"Uid:\t1000\n"), None);
    }

    #[test]
    fn a_line_has_start_size_and_name() {
        let table = parse(b"7f10 20 LInterpreter;::run\n7f40 8 a b\nx y\n7f50 8 no end of line");
        let name = |address| table.find(address).map(|(_, name)| name);
        assert_eq!([name(0x7f2f), name(0x7f30)], [Some(&b"LInterpreter;::run"[..]), None]);
        assert_eq!([name(0x7f40), name(0x7f50)], [Some(&b"a b"[..]), None]);
    }
}
