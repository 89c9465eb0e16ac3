//! Panics: the terminal is restored before one line reports the bug, in place of the message of Rust.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};

use super::exit::{Exit, Failure};
use super::stdio;
use crate::app::terminal;
use crate::kernel::elf::SYMBOLS_THREAD;
use crate::kernel::stacks::USER_STACK_THREAD;

/// Whether a thread has panicked.
static PANICKED: AtomicBool = AtomicBool::new(false);

/// Installs the panic hook. It runs on the thread that panicked, before it unwinds. Release builds do not unwind: the
/// hook is the last that the thread does.
pub fn install_hook() {
    panic::set_hook(Box::new(|info| {
        // They parse files of other programs, and go on without what is in that one.
        if [USER_STACK_THREAD, SYMBOLS_THREAD].map(Some).contains(&std::thread::current().name()) {
            if cfg!(panic = "abort") {
                // The sampler gives up a thread that does not answer.
                park_for_ever();
            }
            return;
        }
        let first = !PANICKED.swap(true, Ordering::SeqCst);
        if !first && cfg!(panic = "abort") {
            // The first one ends the program, after its report.
            park_for_ever();
        }
        terminal::close();
        if first {
            let place = info.location().map_or_else(String::new, |place| format!(" at {}:{}", place.file(), place.line()));
            let message = info.payload_as_str().unwrap_or("no message");
            stdio::print_stderr(&format!("internal error{place}: {message}: please report it with this line"));
        }
        if cfg!(panic = "abort") {
            // Not SIGABRT, which writes a core file.
            std::process::exit(Exit::Failed.code().into());
        }
    }));
}

fn park_for_ever() -> ! {
    loop {
        std::thread::park();
    }
}

/// Whether a thread has panicked, so that the program must end.
pub fn has_panicked() -> bool {
    PANICKED.load(Ordering::SeqCst)
}

/// Panics if STALLTOP_PANIC names this place: for tests, only in debug builds.
#[expect(clippy::panic, reason = "tests need a panic")]
pub fn panic_if_requested(place: &str) {
    if cfg!(debug_assertions) && std::env::var("STALLTOP_PANIC").is_ok_and(|wanted| wanted == place) {
        panic!("rehearsed");
    }
}

/// Runs `body`; a panic becomes a failure that has been reported.
pub fn catch(body: impl FnOnce() -> Result<Exit, Failure>) -> Result<Exit, Failure> {
    panic::catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| Err(Failure::already_reported(Exit::Failed)))
}
