//! The list of the threads of a Java virtual machine, and what is read of each of them.

use super::layout::{Layout, ThreadList};
use crate::kernel::task::memory::{read_longs, read_memory};

/// A thread that runs Java code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JavaThread {
    /// Of the JavaThread
    pub address: u64,
    pub os_thread: u64,
    /// In the pid namespace of the process
    pub tid: u32,
}

/// What each thread has at an offset; of those from the first one that is not mapped 0.
pub fn of_each(pid: u32, threads: &[JavaThread], offset: u64) -> Vec<u64> {
    let addresses: Vec<u64> = threads.iter().map(|thread| thread.address.saturating_add(offset)).collect();
    let mut longs = read_longs(pid, &addresses).unwrap_or_default();
    longs.resize(threads.len(), 0);
    longs
}

/// Whether each of these threads still is what it was when the list was read.
pub fn are_same(pid: u32, layout: &Layout, threads: &[JavaThread]) -> Vec<bool> {
    let os_threads = of_each(pid, threads, layout.os_thread);
    let addresses: Vec<u64> = threads.iter().map(|thread| thread.os_thread.saturating_add(layout.thread_id)).collect();
    let mut tids = read_longs(pid, &addresses).unwrap_or_default();
    tids.resize(threads.len(), 0);
    let now = os_threads.into_iter().zip(tids);
    let is_same =
        |(thread, (os_thread, tid)): (&JavaThread, (u64, u64))| (thread.os_thread, thread.tid) == (os_thread, low_half(tid));
    threads.iter().zip(now).map(is_same).collect()
}

/// At most so many of the threads.
pub fn read_threads(pid: u32, layout: &Layout, most: usize) -> Option<Vec<JavaThread>> {
    let addresses = match layout.threads {
        ThreadList::Array { variable, length, threads } => {
            let list = read_long(pid, variable)?;
            let count = usize::try_from(read_int(pid, list.checked_add(length)?)?).ok()?.min(most);
            let begin = read_long(pid, list.checked_add(threads)?)?;
            let mut bytes = vec![0; count * size_of::<u64>()];
            read_memory(pid, begin, &mut bytes).ok()?;
            let (pointers, _) = bytes.as_chunks();
            pointers.iter().map(|&pointer| u64::from_ne_bytes(pointer)).collect()
        }
        ThreadList::Linked { variable, next } => follow_links(pid, read_long(pid, variable)?, next, most),
    };
    let column = |objects: &[u64], offset: u64| {
        let addresses: Vec<u64> = objects.iter().map(|object| object.saturating_add(offset)).collect();
        read_longs(pid, &addresses).ok().filter(|longs| longs.len() == addresses.len())
    };
    let os_threads = column(&addresses, layout.os_thread)?;
    // One that begins has no OSThread yet.
    let begun = addresses.iter().zip(os_threads).filter(|&(&address, os_thread)| is_object(address) && is_object(os_thread));
    let (addresses, os_threads): (Vec<u64>, Vec<u64>) = begun.unzip();
    let tids = column(&os_threads, layout.thread_id)?;
    let rows = addresses.into_iter().zip(os_threads).zip(tids);
    let thread = |((address, os_thread), tid)| JavaThread { address, os_thread, tid: low_half(tid) };
    Some(rows.map(thread).filter(|thread| thread.tid > 0).collect())
}

fn follow_links(pid: u32, first: u64, next: u64, most: usize) -> Vec<u64> {
    let follow = |&address: &u64| read_long(pid, address.checked_add(next)?).filter(|&next| is_object(next));
    std::iter::successors(Some(first).filter(|&first| is_object(first)), follow).take(most).collect()
}

/// An int, of the 8 bytes that begin with it.
pub fn low_half(long: u64) -> u32 {
    let bytes = long.to_ne_bytes();
    bytes.first_chunk().map_or(0, |&half| u32::from_ne_bytes(half))
}

/// Whether an address may be that of an object.
pub fn is_object(address: u64) -> bool {
    address != 0 && address.is_multiple_of(size_of::<u64>() as u64)
}

pub fn read_long(pid: u32, address: u64) -> Option<u64> {
    read_longs(pid, &[address]).ok()?.first().copied()
}

fn read_int(pid: u32, address: u64) -> Option<u32> {
    let mut bytes = [0; size_of::<u32>()];
    read_memory(pid, address, &mut bytes).ok()?;
    Some(u32::from_ne_bytes(bytes))
}
