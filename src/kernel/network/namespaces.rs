//! Reads the network namespaces of other processes (containers, pods, `ip netns exec`): interfaces, TCP and UDP from
//! /proc/PID/net of one process in each, without entering it. Where permitted also its queueing disciplines and interface indices
//! (rtnetlink, over a socket that `entry` opens there once), and its listening sockets while connections are refused.
//!
//! An open file or socket of a namespace keeps it alive: all are closed at the sample after its last process has ended.

mod connections;
mod entry;
mod links;

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::socket::SockProtocol;

use self::connections::{ConnectionScan, WaitCounters};
use self::entry::run_in_namespace;
use self::links::Link;
use super::counter_files::{CounterFiles, NamespaceCounters};
use super::dev::{self, DevLine};
use super::ethtool::Ethtool;
use super::listeners::{self, socket_owner::SocketOwners};
use super::name_server_sockets::NameServerSocketReader;
use super::netlink::Netlink;
use super::protocols::parse_udp6;
use super::qdisc::QdiscDump;
use super::remote_hosts::{ConnectionTable, WaitingSocket};
use super::syn_queues::{self, FullCounts};
use super::udp_sockets::UdpSocketReader;
use crate::ids::{NicId, ProcessId};
use crate::kernel::root::{FileHandle, Root};
use crate::kernel::scan::NetworkNamespaceMembers;
use crate::kernel::waits::unix_sockets::open_unix_diag;
use crate::sample::network::namespaces::{MAX_NAMESPACES, NamespaceNic, NetworkNamespace, NetworkNamespaces, RetransmitHost};
use crate::sample::network::{Nic, NicFacts, TcpExt};
use crate::sample::task::{Process, Tasks};
use crate::sample::{Absent, Name, Reading};
use crate::units::Counter;

/// Time before another attempt to open a socket in a namespace.
const RETRY_ENTRY: Duration = Duration::from_secs(60);
/// The facts of its interfaces are read again after this time: one dump.
const FACTS_TTL: Duration = Duration::from_secs(10);
/// Least time between two readings of the sockets of one namespace while it refuses connections.
const MIN_SOCKET_INTERVAL: Duration = Duration::from_secs(2);

/// The namespaces of the last sample, with their open files.
#[derive(Debug, Default)]
pub struct NamespaceReader {
    known: BTreeMap<u64, KnownNamespace>,
    owners: SocketOwners,
    buffer: Vec<u8>,
}

impl NamespaceReader {
    /// Reads the namespaces of these processes; `tasks` is of the same scan.
    pub fn sample(&mut self, root: &Root, members: &NetworkNamespaceMembers, tasks: &Tasks) -> Reading<NetworkNamespaces> {
        if !members.is_own_known() {
            return Err(Absent::NoSuchFile);
        }
        let by_inode = members.by_inode();
        self.known.retain(|inode, _| by_inode.contains_key(inode));
        let mut all = NetworkNamespaces {
            count: u32::try_from(by_inode.len()).unwrap_or(u32::MAX),
            hidden_processes: u32::try_from(members.hidden_count()).unwrap_or(u32::MAX),
            ..NetworkNamespaces::default()
        };
        for (inode, pids) in by_inode.into_iter().take(MAX_NAMESPACES) {
            let processes = pids.iter().filter_map(|&pid| tasks.process(pid));
            let Some(first) = processes.min_by_key(|process| (process.start_ticks, process.pid)) else { continue };
            let known = self.known.entry(inode).or_insert_with(|| KnownNamespace::new(inode, first));
            if !pids.contains(&known.process.pid) {
                known.set_process(first);
            } else if known.process == first.id() {
                known.comm.clone_from(&first.comm);
            }
            known.sample(root, &mut all, &mut self.owners, &mut self.buffer);
        }
        Ok(all)
    }

    /// A sock_diag socket in each namespace in which one could be opened, for dumps of its Unix sockets.
    pub fn unix_sockets(&mut self) -> impl Iterator<Item = &mut Netlink> {
        self.known.values_mut().filter_map(|known| known.sockets.as_mut()?.unix.as_mut())
    }

    /// The same in the namespace with this inode.
    pub fn diag_socket(&mut self, inode: u64) -> Option<&mut Netlink> {
        self.known.get_mut(&inode)?.sockets.as_mut()?.unix.as_mut()
    }

