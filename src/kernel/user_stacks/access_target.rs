//! What the reader thread accesses now, and may not answer.

use std::sync::{Arc, Mutex, PoisonError};

use crate::kernel::mapped_files::AccessTarget;

/// Shared with the sampler.
#[derive(Clone, Debug, Default)]
pub struct AccessedTarget(Arc<Mutex<Option<AccessTarget>>>);

impl AccessedTarget {
    pub fn set(&self, target: Option<AccessTarget>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = target;
    }

    /// Whether the reader thread, which shares this, still runs.
    pub fn is_of_running_thread(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    pub fn get(&self) -> Option<AccessTarget> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
