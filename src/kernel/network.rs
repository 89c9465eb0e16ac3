//! Reads network interfaces and protocol counters in each sample, and facts about interfaces from time to time. Each source
//! has its own file: /proc/net/dev in `dev`, /proc/net/snmp and netstat in `counter_files`, rtnetlink in `qdisc`,
//! /proc/net/softnet_stat in `softnet`, speed and duplex (ioctl SIOCETHTOOL) in `ethtool`; sock_diag in `listeners`,
//! `remote_hosts`, `syn_queues` (connection requests), `waiting_connections`, `name_server_sockets`, `udp_sockets`, `unix_senders` and
//! `unix_connects`. `namespaces` has the same of other network namespaces.

mod counter_files;
mod dev;
pub mod ethtool;
mod facts;
pub(super) mod inet_diag;
mod listeners;
mod name_server_sockets;
pub mod namespaces;
pub(super) mod netlink;
mod protocols;
mod qdisc;
pub(super) mod remote_hosts;
pub(super) mod sleeping_threads;
mod softnet;
mod syn_queues;
mod udp_sockets;
pub mod unix_connects;
pub mod unix_senders;
mod waiting_connections;

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};

pub use dev::{DevLine, parse as parse_dev};
pub use listeners::parse_listener;
pub use netlink::parse_messages;
pub use protocols::{parse_ip_octets, parse_tcp, parse_tcp_ext, parse_udp, parse_udp6};
pub use qdisc::QdiscTrees;
pub use remote_hosts::{parse_connection, parse_tcp_info};
pub use softnet::parse_softnet;
pub use udp_sockets::parse_udp_sockets;

use self::counter_files::{CounterFiles, NamespaceCounters};
use self::ethtool::Ethtool;
use self::listeners::ListenerReader;
use self::name_server_sockets::NameServerSocketReader;
use self::namespaces::NamespaceReader;
use self::qdisc::QdiscReader;
use self::remote_hosts::{ConnectionCounters, ConnectionTable, RemoteHostReader, WaitingSocket};
use self::syn_queues::SynQueueReader;
use self::udp_sockets::UdpSocketReader;
use self::waiting_connections::WaitingConnectionReader;
use super::fields::parse_single_u64;
use super::refresh_cycle::RefreshCycle;
use super::root::{FileHandle, Root};
use super::scan::NetworkNamespaceMembers;
use super::task::files::TaskFiles;
use super::uevents::UeventWatcher;
use crate::ids::NicId;
use crate::sample::network::namespaces::NetworkNamespaces;
use crate::sample::network::waiting_connections::WaitingConnections;
use crate::sample::network::{Nic, NicFacts, Protocols, TcpExt};
use crate::sample::task::Tasks;
use crate::sample::{Absent, Name, Reading};
use crate::units::Counter;

/// Facts are read again after this time, since a link may come up at another speed; with hundreds of interfaces, those of some
/// interfaces in each sample.
const FACTS_TTL: Duration = Duration::from_secs(10);

/// Reads network counters; keeps files and sockets open.
#[derive(Debug)]
pub struct NetworkReader {
    dev: FileHandle,
    counter_files: CounterFiles,
    snmp6: FileHandle,
    softnet: FileHandle,
    buffer: Vec<u8>,
    small_buffer: Vec<u8>,
    known_interfaces: Vec<KnownInterface>,
    refresh_cycle: RefreshCycle<Name>,
    uevent_watcher: UeventWatcher,
    ethtool: Option<Ethtool>,
    qdiscs: QdiscReader,
    listeners: ListenerReader,
    syn_queues: SynQueueReader,
    remote_hosts: RemoteHostReader,
    waiting_connections: WaitingConnectionReader,
    name_server_sockets: NameServerSocketReader,
    udp_sockets: UdpSocketReader,
    namespaces: NamespaceReader,
    last_tcp_ext: Option<TcpExt>,
}

/// A known interface, in the order of /proc/net/dev.
#[derive(Debug)]
struct KnownInterface {
    id: NicId,
    facts: Arc<NicFacts>,
    /// rx_missed_errors, only of hardware: other interfaces do not miss packets this way.
    statistics: Option<StatisticsFiles>,
    /// Packets at the last sample. If they decrease, it is another interface of the same name.
    packets: (Counter, Counter),
}

