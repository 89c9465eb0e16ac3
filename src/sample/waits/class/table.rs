//! Kernel functions and their wait classes: names as in Linux 6.18, and older names beside them.

use super::WaitClass;

/// The kernel omits its locking functions from wchan: a thread in D in these functions waits for the lock they take (of an inode, a
/// directory, an address space). They wait for I/O in other functions that they call.
pub const KERNEL_LOCK_FUNCTIONS: &[&str] = &[
    "ext4_file_write_iter", // with ext4_buffered_write_iter and ext4_dio_write_iter inlined: the inode
    "ext4_buffered_write_iter",
    "ext4_dio_write_iter",
    "ext4_file_read_iter",
    "ext4_dio_read_iter",
    "xfs_ilock",
    "xfs_file_buffered_write",
    "btrfs_inode_lock",
    "generic_file_write_iter",
    "path_openat", // a directory
    "open_last_lookups",
    "lookup_slow",
    "filename_create",
    "do_unlinkat",
    "do_rmdir",
    "do_renameat2",
    "lock_rename",
    "iterate_dir",
    "do_truncate",
    "vfs_fallocate",
    "chmod_common",
    "chown_common",
    "lock_mm_and_find_vma", // an address space; since 6.5
    "do_user_addr_fault",   // before
    "__do_page_fault",      // before 5.4
    "do_page_fault",        // arm64
    "vm_mmap_pgoff",
    "__vm_munmap",
    "do_madvise",
    "do_mprotect_pkey",
];

/// Whole names, where a prefix would match other functions.
pub const EXACT_NAMES: &[(&str, WaitClass)] = &[
    ("kernel_clone", WaitClass::Vfork), // since 5.10; wait_for_vfork_done inlined into it
    ("_do_fork", WaitClass::Vfork),     // 4.2 to 5.9
    ("do_fork", WaitClass::Vfork),
    ("wait_for_vfork_done", WaitClass::Vfork),
    ("io_schedule", WaitClass::Disk),
    ("io_schedule_timeout", WaitClass::Disk),
    ("read_events", WaitClass::Aio),
    ("io_cqring_wait", WaitClass::Aio),
    ("wait_for_space", WaitClass::Pipe),
    ("do_wait", WaitClass::Child),
    ("do_wait_intr", WaitClass::Child),
    ("sigsuspend", WaitClass::Other),
    ("schedule_hrtimeout_range", WaitClass::Poll),
    ("schedule_hrtimeout_range_clock", WaitClass::Poll),
    ("get_signal", WaitClass::Frozen),
    ("do_signal_stop", WaitClass::Frozen),
    ("ptrace_stop", WaitClass::Frozen),
    ("throttle_direct_reclaim", WaitClass::Memory),
    ("balance_dirty_pages", WaitClass::Disk), // a writer throttled at the dirty page limit
    ("sync_inodes_sb", WaitClass::Disk),
    ("writeback_inodes_sb", WaitClass::Disk),
    ("percpu_down_write", WaitClass::Lock),
];

