//! The rules, one file each, by family, and the list of them. Families do not import each other: what they share is in
//! `findings`.

mod blocked_tasks;
mod cpu;
mod disk;
mod limits;
mod memory;
mod network;

use crate::findings::finding::Kind;
use crate::findings::rule::Rule;
use crate::findings::rules::blocked_tasks::database_lock_queue::DATABASE_LOCK_QUEUE;
use crate::findings::rules::blocked_tasks::deadlock::DEADLOCK;
use crate::findings::rules::blocked_tasks::file_lock_queue::FILE_LOCK_QUEUE;
use crate::findings::rules::blocked_tasks::hung_task::HUNG_TASK;
use crate::findings::rules::blocked_tasks::idle_but_blocked::IDLE_BUT_BLOCKED;
use crate::findings::rules::blocked_tasks::io_throttled::IO_THROTTLED;
use crate::findings::rules::blocked_tasks::kernel_lock_contention::KERNEL_LOCK_CONTENTION;
use crate::findings::rules::blocked_tasks::mutex_queue::MUTEX_QUEUE;
use crate::findings::rules::blocked_tasks::stuck_server::STUCK_SERVER;
use crate::findings::rules::blocked_tasks::traced_process::TRACED_PROCESS;
use crate::findings::rules::cpu::cpu_saturated::CPU_SATURATED;
use crate::findings::rules::cpu::cpu_stolen::CPU_STOLEN;
use crate::findings::rules::cpu::cpu_throttled::CPU_THROTTLED;
use crate::findings::rules::cpu::hidden_cpu::HIDDEN_CPU;
use crate::findings::rules::cpu::load_average::LOAD_NOT_CPU;
use crate::findings::rules::cpu::saturated_core::SATURATED_CORE;
use crate::findings::rules::cpu::saturated_thread::SATURATED_THREAD;
use crate::findings::rules::cpu::short_lived::SHORT_LIVED_PROCESSES;
use crate::findings::rules::disk::busy::DISK_BUSY_NOT_SATURATED;
use crate::findings::rules::disk::drift::DISK_DRIFT;
use crate::findings::rules::disk::latency::DISK_LATENCY;
use crate::findings::rules::disk::stalled::DISK_STALLED;
use crate::findings::rules::limits::limit_reached::LIMIT_REACHED;
use crate::findings::rules::memory::oom_kill::OOM_KILL;
use crate::findings::rules::memory::pressure::MEMORY_PRESSURE;
use crate::findings::rules::memory::swapping::SWAPPING;
use crate::findings::rules::network::answer_blocked::ANSWER_BLOCKED;
use crate::findings::rules::network::connect_blocked::CONNECT_BLOCKED;
use crate::findings::rules::network::listen_overflow::LISTEN_OVERFLOW;
use crate::findings::rules::network::lookup_blocked::LOOKUP_BLOCKED;
use crate::findings::rules::network::network_latency::NETWORK_LATENCY;
use crate::findings::rules::network::nic_saturated::NIC_SATURATED;
use crate::findings::rules::network::send_blocked::SEND_BLOCKED;
use crate::findings::rules::network::syn_queue_overflow::SYN_QUEUE_OVERFLOW;
use crate::findings::rules::network::tcp_retransmits::TCP_RETRANSMITS;
use crate::findings::rules::network::udp_overflow::UDP_OVERFLOW;
pub use blocked_tasks::kernel_lock_contention::waits_for_thaw;
pub use cpu::cpu_throttled::begins_with_idle_host;
pub use cpu::kernel_work::works_for_memory;

/// All rules, in the order of `Kind`.
pub const RULES: &[Rule] = &[
    IDLE_BUT_BLOCKED,
    KERNEL_LOCK_CONTENTION,
    DEADLOCK,
    STUCK_SERVER,
    TRACED_PROCESS,
    FILE_LOCK_QUEUE,
    MUTEX_QUEUE,
    DATABASE_LOCK_QUEUE,
    SATURATED_CORE,
    SATURATED_THREAD,
    CPU_SATURATED,
    CPU_THROTTLED,
    CPU_STOLEN,
    HIDDEN_CPU,
    SHORT_LIVED_PROCESSES,
    DISK_LATENCY,
    DISK_BUSY_NOT_SATURATED,
    DISK_STALLED,
    DISK_DRIFT,
    IO_THROTTLED,
    HUNG_TASK,
    NIC_SATURATED,
    TCP_RETRANSMITS,
    LISTEN_OVERFLOW,
    SYN_QUEUE_OVERFLOW,
    UDP_OVERFLOW,
    NETWORK_LATENCY,
    SEND_BLOCKED,
    CONNECT_BLOCKED,
    LOOKUP_BLOCKED,
    ANSWER_BLOCKED,
    LOAD_NOT_CPU,
    MEMORY_PRESSURE,
    SWAPPING,
    OOM_KILL,
    LIMIT_REACHED,
];

impl Kind {
    /// The kind with that name.
    pub fn from_name(word: &str) -> Option<Kind> {
        RULES.iter().map(|rule| rule.kind).find(|kind| kind.as_str() == word)
    }

    /// The rule of this kind: its explanation and next steps.
    pub fn rule(self) -> Option<&'static Rule> {
        RULES.iter().find(|rule| rule.kind == self)
    }
}
