//! What the holder of a lock does, from its stat, wchan and syscall.

use rustc_hash::FxHashMap;

use crate::ids::TaskId;
use crate::kernel::task;
use crate::kernel::task::files::{AfterRead, TaskDescriptors, TaskFiles, ThreadFile};
use crate::sample::task::TaskState;
use crate::sample::waits::BlockedWait;
use crate::sample::{Absent, Name};

/// Descriptors of holders that are read in each sub-sample: a pread takes half the time of open, read and close.
#[derive(Debug, Default)]
pub struct HolderFiles {
    /// By pid and tid
    open: FxHashMap<(u32, u32), TaskDescriptors>,
    /// Those of the current sub-sample
    used: Vec<(u32, u32)>,
}

impl HolderFiles {
    /// As `read_holder_wait`; its files stay open.
    pub fn read_wait(&mut self, files: &mut TaskFiles, pid: u32, tid: u32, group: u16) -> Option<BlockedWait> {
        self.used.push((pid, tid));
        read_wait(files, (pid, tid), group, self.open.entry((pid, tid)).or_default(), AfterRead::KeepOpen)
    }

    /// Whether a thread that has not run since its wait was read is in the same wait: it may have been woken and wait for a CPU, or, since
    /// Linux 6.1, have been frozen where it sleeps.
    pub fn is_still_in(&mut self, files: &mut TaskFiles, wait: &BlockedWait) -> bool {
        let TaskId { pid, tid, start_ticks } = wait.task;
        if matches!(wait.state, TaskState::Running | TaskState::Dead) {
            return true;
        }
        self.used.push((pid, tid));
        let text =
            files.read_thread_file(pid, tid, ThreadFile::Stat, self.open.entry((pid, tid)).or_default(), AfterRead::KeepOpen);
        let stat = text.ok().and_then(task::parse_stat);
        stat.is_some_and(|stat| (stat.state, stat.start_ticks) == (wait.state, start_ticks))
    }

    /// Closes the files of threads that were not read in this sub-sample.
    pub fn finish_sub_sample(&mut self) {
        let Self { open, used } = self;
        open.retain(|holder, _| used.contains(holder));
        used.clear();
    }
}

/// Stat, and of a thread that sleeps wchan and syscall. `None` if it ended, or moved on while it was read. `group`: of the threads that
/// wait for it.
pub fn read_holder_wait(files: &mut TaskFiles, pid: u32, tid: u32, group: u16) -> Option<BlockedWait> {
    read_wait(files, (pid, tid), group, &mut TaskDescriptors::default(), AfterRead::Close)
}

fn read_wait(
    files: &mut TaskFiles,
    (pid, tid): (u32, u32),
    group: u16,
    kept: &mut TaskDescriptors,
    after: AfterRead,
) -> Option<BlockedWait> {
    let text = files.read_thread_file(pid, tid, ThreadFile::Stat, kept, after);
    if text.is_err() {
        // Another thread may have its id.
        kept.close_all();
    }
    let stat = task::parse_stat(text.ok()?)?;
    let (state, start_ticks, comm) = (stat.state, stat.start_ticks, Name::from(stat.comm));
    let (mut wchan, mut syscall, mut has_timeout) = (None, None, false);
    if matches!(state, TaskState::Sleeping | TaskState::Blocked) {
        match files.read_wait_channel(pid, tid, kept, after) {
            Ok(b"0" | b"") => return None,
            Ok(symbol) => wchan = Some(Name::from(symbol)),
            // Its system call says something.
            Err(Absent::NoSuchFile) => {}
            Err(_) => return None,
        }
        let text = files.read_thread_file(pid, tid, ThreadFile::Syscall, kept, after).ok()?;
        has_timeout = task::syscall_has_timeout(text);
        syscall = task::parse_syscall(text).ok();
    }
    Some(BlockedWait { wchan, syscall, has_timeout, ..BlockedWait::new(TaskId { pid, tid, start_ticks }, group, comm, state) })
}

/// Whether two sightings of a thread are of one wait: state, wait channel, system call and its first argument. One that waits now with a
/// timeout and now without one counts as with one: see `LockOwners::count`.
pub fn is_same_wait(a: &BlockedWait, b: &BlockedWait) -> bool {
    let call = |wait: &BlockedWait| wait.syscall.map(|call| (call.number, call.arguments[0]));
    (a.task, a.state, &a.wchan) == (b.task, b.state, &b.wchan) && call(a) == call(b)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::kernel::root::Root;
    use crate::kernel::task::wait_channel::WaitChannelFile;

    #[test]
    fn a_thread_that_was_woken_is_not_in_its_wait_any_more() {
        let (mut files, mut holders) = (TaskFiles::open(&Root::host()).unwrap(), HolderFiles::default());
        if files.wait_channel_file != WaitChannelFile::Wchan {
            return println!("skipped: no wait channels here");
        }
        let ((say, said), (wake, woken)) = (channel(), channel::<()>());
        let thread = std::thread::spawn(move || {
            let link = std::fs::read_link("/proc/thread-self").unwrap();
            say.send(link.file_name().unwrap().to_str().unwrap().parse::<u32>().unwrap()).unwrap();
            woken.recv().unwrap_err();
        });
        let (pid, tid) = (std::process::id(), said.recv().unwrap());
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        let asleep = loop {
            assert!(std::time::Instant::now() < deadline, "no wait channel begins with futex");
            let in_futex = |wait: &BlockedWait| wait.wchan.as_ref().is_some_and(|wchan| wchan.as_bytes().starts_with(b"futex"));
            if let Some(wait) = holders.read_wait(&mut files, pid, tid, 0).filter(in_futex) {
                break wait;
            }
            std::thread::yield_now();
        };
        assert!(holders.is_still_in(&mut files, &asleep));
        drop(wake);
        thread.join().unwrap();
        assert!(!holders.is_still_in(&mut files, &asleep));
    }
}
