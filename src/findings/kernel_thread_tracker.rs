//! Tracks kernel threads in D. Threads of some drivers are always in D: they are learned by name and left out. The others are
//! hung. Names are learned anew in each session: a name kept over sessions could hide a hang.

use crate::ids::TaskId;
use crate::interval::Interval;
use crate::sample::Name;
use crate::sample::task::{Process, TaskState, Thread};
use crate::units::SmallSort;

/// A name is learned when it has been in D for this long, in at least `LEARNED_SCANS` scans, while nothing else hung.
const LEARNED_SECONDS: f64 = 10.0;

const LEARNED_SCANS: u32 = 5;

/// A thread with at most this many timeslices has been in the same wait since it started. Workqueue workers are excepted: one
/// may have been started for the work in which it hangs.
const MAX_STARTUP_TIMESLICES: u64 = 2;

const KWORKER_PREFIX: &[u8] = b"kworker/";

/// The kernel threads in D. Small, since checkpoints of a replay contain it.
#[derive(Clone, Debug, Default)]
pub struct KernelThreadTracker {
    /// Whether there was an earlier scan
    has_previous: bool,
    permanent: Vec<PermanentDState>,
    hung: Vec<HungKernelThread>,
}

/// A name with a thread that has been in D since it was first seen.
#[derive(Clone, Debug)]
struct PermanentDState {
    name: Name,
    since_ns: u64,
    scans: u32,
    learned: bool,
}

/// A kernel thread in one single wait in D that began while stalltop ran, or that was found while something else hung.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HungKernelThread {
    pub task: TaskId,
    pub name: Name,
    pub channel: Option<Name>,
    /// CLOCK_BOOTTIME since when its timeslices have not moved
    pub since_ns: u64,
    /// It was in D at the first scan: it may always have been
    seen_at_start: bool,
}

impl KernelThreadTracker {
    /// Updates the state with an interval. `other_hang`: a device is stalled or a user thread is hung, so that a kernel thread in
    /// D may have the same cause.
    pub fn update(&mut self, interval: &Interval, other_hang: bool) {
        let (Ok(tasks), Some(spans)) = (&interval.newer.tasks, &interval.tasks) else { return };
        let began = std::mem::replace(&mut self.has_previous, true);
        let (start_ns, now_ns) = (interval.older.at.boottime_ns, interval.at().boottime_ns);
        let blocked = spans.threads.iter().filter(|span| span.state == TaskState::Blocked);
        let threads = blocked.filter_map(|span| tasks.thread(span.id)).map(|(process, thread)| (&**process, thread));
        let in_d: Vec<(&Process, &Thread)> = threads.filter(|(process, _)| process.kernel_thread).collect();
        let sits = |thread: &Thread| thread.last_timeslice_ns.is_none_or(|at| at <= start_ns);

        let mut doubtful = Vec::new();
        self.permanent.retain_mut(|entry| {
            entry.scans = entry.scans.saturating_add(1);
            let seconds = now_ns.saturating_sub(entry.since_ns) as f64 / 1e9;
            entry.learned |= !other_hang && entry.scans >= LEARNED_SCANS && seconds >= LEARNED_SECONDS;
            // A name that is not learned yet may be in D because of the current hang.
            if other_hang && !entry.learned {
                doubtful.push(entry.clone());
            }
            let still = in_d.iter().any(|(_, thread)| sits(thread) && name_without_cpu(&thread.comm) == entry.name.as_bytes());
            still && (entry.learned || !other_hang)
        });
        let mut hanging = Vec::new();
        for (process, thread) in in_d {
            let name = name_without_cpu(&thread.comm);
            if self.permanent.iter().any(|entry| entry.name.as_bytes() == name) {
                continue;
            }
            let task = process.task_id(thread);
            let before = self.hung.iter().find(|before| before.task == task);
            let candidate = doubtful.iter().find(|entry| entry.name.as_bytes() == name);
            let found = !began || candidate.is_some() || before.is_some_and(|before| before.seen_at_start);
            let learned = has_never_run(thread);
            if learned || (sits(thread) && found && !other_hang) {
                self.permanent.push(PermanentDState { name: name.into(), since_ns: start_ns, scans: 1, learned });
                continue;
            }
            let earlier = before.map(|before| before.since_ns).or(candidate.map(|entry| entry.since_ns));
            let since_ns = thread.last_timeslice_ns.or(earlier).unwrap_or(start_ns);
            let (name, channel) = (thread.comm.clone(), thread.wait.wchan.clone().ok());
            hanging.push(HungKernelThread { task, name, channel, since_ns, seen_at_start: found });
        }
        hanging.small_sort_by_key(|thread| (thread.since_ns, thread.task));
        self.hung = hanging;
    }

    /// Kernel threads that hang, the longest first.
    pub fn hung(&self) -> &[HungKernelThread] {
        &self.hung
    }
}

fn has_never_run(thread: &Thread) -> bool {
    !thread.comm.as_bytes().starts_with(KWORKER_PREFIX)
        && thread.schedstat.is_some_and(|sched| sched.timeslices.0 <= MAX_STARTUP_TIMESLICES)
}

/// The common name of threads with the same work: `kworker/3:1+flush-8:16` as `flush-8:16`, `migration/3` as `migration`.
fn name_without_cpu(comm: &Name) -> &[u8] {
    let comm = comm.as_bytes();
    if let Some(worker) = comm.strip_prefix(KWORKER_PREFIX) {
        let work = worker.iter().position(|byte| matches!(byte, b'+' | b'-')).and_then(|at| worker.get(at + 1..));
        return work.unwrap_or(b"kworker");
    }
    let slash = comm.iter().rposition(|&byte| byte == b'/');
    match slash.and_then(|at| Some((comm.get(..at)?, comm.get(at + 1..)?))) {
        Some((name, cpu)) if !cpu.is_empty() && cpu.iter().all(u8::is_ascii_digit) => name,
        _ => comm,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_with_the_same_work_have_one_name() {
        let plain = |comm: &str| String::from_utf8(name_without_cpu(&Name::from(comm)).to_vec()).unwrap();
        assert_eq!(plain("kworker/u8:1+flush-8:16"), "flush-8:16");
        assert_eq!(plain("kworker/1:2H-kblockd"), "kblockd");
        assert_eq!(plain("kworker/0:0"), "kworker");
        assert_eq!(plain("migration/3"), "migration");
        assert_eq!(plain("jbd2/sda1-8"), "jbd2/sda1-8");
        assert_eq!(plain("irq/25-ACPI:Ged"), "irq/25-ACPI:Ged");
        assert_eq!(plain("/"), "/");
    }
}
