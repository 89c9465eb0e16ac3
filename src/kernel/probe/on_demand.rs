//! The task iterator for sampling: its loader is started when threads first wait for locks inside the kernel, and is never waited for.

use std::path::PathBuf;

use super::TaskIterator;
use super::loader_process::{LoaderProcess, ProbeProgram};

/// The iterator, from the first request on.
#[derive(Debug, Default)]
pub struct OnDemandIterator {
    /// This program, which is the loader; `None`: the iterator is not wanted, or cannot be loaded
    program: Option<PathBuf>,
    loader: Option<LoaderProcess>,
    /// Its result was received.
    is_answered: bool,
    iterator: Option<TaskIterator>,
}

impl OnDemandIterator {
    /// `program` is this one.
    pub fn new(program: PathBuf) -> OnDemandIterator {
        OnDemandIterator { program: Some(program), ..OnDemandIterator::default() }
    }

    /// Starts the loader; only the first call does.
    pub fn request(&mut self) {
        if let Some(program) = self.program.take() {
            self.loader = LoaderProcess::spawn(&program, ProbeProgram::TaskIterator).ok();
        }
    }

    /// The iterator, once it is loaded. Does not wait.
    pub fn get(&mut self) -> Option<&TaskIterator> {
        if let Some(mut loader) = self.loader.take() {
            if !self.is_answered
                && let Some(result) = loader.try_result()
            {
                self.is_answered = true;
                // Without it the holders of these locks are not known; `doctor` says why.
                self.iterator = result.and_then(|loaded| TaskIterator::attach(loaded.descriptors)).ok();
            }
            // It is kept until it has exited, so that it becomes no zombie.
            self.loader = (!self.is_answered || !loader.has_exited()).then_some(loader);
        }
        self.iterator.as_ref()
    }
}