    /// The connections of each namespace in which a socket could be opened, as last scanned.
    pub fn connection_tables(&self) -> impl Iterator<Item = &ConnectionTable> {
        let scans = self.known.values().filter_map(|known| known.sockets.as_ref()?.connections.as_ref());
        scans.map(ConnectionScan::connections)
    }

    /// The sockets of name lookups without an answer in all of them.
    pub fn name_server_sockets(&self) -> impl Iterator<Item = &WaitingSocket> {
        self.known.values().flat_map(|known| known.name_server_sockets.waiting())
    }
}

#[derive(Debug)]
struct KnownNamespace {
    inode: u64,
    /// Through which it is read
    process: ProcessId,
    comm: Name,
    files: Files,
    counter_files: CounterFiles,
    interfaces: Vec<Interface>,
    interfaces_read_at: Option<Instant>,
    sockets: Option<NamespaceSockets>,
    last_entry: Option<Instant>,
    last_sockets: Option<Instant>,
    udp_sockets: UdpSocketReader,
    name_server_sockets: NameServerSocketReader,
}

#[derive(Debug)]
struct Files {
    dev: FileHandle,
    snmp6: FileHandle,
}

impl Files {
    fn new(pid: u32) -> Files {
        let file = |name| FileHandle::new(format!("{}/{name}", directory(pid)));
        Files { dev: file("dev"), snmp6: file("snmp6") }
    }
}

fn directory(pid: u32) -> String {
    format!("proc/{pid}/net")
}

#[derive(Debug)]
struct Interface {
    id: NicId,
    facts: Arc<NicFacts>,
    /// As last read
    received: Counter,
    sent: Counter,
}

/// The sockets in the namespace, which are opened together.
#[derive(Debug)]
struct NamespaceSockets {
    /// rtnetlink
    netlink: Netlink,
    ethtool: Option<Ethtool>,
    /// For dumps of its Unix sockets
    unix: Option<Netlink>,
    qdiscs: QdiscDump,
    connections: Option<ConnectionScan>,
}

impl KnownNamespace {
    fn new(inode: u64, process: &Process) -> KnownNamespace {
        KnownNamespace {
            inode,
            process: process.id(),
            comm: process.comm.clone(),
            files: Files::new(process.pid),
            counter_files: CounterFiles::new(&directory(process.pid)),
            interfaces: Vec::new(),
            interfaces_read_at: None,
            sockets: None,
            last_entry: None,
            last_sockets: None,
            udp_sockets: UdpSocketReader::for_process(process.pid),
            name_server_sockets: NameServerSocketReader::for_process(process.pid),
        }
    }

    /// The process through which it was read has left it.
    fn set_process(&mut self, process: &Process) {
        (self.process, self.comm) = (process.id(), process.comm.clone());
        self.files = Files::new(process.pid);
        self.counter_files.set_directory(&directory(process.pid));
        self.udp_sockets = UdpSocketReader::for_process(process.pid);
        self.name_server_sockets = NameServerSocketReader::for_process(process.pid);
    }

