//! Rules about blocked tasks: idle-but-blocked, I/O throttled above the device, hung tasks.

pub mod hung_task;
pub mod idle_but_blocked;
pub mod io_limit;
pub mod io_throttled;
