//! Which thread a futex lock names, by the words of its memory: mutexes of glibc and musl, read-write locks of glibc, and locks with
//! priority inheritance.
//!
//! The futex word alone does not say what type has it: 2 means "contended" in many programs, in the locks of glibc's malloc too, and a
//! plain mutex of musl holds the number 16, which is no thread. The words beside it must be those of a mutex, and where threads wait with a
//! timeout, as pools and condition variables do, all of its bytes.

use std::io;

use crate::kernel::task::memory::read_memory;
use crate::sample::waits::syscall::{FUTEX_TID_MASK, FUTEX_WAITERS, MAX_TID};
use crate::sample::waits::{FutexWait, OwnerField};

const TID_MASK: u32 = FUTEX_TID_MASK as u32;
const WAITERS: u32 = FUTEX_WAITERS as u32;
/// The futex word of a pthread mutex of glibc with waiters
const CONTENDED: u32 = 2;

/// Where a lock has its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockLayout {
    /// `pthread_mutex_t` of glibc, but robust ones
    GlibcMutex,
    /// The same where all that wait do so with a timeout (pthread_mutex_timedlock, pthread_mutex_clocklock)
    TimedGlibcMutex,
    /// `pthread_rwlock_t` of glibc that a writer holds
    GlibcRwLock,
    /// The owner is in the futex word: a robust mutex of glibc; a recursive, error-checking or robust one of musl
    OwnerWord,
    /// The same of a lock that the kernel hands over (FUTEX_LOCK_PI): no other word is needed.
    PriorityInheritance,
}

impl LockLayout {
    /// Of the lock of a futex call, and its address; `None` if the call is on no lock that names its owner.
    pub fn of_wait(wait: FutexWait, has_timeout: bool) -> Option<(LockLayout, u64)> {
        match wait {
            FutexWait::ContendedMutex { address } => Some((LockLayout::GlibcMutex, address)),
            FutexWait::LikelyMutex { address } if has_timeout => Some((LockLayout::TimedGlibcMutex, address)),
            FutexWait::LikelyRwLock { address } => Some((LockLayout::GlibcRwLock, address)),
            FutexWait::OwnerWord { address } => Some((LockLayout::OwnerWord, address)),
            FutexWait::PiLock { address } => Some((LockLayout::PriorityInheritance, address)),
            FutexWait::LikelyMutex { .. }
            | FutexWait::IdleRuntimeThread { .. }
            | FutexWait::RwLock { .. }
            | FutexWait::LightweightLock { .. }
            | FutexWait::JavaLock { .. }
            | FutexWait::Unknown { .. } => None,
        }
    }

    pub fn field(self) -> OwnerField {
        match self {
            LockLayout::GlibcMutex | LockLayout::TimedGlibcMutex => OwnerField::GlibcMutex,
            LockLayout::GlibcRwLock => OwnerField::GlibcWriter,
            LockLayout::OwnerWord | LockLayout::PriorityInheritance => OwnerField::FutexWord,
        }
    }
}

/// The owner that a lock names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedOwner {
    /// In the pid namespace of its process
    pub tid: u32,
    /// `__nusers` of a mutex of glibc that is not robust: 1, and more only if it is a recursive one; `None` of others
    pub users: Option<u32>,
}

/// The owner of the lock; `None` if it has no owner or no waiter, or is no such lock.
pub fn read_owner(pid: u32, address: u64, layout: LockLayout) -> Option<NamedOwner> {
    let words = read_words(pid, address).ok()?;
    let is_contended_glibc = || words[0] == CONTENDED && is_glibc_mutex(&words) && is_aligned(address);
    let tid = match layout {
        LockLayout::GlibcMutex => is_contended_glibc().then_some(words[2])?,
        LockLayout::TimedGlibcMutex => {
            let rest = read_words(pid, address.checked_add(REST_OF_GLIBC_MUTEX)?).ok()?;
            (is_contended_glibc() && is_rest_of_glibc_mutex(words[4], &rest)).then_some(words[2])?
        }
        LockLayout::GlibcRwLock => {
            // Its first futex is the third word.
            let begin = read_words(pid, address.checked_sub(8)?).ok()?;
            let rest = read_words(pid, address.checked_add(20)?).ok()?;
            (words[3] == 0 && is_written_glibc_rw_lock(&begin, &rest)).then_some(words[4])?
        }
        LockLayout::PriorityInheritance => waited_tid(words[0])?,
        LockLayout::OwnerWord => {
            let tid = waited_tid(words[0])?;
            let is_mutex = match is_aligned(address) {
                true => is_robust_glibc_mutex(&words, tid),
                false => address
                    .checked_sub(4)
                    .is_some_and(|begin| is_aligned(begin) && read_words(pid, begin).is_ok_and(|words| is_musl_mutex(&words))),
            };
            is_mutex.then_some(tid)?
        }
    };
    let users = (layout == LockLayout::GlibcMutex).then_some(words[3]);
    (1..=MAX_TID).contains(&u64::from(tid)).then_some(NamedOwner { tid, users })
}

