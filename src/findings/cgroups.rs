//! The processes to which the limit of a cgroup applies, and their names for a sentence.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::formatting::{count, lossy_name};
use super::rule_context::RuleContext;
use crate::ids::{CgroupId, CgroupVersion, GroupId};
use crate::interval::Interval;
use crate::interval::task::ProcessSpan;
use crate::sample::cgroup::Controller;
use crate::sample::task::Process;
use crate::units::SmallSort;

/// Whether `inner` is this cgroup or one below it.
pub fn contains(group: &CgroupId, inner: &CgroupId) -> bool {
    let (outer_path, path) = (group.path.as_bytes(), inner.path.as_bytes());
    let below =
        path.strip_prefix(outer_path).is_some_and(|rest| rest.first().is_none_or(|&next| next == b'/') || outer_path == b"/");
    group.version == inner.version && below
}

/// Whether the limit of a group applies to a process. I/O limits of v1 do not apply to child groups.
pub fn limit_applies(controller: Controller, group: &CgroupId, process: &Process) -> bool {
    let Some(own) = process.cgroup_for(controller) else { return false };
    match (controller, group.version) {
        (Controller::Io, CgroupVersion::V1) => own == group,
        _ => contains(group, own),
    }
}

/// Values of type `T` by cgroup, to look up those of a process's cgroup and of its ancestors.
pub struct CgroupAncestors<'a, T>(FxHashMap<(CgroupVersion, &'a [u8]), T>);

impl<'a, T> CgroupAncestors<'a, T> {
    /// One value for each of these cgroups.
    pub fn from_cgroups(groups: impl Iterator<Item = (&'a CgroupId, T)>) -> CgroupAncestors<'a, T> {
        CgroupAncestors(groups.map(|(id, of_it)| ((id.version, id.path.as_bytes()), of_it)).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The values of this cgroup and of its ancestors.
    pub fn ancestors_of<'s>(&'s self, inner: &'s CgroupId) -> impl Iterator<Item = &'s T> {
        inner.path_with_ancestors().filter_map(move |path| self.0.get(&(inner.version, path)))
    }
}

/// The processes in each of some cgroups, found in one pass over all processes. For limits of CPU or memory, which also apply to
/// child groups.
pub struct CgroupMembers<'a>(FxHashMap<(CgroupVersion, &'a [u8]), Vec<&'a Process>>);

impl<'a> CgroupMembers<'a> {
    /// The members of these groups. `None` if tasks cannot be read. If all processes of a group have exited, those of the older
    /// sample.
    pub fn for_cgroups(
        context: &RuleContext<'a>,
        controller: Controller,
        groups: impl Iterator<Item = &'a CgroupId>,
    ) -> Option<CgroupMembers<'a>> {
        let interval: &'a Interval = context.interval;
        let now = interval.newer.tasks.as_ref().ok()?;
        let mut members = CgroupMembers(groups.map(|id| ((id.version, id.path.as_bytes()), Vec::new())).collect());
        members.assign(controller, &now.processes);
        let deserted = members.0.iter().filter(|(_, inside)| inside.is_empty()).map(|(&group, _)| (group, Vec::new()));
        let mut gone = CgroupMembers(deserted.collect());
        gone.assign(controller, interval.older.tasks.as_ref().map_or(&[], |tasks| tasks.processes.as_slice()));
        members.0.extend(gone.0);
        Some(members)
    }

    fn assign(&mut self, controller: Controller, processes: &'a [Arc<Process>]) {
        // Usually there are no groups, and the processes need not be examined.
        for process in if self.0.is_empty() { &[][..] } else { processes } {
            let Some(own) = process.cgroup_for(controller) else { continue };
            for path in own.path_with_ancestors() {
                if let Some(inside) = self.0.get_mut(&(own.version, path)) {
                    inside.push(process);
                }
            }
        }
    }

    /// Those in a group or below it, sorted by pid.
    pub fn members_of<'s>(&'s self, group: &'s CgroupId) -> &'s [&'a Process] {
        self.0.get(&(group.version, group.path.as_bytes())).map_or(&[], Vec::as_slice)
    }
}

/// The processes to which a group's limit applies, those with most weight first; siblings of one executable are counted:
/// `spin (4711), worker (6 processes), 3 more`.
pub fn describe_members(
    context: &RuleContext,
    members: Option<&CgroupMembers>,
    group: &CgroupId,
    weight: impl Fn(&ProcessSpan) -> f64,
) -> String {
    let Some(members) = members else { return "tasks that cannot be read".into() };
    let spans = context.interval.tasks.as_ref();
    let weigh = |process: &Process| spans.map_or(0.0, |spans| weight(&spans.process(process)));
    let inside = members.members_of(group);
    let named = name_siblings(inside.iter().map(|&process| (process, weigh(process))));
    let mut listed: Vec<String> = named.iter().take(3).map(|siblings| siblings.label()).collect();
    let unlisted: usize = named.iter().skip(3).map(|siblings| siblings.processes).sum();
    match (inside.len(), unlisted) {
        (0, _) => return "no task visible to this user".into(),
        (_, 0) => {}
        (_, more) => listed.push(format!("{} more", count(more as f64))),
    }
    listed.join(", ")
}

/// Sibling processes of one executable.
pub struct Siblings<'a> {
    first: &'a Process,
    processes: usize,
    /// The sum of the weights
    pub weight: f64,
}

impl Siblings<'_> {
    /// `spin (4711)` or `worker (6 processes)`
    pub fn label(&self) -> String {
        match self.processes {
            1 => format!("{} ({})", lossy_name(&self.first.comm), self.first.pid),
            many => format!("{} ({many} processes)", lossy_name(&self.first.comm)),
        }
    }
}

/// Adds up the weights of siblings; those with most weight come first.
pub fn name_siblings<'a>(processes: impl Iterator<Item = (&'a Process, f64)>) -> Vec<Siblings<'a>> {
    let mut groups: BTreeMap<GroupId, Siblings<'a>> = BTreeMap::new();
    for (process, weight) in processes {
        let siblings = groups.entry(process.group()).or_insert(Siblings { first: process, processes: 0, weight: 0.0 });
        siblings.processes += 1;
        siblings.weight += weight;
    }
    let mut list: Vec<Siblings<'a>> = groups.into_values().collect();
    list.small_sort_by(|a, b| b.weight.total_cmp(&a.weight).then(a.first.pid.cmp(&b.first.pid)));
    list
}
