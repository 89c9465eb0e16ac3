//! What a thread in a kernel function waits for, in words for screens: `poll_schedule_timeout` is "waits for events". The
//! function itself is in the details of a task and in JSON.

use crate::sample::waits::WaitClass;
use crate::sample::waits::class::strip_compiler_suffix;

/// What a thread that sleeps in this kernel function waits for; `None` if that is not known.
pub fn wait_words(channel: &[u8]) -> Option<&'static str> {
    let symbol = strip_compiler_suffix(channel);
    let starts = |(name, _): &&(&str, &str)| symbol.starts_with(name.as_bytes());
    let class = || WaitClass::from_wchan(symbol).map(class_words);
    let listed = WORDS.iter().find(starts).map(|&(_, words)| words);
    listed.or_else(class)
}

/// What a thread in a wait of this class waits for, where nothing better is known.
pub fn class_words(class: WaitClass) -> &'static str {
    match class {
        WaitClass::Running => "on CPU",
        WaitClass::Disk => "waits for storage",
        WaitClass::Aio => "waits for asynchronous I/O",
        WaitClass::Lock => "waits for a lock",
        WaitClass::Net => "waits for a socket",
        WaitClass::Pipe => "waits for a pipe",
        WaitClass::Timer => "sleeps until a time",
        WaitClass::Poll => "waits for events",
        WaitClass::Child => "waits for a child process",
        WaitClass::Vfork => "waits for its vfork child",
        WaitClass::Memory => "waits for memory reclaim",
        WaitClass::Frozen => "stopped, traced or frozen",
        WaitClass::Hidden => "wait not readable",
        WaitClass::Other => "asleep",
        WaitClass::Futex => "waits on a futex",
        WaitClass::CoreDump => "waits for the core dump",
    }
}

