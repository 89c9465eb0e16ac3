//! A program for sampling that is seldom needed: its loader is started when it is first asked for, and is never waited for.

use std::path::PathBuf;

use super::loader_process::{Loaded, LoaderProcess, ProbeProgram};
use super::lock_wakers::LockWakersProbe;
use super::probe_error::ProbeError;
use super::{TaskIterator, permission_obstacle};

/// A loaded program.
pub trait LoadedProbe: Sized {
    const PROGRAM: ProbeProgram;

    /// From what the loader sends.
    fn from_loaded(loaded: Loaded) -> Result<Self, ProbeError>;
}

impl LoadedProbe for TaskIterator {
    const PROGRAM: ProbeProgram = ProbeProgram::TaskIterator;

    fn from_loaded(loaded: Loaded) -> Result<Self, ProbeError> {
        TaskIterator::attach(loaded.descriptors)
    }
}

impl LoadedProbe for LockWakersProbe {
    const PROGRAM: ProbeProgram = ProbeProgram::LockWakers;

    fn from_loaded(loaded: Loaded) -> Result<Self, ProbeError> {
        LockWakersProbe::new(loaded)
    }
}

/// A load that failed is tried again after this time: the machine may have been short of memory or CPU time.
const RETRY_NS: u64 = 600_000_000_000;

/// A program that is loaded at its first request.
#[derive(Debug)]
pub struct OnDemandProbe<P> {
    /// This program, which is the loader; `None`: the program is not wanted
    program: Option<PathBuf>,
    loader: Option<LoaderProcess>,
    /// Its result was received.
    is_answered: bool,
    probe: Option<P>,
    /// The next load, if it is not loaded by then
    next_load_ns: u64,
}

impl<P> Default for OnDemandProbe<P> {
    fn default() -> OnDemandProbe<P> {
        OnDemandProbe { program: None, loader: None, is_answered: false, probe: None, next_load_ns: 0 }
    }
}

impl<P: LoadedProbe> OnDemandProbe<P> {
    /// `program`: the path of stalltop, run again as the loader.
    pub fn new(program: PathBuf) -> OnDemandProbe<P> {
        OnDemandProbe { program: Some(program), ..OnDemandProbe::default() }
    }

    /// Starts the loader, unless it runs, or the program is loaded, or could not be loaded a while ago.
    pub fn request(&mut self, now_ns: u64) {
        let Some(program) = &self.program else { return };
        if self.probe.is_some() || self.loader.is_some() || now_ns < self.next_load_ns {
            return;
        }
        self.next_load_ns = now_ns.saturating_add(RETRY_NS);
        self.is_answered = false;
        self.loader = LoaderProcess::spawn(program, P::PROGRAM).ok();
    }

    /// The program, once it is loaded. Does not wait.
    pub fn get(&mut self) -> Option<&mut P> {
        if let Some(mut loader) = self.loader.take() {
            if !self.is_answered
                && let Some(result) = loader.try_result()
            {
                self.is_answered = true;
                // Without it the holders of these locks are not known; `doctor` says why.
                match result.and_then(P::from_loaded) {
                    Ok(probe) => self.probe = Some(probe),
                    Err(_) if permission_obstacle().is_some() => self.program = None,
                    Err(_) => {}
                }
            }
            // It is kept until it has exited, so that it becomes no zombie.
            self.loader = (!self.is_answered || !loader.has_exited()).then_some(loader);
        }
        self.probe.as_mut()
    }
}
