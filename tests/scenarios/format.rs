//! The format of a scenario file: what a machine does, phase by phase, and the findings that it must
//! raise. README.md in this folder explains every field.

use std::collections::BTreeMap;

use serde::Deserialize;
use stalltop::findings::{Kind, Severity};
use stalltop::sample::waits::WaitClass;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct File {
    pub case: Vec<Case>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Case {
    pub title: String,
    /// A rule that a similar case raises, and this one must not
    pub must_not_raise: Option<Kind>,
    #[serde(default = "two")]
    pub cpus: u32,
    /// The processes of other users are hidden
    #[serde(default)]
    pub hidepid: bool,
    pub phase: Vec<Phase>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Phase {
    #[serde(default = "five")]
    pub intervals: u32,
    /// Length of an interval
    #[serde(default = "one")]
    pub seconds: f64,
    /// Seconds without samples before this phase
    #[serde(default)]
    pub gap_seconds: f64,
    /// Seconds of suspend in the first interval
    #[serde(default)]
    pub suspended_seconds: f64,
    /// Per cent of each CPU that `core` does not name; made to add up to 100
    #[serde(default)]
    pub cpu: Shares,
    #[serde(default)]
    pub core: Vec<Core>,
    #[serde(default)]
    pub process: Vec<Process>,
    #[serde(default)]
    pub disk: Vec<Disk>,
    #[serde(default)]
    pub nic: Vec<Nic>,
    pub tcp: Option<Tcp>,
    pub udp: Option<Udp>,
    pub listen: Option<Listen>,
    #[serde(default)]
    pub peer: Vec<Peer>,
    /// Intervals from one scan of the connections to the next
    #[serde(default = "one_u32")]
    pub connection_scan_interval: u32,
    #[serde(default)]
    pub softnet: Vec<Softnet>,
    #[serde(default)]
    pub waiting: Vec<Waiting>,
    #[serde(default)]
    pub unix_sender: Vec<UnixSender>,
    #[serde(default)]
    pub limit: Vec<Limit>,
    #[serde(default)]
    pub namespace: Vec<Namespace>,
    #[serde(default)]
    pub cgroup: Vec<Cgroup>,
    #[serde(default)]
    pub weight: Vec<Weight>,
    #[serde(default)]
    pub container: Vec<Container>,
    pub memory: Option<Memory>,
    /// Per cent of the time
    #[serde(default)]
    pub pressure: Pressure,
    #[serde(default)]
    pub load: f64,
    /// Tasks that can run at each sample, the monitor among them
    pub runnable: Option<u32>,
    /// Processes and threads that begin, per second
    pub forks: Option<f64>,
    /// Exits that are reported; none if it is left out
    pub exits: Option<Vec<Exit>>,
    /// Exits whose messages were lost, per second
    #[serde(default)]
    pub lost: f64,
    #[serde(default)]
    pub expect: Expect,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Shares {
    pub user: f64,
    pub nice: f64,
    pub system: f64,
    pub irq: f64,
    pub softirq: f64,
    pub steal: f64,
    pub iowait: f64,
    /// The rest of 100 if it is not given
    pub idle: Option<f64>,
    /// In no field; below 0: counted twice
    pub unaccounted: f64,
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

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Core {
    pub cpu: u32,
    pub shares: Shares,
}

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
    /// Sub-samples that saw this; all if it is left out
    pub sub_samples: Option<u16>,
    /// Of a lock inside the kernel: what names the owner (mutex, semaphore, writer, reader)
    pub field: Option<String>,
    /// Of the owner of a futex lock: the lock inside the kernel for which it waits
    pub kernel_lock: Option<u32>,
    /// Its process, if it is not this one
    pub pid: Option<u32>,
    /// Its name, if it is not that of the process
    pub name: Option<String>,
    /// The address and port to which it sent a request last
    pub remote: Option<String>,
    /// The process at the other end of the pipe or socket in which it waits
    pub peer: Option<OwnerPeer>,
}

/// A process for which the owner of a lock waits, and what its only thread does
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
    /// mutex, futex, rust-mutex, file-lock, kernel-lock, storage, pipe, socket, remote
    pub kind: String,
    pub threads: u16,
    /// Threads at the most frequent futex address
    #[serde(default)]
    pub at_one: u16,
    pub channel: Option<String>,
    /// Number of the system call on x86_64; -1 a page fault
    pub call: Option<i64>,
    pub file: Option<String>,
    /// The pid of its holder, as the kernel reports it
    pub holder: Option<u32>,
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

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Disk {
    pub name: String,
    pub rotational: Option<bool>,
    pub serial: Option<String>,
    #[serde(default)]
    pub stands_on: Vec<String>,
    pub reads: Option<Operation>,
    pub writes: Option<Operation>,
    pub flushes: Option<Operation>,
    #[serde(default)]
    pub busy: f64,
    #[serde(default)]
    pub in_flight: u32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Operation {
    pub per_second: f64,
    pub await_ms: f64,
    /// What eBPF measures of single requests: requests per second, and the latency of each of them in milliseconds
    #[serde(default)]
    pub measured: Vec<(f64, f64)>,
    #[serde(default = "four")]
    pub kib: f64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Nic {
    pub name: String,
    pub mbps: Option<u32>,
    #[serde(default)]
    pub half_duplex: bool,
    #[serde(default)]
    pub r#virtual: bool,
    #[serde(default)]
    pub rx_kb: f64,
    #[serde(default)]
    pub tx_kb: f64,
    #[serde(default)]
    pub rx_packets: f64,
    #[serde(default)]
    pub tx_packets: f64,
    #[serde(default)]
    pub rx_dropped: f64,
    #[serde(default)]
    pub tx_dropped: f64,
    pub qdisc: Option<Qdisc>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Qdisc {
    pub kind: String,
    pub backlog_packets: u64,
    #[serde(default)]
    pub dropped: f64,
    #[serde(default)]
    pub overlimits: f64,
    /// Drops of its ingress filters
    pub ingress_dropped: Option<f64>,
    /// The rate of a shaper, in Mbit/s as tc prints it
    pub rate_mbit: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Tcp {
    pub out: f64,
    pub retransmitted: f64,
    /// Connection requests among them
    #[serde(default)]
    pub syn: f64,
}

/// Datagrams per second: given to programs, dropped at full buffers, and for other reasons
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Udp {
    pub r#in: f64,
    pub overflows: f64,
    #[serde(default)]
    pub errors: f64,
    /// Overflows of IPv6 sockets
    #[serde(default)]
    pub overflows6: f64,
    #[serde(default)]
    pub socket: Vec<UdpSocket>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Listen {
    #[serde(default)]
    pub drops: f64,
    #[serde(default)]
    pub overflows: f64,
    pub address: Option<String>,
    #[serde(default)]
    pub queue: u32,
    #[serde(default)]
    pub limit: u32,
    pub owner: Option<String>,
    /// SYN cookies a second, and how many of them come back
    #[serde(default)]
    pub cookies: f64,
    #[serde(default)]
    pub cookies_back: f64,
    /// SYNs a second that a full SYN queue drops; they count as drops, too
    #[serde(default)]
    pub syn_drops: f64,
    pub syn_queue: Option<SynQueue>,
}

/// Half-open connections of the listening socket, at each sample
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SynQueue {
    pub requests: u32,
    pub limit: u32,
    pub hosts: u32,
    pub top: std::net::IpAddr,
    pub top_requests: u32,
}

/// Another network namespace.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Namespace {
    /// The process through which it is read
    pub name: String,
    pub pid: u32,
    /// Whether a socket could be opened in it, so that queueing disciplines and sockets are read
    #[serde(default = "yes")]
    pub socket: bool,
    #[serde(default)]
    pub nic: Vec<Nic>,
    pub tcp: Option<Tcp>,
    pub udp: Option<Udp>,
    pub listen: Option<Listen>,
    /// The remote host to which all segments are retransmitted
    pub retransmits_to: Option<std::net::IpAddr>,
}

fn yes() -> bool {
    true
}

/// The UDP socket that drops, at each sample
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct UdpSocket {
    pub address: String,
    /// Datagrams per second that it drops
    pub drops: f64,
    #[serde(default)]
    pub queued_kb: u64,
    /// Name of the process with pid 900
    pub owner: Option<String>,
}

/// Connections of one process that wait for their remote end.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Waiting {
    /// Address and port
    pub remote: std::net::SocketAddr,
    /// connect, name-server, acknowledgement, closed-window, full-window, send-buffer, answer
    pub wait: String,
    #[serde(default = "one_u32")]
    pub connections: u32,
    pub threads: Option<u32>,
    /// Name of the process with pid 900
    pub owner: Option<String>,
    /// For how long at each sample
    #[serde(default)]
    pub seconds: f64,
    #[serde(default)]
    pub queued_kb: u64,
    #[serde(default)]
    pub retries: u32,
    /// Name of the process at the other end, with pid 901
    pub receiver: Option<String>,
    #[serde(default)]
    pub unread_kb: u64,
    #[serde(default)]
    pub receiving_threads: u32,
    #[serde(default)]
    pub polling_threads: u32,
    /// Of a connection that waits for an answer
    pub longest_answer_ms: Option<u32>,
}

/// A limit of the kernel that is nearly used up.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Limit {
    /// cgroup-tasks, open-files, host-files, tracked-connections, local-ports, host-tasks, task-ids
    pub kind: String,
    pub used: u64,
    pub max: u64,
    /// Per second; not counted if it is left out
    pub refused: Option<f64>,
    /// Name of the process, with pid 900
    pub owner: Option<String>,
    pub cgroup: Option<String>,
    pub remote: Option<String>,
    #[serde(default)]
    pub time_wait: u64,
}

/// Threads of one process that wait for a receiver on a Unix socket.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct UnixSender {
    /// Name and pid of the process
    pub owner: String,
    #[serde(default = "pid_of_owner")]
    pub pid: u32,
    #[serde(default)]
    pub threads: u32,
    #[serde(default)]
    pub polling_threads: u32,
    #[serde(default = "one_u32")]
    pub sockets: u32,
    #[serde(default)]
    pub datagrams: bool,
    pub address: Option<String>,
    /// Name of the process at the other end, with pid 901
    pub receiver: Option<String>,
    /// For how long at each sample
    #[serde(default)]
    pub seconds: f64,
    #[serde(default)]
    pub unread_kb: u64,
}

fn pid_of_owner() -> u32 {
    900
}

/// A remote host.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Peer {
    pub address: std::net::IpAddr,
    /// This machine itself
    #[serde(default)]
    pub local: bool,
    /// The interface of the route
    pub via: Option<String>,
    #[serde(default = "one_u32")]
    pub connections: u32,
    /// The part of them that carried data, at each scan
    #[serde(default)]
    pub active: u32,
    /// The part of `active` with more to send than the path takes
    #[serde(default)]
    pub pressed: u32,
    #[serde(default)]
    pub rtt_ms: f64,
    #[serde(default)]
    pub min_ms: f64,
    #[serde(default)]
    pub sent_kb: f64,
    #[serde(default)]
    pub retransmitted: f64,
    /// Per cent of the time
    #[serde(default)]
    pub application: f64,
    #[serde(default)]
    pub receiver: f64,
    #[serde(default)]
    pub send_buffer: f64,
    /// The process of its worst connection
    pub process: Option<String>,
}

/// Received packets of one CPU, per second.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Softnet {
    pub cpu: u32,
    #[serde(default)]
    pub packets: f64,
    #[serde(default)]
    pub squeezed: f64,
    #[serde(default)]
    pub dropped: f64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Cgroup {
    pub path: String,
    pub quota_cpus: Option<f64>,
    #[serde(default)]
    pub used_cpus: f64,
    /// Seconds per second, of all CPUs
    #[serde(default)]
    pub throttled: f64,
    /// Share of its periods in which it is throttled; without it of all
    pub throttled_periods: Option<f64>,
    pub memory_limit_mib: Option<u64>,
    #[serde(default)]
    pub memory_used_mib: u64,
    #[serde(default)]
    pub refaults: f64,
    #[serde(default)]
    pub major_faults: f64,
    /// Allocations per second that met the limit
    pub limit_hits: Option<f64>,
    /// In the first interval only
    pub oom_kills: Option<u64>,
    /// `oom` of its memory.events, in the first interval only
    pub limit_ooms: Option<u64>,
    /// Its own PSI memory some, per cent
    pub memory_stall: Option<f64>,
    /// The CPUs that its cpuset allows, `0-3,8`
    pub cpus: Option<String>,
    #[serde(default)]
    pub io: Vec<IoLimit>,
}

/// A container whose name the state of its runtime has
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Container {
    /// 64 hexadecimal digits
    pub id: String,
    pub name: String,
    pub pod: Option<String>,
    pub namespace: Option<String>,
}

/// The CPU weight of a cgroup
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Weight {
    pub path: String,
    pub weight: u64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct IoLimit {
    pub disk: String,
    /// A second, as the rest
    pub most_reads: Option<u64>,
    pub most_writes: Option<u64>,
    #[serde(default)]
    pub reads: f64,
    #[serde(default)]
    pub writes: f64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Memory {
    pub total_mib: u64,
    pub available_mib: u64,
    pub swap_in_mib: f64,
    pub swap_out_mib: f64,
    pub refaults: f64,
    /// Dirty and Writeback together, and the limit of dirty pages; the background limit is half of it
    pub dirty_mib: u64,
    pub dirty_limit_mib: Option<u64>,
    /// Pages reclaimed by kswapd and by tasks
    pub reclaimed: Option<f64>,
    /// Pages scanned by tasks themselves, and their stalls
    pub direct: Option<f64>,
    pub major_faults: f64,
    /// In the first interval of the phase only
    pub oom_kills: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Pressure {
    pub cpu: f64,
    pub io: f64,
    pub memory: f64,
    /// The kernel has no PSI
    pub absent: bool,
}

/// What must hold after the last interval of a phase. Findings that are not listed must not be there.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Expect {
    /// The kind of the first finding
    #[serde(default)]
    pub first: Option<Kind>,
    /// Words of the cross-check sentence, which says where iowait and PSI mislead; empty: there must be none
    pub cross_check: Option<String>,
    pub figures: BTreeMap<String, Figure>,
    pub finding: Vec<Expected>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    pub is: f64,
    #[serde(default = "hundredth")]
    pub within: f64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    pub kind: Kind,
    pub severity: Severity,
    /// Words of its sentence
    #[serde(default)]
    pub says: Vec<String>,
    #[serde(default)]
    pub never_says: Vec<String>,
    /// The kind of the finding that it must follow from; `none`: it must be a root cause
    #[serde(default)]
    pub follows_from: Option<String>,
    /// Words of the links of its chain
    #[serde(default)]
    pub chain: Vec<String>,
    #[serde(default)]
    pub never_chain: Vec<String>,
    /// Confidence of its chain: low, medium, high
    pub confidence: Option<String>,
    pub value: Option<Figure>,
    /// Values of its evidence by name, as text; `unknown`
    #[serde(default)]
    pub evidence: BTreeMap<String, String>,
    /// Age of the finding at the end of the phase, in seconds
    pub for_seconds: Option<Figure>,
}

fn two() -> u32 {
    2
}
fn five() -> u32 {
    5
}
fn one() -> f64 {
    1.0
}
fn one_u32() -> u32 {
    1
}
fn four() -> f64 {
    4.0
}
fn hundredth() -> f64 {
    0.01
}
fn sleeping() -> char {
    'S'
}
