//! The context of a scan, which every reading of a task gets: open files, clocks, interned names, the time, and what this user may
//! read.

use std::collections::BTreeSet;

use nix::time::ClockId;
use rustc_hash::FxHashSet;

use super::interner::Interner;
use super::network_namespaces::NetworkNamespaceMembers;
use super::process_clock::{ProcessClocks, read_clock_ns};
use crate::kernel::root::Root;
use crate::kernel::task::{self, files::TaskFiles};
use crate::kernel::waits::file_locks::read_lock_holders;
use crate::sample::host::{Host, Privilege};
use crate::sample::task::{ReadTime, Schedstat};
use crate::sample::waits::{FutexWait, Syscall};
use crate::sample::{Name, Reading};

/// Threads whose allowed CPUs are read in one scan: a status file each.
const MAX_AFFINITY_READS: u32 = 64;

/// Threads of multithreaded processes whose wait is read in the first scan although they sleep: about 10 µs each.
const MAX_FIRST_WAITS: u32 = 4096;

/// Processes that are read within this time have one entry of `read_times`, ns: a scan that never waits for a CPU has few or none.
const READ_TIME_STEP_NS: u64 = 4_000_000;

/// Passed to each reading.
#[derive(Debug)]
pub struct ScanContext {
    pub files: TaskFiles,
    pub interner: Interner,
    pub clocks: ProcessClocks,
    /// `Host::machine`: the numbers of system calls depend on it
    pub machine: Name,
    /// CLOCK_BOOTTIME of this scan or sub-sample
    pub now_ns: u64,
    pub sub_sample_number: u32,
    pub scan_number: u32,
    /// Processes that sub-samples read
    pub sub_sampled_count: usize,
    /// Tasks whose files were read since the last scan began
    pub tasks_read: u32,
    /// Of this scan, see `record_read_time`
    pub read_times: Vec<ReadTime>,
    /// CLOCK_BOOTTIME of the last of them, or of the sample
    last_read_time_ns: u64,
    /// Threads whose allowed CPUs may still be read in this scan
    pub affinity_reads_left: u32,
    /// Threads that sleep whose wait may still be read in the first scan
    pub first_waits_left: u32,
    /// CLOCK_BOOTTIME of the scan before, in ticks
    last_scan_ticks: Option<u64>,
    pub ticks_per_second: u64,
    /// Processes that waited for file locks when the scanner was made, and their holders, by /proc/locks: their threads may not have
    /// run since
    pub file_lock_pids: FxHashSet<u32>,
    /// A futex call with value 2 may be on a mutex of Rust, whose holder wake-ups show: threads in one are read in each sub-sample.
    pub follows_likely_mutexes: bool,
    /// False where schedstat has three zeros: before Linux 5.14 without CONFIG_SCHEDSTATS and with delay accounting off. Without
    /// CONFIG_SCHED_INFO there is no such file.
    pub has_schedstat: bool,
    privilege: Privilege,
    /// Every uid that owned a process
    pub owner_uids: BTreeSet<u32>,
    pub network_namespaces: NetworkNamespaceMembers,
    /// Processes that exist, and whose files could not be read at the last scan
    pub unread_pids: BTreeSet<u32>,
}

impl ScanContext {
    /// Fails only where there is no /proc.
    pub fn new(root: &Root, host: &Host) -> Reading<ScanContext> {
        let has_run = |schedstat: Schedstat| schedstat.timeslices.0 > 0;
        let own_schedstat = root.read_once("proc/self/schedstat").ok();
        Ok(ScanContext {
            files: TaskFiles::open(root)?,
            interner: Interner::default(),
            clocks: ProcessClocks::for_root(root),
            machine: host.machine.clone(),
            now_ns: 0,
            sub_sample_number: 0,
            scan_number: 0,
            sub_sampled_count: 0,
            tasks_read: 0,
            read_times: Vec::new(),
            last_read_time_ns: 0,
            affinity_reads_left: 0,
            first_waits_left: MAX_FIRST_WAITS,
            last_scan_ticks: None,
            ticks_per_second: host.ticks_per_second.max(1),
            file_lock_pids: read_lock_holders(root).into_iter().flat_map(|(waiter, holder)| [waiter, holder]).collect(),
            follows_likely_mutexes: false,
            has_schedstat: own_schedstat.as_deref().and_then(task::parse_schedstat).is_none_or(has_run),
            privilege: host.privilege.clone(),
            owner_uids: BTreeSet::new(),
            network_namespaces: NetworkNamespaceMembers::new(root),
            unread_pids: BTreeSet::new(),
        })
    }

