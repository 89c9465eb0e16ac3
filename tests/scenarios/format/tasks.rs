//! Processes of a scenario file, what their threads wait for, and tasks that exit.

use serde::Deserialize;
use stalltop::sample::waits::WaitClass;

use super::one_u32;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Process {
    pub name: String,
    pub pid: u32,
    /// Number of such processes, with consecutive pids
    #[serde(default = "one_u32")]
    pub count: u32,
    #[serde(default = "one_u32")]
    pub parent: u32,
    #[serde(default = "one_u32")]
    pub threads: u32,
    /// CPUs that its first thread uses
    #[serde(default)]
    pub cpu: f64,
    /// The part of `cpu` that is system time
    #[serde(default)]
    pub system: f64,
    /// `cpu` is that of all its threads, divided evenly
    #[serde(default)]
    pub spread: bool,
    /// Threads of it that wait for a CPU, on average
    #[serde(default)]
    pub run_queue: f64,
    /// SCHED_IDLE, or nice 19
    #[serde(default)]
    pub background: bool,
    /// SCHED_… constant of sched(7)
    pub policy: Option<u8>,
    pub nice: Option<i8>,
    /// Timeslices of its first thread per second
    pub switches: Option<f64>,
    /// Class of the wait in which half of the sub-samples see its first thread: timer, poll, net
    pub sleeps_in: Option<WaitClass>,
    #[serde(default)]
    pub on_cpu: u32,
    /// Whether it is on another CPU at each sample
    #[serde(default)]
    pub moves: bool,
    /// The first CPU and the number of CPUs between which it moves, if these are not all CPUs
    #[serde(skip)]
    pub moves_on: Option<(u32, u32)>,
    /// CPUs that children used which ended and that it waited for
    #[serde(default)]
    pub ended: f64,
    /// It ends in the last interval of the phase: the sub-samples saw it, the sample does not
    #[serde(default)]
    pub ends: bool,
    /// Another process at each sample, which began so many seconds before it
    pub renewed: Option<f64>,
    #[serde(default = "sleeping")]
    pub state: char,
    /// Its wait channel
    pub channel: Option<String>,
    /// Its command line, or what it wrote over it
    pub title: Option<String>,
    /// Seconds since its threads last ran, at each sample
    pub asleep_seconds: Option<f64>,
    pub cgroup: Option<String>,
    /// The CPUs that its threads may use, `0-3,8`, where they waited for one
    pub allowed: Option<String>,
    #[serde(default)]
    pub major_faults: f64,
    /// KB per second that it reads from storage
    pub read_kb: Option<f64>,
    #[serde(default)]
    pub kernel_thread: bool,
    /// Timeslices of each of its threads before the first phase
    #[serde(default)]
    pub timeslices: u64,
    /// Threads of the whole group in each kind of wait, at every sub-sample
    #[serde(default)]
    pub waits: Waits,
    pub holder: Option<Holder>,
    /// Threads of it that each wait for a lock in nine of ten sub-samples, and sleep for a fixed time in the other one
    #[serde(default)]
    pub turns: u32,
    /// Its first threads that every sub-sample sees on storage, one by one
    #[serde(default)]
    pub seen_on_storage: u32,
    /// Connections with requests that it has not read, at each sample
    #[serde(default)]
    pub unread_connections: u16,
    /// Its sockets may not be read
    #[serde(default)]
    pub unread_sockets: bool,
    /// The process that traces it (ptrace)
    pub tracer: Option<u32>,
    /// It writes a core dump
    #[serde(default)]
    pub dumps_core: bool,
    /// Sub-samples of ten in which its first thread is stopped by the tracer
    #[serde(default)]
    pub stopped: u16,
    /// The pipe in which its first thread waits
    pub pipe: Option<Pipe>,
    #[serde(default)]
    pub queue: Vec<Queue>,
    /// Owners of its futex locks, and of the locks inside the kernel that its threads wait for
    #[serde(default)]
    pub owner: Vec<Owner>,
}

