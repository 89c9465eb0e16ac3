//! What a sample's payload consists of: the numbers of its sections, tables and columns. They never change their
//! meaning; docs/recording-format.md lists them.

pub mod machine;
pub mod peers;
pub mod tasks;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::cells::{Cells, cells};
use super::column::table::Table;
use crate::ids::CpuId;
use crate::sample::cpu::{Cpu, CpuTimes, Load};
use crate::sample::exits::{ExitedTasks, Exits, UnlistedExits};
use crate::sample::memory::Memory;
use crate::sample::network::{Tcp, TcpExt, Udp};
use crate::sample::operations::Operations;
use crate::sample::pressure::Pressure;
use crate::sample::task::HiddenTasks;
use crate::sample::{Name, Reading, Sample, SamplingCost};
use crate::units::Counter;
use peers::PeerSingles;
use tasks::SWITCHED;

/// The frame's own names.
pub const NAMES: u64 = 1;
/// Everything there is only one of.
pub const SINGLES: Table = Table { section: 2, width: Singles::WIDTH, keys: 0, steps: 0, fresh: None };
pub const CPUS: Table = Table { section: 3, width: <(CpuId, CpuTimes)>::WIDTH, keys: 1, steps: 1, fresh: None };
pub const DISKS: Table = Table { section: 4, width: 40, keys: 2, steps: 4, fresh: None };
pub const NICS: Table = Table { section: 5, width: 40, keys: 2, steps: 3, fresh: None };
pub const LISTENERS: Table = Table { section: 6, width: 16, keys: 6, steps: 6, fresh: None };
pub const CGROUPS: Table = Table { section: 7, width: 48, keys: 2, steps: 2, fresh: None };
pub const PROCESSES: Table = Table { section: 8, width: 40, keys: 2, steps: 13, fresh: None };
pub const THREADS: Table = Table { section: 9, width: 29, keys: 3, steps: 9, fresh: Some(SWITCHED) };
pub const GROUPS: Table = Table { section: 10, width: 4, keys: 4, steps: 2, fresh: None };
pub const THREAD_WAITS: Table = Table { section: 11, width: 36, keys: 3, steps: 4, fresh: None };
pub const BLOCKED: Table = Table { section: 12, width: 32, keys: 3, steps: 7, fresh: None };
pub const SUB_SAMPLES: Table = Table { section: 13, width: 24, keys: 0, steps: 24, fresh: None };
pub const GROUP_WAITS: Table = Table { section: 14, width: 16, keys: 0, steps: 0, fresh: None };
pub const SOFTNET: Table = Table { section: 15, width: 16, keys: 2, steps: 2, fresh: None };
pub const PEERS: Table = Table { section: 16, width: 48, keys: 3, steps: 3, fresh: None };
pub const EXITS: Table = Table { section: 20, width: 16, keys: 6, steps: 5, fresh: None };
pub const QUEUES: Table = Table { section: 21, width: 16, keys: 2, steps: 2, fresh: None };
pub const IO_LIMITS: Table = Table { section: 24, width: 24, keys: 4, steps: 4, fresh: None };
pub const DELAYS: Table = Table { section: 25, width: 24, keys: 3, steps: 3, fresh: None };

/// The tables that need nothing but their rows, in the order of their sections.
pub const PLAIN: [Table; 15] = [
    SINGLES,
    CPUS,
    DISKS,
    NICS,
    LISTENERS,
    CGROUPS,
    GROUPS,
    THREAD_WAITS,
    BLOCKED,
    SOFTNET,
    PEERS,
    EXITS,
    QUEUES,
    IO_LIMITS,
    DELAYS,
];

/// Since format 1.3: how columns are written from here on.
pub const FORMS: u64 = 62;
/// Since format 1.3: the bits of all columns of all tables, in the order of their sections; the last one.
pub const BITS: u64 = 63;

/// The table with that section.
pub fn table(section: u64) -> Option<Table> {
    let others = [PROCESSES, THREADS, SUB_SAMPLES, GROUP_WAITS];
    PLAIN.into_iter().chain(others).find(|table| table.section == section)
}

/// Everything in a sample that there is one of, as one row.
pub struct Singles {
    /// BOOTTIME less MONOTONIC. The other clocks stand in the frame's header.
    asleep_ns: u64,
    cost: SamplingCost,
    pub skipped: u32,
    pub cpu: Reading<CpuSingles>,
    pub load: Reading<Load>,
    pub memory: Reading<Memory>,
    pub pressure: Pressure,
    pub disks: Reading<()>,
    pub nics: Reading<()>,
    pub cgroups: Reading<()>,
    pub tcp: Reading<Tcp>,
    pub tcp_ext: Reading<TcpExt>,
    pub udp: Reading<Udp>,
    pub ip_octets: Reading<(Counter, Counter)>,
    pub listeners: Reading<()>,
    pub softnet: Reading<()>,
    pub tasks: Reading<TaskSingles>,
    pub peers: Reading<PeerSingles>,
    pub exits: Reading<ExitSingles>,
    pub operations: Reading<OperationSingles>,
    pub delays: Reading<()>,
}

