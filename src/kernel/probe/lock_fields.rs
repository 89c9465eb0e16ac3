//! Which kernel fields name the holder of a lock and the lock a thread waits for: it depends on the kernel's version and
//! configuration; assets/probe/tasks.bpf.c reports which exist. Where the lock is in no field, the tracepoint contention_begin has it.

/// What the program has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockFields(u32);

/// In the order of the bits of `known_fields`
const NAMES: [&str; 6] = [
    "task_struct.blocker_mutex",
    "task_struct.blocker",
    "mutex.owner",
    "semaphore.last_holder",
    "rw_semaphore.owner",
    "mm_struct.mmap_lock",
];

const BLOCKER_MUTEX: u32 = 1;
const BLOCKER: u32 = 1 << 1;
const MUTEX_OWNER: u32 = 1 << 2;
const LAST_HOLDER: u32 = 1 << 3;
const RWSEM_OWNER: u32 = 1 << 4;
const MMAP_LOCK: u32 = 1 << 5;
/// Not of the kernel's types: the programs of `lock_contention` are loaded.
const CONTENTION: u32 = 1 << 6;

/// Kernel locks, by the fields needed to name their holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldLocks {
    Mutexes,
    Semaphores,
    /// `task_struct.blocker` has them from Linux 6.17 on, which BTF does not show; contention_begin always.
    RwSemaphores,
    /// Waits for mmap_lock that a fatal signal ends
    MmapLock,
}

impl HeldLocks {
    pub const ALL: [HeldLocks; 4] = [HeldLocks::Mutexes, HeldLocks::Semaphores, HeldLocks::RwSemaphores, HeldLocks::MmapLock];
}

impl LockFields {
    /// `flags`: those of the row that ends a pass. `has_contention`: the programs of `lock_contention` are loaded.
    pub fn new(flags: u32, has_contention: bool) -> LockFields {
        LockFields(flags & (CONTENTION - 1) | if has_contention { CONTENTION } else { 0 })
    }

    /// What says for which lock a thread waits: the field, and whether the tracepoint is used.
    pub fn awaited_lock(self) -> (Option<&'static str>, bool) {
        let [of_6_15, blocker, ..] = NAMES;
        let field = [(BLOCKER, blocker), (BLOCKER_MUTEX, of_6_15)].into_iter().find(|&(bit, _)| self.0 & bit != 0);
        (field.map(|(_, name)| name), self.0 & CONTENTION != 0)
    }

    /// Every field, and whether the kernel has it.
    pub fn all(self) -> [(&'static str, bool); 6] {
        let mut bit = 0;
        NAMES.map(|name| {
            let is_known = self.0 & 1 << bit != 0;
            bit += 1;
            (name, is_known)
        })
    }

    /// The first field that is missing to name the holders of such locks.
    pub fn missing(self, locks: HeldLocks) -> Option<&'static str> {
        let needed: &[(u32, &str)] = match locks {
            HeldLocks::Mutexes => {
                &[(BLOCKER | BLOCKER_MUTEX | CONTENTION, "task_struct.blocker"), (MUTEX_OWNER, "mutex.owner")]
            }
            HeldLocks::Semaphores => &[(BLOCKER, "task_struct.blocker"), (LAST_HOLDER, "semaphore.last_holder")],
            HeldLocks::RwSemaphores => &[(BLOCKER | CONTENTION, "task_struct.blocker"), (RWSEM_OWNER, "rw_semaphore.owner")],
            HeldLocks::MmapLock => &[(MMAP_LOCK, "mm_struct.mmap_lock"), (RWSEM_OWNER, "rw_semaphore.owner")],
        };
        needed.iter().find(|(bits, _)| self.0 & bits == 0).map(|&(_, name)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_name_the_holders_of_more_and_more_locks() {
        let known = |flags| HeldLocks::ALL.map(|locks| LockFields::new(flags, false).missing(locks).is_none());
        let before_6_15 = MUTEX_OWNER | RWSEM_OWNER | MMAP_LOCK;
        assert_eq!(known(0), [false; 4]);
        assert_eq!(known(before_6_15), [false, false, false, true]);
        assert_eq!(known(before_6_15 | BLOCKER_MUTEX), [true, false, false, true]);
        assert_eq!(known(before_6_15 | BLOCKER | LAST_HOLDER), [true; 4]);
        assert_eq!(LockFields::new(before_6_15, false).missing(HeldLocks::Mutexes), Some("task_struct.blocker"));
    }

    #[test]
    fn the_tracepoint_says_for_which_mutex_or_rw_semaphore_a_thread_waits() {
        let since_5_19 = LockFields::new(MUTEX_OWNER | RWSEM_OWNER | MMAP_LOCK, true);
        assert_eq!(HeldLocks::ALL.map(|locks| since_5_19.missing(locks).is_none()), [true, false, true, true]);
        assert_eq!(since_5_19.awaited_lock(), (None, true));
        assert_eq!(LockFields::new(BLOCKER_MUTEX, false).awaited_lock(), (Some("task_struct.blocker_mutex"), false));
    }
}