/// First match wins.
pub const PREFIXES: &[(&str, WaitClass)] = &[
    // The block layer
    ("submit_bio_wait", WaitClass::Disk),
    ("blk_", WaitClass::Disk),
    ("blkdev_", WaitClass::Disk),
    ("__blkdev_", WaitClass::Disk),
    ("rq_qos_wait", WaitClass::Disk),
    ("wbt_wait", WaitClass::Disk),
    ("bio_", WaitClass::Disk),
    ("bt_get", WaitClass::Disk), // before 5.0: no free request tag
    ("get_request", WaitClass::Disk),
    ("dio_await", WaitClass::Disk),
    ("do_blockdev_direct_IO", WaitClass::Disk),
    ("__blockdev_direct_IO", WaitClass::Disk),
    ("iomap_", WaitClass::Disk),
    ("__iomap_dio_rw", WaitClass::Disk),
    ("md_", WaitClass::Disk),
    ("raid", WaitClass::Disk),
    ("dm_", WaitClass::Disk),
    // Pages and buffers
    ("folio_wait", WaitClass::Disk),
    ("__folio_lock", WaitClass::Disk),
    ("folio_lock", WaitClass::Disk),
    ("wait_on_page", WaitClass::Disk),
    ("__lock_page", WaitClass::Disk),
    ("sleep_on_page", WaitClass::Disk),
    ("wait_on_buffer", WaitClass::Disk),
    ("__wait_on_buffer", WaitClass::Disk),
    ("__lock_buffer", WaitClass::Disk),
    ("bit_wait_io", WaitClass::Disk),
    ("__filemap_fdatawait", WaitClass::Disk),
    ("filemap_", WaitClass::Disk),
    ("swap_read", WaitClass::Disk),
    // File systems
    ("jbd2_", WaitClass::Disk),
    ("do_get_write_access", WaitClass::Disk),
    ("add_transaction_credits", WaitClass::Disk),
    ("wait_transaction_locked", WaitClass::Disk),
    ("start_this_handle", WaitClass::Disk),
    ("ext4_", WaitClass::Disk),
    ("xfs_", WaitClass::Disk),
    ("xlog_", WaitClass::Disk),
    ("btrfs_", WaitClass::Disk),
    ("wait_current_trans", WaitClass::Disk), // btrfs, as the next four
    ("wait_for_commit", WaitClass::Disk),
    ("wait_log_commit", WaitClass::Disk),
    ("wait_extent_bit", WaitClass::Disk),
    ("handle_reserve_ticket", WaitClass::Disk),
    ("f2fs_", WaitClass::Disk),
    ("zil_", WaitClass::Disk),
    ("zio_", WaitClass::Disk),
    ("cv_wait_common", WaitClass::Disk), // ZFS on Linux, state D
    ("nfs", WaitClass::Disk),
    ("rpc_wait", WaitClass::Disk),
    ("cifs_", WaitClass::Disk),
    ("smb2_", WaitClass::Disk),
    ("ceph_", WaitClass::Disk),
    ("fuse_", WaitClass::Disk),
    ("__fuse_", WaitClass::Disk),             // request_wait_answer, where it is inlined
    ("request_wait_answer", WaitClass::Disk), // FUSE
    ("wb_wait_for_completion", WaitClass::Disk),
    ("wait_sb_inodes", WaitClass::Disk),
    ("inode_wait_for_writeback", WaitClass::Disk),
    ("__inode_wait_for_writeback", WaitClass::Disk),
    ("inode_sleep_on_writeback", WaitClass::Disk),
    // Locks
    ("futex_", WaitClass::Futex), // futex_do_wait; futex_wait_queue (5.16 to 6.12), futex_wait_queue_me before
    ("__futex", WaitClass::Futex),
    ("do_futex", WaitClass::Futex),
    ("rt_mutex", WaitClass::Lock),
    ("__rt_mutex", WaitClass::Lock),
    ("locks_lock_inode_wait", WaitClass::Lock),
    ("flock_lock", WaitClass::Lock),
    ("posix_lock", WaitClass::Lock),
    ("fcntl_setlk", WaitClass::Lock),
    ("do_lock_file_wait", WaitClass::Lock),
    ("rwsem_", WaitClass::Lock),
    ("__down_", WaitClass::Lock), // __down_read, __down_write …: before 5.x the rwsem slow paths
    ("down_", WaitClass::Lock),
    ("call_rwsem", WaitClass::Lock),
    ("__mutex_lock", WaitClass::Lock),
    ("mutex_lock", WaitClass::Lock),
    ("percpu_rwsem", WaitClass::Lock), // a frozen file system holds it
    ("__percpu_down", WaitClass::Lock),
    ("do_semtimedop", WaitClass::Futex),
    ("__do_semtimedop", WaitClass::Futex),
    ("SyS_semtimedop", WaitClass::Futex),
    // Memory
    ("shrink_", WaitClass::Memory),
    ("try_to_free", WaitClass::Memory),
    ("reclaim_throttle", WaitClass::Memory),
    ("congestion_wait", WaitClass::Memory),
    ("wait_iff_congested", WaitClass::Memory),
    ("mem_cgroup_", WaitClass::Memory),
    ("__mem_cgroup", WaitClass::Memory),
    ("__alloc_pages", WaitClass::Memory),
    ("compact", WaitClass::Memory),
    // Sockets
    ("inet_csk_accept", WaitClass::Net),
    ("inet_", WaitClass::Net),
    ("tcp_", WaitClass::Net),
    ("sk_", WaitClass::Net),
    ("sock_", WaitClass::Net),
    ("unix_", WaitClass::Net),
    ("__skb_", WaitClass::Net),
    ("skb_", WaitClass::Net),
    ("udp_", WaitClass::Net),
    ("netlink_", WaitClass::Net),
    ("packet_", WaitClass::Net),
    ("vsock_", WaitClass::Net),
    // The rest
    ("anon_pipe_", WaitClass::Pipe),
    ("pipe_", WaitClass::Pipe),
    ("fifo_", WaitClass::Pipe),
    ("wait_for_partner", WaitClass::Pipe),
    ("hrtimer_nanosleep", WaitClass::Timer),
    ("do_nanosleep", WaitClass::Timer),
    ("common_nsleep", WaitClass::Timer),
    ("alarm_timer_nsleep", WaitClass::Timer),
    ("timerfd_", WaitClass::Timer),
    ("do_epoll_wait", WaitClass::Poll),
    ("ep_poll", WaitClass::Poll),
    ("poll_schedule_timeout", WaitClass::Poll),
    ("do_sys_poll", WaitClass::Poll),
    ("do_select", WaitClass::Poll),
    ("do_pselect", WaitClass::Poll),
    ("__refrigerator", WaitClass::Frozen),
    ("refrigerator", WaitClass::Frozen),
    ("freezer", WaitClass::Frozen),
    ("do_freezer_trap", WaitClass::Frozen),
    ("ptrace_", WaitClass::Frozen),
    ("do_sigtimedwait", WaitClass::Timer),
];
