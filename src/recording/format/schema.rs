//! The schema of the payload of a sample: its sections, and the columns of the table in each.
//!
//! A field is declared in one line of the list of its struct (`columns!`), in the file of its subject. Section numbers and
//! columns never change their meaning; docs/recording-format.md lists them, and a test compares it with these files.

mod machine;
mod network;
mod tasks;

use super::columns::{Columns, columns, read_at, write_at};
use super::names::{Interner, Names};
use super::table::{Rows, Table};
use super::wire::{LATER_KIND, Malformed};
use crate::ids::{CpuId, GroupId};
use crate::sample::block_latencies::LatencyBucket;
use crate::sample::cgroup::{Cgroup, CgroupWeight, ContainerName, IoLimit};
use crate::sample::cpu::{CpuFrequency, CpuTimes};
use crate::sample::delays::TaskDelays;
use crate::sample::disk::Disk;
use crate::sample::exits::ExitedTasks;
use crate::sample::limits::Limit;
use crate::sample::memory::MemoryNode;
use crate::sample::network::namespaces::{NamespaceNic, NetworkNamespace};
use crate::sample::network::remote_hosts::RemoteHost;
use crate::sample::network::unix_senders::UnixSenders;
use crate::sample::network::waiting_connections::WaitingConnections;
use crate::sample::network::{Listener, Nic, Softnet, SynQueue, UdpSocket};
use crate::sample::stacks::{ThreadStack, UserStack};
use crate::sample::task::{Process, ReadTime, RunTime, Thread};
use crate::sample::waits::{
    BlockedWait, CoreDump, GroupWait, IpcHolder, IpcWaiter, KernelLockOwner, LockOwner, ObservedWait, OwnerPeer, PipeLink,
    ServerSocket, SocketWaiter, SubSample, ThreadWait, TracedProcess, UnreadServer, WaitQueue,
};
use crate::sample::{Absent, Instant, ReadDelays, Sample, SamplingCost};
pub use tasks::{FACTS, THREAD_COUNT, add_thread_counts, subtract_thread_counts};

/// Sections with this number or a higher one are of a later version.
pub const MAX_SECTIONS: usize = 96;

/// The names that the frame adds to those of the frames before it.
pub const NAMES: u64 = 1;

/// The values that a sample has one of: one row.
pub const SAMPLE: Table = Table { section: 2, width: Sample::WIDTH, keys: 0, steps: 0 };

columns! { Sample: 512 {
    at,
    cost,
    waits,
    cpu,
    load,
    memory,
    pressure,
    disks,
    nics,
    protocols,
    cgroups,
    io_limits,
    tasks,
    delays,
    exits,
    operations,
    cgroup_weights,
    read_delays,
    container_names,
    network_namespaces,
    limits,
    cpu_frequencies,
    stacks,
    block_latencies,
    user_stacks,
    memory_nodes,
} not recorded { context_switches = Err(Absent::NotRead) } }

columns! { ReadDelays: 4 { disks_us, nics_us, cgroups_us, network_namespaces_us } }

columns! { SamplingCost: 8 {
    process_cpu_ns,
    scan_cpu_ns,
    sub_samples_cpu_ns,
    start_delay_ns,
    tasks_read,
    skipped_samples,
} }

/// The time that the machine was suspended, ns. The decoder has BOOTTIME and REALTIME from the frame's header.
impl Columns for Instant {
    const WIDTH: usize = 1;

    fn write(&self, row: &mut [u64], names: &mut Interner) {
        self.boottime_ns.wrapping_sub(self.monotonic_ns).write(row, names);
    }

    fn read(row: &[u64], names: &Names<'_>) -> Result<Self, Malformed> {
        let suspended_ns = u64::read(row, names)?;
        Ok(Instant { boottime_ns: 0, monotonic_ns: suspended_ns.wrapping_neg(), realtime_ns: 0 })
    }
}

