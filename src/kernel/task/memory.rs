//! Reads the memory of a process (process_vm_readv). It takes the permission to trace the process: the same user, or CAP_SYS_PTRACE,
//! as /proc/PID/syscall does, which shows the addresses.

use std::io::{self, IoSliceMut};

use nix::errno::Errno;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

/// Fills the beginning of `bytes` from that address on, as far as it is mapped; how many. Fails without permission, if the process has
/// ended, and if nothing is mapped there.
pub fn read_mapped(pid: u32, address: u64, bytes: &mut [u8]) -> Result<usize, Errno> {
    let base = usize::try_from(address).map_err(|_| Errno::EFAULT)?;
    let pid = Pid::from_raw(i32::try_from(pid).map_err(|_| Errno::ESRCH)?);
    let len = bytes.len();
    process_vm_readv(pid, &mut [IoSliceMut::new(bytes)], &[RemoteIoVec { base, len }])
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

/// The words at these addresses, at most 1,024, by one system call: of those from the first one that is not mapped none.
pub fn read_words(pid: u32, addresses: &[u64]) -> Result<Vec<u32>, Errno> {
    const WORD_BYTES: usize = size_of::<u32>();
    if let Some(words) = read_near_words(pid, addresses) {
        return Ok(words);
    }
    let remote = addresses.iter().map(|&address| usize::try_from(address).map(|base| RemoteIoVec { base, len: WORD_BYTES }));
    let remote: Vec<RemoteIoVec> = remote.collect::<Result<_, _>>().map_err(|_| Errno::EFAULT)?;
    let pid = Pid::from_raw(i32::try_from(pid).map_err(|_| Errno::ESRCH)?);
    let mut bytes = vec![0; remote.len() * WORD_BYTES];
    let length = process_vm_readv(pid, &mut [IoSliceMut::new(&mut bytes)], &remote)?;
    let (words, _) = bytes.as_chunks();
    Ok(words.iter().take(length / WORD_BYTES).map(|&word| u32::from_ne_bytes(word)).collect())
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
}
