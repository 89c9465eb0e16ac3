//! The section of a finding's page that leads to other pages: of its subject, and of the threads and processes that it is about.

use super::Page;
use super::table::{PageTable, words};
use crate::findings::{Finding, Kind, Subject};
use crate::ids::{GroupId, TaskId};
use crate::interval::Interval;
use crate::interval::blocked_threads::BlockedThread;
use crate::safe;
use crate::state::Item;
use crate::view::safe_text::SafeText;
use crate::view::theme::StyleRole;
use crate::view::wait_location::{self, Detail};

/// Listed threads of each group, and processes.
const MAX_THREADS: usize = 6;
const MAX_PROCESSES: usize = 4;
/// Groups of a finding about the host.
const MAX_GROUPS: usize = 3;

/// The section; nothing of an ended finding, whose tasks may be others now.
pub fn section(interval: &Interval, finding: &Finding, page: &mut Page) {
    if finding.until.is_some() {
        return;
    }
    let mut list =
        PageList { interval, table: PageTable::new([words("", 16), words("name", 24), words("where", 0)]), tasks: Vec::new() };
    match &finding.subject {
        Subject::Host if finding.kind == Kind::IdleButBlocked => {
            let groups = interval.idle_blocked.iter().flat_map(|blocked| &blocked.groups);
            groups.take(MAX_GROUPS).for_each(|group| list.push_group(&group.group));
        }
        Subject::Group { id, .. } => list.push_group(id),
        Subject::Task { id, .. } => list.push_thread("thread", *id),
        Subject::Cpu(id) => list.push("CPU", safe!("cpu{}", id.0), Item::Cpu(*id)),
        Subject::Disk { id, name } => {
            list.push("device", SafeText::from_name(name), Item::Disk(*id));
            let waiting = interval.blocked_threads.iter().filter(|thread| thread.disk == Some(*id));
            waiting.take(MAX_THREADS).for_each(|thread| list.push_thread("waits for it", thread.task));
        }
        Subject::Nic(id) => list.push("interface", SafeText::from_name(&id.name), Item::Nic(id.clone())),
        Subject::Cgroup(id) => list.push("cgroup", SafeText::from_name(&id.path), Item::Cgroup(id.clone())),
        Subject::RemoteHost(address) => {
            if let Some(known) = finding.subject.remote_host() {
                list.push("remote host", SafeText::from_name(address), Item::RemoteHost(known));
            }
        }
        _ => {}
    }
    if list.table.height() > 1 {
        page.heading("PAGES (↓ selects, Enter opens)");
        page.table(list.table);
    }
}

struct PageList<'a> {
    interval: &'a Interval,
    table: PageTable,
    /// The threads in it
    tasks: Vec<TaskId>,
}

impl PageList<'_> {
    fn push(&mut self, role: &'static str, name: SafeText, item: Item) {
        self.table.push_item([role.into(), name, SafeText::default()], item, StyleRole::Plain);
    }

    /// A thread that exists and is not listed yet.
    fn push_thread(&mut self, role: &'static str, task: TaskId) {
        let sample = &self.interval.newer;
        let exists = sample.tasks.as_ref().is_ok_and(|tasks| tasks.thread(task).is_some());
        if !exists || self.tasks.contains(&task) {
            return;
        }
        self.tasks.push(task);
        let name = wait_location::process_thread_and_tid(sample, task);
        let place = wait_location::thread_location(self.interval, task, Detail::Full);
        self.table.push_item([role.into(), name, place], Item::Thread(task), StyleRole::Plain);
    }

    /// What the threads of a group wait behind, its blocked threads, and its processes.
    fn push_group(&mut self, id: &GroupId) {
        let interval = self.interval;
        let mut blocked = interval.idle_blocked.iter().flat_map(|blocked| &blocked.groups);
        if let Some(group) = blocked.find(|group| group.group == *id) {
            if let Some(holder) = &group.lock_holder {
                self.push_thread("holds the lock", holder.thread.task);
                if let Some(end) = holder.chain.last() {
                    self.push_thread("end of the chain", end.thread.task);
                }
            }
            if let Some(holder) = &group.holder {
                self.push_thread("on storage", holder.task);
            }
        }
        let groups = &interval.newer.waits.groups;
        let of_group = |thread: &&BlockedThread| groups.get(usize::from(thread.group)) == Some(id);
        let waiting = interval.blocked_threads.iter().filter(of_group);
        waiting.take(MAX_THREADS).for_each(|thread| self.push_thread("waits", thread.task));
        let Ok(tasks) = &interval.newer.tasks else { return };
        for process in tasks.members(id).take(MAX_PROCESSES) {
            self.push("process", safe!("{}/{}", SafeText::from_name(&process.comm), process.pid), Item::Process(process.id()));
        }
    }
}
