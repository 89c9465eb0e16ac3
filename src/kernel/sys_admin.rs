//! CAP_SYS_ADMIN, which stays permitted and is effective only for the moment in which it is needed.

use crate::kernel::root::absent_from_errno;
use crate::kernel::sys::{CapabilitySets, capget, capset};
use crate::sample::{Absent, Reading};

const CAP_SYS_ADMIN: u64 = 1 << 21;

/// `NoPermission` unless this thread may make it effective.
pub fn check_permitted() -> Reading<()> {
    let held = capget().map_err(absent_from_errno)?;
    if held.permitted & CAP_SYS_ADMIN == 0 { Err(Absent::NoPermission) } else { Ok(()) }
}

/// Runs `work` with the capability. It applies to the calling thread alone.
pub fn with_sys_admin<T>(work: impl FnOnce() -> T) -> Reading<T> {
    let held = capget().map_err(absent_from_errno)?;
    capset(CapabilitySets { effective: held.effective | CAP_SYS_ADMIN, ..held }).map_err(absent_from_errno)?;
    let result = work();
    capset(held).map_err(absent_from_errno)?;
    Ok(result)
}
