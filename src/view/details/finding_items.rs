//! The section of a finding's page that leads to other pages: of its subject, and of the threads and processes that it is about.

use std::net::IpAddr;

use super::page::Page;
use super::table::{PageTable, words};
use crate::findings::cgroups::contains;
use crate::findings::{Finding, Kind, Subject};
use crate::ids::{CgroupId, GroupId, ProcessId, TaskId};
use crate::interval::Interval;
use crate::interval::blocked_threads::BlockedThread;
use crate::interval::network::remote_hosts::RemoteHostSpan;
use crate::safe;
use crate::sample::Name;
use crate::sample::cgroup::Controller;
use crate::sample::task::Process;
use crate::state::Item;
use crate::view::safe_text::SafeText;
use crate::view::theme::StyleRole;
use crate::view::wait_location::{self, Detail};

/// Listed threads of each group, and processes.
const MAX_THREADS: usize = 6;
const MAX_PROCESSES: usize = 4;
/// Remote hosts of an interface.
const MAX_REMOTE_HOSTS: usize = 3;
/// Groups of a finding about the host.
const MAX_GROUPS: usize = 3;

/// The section; nothing of an ended finding, whose tasks may be others now.
pub fn section(interval: &Interval, finding: &Finding, page: &mut Page) {
    if finding.until.is_some() {
        return;
    }
    let mut list = PageList {
        interval,
        table: PageTable::new([words("", 16), words("name", 24), words("where", 0)]),
        tasks: Vec::new(),
        processes: Vec::new(),
    };
    match &finding.subject {
        Subject::Host if finding.kind == Kind::IdleButBlocked => {
            let groups = interval.idle_blocked.iter().flat_map(|blocked| &blocked.groups);
            groups.take(MAX_GROUPS).for_each(|group| list.push_group(&group.group));
        }
        Subject::Group { id, .. } => list.push_group(id),
        Subject::Task { id, .. } => list.push_thread("thread", *id),
        Subject::Cpu(id) => {
            list.push("CPU", safe!("cpu{}", id.0), Item::Cpu(*id));
            let core = interval.cpu.iter().flat_map(|cpu| &cpu.cpus).find(|core| core.id == *id);
            if let Some((task, _)) = core.and_then(|core| core.top_thread) {
                list.push_thread("runs there most", task);
            }
        }
        Subject::Disk { id, name } => {
            list.push("device", SafeText::from_name(name), Item::Disk(*id));
            let waiting = interval.blocked_threads.iter().filter(|thread| thread.wait.disk == Some(*id));
            waiting.take(MAX_THREADS).for_each(|thread| list.push_thread("waits for it", thread.wait.task));
        }
        Subject::Nic(id) => {
            list.push("interface", SafeText::from_name(&id.name), Item::Nic(id.clone()));
            list.push_remote_hosts(id.ifindex);
        }
        Subject::Cgroup(id) => {
            list.push("cgroup", SafeText::from_name(&id.path), Item::Cgroup(id.clone()));
            list.push_members(id);
        }
        Subject::RemoteHost(address) => {
            if let Some(known) = finding.subject.remote_host() {
                list.push("remote host", SafeText::from_name(address), Item::RemoteHost(known));
                list.push_connected_process(known);
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
    /// The threads in it, and the processes
    tasks: Vec<TaskId>,
    processes: Vec<ProcessId>,
}

impl PageList<'_> {
    fn push(&mut self, role: &'static str, name: SafeText, item: Item) {
        self.table.push_item([role.into(), name, SafeText::default()], item, StyleRole::Plain);
    }

    /// A process that is not listed yet.
    fn push_process(&mut self, role: &'static str, name: &Name, id: ProcessId) {
        if !self.processes.contains(&id) {
            self.processes.push(id);
            self.push(role, safe!("{}/{}", SafeText::from_name(name), id.pid), Item::Process(id));
        }
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

    /// The remote hosts to which most is sent through an interface, with their processes.
    fn push_remote_hosts(&mut self, ifindex: u32) {
        let rows = self.interval.network.remote_hosts.iter().flat_map(|hosts| &hosts.rows);
        let mut shown: Vec<&RemoteHostSpan> = rows.filter(|host| host.ifindex == Some(ifindex) && !host.local).collect();
        let sent = |host: &RemoteHostSpan| host.kilobytes_out.map_or(0.0, |rate| rate.0);
        shown.sort_by(|a, b| sent(b).total_cmp(&sent(a)));
        for host in shown.into_iter().take(MAX_REMOTE_HOSTS) {
            self.push("remote host", safe!("{}", host.address), Item::RemoteHost(host.address));
            self.push_connected_process(host.address);
        }
    }

    /// The process of the worst connection to a remote host.
    fn push_connected_process(&mut self, address: IpAddr) {
        let rows = self.interval.network.remote_hosts.iter().flat_map(|hosts| &hosts.rows);
        let worst = rows.filter(|host| host.address == address).find_map(|host| host.worst_process.as_ref());
        if let Some((process, name)) = worst {
            self.push_process("connected", name, *process);
        }
    }

    /// The processes of a cgroup and of those below it: those that use most, or wait most for, CPU time, memory and I/O.
    fn push_members(&mut self, id: &CgroupId) {
        let interval = self.interval;
        let (Ok(tasks), Some(spans)) = (&interval.newer.tasks, &interval.tasks) else { return };
        let is_member = |process: &Process| {
            let of = |controller| process.cgroup_for(controller).is_some_and(|own| contains(id, own));
            [Controller::Cpu, Controller::Memory, Controller::Io].into_iter().any(of)
        };
        let awake = |process: &Process| {
            let span = spans.process(process);
            let used = span.cpu.map_or(0.0, |cpu| cpu.0) + span.run_queue_wait.map_or(0.0, |wait| wait.0);
            used + span.states.disk + span.states.lock + span.states.other_blocked
        };
        let members = tasks.processes.iter().filter(|process| is_member(process));
        let mut members: Vec<(f64, &Process)> = members.map(|process| (awake(process), &**process)).collect();
        members.sort_by(|a, b| b.0.total_cmp(&a.0));
        for (_, process) in members.into_iter().take(MAX_PROCESSES) {
            self.push_process("in it", &process.comm, process.id());
        }
    }

    /// What the threads of a group wait behind, its blocked threads, and its processes.
    fn push_group(&mut self, id: &GroupId) {
        let interval = self.interval;
        let mut blocked = interval.idle_blocked.iter().flat_map(|blocked| &blocked.groups);
        if let Some(group) = blocked.find(|group| group.group == *id) {
            if let Some(holder) = &group.lock_holder {
                self.push_thread("holds the lock", holder.thread.wait.task);
                if let Some(end) = holder.chain.last() {
                    self.push_thread("end of the chain", end.thread.wait.task);
                }
            }
            if let Some(holder) = &group.holder {
                self.push_thread("on storage", holder.wait.task);
            }
        }
        let groups = &interval.newer.waits.groups;
        let of_group = |thread: &&BlockedThread| groups.get(usize::from(thread.wait.group)) == Some(id);
        let waiting = interval.blocked_threads.iter().filter(of_group);
        waiting.take(MAX_THREADS).for_each(|thread| self.push_thread("waits", thread.wait.task));
        let Ok(tasks) = &interval.newer.tasks else { return };
        for process in tasks.members(id).take(MAX_PROCESSES) {
            self.push_process("process", &process.comm, process.id());
        }
    }
}
