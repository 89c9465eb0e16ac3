//! Which class the kernel functions and system calls of several kernels make.

use super::*;

fn class_in(state: TaskState, channel: &str) -> Option<WaitClass> {
    WaitClass::classify(state, Some(channel.as_bytes()), None)
}

#[test]
fn storage_without_a_block_device_is_storage() {
    for name in [
        "nfs_wait_bit_killable",
        "rpc_wait_bit_killable",
        "cifs_wait_mtu_credits",
        "smb2_reconnect",
        "wait_for_response",
        "compound_send_recv",
        "ceph_get_caps",
        "fuse_wait_on_page_writeback",
        "request_wait_answer",
        "v9fs_file_fsync",
        "p9_client_rpc",
        "netfs_wait_for_read",
        "afs_wait_for_operation",
        "gfs2_glock_wait",
    ] {
        assert_eq!(class_in(TaskState::Blocked, name), Some(WaitClass::Disk), "{name}");
        assert!(is_non_block_storage(name.as_bytes()), "{name}");
    }
    let kinds = [
        ("nfs4", true),
        ("fuse.sshfs", true),
        ("fuseblk", false),
        ("ext4", false),
        ("gfs2", false),
        ("overlay", false),
        ("zfs", false),
    ];
    for (kind, is_one) in kinds {
        assert_eq!(is_non_block_file_system(kind.as_bytes()), is_one, "{kind}");
    }
}

#[test]
fn waits_for_requests_are_storage() {
    for name in table::REQUEST_WAITS {
        assert_eq!(class_in(TaskState::Blocked, name), Some(WaitClass::Disk), "{name}");
    }
    assert!(is_request_wait(b"submit_bio_wait") && !is_request_wait(b"ext4_discard_work"));
}

#[test]
fn every_class_stands_at_its_own_index() {
    for (index, class) in WaitClass::ALL.iter().enumerate() {
        assert_eq!(*class as usize, index);
    }
}

#[test]
fn what_the_lab_saw_on_6_18() {
    let seen = [
        (TaskState::Sleeping, "futex_do_wait", WaitClass::Futex),
        (TaskState::Sleeping, "do_epoll_wait", WaitClass::Poll),
        (TaskState::Sleeping, "poll_schedule_timeout.constprop.0", WaitClass::Poll),
        (TaskState::Sleeping, "hrtimer_nanosleep", WaitClass::Timer),
        (TaskState::Sleeping, "anon_pipe_read", WaitClass::Pipe),
        (TaskState::Sleeping, "inet_csk_accept", WaitClass::Net),
        (TaskState::Sleeping, "locks_lock_inode_wait", WaitClass::Lock),
        (TaskState::Sleeping, "do_wait", WaitClass::Child),
        (TaskState::Blocked, "kernel_clone", WaitClass::Vfork),
        (TaskState::Blocked, "__iomap_dio_rw", WaitClass::Disk),
        (TaskState::Blocked, "submit_bio_wait", WaitClass::Disk),
        (TaskState::Blocked, "folio_wait_bit_common", WaitClass::Disk),
        (TaskState::Blocked, "jbd2_log_wait_commit", WaitClass::Disk),
        (TaskState::Sleeping, "read_events", WaitClass::Aio),
        (TaskState::Sleeping, "io_cqring_wait", WaitClass::Aio),
        (TaskState::Blocked, "percpu_rwsem_wait", WaitClass::Lock),
        // Behind a rename in a directory that is synchronous, and behind a direct write that extends the file.
        (TaskState::Blocked, "walk_component", WaitClass::Lock),
        (TaskState::Blocked, "ext4_fallocate", WaitClass::Lock),
        (TaskState::Blocked, "vfs_fileattr_set", WaitClass::Lock),
        // Behind mprotect of 1 GiB in the same address space.
        (TaskState::Blocked, "madvise_do_behavior", WaitClass::Lock),
        (TaskState::Blocked, "process_vm_rw_core.constprop.0", WaitClass::Lock),
    ];
    for (state, channel, class) in seen {
        assert_eq!(class_in(state, channel), Some(class), "{channel}");
    }
}

#[test]
fn what_other_kernels_and_file_systems_show() {
    let seen = [
        ("wait_for_commit", WaitClass::Disk),
        ("handle_reserve_ticket.isra.0", WaitClass::Disk),
        ("__fuse_simple_request", WaitClass::Disk),
        ("do_user_addr_fault", WaitClass::Lock),
    ];
    for (channel, class) in seen {
        assert_eq!(class_in(TaskState::Blocked, channel), Some(class), "{channel}");
    }
}

#[test]
fn in_d_a_call_for_a_file_waits_for_the_io_that_a_kernel_thread_does_for_it() {
    let wait = |state, channel: &str, name| {
        WaitClass::classify(state, Some(channel.as_bytes()), Some(Syscall { name, arguments: [3, 0, 0] }))
    };
    assert_eq!(class_in(TaskState::Blocked, "__jbd2_log_wait_for_space"), Some(WaitClass::Disk), "a full journal, in any call");
    assert_eq!(wait(TaskState::Blocked, "__flush_workqueue", "pwrite64"), Some(WaitClass::Disk));
    assert_eq!(wait(TaskState::Blocked, "__flush_work", "write"), Some(WaitClass::Disk));
    assert_eq!(wait(TaskState::Blocked, "wait_woken", "write"), Some(WaitClass::Disk));
    assert_eq!(wait(TaskState::Blocked, "__flush_work", "ioctl"), Some(WaitClass::Other), "of a driver");
    assert_eq!(wait(TaskState::Blocked, "__flush_work", "flock"), Some(WaitClass::Lock));
    assert_eq!(wait(TaskState::Sleeping, "wait_woken", "read"), Some(WaitClass::Other), "a terminal");
}