    fn sample(&mut self, root: &Root, all: &mut NetworkNamespaces, owners: &mut SocketOwners, buffer: &mut Vec<u8>) {
        if self.sockets.is_none() && root.is_host() && self.last_entry.is_none_or(|last| last.elapsed() >= RETRY_ENTRY) {
            self.last_entry = Some(Instant::now());
            let open = || {
                let netlink = Netlink::open(SockProtocol::NetlinkRoute)?;
                let connections = if_supported(Netlink::open(SockProtocol::NetlinkSockDiag))?.map(ConnectionScan::new);
                Ok((netlink, if_supported(Ethtool::open())?, connections, if_supported(open_unix_diag())?))
            };
            let opened = run_in_namespace(root, self.process.pid, self.inode, open).and_then(|opened| opened);
            self.sockets = opened.ok().map(|(netlink, ethtool, connections, unix)| NamespaceSockets {
                netlink,
                ethtool,
                unix,
                qdiscs: QdiscDump::default(),
                connections,
            });
            self.interfaces.clear();
        }
        let last = self.counter_files.last();
        let NamespaceCounters { tcp, udp, tcp_ext, ip_octets, window_probes } = self.counter_files.read(root, buffer);
        let udp6 = self.files.snmp6.read(root, buffer).and_then(|()| parse_udp6(buffer));
        if let (Some(sockets), Ok(tcp_ext)) = (&mut self.sockets, &tcp_ext) {
            let retransmitted = tcp.as_ref().ok().map(|tcp| tcp.segments_retransmitted);
            let counters = WaitCounters::new(tcp_ext, window_probes, retransmitted);
            match sockets.connections.as_mut().map_or(Ok(()), |scan| scan.update(counters)) {
                Ok(()) => {}
                Err(why) if is_for_good(why) => sockets.connections = None,
                // As after each failed dump, its answer may still be in the socket.
                Err(_) => self.sockets = None,
            }
        }
        self.name_server_sockets.sample(root, Instant::now());
        let scan = self.sockets.as_ref().and_then(|sockets| sockets.connections.as_ref());
        let top_retransmit_host = scan.and_then(|scan| scan.connections().top_retransmits()).map(|(host, inode)| {
            owners.search(root, std::iter::once(inode));
            RetransmitHost {
                address: host.address,
                segments_retransmitted: host.segments_retransmitted,
                process: owners.owner(inode),
            }
        });
        let mut row = NetworkNamespace {
            inode: self.inode,
            process: self.process,
            comm: self.comm.clone(),
            has_socket: self.sockets.is_some(),
            tcp,
            tcp_ext,
            udp,
            udp6,
            ip_octets,
            fullest_listener: None,
            fullest_syn_queue: None,
            top_udp_socket: self.udp_sockets.sample(root, &udp, &udp6).ok().and_then(|sockets| sockets.into_iter().next()),
            top_retransmit_host,
        };
        if let Some((Ok(before), Ok(now))) = last.map(|last| (last.tcp_ext, tcp_ext))
            && self.sockets.is_some()
        {
            self.read_queues(root, &before, &now, &mut row, owners);
        }
        self.read_interfaces(root, all, buffer);
        all.rows.push(row);
    }

    /// The accept queue and the SYN queue that the kernel counts to be full.
    fn read_queues(
        &mut self,
        root: &Root,
        before: &TcpExt,
        now: &TcpExt,
        row: &mut NetworkNamespace,
        owners: &mut SocketOwners,
    ) {
        let refused = |counts: &TcpExt| (counts.listen_drops, counts.listen_overflows);
        let (is_refusing, is_flooded) = (refused(before) != refused(now), FullCounts::new(before) != FullCounts::new(now));
        let too_soon = self.last_sockets.is_some_and(|last| last.elapsed() < MIN_SOCKET_INTERVAL);
        if too_soon || !(is_refusing || is_flooded) {
            return;
        }
        self.last_sockets = Some(Instant::now());
        let dump = || (is_refusing.then(listeners::dump_once), is_flooded.then(syn_queues::dump_queues));
        let Ok((waiting, queues)) = run_in_namespace(root, self.process.pid, self.inode, dump) else { return };
        let fill = |listener: &crate::sample::network::Listener| {
            f64::from(listener.accept_queue) / (f64::from(listener.backlog_limit) + 1.0)
        };
        let fullest = waiting
            .and_then(Result::ok)
            .and_then(|waiting| waiting.into_iter().max_by(|(_, a), (_, b)| fill(a).total_cmp(&fill(b))));
        let queue = queues.and_then(Result::ok).and_then(|queues| queues.into_iter().next());
        let inodes = fullest.iter().map(|(inode, _)| *inode).chain(queue.iter().filter_map(|(inode, _)| *inode));
        owners.search(root, inodes);
        row.fullest_listener = fullest.map(|(inode, mut listener)| {
            listener.owner = owners.owner(inode);
            listener
        });
        row.fullest_syn_queue = queue.map(|(inode, mut queue)| {
            queue.owner = inode.and_then(|inode| owners.owner(inode));
            queue
        });
    }

