//! All `unsafe` code of the kernel layer: system calls that nix has no safe function for.
//!
//! Each function is safe to call with any argument. The sizes and offsets of the structs that the kernel reads or writes
//! are asserted here at compile time, and compared with the kernel's headers by tests/kernel_structs.rs ([`LAYOUT`]).

use std::ffi::CStr;
use std::io::{self, IoSliceMut};
use std::mem::offset_of;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use linux_raw_sys::general::{__user_cap_data_struct, __user_cap_header_struct, _LINUX_CAPABILITY_VERSION_3};
use linux_raw_sys::net::ifmap;
use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};

/// `struct ethtool_link_settings`, with room behind it for three link mode masks of the largest size.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LinkSettings {
    command: u32,
    /// Mbit/s
    pub speed: u32,
    pub duplex: u8,
    port: u8,
    phy_address: u8,
    autoneg: u8,
    mdio_support: u8,
    eth_tp_mdix: u8,
    eth_tp_mdix_ctrl: u8,
    /// 32-bit words of one mask. A request with another number than the kernel's is answered with the kernel's, negative.
    pub link_mode_masks_nwords: i8,
    others: [u8; 4],
    reserved: [u32; 7],
    link_mode_masks: [u32; 3 * i8::MAX as usize],
}

/// `struct ethtool_cmd`: the older layout, with the lower 16 bits of the speed in one field.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct LegacySettings {
    command: u32,
    supported: u32,
    advertising: u32,
    /// Mbit/s, the lower 16 bits
    pub speed: u16,
    pub duplex: u8,
    /// port, phy_address, transceiver, autoneg, mdio_support
    others: [u8; 5],
    /// maxtxpkt, maxrxpkt
    coalescing: [u32; 2],
    speed_hi: u16,
    /// eth_tp_mdix, eth_tp_mdix_ctrl
    crossover: [u8; 2],
    lp_advertising: u32,
    reserved: [u32; 2],
}

/// The `link_create` member of `union bpf_attr`, as far as an iterator needs it.
#[repr(C)]
struct LinkCreate {
    prog_fd: u32,
    target_fd: u32,
    attach_type: u32,
    flags: u32,
}

/// The `iter_create` member of `union bpf_attr`.
#[repr(C)]
struct IterCreate {
    link_fd: u32,
    flags: u32,
}

/// The `raw_tracepoint` member of `union bpf_attr`.
#[repr(C)]
struct RawTracepointOpen {
    name: u64,
    prog_fd: u32,
    padding: u32,
}

/// `struct perf_event_attr` up to its member `config2` (PERF_ATTR_SIZE_VER1), with the names that the members have for uprobes.
#[repr(C)]
#[derive(Default)]
struct PerfEventAttributes {
    kind: u32,
    size: u32,
    config: u64,
    unused: [u64; 4],
    unused_words: [u32; 2],
    path: u64,
    offset: u64,
}

/// `rate.rate` in `struct tc_tbf_qopt`.
pub const TBF_RATE_OFFSET: usize = 8;
/// `struct tc_netem_qopt`, before the attributes of netem.
pub const NETEM_OPTIONS_BYTES: usize = 24;
const ETHTOOL_GSET: u32 = 0x01;
const ETHTOOL_GLINKSETTINGS: u32 = 0x4c;
const BPF_RAW_TRACEPOINT_OPEN: libc::c_int = 17;
const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_ITER_CREATE: libc::c_int = 33;
const BPF_TRACE_ITER: u32 = 28;
const BPF_PERF_EVENT: u32 = 41;
const PERF_FLAG_FD_CLOEXEC: usize = 8;
/// `struct inet_diag_msg`, in front of the attributes of a sock_diag answer.
pub const INET_DIAG_MSG_SIZE: usize = 72;
/// `struct unix_diag_msg`, in front of the attributes of a sock_diag answer.
pub const UNIX_DIAG_MSG_SIZE: usize = 16;
/// Index of the size of the send buffer among the numbers of SO_MEMINFO and UNIX_DIAG_MEMINFO.
pub const SK_MEMINFO_SNDBUF: usize = 3;
/// Numbers in the answer to SO_MEMINFO, and the index of the drops among them (enum in include/uapi/linux/sock_diag.h).
const SK_MEMINFO_VARS: usize = 9;
const SK_MEMINFO_DROPS: usize = 8;

