//! A process at rest, and one that is up. As long as the clock of one at rest stands still, the last sample says all that
//! there is to be known of its threads, and nothing else is kept of them: most processes of most machines sleep, and of each
//! there would be as much again as the sample has. When one gets up it is made anew from the sample.

use std::ops::{Deref, DerefMut};

use super::KnownProcess;
use super::io::Ledger;
use super::threads::Summed;
use crate::kernel::sweep::Eye;
use crate::kernel::sweep::books::Books;
use crate::kernel::sweep::thread::KnownThread;
use crate::kernel::task::files::Kept;
use crate::sample::task::TaskState;

/// What is remembered of a process that is looked at.
#[derive(Debug, Default)]
pub struct Watched {
    /// Beside `KnownProcess::shared.threads`, in the same order.
    pub threads: Vec<KnownThread>,
    /// Indices of the threads that sub-samples look at.
    pub hot: Vec<usize>,
    /// This interval's number of its group; see `kernel/waits.rs`.
    pub group: Option<(u32, u16)>,
    pub(super) books: Books,
    /// What the kernel added up over its threads when it was last asked, of very many
    pub(super) summed: Option<Box<Summed>>,
    /// Of many threads what each had read and written
    pub(super) io: Option<Box<Ledger>>,
    /// A sub-sample saw more than the last sample has.
    pub(super) ahead: bool,
    /// Its threads were asked before its clock was: one may have run in between.
    pub(super) behind: bool,
    pub(super) unsettled: bool,
    /// When it was last seen in what may be trouble, or to begin to work
    pub(super) troubled_ns: u64,
    /// The number of the sub-sample that looks at it next
    pub(super) due: u32,
    pub(super) kept: Kept,
}

static AT_REST: Watched = Watched {
    threads: Vec::new(),
    hot: Vec::new(),
    group: None,
    books: Books::UNKNOWN,
    summed: None,
    io: None,
    ahead: false,
    behind: false,
    unsettled: false,
    troubled_ns: 0,
    due: 0,
    kept: Kept::NONE,
};

/// `Watched`, which takes no memory of a process at rest. Whoever writes into it makes it, so only of one that is up.
#[derive(Debug)]
pub struct Up(Option<Box<Watched>>);

impl Up {
    /// Of a process seen for the first time.
    pub fn since(now_ns: u64) -> Up {
        Up(Some(Box::new(Watched { troubled_ns: now_ns, ..Watched::default() })))
    }

    pub fn is_at_rest(&self) -> bool {
        self.0.is_none()
    }

    /// It belongs to another group now.
    pub fn forget_group(&mut self) {
        if let Some(watched) = &mut self.0 {
            watched.group = None;
        }
    }
}

impl Deref for Up {
    type Target = Watched;

    fn deref(&self) -> &Watched {
        self.0.as_deref().unwrap_or(&AT_REST)
    }
}

impl DerefMut for Up {
    fn deref_mut(&mut self) -> &mut Watched {
        self.0.get_or_insert_default()
    }
}

impl KnownProcess {
    /// Its clock, where there is nothing to be done about it for as long as that stands still.
    pub fn rests_at_ns(&self, now_ns: u64) -> Option<u64> {
        self.clock_ns.filter(|_| self.is_quiet(now_ns) && !self.facts.is_due())
    }

    /// Forgets of it what the sample has, when nobody looks at its threads. Of one in D more is known.
    pub fn lie_down(&mut self, now_ns: u64) {
        let blocked = |thread: &KnownThread| thread.state == TaskState::Blocked;
        if self.clock_ns.is_some() && self.is_quiet(now_ns) && !self.up.threads.iter().any(blocked) {
            self.up = Up(None);
        }
    }

    /// Before its threads are looked at.
    pub fn get_up(&mut self, eye: &Eye) {
        if self.up.is_at_rest() {
            let again = |thread| KnownThread::again(thread, self.first_seen_ns, &eye.machine);
            self.up.threads = self.shared.threads.iter().map(again).collect();
            self.balance_books(self.clock_ns);
        }
    }

    /// Whether none of its threads is looked at as long as its clock stands still.
    fn is_quiet(&self, now_ns: u64) -> bool {
        let Watched { ahead, behind, unsettled, hot, kept, .. } = &*self.up;
        let known = !(*ahead || *behind || *unsettled);
        known && hot.is_empty() && kept.is_empty() && !self.ran_lately(now_ns)
    }
}
