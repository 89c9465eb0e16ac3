//! The owner of a monitor of a Java virtual machine, from its memory: versions differ in how a monitor shows it.

use super::layout::{Layout, LockStack};
use super::thread_list::{JavaThread, is_object, low_half, of_each, read_long};
use crate::kernel::task::memory::read_scattered;

/// The owner of a monitor that another thread made, while the owner had locked the object without one.
const ANONYMOUS_OWNER: u64 = 1;
/// 0: no owner; 2: the monitor is being removed
const MAX_RESERVED_OWNER: u64 = 2;
/// Places of a lock stack
const LOCK_STACK_PLACES: usize = 8;

/// What shows that a thread owns a monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerSign {
    /// The monitor has this word, which names the thread.
    Named(u64),
    /// The monitor has this number, which the thread has at this offset.
    Id { word: u64, offset: u64 },
    /// The monitor does not name it, and the thread's lock stack has this object.
    Locked { object: u64, stack: LockStack },
}

/// The thread that owns the monitor. `None`: none, or it is not known, as of a virtual thread that runs on no thread.
/// `owner_ids`: the numbers by which monitors name the threads, read when they are needed
pub fn monitor_owner(
    pid: u32,
    layout: &Layout,
    threads: &[JavaThread],
    owner_ids: &mut Vec<u64>,
    monitor: u64,
) -> Option<(JavaThread, OwnerSign)> {
    let word = read_long(pid, monitor.checked_add(layout.owner)?)?;
    Some(match (layout.lock_stack, layout.owner_id) {
        (Some(stack), _) if word == ANONYMOUS_OWNER => {
            let pointer = read_long(pid, monitor.checked_add(stack.object)?).filter(|&pointer| is_object(pointer))?;
            let object = read_long(pid, pointer).filter(|&object| is_object(object))?;
            (locked_by(pid, &stack, threads, object)?, OwnerSign::Locked { object, stack })
        }
        _ if word <= MAX_RESERVED_OWNER => return None,
        (_, Some(offset)) => {
            if owner_ids.is_empty() {
                *owner_ids = of_each(pid, threads, offset);
            }
            let (thread, _) = threads.iter().zip(owner_ids.iter()).find(|&(_, &id)| id == word)?;
            (*thread, OwnerSign::Id { word, offset })
        }
        (_, None) => {
            let by_address = threads.iter().find(|thread| thread.address == word).copied();
            (by_address.or_else(|| with_stack_address(pid, layout, threads, word))?, OwnerSign::Named(word))
        }
    })
}

/// Whether that still shows that the thread owns the monitor.
pub fn still_owns(pid: u32, layout: &Layout, monitor: u64, thread: &JavaThread, sign: OwnerSign) -> bool {
    let word = monitor.checked_add(layout.owner).and_then(|place| read_long(pid, place));
    match sign {
        OwnerSign::Named(named) => word == Some(named),
        OwnerSign::Id { word: id, offset } => word == Some(id) && of_each(pid, &[*thread], offset) == [id],
        OwnerSign::Locked { object, stack } => {
            word == Some(ANONYMOUS_OWNER) && locked_by(pid, &stack, &[*thread], object).is_some()
        }
    }
}

/// The thread whose lock stack has the object.
fn locked_by(pid: u32, stack: &LockStack, threads: &[JavaThread], object: u64) -> Option<JavaThread> {
    let used = |top: u64| u64::from(low_half(top)).saturating_sub(stack.base) / size_of::<u64>() as u64;
    let tops = threads.iter().zip(of_each(pid, threads, stack.top));
    let locking: Vec<(JavaThread, u64)> =
        tops.map(|(&thread, top)| (thread, used(top))).filter(|&(_, used)| used > 0).collect();
    let bases: Vec<u64> = locking.iter().map(|(thread, _)| thread.address.saturating_add(stack.base)).collect();
    let places = read_scattered(pid, &bases, LOCK_STACK_PLACES * size_of::<u64>()).ok()?;
    let (places, _) = places.as_chunks::<{ size_of::<u64>() }>();
    let has_locked = |used: u64, places: &[[u8; 8]]| {
        let used = usize::try_from(used).unwrap_or(usize::MAX);
        places.iter().take(used).any(|&place| u64::from_ne_bytes(place) == object)
    };
    let mut stacks = locking.into_iter().zip(places.chunks_exact(LOCK_STACK_PLACES));
    stacks.find(|&((_, used), places)| has_locked(used, places)).map(|((thread, _), _)| thread)
}

/// The thread in whose stack the address is.
fn with_stack_address(pid: u32, layout: &Layout, threads: &[JavaThread], address: u64) -> Option<JavaThread> {
    let (ends, lengths) = (of_each(pid, threads, layout.stack.0), of_each(pid, threads, layout.stack.1));
    let is_inside = |(&end, &length): (&u64, &u64)| (end.saturating_sub(length)..end).contains(&address);
    threads.iter().zip(ends.iter().zip(&lengths)).find(|&(_, stack)| is_inside(stack)).map(|(thread, _)| *thread)
}
