//! Kernel functions in which a thread in D waits for a lock, and the lock: names as in Linux 6.18, and older names beside them.
//!
//! The kernel omits its locking functions from wchan, which then has their caller. Where they wait for I/O, wchan has another
//! function, which they call.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use KernelLock::{
    AddressSpace, Allocator, Audit, Autofs, Cgroup, Directory, Fanotify, FrozenFileSystem, GracePeriod, Inode, Ipc, Kernfs,
    Module, Mount, Network, OpenFile, OrphanList, Process, ReverseMap, Socket, Terminal,
};

/// What a lock inside the kernel protects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KernelLock {
    /// mmap_lock: the memory map of a process
    AddressSpace,
    /// Locks of anon_vma and i_mmap: which page tables map a page
    ReverseMap,
    /// inode->i_rwsem of a directory
    Directory,
    /// inode->i_rwsem of a file
    Inode,
    /// s_orphan_lock of ext4: files that are being deleted or truncated
    OrphanList,
    /// The position of an open file, a seq_file, an epoll instance
    OpenFile,
    /// kernfs_rwsem: the files of /sys and of cgroups
    Kernfs,
    /// cgroup_mutex, cpuset_mutex, cgroup_threadgroup_rwsem
    Cgroup,
    /// rtnl_mutex, pernet_ops_rwsem and others: interfaces, routes, network namespaces
    Network,
    /// namespace_sem, s_umount: mounts
    Mount,
    /// module_mutex, jump_label_mutex, trace and BPF mutexes
    Module,
    /// cred_guard_mutex, exec_update_lock
    Process,
    /// System V IPC
    Ipc,
    /// pcpu_alloc_mutex and other locks of allocators
    Allocator,
    /// A socket that another thread uses
    Socket,
    /// tty_mutex and the locks of terminals
    Terminal,
    /// s_writers of a file system that is frozen (fsfreeze, a snapshot): `is_frozen_file_system` of the interval decides it
    FrozenFileSystem,
    /// Not a lock: all CPUs must pass a point at which no reader of RCU runs, as for umount
    GracePeriod,
    /// Not a lock: a program decides whether a file may be opened (FAN_OPEN_PERM), as virus scanners do
    Fanotify,
    /// Not a lock: the automounter mounts
    Autofs,
    /// Not a lock: the queue of messages for the audit daemon is full
    Audit,
}

/// The system calls in which a thread waits for storage with a lock inside the kernel held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldOnStorage {
    /// Of a lock that is not known, too
    Any,
    /// A page fault, and calls that change the memory map (`is_memory_map_call`)
    MemoryMapCalls,
    Never,
}

impl KernelLock {
    /// Words for a sentence: `mmap_lock`
    pub fn description(self) -> &'static str {
        match self {
            AddressSpace => "mmap_lock (the memory map)",
            ReverseMap => "the reverse map of memory (anon_vma, i_mmap)",
            Directory => "the lock of a directory",
            Inode => "the lock of a file (inode)",
            OrphanList => "the orphan list of ext4",
            OpenFile => "the lock of an open file",
            Kernfs => "kernfs_rwsem (/sys and cgroup files)",
            Cgroup => "the cgroup locks (cgroup_mutex)",
            Network => "the network configuration (rtnl_mutex)",
            Mount => "the mount locks (namespace_sem)",
            Module => "the module and code patching locks",
            Process => "the locks of exec and ptrace",
            Ipc => "the locks of System V IPC",
            Allocator => "the locks of a kernel allocator",
            Socket => "the lock of a socket",
            Terminal => "the locks of terminals (tty_mutex)",
            FrozenFileSystem => "a frozen file system (fsfreeze, a snapshot)",
            GracePeriod => "an RCU grace period",
            Fanotify => "the answer of a program (fanotify: a virus scanner)",
            Autofs => "the automounter (autofs)",
            Audit => "the audit daemon (auditd)",
        }
    }

    /// Whether it is no lock: the kernel waits for a program.
    pub fn is_of_program(self) -> bool {
        matches!(self, Fanotify | Autofs | Audit)
    }

    /// Whether threads do not get it one at a time: it ends for many at once, or is no lock.
    pub fn is_shared(self) -> bool {
        matches!(self, GracePeriod | FrozenFileSystem) || self.is_of_program()
    }

    /// In which of its system calls a thread on storage may hold the lock.
    pub fn held_on_storage(self) -> HeldOnStorage {
        match self {
            Directory | Inode | OrphanList | OpenFile | Mount | Module | Process | FrozenFileSystem => HeldOnStorage::Any,
            AddressSpace => HeldOnStorage::MemoryMapCalls,
            ReverseMap | Kernfs | Cgroup | Network | Ipc | Allocator | Socket | Terminal | GracePeriod | Fanotify | Autofs
            | Audit => HeldOnStorage::Never,
        }
    }

    /// The lock for which threads in D wait in this function, the compiler's suffixes removed; `None` if it is not known.
    pub fn of_function(function: &[u8]) -> Option<KernelLock> {
        LOCK_BY_FUNCTION.get(function).copied()
    }
}

