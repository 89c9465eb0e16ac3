//! What a process of a thousand threads and more has read and written. The kernel adds it up over all of them, each time it is
//! asked: here only those that ran are asked, and what they did since is added to what the kernel said last.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::threads::{Found, SUMS_HOLD_NS};
use super::{KnownProcess, Watched};
use crate::kernel::sweep::Eye;
use crate::kernel::task;
use crate::kernel::task::files::ProcessFile;
use crate::sample::Absent;
use crate::sample::task::TaskIo;
use crate::units::Counter;

/// A thread's io costs as much as so many of the kernel's sum.
const FEW_OF: usize = 40;

/// What its threads had done when they were last asked, by tid. Whoever is not in it has not run since the kernel added up.
#[derive(Debug)]
pub struct Ledger {
    threads: FxHashMap<u32, TaskIo>,
    /// When the kernel's sum was read
    summed_ns: u64,
}

impl KnownProcess {
    /// Learns its io after a look at its threads.
    pub(super) fn add_up_io(&mut self, eye: &mut Eye, found: &mut Found, keep: bool) {
        let (pid, now_ns) = (self.pid, eye.now_ns);
        let process = Arc::make_mut(&mut self.shared);
        let Ok(before) = process.io else { return };
        found.ran.sort_unstable();
        found.ran.dedup();
        let Watched { threads, books, io: ledger, kept, .. } = &mut *self.up;
        let ledger = ledger.get_or_insert_with(|| Box::new(Ledger { threads: FxHashMap::default(), summed_ns: 0 }));
        let few = found.ran.len() * FEW_OF <= threads.len();
        let explained = !found.lost && !found.unexplained && books.are_known();
        if !few || !explained {
            ledger.threads.clear();
        }
        let mut io = before;
        let mut complete = few && explained && now_ns.saturating_sub(ledger.summed_ns) < SUMS_HOLD_NS;
        // Before the kernel's sum: what they do in between is counted twice, till the next one, sooner than never.
        for &tid in found.ran.iter().filter(|_| few) {
            let text = eye.files.once(format_args!("{pid}/task/{tid}/io")).ok();
            let Some(now) = text.and_then(task::io) else {
                complete = false;
                continue;
            };
            match ledger.threads.insert(tid, now) {
                Some(was) => io = each(&io, &each(&now, &was, u64::saturating_sub), u64::saturating_add),
                None => complete = false,
            }
        }
        process.io = if complete {
            Ok(io)
        } else {
            ledger.summed_ns = now_ns;
            let text = eye.files.process(pid, ProcessFile::Io, kept, keep);
            text.and_then(|text| task::io(text).ok_or(Absent::Malformed)).map(|sum| each(&before, &sum, u64::max))
        };
    }
}

/// Each figure of both.
fn each(one: &TaskIo, other: &TaskIo, of: fn(u64, u64) -> u64) -> TaskIo {
    let both = |one: Counter, other: Counter| Counter(of(one.0, other.0));
    TaskIo {
        read_bytes: both(one.read_bytes, other.read_bytes),
        write_bytes: both(one.write_bytes, other.write_bytes),
        cancelled_write_bytes: both(one.cancelled_write_bytes, other.cancelled_write_bytes),
        read_calls: both(one.read_calls, other.read_calls),
        write_calls: both(one.write_calls, other.write_calls),
    }
}
