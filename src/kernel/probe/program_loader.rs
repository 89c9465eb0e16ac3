//! Loads the BPF program into the kernel, in the child process (`loader_process`).

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use aya::programs::{Iter, ProgramError};
use aya::{Btf, BtfError, EbpfError, EbpfLoader};
use thiserror::Error;

/// The object file with the program `tasks`, which writes one row for each thread.
const BPF_OBJECT: &[u8] = aya::include_bytes_aligned!("../../../assets/probe/tasks.bpf.o");
const PROGRAM_NAME: &str = "tasks";

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

/// Loads the program: about 50 ms of CPU, and 30 MB for the kernel's BTF until it returns. The descriptor keeps it loaded.
pub fn load_program() -> Result<OwnedFd, LoadError> {
    let types = Btf::from_sys_fs()?;
    let mut object = EbpfLoader::new().btf(Some(&types)).load(BPF_OBJECT)?;
    let missing = || io::Error::new(io::ErrorKind::NotFound, "no program `tasks` in it");
    let program: &mut Iter = object.program_mut(PROGRAM_NAME).ok_or_else(missing)?.try_into()?;
    program.load("task", &types)?;
    Ok(program.fd()?.as_fd().try_clone_to_owned()?)
}