/// Whether a thread in D in this function waits for mmap_lock of its own process.
pub fn is_own_mmap_lock(function: &[u8]) -> bool {
    // Those that read the memory, or the memory map, of another process; and exec, which has a new one.
    const OF_OTHERS: [&str; 15] = [
        "m_start",
        "lock_next_vma",
        "clear_refs_write",
        "show_smaps_rollup",
        "pagemap_read",
        "get_task_cmdline",
        "get_mm_cmdline",
        "__access_remote_vm",
        "process_vm_rw",
        "process_vm_rw_core",
        "begin_new_exec",
        "exec_mmap",
        "setup_arg_pages",
        "exit_mmap",
        "mfill_atomic",
    ];
    KernelLock::of_function(function) == Some(AddressSpace) && !OF_OTHERS.iter().any(|name| name.as_bytes() == function)
}

/// `FUNCTIONS` by name: each interval looks up the functions of some dozens of waits.
static LOCK_BY_FUNCTION: LazyLock<FxHashMap<&[u8], KernelLock>> =
    LazyLock::new(|| FUNCTIONS.iter().map(|&(name, lock)| (name.as_bytes(), lock)).collect());

pub(super) const FUNCTIONS: &[(&str, KernelLock)] = &[
    ("lock_mm_and_find_vma", AddressSpace), // since 6.5
    ("do_user_addr_fault", AddressSpace),   // before
    ("__do_page_fault", AddressSpace),      // before 5.4
    ("do_page_fault", AddressSpace),        // arm64
    ("vm_mmap_pgoff", AddressSpace),
    ("__vm_munmap", AddressSpace),
    ("do_madvise", AddressSpace),
    ("madvise_lock", AddressSpace),
    ("madvise_do_behavior", AddressSpace), // since 6.17, where a lock of one area does not suffice
    ("do_mprotect_pkey", AddressSpace),
    ("__do_sys_brk", AddressSpace),
    ("__x64_sys_brk", AddressSpace),
    ("__do_sys_mremap", AddressSpace),
    ("__x64_sys_mremap", AddressSpace),
    ("do_mremap", AddressSpace), // since 6.17
    ("__arm64_sys_brk", AddressSpace),
    ("__arm64_sys_mremap", AddressSpace),
    ("__do_sys_mincore", AddressSpace),
    ("__x64_sys_mincore", AddressSpace),
    ("__arm64_sys_mincore", AddressSpace),
    ("__do_sys_msync", AddressSpace),
    ("__x64_sys_msync", AddressSpace),
    ("__arm64_sys_msync", AddressSpace),
    ("__do_sys_munlock", AddressSpace),
    ("__x64_sys_munlock", AddressSpace),
    ("__arm64_sys_munlock", AddressSpace),
    ("__do_sys_mlockall", AddressSpace),
    ("__x64_sys_mlockall", AddressSpace),
    ("__arm64_sys_mlockall", AddressSpace),
    ("__do_sys_munlockall", AddressSpace),
    ("__x64_sys_munlockall", AddressSpace),
    ("__arm64_sys_munlockall", AddressSpace),
    ("__do_sys_remap_file_pages", AddressSpace),
    ("__mm_populate", AddressSpace),
    ("do_mbind", AddressSpace),
    ("kernel_get_mempolicy", AddressSpace),
    ("do_get_mempolicy", AddressSpace),
    ("do_mlock", AddressSpace),
    ("do_shmat", AddressSpace),
    ("ksys_shmdt", AddressSpace),
    ("dup_mm", AddressSpace),
    ("dup_mmap", AddressSpace),
    ("copy_process", AddressSpace), // dup_mmap inlined into it
    ("exit_mmap", AddressSpace),
    ("exit_mm", AddressSpace),
    ("do_exit", AddressSpace), // exit_mm inlined into it
    ("acct_collect", AddressSpace),
    ("begin_new_exec", AddressSpace),
    ("exec_mmap", AddressSpace),
    ("setup_arg_pages", AddressSpace),
    ("m_start", AddressSpace), // of maps and smaps
    ("show_smaps_rollup", AddressSpace),
    ("lock_next_vma", AddressSpace), // of maps, since 6.17
    ("pagemap_read", AddressSpace),
    ("clear_refs_write", AddressSpace),
    ("get_task_cmdline", AddressSpace),
    ("get_mm_cmdline", AddressSpace),
    ("__access_remote_vm", AddressSpace),
    ("process_vm_rw", AddressSpace),
    ("process_vm_rw_core", AddressSpace),
    ("get_user_pages_unlocked", AddressSpace),
    ("internal_get_user_pages_fast", AddressSpace),
    ("gup_fast_fallback", AddressSpace),
    ("__gup_longterm_locked", AddressSpace),
    ("pin_user_pages", AddressSpace),
    ("vma_start_write", AddressSpace),
    ("__vma_start_write", AddressSpace),
    ("userfaultfd_register", AddressSpace),
    ("mfill_atomic", AddressSpace),
    ("unlink_anon_vmas", ReverseMap),
    ("anon_vma_clone", ReverseMap),
    ("anon_vma_fork", ReverseMap),
    ("__anon_vma_prepare", ReverseMap),
    ("unlink_file_vma", ReverseMap),
    ("unlink_file_vma_batch_process", ReverseMap),
    ("vma_link", ReverseMap),
    ("vma_link_file", ReverseMap),
    ("vma_prepare", ReverseMap),
    ("__vma_link_file", ReverseMap),
    ("free_pgtables", ReverseMap),
    ("rmap_walk_anon", ReverseMap),
    ("rmap_walk_file", ReverseMap),
    ("folio_lock_anon_vma_read", ReverseMap),
    ("unmap_mapping_range", ReverseMap),
    ("unmap_mapping_pages", ReverseMap),
    ("path_openat", Directory),
    ("open_last_lookups", Directory),
    ("lookup_slow", Directory),
    ("walk_component", Directory),
    ("link_path_walk", Directory),
    ("path_lookupat", Directory),
    ("filename_create", Directory),
    ("__filename_create", Directory),
    ("do_mkdirat", Directory),
    ("do_mknodat", Directory),
    ("do_linkat", Directory),
    ("do_symlinkat", Directory),
    ("do_unlinkat", Directory),
    ("do_rmdir", Directory),
    ("do_renameat2", Directory),
    ("lock_rename", Directory),
    ("lock_two_directories", Directory),
    ("start_dirop", Directory),
    ("__start_dirop", Directory),
    ("start_renaming", Directory),
    ("start_removing", Directory),
    ("vfs_rename", Directory),
    ("vfs_rmdir", Directory),
    ("vfs_unlink", Directory),
    ("d_alloc_parallel", Directory),
    ("iterate_dir", Directory),
    ("simple_recursive_removal", Directory),
    ("ext4_file_write_iter", Inode), // with ext4_buffered_write_iter and ext4_dio_write_iter inlined
    ("ext4_buffered_write_iter", Inode),
    ("ext4_dio_write_iter", Inode),
    ("ext4_file_read_iter", Inode),
    ("ext4_dio_read_iter", Inode),
    ("ext4_orphan_add", OrphanList),
    ("ext4_orphan_del", OrphanList),
    ("xfs_ilock", Inode),
    ("xfs_file_buffered_write", Inode),
    ("btrfs_inode_lock", Inode),
    ("generic_file_write_iter", Inode),
    ("shmem_file_write_iter", Inode),
    ("shmem_fallocate", Inode),
    ("do_truncate", Inode),
    ("vfs_fallocate", Inode),
    ("ext4_fallocate", Inode),
    ("ext4_llseek", Inode),
    ("ext4_fiemap", Inode),
    ("vfs_fileattr_set", Inode),
    ("vfs_utimes", Inode),
    ("vfs_setxattr", Inode),
    ("vfs_removexattr", Inode),
    ("chmod_common", Inode),
    ("chown_common", Inode),
    ("__fdget_pos", OpenFile),
    ("fdget_pos", OpenFile),
    ("seq_read_iter", OpenFile),
    ("seq_read", OpenFile),
    ("do_epoll_ctl", OpenFile),
    ("kernfs_iop_lookup", Kernfs),
    ("kernfs_iop_mkdir", Kernfs),
    ("kernfs_iop_rmdir", Kernfs),
    ("kernfs_iop_permission", Kernfs),
    ("kernfs_iop_getattr", Kernfs),
    ("kernfs_dop_revalidate", Kernfs),
    ("kernfs_fop_readdir", Kernfs),
    ("kernfs_fop_open", Kernfs),
    ("kernfs_fop_write_iter", Kernfs),
    ("kernfs_seq_start", Kernfs),
    ("kernfs_add_one", Kernfs),
    ("kernfs_remove", Kernfs),
    ("kernfs_remove_by_name_ns", Kernfs),
    ("cgroup_kn_lock_live", Cgroup),
    ("cgroup_mkdir", Cgroup),
    ("cgroup1_mkdir", Cgroup),
    ("cgroup_rmdir", Cgroup),
    ("cgroup_lock", Cgroup),
    ("cgroup_attach_lock", Cgroup),
    ("cgroup_procs_write_start", Cgroup),
    ("__cgroup_procs_write", Cgroup),
    ("cgroup_css_set_fork", Cgroup),
    ("cgroup_can_fork", Cgroup),
    ("proc_cgroup_show", Cgroup),
    ("proc_cgroupstats_show", Cgroup),
    ("cpuset_write_resmask", Cgroup),
    ("cpuset_lock", Cgroup),
    ("cpus_read_lock", Cgroup),
    ("rtnl_lock", Network),
    ("rtnl_lock_killable", Network),
    ("rtnetlink_rcv_msg", Network),
    ("rtnl_newlink", Network),
    ("rtnl_dellink", Network),
    ("rtnl_setlink", Network),
    ("rtnl_getlink", Network),
    ("rtnl_bridge_setlink", Network),
    ("inet_rtm_newaddr", Network),
    ("inet_rtm_deladdr", Network),
    ("inet6_rtm_newaddr", Network),
    ("inet_rtm_newroute", Network),
    ("inet_rtm_delroute", Network),
    ("neigh_add", Network),
    ("tc_modify_qdisc", Network),
    ("tc_new_tfilter", Network),
    ("__tun_chr_ioctl", Network),
    ("rtnl_dumpit", Network),
    ("ethnl_default_doit", Network),
    ("ethnl_default_set_doit", Network),
    ("ip_mc_drop_socket", Network),
    ("netlink_dump", Network), // cb_mutex of the socket, and up to 6.8 rtnl_mutex as that
    ("__netlink_dump_start", Network),
    ("nf_tables_valid_genid", Network), // commit_mutex of nftables
    ("xfrm_netlink_rcv", Network),
    ("dev_ioctl", Network),
    ("devinet_ioctl", Network),
    ("copy_net_ns", Network),
    ("setup_net", Network),
    ("ops_init", Network),
    ("register_netdev", Network),
    ("unregister_netdev", Network),
    ("register_netdevice_notifier", Network),
    ("unregister_netdevice_notifier", Network),
    ("register_netdevice_notifier_net", Network),
    ("register_nexthop_notifier", Network),
    ("unregister_nexthop_notifier", Network),
    ("register_fib_notifier", Network),
    ("register_pernet_subsys", Network),
    ("register_pernet_device", Network),
    ("genl_rcv_msg", Network),
    ("nfnetlink_rcv_batch", Network),
    ("nfnl_lock", Network),
    ("do_ip_setsockopt", Network),
    ("do_ipv6_setsockopt", Network),
    ("__dev_change_flags", Network),
    ("rcu_barrier", GracePeriod),
    ("exp_funnel_lock", GracePeriod),
    ("synchronize_rcu_expedited", GracePeriod),
    ("synchronize_rcu_expedited_wait_once", GracePeriod),
    ("synchronize_rcu_normal", GracePeriod),
    ("synchronize_rcu", GracePeriod),
    ("__wait_rcu_gp", GracePeriod),
    ("__synchronize_srcu", GracePeriod),
    ("synchronize_srcu", GracePeriod),
    ("fanotify_handle_event", Fanotify),
    ("fanotify_get_response", Fanotify), // inlined into it
    ("autofs_wait", Autofs),
    ("audit_log_start", Audit),
    ("lock_mount", Mount),
    ("do_lock_mount", Mount),
    ("namespace_lock", Mount),
    ("path_umount", Mount),
    ("do_umount", Mount),
    ("path_mount", Mount),
    ("put_mnt_ns", Mount),
    ("do_move_mount", Mount),
    ("do_loopback", Mount),
    ("copy_mnt_ns", Mount),
    ("copy_tree", Mount),
    ("attach_recursive_mnt", Mount),
    ("mounts_open_common", Mount),
    ("alloc_super", Mount),
    ("sget_fc", Mount),
    ("super_lock", Mount),
    ("grab_super", Mount),
    ("load_module", Module),
    ("idempotent_init_module", Module),
    ("init_module_from_file", Module),
    ("add_unformed_module", Module),
    ("__do_sys_delete_module", Module),
    ("resolve_symbol", Module),
    ("resolve_symbol_wait", Module),
    ("jump_label_lock", Module),
    ("static_key_enable", Module),
    ("static_key_disable", Module),
    ("static_key_slow_inc", Module),
    ("static_key_slow_dec", Module),
    ("__jump_label_update", Module),
    ("tracepoint_probe_register", Module),
    ("tracepoint_probe_unregister", Module),
    ("register_kprobe", Module),
    ("ftrace_startup", Module),
    ("bpf_trampoline_link_prog", Module),
    ("bpf_trampoline_get", Module),
    ("__do_sys_perf_event_open", Module),
    ("prepare_bprm_creds", Process),
    ("bprm_execve", Process),
    ("do_execveat_common", Process),
    ("mm_access", Process),
    ("pidfd_getfd", Process),
    ("ptrace_attach", Process),
    ("proc_pid_attr_write", Process),
    ("ipcget", Ipc),
    ("ipc_addid", Ipc),
    ("shmctl_down", Ipc),
    ("semctl_down", Ipc),
    ("msgctl_down", Ipc),
    ("exit_sem", Ipc),
    ("exit_shm", Ipc),
    ("shm_close", Ipc),
    ("ksys_shmget", Ipc),
    ("pcpu_alloc", Allocator),
    ("pcpu_alloc_noprof", Allocator),
    ("shrinker_alloc", Allocator),
    ("prealloc_shrinker", Allocator),
    ("register_shrinker", Allocator),
    ("kmem_cache_create", Allocator),
    ("lru_add_drain_all", Allocator),
    ("__lru_add_drain_all", Allocator),
    ("__lock_sock", Socket),
    ("tty_open", Terminal),
    ("tty_open_by_driver", Terminal), // inlined into tty_open
    ("ptmx_open", Terminal),
    ("tty_lock", Terminal),
    ("tty_release", Terminal),
    ("tty_release_struct", Terminal),
    ("pty_close", Terminal),
];
