//! What may touch a file system that does not answer, with an end to the waiting.

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// What `work` comes to, on a thread of its own; `None` when that takes longer. The thread is left behind then: nothing
/// ends a task that waits for a dead server.
pub fn with_timeout<T: Send + 'static>(patience: Duration, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, result) = channel();
    let body = move || {
        // Nobody listens any more when it took too long.
        let _ = sender.send(work());
    };
    thread::Builder::new().name("patience".to_owned()).spawn(body).ok()?;
    result.recv_timeout(patience).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_answers_is_not_waited_for() {
        assert_eq!(with_timeout(Duration::from_secs(60), || 7), Some(7));
        let (never, silence) = channel::<()>();
        assert_eq!(with_timeout(Duration::from_millis(1), move || silence.recv().is_ok()), None);
        drop(never);
    }
}