/// A list of the sample that is a table of its own.
pub struct List {
    pub table: Table,
    #[cfg(test)]
    name: &'static str,
    #[cfg(test)]
    describe: fn() -> Vec<super::columns::Described>,
    pub rows: fn(&Sample, &mut Interner) -> Rows,
    /// Fills the list of a sample, unless the sample says that it could not be read.
    pub fill: fn(&mut Sample, &Rows, &Names<'_>) -> Result<(), Malformed>,
}

macro_rules! lists {
    ($($section:literal $name:literal: $row:ty, keys $keys:literal, steps $steps:literal, $get:expr, $get_mut:expr;)*) => {
        &[$( List {
            table: Table { section: $section, width: <$row>::WIDTH, keys: $keys, steps: $steps },
            #[cfg(test)]
            name: $name,
            #[cfg(test)]
            describe: described::<$row>,
            rows: |sample, names| {
                let get: fn(&Sample) -> Result<&Vec<$row>, &Absent> = $get;
                to_rows(get(sample).map(Vec::as_slice).unwrap_or_default(), names)
            },
            fill: |sample, rows, names| {
                let get: fn(&mut Sample) -> Result<&mut Vec<$row>, &mut Absent> = $get_mut;
                let Ok(list) = get(sample) else { return Ok(()) };
                *list = from_rows(rows, names)?;
                Ok(())
            },
        } ),*]
    };
}

/// The lists of a sample, but for its tasks and the waits of its sub-samples: number and name of the section, type of a row, columns
/// that identify it, columns in which a new row resembles the one before, and where the list is.
pub const LISTS: &[List] = lists! {
    3 "CPUs": (CpuId, CpuTimes), keys 1, steps 1, |s| s.cpu.as_ref().map(|cpu| &cpu.cpus), |s| s.cpu.as_mut().map(|cpu| &mut cpu.cpus);
    4 "disks": Disk, keys 2, steps 4, |s| s.disks.as_ref(), |s| s.disks.as_mut();
    5 "network interfaces": Nic, keys 2, steps 3, |s| s.nics.as_ref(), |s| s.nics.as_mut();
    6 "listening sockets": Listener, keys 6, steps 6, |s| s.protocols.listeners.as_ref(), |s| s.protocols.listeners.as_mut();
    7 "cgroups": Cgroup, keys 2, steps 2, |s| s.cgroups.as_ref(), |s| s.cgroups.as_mut();
    10 "groups of the sub-samples": GroupId, keys 4, steps 2, |s| Ok(&s.waits.groups), |s| Ok(&mut s.waits.groups);
    13 "sub-samples": SubSample, keys 1, steps 24, |s| Ok(&s.waits.sub_samples), |s| Ok(&mut s.waits.sub_samples);
    15 "softnet": Softnet, keys 2, steps 2, |s| s.protocols.softnet.as_ref(), |s| s.protocols.softnet.as_mut();
    16 "remote hosts": RemoteHost, keys 3, steps 3, |s| s.protocols.remote_hosts.as_ref().map(|hosts| &hosts.rows), |s| s.protocols.remote_hosts.as_mut().map(|hosts| &mut hosts.rows);
    20 "exited tasks": ExitedTasks, keys 6, steps 5, |s| s.exits.as_ref().map(|exits| &exits.rows), |s| s.exits.as_mut().map(|exits| &mut exits.rows);
    24 "I/O limits": IoLimit, keys 4, steps 4, |s| Ok(&s.io_limits), |s| Ok(&mut s.io_limits);
    25 "delays of tasks": TaskDelays, keys 3, steps 3, |s| s.delays.as_ref(), |s| s.delays.as_mut();
    26 "observed waits": ObservedWait, keys 1, steps 1, |s| Ok(&s.waits.observed), |s| Ok(&mut s.waits.observed);
    27 "waits of threads": ThreadWait, keys 4, steps 5, |s| Ok(&s.waits.threads), |s| Ok(&mut s.waits.threads);
    31 "waits of blocked threads": BlockedWait, keys 3, steps 6, |s| Ok(&s.waits.blocked), |s| Ok(&mut s.waits.blocked);
    28 "waiters in pipes and sockets": IpcWaiter, keys 3, steps 5, |s| Ok(&s.waits.ipc_waiters), |s| Ok(&mut s.waits.ipc_waiters);
    29 "holders of their other ends": IpcHolder, keys 3, steps 3, |s| Ok(&s.waits.ipc_holders), |s| Ok(&mut s.waits.ipc_holders);
    32 "wait queues": WaitQueue, keys 4, steps 4, |s| Ok(&s.waits.wait_queues), |s| Ok(&mut s.waits.wait_queues);
    33 "waiters in TCP sockets": SocketWaiter, keys 3, steps 4, |s| Ok(&s.waits.socket_waiters), |s| Ok(&mut s.waits.socket_waiters);
    34 "sockets of blocked servers": ServerSocket, keys 3, steps 4, |s| Ok(&s.waits.server_sockets), |s| Ok(&mut s.waits.server_sockets);
    35 "pipes between processes": PipeLink, keys 2, steps 2, |s| Ok(&s.waits.pipe_links), |s| Ok(&mut s.waits.pipe_links);
    56 "traced processes": TracedProcess, keys 2, steps 2, |s| Ok(&s.waits.traced), |s| Ok(&mut s.waits.traced);
    57 "processes that dump core": CoreDump, keys 1, steps 1, |s| Ok(&s.waits.core_dumps), |s| Ok(&mut s.waits.core_dumps);
    36 "groups whose sockets were not read": UnreadServer, keys 1, steps 1, |s| Ok(&s.waits.unread_servers), |s| Ok(&mut s.waits.unread_servers);
    60 "owners of futex locks": LockOwner, keys 2, steps 3, |s| Ok(&s.waits.lock_owners), |s| Ok(&mut s.waits.lock_owners);
    61 "owners of kernel locks": KernelLockOwner, keys 2, steps 2, |s| Ok(&s.waits.kernel_lock_owners), |s| Ok(&mut s.waits.kernel_lock_owners);
    66 "processes for which owners of locks wait": OwnerPeer, keys 3, steps 4, |s| Ok(&s.waits.owner_peers), |s| Ok(&mut s.waits.owner_peers);
    67 "waits of these processes": BlockedWait, keys 3, steps 6, |s| Ok(&s.waits.peer_waits), |s| Ok(&mut s.waits.peer_waits);
    40 "SYN queues": SynQueue, keys 6, steps 6, |s| s.protocols.syn_queues.as_ref(), |s| s.protocols.syn_queues.as_mut();
    41 "waiting connections": WaitingConnections, keys 8, steps 8, |s| s.protocols.waiting_connections.as_ref(), |s| s.protocols.waiting_connections.as_mut();
    50 "CPU weights of cgroups": CgroupWeight, keys 2, steps 2, |s| Ok(&s.cgroup_weights), |s| Ok(&mut s.cgroup_weights);
    51 "names of containers": ContainerName, keys 1, steps 1, |s| Ok(&s.container_names), |s| Ok(&mut s.container_names);
    43 "network namespaces": NetworkNamespace, keys 1, steps 3, |s| s.network_namespaces.as_ref().map(|all| &all.rows), |s| s.network_namespaces.as_mut().map(|all| &mut all.rows);
    44 "interfaces of network namespaces": NamespaceNic, keys 3, steps 4, |s| s.network_namespaces.as_ref().map(|all| &all.nics), |s| s.network_namespaces.as_mut().map(|all| &mut all.nics);
    45 "UDP sockets": UdpSocket, keys 7, steps 7, |s| s.protocols.udp_sockets.as_ref(), |s| s.protocols.udp_sockets.as_mut();
    52 "senders on Unix sockets": UnixSenders, keys 10, steps 10, |s| s.protocols.unix_senders.as_ref(), |s| s.protocols.unix_senders.as_mut();
    53 "limits": Limit, keys 14, steps 14, |s| s.limits.as_ref().map(|limits| &limits.rows), |s| s.limits.as_mut().map(|limits| &mut limits.rows);
    42 "reading times of processes": ReadTime, keys 1, steps 2, |s| s.tasks.as_ref().map(|tasks| &tasks.read_times), |s| s.tasks.as_mut().map(|tasks| &mut tasks.read_times);
    68 "run times of threads": RunTime, keys 4, steps 6, |s| s.tasks.as_ref().map(|tasks| &tasks.run_times), |s| s.tasks.as_mut().map(|tasks| &mut tasks.run_times);
    63 "latencies of block requests": LatencyBucket, keys 4, steps 4, |s| s.block_latencies.as_ref().map(|all| &all.buckets), |s| s.block_latencies.as_mut().map(|all| &mut all.buckets);
    55 "CPU frequencies": CpuFrequency, keys 1, steps 1, |s| Ok(&s.cpu_frequencies), |s| Ok(&mut s.cpu_frequencies);
    58 "memory of NUMA nodes": MemoryNode, keys 1, steps 1, |s| Ok(&s.memory_nodes), |s| Ok(&mut s.memory_nodes);
    62 "kernel stacks of stuck threads": ThreadStack, keys 3, steps 3, |s| s.stacks.as_ref(), |s| s.stacks.as_mut();
    65 "user stacks of stuck threads": UserStack, keys 3, steps 3, |s| s.user_stacks.as_ref(), |s| s.user_stacks.as_mut();
};

/// Processes, without their threads but with the number of them. Rows are paired by pid and start time, in the order of pids.
pub const PROCESSES: Table = Table { section: 8, width: Process::WIDTH, keys: 2, steps: 14 };
/// The pid and a thread, of the processes that changed or are new, in their order.
pub const THREADS: Table = Table { section: 9, width: 1 + Thread::WIDTH, keys: 3, steps: 9 };
/// The place of a sub-sample in section 13, and one of its waits; in the order of the sub-samples.
pub const SUB_SAMPLE_WAITS: Table = Table { section: 30, width: <(u16, GroupWait)>::WIDTH, keys: 4, steps: 4 };

/// The columns of a row, for docs/recording-format.md.
#[cfg(test)]
fn described<T: Columns>() -> Vec<super::columns::Described> {
    let mut list = Vec::new();
    T::describe("", 0, &mut list);
    list
}

/// The section that is left empty with `Redaction::Arguments`.
pub const CONTAINER_NAMES: u64 = 51;

/// The rows of a table.
pub fn to_rows<T: Columns>(list: &[T], names: &mut Interner) -> Rows {
    let mut rows = Rows::with_capacity(T::WIDTH, list.len());
    for item in list {
        write_at(item, rows.append(), 0, names);
    }
    rows
}

impl List {
    /// Whether it is of tasks, or of what sub-samples saw of them.
    pub fn is_of_tasks(&self) -> bool {
        matches!(self.table.section, 10..=13 | 25..=29 | 31..=33 | 42 | 56..=57 | 62 | 65..=68)
    }
}

/// The items of a table, but for those of a kind that only a later version knows.
pub fn from_rows<T: Columns>(rows: &Rows, names: &Names<'_>) -> Result<Vec<T>, Malformed> {
    let mut items = Vec::with_capacity(rows.len());
    for row in rows.iter() {
        match read_at(row, 0, names) {
            Ok(item) => items.push(item),
            Err(LATER_KIND) => {}
            Err(malformed) => return Err(malformed),
        }
    }
    Ok(items)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::fmt::Write;

    use super::super::columns::Described;
    use super::super::shared_facts::SharedFacts;
    use super::*;
    use crate::sample::limits::LimitKind;

    /// Every table with the columns of its fields, as docs/recording-format.md has them.
    fn tables() -> String {
        let mut tables = vec![("sample", SAMPLE, described::<Sample>())];
        tables.extend(LISTS.iter().map(|list| (list.name, list.table, (list.describe)())));
        tables.extend([
            ("processes", PROCESSES, described::<Process>()),
            ("threads", THREADS, described::<(u32, Thread)>()),
            ("waits in each sub-sample", SUB_SAMPLE_WAITS, described::<(u16, GroupWait)>()),
        ]);
        let mut text = String::new();
        for (name, Table { section, keys, steps, .. }, columns) in tables {
            write!(text, "| {section} | {name} | {keys} | {steps} |").unwrap();
            for Described { path, columns } in columns {
                write!(text, " {} {path};", columns.start).unwrap();
            }
            text.pop();
            text.push_str(" |\n");
        }
        text
    }

    /// `STALLTOP_BLESS=1 cargo test --lib the_document_lists_every_column` writes the list anew.
    #[test]
    fn the_document_lists_every_column() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/recording-format.md");
        let text = std::fs::read_to_string(&path).unwrap();
        let (before, rest) = text.split_once("<!-- tables -->\n").unwrap();
        let (_, after) = rest.split_once("<!-- end of tables -->\n").unwrap();
        let head = "| section | table | keys | steps | columns |\n| --- | --- | --- | --- | --- |\n";
        let written = format!("{before}<!-- tables -->\n{head}{}<!-- end of tables -->\n{after}", tables());
        if std::env::var_os("STALLTOP_BLESS").is_some() {
            std::fs::write(&path, &written).unwrap();
        } else {
            assert_eq!(text, written, "the columns changed: no field may move once a version is released");
        }
    }

