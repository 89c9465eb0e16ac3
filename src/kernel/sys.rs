//! All `unsafe` code of the kernel layer: system calls that nix has no safe function for.
//!
//! Each function is safe to call with any argument. The sizes and offsets of the structs that the kernel reads or writes are asserted in
//! `layout`, at compile time.

mod layout;

use std::ffi::CStr;
use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use linux_raw_sys::general::{__user_cap_data_struct, __user_cap_header_struct, _LINUX_CAPABILITY_VERSION_3};
use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use nix::unistd::{SysconfVar, sysconf};

use layout::{
    BPF_ITER_CREATE, BPF_LINK_CREATE, BPF_PERF_EVENT, BPF_RAW_TRACEPOINT_OPEN, BPF_TRACE_ITER, ETHTOOL_GLINKSETTINGS,
    ETHTOOL_GSET, IterCreate, LinkCreate, PERF_FLAG_FD_CLOEXEC, PerfEventAttributes, RawTracepointOpen, SK_MEMINFO_DROPS,
    SK_MEMINFO_VARS,
};
pub use layout::{
    INET_DIAG_MSG_SIZE, LAYOUT, LegacySettings, LinkSettings, NETEM_OPTIONS_BYTES, SK_MEMINFO_SNDBUF, TBF_RATE_OFFSET,
    UNIX_DIAG_MSG_SIZE,
};

nix::ioctl_readwrite_bad!(siocethtool, libc::SIOCETHTOOL, libc::ifreq);

/// ETHTOOL_GLINKSETTINGS for an interface, with `mask_words` as the size of a link mode mask.
pub fn ethtool_link_settings(socket: BorrowedFd, interface: &[u8], mask_words: i8) -> nix::Result<LinkSettings> {
    let mut settings = LinkSettings {
        command: ETHTOOL_GLINKSETTINGS,
        speed: 0,
        duplex: 0,
        port: 0,
        phy_address: 0,
        autoneg: 0,
        mdio_support: 0,
        eth_tp_mdix: 0,
        eth_tp_mdix_ctrl: 0,
        link_mode_masks_nwords: mask_words,
        others: [0; 4],
        reserved: [0; 7],
        link_mode_masks: [0; 3 * i8::MAX as usize],
    };
    let mut request = ethtool_request(interface, (&raw mut settings).cast())?;
    // SAFETY: for this command the kernel writes the header and, where `mask_words` is its own number, three masks of as
    // many words: at most 127 each, for which `LinkSettings` has room. `settings` outlives the call.
    unsafe { siocethtool(socket.as_raw_fd(), &mut request) }?;
    Ok(settings)
}

/// ETHTOOL_GSET for an interface.
pub fn ethtool_legacy_settings(socket: BorrowedFd, interface: &[u8]) -> nix::Result<LegacySettings> {
    let mut settings = LegacySettings { command: ETHTOOL_GSET, ..LegacySettings::default() };
    let mut request = ethtool_request(interface, (&raw mut settings).cast())?;
    // SAFETY: for this command the kernel writes one ethtool_cmd, whose size `layout` asserts. `settings` outlives the call.
    unsafe { siocethtool(socket.as_raw_fd(), &mut request) }?;
    Ok(settings)
}

/// An interface request whose data are at `settings`.
fn ethtool_request(interface: &[u8], settings: *mut libc::c_char) -> nix::Result<libc::ifreq> {
    // SAFETY: ifreq consists of integers, pointers and bytes, for all of which zeros are a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte remains the zero that ends the name.
    if interface.len() >= request.ifr_name.len() {
        return Err(Errno::ENAMETOOLONG);
    }
    for (to, from) in request.ifr_name.iter_mut().zip(interface) {
        *to = from.cast_signed() as libc::c_char;
    }
    request.ifr_ifru.ifru_data = settings;
    Ok(request)
}

/// BPF_LINK_CREATE: attaches a loaded iterator program. The descriptor is the link.
pub fn bpf_link_create(program: BorrowedFd) -> nix::Result<OwnedFd> {
    let flags = 0;
    let attributes = LinkCreate { prog_fd: raw_descriptor(program), target_fd: 0, attach_type: BPF_TRACE_ITER, flags };
    bpf(BPF_LINK_CREATE, &attributes)
}

