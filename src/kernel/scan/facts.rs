//! Reads the facts of a process: command line, executable, cgroup, owner, io, shared memory. They are slow to read, so each scan reads them last
//! and for a few milliseconds only: a host with thousands of processes is on the screen at once.

use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use super::context::ScanContext;
use super::interner::Interner;
use super::process::{FactsState, KnownProcess};
use crate::ids::{CgroupId, CgroupVersion};
use crate::kernel::task;
use crate::kernel::task::files::{AfterRead, ProcessFile, TaskDescriptors};
use crate::sample::cgroup::Memberships;
use crate::sample::task::ProcessFacts;
use crate::sample::{Absent, Name, Reading};

/// Reads the facts of a process into what the next sample has of it.
pub fn read(known: &mut KnownProcess, context: &mut ScanContext) {
    let pid = known.pid;
    let may_ask_memory = !known.memory_read_may_hang();
    let (process, old) = (&known.sampled, &*known.sampled.facts);
    let (cmdline, executable) = if process.kernel_thread {
        (Ok(context.interner.intern(b"")), Err(Absent::NoSuchFile))
    } else {
        let cmdline = if may_ask_memory { read_cmdline(context, pid, &old.cmdline) } else { old.cmdline.clone() };
        (cmdline, read_executable(context, pid, &old.executable))
    };
    let (cgroup, memberships) = read_cgroups(context, pid, &old.cgroup);
    if !process.kernel_thread {
        context.network_namespaces.read(&context.files, pid);
    }
    // Once it was read, `rescan` reads it whenever the process ran.
    let io = process.io.or_else(|_| {
        let text = context.files.read_process_file(pid, ProcessFile::Io, &mut TaskDescriptors::default(), AfterRead::Close)?;
        task::parse_io(text).ok_or(Absent::Malformed)
    });
    let shared_pages = if process.kernel_thread { None } else { read_shared_pages(context, pid) };
    // At the first reading `discover` has just read the owner.
    let uid = if known.facts.was_read() { context.files.owner_uid(pid).unwrap_or(process.uid) } else { process.uid };
    context.owner_uids.insert(uid);
    // Unchanged facts must not make a new `Process`: samples share it.
    let facts = ProcessFacts { cmdline, executable, cgroup, memberships };
    if facts != *old || (io, uid, shared_pages) != (process.io, process.uid, process.shared_pages) {
        let facts = context.interner.intern_facts(facts);
        let process = Arc::make_mut(&mut known.sampled);
        (process.facts, process.io, process.uid, process.shared_pages) = (facts, io, uid, shared_pages);
        // The group depends on the executable.
        known.clear_group();
    }
    known.facts = FactsState::Read { read_ns: context.now_ns, cmdline_skipped: !may_ask_memory, ran: false };
}

fn read_cmdline(context: &mut ScanContext, pid: u32, old: &Reading<Name>) -> Reading<Name> {
    let text = context.files.read_command_line(pid)?;
    let end = text.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    let text = text.get(..end).unwrap_or_default();
    match old {
        Ok(old) if old.as_bytes() == text => Ok(old.clone()),
        _ if text.is_empty() => Ok(context.interner.intern(b"")),
        _ => Ok(context.interner.intern_command_line(text)),
    }
}

fn read_executable(context: &mut ScanContext, pid: u32, old: &Reading<Name>) -> Reading<Name> {
    let target = context.files.read_link(format_args!("{pid}/exe"))?;
    match old {
        Ok(old) => Ok(context.interner.reuse_or_intern(old, target.as_bytes())),
        Err(_) => Ok(context.interner.intern(target.as_bytes())),
    }
}

fn read_shared_pages(context: &mut ScanContext, pid: u32) -> Option<u64> {
    task::parse_shared_pages(context.files.read_once(format_args!("{pid}/statm")).ok()?)
}

/// The cgroup of the CPU controller, and those of other controllers if they differ from it.
fn read_cgroups(context: &mut ScanContext, pid: u32, old: &Reading<CgroupId>) -> (Reading<CgroupId>, Option<Arc<Memberships>>) {
    let text = match context.files.read_once(format_args!("{pid}/cgroup")) {
        Ok(text) => text,
        Err(why) => return (Err(why), None),
    };
    let [cpu, memory, io, cpuset, pids] = task::parse_cgroups(text);
    let id = |interner: &mut Interner, (version, path): (CgroupVersion, &[u8])| match old {
        Ok(old) => CgroupId { version, path: interner.reuse_or_intern(&old.path, path) },
        Err(_) => CgroupId { version, path: interner.intern(path) },
    };
    let names = &mut context.interner;
    let cgroup = cpu.map(|group| id(names, group)).ok_or(Absent::Unsupported);
    if [memory, io, cpuset, pids].iter().all(|group| *group == cpu) {
        return (cgroup, None);
    }
    let [memory, io, cpuset, pids] = [memory, io, cpuset, pids].map(|group| group.map(|group| id(names, group)));
    let memberships = Memberships { memory, io, cpuset, pids };
    (cgroup, Some(names.intern_memberships(memberships)))
}
