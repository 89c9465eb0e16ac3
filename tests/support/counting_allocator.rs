//! An allocator that counts the allocations of each thread and the bytes that it holds.

#![allow(unsafe_code, reason = "a global allocator")]
// Each test binary uses a part of this file.
#![allow(dead_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator; it counts the requests of each thread.
struct Counting;

thread_local! {
    static ASKED: Cell<u64> = const { Cell::new(0) };
    static HELD: Cell<isize> = const { Cell::new(0) };
    static MOST_HELD: Cell<isize> = const { Cell::new(0) };
}

/// Memory may be freed by another thread than that which allocated it: the count of that thread is then below 0.
fn hold(more: usize, less: usize) {
    let held = HELD.try_with(|held| {
        held.set(held.get().wrapping_add_unsigned(more).wrapping_sub_unsigned(less));
        held.get()
    });
    if let Ok(held) = held {
        let _ = MOST_HELD.try_with(|most| most.set(most.get().max(held)));
    }
}

// SAFETY: the system's allocator does the work; a counter in const-initialised thread-local storage allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ASKED.try_with(|asked| asked.set(asked.get() + 1));
        hold(layout.size(), 0);
        // SAFETY: the caller's promise about the layout is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        hold(0, layout.size());
        // SAFETY: `place` came from `alloc`, that is from the system, with this layout.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let _ = ASKED.try_with(|asked| asked.set(asked.get() + 1));
        hold(size, layout.size());
        // SAFETY: as in `dealloc`; the caller's promise about the size is passed on.
        unsafe { System.realloc(place, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The number of allocations of `work`.
pub fn allocations<T>(work: impl FnOnce() -> T) -> u64 {
    let before = ASKED.get();
    let made = work();
    let asked = ASKED.get() - before;
    drop(made);
    asked
}

/// Bytes that this thread has allocated, less those that it has freed.
pub fn held() -> isize {
    HELD.get()
}

/// The result of `work`, and the most bytes that it held at one time beyond those held before.
pub fn most_held<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.get();
    MOST_HELD.set(before);
    let made = work();
    (made, usize::try_from(MOST_HELD.get() - before).unwrap_or(0))
}