/// Tasks that exit between two scans
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Exit {
    pub of: u32,
    pub of_name: String,
    pub name: String,
    pub per_second: f64,
    /// CPUs that they use together
    #[serde(default)]
    pub cpu: f64,
    #[serde(default)]
    pub threads: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Waits {
    /// Number of them that run, sub-sample by sub-sample: `[1]`, `[0, 2]`
    pub running: Vec<u16>,
    pub storage: u16,
    pub aio: u16,
    pub memory: u16,
    pub other: u16,
    pub hidden: u16,
    pub lock_by_call: u16,
    pub lock_by_inference: u16,
    /// They are in futexes of their process alone; a mutex always is
    pub private: bool,
    /// Of threads by inference beside storage: none of them is on storage in any sub-sample
    pub no_turns: bool,
    /// Sub-samples of ten in which the threads of `storage` are there; all if it is left out
    pub storage_times: Option<u16>,
    pub peer: u16,
    /// Part of `peer`
    pub behind_peer: u16,
    /// Part of `lock-by-call`
    pub file_lock: u16,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Pipe {
    /// write, read
    pub call: String,
    /// The pid at the other end
    pub other: u32,
    /// Number of sub-samples in which it waits there
    #[serde(default = "all_sub_samples")]
    pub times: u16,
    /// Of a write: a thread was asleep in it at the sample
    #[serde(default)]
    pub is_full: bool,
}

/// What threads of the group wait for, at every sub-sample
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Queue {
    /// mutex, timed-mutex (which names its holder), timed-condition (the same call), rw-lock (of glibc, which names its writer), rw-lock-readers (the same call), futex, rust-mutex, file-lock, kernel-lock, storage, pipe, socket, remote, unix,
    /// postgres-lock (a futex in a process of PostgreSQL that waits for WALWrite), postgres-other (with another wait event),
    /// java-monitor (a futex of a thread that waits to enter one), java-util-concurrent (one that waits for such a lock)
    pub kind: String,
    pub threads: u16,
    /// Threads at the most frequent futex address
    #[serde(default)]
    pub at_one: u16,
    pub channel: Option<String>,
    /// Number of the system call on x86_64; -1 a page fault
    pub call: Option<i64>,
    pub file: Option<String>,
    /// Of PostgreSQL: its wait event
    pub event: Option<u32>,
    /// The pid of its holder, as the kernel reports it
    pub holder: Option<u32>,
    /// Of kind remote and unix: the process of this host for which they wait
    pub peer: Option<OwnerPeer>,
}

/// The thread that holds a futex lock of the process or a lock inside the kernel, and what it does
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Owner {
    pub tid: u32,
    /// The address of the lock; any number
    pub lock: u64,
    /// Threads that wait for it
    pub waiters: u32,
    /// State letter
    pub state: String,
    pub channel: Option<String>,
    /// Number on x86_64
    pub call: Option<i64>,
    /// The lock for which it waits itself
    pub waits_for: Option<u64>,
    /// It waits for that with a timeout
    #[serde(default)]
    pub timeout: bool,
    /// Of the threads that wait for it, those with a timeout
    #[serde(default)]
    pub timed_waiters: u32,
    /// Sub-samples that saw this; all if it is left out
    pub sub_samples: Option<u16>,
    /// Of a lock inside the kernel: what names the owner (mutex, semaphore, writer, reader); postgres: of WALWriteLock; java: of a Java monitor; java-util-concurrent: of such a lock; rw-lock: of a read-write lock
    pub field: Option<String>,
    /// Of the owner of a futex lock: the lock inside the kernel for which it waits
    pub kernel_lock: Option<u32>,
    /// The device of the file of its system call
    pub disk: Option<String>,
    /// Its process, if it is not this one
    pub pid: Option<u32>,
    /// Its name, if it is not that of the process
    pub name: Option<String>,
    /// The address and port to which it sent a request last
    pub remote: Option<String>,
    /// It has received its answer since
    #[serde(default)]
    pub answered: bool,
    /// The process at the other end of the pipe or socket in which it waits
    pub peer: Option<OwnerPeer>,
}

/// A process for which the owner of a lock waits, or threads of a queue, and what its only thread does
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct OwnerPeer {
    pub pid: u32,
    /// They are connected by pipes
    #[serde(default)]
    pub pipe: bool,
    /// It only sends requests or data: it opened the connection, or reads no pipe of the owner's process
    #[serde(default)]
    pub only_sends: bool,
    /// State letter
    pub state: String,
    pub channel: Option<String>,
    /// Number on x86_64
    pub call: Option<i64>,
    /// The lock for which it waits
    pub waits_for: Option<u64>,
    /// The device of the file of its system call
    pub disk: Option<String>,
    pub file: Option<String>,
    /// The address and port to which it sent a request last, and when
    pub remote: Option<String>,
    #[serde(default = "fifty_ms")]
    pub sent_ms: u32,
    /// The process for which it waits itself
    pub peer: Option<Box<OwnerPeer>>,
}

fn fifty_ms() -> u32 {
    50
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Holder {
    pub channel: Option<String>,
    /// Number on x86_64
    pub call: Option<i64>,
    /// The device of its file, if known
    pub disk: Option<String>,
    pub file: Option<String>,
    pub mount: Option<String>,
    /// The type of its file system
    pub file_system: Option<String>,
    /// How long it has been in this one wait at the end of the first interval; it grows from there where `stays`
    #[serde(default)]
    pub seconds: f64,
    #[serde(default)]
    pub stays: bool,
    /// Number of sub-samples in which it was there, and in which it waited for a lock itself
    #[serde(default = "all_sub_samples")]
    pub times: u16,
    #[serde(default)]
    pub queues: u16,
}

fn all_sub_samples() -> u16 {
    10
}

fn sleeping() -> char {
    'S'
}
