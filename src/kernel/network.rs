//! Network interfaces and protocols: counters each time, facts about the interfaces only now and then.

mod dev;
pub mod ethtool;
mod facts;
mod listeners;
pub(super) mod netlink;
mod peers;
mod protocols;
mod qdisc;
mod softnet;

use std::sync::Arc;
use std::time::{Duration, Instant};

pub use dev::{Line, parse as parse_dev};
pub use listeners::listener;
pub use netlink::messages;
pub use peers::{connection, tcp_info};
pub use protocols::{ip_octets, tcp, tcp_ext, udp};
pub use qdisc::Trees;
pub use softnet::softnet;

use self::ethtool::Ethtool;
use self::listeners::ListenerReader;
use self::peers::PeerReader;
use self::qdisc::QdiscReader;
use super::fields::sole_number;
use super::root::{KeptFile, Root};
use super::uevents::Uevents;
use crate::ids::NicId;
use crate::sample::network::{Nic, NicFacts, Protocols, TcpExt};
use crate::sample::{Absent, Name, Reading};
use crate::units::Counter;

/// Facts are read again after this long: a link may have come up at another speed.
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
    facts_read: Option<Instant>,
    uevents: Uevents,
    ethtool: Option<Ethtool>,
    qdiscs: QdiscReader,
    listeners: ListenerReader,
    peers: PeerReader,
    last_tcp_ext: Option<TcpExt>,
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
            facts_read: None,
            uevents: Uevents::default(),
            ethtool: None,
            qdiscs: QdiscReader::default(),
            listeners: ListenerReader::default(),
            peers: PeerReader::default(),
            last_tcp_ext: None,
        }
    }
}

impl NetworkReader {
    /// Every interface of this network namespace, in the order of /proc/net/dev.
    pub fn sample(&mut self, root: &Root) -> Reading<Vec<Nic>> {
        self.dev.read(root, &mut self.buffer)?;
        let lines = dev::parse(&self.buffer).ok_or(Absent::Malformed)?;
        let same = lines.len() == self.known.len() && lines.iter().zip(&self.known).all(|(line, known)| known.is(line));
        let another = self.uevents.happened(root);
        if another || !same || self.facts_read.is_none_or(|read| read.elapsed() >= FACTS_FOR) {
            if self.ethtool.is_none() && root.is_host() {
                self.ethtool = Ethtool::open().ok();
            }
            let older = std::mem::take(&mut self.known);
            let ethtool = self.ethtool.as_ref();
            let look = || lines.iter().map(|line| look_at(root, line, &older, ethtool)).collect();
            self.known = self.uevents.look(look);
            self.facts_read = Some(Instant::now());
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
        let snmp = self.snmp.read(root, &mut self.buffer);
        let (tcp, udp) = (snmp.and_then(|()| tcp(&self.buffer)), snmp.and_then(|()| udp(&self.buffer)));
        let netstat = self.netstat.read(root, &mut self.buffer);
        let tcp_ext = netstat.and_then(|()| tcp_ext(&self.buffer));
        let ip_octets = netstat.and_then(|()| ip_octets(&self.buffer));
        let refused = |counts: &TcpExt| (counts.listen_drops, counts.listen_overflows);
        let last = std::mem::replace(&mut self.last_tcp_ext, tcp_ext.as_ref().ok().copied());
        let just_refused = last.is_some_and(|last| self.last_tcp_ext.is_some_and(|now| refused(&now) != refused(&last)));
        let listeners = if root.is_host() { self.listeners.sample(root, just_refused) } else { Err(Absent::NotRead) };
        let softnet = self.softnet.read(root, &mut self.buffer).and_then(|()| softnet(&self.buffer));
        let peers = if root.is_host() { self.peers.sample() } else { Err(Absent::NotRead) };
        Protocols { tcp, tcp_ext, udp, ip_octets, listeners, softnet, peers }
    }
}

impl Known {
    fn is(&self, line: &Line<'_>) -> bool {
        let fell = line.rx.packets < self.packets.0 || line.tx.packets < self.packets.1;
        self.id.name.as_bytes() == line.name && !fell
    }
}

/// Keeps name, facts and open files of the same interface where nothing is new.
fn look_at(root: &Root, line: &Line<'_>, older: &[Known], ethtool: Option<&Ethtool>) -> Known {
    let (ifindex, facts) = facts::read(root, line.name, ethtool);
    let before = older.iter().find(|known| known.id.name.as_bytes() == line.name);
    let name = before.map_or_else(|| Name::from(line.name), |known| known.id.name.clone());
    let directory = facts::directory(line.name).join("statistics");
    let hardware = !facts.loopback && !facts.virtual_device && root.exists(&directory);
    Known {
        id: NicId { ifindex, name },
        statistics: hardware.then(|| Statistics {
            rx_missed: KeptFile::new(directory.join("rx_missed_errors")),
            rx_nohandler: KeptFile::new(directory.join("rx_nohandler")),
        }),
        facts: match before {
            Some(known) if *known.facts == facts => known.facts.clone(),
            _ => Arc::new(facts),
        },
        packets: (line.rx.packets, line.tx.packets),
    }
}

fn counter(file: &mut KeptFile, root: &Root, buffer: &mut Vec<u8>) -> Option<Counter> {
    file.read(root, buffer).ok()?;
    sole_number(buffer).map(Counter)
}
