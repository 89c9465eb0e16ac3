//! The processes of a trace: which ones have threads that wait for each other, and whether those that are traced still exist.

use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustc_hash::FxHashMap;

use super::TraceError;
use crate::kernel::root::Root;
use crate::kernel::sys::pidfd_open;
use crate::kernel::task::files::TaskFiles;
use crate::kernel::task::{parse_stat, parse_syscall, parse_tgid};
use crate::sample::waits::Syscall;
use crate::sample::wakes::WakeTraceProcess;
use crate::sample::{Absent, Name, Reading};
use crate::units::SmallSort;

/// Threads of a process, or of processes of one name and parent, in futex calls from which it is traced without being named.
pub const MIN_FUTEX_WAITERS: usize = 4;
/// Processes at most that are traced without being named: the tables have room for 4,096 threads.
pub const MAX_PROCESSES: usize = 256;

/// Processes whose threads are in futex calls.
#[derive(Debug, Default)]
pub struct WaitingProcesses {
    /// `MAX_PROCESSES` at most: those with most such threads
    pub pids: Vec<u32>,
    /// Further ones
    pub left_out: usize,
    /// Threads whose system calls this user may not read
    pub hidden_threads: usize,
}

/// Processes with `MIN_FUTEX_WAITERS` threads in futex calls, alone or together with others of their name and parent. Not this one.
pub fn waiting_processes(root: &Root, machine: &Name) -> Result<WaitingProcesses, TraceError> {
    let mut files = TaskFiles::open(root).map_err(TraceError::NoProc)?;
    let (mut pids, mut tids) = (Vec::new(), Vec::new());
    files.list_processes(&mut pids);
    let mut found: Vec<(u32, ParentAndName, usize)> = Vec::new();
    let mut hidden_threads = 0;
    for pid in pids.into_iter().filter(|&pid| pid != std::process::id()) {
        // Kernel threads have no system call, and processes may end meanwhile.
        let Some(siblings) = parent_and_name(&mut files, pid) else { continue };
        if files.list_threads(pid, &mut tids).is_err() {
            continue;
        }
        let mut in_futex = 0;
        for &tid in &tids {
            match is_in_futex_call(&mut files, machine, pid, tid) {
                Ok(is_in) => in_futex += usize::from(is_in),
                Err(why) => hidden_threads += usize::from(is_hidden(&why)),
            }
        }
        if in_futex > 0 {
            found.push((pid, siblings, in_futex));
        }
    }
    let mut waiters: FxHashMap<&ParentAndName, usize> = FxHashMap::default();
    for (_, siblings, in_futex) in &found {
        *waiters.entry(siblings).or_default() += in_futex;
    }
    let mut chosen: Vec<(usize, u32)> = found
        .iter()
        .map(|(pid, siblings, in_futex)| (waiters.get(siblings).copied().unwrap_or(*in_futex), *pid))
        .filter(|&(waiters, _)| waiters >= MIN_FUTEX_WAITERS)
        .collect();
    chosen.small_sort_by_key(|&(waiters, pid)| (std::cmp::Reverse(waiters), pid));
    let left_out = chosen.len().saturating_sub(MAX_PROCESSES);
    Ok(WaitingProcesses {
        pids: chosen.into_iter().take(MAX_PROCESSES).map(|(_, pid)| pid).collect(),
        left_out,
        hidden_threads,
    })
}

/// Whether a file was not read for lack of permission.
pub fn is_hidden(why: &Absent) -> bool {
    matches!(why, Absent::NoPermission | Absent::Hidden)
}

/// Parent and name of a process.
type ParentAndName = (u32, Vec<u8>);

fn parent_and_name(files: &mut TaskFiles, pid: u32) -> Option<ParentAndName> {
    let stat = parse_stat(files.read_once(format_args!("{pid}/stat")).ok()?)?;
    (!stat.kernel_thread).then(|| (stat.ppid, stat.comm.to_vec()))
}

fn is_in_futex_call(files: &mut TaskFiles, machine: &Name, pid: u32, tid: u32) -> Reading<bool> {
    let call = parse_syscall(files.read_once(format_args!("{pid}/task/{tid}/syscall"))?)?;
    Ok(Syscall::from_number(machine.as_bytes(), call).is_some_and(|call| call.name == "futex"))
}

/// The processes that are traced.
#[derive(Debug)]
pub struct TracedProcesses(Vec<OpenProcess>);

