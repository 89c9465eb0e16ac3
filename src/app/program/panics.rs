//! A fault of our own: the terminal is given back before the one line that says so, and nobody sees a Rust panic.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};

use super::exit::{Exit, Failure};
use super::stdio;
use crate::app::terminal;

/// Whether a thread has panicked: what it should have done will not be done.
static PANICKED: AtomicBool = AtomicBool::new(false);

/// Puts the hook in place. It runs on the thread that panicked, before anything is unwound.
pub fn install_hook() {
    panic::set_hook(Box::new(|fault| {
        // First, so that the terminal is not taken any more once it is given back.
        let first = !PANICKED.swap(true, Ordering::SeqCst);
        terminal::restore();
        if first {
            let place = fault.location().map_or_else(String::new, |place| format!(" at {}:{}", place.file(), place.line()));
            let said = fault.payload_as_str().unwrap_or("no reason given");
            stdio::print_stderr(&format!("a fault of stalltop itself{place}: {said}: please report it with this line"));
        }
    }));
}

/// Whether some thread is lost, so that the program must end.
pub fn has_panicked() -> bool {
    PANICKED.load(Ordering::SeqCst)
}

/// A panic on purpose, where STALLTOP_PANIC names the place: so that a test sees what one does. Not in a release build.
#[expect(clippy::panic, reason = "the point of it")]
pub fn panic_if_requested(place: &str) {
    if cfg!(debug_assertions) && std::env::var("STALLTOP_PANIC").is_ok_and(|wanted| wanted == place) {
        panic!("rehearsed");
    }
}

/// Runs something; a panic in it becomes a failure that has been told already.
pub fn catch(body: impl FnOnce() -> Result<Exit, Failure>) -> Result<Exit, Failure> {
    panic::catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| Err(Failure::already_reported(Exit::Failed)))
}
