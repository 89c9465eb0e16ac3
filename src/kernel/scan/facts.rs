//! The slow facts of a process: command line, executable, cgroup, owner, io. Read after the fast ones, a few
//! milliseconds' worth a sweep, so that a box with thousands of processes is on the screen at once.

use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use super::context::ScanContext;
use super::interner::Interner;
use super::process::KnownProcess;
use crate::ids::{CgroupId, CgroupVersion};
use crate::kernel::task;
use crate::kernel::task::files::{ProcessFile, TaskDescriptors};
use crate::sample::cgroup::Memberships;
use crate::sample::task::ProcessFacts;
use crate::sample::{Absent, Name, Reading};

/// A server that writes its state into its command line, or is moved to another cgroup, is read again that often.
const FACTS_TTL_NS: u64 = 10_000_000_000;

/// Which facts are to be read.
#[derive(Clone, Copy, Debug, Default)]
pub struct FactsState {
    read_ns: Option<u64>,
    has_run: bool,
    reread: bool,
    /// Its memory was in doubt: ask for its command line when it has run again.
    cmdline_skipped: bool,
}

impl FactsState {
    /// It ran; `executed` when it seems to be another program now.
    pub fn record_run(&mut self, executed: bool, now_ns: u64) {
        self.has_run = true;
        self.reread |=
            executed || self.cmdline_skipped || self.read_ns.is_some_and(|read| now_ns.saturating_sub(read) > FACTS_TTL_NS);
    }

    pub fn is_due(&self) -> bool {
        self.read_ns.is_none() || self.reread
    }

    /// Due, and somebody will look at it, because it works or is stuck.
    pub fn is_urgent(&self, hot: bool) -> bool {
        self.is_due() && (self.has_run || hot)
    }
}

/// Reads them into the process of the next sample.
pub fn read(known: &mut KnownProcess, eye: &mut ScanContext) {
    let pid = known.pid;
    let may_ask_memory = !known.memory_read_may_hang();
    let (process, old) = (&known.sampled, &*known.sampled.facts);
    let (cmdline, executable) = if process.kernel_thread {
        (Ok(eye.interner.intern(b"")), Err(Absent::NoSuchFile))
    } else {
        let cmdline = if may_ask_memory { read_cmdline(eye, pid, &old.cmdline) } else { old.cmdline.clone() };
        (cmdline, read_executable(eye, pid, &old.executable))
    };
    let (cgroup, memberships) = read_cgroups(eye, pid, &old.cgroup);
    // Once it could be read it is read whenever the process ran, and has not moved when it did not.
    let io = process.io.or_else(|_| {
        let text = eye.files.read_process_file(pid, ProcessFile::Io, &mut TaskDescriptors::default(), false)?;
        task::parse_io(text).ok_or(Absent::Malformed)
    });
    // Its owner was asked for a moment ago when it was found.
    let uid = if known.facts.read_ns.is_none() { process.uid } else { eye.files.owner_uid(pid).unwrap_or(process.uid) };
    eye.owner_uids.insert(uid);
    // Unchanged facts must not make another `Process`.
    let facts = ProcessFacts { cmdline, executable, cgroup, memberships };
    if facts != *old || io != process.io || uid != process.uid {
        let facts = eye.interner.intern_facts(facts);
        let process = Arc::make_mut(&mut known.sampled);
        (process.facts, process.io, process.uid) = (facts, io, uid);
        // Its executable is what its group goes by.
        known.clear_group();
    }
    known.facts = FactsState { read_ns: Some(eye.now_ns), cmdline_skipped: !may_ask_memory, ..FactsState::default() };
}

fn read_cmdline(eye: &mut ScanContext, pid: u32, old: &Reading<Name>) -> Reading<Name> {
    let text = eye.files.read_once(format_args!("{pid}/cmdline"))?;
    let end = text.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    let text = text.get(..end).unwrap_or_default();
    match old {
        Ok(old) if old.as_bytes() == text => Ok(old.clone()),
        _ if text.is_empty() => Ok(eye.interner.intern(b"")),
        _ => Ok(eye.interner.intern_command_line(text)),
    }
}

fn read_executable(eye: &mut ScanContext, pid: u32, old: &Reading<Name>) -> Reading<Name> {
    let target = eye.files.read_link(format_args!("{pid}/exe"))?;
    match old {
        Ok(old) => Ok(eye.interner.reuse_or_intern(old, target.as_bytes())),
        Err(_) => Ok(eye.interner.intern(target.as_bytes())),
    }
}

/// The CPU's group, and the others where they differ from it.
fn read_cgroups(eye: &mut ScanContext, pid: u32, old: &Reading<CgroupId>) -> (Reading<CgroupId>, Option<Arc<Memberships>>) {
    let text = match eye.files.read_once(format_args!("{pid}/cgroup")) {
        Ok(text) => text,
        Err(why) => return (Err(why), None),
    };
    let [cpu, memory, io, cpuset] = task::parse_cgroups(text);
    let id = |eye: &mut Interner, (version, path): (CgroupVersion, &[u8])| match old {
        Ok(old) => CgroupId { version, path: eye.reuse_or_intern(&old.path, path) },
        Err(_) => CgroupId { version, path: eye.intern(path) },
    };
    let names = &mut eye.interner;
    let cgroup = cpu.map(|group| id(names, group)).ok_or(Absent::Unsupported);
    if [memory, io, cpuset].iter().all(|group| *group == cpu) {
        return (cgroup, None);
    }
    let [memory, io, cpuset] = [memory, io, cpuset].map(|group| group.map(|group| id(names, group)));
    let memberships = Memberships { memory, io, cpuset };
    (cgroup, Some(names.intern_memberships(memberships)))
}