#[derive(Debug)]
struct OpenProcess {
    pid: u32,
    name: Name,
    /// A pidfd, which never refers to another process with the same pid; `None`: it has ended
    running: Option<OwnedFd>,
}

impl TracedProcesses {
    /// Opens these processes; of a thread, its process.
    pub fn open(files: &mut TaskFiles, pids: &[u32]) -> Result<TracedProcesses, TraceError> {
        let process_of = |&pid: &u32| {
            let status = files.read_once(format_args!("{pid}/status")).ok();
            status.and_then(parse_tgid).ok_or(TraceError::NoProcess(pid))
        };
        let mut pids = pids.iter().map(process_of).collect::<Result<Vec<u32>, _>>()?;
        pids.sort_unstable();
        pids.dedup();
        let processes = pids.into_iter().map(|pid| open(files, pid)).collect::<Result<_, _>>()?;
        Ok(TracedProcesses(processes))
    }

    /// The pids of those that have not ended.
    pub fn running(&self) -> Vec<u32> {
        self.0.iter().filter(|process| process.running.is_some()).map(|process| process.pid).collect()
    }

    /// Finds those that have ended. Returns whether there are any new ones.
    pub fn find_ended(&mut self) -> bool {
        let running: Vec<&mut OpenProcess> = self.0.iter_mut().filter(|process| process.running.is_some()).collect();
        let mut polled: Vec<PollFd> = running
            .iter()
            .filter_map(|process| Some(PollFd::new(process.running.as_ref()?.as_fd(), PollFlags::POLLIN)))
            .collect();
        if !poll(&mut polled, PollTimeout::ZERO).is_ok_and(|ended| ended > 0) {
            return false;
        }
        let ended: Vec<bool> = polled.iter().map(|one| one.any().unwrap_or(false)).collect();
        for (process, has_ended) in running.into_iter().zip(ended) {
            if has_ended {
                process.running = None;
            }
        }
        true
    }

    pub fn into_sample(self) -> Vec<WakeTraceProcess> {
        let traced = |OpenProcess { pid, name, running }| WakeTraceProcess { pid, name, has_ended: running.is_none() };
        self.0.into_iter().map(traced).collect()
    }
}

/// A process that has not ended: nor is it a zombie, whose pidfd says so at once.
fn open(files: &mut TaskFiles, pid: u32) -> Result<OpenProcess, TraceError> {
    let running = pidfd_open(pid).map_err(|why| match why {
        Errno::ESRCH => TraceError::NoProcess(pid),
        why => TraceError::CannotWatch(pid, why),
    })?;
    let stat = files.read_once(format_args!("{pid}/stat")).ok().and_then(parse_stat);
    let name = stat.map(|stat| Name::from(stat.comm)).ok_or(TraceError::NoProcess(pid))?;
    let mut process = TracedProcesses(vec![OpenProcess { pid, name, running: Some(running) }]);
    process.find_ended();
    process.0.pop().filter(|process| process.running.is_some()).ok_or(TraceError::NoProcess(pid))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn open_all(pids: &[u32]) -> Result<TracedProcesses, TraceError> {
        TracedProcesses::open(&mut TaskFiles::open(&Root::host()).unwrap(), pids)
    }

    #[test]
    fn a_thread_stands_for_its_process_and_each_process_is_traced_once() {
        let tid = std::thread::spawn(|| {
            let tid = nix::unistd::gettid().as_raw().cast_unsigned();
            (tid, open_all(&[tid, std::process::id(), tid]).map(|processes| processes.running()))
        });
        let (tid, running) = tid.join().unwrap();
        assert_ne!(tid, std::process::id());
        assert_eq!(running.unwrap(), [std::process::id()]);
    }

    #[test]
    fn a_process_that_has_ended_is_found_before_its_parent_waits_for_it() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let mut processes = open_all(&[child.id(), std::process::id()]).unwrap();
        assert!(!processes.find_ended());
        child.kill().unwrap();
        while !processes.find_ended() {
            std::thread::yield_now();
        }
        assert_eq!(processes.running(), [std::process::id()]);
        let zombie = open_all(&[child.id()]).map(|_| ()).unwrap_err();
        assert_eq!(zombie.to_string(), format!("there is no process {}", child.id()));
        child.wait().unwrap();
        assert!(open_all(&[child.id()]).is_err());
        assert!(processes.into_sample().iter().any(|process| process.has_ended && process.name == "sleep".into()));
    }
}
