//! Which processes a control group's limit applies to, and how a sentence names them.

use super::scene::Scene;
use super::words::{count, name};
use crate::ids::{CgroupId, CgroupVersion};
use crate::interval::task::ProcessSpan;
use crate::sample::cgroup::Controller;
use crate::sample::task::Process;

/// Whether a cgroup is this one or below it.
pub fn contains(group: &CgroupId, inner: &CgroupId) -> bool {
    let (outer_path, path) = (group.path.as_bytes(), inner.path.as_bytes());
    let below =
        path.strip_prefix(outer_path).is_some_and(|rest| rest.first().is_none_or(|&next| next == b'/') || outer_path == b"/");
    group.version == inner.version && below
}

/// Whether the limit of a group applies to a process. v1's limits of I/O bind the group alone, not those below it.
pub fn applies(controller: Controller, group: &CgroupId, process: &Process) -> bool {
    let Some(own) = process.cgroup_for(controller) else { return false };
    match (controller, group.version) {
        (Controller::Io, CgroupVersion::V1) => own == group,
        _ => contains(group, own),
    }
}

/// The processes to which the limit applies, those with most weight first: `spin (4711), 3 more`.
pub fn members(scene: &Scene, controller: Controller, group: &CgroupId, weight: impl Fn(&ProcessSpan) -> f64) -> String {
    let Ok(tasks) = &scene.interval.newer.tasks else { return "tasks that cannot be read".into() };
    let spans = scene.interval.tasks.as_ref();
    let mut inside: Vec<_> = tasks
        .processes
        .iter()
        .filter(|process| applies(controller, group, process))
        .map(|process| (spans.map_or(0.0, |spans| weight(&spans.of(process))), process))
        .collect();
    inside.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut told: Vec<String> =
        inside.iter().take(3).map(|(_, process)| format!("{} ({})", name(&process.comm), process.pid)).collect();
    match inside.len() {
        0 => return "no task that this user sees".into(),
        all if all > 3 => told.push(format!("{} more", count((all - 3) as f64))),
        _ => {}
    }
    told.join(", ")
}
