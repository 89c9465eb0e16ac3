//! Rules about blocked tasks: idle-but-blocked, locks of the kernel, of files and of programs, stuck servers, I/O throttled above the device, hung
//! tasks.

pub mod database_lock_queue;
pub mod deadlock;
pub mod file_lock_queue;
pub mod hung_task;
pub mod idle_but_blocked;
pub mod io_limit;
pub mod io_throttled;
pub mod kernel_lock_contention;
mod lock_holder;
pub mod mutex_queue;
pub mod stuck_server;
pub mod traced_process;

/// Mean number of requests in flight from which a device is not idle. docs/metrics.md, "Fixed thresholds".
const MIN_BUSY_REQUESTS: f64 = 0.5;
