//! Network interfaces and protocols: counters each time, facts about the interfaces only now and then.

mod dev;
pub mod ethtool;
mod facts;
mod listeners;
pub(super) mod netlink;
pub(super) mod peers;
mod protocols;
mod qdisc;
mod softnet;

use std::sync::Arc;
use std::time::Duration;

use rustc_hash::{FxHashMap, FxHashSet};

pub use dev::{Line, parse as parse_dev};
pub use listeners::listener;
pub use netlink::messages;
pub use peers::{connection, tcp_info};
pub use protocols::{ip_octets, tcp, tcp_ext, udp};
pub use qdisc::Trees;
pub use softnet::softnet;

use self::ethtool::Ethtool;
use self::listeners::ListenerReader;
use self::peers::{Counted, PeerReader};
use self::qdisc::QdiscReader;
use super::fields::sole_number;
use super::root::{KeptFile, Root};
use super::rounds::Rounds;
use super::uevents::Uevents;
use crate::ids::NicId;
use crate::sample::network::{Nic, NicFacts, Protocols, Tcp, TcpExt, Udp};
use crate::sample::{Absent, Name, Reading};
use crate::units::Counter;

/// Facts are read again after this long: a link may have come up at another speed. Of hundreds of interfaces a few a sample.
const FACTS_FOR: Duration = Duration::from_secs(10);

/// Reads network counters again and again.
#[derive(Debug)]
pub struct NetworkReader {
    dev: KeptFile,
    snmp: KeptFile,
    netstat: KeptFile,
    softnet: KeptFile,
    buffer: Vec<u8>,
    small: Vec<u8>,
    known: Vec<Known>,
    rounds: Rounds<Name>,
    uevents: Uevents,
    ethtool: Option<Ethtool>,
    qdiscs: QdiscReader,
    listeners: ListenerReader,
    peers: PeerReader,
    last_tcp_ext: Option<TcpExt>,
    /// /proc/net/snmp as last read, and what the two files said then
    last_snmp: Vec<u8>,
    last_said: Option<Said>,
}

/// What /proc/net/snmp and /proc/net/netstat say of this network namespace.
#[derive(Clone, Copy, Debug)]
struct Said {
    tcp: Reading<Tcp>,
    udp: Reading<Udp>,
    tcp_ext: Reading<TcpExt>,
    ip_octets: Reading<(Counter, Counter)>,
}

/// What is remembered of an interface, in the order of /proc/net/dev.
#[derive(Debug)]
struct Known {
    id: NicId,
    facts: Arc<NicFacts>,
    /// Of hardware only: other interfaces do not miss packets this way.
    statistics: Option<Statistics>,
    /// As last seen. When they fall, it is another interface under the same name.
    packets: (Counter, Counter),
}

#[derive(Debug)]
struct Statistics {
    rx_missed: KeptFile,
    rx_nohandler: KeptFile,
}

