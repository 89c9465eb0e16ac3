//! Loads a BPF program into the kernel, in the child process (`loader_process`).

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use aya::maps::Map;
use aya::programs::{BtfTracePoint, Iter, ProgramError};
use aya::{Btf, BtfError, Ebpf, EbpfError, EbpfLoader};
use thiserror::Error;

use super::block::BlockLayout;
use super::loader_process::ProbeProgram;

/// The object file with the program `tasks`, which writes one row for each thread.
const TASKS_OBJECT: &[u8] = aya::include_bytes_aligned!("../../../assets/probe/tasks.bpf.o");
/// The object file with the program `request_completed`, which counts block requests.
const BLOCK_OBJECT: &[u8] = aya::include_bytes_aligned!("../../../assets/probe/block.bpf.o");

/// Why the program could not be loaded.
#[derive(Debug, Error)]
pub enum LoadError {
    /// No /sys/kernel/btf/vmlinux: a kernel before 5.4, or built without CONFIG_DEBUG_INFO_BTF.
    #[error("the kernel does not describe its types (/sys/kernel/btf/vmlinux): {0}")]
    Btf(#[from] BtfError),
    #[error("the probe does not fit this kernel: {0}")]
    Object(#[from] EbpfError),
    /// No CAP_BPF and CAP_PERFMON, lockdown, a kernel before 5.8, or the verifier.
    #[error("the kernel refuses the probe: {}", short_message(.0))]
    Program(#[from] ProgramError),
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
pub fn load_program(wanted: ProbeProgram) -> Result<Vec<OwnedFd>, LoadError> {
    let types = Btf::from_sys_fs()?;
    match wanted {
        ProbeProgram::TaskIterator => load_tasks(&types),
        ProbeProgram::Block(layout) => load_block(&types, layout),
    }
}

fn load_tasks(types: &Btf) -> Result<Vec<OwnedFd>, LoadError> {
    let mut object = EbpfLoader::new().btf(Some(types)).load(TASKS_OBJECT)?;
    let program: &mut Iter = object.program_mut("tasks").ok_or_else(|| missing("tasks"))?.try_into()?;
    program.load("task", types)?;
    Ok(vec![program.fd()?.as_fd().try_clone_to_owned()?])
}

fn load_block(types: &Btf, layout: BlockLayout) -> Result<Vec<OwnedFd>, LoadError> {
    let is_shared = u32::from(layout.is_shared);
    let mut object = EbpfLoader::new()
        .btf(Some(types))
        .map_max_entries("histograms", layout.histograms())
        .override_global("shards", &layout.shards, true)
        .override_global("slots", &layout.slots, true)
        .override_global("is_shared", &is_shared, true)
        .load(BLOCK_OBJECT)?;
    let name = "request_completed";
    let program: &mut BtfTracePoint = object.program_mut(name).ok_or_else(|| missing(name))?.try_into()?;
    program.load("block_rq_complete", types)?;
    let program = program.fd()?.as_fd().try_clone_to_owned()?;
    Ok(vec![program, map_descriptor(&object, "histograms")?, map_descriptor(&object, "devices")?])
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
