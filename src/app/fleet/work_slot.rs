//! One host at a time is decoded and evaluated. The threads wait for their hosts nearly all the time; where a hundred of them wake at once,
//! they would wait for the lock of the allocator thousands of times instead of once for this one.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// The slot, shared by all threads.
#[derive(Clone, Debug, Default)]
pub struct WorkSlot(Arc<Slot>);

#[derive(Debug, Default)]
struct Slot {
    taken: Mutex<bool>,
    freed: Condvar,
}

/// The slot is free again when this is dropped.
#[derive(Debug)]
pub struct TakenSlot(WorkSlot);

impl WorkSlot {
    /// Waits until no other thread has it. The thread that has it must not wait for a host, a disk or the screen.
    pub fn acquire(&self) -> TakenSlot {
        let mut taken = self.0.taken.lock().unwrap_or_else(PoisonError::into_inner);
        while *taken {
            taken = self.0.freed.wait(taken).unwrap_or_else(PoisonError::into_inner);
        }
        *taken = true;
        TakenSlot(self.clone())
    }
}

impl Drop for TakenSlot {
    fn drop(&mut self) {
        *self.0.0.taken.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.0.0.freed.notify_one();
    }
}
