//! Processes by the container, pod or unit of their cgroup: their CPU time, memory, I/O and microstates, added up.

use rustc_hash::FxHashMap;

use super::Interval;
use super::task::ProcessSpan;
use super::task_activity::{TaskActivity, floor_to_hundredth};
use crate::ids::{CgroupId, CgroupVersion};
use crate::sample::Name;
use crate::sample::cgroup::owner::owner_path;
use crate::sample::task::Process;
use crate::units::SmallSort;
use crate::units::{PerSecond, Ratio};

/// Different names of processes that are counted in a cgroup; those of further ones are not.
const MAX_NAMES: usize = 16;

/// The processes of a container, pod or unit; of a cgroup that belongs to none of them, its own processes.
pub struct CgroupTasks<'a> {
    /// Hierarchy and path; `None`: the cgroup cannot be read
    pub cgroup: Option<(CgroupVersion, &'a [u8])>,
    /// Index of its first process in the newer sample
    pub first_process: usize,
    pub processes: u32,
    /// Σ over its processes; memory that they share counts in each. `id` and `top_thread` are those of the most active one
    pub span: ProcessSpan,
    /// Names of its processes with their number, those with most processes first
    pub names: Vec<(&'a Name, u32)>,
    /// Mean number of threads that ran, waited for a CPU or were blocked
    pub activity: f64,
    max_activity: f64,
}

impl CgroupTasks<'_> {
    pub fn id(&self) -> Option<CgroupId> {
        self.cgroup.map(|(version, path)| CgroupId { version, path: path.into() })
    }
}

/// The cgroup of the container, pod or unit of a process, else its own; `None`: it cannot be read.
pub fn owning_cgroup(process: &Process) -> Option<(CgroupVersion, &[u8])> {
    let cgroup = process.facts.cgroup.as_ref().ok()?;
    Some((cgroup.version, owner_path(cgroup.path.as_bytes())))
}

/// All processes, in the order of the first process of each group.
pub fn cgroup_tasks(interval: &Interval) -> Vec<CgroupTasks<'_>> {
    let (Ok(sample), Some(spans)) = (&interval.newer.tasks, &interval.tasks) else { return Vec::new() };
    let with_spans = spans.processes_with_spans(&sample.processes).enumerate();
    let mut groups = group(interval, with_spans.map(|(index, (process, span))| (index, &**process, span)));
    groups.iter_mut().for_each(|group| group.names.small_sort_by_key(|name| std::cmp::Reverse(name.1)));
    groups
}

/// The groups with active processes, without those that slept the whole time, most active first.
pub fn active_cgroup_tasks(interval: &Interval) -> Vec<CgroupTasks<'_>> {
    let places = interval.tasks.iter().flat_map(|tasks| &tasks.active_indices);
    let active = places.zip(interval.active_processes());
    let mut list = group(interval, active.map(|(&place, (process, span))| (place, &**process, *span)));
    list.small_sort_by(|a, b| {
        let activity = |group: &CgroupTasks| floor_to_hundredth(group.activity);
        activity(b).total_cmp(&activity(a)).then_with(|| a.cgroup.cmp(&b.cgroup))
    });
    list
}

fn group<'a>(
    interval: &'a Interval,
    processes: impl Iterator<Item = (usize, &'a Process, ProcessSpan)>,
) -> Vec<CgroupTasks<'a>> {
    let activity = TaskActivity::new(interval);
    let mut groups: Vec<CgroupTasks> = Vec::new();
    // To find the owner takes longer than to find the cgroup again.
    let mut of_cgroup: FxHashMap<Option<&CgroupId>, usize> = FxHashMap::default();
    let mut of_owner: FxHashMap<Option<(CgroupVersion, &[u8])>, usize> = FxHashMap::default();
    for (index, process, span) in processes {
        let at = *of_cgroup.entry(process.facts.cgroup.as_ref().ok()).or_insert_with(|| {
            let cgroup = owning_cgroup(process);
            *of_owner.entry(cgroup).or_insert_with(|| {
                groups.push(CgroupTasks::new(cgroup, index, span));
                groups.len() - 1
            })
        });
        if let Some(group) = groups.get_mut(at) {
            group.add(process, &span, activity.weight(process, &span.states, span.cpu, span.run_queue_wait));
        }
    }
    groups
}

impl<'a> CgroupTasks<'a> {
    /// A group without processes. `span`: that of its first process.
    fn new(cgroup: Option<(CgroupVersion, &'a [u8])>, first_process: usize, span: ProcessSpan) -> CgroupTasks<'a> {
        let span = ProcessSpan {
            threads: 0,
            cpu: None,
            user: None,
            guest: None,
            children_cpu: None,
            run_queue_wait: None,
            states: super::task::Microstates::default(),
            timeslices: None,
            block_io_delay: None,
            minor_faults: None,
            major_faults: None,
            read_bytes: None,
            write_bytes: None,
            resident_pages: 0,
            resident_pages_growth: None,
            virtual_bytes_growth: None,
            ..span
        };
        CgroupTasks { cgroup, first_process, processes: 0, span, names: Vec::new(), activity: 0.0, max_activity: -1.0 }
    }

    fn add(&mut self, process: &'a Process, span: &ProcessSpan, activity: f64) {
        self.processes += 1;
        self.activity += activity;
        if activity > self.max_activity {
            self.max_activity = activity;
            (self.span.id, self.span.top_thread) = (span.id, span.top_thread);
        }
        let different = self.names.len();
        match self.names.iter_mut().find(|(name, _)| **name == process.comm) {
            Some((_, count)) => *count += 1,
            None if different < MAX_NAMES => self.names.push((&process.comm, 1)),
            None => {}
        }
        let total = &mut self.span;
        total.threads += span.threads;
        total.states.add(&span.states);
        total.resident_pages = total.resident_pages.saturating_add(span.resident_pages);
        for (sum, share) in [
            (&mut total.cpu, span.cpu),
            (&mut total.user, span.user),
            (&mut total.guest, span.guest),
            (&mut total.children_cpu, span.children_cpu),
            (&mut total.run_queue_wait, span.run_queue_wait),
            (&mut total.block_io_delay, span.block_io_delay),
        ] {
            add_known(sum, share, |sum, share: Ratio| Ratio(sum.0 + share.0));
        }
        for (sum, rate) in [
            (&mut total.timeslices, span.timeslices),
            (&mut total.minor_faults, span.minor_faults),
            (&mut total.major_faults, span.major_faults),
            (&mut total.read_bytes, span.read_bytes),
            (&mut total.write_bytes, span.write_bytes),
            (&mut total.resident_pages_growth, span.resident_pages_growth),
            (&mut total.virtual_bytes_growth, span.virtual_bytes_growth),
        ] {
            add_known(sum, rate, |sum, rate: PerSecond| PerSecond(sum.0 + rate.0));
        }
    }
}

/// A sum is known as soon as one part is.
fn add_known<T: Copy>(sum: &mut Option<T>, part: Option<T>, add: impl Fn(T, T) -> T) {
    if let Some(part) = part {
        *sum = Some(sum.map_or(part, |sum| add(sum, part)));
    }
}
