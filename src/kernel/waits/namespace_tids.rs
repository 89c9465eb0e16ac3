//! Thread ids as a process in another pid namespace sees them: a mutex in a container names its owner by such a number.

use std::collections::hash_map::Entry;
use std::ffi::OsString;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::kernel::fields::{lines, parse_u64, words};
use crate::kernel::task::files::TaskFiles;

/// Threads of one process whose status is read; a mutex of a larger process in another namespace has no known owner.
const MAX_THREADS: usize = 512;

/// The thread ids of processes with contended locks.
#[derive(Debug, Default)]
pub struct NamespaceTids {
    /// The link /proc/self/ns/pid, once read
    own: Option<OsString>,
    processes: FxHashMap<u32, ProcessTids>,
}

#[derive(Debug)]
enum ProcessTids {
    /// In the pid namespace of this process
    Same,
    /// From the number in the namespace of the process to that in /proc. Read at most once an interval; `is_whole`: with all threads
    Other { tids: FxHashMap<u32, u32>, is_current: bool, is_whole: bool },
}

impl NamespaceTids {
    /// The number in /proc of the thread that the process calls `tid`; `None` if it has no such thread, or if
    /// its namespace is not known.
    pub fn in_our_namespace(&mut self, files: &mut TaskFiles, pid: u32, tid: u32) -> Option<u32> {
        if self.own.is_none() {
            self.own = files.read_link(format_args!("self/ns/pid")).ok();
        }
        let known = match self.processes.entry(pid) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let link = files.read_link(format_args!("{pid}/ns/pid")).ok()?;
                place.insert(match self.own.as_ref()? == &link {
                    true => ProcessTids::Same,
                    false => ProcessTids::Other { tids: FxHashMap::default(), is_current: false, is_whole: false },
                })
            }
        };
        match known {
            ProcessTids::Same => Some(tid),
            ProcessTids::Other { tids, is_current, is_whole } => {
                if !tids.contains_key(&tid) && !std::mem::replace(is_current, true) {
                    (*tids, *is_whole) = read_tids(files, pid);
                }
                tids.get(&tid).copied()
            }
        }
    }

    /// Whether a process in another namespace has no thread with this number of its own; false if that is not known, and of a process
    /// with one thread: a child of vfork waits for mutexes of its parent's threads.
    pub fn has_no_thread(&self, files: &mut TaskFiles, pid: u32, tid: u32) -> bool {
        let Some(ProcessTids::Other { tids, is_whole: true, .. }) = self.processes.get(&pid) else { return false };
        let mut now = Vec::new();
        if tids.contains_key(&tid) || files.list_threads(pid, &mut now).is_err() {
            return false;
        }
        // A thread that started since the numbers were read may be the one.
        let known: FxHashSet<u32> = tids.values().copied().collect();
        now.len() > 1 && now.iter().all(|tid| known.contains(tid))
    }

    /// Threads may have started: the next number that is not known is looked for again.
    pub fn finish_interval(&mut self) {
        self.processes.retain(|_, known| match known {
            ProcessTids::Same => false,
            ProcessTids::Other { is_current, .. } => std::mem::replace(is_current, false),
        });
    }
}

/// The line `NSpid:` of each thread's status: its number in each namespace, ours first. Also whether these are all threads.
fn read_tids(files: &mut TaskFiles, pid: u32) -> (FxHashMap<u32, u32>, bool) {
    let mut ours = Vec::new();
    if files.list_threads(pid, &mut ours).is_err() {
        return Default::default();
    }
    let theirs = |&tid: &u32| {
        let text = files.read_once(format_args!("{pid}/task/{tid}/status")).ok()?;
        Some((innermost_tid(text)?, tid))
    };
    let tids: FxHashMap<u32, u32> = ours.iter().take(MAX_THREADS).filter_map(theirs).collect();
    let is_whole = tids.len() == ours.len();
    (tids, is_whole)
}

/// The number of a thread or process in its own pid namespace, of its status file; `None` before Linux 4.1.
pub fn innermost_tid(status: &[u8]) -> Option<u32> {
    let line = lines(status).find_map(|line| line.strip_prefix(b"NSpid:"))?;
    u32::try_from(words(line).last().and_then(parse_u64)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_of_nspid_is_that_of_the_process_itself() {
        assert_eq!(innermost_tid(b"Name:\tmysqld\nTgid:\t4711\nNSpid:\t4711\t12\nThreads:\t3\n"), Some(12));
        assert_eq!(innermost_tid(b"Name:\tmysqld\nNSpid:\t4711\n"), Some(4711));
        assert_eq!(innermost_tid(b"Name:\tmysqld\n"), None, "before Linux 4.1");
    }
}