#[test]
fn only_the_call_makes_a_futex_a_lock() {
    let wait = |operation, value| {
        let call = Syscall { name: "futex", arguments: [0x1000, operation, value] };
        WaitClass::classify(TaskState::Sleeping, Some(b"futex_do_wait"), Some(call))
    };
    assert_eq!(wait(0x80, 2), Some(WaitClass::Lock));
    assert_eq!(wait(0x189, 0), Some(WaitClass::Futex));
}

#[test]
fn in_d_some_functions_mean_the_lock_that_they_take() {
    assert_eq!(class_in(TaskState::Blocked, "ext4_file_write_iter"), Some(WaitClass::Lock));
    assert_eq!(class_in(TaskState::Blocked, "path_openat"), Some(WaitClass::Lock));
    assert_eq!(class_in(TaskState::Sleeping, "path_openat"), Some(WaitClass::Other), "a FIFO without another end");
    assert!(is_file_lock(b"locks_lock_inode_wait") && !is_file_lock(b"futex_do_wait"));
}

#[test]
fn in_d_every_function_of_a_kernel_lock_is_a_lock_whatever_its_name_begins_with() {
    let call = |name| Some(Syscall { name, arguments: [3, 0, 0] });
    for (function, _) in kernel_locks::FUNCTIONS {
        for call in [None, call("sendmsg"), call("fsync"), call("wait4"), call("nanosleep")] {
            let class = WaitClass::classify(TaskState::Blocked, Some(function.as_bytes()), call);
            assert_eq!(class, Some(WaitClass::Lock), "{function} {call:?}");
        }
        assert!(!WaitClass::wchan_is_interruptible(function.as_bytes()), "{function}");
    }
    assert_eq!(class_in(TaskState::Blocked, "__synchronize_srcu.part.0"), Some(WaitClass::Lock));
    assert_eq!(class_in(TaskState::Sleeping, "inet_csk_accept"), Some(WaitClass::Net));
    assert!(WaitClass::wchan_is_interruptible(b"inet_csk_accept"));
}

#[test]
fn every_function_of_the_tables_is_found_by_its_name() {
    for &(name, class) in table::EXACT_NAMES {
        assert_eq!(WaitClass::from_wchan(name.as_bytes()), Some(class), "{name}");
    }
    for &(prefix, class) in table::PREFIXES {
        assert_eq!(WaitClass::from_wchan(format!("{prefix}_of_a_test").as_bytes()), Some(class), "{prefix}");
    }
    for &(name, lock) in kernel_locks::FUNCTIONS {
        assert_eq!(KernelLock::of_function(name.as_bytes()), Some(lock), "{name}");
    }
    for unlisted in ["", "x", "md", "__", "io_schedule_"] {
        assert_eq!(WaitClass::from_wchan(unlisted.as_bytes()), None, "{unlisted}");
    }
}

#[test]
fn a_wait_for_a_file_system_in_user_space_is_asleep() {
    assert_eq!(class_in(TaskState::Sleeping, "request_wait_answer"), Some(WaitClass::Disk));
    assert_eq!(class_in(TaskState::Sleeping, "__fuse_simple_request.isra.0"), Some(WaitClass::Disk));
    assert_eq!(
        class_in(TaskState::Sleeping, "fuse_dev_do_read"),
        Some(WaitClass::Other),
        "the file system itself, with nothing to do"
    );
    assert_eq!(class_in(TaskState::Sleeping, "folio_wait_bit"), Some(WaitClass::Other));
}

#[test]
fn in_d_a_call_for_sockets_or_events_says_nothing_of_a_function_that_is_not_known() {
    let call = |name| Some(Syscall { name, arguments: [3, 0, 0] });
    let class = |state, name| WaitClass::classify(state, Some(b"some_function"), call(name));
    for name in ["sendmsg", "recvmsg", "poll", "io_uring_enter", "nanosleep", "wait4", "futex"] {
        assert_eq!(class(TaskState::Blocked, name), Some(WaitClass::Other), "{name}");
        assert_ne!(class(TaskState::Sleeping, name), Some(WaitClass::Other), "{name}");
    }
}

#[test]
fn only_where_the_freezer_leaves_threads_asleep_are_they_frozen_in_d() {
    let settled = |channel: &str| WaitClass::classify_settled(TaskState::Blocked, Some(channel.as_bytes()), None);
    for name in
        ["futex_do_wait", "do_epoll_wait", "poll_schedule_timeout.constprop.0", "hrtimer_nanosleep", "unix_stream_read_generic"]
    {
        assert_eq!(settled(name), WaitClass::Frozen, "{name}");
    }
    for name in ["netlink_recvmsg", "anon_pipe_write", "inet_csk_accept", "do_wait"] {
        assert_eq!(settled(name), WaitClass::Other, "{name}");
    }
    assert_eq!(settled("netlink_dump"), WaitClass::Lock);
    let contended = Some(Syscall { name: "futex", arguments: [0x1000, 0x80, 2] });
    let frozen = WaitClass::classify_settled(TaskState::Blocked, Some(b"futex_do_wait"), contended);
    assert_eq!(frozen, WaitClass::Frozen, "behind a mutex, and frozen there");
}

#[test]
fn a_pair_that_cannot_be_is_read_again() {
    assert_eq!(class_in(TaskState::Blocked, "do_epoll_wait"), None);
    assert_eq!(class_in(TaskState::Blocked, "futex_do_wait"), None);
    assert_eq!(WaitClass::classify(TaskState::Sleeping, None, None), Some(WaitClass::Hidden));
}
