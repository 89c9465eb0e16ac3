//! Rules about tasks that are blocked: on storage, behind a lock, above the device, or without end.

pub mod hung_task;
pub mod idle_but_blocked;
pub mod io_limit;
pub mod io_throttled;