// The kernel copies as many bytes as its own struct has, whatever the size of ours.
const _: () = assert!(size_of::<LegacySettings>() == 44 && offset_of!(LegacySettings, speed) == 12);
const _: () = assert!(offset_of!(LegacySettings, speed_hi) == 28 && offset_of!(LegacySettings, reserved) == 36);
const _: () = assert!(offset_of!(LinkSettings, link_mode_masks_nwords) == 15);
const _: () = assert!(offset_of!(LinkSettings, link_mode_masks) == 48 && size_of::<LinkSettings>() == 48 + 4 * 3 * 127);
const _: () = assert!(size_of::<LinkCreate>() == 16 && size_of::<IterCreate>() == 8);
const _: () = assert!(size_of::<RawTracepointOpen>() == 16);
const _: () = assert!(size_of::<PerfEventAttributes>() == 72 && offset_of!(PerfEventAttributes, path) == 56);
const _: () = assert!(size_of::<__user_cap_header_struct>() == 8 && size_of::<[__user_cap_data_struct; 2]>() == 24);
// The largest member of the union in ifreq is ifmap. (linux-raw-sys declares sockaddr, hence ifreq, larger than the kernel.)
const _: () = assert!(offset_of!(libc::ifreq, ifr_ifru) == libc::IFNAMSIZ);
const _: () = assert!(size_of::<libc::ifreq>() == libc::IFNAMSIZ + size_of::<ifmap>());

/// What is handed to the kernel by this layer: a header below /usr/include, a C expression, and its value here.
pub const LAYOUT: &[(&str, &str, usize)] = &[
    ("linux/ethtool.h", "sizeof(struct ethtool_cmd)", size_of::<LegacySettings>()),
    ("linux/ethtool.h", "offsetof(struct ethtool_cmd, speed)", offset_of!(LegacySettings, speed)),
    ("linux/ethtool.h", "offsetof(struct ethtool_cmd, duplex)", offset_of!(LegacySettings, duplex)),
    ("linux/ethtool.h", "offsetof(struct ethtool_cmd, speed_hi)", offset_of!(LegacySettings, speed_hi)),
    ("linux/ethtool.h", "offsetof(struct ethtool_cmd, reserved)", offset_of!(LegacySettings, reserved)),
    ("linux/ethtool.h", "sizeof(struct ethtool_link_settings)", offset_of!(LinkSettings, link_mode_masks)),
    ("linux/ethtool.h", "offsetof(struct ethtool_link_settings, speed)", offset_of!(LinkSettings, speed)),
    ("linux/ethtool.h", "offsetof(struct ethtool_link_settings, duplex)", offset_of!(LinkSettings, duplex)),
    (
        "linux/ethtool.h",
        "offsetof(struct ethtool_link_settings, link_mode_masks_nwords)",
        offset_of!(LinkSettings, link_mode_masks_nwords),
    ),
    ("linux/ethtool.h", "ETHTOOL_GSET", ETHTOOL_GSET as usize),
    ("linux/ethtool.h", "ETHTOOL_GLINKSETTINGS", ETHTOOL_GLINKSETTINGS as usize),
    ("linux/if.h", "sizeof(struct ifreq)", size_of::<libc::ifreq>()),
    ("linux/if.h", "offsetof(struct ifreq, ifr_data)", offset_of!(libc::ifreq, ifr_ifru)),
    ("linux/bpf.h", "offsetof(union bpf_attr, link_create.flags) + 4", size_of::<LinkCreate>()),
    ("linux/bpf.h", "offsetof(union bpf_attr, link_create.attach_type)", offset_of!(LinkCreate, attach_type)),
    ("linux/bpf.h", "BPF_LINK_CREATE", BPF_LINK_CREATE as usize),
    ("linux/bpf.h", "offsetof(union bpf_attr, raw_tracepoint.prog_fd)", offset_of!(RawTracepointOpen, prog_fd)),
    ("linux/bpf.h", "BPF_RAW_TRACEPOINT_OPEN", BPF_RAW_TRACEPOINT_OPEN as usize),
    ("linux/bpf.h", "offsetof(union bpf_attr, iter_create.flags) + 4", size_of::<IterCreate>()),
    ("linux/bpf.h", "BPF_ITER_CREATE", BPF_ITER_CREATE as usize),
    ("linux/bpf.h", "BPF_TRACE_ITER", BPF_TRACE_ITER as usize),
    ("linux/bpf.h", "BPF_PERF_EVENT", BPF_PERF_EVENT as usize),
    ("linux/perf_event.h", "PERF_ATTR_SIZE_VER1", size_of::<PerfEventAttributes>()),
    ("linux/perf_event.h", "offsetof(struct perf_event_attr, config)", offset_of!(PerfEventAttributes, config)),
    ("linux/perf_event.h", "offsetof(struct perf_event_attr, uprobe_path)", offset_of!(PerfEventAttributes, path)),
    ("linux/perf_event.h", "offsetof(struct perf_event_attr, probe_offset)", offset_of!(PerfEventAttributes, offset)),
    ("linux/perf_event.h", "PERF_FLAG_FD_CLOEXEC", PERF_FLAG_FD_CLOEXEC),
    ("linux/capability.h", "sizeof(struct __user_cap_header_struct)", size_of::<__user_cap_header_struct>()),
    ("linux/capability.h", "sizeof(struct __user_cap_data_struct)", size_of::<__user_cap_data_struct>()),
    ("linux/capability.h", "_LINUX_CAPABILITY_VERSION_3", _LINUX_CAPABILITY_VERSION_3 as usize),
    ("linux/inet_diag.h", "sizeof(struct inet_diag_msg)", INET_DIAG_MSG_SIZE),
    ("linux/unix_diag.h", "sizeof(struct unix_diag_msg)", UNIX_DIAG_MSG_SIZE),
    ("linux/sock_diag.h", "SK_MEMINFO_SNDBUF", SK_MEMINFO_SNDBUF),
    ("linux/sock_diag.h", "SK_MEMINFO_VARS", SK_MEMINFO_VARS),
    ("linux/sock_diag.h", "SK_MEMINFO_DROPS", SK_MEMINFO_DROPS),
    ("linux/pkt_sched.h", "offsetof(struct tc_tbf_qopt, rate.rate)", TBF_RATE_OFFSET),
    ("linux/pkt_sched.h", "sizeof(struct tc_netem_qopt)", NETEM_OPTIONS_BYTES),
];

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
    // SAFETY: for this command the kernel writes one ethtool_cmd, whose size is asserted above. `settings` outlives the call.
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

