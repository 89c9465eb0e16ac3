//! What the readers of limits share: what is read in a sample, and which limits it keeps.

use crate::kernel::cgroup::CgroupReader;
use crate::sample::cpu::Load;
use crate::sample::limits::Limit;
use crate::sample::task::Tasks;

/// A limit is kept in the sample from this share on.
pub const MIN_KEPT_SHARE: f64 = 0.8;

/// What is read in this sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadScope {
    All,
    /// Only what was near its limit at the last reading
    Near,
}

/// What was read before, for the same sample.
#[derive(Clone, Copy, Debug)]
pub struct KnownReadings<'a> {
    pub tasks: &'a Tasks,
    pub load: Option<Load>,
    pub cgroups: &'a CgroupReader,
    /// CLOCK_BOOTTIME
    pub now_ns: u64,
}

/// `used` ÷ `max`.
pub fn used_share(limit: &Limit) -> f64 {
    limit.used as f64 / limit.max.max(1) as f64
}

/// Whether a sample keeps it.
pub fn is_near(limit: &Limit) -> bool {
    used_share(limit) >= MIN_KEPT_SHARE
}
