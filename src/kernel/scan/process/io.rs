//! What a process of a thousand threads and more has read and written. The kernel adds it up over all of them, each time it is
//! asked: here only those that ran are asked, and what they did since is added to what the kernel said last.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::threads::{SUMS_TTL_NS, ThreadChanges};
use super::{ActiveState, KnownProcess};
use crate::kernel::scan::ScanContext;
use crate::kernel::task;
use crate::kernel::task::files::ProcessFile;
use crate::sample::Absent;
use crate::sample::task::TaskIo;
use crate::units::Counter;

/// A thread's io costs as much as so many of the kernel's sum.
const THREADS_PER_READ: usize = 40;

/// What its threads had done when they were last asked, by tid. Whoever is not in it has not run since the kernel added up.
#[derive(Debug)]
pub struct ThreadIoTable {
    threads: FxHashMap<u32, TaskIo>,
    /// When the kernel's sum was read
    last_sum_ns: u64,
}

impl KnownProcess {
    /// Learns its io after a look at its threads.
    pub(super) fn update_io_from_threads(&mut self, eye: &mut ScanContext, found: &mut ThreadChanges, keep: bool) {
        let (pid, now_ns) = (self.pid, eye.now_ns);
        let process = Arc::make_mut(&mut self.sampled);
        let Ok(before) = process.io else { return };
        found.ran_tids.sort_unstable();
        found.ran_tids.dedup();
        let ActiveState { threads, cpu_time_check: books, thread_io: ledger, descriptors: kept, .. } = &mut *self.active;
        let ledger = ledger.get_or_insert_with(|| Box::new(ThreadIoTable { threads: FxHashMap::default(), last_sum_ns: 0 }));
        let few = found.ran_tids.len() * THREADS_PER_READ <= threads.len();
        let explained = !found.thread_gone && !found.unexplained_cpu_time && books.is_known();
        if !few || !explained {
            ledger.threads.clear();
        }
        let mut io = before;
        let mut complete = few && explained && now_ns.saturating_sub(ledger.last_sum_ns) < SUMS_TTL_NS;
        // Before the kernel's sum: what they do in between is counted twice, till the next one, sooner than never.
        for &tid in found.ran_tids.iter().filter(|_| few) {
            let text = eye.files.read_once(format_args!("{pid}/task/{tid}/io")).ok();
            let Some(now) = text.and_then(task::parse_io) else {
                complete = false;
                continue;
            };
            match ledger.threads.insert(tid, now) {
                Some(was) => io = combine(&io, &combine(&now, &was, u64::saturating_sub), u64::saturating_add),
                None => complete = false,
            }
        }
        process.io = if complete {
            Ok(io)
        } else {
            ledger.last_sum_ns = now_ns;
            let text = eye.files.read_process_file(pid, ProcessFile::Io, kept, keep);
            text.and_then(|text| task::parse_io(text).ok_or(Absent::Malformed)).map(|sum| combine(&before, &sum, u64::max))
        };
    }
}

/// Each figure of both.
fn combine(one: &TaskIo, other: &TaskIo, of: fn(u64, u64) -> u64) -> TaskIo {
    let both = |one: Counter, other: Counter| Counter(of(one.0, other.0));
    TaskIo {
        read_bytes: both(one.read_bytes, other.read_bytes),
        write_bytes: both(one.write_bytes, other.write_bytes),
        cancelled_write_bytes: both(one.cancelled_write_bytes, other.cancelled_write_bytes),
        read_syscalls: both(one.read_syscalls, other.read_syscalls),
        write_syscalls: both(one.write_syscalls, other.write_syscalls),
    }
}