#[derive(Debug)]
struct StatisticsFiles {
    rx_missed: FileHandle,
    rx_nohandler: FileHandle,
}

impl Default for NetworkReader {
    fn default() -> NetworkReader {
        NetworkReader {
            dev: FileHandle::new("proc/net/dev"),
            counter_files: CounterFiles::new("proc/net"),
            snmp6: FileHandle::new("proc/net/snmp6"),
            softnet: FileHandle::new("proc/net/softnet_stat"),
            buffer: Vec::new(),
            small_buffer: Vec::new(),
            known_interfaces: Vec::new(),
            refresh_cycle: RefreshCycle::with_period(FACTS_TTL),
            uevent_watcher: UeventWatcher::default(),
            ethtool: None,
            qdiscs: QdiscReader::default(),
            listeners: ListenerReader::default(),
            syn_queues: SynQueueReader::default(),
            remote_hosts: RemoteHostReader::default(),
            waiting_connections: WaitingConnectionReader::default(),
            name_server_sockets: NameServerSocketReader::for_this_namespace(),
            udp_sockets: UdpSocketReader::for_this_namespace(),
            namespaces: NamespaceReader::default(),
            last_tcp_ext: None,
        }
    }
}

impl NetworkReader {
    /// Every interface of this network namespace, in the order of /proc/net/dev.
    pub fn sample(&mut self, root: &Root) -> Reading<Vec<Nic>> {
        self.dev.read(root, &mut self.buffer)?;
        let lines = dev::parse(&self.buffer).ok_or(Absent::Malformed)?;
        if self.ethtool.is_none() && root.is_host() {
            self.ethtool = Ethtool::open().ok();
        }
        let ethtool = self.ethtool.as_ref();
        let same = lines.len() == self.known_interfaces.len()
            && lines.iter().zip(&self.known_interfaces).all(|(line, known)| known.matches(line));
        let are_all_new = self.known_interfaces.is_empty();
        if !same {
            self.known_interfaces = match_interfaces(root, &lines, std::mem::take(&mut self.known_interfaces), ethtool);
        }
        if self.refresh_cycle.is_due(self.uevent_watcher.has_new_event(root) || !same) {
            // The facts of new ones have just been read.
            self.refresh_cycle.start(self.known_interfaces.iter().filter(|_| !are_all_new).map(|known| known.id.name.clone()));
        }
        let turn: FxHashSet<Name> = self.refresh_cycle.next_batch().collect();
        for known in self.known_interfaces.iter_mut().filter(|known| turn.contains(&known.id.name)) {
            known.refresh_facts(root, ethtool);
        }
        let mut qdiscs = if root.is_host() { self.qdiscs.sample().unwrap_or_default() } else { Default::default() };
        let mut nics = Vec::with_capacity(lines.len());
        for (line, known) in lines.iter().zip(&mut self.known_interfaces) {
            known.packets = (line.rx.packets, line.tx.packets);
            let (rx_missed, rx_nohandler) = match &mut known.statistics {
                Some(files) => (
                    read_counter(&mut files.rx_missed, root, &mut self.small_buffer),
                    read_counter(&mut files.rx_nohandler, root, &mut self.small_buffer),
                ),
                None => (None, None),
            };
            nics.push(Nic {
                id: known.id.clone(),
                facts: known.facts.clone(),
                rx: line.rx,
                tx: line.tx,
                multicast: line.multicast,
                collisions: line.collisions,
                carrier_losses: line.carrier_losses,
                rx_missed,
                rx_nohandler,
                qdisc: qdiscs.remove(&known.id.ifindex),
            });
        }
        Ok(nics)
    }