/// Whether an object with pointers may begin there, where they have 64 bits.
fn is_aligned(address: u64) -> bool {
    address.is_multiple_of(8)
}

/// The thread id in a word that says that threads wait.
fn waited_tid(word: u32) -> Option<u32> {
    (word & WAITERS != 0).then_some(word & TID_MASK)
}

/// Bits of `__kind`: the type, robust, priority inheritance and protection, shared, with or without elision
const GLIBC_KINDS: u32 = 0x3f3;
const GLIBC_TYPE: u32 = 3;
const GLIBC_RECURSIVE: u32 = 1;
const GLIBC_ROBUST: u32 = 0x10;
const GLIBC_ADAPTIVE: u32 = 3;
/// Robust, priority inheritance and protection
const GLIBC_PROTOCOLS: u32 = 0x70;
/// Lock elision, by hardware transactions
const GLIBC_ELISION: u32 = 0x100;
/// Bytes before `__spins`
const REST_OF_GLIBC_MUTEX: u64 = 20;
/// `__owner` of a robust mutex that was taken over from a thread that ended with it
const GLIBC_INCONSISTENT: u32 = 0x7fff_ffff;

/// `__lock`, `__count`, `__owner`, `__nusers`, `__kind` of `pthread_mutex_t` where addresses have 64 bits (with 32 the last two are
/// exchanged, and no owner is known). An owned one has a user, and a count if it is recursive or robust.
fn is_glibc_mutex(&[_, count, _, users, kind]: &[u32; 5]) -> bool {
    let may_count = kind & GLIBC_TYPE == GLIBC_RECURSIVE || (kind & GLIBC_ROBUST != 0 && count == 1);
    users != 0 && kind & !GLIBC_KINDS == 0 && (count == 0 || may_count)
}

/// `__spins` and `__list` of a mutex of this kind: the list is of robust ones, the spins are of adaptive ones.
fn is_rest_of_glibc_mutex(kind: u32, &[spins, list @ ..]: &[u32; 5]) -> bool {
    let may_spin = kind & GLIBC_TYPE == GLIBC_ADAPTIVE || kind & GLIBC_ELISION != 0;
    kind & GLIBC_PROTOCOLS == 0 && (spins == 0 || may_spin) && list == [0; 4]
}

fn is_robust_glibc_mutex(words: &[u32; 5], tid: u32) -> bool {
    let &[_, _, owner, _, kind] = words;
    is_glibc_mutex(words) && kind & GLIBC_ROBUST != 0 && (owner == tid || owner == GLIBC_INCONSISTENT)
}

/// Bits of `__readers`: held by a writer, in the phase in which it may write; the number of readers is in those above.
const RW_LOCK_WRITTEN: u32 = 3;

/// `__readers`, `__writers`, `__wrphase_futex`, `__writers_futex` and `__pad3` of `pthread_rwlock_t` where a writer holds it, and what is behind
/// `__pad4` and `__cur_writer`: `__shared`, `__rwelision`, a pad, and `__pad2`
fn is_written_glibc_rw_lock(&[readers, writers, phase, held, pad]: &[u32; 5], &[shared, rest @ ..]: &[u32; 5]) -> bool {
    let is_held = readers & RW_LOCK_WRITTEN == RW_LOCK_WRITTEN && phase | held == 3 && phase & held & 1 == 1;
    is_held && writers <= MAX_TID as u32 && pad == 0 && shared <= 1 && rest == [0; 4]
}

/// Bits of `_m_type`: the type, robust, priority inheritance; shared
const MUSL_TYPES: u32 = 0x8f;
const MUSL_TYPE: u32 = 0xf;

