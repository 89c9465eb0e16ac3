//! What a group of threads is called: the name of its process, or of its siblings.

use crate::ids::GroupId;
use crate::sample::{Name, Sample};

/// Name of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupLabel {
    pub name: Name,
    pub processes: u32,
    /// Of a group of one process
    pub pid: Option<u32>,
}

/// Name and number of processes of a group. A group that has ended has the name under which it was last seen, in the older sample or by the
/// sub-samples.
pub fn group_label(id: &GroupId, older: &Sample, newer: &Sample) -> GroupLabel {
    let seen = [newer, older].into_iter().find_map(|sample| {
        let mut members = sample.tasks.as_ref().ok()?.members(id);
        let first = members.next()?;
        let processes = u32::try_from(members.count()).unwrap_or(u32::MAX).saturating_add(1);
        Some(GroupLabel { name: first.comm.clone(), processes, pid: (processes == 1).then_some(first.pid) })
    });
    seen.unwrap_or_else(|| {
        let index = newer.waits.groups.iter().position(|group| group == id);
        let blocked = newer.waits.blocked.iter().find(|thread| index == Some(usize::from(thread.group)));
        let name = blocked.map(|thread| thread.comm.clone()).unwrap_or_default();
        GroupLabel { name, processes: 0, pid: blocked.map(|thread| thread.task.pid) }
    })
}
