//! Threads for work that may block, such as access to a file system that does not answer.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use super::exit::{Exit, Failure};

/// Starts a thread of that name.
pub fn spawn<T: Send + 'static>(name: &str, body: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>, Failure> {
    Builder::new().name(name.to_owned()).spawn(body).map_err(|error| {
        let remedy = "raise the limit of processes (ulimit -u, or pids.max of the cgroup)";
        Failure::new(Exit::Failed, format!("cannot start the thread '{name}'"), error, remedy)
    })
}

/// The result of `work`, which runs on a thread of its own; `None` if it takes longer than `timeout`. The thread then
/// remains: a task in uninterruptible sleep cannot be ended.
pub fn with_timeout<T: Send + 'static>(timeout: Duration, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, result) = channel();
    let body = move || {
        // The receiver is gone after the timeout.
        let _ = sender.send(work());
    };
    spawn("file access", body).ok()?;
    result.recv_timeout(timeout).ok()
}

/// A thread that answers requests in order. It ends when this is dropped.
#[derive(Debug)]
pub struct Worker<Request, Response> {
    requests: Sender<Request>,
    responses: Receiver<Response>,
}

impl<Request: Send + 'static, Response: Send + 'static> Worker<Request, Response> {
    pub fn start(
        name: &str,
        mut answer: impl FnMut(Request) -> Response + Send + 'static,
    ) -> Result<Worker<Request, Response>, Failure> {
        let (requests, received) = channel();
        let (sender, responses) = channel();
        let body = move || {
            for request in received {
                if sender.send(answer(request)).is_err() {
                    return;
                }
            }
        };
        spawn(name, body)?;
        Ok(Worker { requests, responses })
    }

    /// Queues a request. Without a thread (it has panicked) it is dropped, and `receive` returns `Disconnected`.
    pub fn send(&self, request: Request) {
        let _ = self.requests.send(request);
    }

    /// Waits for the next response.
    pub fn receive(&self, timeout: Duration) -> Result<Response, RecvTimeoutError> {
        self.responses.recv_timeout(timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_for_work_that_does_not_end_is_bounded() {
        assert_eq!(with_timeout(Duration::from_secs(60), || 7), Some(7));
        let (sender, never) = channel::<()>();
        assert_eq!(with_timeout(Duration::from_millis(1), move || never.recv().is_ok()), None);
        drop(sender);
    }

    #[test]
    fn a_worker_answers_in_order() {
        let worker = Worker::start("test", |number: u32| number * 2).unwrap();
        (1..4).for_each(|number| worker.send(number));
        let answers: Vec<_> = (1..4).map(|_| worker.receive(Duration::from_secs(60))).collect();
        assert_eq!(answers, [Ok(2), Ok(4), Ok(6)]);
        assert_eq!(worker.receive(Duration::ZERO), Err(RecvTimeoutError::Timeout));
    }
}