    fn read_interfaces(&mut self, root: &Root, all: &mut NetworkNamespaces, buffer: &mut Vec<u8>) {
        let lines = self.files.dev.read(root, buffer).ok().and_then(|()| dev::parse(buffer));
        let Some(lines) = lines else { return };
        let is_same = lines.len() == self.interfaces.len()
            && lines.iter().zip(&mut self.interfaces).all(|(line, known)| known.is_continued_by(line));
        let is_old = self.interfaces_read_at.is_none_or(|last| last.elapsed() >= FACTS_TTL);
        if !is_same || is_old && self.sockets.is_some() {
            self.interfaces_read_at = Some(Instant::now());
            let links = self.sockets.as_mut().map(|sockets| links::read(&mut sockets.netlink));
            // An answer that was not read to its end makes the socket useless.
            if matches!(links, Some(Err(_))) {
                self.sockets = None;
            }
            let links = links.and_then(Result::ok);
            // After an error the known facts are kept.
            if !is_same || links.is_some() {
                let links = links.unwrap_or_default();
                let ethtool = self.sockets.as_ref().and_then(|sockets| sockets.ethtool.as_ref());
                let before = mem::take(&mut self.interfaces);
                let read = |(line, place): (_, usize)| Interface::new(line, &links, ethtool).share_facts(before.get(place));
                self.interfaces = lines.iter().zip(0..).map(read).collect();
            }
        }
        let qdiscs = self.sockets.as_mut().map(|sockets| sockets.qdiscs.read(&mut sockets.netlink));
        if matches!(qdiscs, Some(Err(_))) {
            self.sockets = None;
        }
        let mut qdiscs = qdiscs.and_then(Result::ok).unwrap_or_default();
        all.nics.extend(lines.iter().zip(&self.interfaces).map(|(line, known)| NamespaceNic {
            namespace: self.inode,
            nic: Nic {
                id: known.id.clone(),
                facts: Arc::clone(&known.facts),
                rx: line.rx,
                tx: line.tx,
                multicast: line.multicast,
                collisions: line.collisions,
                carrier_losses: line.carrier_losses,
                rx_missed: None,
                rx_nohandler: None,
                qdisc: qdiscs.remove(&known.id.ifindex),
            },
        }));
    }
}

/// `None` where the kernel lacks it or forbids it; an error that may pass stays one.
fn if_supported<T>(opened: Reading<T>) -> Reading<Option<T>> {
    match opened {
        Err(why) if is_for_good(why) => Ok(None),
        opened => opened.map(Some),
    }
}

/// Whether another attempt would fail, too. `Os` has the errors of a machine that is short of something: ENOBUFS, EMFILE.
fn is_for_good(why: Absent) -> bool {
    const NO_PROTOCOL: [i32; 3] = [libc::EPROTONOSUPPORT, libc::EAFNOSUPPORT, libc::ESOCKTNOSUPPORT];
    match why {
        Absent::NoSuchFile | Absent::NoPermission | Absent::Unsupported => true,
        Absent::Os(errno) => NO_PROTOCOL.contains(&errno),
        _ => false,
    }
}

impl Interface {
    /// An interface of which rtnetlink says nothing is taken for a virtual one: its speed is not known.
    fn new(line: &DevLine<'_>, links: &[Link], ethtool: Option<&Ethtool>) -> Interface {
        let link = links.iter().find(|link| link.name == line.name);
        let is_loopback = link.map_or(line.name == b"lo", |link| link.is_loopback);
        let is_virtual = link.is_none_or(|link| link.is_virtual);
        let settings = ethtool.filter(|_| !is_virtual && !is_loopback).map(|ethtool| ethtool.link_settings(line.name));
        let (speed_mbps, duplex) = match settings {
            Some(Ok((speed, duplex))) => (super::facts::valid_speed(u64::from(speed)), duplex.ok_or(Absent::Unsupported)),
            Some(Err(why)) => (Err(why), Err(why)),
            None => (Err(Absent::Unsupported), Err(Absent::Unsupported)),
        };
        let facts = NicFacts {
            speed_mbps,
            duplex,
            up: link.map(|link| link.is_up),
            loopback: is_loopback,
            virtual_device: is_virtual && !is_loopback,
        };
        Interface {
            id: NicId { ifindex: link.map_or(0, |link| link.ifindex), name: Name::from(line.name) },
            facts: Arc::new(facts),
            received: line.rx.bytes,
            sent: line.tx.bytes,
        }
    }

    /// Facts that did not change keep their allocation, which samples share.
    fn share_facts(self, before: Option<&Interface>) -> Interface {
        let facts = before.map(|before| &before.facts).filter(|facts| **facts == self.facts).map(Arc::clone);
        Interface { facts: facts.unwrap_or(self.facts), ..self }
    }

    /// Whether the line may be of the same interface: another one of this name has counters of its own.
    fn is_continued_by(&mut self, line: &DevLine<'_>) -> bool {
        let (received, sent) = (mem::replace(&mut self.received, line.rx.bytes), mem::replace(&mut self.sent, line.tx.bytes));
        self.id.name.as_bytes() == line.name && line.rx.bytes >= received && line.tx.bytes >= sent
    }
}