    #[test]
    fn the_named_columns_are_those_of_the_fields() {
        let mut list = Vec::new();
        Process::describe("", 0, &mut list);
        let threads = list.iter().find(|described| described.path == "threads").unwrap();
        assert_eq!(threads.columns, THREAD_COUNT..THREAD_COUNT + 1);
        let facts: Vec<_> = list.iter().filter(|described| described.path.starts_with("facts")).collect();
        let comm = list.iter().find(|described| described.path == "comm").unwrap();
        let next = list.iter().find(|described| described.path == "kernel_thread").unwrap();
        assert!(facts.iter().all(|fact| FACTS.start <= fact.columns.start && fact.columns.end <= FACTS.end));
        assert_eq!((comm.columns.end, next.columns.start), (FACTS.start, FACTS.end));
    }

    #[test]
    fn sections_are_numbered_apart() {
        let sections = LISTS.iter().map(|list| list.table).chain([SAMPLE, PROCESSES, THREADS, SUB_SAMPLE_WAITS]);
        let mut known = HashSet::from([NAMES]);
        assert!(sections.into_iter().all(|table| table.section < MAX_SECTIONS as u64 && known.insert(table.section)));
    }

    #[test]
    fn a_row_of_a_kind_that_only_a_later_version_knows_is_left_out() {
        let (known, empty, facts) = (Vec::new(), crate::sample::Name::default(), SharedFacts::default());
        let names = Names { list: &known, empty: &empty, facts: &facts };
        let limit = |used| Limit::new(LimitKind::HostFiles, used, 10);
        let mut rows = to_rows(&[limit(1), limit(2), limit(3)], &mut Interner::default());
        let later: Vec<Vec<u64>> = rows.iter().map(|row| [&[99], &row[1..]].concat()).collect();
        assert_eq!(from_rows::<Limit>(&rows, &names).unwrap().len(), 3);
        rows.push(&later[1]);
        assert_eq!(from_rows::<Limit>(&rows, &names).unwrap(), [limit(1), limit(2), limit(3)]);
    }

    #[test]
    fn a_recording_without_a_field_reads_it_as_not_read() {
        let (list, empty, facts) = (Vec::new(), crate::sample::Name::default(), SharedFacts::default());
        let names = Names { list: &list, empty: &empty, facts: &facts };
        let sample = Sample::read(&[0; Sample::WIDTH], &names).unwrap();
        assert_eq!(sample, Sample::empty(Instant::default()));
    }
}
