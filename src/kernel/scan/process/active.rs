//! A process at rest, and one that is up. As long as the clock of one at rest stands still, the last sample says all that
//! there is to be known of its threads, and nothing else is kept of them: most processes of most machines sleep, and of each
//! there would be as much again as the sample has. When one gets up it is made anew from the sample.

use std::ops::{Deref, DerefMut};

use super::KnownProcess;
use super::io::ThreadIoTable;
use super::threads::KernelSums;
use crate::kernel::scan::ScanContext;
use crate::kernel::scan::cpu_time_check::CpuTimeCheck;
use crate::kernel::scan::thread::KnownThread;
use crate::kernel::task::files::TaskDescriptors;
use crate::sample::task::TaskState;

/// What is remembered of a process that is looked at.
#[derive(Debug, Default)]
pub struct ActiveState {
    /// Beside `KnownProcess::shared.threads`, in the same order.
    pub threads: Vec<KnownThread>,
    /// Indices of the threads that sub-samples look at.
    pub hot: Vec<usize>,
    /// This interval's number of its group; see `kernel/waits.rs`.
    pub group: Option<(u32, u16)>,
    pub(super) cpu_time_check: CpuTimeCheck,
    /// What the kernel added up over its threads when it was last asked, of very many
    pub(super) kernel_sums: Option<Box<KernelSums>>,
    /// Of many threads what each had read and written
    pub(super) thread_io: Option<Box<ThreadIoTable>>,
    /// A sub-sample saw more than the last sample has.
    pub(super) newer_than_sample: bool,
    /// Its threads were asked before its clock was: one may have run in between.
    pub(super) older_than_clock: bool,
    pub(super) unsettled: bool,
    /// When it was last seen in what may be trouble, or to begin to work
    pub(super) last_trouble_ns: u64,
    /// The number of the sub-sample that looks at it next
    pub(super) due_sub_sample: u32,
    pub(super) descriptors: TaskDescriptors,
}

static PARKED: ActiveState = ActiveState {
    threads: Vec::new(),
    hot: Vec::new(),
    group: None,
    cpu_time_check: CpuTimeCheck::UNKNOWN,
    kernel_sums: None,
    thread_io: None,
    newer_than_sample: false,
    older_than_clock: false,
    unsettled: false,
    last_trouble_ns: 0,
    due_sub_sample: 0,
    descriptors: TaskDescriptors::EMPTY,
};

/// `Watched`, which takes no memory of a process at rest. Whoever writes into it makes it, so only of one that is up.
#[derive(Debug)]
pub struct MaybeActive(Option<Box<ActiveState>>);

impl MaybeActive {
    /// Of a process seen for the first time.
    pub fn new(now_ns: u64) -> MaybeActive {
        MaybeActive(Some(Box::new(ActiveState { last_trouble_ns: now_ns, ..ActiveState::default() })))
    }

    pub fn is_parked(&self) -> bool {
        self.0.is_none()
    }

    /// It belongs to another group now.
    pub fn clear_group(&mut self) {
        if let Some(watched) = &mut self.0 {
            watched.group = None;
        }
    }
}

impl Deref for MaybeActive {
    type Target = ActiveState;

    fn deref(&self) -> &ActiveState {
        self.0.as_deref().unwrap_or(&PARKED)
    }
}

impl DerefMut for MaybeActive {
    fn deref_mut(&mut self) -> &mut ActiveState {
        self.0.get_or_insert_default()
    }
}

impl KnownProcess {
    /// Its clock, where there is nothing to be done about it for as long as that stands still.
    pub fn idle_clock_ns(&self, now_ns: u64) -> Option<u64> {
        self.clock_ns.filter(|_| self.can_park(now_ns) && !self.facts.is_due())
    }

    /// Forgets of it what the sample has, when nobody looks at its threads. Of one in D more is known.
    pub fn park(&mut self, now_ns: u64) {
        let blocked = |thread: &KnownThread| thread.state == TaskState::Blocked;
        if self.clock_ns.is_some() && self.can_park(now_ns) && !self.active.threads.iter().any(blocked) {
            self.active = MaybeActive(None);
        }
    }

    /// Before its threads are looked at.
    pub fn activate(&mut self, eye: &ScanContext) {
        if self.active.is_parked() {
            let again = |thread| KnownThread::from_sample(thread, self.first_seen_ns, &eye.machine);
            self.active.threads = self.sampled.threads.iter().map(again).collect();
            self.reset_cpu_time_check(self.clock_ns);
        }
    }

    /// Whether none of its threads is looked at as long as its clock stands still.
    fn can_park(&self, now_ns: u64) -> bool {
        let ActiveState { newer_than_sample: ahead, older_than_clock: behind, unsettled, hot, descriptors: kept, .. } =
            &*self.active;
        let known = !(*ahead || *behind || *unsettled);
        known && hot.is_empty() && kept.is_empty() && !self.ran_recently(now_ns)
    }
}