/// `_m_type`, `_m_lock`, `_m_waiters` and two unused words of `pthread_mutex_t`. A plain one (type 0) does not name its owner.
fn is_musl_mutex(&[kind, _, waiters, unused @ ..]: &[u32; 5]) -> bool {
    kind & !MUSL_TYPES == 0 && kind & MUSL_TYPE != 0 && waiters != 0 && waiters <= TID_MASK && unused == [0; 2]
}

/// Five words of a process's memory.
fn read_words(pid: u32, address: u64) -> io::Result<[u32; 5]> {
    let mut bytes = [0; 20];
    read_memory(pid, address, &mut bytes)?;
    let (words, _) = bytes.as_chunks();
    let mut numbers = [0; 5];
    numbers.iter_mut().zip(words).for_each(|(number, &word)| *number = u32::from_ne_bytes(word));
    Ok(numbers)
}

/// Whether a process may read memory here; says why not.
#[cfg(test)]
pub(super) fn can_read() -> bool {
    let word = [WAITERS | 7, 0, 0, 0, 0];
    let read = read_words(std::process::id(), std::ptr::from_ref(&word) as u64);
    if let Err(error) = &read {
        println!("skipped: no process_vm_readv here ({error})");
    }
    read.is_ok_and(|read| read == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads from the memory of this process; `None` where that cannot be read, or if it names no thread.
    fn owner_tid<const WORDS: usize>(words: [u32; WORDS], at: usize, layout: LockLayout) -> Option<u32> {
        let padded =
            Aligned(std::array::from_fn(|place| place.checked_sub(2).and_then(|at| words.get(at).copied()).unwrap_or(0)));
        Some(read_owner(std::process::id(), std::ptr::from_ref(&padded.0[2 + at]) as u64, layout)?.tid)
    }

    /// Begins where a mutex may begin.
    #[repr(align(8))]
    struct Aligned([u32; 24]);

    #[test]
    fn a_contended_mutex_of_glibc_names_its_owner_behind_the_futex_word() {
        if !can_read() {
            return;
        }
        let named = |words: [u32; 5]| owner_tid(words, 0, LockLayout::GlibcMutex);
        assert_eq!(named([2, 0, 4711, 1, 0]), Some(4711));
        assert_eq!(named([2, 3, 4711, 1, 1]), Some(4711), "recursive");
        assert_eq!(named([2, 0, 4711, 9, 0x283]), Some(4711), "adaptive, shared, without elision");
        assert_eq!(named([1, 0, 4711, 1, 0]), None, "no thread waits");
        assert_eq!(named([2, 0, 0, 0, 0]), None, "it is handed over");
        assert_eq!(named([2, 0, 1, 0, 0]), None, "an arena of malloc: mutex, flags, have_fastchunks");
        assert_eq!(named([2, 0, 4711, 1, 0x5562_0000]), None, "no kind");
        assert_eq!(named([2, 0, 0x5800_0000, 0xc0, 3]), None, "a mutex of the Go runtime with a pointer behind it");
        assert_eq!(named([2, 5, 4711, 1, 0]), None, "a count that only a recursive one has");
    }

    #[test]
    fn threads_that_wait_with_a_timeout_name_a_holder_only_by_all_bytes_of_a_mutex() {
        if !can_read() {
            return;
        }
        let named = |words: [u32; 10]| owner_tid(words, 0, LockLayout::TimedGlibcMutex);
        assert_eq!(named([2, 0, 4711, 1, 0, 0, 0, 0, 0, 0]), Some(4711));
        assert_eq!(named([2, 1, 4711, 1, 1, 0, 0, 0, 0, 0]), Some(4711), "recursive");
        assert_eq!(named([2, 0, 4711, 1, 3, 17, 0, 0, 0, 0]), Some(4711), "adaptive, which spins");
        assert_eq!(named([2, 0, 4711, 1, 0, 17, 0, 0, 0, 0]), None, "no other one spins");
        assert_eq!(named([2, 0, 4711, 1, 0, 0, 0, 0, 0, 1]), None, "no other one is in a list");
        assert_eq!(named([2, 0, 4711, 1, 0x90, 0, 0, 0, 0, 0]), None, "a robust one has its owner in the first word");
        assert_eq!(named([2, 0, 0, 0, 0, 0, 4711, 1, 0, 0]), None, "a condition variable of glibc 2.41 before a mutex");
        assert_eq!(
            named([2, 3, 0, 0, 0, 4711, 0, 0, 0, 0]),
            None,
            "a read-write lock of glibc, of a writer that waits for readers"
        );
        assert_eq!(named([2, 0, 0, 0, 0xfc74_ae60, 0x7fbf, 0, 0, 0, 0]), None, "a condition variable of musl");
        let misaligned = owner_tid([0, 2, 0, 4711, 1, 0, 0, 0, 0, 0, 0], 1, LockLayout::TimedGlibcMutex);
        assert_eq!(misaligned, None, "a counter of a condition variable of Rust");
    }

    #[test]
    fn a_read_write_lock_of_glibc_names_its_writer() {
        if !can_read() {
            return;
        }
        let named = |words: [u32; 12]| owner_tid(words, 2, LockLayout::GlibcRwLock);
        assert_eq!(named([51, 0, 3, 3, 0, 0, 4711, 0, 0, 0, 0, 0]), Some(4711), "6 readers and writers wait");
        assert_eq!(named([3, 5, 1, 3, 0, 0, 4711, 1, 0, 0, 0, 0]), Some(4711), "writers wait; shared by processes");
        assert_eq!(named([51, 0, 3, 1, 0, 0, 4711, 0, 0, 0, 0, 0]), Some(4711), "readers wait");
        assert_eq!(named([3, 0, 1, 1, 0, 0, 4711, 0, 0, 0, 0, 0]), None, "no thread waits");
        assert_eq!(named([51, 0, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0]), None, "it is handed over");
        assert_eq!(named([10, 1, 2, 1, 0, 0, 4711, 0, 0, 0, 0, 0]), None, "a writer waits for a reader");
        assert_eq!(named([50, 0, 3, 3, 0, 0, 4711, 0, 0, 0, 0, 0]), None, "the phase of readers");
        for at in [4, 5, 8, 9, 10, 11] {
            let mut words = [51, 0, 3, 3, 0, 0, 4711, 0, 0, 0, 0, 0];
            words[at] = 9;
            assert_eq!(named(words), None, "word {at} is not used");
        }
    }

    #[test]
    fn a_lock_with_priority_inheritance_names_its_owner_in_the_futex_word() {
        if !can_read() {
            return;
        }
        let named = |word| owner_tid([word, 7, 8, 0, 77], 0, LockLayout::PriorityInheritance);
        assert_eq!(named(WAITERS | 4711), Some(4711));
        // FUTEX_OWNER_DIED
        assert_eq!(named(WAITERS | 0x4000_0000 | 4711), Some(4711));
        assert_eq!(named(4711), None, "no thread waits");
    }

    #[test]
    fn a_word_with_a_number_is_no_thread_unless_it_is_in_a_mutex_that_has_one() {
        if !can_read() {
            return;
        }
        let word = WAITERS | 4711;
        let glibc = |words: [u32; 5]| owner_tid(words, 0, LockLayout::OwnerWord);
        assert_eq!(glibc([word, 1, 4711, 1, 0x290]), Some(4711), "robust and shared, of glibc");
        assert_eq!(glibc([word, 1, GLIBC_INCONSISTENT, 1, 0x90]), Some(4711), "taken over from a thread that ended");
        assert_eq!(glibc([word, 1, 9, 1, 0x90]), None, "of another thread");
        let named = |words: [u32; 6]| owner_tid(words, 1, LockLayout::OwnerWord);
        assert_eq!(named([1, word, 20, 0, 0, 0]), Some(4711), "recursive, of musl");
        assert_eq!(named([0x84, word, 1, 0, 0, 0]), Some(4711), "robust and shared, of musl");
        assert_eq!(
            owner_tid([0, 1, WAITERS | 3, 1, 0, 0, 0, 0], 2, LockLayout::OwnerWord),
            None,
            "readers of a read-write lock of musl"
        );
        assert_eq!(named([1, word, 20, 7, 0, 0]), None, "a word that a mutex of musl does not use");
        assert_eq!(named([0, WAITERS | 16, 20, 0, 0, 0]), None, "a plain one of musl: EBUSY");
        assert_eq!(named([0, WAITERS | 3, 0, 0, 0, 0]), None, "an internal lock of musl: the number of threads");
    }

    #[test]
    fn memory_that_is_not_mapped_names_no_thread() {
        assert_eq!(read_owner(std::process::id(), 8, LockLayout::PriorityInheritance), None);
        assert_eq!(read_owner(std::process::id(), 0, LockLayout::OwnerWord), None);
    }
}
