//! Reads the memory of a process (process_vm_readv): a few bytes at an address that its system call names. It takes the same permission
//! as /proc/PID/syscall, which shows the address.

use std::io::{self, IoSliceMut};

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

/// Fills `bytes` from that address. Fails without permission, if the process has ended, and if not all of it is mapped.
pub fn read_memory(pid: u32, address: u64, bytes: &mut [u8]) -> io::Result<()> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
    let base = usize::try_from(address).map_err(|_| invalid())?;
    let pid = Pid::from_raw(i32::try_from(pid).map_err(|_| invalid())?);
    let len = bytes.len();
    let length = process_vm_readv(pid, &mut [IoSliceMut::new(bytes)], &[RemoteIoVec { base, len }])?;
    if length == len { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}
