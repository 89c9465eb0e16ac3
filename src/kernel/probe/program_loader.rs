//! Loads a BPF program into the kernel, in the child process (`loader_process`).

mod object_file;
mod query;
mod task_layout;
pub mod wake_ups;

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use aya::maps::lpm_trie::{Key, LpmTrie};
use aya::maps::{Map, MapError};
use aya::programs::{BtfTracePoint, Iter, Program, ProgramError};
use aya::{Btf, BtfError, Ebpf, EbpfError, EbpfLoader};
use nix::unistd::{SysconfVar, sysconf};
use thiserror::Error;

use self::task_layout::LayoutError;
use super::block::BlockLayout;
use super::file_systems::{self, FileSystemsLayout, PATH_BYTES, SLOTS};
use super::loader_process::{Loaded, ProbeProgram};
use super::lock_contention;
use super::run_queue::{PROCESS_SLOTS, RunQueueLayout};
use crate::kernel::mounts::{Mount, MountTable};
use crate::kernel::root::Root;
use crate::kernel::sys;
use crate::sample::Absent;

/// Why the program could not be loaded.
#[derive(Debug, Error)]
pub enum LoadError {
    /// No /sys/kernel/btf/vmlinux: a kernel before 5.4, or built without CONFIG_DEBUG_INFO_BTF.
    #[error("the kernel does not describe its types (/sys/kernel/btf/vmlinux): {0}")]
    Btf(#[from] BtfError),
    /// Neither with BTF nor without.
    #[error("the kernel does not describe its types (/sys/kernel/btf/vmlinux), and without: {0}")]
    WithoutBtf(#[source] Box<LoadError>),
    #[error("where the kernel keeps what it has of a thread: {0}")]
    Layout(#[from] LayoutError),
    #[error("the probe cannot be decompressed: {0}")]
    Decompress(#[source] io::Error),
    #[error("the probe does not fit this kernel: {0}")]
    Object(#[from] EbpfError),
    /// No CAP_BPF and CAP_PERFMON, lockdown, a kernel before 5.8, or the verifier.
    #[error("the kernel refuses the probe: {}", short_message(.0))]
    Program(#[from] ProgramError),
    #[error("the probe's map cannot be filled: {0}")]
    Map(#[from] MapError),
    #[error("the mount table cannot be read: {0}")]
    Mounts(Absent),
    #[error("the probe cannot be handed over: {0}")]
    Descriptor(#[from] io::Error),
}

/// The text of the error without the verifier's log.
fn short_message(error: &ProgramError) -> String {
    match error {
        ProgramError::LoadError { io_error, .. } => io_error.to_string(),
        other => other.to_string(),
    }
}

/// Loads the program: about 50 ms of CPU, and 30 MB for the kernel's BTF until it returns. The descriptors keep it loaded.
pub fn load_program(wanted: ProbeProgram) -> Result<Loaded, LoadError> {
    let types = Btf::from_sys_fs;
    match wanted {
        ProbeProgram::TaskIterator => load_tasks(&types()?, BlockerField::Used),
        ProbeProgram::Block(layout) => load_block(&types()?, layout).map(Loaded::new),
        ProbeProgram::FileSystems(layout) => load_file_systems(&types()?, layout),
        ProbeProgram::RunQueue(layout) => load_run_queue(&types()?, layout).map(Loaded::new),
        ProbeProgram::Query(layout) => query::load(&types()?, layout).map(Loaded::new),
        ProbeProgram::Wakes => wake_ups::load(&wake_ups::WAKES),
        ProbeProgram::LockWakers => wake_ups::load(&wake_ups::LOCK_WAKERS),
    }
}

/// The iterator as on a kernel on which no thread says itself for which lock it waits (before Linux 6.15): for tests.
pub fn load_tasks_without_blocker() -> Result<Loaded, LoadError> {
    load_tasks(&Btf::from_sys_fs()?, BlockerField::Ignored)
}

/// What the iterator makes of the field in which a thread says for which lock it waits.
#[derive(Clone, Copy, Debug)]
enum BlockerField {
    Used,
    Ignored,
}

fn load_tasks(types: &Btf, blocker: BlockerField) -> Result<Loaded, LoadError> {
    let object = object_file::TASKS.decompress()?;
    let with_maps = |waits: u32, counts: u32| {
        EbpfLoader::new()
            .btf(Some(types))
            .map_max_entries("waits", waits)
            .map_max_entries("counts", counts)
            .override_global("ignores_blocker", &u32::from(matches!(blocker, BlockerField::Ignored)), true)
            .load(&object)
    };
    let whole = with_maps(lock_contention::WAIT_PLACES, lock_contention::COUNTS);
    let has_maps = whole.is_ok();
    // Before Linux 5.11 maps are locked memory, of which a user may have little: the iterator alone needs none.
    let mut object = whole.or_else(|_| with_maps(1, 1))?;
    let program: &mut Iter = object.program_mut("tasks").ok_or_else(|| missing("tasks"))?.try_into()?;
    program.load("task", types)?;
    let mut loaded = Loaded::new(vec![program.fd()?.as_fd().try_clone_to_owned()?]);
    // Where it fails the kernel has no such tracepoints: before Linux 5.19.
    if has_maps && let Ok(descriptors) = load_lock_contention(&mut object, types) {
        loaded.descriptors.extend(descriptors);
    }
    Ok(loaded)
}

/// The descriptors of the programs, then of the maps.
fn load_lock_contention(object: &mut Ebpf, types: &Btf) -> Result<Vec<OwnedFd>, LoadError> {
    let programs = lock_contention::TRACEPOINTS.map(|name| load_tracepoint(object, name, name, types));
    let mut descriptors = programs.into_iter().collect::<Result<Vec<OwnedFd>, _>>()?;
    for map in lock_contention::MAPS {
        descriptors.push(map_descriptor(object, map)?);
    }
    Ok(descriptors)
}

fn load_block(types: &Btf, layout: BlockLayout) -> Result<Vec<OwnedFd>, LoadError> {
    let is_shared = u32::from(layout.is_shared);
    let mut object = EbpfLoader::new()
        .btf(Some(types))
        .map_max_entries("histograms", layout.histograms())
        .override_global("shards", &layout.shards, true)
        .override_global("slots", &layout.slots, true)
        .override_global("is_shared", &is_shared, true)
        .load(&object_file::BLOCK.decompress()?)?;
    let program = load_tracepoint(&mut object, "request_completed", "block_rq_complete", types)?;
    Ok(vec![program, map_descriptor(&object, "histograms")?, map_descriptor(&object, "devices")?])
}

fn load_run_queue(types: &Btf, layout: RunQueueLayout) -> Result<Vec<OwnedFd>, LoadError> {
    let mut object = EbpfLoader::new()
        .btf(Some(types))
        .map_max_entries("cpus", layout.cpus)
        .map_max_entries("processes", PROCESS_SLOTS)
        .override_global("only_process", &layout.pid.unwrap_or(0), true)
        .load(&object_file::RUN_QUEUE.decompress()?)?;
    let name = "sched_switch";
    let link = attach_tracepoint(name, object.program_mut(name).ok_or_else(|| missing(name))?, types)?;
    let maps = ["cpus", "processes", "places"].map(|name| map_descriptor(&object, name));
    let mut descriptors = maps.into_iter().collect::<io::Result<Vec<OwnedFd>>>()?;
    descriptors.push(link);
    Ok(descriptors)
}

/// Loads and attaches the programs. What this kernel lacks or refuses is left out.
fn load_file_systems(types: &Btf, layout: FileSystemsLayout) -> Result<Loaded, LoadError> {
    let page_bytes = sysconf(SysconfVar::PAGE_SIZE).ok().flatten().and_then(|bytes| u32::try_from(bytes).ok());
    let filter = layout.filter;
    let mut mounts = MountTable::default();
    mounts.refresh(&Root::host()).map_err(LoadError::Mounts)?;
    let root = file_systems::root_mount(mounts.mounts());
    let mut object = EbpfLoader::new()
        .btf(Some(types))
        // `threads`, which only the programs use
        .allow_unsupported_maps()
        .map_max_entries("counts", layout.counts())
        .override_global("shards", &layout.shards, true)
        .override_global("slots", &SLOTS, true)
        .override_global("is_shared", &u32::from(layout.is_shared), true)
        .override_global("root_device", &root.map_or(0, |root| root.device), true)
        .override_global("root_is_whole", &root.map_or(0, |root| u32::from(root.is_whole)), true)
        .override_global("page_bytes", &page_bytes.unwrap_or(4096), true)
        .override_global("only_process", &filter.pid.unwrap_or(0), true)
        .override_global("only_one_user", &u32::from(filter.uid.is_some()), true)
        .override_global("only_user", &filter.uid.unwrap_or(0), true)
        .override_global("argument_layouts", &file_systems::argument_layouts(), true)
        .load(&object_file::FILE_SYSTEMS.decompress()?)?;
    let left_out = add_mount_points(&mut object, mounts.mounts())?;
    let mut loaded = Loaded::new(vec![map_descriptor(&object, "counts")?, map_descriptor(&object, "places")?]);
    loaded.refused.extend(left_out.map(|why| ("mount_points".to_owned(), why)));
    for (name, program) in object.programs_mut() {
        match attach_tracepoint(name, program, types) {
            Ok(link) => loaded.descriptors.push(link),
            // Without these nothing is counted.
            Err(why) if ["sys_enter", "sys_exit"].contains(&name) => return Err(why),
            Err(LoadError::Program(ProgramError::Btf(BtfError::UnknownBtfTypeName { .. }))) => {
                loaded.missing.push(name.to_owned());
            }
            Err(why) => loaded.refused.push((name.to_owned(), why.to_string())),
        }
    }
    // One tracepoint by its names in different kernels
    for (now, before) in [("io_uring_submit_req", "io_uring_submit_sqe"), ("writeback_dirty_folio", "writeback_dirty_page")] {
        let is_missing = |name: &str| loaded.missing.iter().any(|missing| missing == name);
        if !is_missing(now) || !is_missing(before) {
            loaded.missing.retain(|missing| missing != now && missing != before);
        }
    }
    Ok(loaded)
}

/// Which file system a path is on. Those that are mounted later count paths below the mount point above them, as do those that are left
/// out: how many, and why.
fn add_mount_points(object: &mut Ebpf, mounts: &[Mount]) -> Result<Option<String>, LoadError> {
    let name = "mount_points";
    let mut trie = LpmTrie::try_from(object.map_mut(name).ok_or_else(|| missing(name))?)?;
    let points = file_systems::mount_points(mounts);
    let (all, mut left_out) = (points.points.len() + points.too_long, points.too_long);
    let mut first = (left_out > 0).then(|| format!("paths of more than {} bytes", PATH_BYTES - 1));
    for (path, bits, device) in points.points {
        if let Err(why) = trie.insert(&Key::<[u8; PATH_BYTES]>::new(bits, path), device, 0) {
            left_out += 1;
            first.get_or_insert(why.to_string());
        }
    }
    Ok(first.map(|why| format!("{left_out} of {all} mount points: {why}")))
}

/// Loads a program for the tracepoint of its name and attaches it: the link.
fn attach_tracepoint(name: &str, program: &mut Program, types: &Btf) -> Result<OwnedFd, LoadError> {
    let program: &mut BtfTracePoint = program.try_into()?;
    program.load(name, types)?;
    Ok(sys::bpf_raw_tracepoint_open(program.fd()?.as_fd(), None).map_err(io::Error::from)?)
}

fn load_tracepoint(object: &mut Ebpf, name: &str, tracepoint: &str, types: &Btf) -> Result<OwnedFd, LoadError> {
    let program: &mut BtfTracePoint = object.program_mut(name).ok_or_else(|| missing(name))?.try_into()?;
    program.load(tracepoint, types)?;
    Ok(program.fd()?.as_fd().try_clone_to_owned()?)
}

fn map_descriptor(object: &Ebpf, name: &str) -> io::Result<OwnedFd> {
    match object.map(name) {
        Some(Map::Array(map)) => map.fd().as_fd().try_clone_to_owned(),
        _ => Err(missing(name)),
    }
}

fn missing(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("no `{name}` in it"))
}
