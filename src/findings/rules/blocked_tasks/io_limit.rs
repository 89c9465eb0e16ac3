//! Finds the I/O limit of a cgroup that a process has used up.

use crate::findings::cgroups::limit_applies;
use crate::findings::formatting::{bytes, significant_digits};
use crate::findings::rule_context::RuleContext;
use crate::ids::DiskId;
use crate::interval::cgroup::{IoLimitKind, IoLimitSpan, IoLimitUsage};
use crate::interval::disk::DiskSpan;
use crate::sample::cgroup::Controller;
use crate::sample::task::Process;

/// A limit that is used up.
pub struct ExhaustedLimit<'a> {
    pub limit: &'a IoLimitSpan,
    pub usage: IoLimitUsage,
    used: f64,
}

impl ExhaustedLimit<'_> {
    /// `the I/O limit of cgroup /batch (50 reads/s)`, `the I/O limit of container db (docker) (50 reads/s)`
    pub fn describe(&self, context: &RuleContext) -> String {
        let most = self.usage.limit.0;
        let most = match self.usage.kind {
            IoLimitKind::Reads => format!("{} reads/s", significant_digits(most)),
            IoLimitKind::Writes => format!("{} writes/s", significant_digits(most)),
            IoLimitKind::ReadBytes => format!("{}/s of reads", bytes(most)),
            IoLimitKind::WriteBytes => format!("{}/s of writes", bytes(most)),
        };
        format!("the I/O limit of {} ({most})", context.cgroup_name(&self.limit.cgroup))
    }

    /// Use ÷ limit.
    pub fn utilization(&self) -> f64 {
        self.used / self.usage.limit.0
    }

    /// How many of its requests the device itself holds on average, by its await: Little's law.
    pub fn requests_in_device(&self, span: &DiskSpan) -> Option<f64> {
        let op = match self.usage.kind {
            IoLimitKind::Reads | IoLimitKind::ReadBytes => &span.reads,
            IoLimitKind::Writes | IoLimitKind::WriteBytes => &span.writes,
        };
        let requests = match self.usage.kind {
            IoLimitKind::Reads | IoLimitKind::Writes => self.used,
            IoLimitKind::ReadBytes | IoLimitKind::WriteBytes => self.used / (op.request_size_kib? * 1024.0),
        };
        Some(requests * op.r#await?.0 / 1000.0)
    }
}

/// Of the limits that apply to the process on one of these devices, the one most used up; `None` where none is.
pub fn most_exhausted_limit<'a>(context: &RuleContext<'a>, process: &Process, disks: &[DiskId]) -> Option<ExhaustedLimit<'a>> {
    let parts = applicable_limits(context, process, disks).flat_map(|limit| {
        limit.usages.iter().filter_map(move |&part| Some(ExhaustedLimit { limit, usage: part, used: part.used?.0 }))
    });
    let used = parts.filter(|part| part.utilization() >= context.thresholds.io_limit_used_ratio);
    used.max_by(|a, b| a.utilization().total_cmp(&b.utilization()))
}

/// The limits that are known to apply to the process on one of these devices.
pub fn applicable_limits<'a>(
    context: &RuleContext<'a>,
    process: &Process,
    disks: &[DiskId],
) -> impl Iterator<Item = &'a IoLimitSpan> {
    let interval: &'a crate::interval::Interval = context.interval;
    let on_them = interval.io_limits.iter().filter(|limit| disks.contains(&limit.disk));
    on_them.filter(|limit| limit_applies(Controller::Io, &limit.cgroup, process))
}
