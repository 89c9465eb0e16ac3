//! What the kernel function in which a thread sleeps says beyond the wait class: a file lock, a full pipe, the freezer, a FUSE file system.

use super::table::REQUEST_WAITS;
use super::{WaitClass, strip_compiler_suffix};

/// Whether a thread there waits for the answer of a FUSE file system, interruptibly in S. The threads of the file system itself wait for
/// requests in fuse_dev_do_read.
pub fn is_fuse_request(channel: &[u8]) -> bool {
    const NAMES: [&str; 4] = ["request_wait_answer", "__fuse_request_send", "__fuse_simple_request", "fuse_simple_request"];
    NAMES.iter().any(|name| name.as_bytes() == strip_compiler_suffix(channel))
}

/// Whether a thread in D there may wait for the core dump of its process: up to Linux 5.15, and where `coredump_task_exit` is inlined. Threads
/// that exit wait for mmap_lock there, too; `Waits::core_dumps` says which processes dump core.
pub fn may_be_core_dump(channel: &[u8]) -> bool {
    matches!(strip_compiler_suffix(channel), b"exit_mm" | b"do_exit")
}

/// Whether a thread there waits for a file lock (flock, fcntl), whose holder is in /proc/locks.
pub fn is_file_lock(channel: &[u8]) -> bool {
    const NAMES: [&str; 5] = ["locks_lock_inode_wait", "flock_lock", "posix_lock", "fcntl_setlk", "do_lock_file_wait"];
    NAMES.iter().any(|name| channel.starts_with(name.as_bytes()))
}

/// Whether a thread there waits for room in a pipe, which is full.
pub fn is_full_pipe(channel: &[u8]) -> bool {
    const NAMES: [&str; 4] = ["anon_pipe_write", "fifo_pipe_write", "pipe_write", "wait_for_space"];
    NAMES.iter().any(|name| name.as_bytes() == strip_compiler_suffix(channel))
}

/// Whether a thread there waits for room in the send buffer of a socket, whose other end does not read.
pub fn is_full_socket(channel: &[u8]) -> bool {
    const NAMES: [&str; 4] = ["sk_stream_wait_memory", "sock_alloc_send_pskb", "sock_wait_for_wmem", "unix_wait_for_peer"];
    NAMES.iter().any(|name| name.as_bytes() == strip_compiler_suffix(channel))
}

/// Whether a thread there may wait for data of a socket: TCP, terminals and inotify wait there alike.
pub fn may_be_socket(channel: &[u8]) -> bool {
    strip_compiler_suffix(channel) == b"wait_woken"
}

/// Whether the freezer leaves threads asleep there (TASK_FREEZABLE): since Linux 6.1 it only puts them into D. It wakes those that sleep
/// elsewhere in S, so that they go to `__refrigerator`.
pub fn is_freezable_sleep(channel: &[u8]) -> bool {
    let symbol = strip_compiler_suffix(channel);
    match WaitClass::from_wchan(symbol) {
        Some(WaitClass::Futex | WaitClass::Poll | WaitClass::Timer) => true,
        Some(WaitClass::Net) => symbol.starts_with(b"unix_stream_"), // unix_stream_data_wait, inlined
        _ => false,
    }
}

/// Whether a thread in S there waits for data in a Unix socket. One in D waits for a lock of the socket.
pub fn is_empty_unix_socket(channel: &[u8]) -> bool {
    // The first one is inlined into the second by most compilers.
    matches!(strip_compiler_suffix(channel), b"unix_stream_data_wait" | b"unix_stream_read_generic")
}

/// Whether a thread there is frozen by its cgroup.
pub fn is_freezer(channel: &[u8]) -> bool {
    const NAMES: [&str; 3] = ["__refrigerator", "do_freezer_trap", "refrigerator"];
    NAMES.iter().any(|name| name.as_bytes() == strip_compiler_suffix(channel))
}

/// Whether a thread in D there sleeps for a time that its driver or its caller chose, or waits until a device is free for it.
pub fn is_kernel_delay(channel: &[u8]) -> bool {
    const NAMES: [&str; 6] =
        ["msleep", "usleep_range_state", "usleep_range", "schedule_timeout", "schedule_timeout_uninterruptible", "ssleep"];
    NAMES.iter().any(|name| name.as_bytes() == strip_compiler_suffix(channel)) || is_tape(channel)
}

/// Whether a thread in D there waits for a command to a tape drive: to rewind a tape takes minutes.
pub fn is_tape(channel: &[u8]) -> bool {
    strip_compiler_suffix(channel) == b"st_do_scsi"
}

/// Whether a thread there waits for a request, for writeback, or for a throttle of the block layer: not for a lock or the journal of a file
/// system.
pub fn is_request_wait(channel: &[u8]) -> bool {
    REQUEST_WAITS.iter().any(|name| channel.starts_with(name.as_bytes()))
}

/// Whether a thread there waits for storage that is no block device of this host: of a server, or FUSE.
pub fn is_non_block_storage(channel: &[u8]) -> bool {
    const NAMES: [&str; 15] = [
        "nfs",
        "rpc_",
        "cifs",
        "smb",
        "wait_for_response",
        "compound_send_recv",
        "ceph",
        "fuse_",
        "__fuse_",
        "request_wait_answer",
        "v9fs",
        "p9_",
        "afs_",
        "gfs2",
        "netfs_",
    ];
    NAMES.iter().any(|name| channel.starts_with(name.as_bytes()))
}

/// Whether a file system of this type (mountinfo) has no block device of this host: it is that of a server, or in user space.
pub fn is_non_block_file_system(kind: &[u8]) -> bool {
    const TYPES: [&str; 13] =
        ["nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "virtiofs", "fuse", "afs", "lustre", "glusterfs", "beegfs", "orangefs"];
    TYPES.iter().any(|name| name.as_bytes() == kind) || kind.starts_with(b"fuse.")
}