    /// Counters of the network namespace, the listeners with connections in their accept queue, the remote hosts.
    pub fn protocols(&mut self, root: &Root) -> Protocols {
        let NamespaceCounters { tcp, udp, tcp_ext, ip_octets, .. } = self.counter_files.read(root, &mut self.buffer);
        let refused = |counts: &TcpExt| (counts.listen_drops, counts.listen_overflows);
        let last = std::mem::replace(&mut self.last_tcp_ext, tcp_ext.as_ref().ok().copied());
        let just_refused = last.is_some_and(|last| self.last_tcp_ext.is_some_and(|now| refused(&now) != refused(&last)));
        let opened = tcp.as_ref().ok().map(|tcp| tcp.passive_opens.0);
        let listeners = match (root.is_host(), just_refused) {
            (false, _) => Err(Absent::NotRead),
            (true, true) => self.listeners.sample_at_once(root, opened, Instant::now()),
            (true, false) => self.listeners.sample(root, opened, Instant::now()),
        };
        let syn_queues = if root.is_host() { self.syn_queues.sample(root, &tcp_ext) } else { Err(Absent::NotRead) };
        let udp6 = self.snmp6.read(root, &mut self.buffer).and_then(|()| parse_udp6(&self.buffer));
        let udp_sockets = self.udp_sockets.sample(root, &udp, &udp6);
        let softnet = self.softnet.read(root, &mut self.buffer).and_then(|()| parse_softnet(&self.buffer));
        let remote_hosts = if root.is_host() {
            self.remote_hosts.sample(root, tcp.as_ref().ok().map(ConnectionCounters::from_tcp))
        } else {
            Err(Absent::NotRead)
        };
        Protocols {
            tcp,
            tcp_ext,
            udp,
            ip_octets,
            listeners,
            softnet,
            remote_hosts,
            waiting_connections: Err(Absent::NotRead),
            syn_queues,
            udp_sockets,
            udp6,
            unix_senders: Err(Absent::NotRead),
        }
    }

    /// The connections that wait for their remote end, at the scan of the connections in `protocols` and in `namespaces`.
    pub fn waiting_connections(
        &mut self,
        root: &Root,
        files: &mut TaskFiles,
        machine: &[u8],
    ) -> Reading<Vec<WaitingConnections>> {
        if !root.is_host() {
            return Err(Absent::NotRead);
        }
        let Self { waiting_connections, name_server_sockets, remote_hosts, namespaces, .. } = self;
        name_server_sockets.sample(root, Instant::now());
        let tables: Vec<&ConnectionTable> =
            std::iter::once(remote_hosts.connections()).chain(namespaces.connection_tables()).collect();
        let lookups: Vec<&WaitingSocket> = name_server_sockets.waiting().chain(namespaces.name_server_sockets()).collect();
        Ok(waiting_connections.sample(&tables, &lookups, root, files, machine))
    }

    /// The other network namespaces, as last read.
    pub fn known_namespaces(&mut self) -> &mut NamespaceReader {
        &mut self.namespaces
    }

    /// The network namespaces of the processes in others than that of stalltop. `tasks` is of the same scan as `members`.
    pub fn namespaces(&mut self, root: &Root, members: &NetworkNamespaceMembers, tasks: &Tasks) -> Reading<NetworkNamespaces> {
        self.namespaces.sample(root, members, tasks)
    }
}

impl KnownInterface {
    fn new(root: &Root, line: &DevLine<'_>, ethtool: Option<&Ethtool>) -> KnownInterface {
        let (ifindex, facts) = facts::read(root, line.name, ethtool);
        KnownInterface {
            id: NicId { ifindex, name: Name::from(line.name) },
            statistics: statistics_files(root, line.name, &facts),
            facts: Arc::new(facts),
            packets: (line.rx.packets, line.tx.packets),
        }
    }

    /// Reads the facts again; keeps the allocation and open files if nothing changed.
    fn refresh_facts(&mut self, root: &Root, ethtool: Option<&Ethtool>) {
        let name = self.id.name.as_bytes();
        let (ifindex, facts) = facts::read(root, name, ethtool);
        if ifindex == self.id.ifindex && facts == *self.facts {
            return;
        }
        self.statistics = statistics_files(root, name, &facts);
        self.id.ifindex = ifindex;
        self.facts = Arc::new(facts);
    }

    fn matches(&self, line: &DevLine<'_>) -> bool {
        self.id.name.as_bytes() == line.name && !self.counters_fell(line)
    }

    fn counters_fell(&self, line: &DevLine<'_>) -> bool {
        line.rx.packets < self.packets.0 || line.tx.packets < self.packets.1
    }
}