/// Beginnings of the names of kernel functions, as in Linux 6.18 and older names beside them. First match wins.
const WORDS: &[(&str, &str)] = &[
    // File systems in user space
    ("fuse_dev_do_read", "waits for FUSE requests"),
    ("fuse_", "waits for a FUSE server"),
    ("__fuse_", "waits for a FUSE server"),
    ("request_wait_answer", "waits for a FUSE server"),
    // File systems of other hosts
    ("nfsd", "waits for NFS requests"),
    ("svc_recv", "waits for RPC requests"),
    ("svc_", "waits for RPC requests"),
    ("nfs", "waits for an NFS server"),
    ("rpc_", "waits for an NFS server"),
    ("cifs_", "waits for an SMB server"),
    ("smb2_", "waits for an SMB server"),
    ("wait_for_response", "waits for an SMB server"),
    ("compound_send_recv", "waits for an SMB server"),
    ("netfs_", "waits for a file server"),
    ("afs_", "waits for an AFS server"),
    ("gfs2", "waits for GFS2"),
    ("ceph_", "waits for a Ceph server"),
    ("p9_", "waits for a 9P server"),
    ("v9fs", "waits for a 9P server"),
    // Journals
    ("jbd2_log_wait_commit", "waits for a journal commit"),
    ("jbd2_journal_commit_transaction", "commits the journal"),
    ("jbd2_", "waits for the journal"),
    ("kjournald2", "waits for a journal commit"),
    ("do_get_write_access", "waits for the journal"),
    ("add_transaction_credits", "waits for room in the journal"),
    ("wait_transaction_locked", "waits for the journal"),
    ("start_this_handle", "waits for the journal"),
    ("xlog_", "waits for the journal"),
    ("xfs_log", "waits for the journal"),
    ("btrfs_wait_log", "waits for the journal"),
    ("wait_log_commit", "waits for the journal"),
    ("wait_current_trans", "waits for the journal"),
    ("wait_for_commit", "waits for the journal"),
    // Writes and reads
    ("balance_dirty_pages", "throttled: too many dirty pages"),
    ("wb_wait_for_completion", "waits for writeback"),
    ("wait_sb_inodes", "waits for writeback"),
    ("sync_inodes_sb", "waits for writeback"),
    ("writeback_inodes_sb", "waits for writeback"),
    ("inode_wait_for_writeback", "waits for writeback"),
    ("__inode_wait_for_writeback", "waits for writeback"),
    ("folio_wait_writeback", "waits for writeback"),
    ("folio_wait", "waits for a page of a file"),
    ("__folio_lock", "waits for a page of a file"),
    ("folio_lock", "waits for a page of a file"),
    ("wait_on_page_writeback", "waits for writeback"),
    ("wait_on_page", "waits for a page of a file"),
    ("filemap_", "waits for a page of a file"),
    ("__filemap_fdatawait", "waits for writeback"),
    ("swap_read", "waits for a page from swap"),
    ("submit_bio_wait", "waits for one request"),
    ("__iomap_dio_rw", "waits for direct I/O"),
    ("iomap_dio", "waits for direct I/O"),
    ("do_blockdev_direct_IO", "waits for direct I/O"),
    ("__blockdev_direct_IO", "waits for direct I/O"),
    ("dio_await", "waits for direct I/O"),
    ("blk_mq_get_tag", "waits for a free request tag"),
    ("bt_get", "waits for a free request tag"),
    ("get_request", "waits for a free request tag"),
    ("blk_mq_freeze_queue", "waits for a frozen queue"),
    ("blk_throttl", "throttled by its I/O limit"),
    ("rq_qos_wait", "throttled by writeback limits"),
    ("wbt_wait", "throttled by writeback limits"),
    ("wait_on_buffer", "waits for a block of metadata"),
    ("__wait_on_buffer", "waits for a block of metadata"),
    ("__lock_buffer", "waits for a block of metadata"),
    ("md_", "waits for the RAID array"),
    ("raid", "waits for the RAID array"),
    // Memory
    ("mem_cgroup_", "waits at its memory limit"),
    ("__mem_cgroup", "waits at its memory limit"),
    ("compact", "waits for memory compaction"),
    ("kswapd", "idle: enough free memory"),
    ("kcompactd", "idle: nothing to compact"),
    // Locks
    ("futex_", "waits on a futex"),
    ("__futex", "waits on a futex"),
    ("do_futex", "waits on a futex"),
    ("rt_mutex", "waits for a mutex"),
    ("__rt_mutex", "waits for a mutex"),
    ("do_semtimedop", "waits on a semaphore"),
    ("__do_semtimedop", "waits on a semaphore"),
    ("SyS_semtimedop", "waits on a semaphore"),
    ("locks_lock_inode_wait", "waits for a file lock"),
    ("flock_lock", "waits for a file lock"),
    ("posix_lock", "waits for a file lock"),
    ("fcntl_setlk", "waits for a file lock"),
    ("do_lock_file_wait", "waits for a file lock"),
    ("percpu_", "waits for a kernel lock"),
    ("__percpu_down", "waits for a kernel lock"),
    ("rwsem_", "waits for a kernel lock"),
    ("__down_", "waits for a kernel lock"),
    ("down_", "waits for a kernel lock"),
    ("call_rwsem", "waits for a kernel lock"),
    ("__mutex_lock", "waits for a kernel lock"),
    ("mutex_lock", "waits for a kernel lock"),
    // The kernel waits for a program
    ("fanotify_handle_event", "waits for a virus scanner (fanotify)"),
    ("fanotify_get_response", "waits for a virus scanner (fanotify)"),
    ("autofs_wait", "waits for the automounter"),
    ("audit_log_start", "waits for the audit daemon"),
    ("st_do_scsi", "waits for a tape drive"),
    // Sockets
    ("inet_csk_accept", "waits for a connection"),
    ("unix_accept", "waits for a connection"),
    ("inet_stream_connect", "connects"),
    ("inet_wait_for_connect", "connects"),
    ("unix_wait_for_peer", "waits for room in a socket"),
    ("sk_stream_wait_memory", "waits for room in a socket"),
    ("sock_alloc_send", "waits for room in a socket"),
    ("sk_stream_wait_connect", "connects"),
    ("sk_wait_data", "waits for data of a socket"),
    ("tcp_recv", "waits for data of a socket"),
    ("unix_stream", "waits for data of a socket"),
    ("unix_dgram", "waits for data of a socket"),
    ("__skb_wait_for_more_packets", "waits for data of a socket"),
    ("skb_wait_for_more_packets", "waits for data of a socket"),
    ("__skb_", "waits for data of a socket"),
    ("skb_", "waits for data of a socket"),
    ("netlink_", "waits for the kernel (netlink)"),
    ("packet_", "waits for packets"),
    ("wait_woken", "waits for data"),
    // Pipes and terminals
    ("anon_pipe_read", "waits for data of a pipe"),
    ("anon_pipe_write", "waits for room in a pipe"),
    ("pipe_read", "waits for data of a pipe"),
    ("pipe_write", "waits for room in a pipe"),
    ("wait_for_space", "waits for room in a pipe"),
    ("wait_for_partner", "waits to open a FIFO"),
    ("fifo_open", "waits to open a FIFO"),
    ("pipe_wait", "waits for a pipe"),
    ("n_tty_read", "waits for a terminal"),
    ("tty_", "waits for a terminal"),
    ("inotify_read", "waits for file events"),
    ("fanotify_read", "waits for file events"),
    ("eventfd_read", "waits for events"),
    ("signalfd", "waits for signals"),
    ("timerfd_", "sleeps until a time"),
    // Events, time, signals, children
    ("io_cqring_wait", "waits for asynchronous I/O"),
    ("io_sq_thread", "waits for io_uring requests"),
    ("io_wq", "waits for io_uring requests"),
    ("read_events", "waits for asynchronous I/O"),
    ("sigsuspend", "waits for a signal"),
    ("do_sigtimedwait", "waits for a signal"),
    ("pause", "waits for a signal"),
    ("__se_sys_pause", "waits for a signal"),
    ("do_syslog", "waits for kernel messages"),
    ("devkmsg_read", "waits for kernel messages"),
    ("kernel_clone", "waits for its vfork child"),
    ("vhost_", "waits for a guest"),
    ("kvm_vcpu", "vCPU: the guest is idle"),
    // Kernel threads
    ("worker_thread", "idle (kernel worker)"),
    ("rescuer_thread", "idle (kernel worker)"),
    ("kthread", "idle (kernel thread)"),
    ("smpboot_thread_fn", "idle (kernel thread)"),
    ("rcu_", "waits for RCU"),
    ("bdi_", "idle (writeback)"),
    ("khugepaged", "idle (huge pages)"),
    ("ksm_", "idle (KSM)"),
    ("kauditd", "idle (audit)"),
    ("oom_reaper", "idle (OOM reaper)"),
    ("devtmpfsd", "idle (devtmpfs)"),
    ("loop_", "waits for loop requests"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_wait_channels_have_words() {
        let cases = [
            ("poll_schedule_timeout.constprop.0", Some("waits for events")),
            ("do_epoll_wait", Some("waits for events")),
            ("fuse_dev_do_read", Some("waits for FUSE requests")),
            ("request_wait_answer", Some("waits for a FUSE server")),
            ("jbd2_log_wait_commit", Some("waits for a journal commit")),
            ("hrtimer_nanosleep", Some("sleeps until a time")),
            ("do_wait", Some("waits for a child process")),
            ("futex_do_wait", Some("waits on a futex")),
            ("an_unknown_function", None),
        ];
        for (channel, words) in cases {
            assert_eq!(wait_words(channel.as_bytes()), words, "{channel}");
        }
    }

    #[test]
    fn a_function_is_listed_before_any_prefix_of_it() {
        for (at, (name, _)) in WORDS.iter().enumerate() {
            let earlier = WORDS.iter().take(at).find(|(prefix, _)| name.starts_with(prefix));
            assert_eq!(earlier, None, "{name} is never reached");
        }
    }
}
