//! How memory is taken from the system and given back: a monitor shall be small on a box that is short of it.

/// So much may lie free at the end of the heap: what a busy second takes and gives back. With less of it the kernel is asked
/// for the same pages again and again.
const TRIM_THRESHOLD: libc::c_int = 256 << 10;

/// Before any thread is started. glibc gives each thread an arena of its own and keeps what was freed; two threads that
/// seldom allocate at the same time need one, and a screen that was large once need not stay so.
pub fn configure() {
    #[cfg(target_env = "gnu")]
    // SAFETY: sets parameters of the allocator; no other thread is running yet.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_TRIM_THRESHOLD, TRIM_THRESHOLD);
        libc::mallopt(libc::M_TOP_PAD, TRIM_THRESHOLD / 4);
        libc::mallopt(libc::M_MMAP_THRESHOLD, 64 << 10);
    }
}

/// Gives back what lies free between what is in use: tasks and frames come and go in thousands, and a box that was in trouble
/// shall not pay for it when it is over. Takes about a millisecond where there are tens of megabytes.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: touches only what the allocator knows to be free.
    unsafe {
        libc::malloc_trim(0);
    }
}