/// The interfaces of these lines, in their order; known ones keep their facts and open files.
fn match_interfaces(
    root: &Root,
    lines: &[DevLine<'_>],
    older: Vec<KnownInterface>,
    ethtool: Option<&Ethtool>,
) -> Vec<KnownInterface> {
    let mut older: FxHashMap<Name, KnownInterface> = older.into_iter().map(|known| (known.id.name.clone(), known)).collect();
    let known = |line: &DevLine<'_>| {
        let before = older.remove(line.name).filter(|known| !known.counters_fell(line));
        before.unwrap_or_else(|| KnownInterface::new(root, line, ethtool))
    };
    lines.iter().map(known).collect()
}

fn statistics_files(root: &Root, name: &[u8], facts: &NicFacts) -> Option<StatisticsFiles> {
    let directory = facts::sysfs_directory(name).join("statistics");
    let hardware = !facts.loopback && !facts.virtual_device && root.exists(&directory);
    hardware.then(|| StatisticsFiles {
        rx_missed: FileHandle::new(directory.join("rx_missed_errors")),
        rx_nohandler: FileHandle::new(directory.join("rx_nohandler")),
    })
}

fn read_counter(file: &mut FileHandle, root: &Root, buffer: &mut Vec<u8>) -> Option<Counter> {
    file.read(root, buffer).ok()?;
    parse_single_u64(buffer).map(Counter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::refresh_cycle::BATCH_SIZE;
    use crate::proc_tree::ProcTree;

    const HEADER: &str = "Inter-|   Receive                                                |  Transmit\n \
        face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n";

    #[test]
    fn facts_of_every_interface_are_refreshed_while_others_appear_and_vanish() {
        let tree = ProcTree::empty();
        let stay: Vec<String> = (1..=BATCH_SIZE * 2).map(|index| format!("eth{index}")).collect();
        for (name, index) in stay.iter().zip(1..) {
            tree.write(format!("sys/class/net/{name}/ifindex"), format!("{index}\n"));
        }
        let link_up_at =
            |mbps: u32| stay.iter().for_each(|nic| tree.write(format!("sys/class/net/{nic}/speed"), format!("{mbps}\n")));
        let mut reader = NetworkReader::default();
        let mut speeds = |guest: u32| {
            let names = stay.iter().cloned().chain([format!("veth{guest}")]);
            let lines: String = names.map(|name| format!("{name}: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n")).collect();
            tree.write("proc/net/dev", format!("{HEADER}{lines}"));
            let nics = reader.sample(&tree.root()).unwrap();
            nics.iter().take(stay.len()).map(|nic| nic.facts.speed_mbps.unwrap()).collect::<Vec<_>>()
        };
        link_up_at(1000);
        assert_eq!(speeds(0), vec![1000; stay.len()]);
        link_up_at(10_000);
        assert_ne!(speeds(1), vec![10_000; stay.len()], "one sample refreshes only some of them");
        speeds(2);
        assert_eq!(speeds(3), vec![10_000; stay.len()]);
    }

    #[test]
    fn netstat_is_read_only_if_snmp_has_changed() {
        let tree = ProcTree::empty();
        let mut reader = NetworkReader::default();
        let mut drops = |packets: u32, drops: u32| {
            tree.write("proc/net/snmp", format!("Ip: InReceives\nIp: {packets}\n"));
            tree.write("proc/net/netstat", format!("TcpExt: ListenDrops\nTcpExt: {drops}\n"));
            let said = reader.protocols(&tree.root());
            said.tcp_ext.map(|counts| counts.listen_drops.map(|drops| drops.0))
        };
        assert_eq!(drops(7, 1), Ok(Some(1)));
        assert_eq!(drops(7, 2), Ok(Some(1)), "snmp did not change, so netstat was not read");
        assert_eq!(drops(8, 3), Ok(Some(3)));
        // A container may hide one of them, and show it again.
        let mut reader = NetworkReader::default();
        tree.remove("proc/net/netstat");
        assert_eq!(reader.protocols(&tree.root()).tcp_ext.map(drop), Err(Absent::NoSuchFile));
        tree.write("proc/net/netstat", "TcpExt: ListenDrops\nTcpExt: 5\n");
        assert!(reader.protocols(&tree.root()).tcp_ext.is_ok(), "netstat is read again although snmp is the same");
    }
}
