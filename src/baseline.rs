//! What is normal here: the latency of each device, operation and size class when it has one request at a time.

use crate::ids::DiskId;
use crate::interval::disk::Operation;
use crate::units::Millis;

/// Where one operation of one device stands against its baseline in one interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    pub disk: DiskId,
    pub operation: Operation,
    /// What it was judged against
    pub baseline: Millis,
    /// Not learned yet: the class default or the lowest await that 5 intervals reached. Shown with `~`.
    pub provisional: bool,
    /// await ÷ baseline; `None` where nothing completed
    pub multiple: Option<f64>,
    /// Intervals that the baseline was learned from
    pub intervals: u32,
}
