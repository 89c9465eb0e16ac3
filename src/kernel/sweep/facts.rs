//! The slow facts of a process: command line, executable, cgroup, owner, io. Read after the fast ones, a few
//! milliseconds' worth a sweep, so that a box with thousands of processes is on the screen at once.

use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use super::Eye;
use super::process::KnownProcess;
use crate::ids::CgroupId;
use crate::kernel::task;
use crate::kernel::task::files::{Kept, ProcessFile};
use crate::sample::{Absent, Name, Reading};

/// A server that writes its state into its command line, or is moved to another cgroup, is read again that often.
const STALE_NS: u64 = 10_000_000_000;

/// Which facts are to be read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Due {
    read_ns: Option<u64>,
    ran: bool,
    again: bool,
    /// Its memory was in doubt: ask for its command line when it has run again.
    cmdline_missing: bool,
}

impl Due {
    /// It ran; `executed` when it seems to be another program now.
    pub fn note_run(&mut self, executed: bool, now_ns: u64) {
        self.ran = true;
        self.again |=
            executed || self.cmdline_missing || self.read_ns.is_some_and(|read| now_ns.saturating_sub(read) > STALE_NS);
    }

    pub fn is_due(&self) -> bool {
        self.read_ns.is_none() || self.again
    }

    /// Due, and somebody will look at it, because it works or is stuck.
    pub fn is_urgent(&self, hot: bool) -> bool {
        self.is_due() && (self.ran || hot)
    }
}

/// Reads them into the process of the next sample.
pub fn read(known: &mut KnownProcess, eye: &mut Eye) {
    known.return_borrowed(eye);
    let pid = known.pid();
    let may_ask_memory = !known.memory_is_in_doubt();
    let old = &known.shared;
    let (cmdline, executable) = if old.kernel_thread {
        (Ok(eye.names.shared(b"")), Err(Absent::NoSuchFile))
    } else {
        let cmdline = if may_ask_memory { cmdline(eye, pid, &old.cmdline) } else { old.cmdline.clone() };
        (cmdline, executable(eye, pid, &old.executable))
    };
    let cgroup = cgroup(eye, pid, &old.cgroup);
    let text = eye.files.process(pid, ProcessFile::Io, &mut Kept::default(), false);
    let io = text.and_then(|text| task::io(text).ok_or(Absent::Malformed));
    let uid = eye.files.owner(pid).unwrap_or(old.uid);
    // Unchanged facts must not make another `Process`. Its io did not move when it did not run.
    let io = if old.io.is_ok() && io.is_ok() { old.io } else { io };
    if cmdline != old.cmdline || executable != old.executable || cgroup != old.cgroup || io != old.io || uid != old.uid {
        let process = Arc::make_mut(&mut known.shared);
        (process.cmdline, process.executable, process.cgroup, process.io) = (cmdline, executable, cgroup, io);
        process.uid = uid;
        // Its executable is what its group goes by.
        known.group = None;
    }
    known.facts = Due { read_ns: Some(eye.now_ns), cmdline_missing: !may_ask_memory, ..Due::default() };
}

fn cmdline(eye: &mut Eye, pid: u32, old: &Reading<Name>) -> Reading<Name> {
    let text = eye.files.once(format_args!("{pid}/cmdline"))?;
    let end = text.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    let text = text.get(..end).unwrap_or_default();
    match old {
        Ok(old) if old.as_bytes() == text => Ok(old.clone()),
        _ if text.is_empty() => Ok(eye.names.shared(b"")),
        // Mostly unlike any other: not worth remembering.
        _ => Ok(Name::from(text)),
    }
}

fn executable(eye: &mut Eye, pid: u32, old: &Reading<Name>) -> Reading<Name> {
    let target = eye.files.link(format_args!("{pid}/exe"))?;
    match old {
        Ok(old) => Ok(eye.names.unless_same(old, target.as_bytes())),
        Err(_) => Ok(eye.names.shared(target.as_bytes())),
    }
}

fn cgroup(eye: &mut Eye, pid: u32, old: &Reading<CgroupId>) -> Reading<CgroupId> {
    let text = eye.files.once(format_args!("{pid}/cgroup"))?;
    let (version, path) = task::cpu_cgroup(text).ok_or(Absent::Unsupported)?;
    let path = match old {
        Ok(old) => eye.names.unless_same(&old.path, path),
        Err(_) => eye.names.shared(path),
    };
    Ok(CgroupId { version, path })
}
