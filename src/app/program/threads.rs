//! Threads for work that may block, such as access to a file system that does not answer. What another thread waits for runs with the
//! priority of the sampling thread: on a machine without a free CPU each step would take seconds.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use super::cpu_wait;
use super::exit::{Exit, Failure};
use super::priority;

/// Starts a thread of that name.
pub fn spawn<T: Send + 'static>(name: &str, body: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>, Failure> {
    spawn_boxed(name, Box::new(body))
}

/// Compiled once for each type of result, and not for each of forty bodies.
fn spawn_boxed<T: Send + 'static>(name: &str, body: Box<dyn FnOnce() -> T + Send>) -> Result<JoinHandle<T>, Failure> {
    let counted = move || {
        let result = body();
        cpu_wait::add_ended_thread();
        result
    };
    Builder::new().name(name.to_owned()).spawn(counted).map_err(|error| {
        let remedy = "raise the limit of processes (ulimit -u, or pids.max of the cgroup)";
        Failure::new(Exit::Failed, format!("cannot start the thread '{name}'"), error, remedy)
    })
}

/// Why there is no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimedOut {
    /// The file system does not answer, or the thread cannot be started.
    NoAnswer,
    /// The thread got no CPU.
    NoCpu,
}

/// A thread without a CPU is given this many times the timeout: it says nothing about the file system.
const MAX_EXTENSION: u32 = 5;

/// How often a thread without a CPU is looked at again.
const EXTENSION_STEP: Duration = Duration::from_millis(50);

/// The result of `work`, which runs on a thread of its own, unless it is blocked for longer than `timeout`. The time in which
/// the thread waits for a CPU does not count, up to five times the timeout. The thread remains: a task in uninterruptible sleep
/// cannot be ended.
pub fn with_timeout<T: Send + 'static>(timeout: Duration, work: impl FnOnce() -> T + Send + 'static) -> Result<T, TimedOut> {
    let result = Arc::new(Mutex::new(None));
    let slot = Arc::clone(&result);
    let body = move || {
        let result = work();
        *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
    };
    wait_for(timeout, Box::new(body))?;
    let mut result = result.lock().unwrap_or_else(PoisonError::into_inner);
    // Without a result the work has panicked.
    result.take().ok_or(TimedOut::NoAnswer)
}

/// Returns when `work` has ended, or the timeout of `with_timeout` has passed.
fn wait_for(timeout: Duration, work: Box<dyn FnOnce() + Send>) -> Result<(), TimedOut> {
    let (sender, ended) = channel();
    let (tid_sender, tid) = channel();
    let body = move || {
        // Another thread waits for it.
        priority::raise();
        let _ = tid_sender.send(nix::unistd::gettid());
        work();
        // The receiver is gone after the timeout.
        let _ = sender.send(());
    };
    spawn("file access", body).map_err(|_| TimedOut::NoAnswer)?;
    let (begin, mut started) = (Instant::now(), None);
    let mut step = timeout;
    loop {
        match ended.recv_timeout(step) {
            Ok(()) => return Ok(()),
            Err(RecvTimeoutError::Disconnected) => return Err(TimedOut::NoAnswer),
            Err(RecvTimeoutError::Timeout) => {}
        }
        started = started.or_else(|| tid.try_recv().ok());
        // A thread that has not begun has not had a CPU.
        if started.is_some_and(|tid| !cpu_wait::lacks_cpu(tid, begin.elapsed(), timeout)) {
            return Err(TimedOut::NoAnswer);
        }
        if begin.elapsed() >= timeout * MAX_EXTENSION {
            return Err(TimedOut::NoCpu);
        }
        step = EXTENSION_STEP;
    }
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
            priority::raise();
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
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn the_wait_for_work_that_does_not_end_is_bounded() {
        assert_eq!(with_timeout(Duration::from_secs(60), || 7), Ok(7));
        let (sender, never) = channel::<()>();
        assert_eq!(with_timeout(Duration::from_secs(1), move || never.recv().is_ok()), Err(TimedOut::NoAnswer));
        drop(sender);
    }

    #[test]
    fn a_thread_that_is_runnable_gets_more_time() {
        let ended = Arc::new(AtomicBool::new(false));
        let busy = |time: Duration| {
            let ended = Arc::clone(&ended);
            move || {
                let begin = Instant::now();
                while begin.elapsed() < time && !ended.load(Ordering::Relaxed) {}
                7
            }
        };
        assert_eq!(with_timeout(Duration::from_secs(1), busy(Duration::from_millis(1500))), Ok(7));
        let result = with_timeout(Duration::from_millis(20), busy(Duration::MAX));
        // The thread outlives its timeout.
        ended.store(true, Ordering::Relaxed);
        assert_eq!(result, Err(TimedOut::NoCpu));
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
