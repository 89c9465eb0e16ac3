//! Rules about disks. They compare latency with the baseline of the device; busy% alone never raises one.

pub mod busy;
pub mod drift;
pub mod evidence;
pub mod latency;
pub mod stalled;
pub mod tail;
