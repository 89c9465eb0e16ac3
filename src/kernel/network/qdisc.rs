//! Statistics of the queueing disciplines of every interface, by one RTM_GETQDISC dump. Any user may ask.

use netlink_packet_core::{NLA_HEADER_SIZE, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NlasIterator};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcHandle, TcHeader, TcMessage, TcStatsQueue};
use nix::sys::socket::SockProtocol;
use rustc_hash::FxHashMap;

use super::netlink::Netlink;
use crate::sample::network::Qdisc;
use crate::sample::{Name, Reading};
use crate::units::Counter;

const RTM_NEWQDISC: u16 = 36;
/// Bytes of struct tcmsg, before the attributes.
const TCMSG_SIZE: usize = 20;
const TCA_KIND: u16 = 1;
const TCA_STATS2: u16 = 7;
const TCA_STATS_QUEUE: u16 = 3;

/// Asks again and again over one socket.
#[derive(Debug, Default)]
pub struct QdiscReader {
    netlink: Option<Netlink>,
    request: Vec<u8>,
    /// So that a kind has one name in all samples.
    kinds: Vec<Name>,
}

impl QdiscReader {
    /// The root discipline of each interface, by interface index.
    pub fn sample(&mut self) -> Reading<FxHashMap<u32, Qdisc>> {
        let mut netlink = match self.netlink.take() {
            Some(netlink) => netlink,
            None => Netlink::open(SockProtocol::NetlinkRoute)?,
        };
        if self.request.is_empty() {
            self.request = qdisc_request();
        }
        let mut trees = QdiscTrees::default();
        netlink.dump(&mut self.request, |kind, payload| trees.add_message(kind, payload, &mut self.kinds))?;
        // Only a socket whose answer was read to its end is used again.
        self.netlink = Some(netlink);
        Ok(trees.into_root_qdiscs())
    }
}

/// What has been read of each interface's tree.
#[derive(Debug, Default)]
pub struct QdiscTrees {
    roots: FxHashMap<u32, Qdisc>,
    child_overlimits: FxHashMap<u32, u64>,
}

impl QdiscTrees {
    /// Takes in one message; one that cannot be understood is left out.
    pub fn add_message(&mut self, kind: u16, payload: &[u8], kinds: &mut Vec<Name>) {
        if kind != RTM_NEWQDISC {
            return;
        }
        let Ok(header) = TcHeader::parse(payload) else { return };
        let Ok(interface) = u32::try_from(header.index) else { return };
        // Ingress disciplines have no queue.
        if header.parent == TcHandle::INGRESS {
            return;
        }
        let Some((name, queue)) = parse_attributes(payload.get(TCMSG_SIZE..).unwrap_or_default()) else { return };
        if header.parent != TcHandle::ROOT {
            let below = self.child_overlimits.entry(interface).or_default();
            *below = below.saturating_add(u64::from(queue.overlimits));
            return;
        }
        let discipline = Qdisc {
            kind: intern_kind(name, kinds),
            backlog_bytes: u64::from(queue.backlog),
            backlog_packets: u64::from(queue.qlen),
            dropped: Counter(u64::from(queue.drops)),
            overlimits: Counter(u64::from(queue.overlimits)),
            requeues: Counter(u64::from(queue.requeues)),
        };
        self.roots.insert(interface, discipline);
    }

    /// One discipline an interface. Backlog and drops reach the root from below by themselves
    /// (qdisc_tree_reduce_backlog, mq_dump); overlimits do so under mq only, so that the larger count is the tree's.
    pub fn into_root_qdiscs(mut self) -> FxHashMap<u32, Qdisc> {
        for (interface, below) in self.child_overlimits {
            if let Some(root) = self.roots.get_mut(&interface) {
                root.overlimits = root.overlimits.max(Counter(below));
            }
        }
        self.roots
    }
}

