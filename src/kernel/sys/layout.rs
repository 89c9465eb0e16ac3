//! The structs and numbers that this layer hands to the kernel. Sizes and offsets are asserted here at compile time, and compared with the
//! kernel's headers by tests/kernel/structs.rs (`LAYOUT`).

#![forbid(unsafe_code)]

use std::mem::offset_of;

use linux_raw_sys::general::{__user_cap_data_struct, __user_cap_header_struct, _LINUX_CAPABILITY_VERSION_3};
use linux_raw_sys::net::ifmap;

/// `struct ethtool_link_settings`, with room behind it for three link mode masks of the largest size.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LinkSettings {
    pub command: u32,
    /// Mbit/s
    pub speed: u32,
    pub duplex: u8,
    pub port: u8,
    pub phy_address: u8,
    pub autoneg: u8,
    pub mdio_support: u8,
    pub eth_tp_mdix: u8,
    pub eth_tp_mdix_ctrl: u8,
    /// 32-bit words of one mask. A request with another number than the kernel's is answered with the kernel's, negative.
    pub link_mode_masks_nwords: i8,
    pub others: [u8; 4],
    pub reserved: [u32; 7],
    pub link_mode_masks: [u32; 3 * i8::MAX as usize],
}

/// `struct ethtool_cmd`: the older layout, with the lower 16 bits of the speed in one field.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct LegacySettings {
    pub command: u32,
    pub supported: u32,
    pub advertising: u32,
    /// Mbit/s, the lower 16 bits
    pub speed: u16,
    pub duplex: u8,
    /// port, phy_address, transceiver, autoneg, mdio_support
    pub others: [u8; 5],
    /// maxtxpkt, maxrxpkt
    pub coalescing: [u32; 2],
    pub speed_hi: u16,
    /// eth_tp_mdix, eth_tp_mdix_ctrl
    pub crossover: [u8; 2],
    pub lp_advertising: u32,
    pub reserved: [u32; 2],
}

/// The `link_create` member of `union bpf_attr`, as far as an iterator and a perf event need it.
#[repr(C)]
pub struct LinkCreate {
    pub prog_fd: u32,
    pub target_fd: u32,
    pub attach_type: u32,
    pub flags: u32,
}

/// The `iter_create` member of `union bpf_attr`.
#[repr(C)]
pub struct IterCreate {
    pub link_fd: u32,
    pub flags: u32,
}

/// The `raw_tracepoint` member of `union bpf_attr`.
#[repr(C)]
pub struct RawTracepointOpen {
    pub name: u64,
    pub prog_fd: u32,
    pub padding: u32,
}

/// `struct perf_event_attr` up to its member `config2` (PERF_ATTR_SIZE_VER1), with the names that the members have for uprobes.
#[repr(C)]
#[derive(Default)]
pub struct PerfEventAttributes {
    pub kind: u32,
    pub size: u32,
    pub config: u64,
    pub unused: [u64; 4],
    pub unused_words: [u32; 2],
    pub path: u64,
    pub offset: u64,
}

/// `rate.rate` in `struct tc_tbf_qopt`.
pub const TBF_RATE_OFFSET: usize = 8;
/// `struct tc_netem_qopt`, before the attributes of netem.
pub const NETEM_OPTIONS_BYTES: usize = 24;
pub const ETHTOOL_GSET: u32 = 0x01;
pub const ETHTOOL_GLINKSETTINGS: u32 = 0x4c;
pub const BPF_RAW_TRACEPOINT_OPEN: libc::c_int = 17;
pub const BPF_LINK_CREATE: libc::c_int = 28;
pub const BPF_ITER_CREATE: libc::c_int = 33;
pub const BPF_TRACE_ITER: u32 = 28;
pub const BPF_PERF_EVENT: u32 = 41;
pub const PERF_FLAG_FD_CLOEXEC: usize = 8;
/// `struct inet_diag_msg`, in front of the attributes of a sock_diag answer.
pub const INET_DIAG_MSG_SIZE: usize = 72;
/// `struct unix_diag_msg`, in front of the attributes of a sock_diag answer.
pub const UNIX_DIAG_MSG_SIZE: usize = 16;
/// Index of the size of the send buffer among the numbers of SO_MEMINFO and UNIX_DIAG_MEMINFO.
pub const SK_MEMINFO_SNDBUF: usize = 3;
/// Numbers in the answer to SO_MEMINFO, and the index of the drops among them (enum in include/uapi/linux/sock_diag.h).
pub const SK_MEMINFO_VARS: usize = 9;
pub const SK_MEMINFO_DROPS: usize = 8;

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
