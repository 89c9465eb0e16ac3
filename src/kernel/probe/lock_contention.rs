//! For which mutexes and rw-semaphores of the kernel threads wait, where `task_struct` does not say it: noted for the task iterator by the
//! eBPF programs of assets/probe/lock_contention.h, at the tracepoints contention_begin and contention_end (since Linux 5.19).
//!
//! Only waits that begin while they are attached are known. Nothing is pinned: they are detached and unloaded when this process ends,
//! however it ends.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use super::loader_process::TaskAccess;
use super::probe_error::ProbeError;
use super::tracepoint_program::TracepointProgram;
use crate::kernel::sys::SharedWords;

/// The tracepoints, and programs, in the order of their descriptors
pub const TRACEPOINTS: [&str; 2] = ["contention_begin", "contention_end"];
/// The maps, the same
pub const MAPS: [&str; 2] = ["waits", "counts"];

/// As in lock_contention.h
pub const WAIT_PLACES: u32 = 4096;
pub const COUNTS: u32 = 64;
/// All words of the map: `struct wait` has three.
const WAIT_WORDS: usize = WAIT_PLACES as usize * 3;
/// The words of `struct count`; the first one is the count.
const COUNT_WORDS: usize = 8;

/// The loaded programs. Dropping them detaches and unloads them.
#[derive(Debug)]
pub struct LockContention {
    begin: TracepointProgram,
    end: TracepointProgram,
    /// `None`: they are not attached. The first one is dropped first.
    links: Option<(OwnedFd, OwnedFd)>,
    waits: SharedWords,
    counts: SharedWords,
}

impl LockContention {
    /// Maps the memory of the programs.
    pub fn new(descriptors: [OwnedFd; 4]) -> Result<LockContention, ProbeError> {
        let [begin, end, waits, counts] = descriptors;
        Ok(LockContention {
            begin: TracepointProgram::new(begin, c"contention_begin", TaskAccess::Types),
            end: TracepointProgram::new(end, c"contention_end", TaskAccess::Types),
            links: None,
            waits: SharedWords::map(waits.as_fd(), WAIT_WORDS)?,
            counts: SharedWords::map(counts.as_fd(), COUNTS as usize * COUNT_WORDS)?,
        })
    }

    pub fn is_attached(&self) -> bool {
        self.links.is_some()
    }

    /// Notes waits from now on.
    pub fn attach(&mut self) -> io::Result<()> {
        if self.links.is_none() {
            self.forget_waits();
            // No wait is noted whose end is not.
            let end = self.end.attach()?;
            self.links = Some((self.begin.attach()?, end));
        }
        Ok(())
    }

    /// Stops: contention costs nothing more then. The end of a wait is not seen any more, so that none is known.
    pub fn detach(&mut self) {
        self.links = None;
        self.forget_waits();
    }

    fn forget_waits(&self) {
        self.waits.fill(0..WAIT_WORDS, 0);
    }

    /// How often `contention_begin` was called so far.
    pub fn begun(&self) -> u64 {
        (0..COUNTS as usize).map(|cpu| self.counts.get(cpu * COUNT_WORDS)).fold(0, u64::wrapping_add)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread::{self, JoinHandle};
    use std::time::{Duration, Instant};

    use tempfile::TempDir;

    use crate::kernel::Root;
    use crate::kernel::probe::loader_process::ProbeProgram;
    use crate::kernel::probe::program_loader::{load_program, load_tasks_without_blocker};
    use crate::kernel::probe::{LockRow, TaskIterator};
    use crate::kernel::task::files::is_in_initial_pid_namespace;

    /// Threads that rename in one directory, and one that lists it, so that they wait for its lock.
    struct Contention {
        folder: TempDir,
        ends: Arc<AtomicBool>,
        threads: Vec<JoinHandle<()>>,
    }

    impl Contention {
        fn start() -> Contention {
            let folder = tempfile::tempdir().unwrap();
            (0..2000).for_each(|number| fs::write(folder.path().join(format!("file{number}")), "").unwrap());
            let mut contention = Contention { folder, ends: Arc::default(), threads: Vec::new() };
            for number in 0..6 {
                contention.repeat(move |folder| {
                    let [one, other] = ["one", "other"].map(|name| folder.join(format!("{name}{number}")));
                    fs::write(&one, "").unwrap();
                    fs::rename(&one, &other).unwrap();
                });
            }
            contention.repeat(|folder| assert!(fs::read_dir(folder).unwrap().count() > 0));
            contention
        }

        fn repeat(&mut self, work: impl Fn(&PathBuf) + Send + 'static) {
            let (folder, ends) = (self.folder.path().to_owned(), Arc::clone(&self.ends));
            self.threads.push(thread::spawn(move || {
                while !ends.load(Ordering::Relaxed) {
                    work(&folder);
                }
            }));
        }
    }

    impl Drop for Contention {
        fn drop(&mut self) {
            self.ends.store(true, Ordering::Relaxed);
            self.threads.drain(..).for_each(|thread| thread.join().unwrap());
        }
    }

    /// Threads of this process that wait for locks which are known by the tracepoint, or by what the thread says.
    fn own_rows(iterator: &TaskIterator, by_contention: bool) -> Vec<LockRow> {
        let rows = iterator.read_locks().unwrap().into_iter();
        let is_own = |row: &LockRow| row.pid == std::process::id() && !row.is_mmap_lock;
        rows.filter(|row| is_own(row) && row.is_by_contention == by_contention).collect()
    }

    #[test]
    fn the_tracepoint_has_the_lock_that_threads_say() {
        // The ids of tasks are those of the initial pid namespace.
        if is_in_initial_pid_namespace(&Root::host()) != Ok(true) {
            return println!("skipped: this is a pid namespace of its own");
        }
        let loaded = (load_program(ProbeProgram::TaskIterator), load_tasks_without_blocker());
        let (Ok(with_blocker), Ok(without)) = loaded else { return println!("skipped: the programs cannot be loaded") };
        let with_blocker = TaskIterator::attach(with_blocker.descriptors).unwrap();
        let mut without = TaskIterator::attach(without.descriptors).unwrap();
        let Some(programs) = without.contention() else {
            return println!("skipped: the kernel has no tracepoint contention_begin");
        };
        programs.attach().unwrap();
        let _contention = Contention::start();
        let (mut noted, mut said) = (Vec::new(), Vec::new());
        let end = Instant::now() + Duration::from_secs(20);
        while noted.len() < 200 && Instant::now() < end {
            noted.extend(own_rows(&without, true));
            said.extend(own_rows(&with_blocker, false));
        }
        println!("{} rows by the tracepoint, {} by the field", noted.len(), said.len());
        assert!(noted.len() >= 200);
        assert!(noted.iter().all(|row| row.owner_pid == row.pid));
        let locks = |rows: &[LockRow]| rows.iter().map(|row| row.lock).collect::<BTreeSet<u64>>();
        assert_eq!(locks(&noted).len(), 1, "there is one directory");
        // Before Linux 6.17 no thread says for which rw-semaphore it waits.
        assert!(said.is_empty() || locks(&said) == locks(&noted));
        let programs = without.contention().unwrap();
        assert!(programs.begun() > 0);
        programs.detach();
        (0..50).for_each(|_| assert_eq!(own_rows(&without, true), [], "a wait is noted while nothing is attached"));
    }
}
