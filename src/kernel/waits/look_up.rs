//! What is looked up once a process, on a thread of its own: its files may be on a file system that does not answer.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, JoinHandle};

use crate::kernel::elf::SYMBOLS_THREAD;

/// Processes that are looked up at a time: each takes a few MiB.
const MAX_LOOK_UPS: usize = 4;

/// Those that are looked up at the moment.
static LOOK_UPS: AtomicUsize = AtomicUsize::new(0);

/// What is known of one process.
#[derive(Debug, Default)]
pub enum LookUp<T> {
    #[default]
    NotBegun,
    Running(JoinHandle<Option<T>>),
    Known(T),
    /// The process does not have it, or this user has no permission.
    Unknown,
}

impl<T: Send + 'static> LookUp<T> {
    /// Whether the look-up can begin now.
    pub fn can_begin(&self) -> bool {
        matches!(self, LookUp::NotBegun) && LOOK_UPS.load(Ordering::Relaxed) < MAX_LOOK_UPS
    }

    /// Begins the look-up with `find`, unless it was begun or too many others are running, and takes over its result.
    pub fn advance(&mut self, find: impl FnOnce() -> Option<T> + Send + 'static) {
        *self = match std::mem::take(self) {
            begins @ LookUp::NotBegun if begins.can_begin() => begin(find),
            LookUp::Running(thread) if thread.is_finished() => {
                thread.join().ok().flatten().map_or(LookUp::Unknown, LookUp::Known)
            }
            other => other,
        };
    }

    pub fn known(&self) -> Option<&T> {
        match self {
            LookUp::Known(known) => Some(known),
            _ => None,
        }
    }
}

fn begin<T: Send + 'static>(find: impl FnOnce() -> Option<T> + Send + 'static) -> LookUp<T> {
    LOOK_UPS.fetch_add(1, Ordering::Relaxed);
    let find = move || {
        let found = find();
        LOOK_UPS.fetch_sub(1, Ordering::Relaxed);
        found
    };
    match Builder::new().name(SYMBOLS_THREAD.to_owned()).spawn(find) {
        Ok(thread) => LookUp::Running(thread),
        // Without a thread it is tried again.
        Err(_) => {
            LOOK_UPS.fetch_sub(1, Ordering::Relaxed);
            LookUp::NotBegun
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended<T: Clone + Send + 'static>(result: Option<T>) -> LookUp<T> {
        let mut look_up = LookUp::default();
        while matches!(look_up, LookUp::NotBegun | LookUp::Running(_)) {
            let result = result.clone();
            look_up.advance(move || result);
            std::thread::yield_now();
        }
        look_up
    }

    #[test]
    fn what_was_found_stays_known_and_what_was_not_is_not_looked_up_again() {
        let mut found = ended(Some(7));
        found.advance(|| Some(8));
        assert_eq!(found.known(), Some(&7));
        let mut missing = ended(None);
        missing.advance(|| Some(8));
        assert!(matches!(missing, LookUp::Unknown));
    }
}
