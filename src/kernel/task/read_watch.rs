//! Watches reads of tasks that may not return.
//!
//! The kernel makes a reader of stat, wchan, io, syscall and stack wait while the process is in execve, which waits for the file systems
//! of the files that it closes, and a reader of its memory while a page is read in. Nothing interrupts such a read: where one does not
//! return, another thread goes on without that process.

use std::cell::OnceCell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Processes that are left out at the same time, at most.
const MAX_LEFT_OUT: usize = 16;

/// What is read of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskRead {
    Files,
    Memory,
}

/// A read that does not return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HungRead {
    pub pid: u32,
    pub read: TaskRead,
}

/// The processes that are left out, for all threads.
#[derive(Clone, Debug, Default)]
pub struct LeftOut(Arc<(AtomicUsize, Mutex<Vec<HungRead>>)>);

impl LeftOut {
    /// False where it is left out already, and where too many are.
    pub fn add(&self, hung: HungRead) -> bool {
        self.change(|list| {
            let has_room = list.len() < MAX_LEFT_OUT && !list.contains(&hung);
            if has_room {
                list.push(hung);
            }
            has_room
        })
    }

    pub fn remove(&self, hung: HungRead) {
        self.change(|list| list.retain(|other| *other != hung));
    }

    fn change<T>(&self, change: impl FnOnce(&mut Vec<HungRead>) -> T) -> T {
        let (count, list) = &*self.0;
        let mut list = list.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut list);
        count.store(list.len(), Ordering::Release);
        result
    }

    fn contains(&self, hung: HungRead) -> bool {
        let (count, list) = &*self.0;
        count.load(Ordering::Acquire) > 0 && list.lock().unwrap_or_else(PoisonError::into_inner).contains(&hung)
    }
}

/// The reads of one thread, as other threads see them.
#[derive(Clone, Debug, Default)]
pub struct ReadWatch {
    current: Arc<AtomicU64>,
    reads: Arc<AtomicU64>,
    left_out: LeftOut,
}

/// A read in progress; no two are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadInProgress {
    number: u64,
    pub hung: HungRead,
}

thread_local! {
    static WATCH: OnceCell<ReadWatch> = const { OnceCell::new() };
}

impl ReadWatch {
    pub fn new(left_out: LeftOut) -> ReadWatch {
        ReadWatch { left_out, ..ReadWatch::default() }
    }

    /// Watches the reads of the calling thread from now on.
    pub fn install(&self) {
        WATCH.with(|watch| {
            // A thread has one for its whole life.
            let _ = watch.set(self.clone());
        });
    }

    /// The read that the thread is in.
    pub fn current(&self) -> Option<ReadInProgress> {
        let current = self.current.load(Ordering::Acquire);
        let number = self.reads.load(Ordering::Acquire);
        let read = match current >> 32 {
            1 => TaskRead::Files,
            2 => TaskRead::Memory,
            _ => return None,
        };
        Some(ReadInProgress { number, hung: HungRead { pid: current as u32, read } })
    }

    fn run<T>(&self, hung: HungRead, read: impl FnOnce() -> T) -> Option<T> {
        if self.left_out.contains(hung) {
            return None;
        }
        let kind = match hung.read {
            TaskRead::Files => 1,
            TaskRead::Memory => 2,
        };
        self.reads.store(self.reads.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
        self.current.store(kind << 32 | u64::from(hung.pid), Ordering::Release);
        let result = read();
        self.current.store(0, Ordering::Release);
        Some(result)
    }
}

/// Reads something of a process. `None` where that is left out.
pub fn watched<T>(pid: u32, what: TaskRead, read: impl FnOnce() -> T) -> Option<T> {
    WATCH.with(|watch| match watch.get() {
        Some(watch) => watch.run(HungRead { pid, read: what }, read),
        None => Some(read()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_is_seen_while_it_lasts_and_what_is_left_out_is_not_read() {
        let left_out = LeftOut::default();
        let watch = ReadWatch::new(left_out.clone());
        watch.install();
        let hung = HungRead { pid: 7, read: TaskRead::Memory };
        assert_eq!(watch.current(), None);
        let seen = watched(7, TaskRead::Memory, || watch.current()).flatten();
        let again = watched(7, TaskRead::Memory, || watch.current()).flatten();
        assert_eq!([seen, again].map(|read| read.map(|read| read.hung)), [Some(hung); 2]);
        assert_ne!(seen, again, "another read");
        assert_eq!(watch.current(), None);
        assert!(left_out.add(hung));
        assert_eq!(watched(7, TaskRead::Memory, || ()), None);
        assert_eq!(watched(7, TaskRead::Files, || ()), Some(()));
        left_out.remove(hung);
        assert_eq!(watched(7, TaskRead::Memory, || ()), Some(()));
    }
}