cells! { Singles, 480 {
    asleep_ns @ 0, cost @ 8, skipped @ 16, cpu @ 24, load @ 88, memory @ 104, pressure @ 200,
    disks @ 296, nics @ 298, cgroups @ 300, delays @ 302,
    tcp @ 304, tcp_ext @ 320, udp @ 352, ip_octets @ 368, listeners @ 372, softnet @ 374, tasks @ 376, peers @ 392,
    exits @ 460, operations @ 476,
} }

/// /proc/stat without the lines `cpuN`.
pub struct CpuSingles {
    total: CpuTimes,
    context_switches: Option<Counter>,
    interrupts: Option<Counter>,
    forks: Option<Counter>,
    running: Option<u32>,
    blocked: Option<u32>,
}

cells! { CpuSingles, 63 {
    total @ 0, context_switches @ 16, interrupts @ 18, forks @ 20, running @ 22, blocked @ 24,
} }

/// The exits without their rows.
pub struct ExitSingles {
    others: UnlistedExits,
    known: u32,
    lost: Counter,
}

cells! { ExitSingles, 15 { others @ 0, known @ 8, lost @ 9 } }

/// The running total, and how long before the sample it was printed.
#[derive(Clone, Copy)]
pub struct OperationSingles {
    total: Counter,
    age_ns: u64,
}

cells! { OperationSingles, 2 { total @ 0, age_ns @ 1 } }

/// Where the total's cells begin in the row of singles: sub-samples are kept as differences from it.
pub const CPU_TOTAL: usize = 24 + 1;

/// The list of tasks without its rows.
pub struct TaskSingles {
    pub hidden: HiddenTasks,
    pub users: Arc<BTreeMap<u32, Name>>,
}

cells! { TaskSingles, 15 { hidden @ 0, users @ 6 } }
cells! { SamplingCost, 8 { process_cpu_ns @ 0, scan_cpu_ns @ 1, sub_samples_cpu_ns @ 2, start_delay_ns @ 3, tasks_read @ 4, skipped_samples @ 5 } }

impl Singles {
    pub fn of(sample: &Sample) -> Singles {
        let protocols = &sample.protocols;
        Singles {
            asleep_ns: sample.at.boottime_ns.wrapping_sub(sample.at.monotonic_ns),
            cost: sample.cost,
            skipped: sample.waits.skipped_sub_samples,
            cpu: sample.cpu.as_ref().map(CpuSingles::of).map_err(|why| *why),
            load: sample.load,
            memory: sample.memory,
            pressure: sample.pressure,
            disks: presence(&sample.disks),
            nics: presence(&sample.nics),
            cgroups: presence(&sample.cgroups),
            tcp: protocols.tcp,
            tcp_ext: protocols.tcp_ext,
            udp: protocols.udp,
            ip_octets: protocols.ip_octets,
            listeners: presence(&protocols.listeners),
            softnet: presence(&protocols.softnet),
            peers: protocols.remote_hosts.as_ref().map(PeerSingles::of).map_err(|why| *why),
            tasks: match &sample.tasks {
                Ok(tasks) => Ok(TaskSingles { hidden: tasks.hidden, users: tasks.users.clone() }),
                Err(why) => Err(*why),
            },
            exits: sample.exits.as_ref().map(ExitSingles::of).map_err(|why| *why),
            operations: sample.operations.map(|operations| OperationSingles::of(operations, sample.at.boottime_ns)),
            delays: presence(&sample.delays),
        }
    }

    pub fn monotonic_ns(&self, boottime_ns: u64) -> u64 {
        boottime_ns.wrapping_sub(self.asleep_ns)
    }

    pub fn cost(&self) -> SamplingCost {
        self.cost
    }
}

impl OperationSingles {
    fn of(operations: Operations, boottime_ns: u64) -> OperationSingles {
        OperationSingles { total: operations.total, age_ns: boottime_ns.wrapping_sub(operations.printed_boottime_ns) }
    }

    pub fn at(self, boottime_ns: u64) -> Operations {
        Operations { total: self.total, printed_boottime_ns: boottime_ns.wrapping_sub(self.age_ns) }
    }
}

impl ExitSingles {
    fn of(exits: &Exits) -> ExitSingles {
        ExitSingles { others: exits.unlisted, known: exits.previously_sampled, lost: exits.lost_messages }
    }

    pub fn with(self, rows: Vec<ExitedTasks>) -> Exits {
        Exits { rows, unlisted: self.others, previously_sampled: self.known, lost_messages: self.lost }
    }
}

