//! What the thread of a host and the screen share: its state, and its samples. The screen takes the newest state; the thread
//! never waits for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::host_samples::HostSamples;
use crate::state::fleet::host::FleetHost;

/// A host of the fleet.
pub struct HostLink {
    pub name: String,
    host: Mutex<FleetHost>,
    /// `host` has changed since it was taken
    changed: AtomicBool,
    /// Wakes the screen; of all hosts
    notify: Arc<Notify>,
    /// `None` before the first sample
    samples: Mutex<Option<HostSamples>>,
    /// Held while a recording is closed and created
    recording: Mutex<()>,
}

impl HostLink {
    pub fn new(name: String, notify: Arc<Notify>) -> HostLink {
        let host = Mutex::new(FleetHost::new(name.clone()));
        HostLink { name, host, changed: AtomicBool::new(true), notify, samples: Mutex::new(None), recording: Mutex::new(()) }
    }

    /// Changes the state of the host and wakes the screen.
    pub fn update(&self, change: impl FnOnce(&mut FleetHost)) {
        change(&mut self.host.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.store(true, Ordering::SeqCst);
        self.notify.notify_one();
    }

    /// The state, if it has changed since the last call.
    pub fn take_change(&self) -> Option<FleetHost> {
        self.changed.swap(false, Ordering::SeqCst).then(|| self.state())
    }

    pub fn state(&self) -> FleetHost {
        self.host.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// To be held while a recording is closed and created, for which a disk is waited for.
    pub fn lock_recording(&self) -> MutexGuard<'_, ()> {
        self.recording.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no recording is being closed or created, at most for that time.
    pub fn wait_for_recording(&self, timeout: Duration) {
        let end = Instant::now() + timeout;
        while matches!(self.recording.try_lock(), Err(TryLockError::WouldBlock)) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The samples. The lock is held while one is evaluated, or those in memory are encoded; never while a disk or a connection is waited
    /// for.
    pub fn samples(&self) -> MutexGuard<'_, Option<HostSamples>> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The hosts that have changed, by their indices.
pub fn changes(links: &[Arc<HostLink>]) -> Vec<(usize, FleetHost)> {
    links.iter().enumerate().filter_map(|(index, link)| Some((index, link.take_change()?))).collect()
}