/// pidfd_open(2): a descriptor that refers to this process, even after its pid has been given to another one. `ENOSYS` before
/// Linux 5.3.
pub fn pidfd_open(pid: u32) -> nix::Result<OwnedFd> {
    // SAFETY: takes no pointer.
    let descriptor = Errno::result(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
    let descriptor = libc::c_int::try_from(descriptor).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel has just opened it for this process, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// perf_event_open(2) of a uprobe: the instruction at this offset of the file at `path`, in the processes that `pid` shares its memory
/// with, or without it in all. `kind` and `config` are those of the kernel's uprobe events.
pub fn perf_uprobe_open(kind: u32, config: u64, path: &CStr, offset: u64, pid: Option<u32>) -> nix::Result<OwnedFd> {
    let size = size_of::<PerfEventAttributes>() as u32;
    let attributes = PerfEventAttributes { kind, size, config, path: path.as_ptr() as u64, offset, ..Default::default() };
    // Without a process, an event is of one CPU; the probe is in all of them.
    let (pid, cpu) = pid.map_or((-1, 0), |pid| (pid.cast_signed(), -1));
    // SAFETY: the kernel reads no more of `attributes` than its size, and the path up to its end; it keeps neither pointer.
    let result = unsafe {
        libc::syscall(libc::SYS_perf_event_open, std::ptr::from_ref(&attributes), pid, cpu, -1, PERF_FLAG_FD_CLOEXEC)
    };
    let descriptor = RawFd::try_from(Errno::result(result)?).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel has just created this descriptor for this call; nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// BPF_LINK_CREATE: attaches a loaded program to a perf event. The descriptor is the link, which keeps the event.
pub fn bpf_perf_link_create(program: BorrowedFd, event: BorrowedFd) -> nix::Result<OwnedFd> {
    let (prog_fd, target_fd) = (raw_descriptor(program), raw_descriptor(event));
    bpf(BPF_LINK_CREATE, &LinkCreate { prog_fd, target_fd, attach_type: BPF_PERF_EVENT, flags: 0 })
}

/// BPF_RAW_TRACEPOINT_OPEN: attaches a loaded program to the tracepoint of this name, or without it to the one that it was loaded for.
/// The descriptor is the link.
pub fn bpf_raw_tracepoint_open(program: BorrowedFd, name: Option<&CStr>) -> nix::Result<OwnedFd> {
    let name = name.map_or(0, |name| name.as_ptr() as u64);
    bpf(BPF_RAW_TRACEPOINT_OPEN, &RawTracepointOpen { name, prog_fd: raw_descriptor(program), padding: 0 })
}

/// BPF_ITER_CREATE: a descriptor that yields what an attached iterator program writes in one pass.
pub fn bpf_iter_create(link: BorrowedFd) -> nix::Result<OwnedFd> {
    bpf(BPF_ITER_CREATE, &IterCreate { link_fd: raw_descriptor(link), flags: 0 })
}

/// bpf(2), for a command that only reads its attributes and the text that they point to, and returns a descriptor.
fn bpf<Attributes>(command: libc::c_int, attributes: &Attributes) -> nix::Result<OwnedFd> {
    // SAFETY: the kernel reads no more of `attributes` than the size it is given, and keeps no pointer.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<Attributes>()) };
    let descriptor = RawFd::try_from(Errno::result(result)?).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel has just created this descriptor for this call; nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn raw_descriptor(descriptor: BorrowedFd) -> u32 {
    descriptor.as_raw_fd().cast_unsigned()
}

/// Memory that an eBPF program shares with this process: a map with BPF_F_MMAPABLE, or a part of it, as words of 64 bits. Dropping it
/// unmaps it.
#[derive(Debug)]
pub struct SharedWords {
    words: &'static [AtomicU64],
    /// Place in the map of the first word
    first: usize,
}

impl SharedWords {
    /// mmap(2) of the first `count` words. Fails if the map has fewer.
    pub fn map(map: BorrowedFd, count: usize) -> nix::Result<SharedWords> {
        SharedWords::map_part(map, 0..count)
    }

    /// mmap(2) of only the pages with these words, since all pages of a mapping of a map are resident; indices stay those of the
    /// map.
    pub fn map_part(map: BorrowedFd, places: Range<usize>) -> nix::Result<SharedWords> {
        let page_bytes = sysconf(SysconfVar::PAGE_SIZE)?.and_then(|bytes| usize::try_from(bytes).ok()).ok_or(Errno::EINVAL)?;
        let first = places.start - places.start % (page_bytes / size_of::<u64>());
        let count = places.end.checked_sub(first).ok_or(Errno::EINVAL)?;
        let length = count.checked_mul(size_of::<u64>()).ok_or(Errno::EOVERFLOW)?;
        let offset = first.checked_mul(size_of::<u64>()).and_then(|offset| libc::off_t::try_from(offset).ok());
        let offset = offset.ok_or(Errno::EOVERFLOW)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, access, libc::MAP_SHARED, map.as_raw_fd(), offset) };
        if start == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        // SAFETY: the mapping is page-aligned and of this length, which the kernel has compared with the size of the map, and lasts
        // until `drop`; the slice is not handed out. Others write to it: it is read and written atomically.
        Ok(SharedWords { words: unsafe { std::slice::from_raw_parts(start.cast::<AtomicU64>(), count) }, first })
    }

    pub fn len(&self) -> usize {
        self.words.len()
    }

    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The word at this place; 0 where nothing is mapped.
    pub fn get(&self, at: usize) -> u64 {
        self.word(at).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    fn word(&self, at: usize) -> Option<&AtomicU64> {
        self.words.get(at.checked_sub(self.first)?)
    }

    /// Writes a word, after all that was written before; nothing where nothing is mapped.
    pub fn set(&self, at: usize, value: u64) {
        if let Some(word) = self.word(at) {
            word.store(value, Ordering::Release);
        }
    }

    /// Writes one value to all these places that are mapped.
    pub fn fill(&self, places: Range<usize>, value: u64) {
        places.filter_map(|at| self.word(at)).for_each(|word| word.store(value, Ordering::Relaxed));
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        let start = self.words.as_ptr().cast_mut().cast();
        // SAFETY: the mapping that `map` made, which nothing refers to any more.
        unsafe { libc::munmap(start, size_of_val(self.words)) };
    }
}

/// Descriptors that one message may carry.
pub const MAX_DESCRIPTORS: usize = 64;

/// recvmsg(2) of one message into `buffer`: its length, and the descriptors that came with it (SCM_RIGHTS).
pub fn receive_descriptors(socket: BorrowedFd, buffer: &mut [u8]) -> nix::Result<(usize, Vec<OwnedFd>)> {
    let mut control = cmsg_space!([RawFd; MAX_DESCRIPTORS]);
    let mut parts = [IoSliceMut::new(buffer)];
    let message = recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut control), MsgFlags::MSG_CMSG_CLOEXEC)?;
    let mut received = Vec::new();
    for part in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(descriptors) = part {
            // SAFETY: the kernel has just created these descriptors for this process; nothing else owns them.
            received.extend(descriptors.into_iter().map(|descriptor| unsafe { OwnedFd::from_raw_fd(descriptor) }));
        }
    }
    Ok((message.bytes, received))
}