/// Kind and queue statistics. The options of the discipline, costly and of no use here, are not looked into.
fn parse_attributes(bytes: &[u8]) -> Option<(&[u8], TcStatsQueue)> {
    let (mut kind, mut queue) = (None, None);
    for attribute in NlasIterator::new(bytes).map_while(Result::ok) {
        match attribute.kind() {
            TCA_KIND => {
                let end = usize::from(attribute.length());
                kind = attribute.into_inner().get(NLA_HEADER_SIZE..end).map(|name| name.strip_suffix(b"\0").unwrap_or(name));
            }
            TCA_STATS2 => queue = parse_queue_statistics(attribute.value()),
            _ => {}
        }
    }
    kind.zip(queue)
}

fn parse_queue_statistics(bytes: &[u8]) -> Option<TcStatsQueue> {
    NlasIterator::new(bytes)
        .filter_map(Result::ok)
        .find(|attribute| attribute.kind() == TCA_STATS_QUEUE)
        .and_then(|attribute| TcStatsQueue::parse(attribute.value()).ok())
}

fn intern_kind(kind: &[u8], kinds: &mut Vec<Name>) -> Name {
    if let Some(known) = kinds.iter().find(|known| known.as_bytes() == kind) {
        return known.clone();
    }
    let name = Name::from(kind);
    kinds.push(name.clone());
    name
}

fn qdisc_request() -> Vec<u8> {
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let mut message = NetlinkMessage::new(header, RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default()).into());
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::Emitable;
    use netlink_packet_route::tc::{TcAttribute, TcStats2};
    use proptest::prelude::*;

    use super::*;

    fn discipline(interface: i32, parent: u32, kind: &str, drops: u32, overlimits: u32) -> Vec<u8> {
        let mut queue = TcStatsQueue::default();
        (queue.qlen, queue.backlog, queue.drops, queue.overlimits) = (3, 4500, drops, overlimits);
        let mut message = TcMessage::default();
        (message.header.index, message.header.parent) = (interface, parent.into());
        message.attributes = vec![TcAttribute::Kind(kind.to_owned()), TcAttribute::Stats2(vec![TcStats2::Queue(queue)])];
        let mut bytes = vec![0; message.buffer_len()];
        message.emit(&mut bytes);
        bytes
    }

    #[test]
    fn a_tree_is_its_root_with_the_overlimits_below() {
        let (mut trees, mut kinds) = (QdiscTrees::default(), Vec::new());
        let root = u32::from(TcHandle::ROOT);
        for (parent, kind, drops, overlimits) in
            [(root, "prio", 5, 1), (0x1_0001, "tbf", 3, 40), (0x1_0002, "tbf", 2, 50), (0xffff_fff1, "ingress", 900, 900)]
        {
            trees.add_message(RTM_NEWQDISC, &discipline(7, parent, kind, drops, overlimits), &mut kinds);
        }
        trees.add_message(RTM_NEWQDISC, &discipline(8, root, "fq_codel", 1, 2), &mut kinds);
        let whole = trees.into_root_qdiscs();
        let tree = &whole[&7];
        assert_eq!((tree.kind.as_bytes(), tree.backlog_packets, tree.backlog_bytes), (&b"prio"[..], 3, 4500));
        assert_eq!((tree.dropped, tree.overlimits), (Counter(5), Counter(90)));
        assert_eq!((whole[&8].dropped, whole[&8].overlimits), (Counter(1), Counter(2)));
    }

    #[test]
    fn any_message_is_survived() {
        let message = discipline(7, u32::from(TcHandle::ROOT), "tbf", 1, 1);
        let whole = message.len();
        let cut_or_flipped = (0..whole, any::<prop::sample::Index>(), any::<u8>()).prop_map(move |(length, at, byte)| {
            let mut damaged = message.clone();
            let at = at.index(damaged.len());
            damaged[at] = byte;
            damaged.truncate(whole - length);
            damaged
        });
        let bytes = prop_oneof![proptest::collection::vec(any::<u8>(), 0..200), cut_or_flipped];
        proptest!(|(bytes in bytes)| {
            let mut trees = QdiscTrees::default();
            trees.add_message(RTM_NEWQDISC, &bytes, &mut Vec::new());
            trees.into_root_qdiscs();
        });
    }
}
