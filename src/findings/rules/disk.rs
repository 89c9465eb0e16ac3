//! Rules about disks: latency against the baseline of the device, never busy%.

pub mod busy;
pub mod drift;
pub mod evidence;
pub mod latency;
pub mod stalled;
