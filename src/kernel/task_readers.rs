//! What is read of tasks after the scan, from other files and from netlink, most of it in turns: names of users, context
//! switches, limits, names of containers, exits, delays.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use nix::time::ClockId;

use super::cgroup::CgroupReader;
use super::clock::clock_ns;
use super::limits::KnownReadings;
use super::root::Root;
use super::scan::TaskScanner;
use super::{containers, context_switches, delays, exits, limits, users};
use crate::sample::task::Tasks;
use crate::sample::{Name, Sample};

/// A reader per subject, with what it last read.
#[derive(Debug)]
pub struct TaskReaders {
    users: UserTable,
    /// `None` unless enabled
    context_switches: Option<context_switches::ContextSwitchReader>,
    limits: limits::LimitReader,
    containers: containers::ContainerReader,
    pub exits: exits::ExitReader,
    delays: delays::DelayReader,
}

/// The names of all users that had a process.
#[derive(Debug, Default)]
struct UserTable {
    lookup: users::UserNames,
    names: Arc<BTreeMap<u32, Name>>,
}

impl TaskReaders {
    pub fn new(root: &Root) -> TaskReaders {
        TaskReaders {
            users: UserTable::default(),
            context_switches: None,
            limits: limits::LimitReader::default(),
            containers: containers::ContainerReader::default(),
            exits: exits::ExitReader::new(root),
            delays: delays::DelayReader::default(),
        }
    }

    /// Reads context switches from now on: one file for each thread that ran.
    pub fn enable_context_switches(&mut self) {
        self.context_switches.get_or_insert_default();
    }

    /// What belongs to the tasks of a scan: the names of their users, their context switches.
    pub fn complete(&mut self, root: &Root, scanner: &mut TaskScanner, tasks: &mut Tasks, sample: &mut Sample) {
        tasks.users = self.users.names(root, scanner.owner_uids());
        if let Some(reader) = &mut self.context_switches {
            sample.context_switches = Ok(reader.sample(scanner.files(), tasks));
        }
    }

    /// Reads the rest, and moves `tasks` into the sample.
    pub fn sample(
        &mut self,
        root: &Root,
        scanner: &mut TaskScanner,
        cgroups: &CgroupReader,
        tasks: Tasks,
        sample: &mut Sample,
    ) {
        let load = sample.load.as_ref().ok().copied();
        let known = KnownReadings { tasks: &tasks, load, cgroups, now_ns: sample.at.boottime_ns };
        sample.limits = Ok(self.limits.sample(root, scanner.files(), known));
        sample.tasks = Ok(tasks);
        sample.container_names = self.containers.sample(root, sample, Instant::now());
        sample.exits = self.exits.sample(sample.at.boottime_ns, scanner);
        sample.delays = self.delays.sample(root, scanner.processes(), clock_ns(ClockId::CLOCK_BOOTTIME));
    }
}

impl UserTable {
    /// The same allocation until a name is added.
    fn names(&mut self, root: &Root, uids: &BTreeSet<u32>) -> Arc<BTreeMap<u32, Name>> {
        let known = &self.names;
        let mut new = Vec::new();
        for &uid in uids {
            if let Some(name) = self.lookup.name(root, uid).filter(|name| known.get(&uid) != Some(name)) {
                new.push((uid, name));
            }
        }
        if !new.is_empty() {
            Arc::make_mut(&mut self.names).extend(new);
        }
        Arc::clone(&self.names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc_tree::ProcTree;

    #[test]
    fn names_of_users_are_shared_until_one_is_added() {
        let tree = ProcTree::with([("etc/passwd", "root:x:0:0::/:/bin/sh\nweb:x:33:33::/:/bin/sh\n")]);
        let (root, mut table) = (tree.root(), UserTable::default());
        let first = table.names(&root, &BTreeSet::from([0]));
        assert!(Arc::ptr_eq(&first, &table.names(&root, &BTreeSet::from([0, 9999]))), "9999 has no name");
        let second = table.names(&root, &BTreeSet::from([0, 33]));
        assert_eq!((first.len(), second.get(&33)), (1, Some(&Name::from("web"))));
        assert!(Arc::ptr_eq(&second, &table.names(&root, &BTreeSet::from([33]))), "a name stays");
    }
}
