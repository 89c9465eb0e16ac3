//! Discovery: finds new and exited processes, by listing /proc or, if the kernel's counters show that few or none started
//! (`new_pids`), without it.

pub mod new_pids;

use std::ops::RangeInclusive;

use nix::unistd::gettid;

use super::process::{KnownProcess, ProcessChange};
use super::{ScanContext, TaskScanner};
use crate::kernel::task::files::is_task_gone;
use crate::sample::Absent;
use crate::units::SmallSort;
use new_pids::{ForkCounters, NewPids};

impl TaskScanner {
    /// Updates `processes`: reads those that changed, adds those that started, removes those that ended.
    pub(super) fn update_processes(&mut self, counters: ForkCounters) {
        let unread = std::mem::take(&mut self.context.unread_pids);
        let new_pids = self.new_pids.update(self.context.now_ns, counters, self.processes.len());
        let exited_pids = match new_pids {
            _ if !self.context.clocks.are_available() => self.walk_proc(),
            NewPids::Anywhere => self.walk_proc(),
            NewPids::Nowhere => self.rescan_known(),
            NewPids::InRange(pids) => {
                let exited_pids = self.rescan_known();
                self.discover_in(pids);
                exited_pids
            }
        };
        unread.into_iter().for_each(|pid| self.discover_in(pid..=pid));
        self.refresh_parents(exited_pids);
    }

    /// Reads the known processes that may have changed and forgets those that ended. Returns the pids of those that ended, also while
    /// nothing has waited for them yet.
    fn rescan_known(&mut self) -> Vec<u32> {
        let Self { processes, context, .. } = self;
        let mut exited_pids = Vec::new();
        processes.retain_mut(|known| {
            let clock_ns = context.clocks.cpu_ns(known.pid);
            let change = known.rescan(context, clock_ns);
            if change == ProcessChange::Gone || (change == ProcessChange::Changed && known.is_zombie()) {
                exited_pids.push(known.pid);
            }
            if change != ProcessChange::Gone {
                known.park_if_idle(context.now_ns);
                return true;
            }
            // Another process may have its pid by now.
            let other = KnownProcess::discover(context, known.pid);
            other.is_ok_and(|other| {
                *known = other;
                known.park_if_idle(context.now_ns);
                true
            })
        });
        exited_pids
    }

    /// Reads the known processes, lists /proc and adds what is new there. Returns the pids of those that ended.
    fn walk_proc(&mut self) -> Vec<u32> {
        let mut exited_pids = self.rescan_known();
        let Self { processes, context, .. } = self;
        let mut listed = Vec::new();
        context.files.list_processes(&mut listed);
        processes.retain(|known| {
            let is_listed = listed.binary_search(&known.pid).is_ok();
            if !is_listed {
                exited_pids.push(known.pid);
            }
            is_listed
        });
        listed.retain(|pid| processes.binary_search_by_key(pid, |known| known.pid).is_err());
        processes.reserve(listed.len());
        // A process that ended between listing and reading is left out.
        processes.extend(listed.into_iter().filter_map(|pid| discover(context, pid)));
        processes.small_sort_by_key(|known| known.pid);
        exited_pids
    }

    /// Adds the processes that started with one of these pids. A pid whose CPU clock cannot be read is that of a thread, or unused.
    fn discover_in(&mut self, pids: RangeInclusive<u32>) {
        // The tid of this thread reads the clock of this process.
        let own_tid = u32::try_from(gettid().as_raw()).unwrap_or(0);
        for pid in pids.filter(|&pid| pid != own_tid) {
            let Err(place) = self.processes.binary_search_by_key(&pid, |known| known.pid) else { continue };
            if self.context.clocks.cpu_ns(pid).is_some()
                && let Some(known) = discover(&mut self.context, pid)
            {
                self.processes.insert(place, known);
            }
        }
    }

    /// The children of processes that ended have another parent, though they may sleep.
    fn refresh_parents(&mut self, mut exited_pids: Vec<u32>) {
        if exited_pids.is_empty() {
            return;
        }
        exited_pids.sort_unstable();
        let orphans = self.processes.iter_mut().filter(|known| exited_pids.binary_search(&known.sampled.ppid).is_ok());
        orphans.for_each(|known| known.refresh_parent(&mut self.context));
    }
}

fn discover(context: &mut ScanContext, pid: u32) -> Option<KnownProcess> {
    match KnownProcess::discover(context, pid) {
        Ok(mut known) => {
            known.park_if_idle(context.now_ns);
            Some(known)
        }
        Err(why) => {
            // It is there, and can be read later.
            if !is_task_gone(why) && why != Absent::NoPermission {
                context.unread_pids.insert(pid);
            }
            None
        }
    }
}