impl CpuSingles {
    fn of(cpu: &Cpu) -> CpuSingles {
        CpuSingles {
            total: cpu.total,
            context_switches: cpu.context_switches,
            interrupts: cpu.interrupts,
            forks: cpu.forks,
            running: cpu.running,
            blocked: cpu.blocked,
        }
    }

    pub fn with(self, cpus: Vec<(CpuId, CpuTimes)>) -> Cpu {
        Cpu {
            total: self.total,
            cpus,
            context_switches: self.context_switches,
            interrupts: self.interrupts,
            forks: self.forks,
            running: self.running,
            blocked: self.blocked,
        }
    }
}

fn presence<T>(reading: &Reading<T>) -> Reading<()> {
    reading.as_ref().map(|_| ()).map_err(|why| *why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::payload::schema::tasks::{ProcessRow, SubSampleRow};
    use crate::sample::cgroup::{Cgroup, CgroupPressure, IoLimit, IoMax, IoStat};
    use crate::sample::delays::{Delay, TaskDelays};
    use crate::sample::disk::{Disk, OpCounters};
    use crate::sample::exits::ExitCpuTime;
    use crate::sample::network::remote_hosts::{RemoteHost, RttSums, SendLimitTimes};
    use crate::sample::network::{Direction, Listener, Nic, Qdisc, Softnet};
    use crate::sample::pressure::{Stall, StallLine};
    use crate::sample::task::{ChildrenCpuTime, RawSyscall, TaskIo, Thread};
    use crate::sample::waits::{BlockedThread, GroupWaits, ThreadWaits, WaitQueue};

    fn apart<T: Cells>() {
        let mut end = 0;
        let mut places = T::places();
        places.sort_unstable();
        for (at, width) in places {
            assert!(at >= end, "{}: two fields share cell {at}", std::any::type_name::<T>());
            end = at + width;
        }
        assert!(end <= T::WIDTH, "{}: wider than it says: {end}", std::any::type_name::<T>());
    }

    #[test]
    fn no_two_fields_share_a_cell() {
        apart::<Singles>();
        apart::<CpuSingles>();
        apart::<ExitSingles>();
        apart::<OperationSingles>();
        apart::<ExitedTasks>();
        apart::<UnlistedExits>();
        apart::<ExitCpuTime>();
        apart::<TaskSingles>();
        apart::<SamplingCost>();
        apart::<CpuTimes>();
        apart::<Load>();
        apart::<Memory>();
        apart::<Pressure>();
        apart::<Stall>();
        apart::<StallLine>();
        apart::<Tcp>();
        apart::<TcpExt>();
        apart::<Udp>();
        apart::<Disk>();
        apart::<OpCounters>();
        apart::<Nic>();
        apart::<Direction>();
        apart::<Qdisc>();
        apart::<Listener>();
        apart::<Softnet>();
        apart::<PeerSingles>();
        apart::<RemoteHost>();
        apart::<RttSums>();
        apart::<SendLimitTimes>();
        apart::<Delay>();
        apart::<TaskDelays>();
        apart::<Cgroup>();
        apart::<CgroupPressure>();
        apart::<IoLimit>();
        apart::<IoMax>();
        apart::<IoStat>();
        apart::<ProcessRow>();
        apart::<Thread>();
        apart::<ChildrenCpuTime>();
        apart::<TaskIo>();
        apart::<RawSyscall>();
        apart::<GroupWaits>();
        apart::<ThreadWaits>();
        apart::<BlockedThread>();
        apart::<WaitQueue>();
        apart::<SubSampleRow>();
    }

    #[test]
    fn each_table_is_as_wide_as_its_struct() {
        assert_eq!(DISKS.width, Disk::WIDTH);
        assert_eq!(NICS.width, Nic::WIDTH);
        assert_eq!(LISTENERS.width, Listener::WIDTH);
        assert_eq!(SOFTNET.width, Softnet::WIDTH);
        assert_eq!(PEERS.width, RemoteHost::WIDTH);
        assert_eq!(CGROUPS.width, Cgroup::WIDTH);
        assert_eq!(IO_LIMITS.width, IoLimit::WIDTH);
        assert_eq!(DELAYS.width, TaskDelays::WIDTH);
        assert_eq!(PROCESSES.width, ProcessRow::WIDTH);
        assert_eq!(THREADS.width, Thread::WIDTH + 1, "the process's pid comes first");
        assert_eq!(THREAD_WAITS.width, ThreadWaits::WIDTH);
        assert_eq!(BLOCKED.width, BlockedThread::WIDTH);
        assert_eq!(EXITS.width, ExitedTasks::WIDTH);
        assert_eq!(QUEUES.width, WaitQueue::WIDTH);
        assert_eq!(SUB_SAMPLES.width, SubSampleRow::WIDTH);
        assert_eq!(GROUP_WAITS.width, GroupWaits::WIDTH);
    }
}
