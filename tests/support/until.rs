//! Waits for a condition, never for a fixed time.

#![allow(dead_code, reason = "each test binary uses a part of this file")]

use std::time::{Duration, Instant};

/// Long because test machines are slow; passing tests do not reach it.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Waits until a condition holds.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    until_some(what, || holds().then_some(()));
}

/// Waits for a value.
pub fn until_some<T>(what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = poll() {
            return found;
        }
        assert!(begin.elapsed() < TIMEOUT, "not so in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