    /// What the arguments of a futex call say. With a timeout the words beside the futex show whether it is a mutex.
    pub fn futex_wait(&self, call: Syscall, has_timeout: bool) -> Option<FutexWait> {
        match call.futex_wait()? {
            FutexWait::LikelyMutex { address } if !self.follows_likely_mutexes && !has_timeout => {
                Some(FutexWait::Unknown { address })
            }
            wait => Some(wait),
        }
    }

    /// A scan begins at `now_ns` (CLOCK_BOOTTIME).
    pub fn begin_scan(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        self.scan_number = self.scan_number.wrapping_add(1);
        self.tasks_read = 0;
        self.read_times.clear();
        self.affinity_reads_left = MAX_AFFINITY_READS;
        self.files.detect_wait_channel_file();
    }

    /// The time of the sample, CLOCK_BOOTTIME: processes that are read much later get a time of their own.
    pub fn set_sample_time(&mut self, boottime_ns: u64) {
        self.last_read_time_ns = boottime_ns;
    }

    /// The counters of this process were read just now. On a machine without a free CPU the sampler may lose its CPU between two
    /// processes for longer than the interval.
    pub fn record_read_time(&mut self, pid: u32) {
        // A fixture tree has no clock.
        let ProcessClocks::Kernel = self.clocks else { return };
        let now_ns = read_clock_ns(ClockId::CLOCK_BOOTTIME).unwrap_or(0);
        self.add_read_time(pid, now_ns);
    }

    fn add_read_time(&mut self, pid: u32, now_ns: u64) {
        if now_ns.saturating_sub(self.last_read_time_ns) < READ_TIME_STEP_NS {
            return;
        }
        match self.read_times.last_mut() {
            Some(last) if last.pid == pid => last.boottime_ns = now_ns,
            // A new process with a lower pid than those that were read before it.
            Some(last) if last.pid > pid => return,
            _ => self.read_times.push(ReadTime { pid, boottime_ns: now_ns }),
        }
        self.last_read_time_ns = now_ns;
    }

    /// The scan that began last is complete.
    pub fn end_scan(&mut self) {
        let ticks = u128::from(self.now_ns) * u128::from(self.ticks_per_second) / 1_000_000_000;
        self.last_scan_ticks = Some(u64::try_from(ticks).unwrap_or(u64::MAX));
    }

    /// Whether a task with this start time (stat field 22) cannot have existed at the last scan, so that it has run since. Start times are
    /// rounded down to whole ticks, and so is the time of the scan.
    pub fn started_since_last_scan(&self, start_ticks: u64) -> bool {
        self.last_scan_ticks.is_some_and(|last| start_ticks >= last)
    }

    /// Whether the wait of one more thread that sleeps may be read: only in the first scan, and of `MAX_FIRST_WAITS` threads.
    pub fn may_read_first_wait(&mut self) -> bool {
        let may = self.last_scan_ticks.is_none() && self.first_waits_left > 0;
        self.first_waits_left = self.first_waits_left.saturating_sub(u32::from(may));
        may
    }

    pub fn has_cap_sys_ptrace(&self) -> bool {
        self.privilege.has_cap_sys_ptrace
    }

    /// Whether wait channels and system calls of this user's tasks can be read.
    pub fn can_inspect_tasks_of(&self, uid: u32) -> bool {
        self.privilege.can_inspect_tasks_of(uid)
    }
}
