//! The open file descriptors of each process against its limit: st_size of /proc/PID/fd, which needs no privilege, and
//! /proc/PID/limits. A process that did not run since the last reading has as many as before.

use super::reading::{Extent, KnownReadings, MIN_KEPT_SHARE, is_near};
use crate::ids::ProcessId;
use crate::kernel::fields::{lines, parse_u64, words};
use crate::kernel::root::Root;
use crate::kernel::task::files::TaskFiles;
use crate::sample::limits::{Limit, LimitKind};
use crate::sample::task::Process;

/// The limit is not read of a process with fewer descriptors.
const MIN_DESCRIPTORS: u64 = 40;
/// A limit is read again after this time, and while the process is near it.
const LIMIT_TTL_NS: u64 = 60_000_000_000;
/// Processes read in one sample, about 2 ms; the others are read in the next one.
const MAX_PROCESSES: usize = 512;

/// Keeps count and limit of each process.
#[derive(Debug, Default)]
pub struct OpenFileReader {
    /// Sorted by pid
    known: Vec<KnownProcess>,
    /// Whether st_size of /proc/PID/fd is the number of descriptors; `None`: not tried yet
    counts_supported: Option<bool>,
}

#[derive(Clone, Copy, Debug)]
struct KnownProcess {
    id: ProcessId,
    /// Its CPU time when it was read; `None`: it was not read yet
    cpu_time: Option<u64>,
    used: u64,
    /// The soft limit; `None` if it was not read, or there is no limit
    max: Option<u64>,
    /// CLOCK_BOOTTIME when the limit was read; 0: never
    limit_read_ns: u64,
}

impl OpenFileReader {
    /// Whether the kernel counts descriptors.
    pub fn are_counts_supported(&self) -> bool {
        self.counts_supported == Some(true)
    }

    pub fn sample(&mut self, root: &Root, files: &TaskFiles, extent: Extent, known: KnownReadings<'_>, rows: &mut Vec<Limit>) {
        // This process has descriptors open: before Linux 6.2 the size is 0.
        let count_of = |pid: u32| files.descriptor_count(pid).ok();
        let own = || count_of(std::process::id()).is_some_and(|count| count > 0);
        if !*self.counts_supported.get_or_insert_with(own) {
            return;
        }
        let mut before = std::mem::take(&mut self.known).into_iter().peekable();
        let mut left = MAX_PROCESSES;
        for process in known.tasks.processes.iter().filter(|process| !process.kernel_thread) {
            while before.next_if(|old| old.id.pid < process.pid).is_some() {}
            let mut this = before.next_if(|old| old.id == process.id()).unwrap_or_else(|| KnownProcess::new(process.id()));
            let wanted = extent == Extent::All || this.cpu_time.is_none() || this.is_near();
            if wanted && left > 0 && this.cpu_time != Some(cpu_time(process)) {
                left -= 1;
                this.read(process, count_of(process.pid), root, known.now_ns);
            }
            if let Some(max) = this.max {
                let owner = Some((this.id, process.comm.clone()));
                let limit = Limit { process: owner, ..Limit::new(LimitKind::OpenFiles, this.used, max) };
                rows.extend(is_near(&limit).then_some(limit));
            }
            self.known.push(this);
        }
    }
}

impl KnownProcess {
    fn new(id: ProcessId) -> KnownProcess {
        KnownProcess { id, cpu_time: None, used: 0, max: None, limit_read_ns: 0 }
    }

    fn is_near(&self) -> bool {
        self.max.is_some_and(|max| self.used as f64 >= max as f64 * MIN_KEPT_SHARE)
    }

    fn read(&mut self, process: &Process, count: Option<u64>, root: &Root, now_ns: u64) {
        self.cpu_time = Some(cpu_time(process));
        let Some(count) = count else { return };
        self.used = count;
        let is_old = self.limit_read_ns == 0 || now_ns.saturating_sub(self.limit_read_ns) >= LIMIT_TTL_NS;
        if count >= MIN_DESCRIPTORS && (is_old || self.is_near()) {
            let text = root.read_once(format!("proc/{}/limits", process.pid));
            self.max = text.ok().and_then(|text| parse_open_file_limit(&text));
            self.limit_read_ns = now_ns;
        }
    }
}

/// A figure that grows whenever the process runs.
fn cpu_time(process: &Process) -> u64 {
    process.cpu_ns.map_or_else(|| process.user_ticks.0.wrapping_add(process.system_ticks.0), |time| time.0)
}

/// The soft limit in the line `Max open files` of /proc/PID/limits; `None` without a limit.
fn parse_open_file_limit(text: &[u8]) -> Option<u64> {
    let line = lines(text).find_map(|line| line.strip_prefix(b"Max open files"))?;
    words(line).next().and_then(parse_u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_is_the_first_number() {
        let text = b"Limit                     Soft Limit           Hard Limit           Units     \n\
            Max processes             96365                96365                processes \n\
            Max open files            1024                 524288               files     \n";
        assert_eq!(parse_open_file_limit(text), Some(1024));
        assert_eq!(
            parse_open_file_limit(b"Max open files            unlimited            unlimited            files     \n"),
            None
        );
        assert_eq!(parse_open_file_limit(b"Max open files"), None);
    }
}