/// getsockopt(SO_MEMINFO): how many messages were dropped because the socket's buffer was full. `None` where the kernel
/// (before 4.12) has fewer numbers.
pub fn socket_drops(socket: BorrowedFd) -> nix::Result<Option<u32>> {
    let mut values = [0_u32; SK_MEMINFO_VARS];
    let mut length = size_of_val(&values) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, the size of `values`, and any bytes are a valid u32.
    let status = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO, values.as_mut_ptr().cast(), &raw mut length)
    };
    Errno::result(status)?;
    let written = length as usize / size_of::<u32>();
    Ok(values.get(..written).unwrap_or(&values).get(SK_MEMINFO_DROPS).copied())
}

/// setpriority(2): lowers the priority of the calling thread to nice value `nice`. On Linux each thread has one of its own, which
/// threads that it starts inherit.
pub fn set_nice(nice: libc::c_int) -> io::Result<()> {
    // SAFETY: takes no pointer.
    Errno::result(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) })?;
    Ok(())
}

/// The capability sets of a thread, a bit for each capability of include/uapi/linux/capability.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapabilitySets {
    pub effective: u64,
    pub permitted: u64,
    pub inheritable: u64,
}

/// Version 3: two data structs, the lower 32 capabilities first. pid 0 is this thread.
const CAPABILITY_HEADER: __user_cap_header_struct = __user_cap_header_struct { version: _LINUX_CAPABILITY_VERSION_3, pid: 0 };

/// capget(2) of this thread.
pub fn capget() -> nix::Result<CapabilitySets> {
    let mut header = CAPABILITY_HEADER;
    let mut data = [__user_cap_data_struct { effective: 0, permitted: 0, inheritable: 0 }; 2];
    // SAFETY: for this version the kernel reads one header, may write its version, and writes two data structs.
    Errno::result(unsafe { libc::syscall(libc::SYS_capget, &raw mut header, data.as_mut_ptr()) })?;
    let [low, high] = data;
    let join = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
    Ok(CapabilitySets {
        effective: join(low.effective, high.effective),
        permitted: join(low.permitted, high.permitted),
        inheritable: join(low.inheritable, high.inheritable),
    })
}

/// capset(2) for this thread.
pub fn capset(sets: CapabilitySets) -> nix::Result<()> {
    let mut header = CAPABILITY_HEADER;
    let half = |shift: u32| __user_cap_data_struct {
        effective: (sets.effective >> shift) as u32,
        permitted: (sets.permitted >> shift) as u32,
        inheritable: (sets.inheritable >> shift) as u32,
    };
    let data = [half(0), half(32)];
    // SAFETY: for this version the kernel reads one header, may write its version, and reads two data structs.
    Errno::result(unsafe { libc::syscall(libc::SYS_capset, &raw mut header, data.as_ptr()) })?;
    Ok(())
}
