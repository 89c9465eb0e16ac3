//! The memory allocator's parameters: freed memory goes back to the system soon, and threads share one arena.

use crate::app::sys;

/// Free bytes that remain at the end of the heap: what a busy second allocates and frees. With fewer, the same pages are
/// requested from the kernel again and again.
const TRIM_THRESHOLD: libc::c_int = 256 << 10;

/// Blocks of this size and more are mapped on their own, and go back to the system when they are freed.
const MMAP_THRESHOLD: libc::c_int = 64 << 10;

/// To be called before any thread is started. By default glibc gives each thread an arena and keeps what was freed; two
/// threads that seldom allocate at the same time need one, and memory of a screen that was once large can go back.
pub fn configure() {
    sys::configure_malloc(1, TRIM_THRESHOLD, MMAP_THRESHOLD);
}

/// For a replay: a jump allocates and frees the tables of whole samples, and the analysis in the background does so all the time. With
/// mapped blocks a fifth of a jump is page faults. Also to be called before any thread is started.
pub fn configure_for_replay() {
    sys::configure_malloc(2, 8 << 20, 4 << 20);
}

/// For commands that evaluate a whole recording and then end: the thread that decodes has an arena of its own, and what was freed
/// is kept. Also to be called before any thread is started: later, glibc ignores the number of arenas.
pub fn configure_for_batch() {
    sys::configure_malloc(4, 16 << 20, 4 << 20);
}

/// Returns free pages between used ones to the kernel: rows of tasks and frames come and go in thousands. Takes about 1 ms
/// for tens of megabytes.
pub fn trim() {
    sys::malloc_trim();
}
