//! Which limit of I/O of which cgroup a process has used up.

use crate::findings::groups::applies;
use crate::findings::scene::Scene;
use crate::findings::words::{bytes, figure, name};
use crate::ids::DiskId;
use crate::interval::cgroup::{IoLimitKind, IoLimitSpan, IoLimitUsage};
use crate::interval::disk::DiskSpan;
use crate::sample::cgroup::Controller;
use crate::sample::task::Process;

/// A limit that is used up.
pub struct UsedUp<'a> {
    pub limit: &'a IoLimitSpan,
    pub part: IoLimitUsage,
    used: f64,
}

impl UsedUp<'_> {
    /// `the I/O limit of cgroup /batch (50 reads/s)`
    pub fn words(&self) -> String {
        let most = self.part.limit.0;
        let most = match self.part.kind {
            IoLimitKind::Reads => format!("{} reads/s", figure(most)),
            IoLimitKind::Writes => format!("{} writes/s", figure(most)),
            IoLimitKind::ReadBytes => format!("{}/s of reads", bytes(most)),
            IoLimitKind::WriteBytes => format!("{}/s of writes", bytes(most)),
        };
        format!("the I/O limit of cgroup {} ({most})", name(&self.limit.cgroup.path))
    }

    /// Use ÷ limit.
    pub fn share(&self) -> f64 {
        self.used / self.part.limit.0
    }

    /// How many of its requests the device itself holds on average, by its await: Little's law.
    pub fn in_device(&self, span: &DiskSpan) -> Option<f64> {
        let op = match self.part.kind {
            IoLimitKind::Reads | IoLimitKind::ReadBytes => &span.reads,
            IoLimitKind::Writes | IoLimitKind::WriteBytes => &span.writes,
        };
        let requests = match self.part.kind {
            IoLimitKind::Reads | IoLimitKind::Writes => self.used,
            IoLimitKind::ReadBytes | IoLimitKind::WriteBytes => self.used / (op.request_size_kib? * 1024.0),
        };
        Some(requests * op.r#await?.0 / 1000.0)
    }
}

/// Of the limits that apply to the process on one of these devices, the one most used up; `None` where none is.
pub fn used_up<'a>(scene: &Scene<'a>, process: &Process, disks: &[DiskId]) -> Option<UsedUp<'a>> {
    let parts = known(scene, process, disks)
        .flat_map(|limit| limit.usages.iter().filter_map(move |&part| Some(UsedUp { limit, part, used: part.used?.0 })));
    let used = parts.filter(|part| part.share() >= scene.thresholds.io_limit_used_ratio);
    used.max_by(|a, b| a.share().total_cmp(&b.share()))
}

/// The limits that are known to apply to the process on one of these devices.
pub fn known<'a>(scene: &Scene<'a>, process: &Process, disks: &[DiskId]) -> impl Iterator<Item = &'a IoLimitSpan> {
    let interval: &'a crate::interval::Interval = scene.interval;
    let on_them = interval.io_limits.iter().filter(|limit| disks.contains(&limit.disk));
    on_them.filter(|limit| applies(Controller::Io, &limit.cgroup, process))
}
