//! Reads /proc/locks: the process that holds the file lock that another process waits for.

use rustc_hash::FxHashMap;

use crate::kernel::fields::{lines, parse_u32, words};
use crate::kernel::root::Root;

/// From the pid of each waiting process to that of the holder.
///
/// ```text
/// 12: FLOCK  ADVISORY  WRITE 4711 07:00:12 0 EOF
/// 12: -> FLOCK  ADVISORY  WRITE 4712 07:00:12 0 EOF
/// ```
/// A waiter follows its holder under the same number. The kernel writes −1 for a lock of an open file description, and 0 for a
/// process of another pid namespace. A process whose threads wait for locks of different holders has no row: a line has no thread.
pub fn read_lock_holders(root: &Root) -> FxHashMap<u32, u32> {
    root.read_once("proc/locks").map(|text| parse_locks(&text)).unwrap_or_default()
}

fn parse_locks(text: &[u8]) -> FxHashMap<u32, u32> {
    // Of a waiter for several holders `None`
    let mut found: FxHashMap<u32, Option<u32>> = FxHashMap::default();
    let mut holder: Option<(&[u8], Option<u32>)> = None;
    for line in lines(text) {
        let mut words = words(line).peekable();
        let Some(number) = words.next() else { continue };
        let waits = words.next_if(|word| *word == b"->").is_some();
        // Kind, ADVISORY or MANDATORY, access; then the pid.
        let pid = words.nth(3).and_then(parse_u32).filter(|&pid| pid > 0);
        match (waits, pid, holder) {
            (false, pid, _) => holder = Some((number, pid)),
            (true, Some(waiter), Some((of, holder))) if of == number => {
                let known = found.entry(waiter).or_insert(holder);
                *known = known.filter(|&known| Some(known) == holder);
            }
            _ => {}
        }
    }
    found.into_iter().filter_map(|(waiter, holder)| Some((waiter, holder?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiters_and_holders() {
        let found = parse_locks(
            b"1: FLOCK  ADVISORY  WRITE 4711 07:00:12 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 4712 07:00:12 0 EOF\n\
              1: -> FLOCK  ADVISORY  WRITE 4713 07:00:12 0 EOF\n2: OFDLCK ADVISORY  WRITE -1 00:1a:3 0 EOF\n\
              2: -> OFDLCK ADVISORY  WRITE 99 00:1a:3 0 EOF\n3: POSIX  ADVISORY  READ 55 08:01:1 128 128\n\
              4: -> POSIX ADVISORY WRITE 56 08:01:1 0 EOF\nnonsense\n5:\n",
        );
        assert_eq!(found, FxHashMap::from_iter([(4712, 4711), (4713, 4711)]));
    }

    #[test]
    fn a_process_that_waits_for_two_holders_has_none() {
        let found = parse_locks(
            b"1: FLOCK  ADVISORY  WRITE 4711 07:00:12 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 80 07:00:12 0 EOF\n\
              2: FLOCK  ADVISORY  WRITE 4712 07:00:13 0 EOF\n2: -> FLOCK  ADVISORY  WRITE 80 07:00:13 0 EOF\n\
              2: -> FLOCK  ADVISORY  WRITE 81 07:00:13 0 EOF\n",
        );
        assert_eq!(found, FxHashMap::from_iter([(81, 4712)]));
    }
}
