//! Functions that a process has compiled itself (Java, Node.js, …), by the file that it writes for perf: /tmp/perf-PID.map, with a line
//! `START SIZE NAME` for each, in hexadecimal.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

use super::elf_file::FunctionTable;
use crate::kernel::fields::{lines, words};
use crate::kernel::root::Root;

/// A larger file is read as far as this.
const MAX_BYTES: u64 = 16 << 20;
/// The process adds to it as it compiles.
const REFRESH: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub struct PerfMap {
    functions: FunctionTable,
    read_at: Option<Instant>,
}

impl PerfMap {
    /// The name of the function with this address; reads the file again if it is not known, at most every 10 s.
    pub fn find(&mut self, root: &Root, pid: u32, address: u64) -> Option<&[u8]> {
        if self.functions.find(address).is_none() && self.read_at.is_none_or(|at| at.elapsed() >= REFRESH) {
            self.read_at = Some(Instant::now());
            self.functions = read(root, pid).map(|text| parse(&text)).unwrap_or_default();
        }
        self.functions.find(address).map(|(_, name)| name)
    }
}

/// The file of a process in its own mount and pid namespace.
fn read(root: &Root, pid: u32) -> Option<Vec<u8>> {
    let status = root.read_once(format!("proc/{pid}/status")).ok()?;
    let numbers = lines(&status).find_map(|line| line.strip_prefix(b"NSpid:"))?;
    let own = std::str::from_utf8(words(numbers).last()?).ok()?;
    // A pipe of that name must not block, and a link must not lead elsewhere.
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_NOCTTY;
    let path = root.path(format!("proc/{pid}/root/tmp/perf-{own}.map"));
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut text).ok()?;
    Some(text)
}

fn parse(text: &[u8]) -> FunctionTable {
    let hex = |word: &[u8]| u64::from_str_radix(std::str::from_utf8(word).ok()?.trim_start_matches("0x"), 16).ok();
    let function = |line: &'_ [u8]| {
        let mut words = line.splitn(3, |&byte| byte == b' ');
        Some((hex(words.next()?)?, hex(words.next()?)?, words.next()?.to_vec()))
    };
    FunctionTable::new(lines(text).filter_map(function))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_start_size_and_name() {
        let table = parse(b"7f10 20 LInterpreter;::run\n7f40 8 a b\nx y\n7f50 8 no end of line");
        let name = |address| table.find(address).map(|(_, name)| name);
        assert_eq!([name(0x7f2f), name(0x7f30)], [Some(&b"LInterpreter;::run"[..]), None]);
        assert_eq!([name(0x7f40), name(0x7f50)], [Some(&b"a b"[..]), None]);
    }
}