/// BPF_RAW_TRACEPOINT_OPEN: attaches a loaded program to the tracepoint that it was loaded for. The descriptor is the link.
pub fn bpf_raw_tracepoint_open(program: BorrowedFd) -> nix::Result<OwnedFd> {
    bpf(BPF_RAW_TRACEPOINT_OPEN, &RawTracepointOpen { name: 0, prog_fd: raw_descriptor(program), padding: 0 })
}

/// BPF_ITER_CREATE: a descriptor that yields what an attached iterator program writes in one pass.
pub fn bpf_iter_create(link: BorrowedFd) -> nix::Result<OwnedFd> {
    bpf(BPF_ITER_CREATE, &IterCreate { link_fd: raw_descriptor(link), flags: 0 })
}

/// bpf(2), for a command that only reads its attributes and returns a descriptor.
fn bpf<Attributes>(command: libc::c_int, attributes: &Attributes) -> nix::Result<OwnedFd> {
    // SAFETY: the kernel reads no more of `attributes` than the size it is given, and does not keep the pointer.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<Attributes>()) };
    let descriptor = RawFd::try_from(Errno::result(result)?).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel has just created this descriptor for this call; nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn raw_descriptor(descriptor: BorrowedFd) -> u32 {
    descriptor.as_raw_fd().cast_unsigned()
}

/// Memory that an eBPF program shares with this process: a map with BPF_F_MMAPABLE, as words of 64 bits. Dropping it unmaps it.
#[derive(Debug)]
pub struct SharedWords {
    words: &'static [AtomicU64],
}

impl SharedWords {
    /// mmap(2) of the first `count` words. Fails if the map has fewer.
    pub fn map(map: BorrowedFd, count: usize) -> nix::Result<SharedWords> {
        let length = count.checked_mul(size_of::<u64>()).ok_or(Errno::EOVERFLOW)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, access, libc::MAP_SHARED, map.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        // SAFETY: the mapping is page-aligned and of this length, which the kernel has compared with the size of the map, and lasts
        // until `drop`; the slice is not handed out. Others write to it: it is read and written atomically.
        Ok(SharedWords { words: unsafe { std::slice::from_raw_parts(start.cast::<AtomicU64>(), count) } })
    }

    pub fn len(&self) -> usize {
        self.words.len()
    }

    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The word at this place; 0 beyond the end.
    pub fn get(&self, at: usize) -> u64 {
        self.words.get(at).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Writes a word, after all that was written before; nothing beyond the end.
    pub fn set(&self, at: usize, value: u64) {
        if let Some(word) = self.words.get(at) {
            word.store(value, Ordering::Release);
        }
    }

    /// Writes one value to all these places; nothing if they are not all within.
    pub fn fill(&self, places: std::ops::Range<usize>, value: u64) {
        self.words.get(places).unwrap_or_default().iter().for_each(|word| word.store(value, Ordering::Relaxed));
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

/// setpriority(2): lowers the priority of this process to nice value `nice`.
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