impl Default for NetworkReader {
    fn default() -> NetworkReader {
        NetworkReader {
            dev: KeptFile::new("proc/net/dev"),
            snmp: KeptFile::new("proc/net/snmp"),
            netstat: KeptFile::new("proc/net/netstat"),
            softnet: KeptFile::new("proc/net/softnet_stat"),
            buffer: Vec::new(),
            small: Vec::new(),
            known: Vec::new(),
            rounds: Rounds::every(FACTS_FOR),
            uevents: Uevents::default(),
            ethtool: None,
            qdiscs: QdiscReader::default(),
            listeners: ListenerReader::default(),
            peers: PeerReader::default(),
            last_tcp_ext: None,
            last_snmp: Vec::new(),
            last_said: None,
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
        let same = lines.len() == self.known.len() && lines.iter().zip(&self.known).all(|(line, known)| known.is(line));
        let are_all_new = self.known.is_empty();
        if !same {
            self.known = meet(root, &lines, std::mem::take(&mut self.known), ethtool);
        }
        if self.rounds.is_due(self.uevents.happened(root) || !same) {
            // Those that are new have just been looked at.
            self.rounds.begin(self.known.iter().filter(|_| !are_all_new).map(|known| known.id.name.clone()));
        }
        let turn: FxHashSet<Name> = self.rounds.turn().collect();
        for known in self.known.iter_mut().filter(|known| turn.contains(&known.id.name)) {
            known.look_again(root, ethtool);
        }
        let mut qdiscs = if root.is_host() { self.qdiscs.sample().unwrap_or_default() } else { Default::default() };
        let mut nics = Vec::with_capacity(lines.len());
        for (line, known) in lines.iter().zip(&mut self.known) {
            known.packets = (line.rx.packets, line.tx.packets);
            let (rx_missed, rx_nohandler) = match &mut known.statistics {
                Some(files) => (
                    counter(&mut files.rx_missed, root, &mut self.small),
                    counter(&mut files.rx_nohandler, root, &mut self.small),
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

    /// Counters of the whole network namespace, the listeners with connections waiting, the remote hosts.
    pub fn protocols(&mut self, root: &Root) -> Protocols {
        let Said { tcp, udp, tcp_ext, ip_octets } = self.said(root);
        let refused = |counts: &TcpExt| (counts.listen_drops, counts.listen_overflows);
        let last = std::mem::replace(&mut self.last_tcp_ext, tcp_ext.as_ref().ok().copied());
        let just_refused = last.is_some_and(|last| self.last_tcp_ext.is_some_and(|now| refused(&now) != refused(&last)));
        let opened = tcp.as_ref().ok().map(|tcp| tcp.passive_opens.0);
        let listeners = if root.is_host() { self.listeners.sample(root, just_refused, opened) } else { Err(Absent::NotRead) };
        let softnet = self.softnet.read(root, &mut self.buffer).and_then(|()| softnet(&self.buffer));
        let peers = if root.is_host() { self.peers.sample(tcp.as_ref().ok().map(Counted::of)) } else { Err(Absent::NotRead) };
        Protocols { tcp, tcp_ext, udp, ip_octets, listeners, softnet, peers }
    }

    /// Both files; the second, the dearest of all, only where the first is another than the last time: it counts each packet
    /// and each segment, without which nothing that is taken from the second moves.
    fn said(&mut self, root: &Root) -> Said {
        let snmp = self.snmp.read(root, &mut self.buffer);
        if let Some(said) = self.last_said.filter(|_| snmp.is_ok() && self.buffer == self.last_snmp) {
            return said;
        }
        let (tcp, udp) = (snmp.and_then(|()| tcp(&self.buffer)), snmp.and_then(|()| udp(&self.buffer)));
        self.last_snmp.clone_from(&self.buffer);
        let netstat = self.netstat.read(root, &mut self.buffer);
        let tcp_ext = netstat.and_then(|()| tcp_ext(&self.buffer));
        let ip_octets = netstat.and_then(|()| ip_octets(&self.buffer));
        let said = Said { tcp, udp, tcp_ext, ip_octets };
        self.last_said = [snmp, netstat].iter().all(Result::is_ok).then_some(said);
        said
    }
}

impl Known {
    fn first(root: &Root, line: &Line<'_>, ethtool: Option<&Ethtool>) -> Known {
        let (ifindex, facts) = facts::read(root, line.name, ethtool);
        Known {
            id: NicId { ifindex, name: Name::from(line.name) },
            statistics: statistics(root, line.name, &facts),
            facts: Arc::new(facts),
            packets: (line.rx.packets, line.tx.packets),
        }
    }

    /// Keeps name, facts and open files of the same interface where nothing is new.
    fn look_again(&mut self, root: &Root, ethtool: Option<&Ethtool>) {
        let name = self.id.name.as_bytes();
        let (ifindex, facts) = facts::read(root, name, ethtool);
        if ifindex == self.id.ifindex && facts == *self.facts {
            return;
        }
        self.statistics = statistics(root, name, &facts);
        self.id.ifindex = ifindex;
        self.facts = Arc::new(facts);
    }

    fn is(&self, line: &Line<'_>) -> bool {
        self.id.name.as_bytes() == line.name && !self.has_fallen(line)
    }

    fn has_fallen(&self, line: &Line<'_>) -> bool {
        line.rx.packets < self.packets.0 || line.tx.packets < self.packets.1
    }
}

/// Those of these lines, in their order: as they were known, where they were.
fn meet(root: &Root, lines: &[Line<'_>], older: Vec<Known>, ethtool: Option<&Ethtool>) -> Vec<Known> {
    let mut older: FxHashMap<Name, Known> = older.into_iter().map(|known| (known.id.name.clone(), known)).collect();
    let known = |line: &Line<'_>| {
        let before = older.remove(line.name).filter(|known| !known.has_fallen(line));
        before.unwrap_or_else(|| Known::first(root, line, ethtool))
    };
    lines.iter().map(known).collect()
}

fn statistics(root: &Root, name: &[u8], facts: &NicFacts) -> Option<Statistics> {
    let directory = facts::directory(name).join("statistics");
    let hardware = !facts.loopback && !facts.virtual_device && root.exists(&directory);
    hardware.then(|| Statistics {
        rx_missed: KeptFile::new(directory.join("rx_missed_errors")),
        rx_nohandler: KeptFile::new(directory.join("rx_nohandler")),
    })
}

fn counter(file: &mut KeptFile, root: &Root, buffer: &mut Vec<u8>) -> Option<Counter> {
    file.read(root, buffer).ok()?;
    sole_number(buffer).map(Counter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::rounds::AT_ONCE;

    const HEADER: &str = "Inter-|   Receive                                                |  Transmit\n \
        face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n";

    #[test]
    fn every_interface_has_its_turn_however_often_others_come_and_go() {
        let folder = tempfile::tempdir().unwrap();
        let write = |file: String, text: String| {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let stay: Vec<String> = (1..=AT_ONCE * 2).map(|index| format!("eth{index}")).collect();
        for (name, index) in stay.iter().zip(1..) {
            write(format!("sys/class/net/{name}/ifindex"), format!("{index}\n"));
        }
        let link_up_at =
            |mbps: u32| stay.iter().for_each(|nic| write(format!("sys/class/net/{nic}/speed"), format!("{mbps}\n")));
        let mut reader = NetworkReader::default();
        let mut speeds = |guest: u32| {
            let names = stay.iter().cloned().chain([format!("veth{guest}")]);
            let lines: String = names.map(|name| format!("{name}: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n")).collect();
            write("proc/net/dev".to_owned(), format!("{HEADER}{lines}"));
            let nics = reader.sample(&Root::at(folder.path().to_owned())).unwrap();
            nics.iter().take(stay.len()).map(|nic| nic.facts.speed_mbps.unwrap()).collect::<Vec<_>>()
        };
        link_up_at(1000);
        assert_eq!(speeds(0), vec![1000; stay.len()]);
        link_up_at(10_000);
        assert_ne!(speeds(1), vec![10_000; stay.len()], "so many at once are too dear");
        speeds(2);
        assert_eq!(speeds(3), vec![10_000; stay.len()]);
    }

    #[test]
    fn the_dear_file_is_read_where_the_other_has_counted_something() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("proc/net")).unwrap();
        let write = |file: &str, text: String| std::fs::write(folder.path().join("proc/net").join(file), text).unwrap();
        let mut reader = NetworkReader::default();
        let mut drops = |packets: u32, drops: u32| {
            write("snmp", format!("Ip: InReceives\nIp: {packets}\n"));
            write("netstat", format!("TcpExt: ListenDrops\nTcpExt: {drops}\n"));
            let said = reader.protocols(&Root::at(folder.path().to_owned()));
            said.tcp_ext.map(|counts| counts.listen_drops.map(|drops| drops.0))
        };
        assert_eq!(drops(7, 1), Ok(Some(1)));
        assert_eq!(drops(7, 2), Ok(Some(1)), "not a packet came: it was not read");
        assert_eq!(drops(8, 3), Ok(Some(3)));
        // A container may hide one of them, and show it again.
        let mut reader = NetworkReader::default();
        std::fs::remove_file(folder.path().join("proc/net/netstat")).unwrap();
        let root = Root::at(folder.path().to_owned());
        assert_eq!(reader.protocols(&root).tcp_ext.map(drop), Err(Absent::NoSuchFile));
        write("netstat", "TcpExt: ListenDrops\nTcpExt: 5\n".to_owned());
        assert!(reader.protocols(&root).tcp_ext.is_ok(), "asked again although the first file is the same");
    }
}
