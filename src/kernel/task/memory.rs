//! Reads the memory of a process (process_vm_readv). It needs the permission to trace the process: the same user, or
//! CAP_SYS_PTRACE, as /proc/PID/syscall does, which shows the addresses.

use std::io::{self, IoSliceMut};

use nix::errno::Errno;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

use super::read_watch::{TaskRead, watched};
use crate::sample::task::TaskState;
use crate::sample::waits::WaitClass;

/// Fills the beginning of `bytes` from that address on, as far as it is mapped; returns how many. Fails without permission, if
/// the process has ended, and if nothing is mapped there.
pub fn read_mapped(pid: u32, address: u64, bytes: &mut [u8]) -> Result<usize, Errno> {
    let base = usize::try_from(address).map_err(|_| Errno::EFAULT)?;
    let pid = Pid::from_raw(i32::try_from(pid).map_err(|_| Errno::ESRCH)?);
    let len = bytes.len();
    read_vectors(pid, &mut [IoSliceMut::new(bytes)], &[RemoteIoVec { base, len }])
}

/// `ETIMEDOUT` where such a read did not return before.
fn read_vectors(pid: Pid, local: &mut [IoSliceMut<'_>], remote: &[RemoteIoVec]) -> Result<usize, Errno> {
    let number = u32::try_from(pid.as_raw()).map_err(|_| Errno::ESRCH)?;
    watched(number, TaskRead::Memory, || process_vm_readv(pid, local, remote)).unwrap_or(Err(Errno::ETIMEDOUT))
}

/// Whether this user may read the memory of a process: tries it at an address that is never mapped. Fails if it has ended, has no
/// memory (a kernel thread), or if the kernel cannot read that of others.
pub fn is_readable(pid: u32) -> Result<bool, Errno> {
    match read_mapped(pid, 0, &mut [0]) {
        Ok(_) | Err(Errno::EFAULT) => Ok(true),
        Err(Errno::EPERM | Errno::EACCES) => Ok(false),
        Err(why) => Err(why),
    }
}

/// Whether a thread may hang with the lock of its address space (mmap_lock), for which a reader of its memory would wait: it is in D in a
/// page fault, or in a wait that is not known to hold it for a short time. `class` is that of its wait; `None` if it is unknown.
pub fn may_hold_memory_lock(state: TaskState, class: Option<WaitClass>, is_in_page_fault: bool) -> bool {
    let is_clear = matches!(class, Some(WaitClass::Disk | WaitClass::Memory | WaitClass::Vfork));
    state == TaskState::Blocked && (is_in_page_fault || !is_clear)
}

/// The words at these addresses, up to the first that is not mapped.
pub fn read_words(pid: u32, addresses: &[u64]) -> Result<Vec<u32>, Errno> {
    if let Some(words) = read_near_words(pid, addresses) {
        return Ok(words);
    }
    let bytes = read_scattered(pid, addresses, size_of::<u32>())?;
    let (words, _) = bytes.as_chunks();
    Ok(words.iter().map(|&word| u32::from_ne_bytes(word)).collect())
}

/// The same with 64 bits: pointers and what is as long.
pub fn read_longs(pid: u32, addresses: &[u64]) -> Result<Vec<u64>, Errno> {
    let bytes = read_scattered(pid, addresses, size_of::<u64>())?;
    let (longs, _) = bytes.as_chunks();
    Ok(longs.iter().map(|&long| u64::from_ne_bytes(long)).collect())
}

/// So many bytes from each of these addresses, one behind the other, up to the first that is not mapped.
pub fn read_scattered(pid: u32, addresses: &[u64], length: usize) -> Result<Vec<u8>, Errno> {
    /// Of one system call
    const IOV_MAX: usize = 1024;
    let process = Pid::from_raw(i32::try_from(pid).map_err(|_| Errno::ESRCH)?);
    let mut bytes = Vec::new();
    for addresses in addresses.chunks(IOV_MAX) {
        let remote = addresses.iter().map(|&address| usize::try_from(address).map(|base| RemoteIoVec { base, len: length }));
        let remote: Vec<RemoteIoVec> = remote.collect::<Result<_, _>>().map_err(|_| Errno::EFAULT)?;
        let (begin, wanted) = (bytes.len(), remote.len() * length);
        bytes.resize(begin + wanted, 0);
        let there = bytes.get_mut(begin..).unwrap_or_default();
        let read = match read_vectors(process, &mut [IoSliceMut::new(there)], &remote) {
            Err(why) if begin == 0 => return Err(why),
            read => read.unwrap_or(0),
        };
        if read < wanted {
            bytes.truncate(begin + read / length.max(1) * length);
            break;
        }
    }
    Ok(bytes)
}

/// Words that are near each other, by one range: 64 of them take 5 µs in place of 22. `None` if they are not, or not all of it is mapped.
fn read_near_words(pid: u32, addresses: &[u64]) -> Option<Vec<u32>> {
    const MAX_RANGE_BYTES: u64 = 256 << 10;
    let (first, last) = (*addresses.iter().min()?, *addresses.iter().max()?);
    let length = last.checked_sub(first)?.checked_add(size_of::<u32>() as u64).filter(|&length| length <= MAX_RANGE_BYTES)?;
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    read_memory(pid, first, &mut bytes).ok()?;
    let word = |address: &u64| {
        let at = usize::try_from(address.checked_sub(first)?).ok()?;
        Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
    };
    addresses.iter().map(word).collect()
}

/// Fills `bytes` from that address. Fails also if not all of it is mapped.
pub fn read_memory(pid: u32, address: u64, bytes: &mut [u8]) -> io::Result<()> {
    let length = read_mapped(pid, address, bytes)?;
    if length == bytes.len() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_up_to_the_first_that_is_not_mapped() {
        let pid = std::process::id();
        if is_readable(pid) != Ok(true) {
            println!("skipped: this user may not read memory");
            return;
        }
        let words = [7_u32, 8, 9];
        let at = |place: usize| std::ptr::from_ref(&words[place]) as u64;
        assert_eq!(read_words(pid, &[at(2), at(0)]), Ok(vec![9, 7]));
        assert_eq!(read_words(pid, &[at(1), 8, at(0)]), Ok(vec![8]));
        assert_eq!(read_words(pid, &[8]), Err(Errno::EFAULT));
    }

    #[test]
    fn what_is_scattered_is_read_in_the_order_of_the_addresses_however_much_it_is() {
        let pid = std::process::id();
        if is_readable(pid) != Ok(true) {
            println!("skipped: this user may not read memory");
            return;
        }
        let longs: Vec<u64> = (0..3000).collect();
        let mut addresses: Vec<u64> = longs.iter().rev().map(|long| std::ptr::from_ref(long) as u64).collect();
        assert_eq!(read_longs(pid, &addresses), Ok((0..3000).rev().collect()));
        addresses[2500] = 8;
        assert_eq!(read_longs(pid, &addresses).map(|longs| longs.len()), Ok(2500), "not mapped");
        addresses[2048] = 8;
        assert_eq!(read_longs(pid, &addresses).map(|longs| longs.len()), Ok(2048), "the first of a system call");
        assert_eq!(read_longs(pid, &[]), Ok(Vec::new()));
    }
}
