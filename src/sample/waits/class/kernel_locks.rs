//! Locks inside the kernel for which threads in D wait, by the function in wchan (`functions`).
//!
//! The kernel omits its locking functions from wchan, which then has their caller. Where they wait for I/O, wchan has another
//! function, which they call.

mod functions;

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

pub(super) use functions::FUNCTIONS;

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
    /// In any system call; also where the lock is not known
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
