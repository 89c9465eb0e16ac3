//! Reads the statistics of each interface's queueing disciplines by one RTM_GETQDISC dump. Needs no privilege.

use std::mem::offset_of;

use libc::{NLM_F_DUMP, NLM_F_REQUEST, RTM_GETQDISC, RTM_NEWQDISC, TCA_KIND, TCA_OPTIONS, TCA_STATS2};
use linux_raw_sys::netlink::tcmsg;
use netlink_packet_core::{NLA_HEADER_SIZE, NlasIterator};
use nix::sys::socket::SockProtocol;
use rustc_hash::FxHashMap;

use super::netlink::{Netlink, request, u32_at};
use crate::kernel::sys::{NETEM_OPTIONS_BYTES, TBF_RATE_OFFSET};
use crate::sample::network::Qdisc;
use crate::sample::{Name, Reading};
use crate::units::Counter;

/// Of include/uapi/linux/pkt_sched.h: the parent of a root discipline, and of an ingress one.
const TC_H_ROOT: u32 = 0xffff_ffff;
const TC_H_INGRESS: u32 = 0xffff_fff1;
/// Of include/uapi/linux/gen_stats.h.
const TCA_STATS_QUEUE: u16 = 3;
/// Of include/uapi/linux/pkt_sched.h: rates in bytes per second. The 64-bit ones exist where 32 bits are too few.
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_CAKE_BASE_RATE64: u16 = 2;
const TCA_NETEM_RATE: u16 = 6;
const TCA_NETEM_RATE64: u16 = 8;

/// Requests a dump for each sample, over one socket.
#[derive(Debug, Default)]
pub struct QdiscReader {
    netlink: Option<Netlink>,
    dump: QdiscDump,
}

/// The request of a dump, and the names of the kinds seen. The socket says in which network namespace.
#[derive(Debug, Default)]
pub struct QdiscDump {
    request: Vec<u8>,
    /// Interned names of the kinds.
    kinds: Vec<Name>,
}

impl QdiscReader {
    /// The root discipline of each interface, by interface index.
    pub fn sample(&mut self) -> Reading<FxHashMap<u32, Qdisc>> {
        let mut netlink = match self.netlink.take() {
            Some(netlink) => netlink,
            None => Netlink::open(SockProtocol::NetlinkRoute)?,
        };
        let qdiscs = self.dump.read(&mut netlink)?;
        // A socket is used again only if its answer was read to the end.
        self.netlink = Some(netlink);
        Ok(qdiscs)
    }
}

impl QdiscDump {
    /// The root discipline of each interface in the network namespace of the socket, by interface index.
    pub fn read(&mut self, netlink: &mut Netlink) -> Reading<FxHashMap<u32, Qdisc>> {
        if self.request.is_empty() {
            self.request = request(RTM_GETQDISC, (NLM_F_REQUEST | NLM_F_DUMP) as u16, &[0; size_of::<tcmsg>()]);
        }
        let mut trees = QdiscTrees::default();
        netlink.dump(&mut self.request, |kind, payload| trees.add_message(kind, payload, &mut self.kinds))?;
        Ok(trees.into_root_qdiscs())
    }
}

/// The root disciplines, the overlimits of their children and the drops of ingress filters, read so far.
#[derive(Debug, Default)]
pub struct QdiscTrees {
    roots: FxHashMap<u32, Qdisc>,
    child_overlimits: FxHashMap<u32, u64>,
    ingress_drops: FxHashMap<u32, Counter>,
}

impl QdiscTrees {
    /// Adds one message. A damaged one is left out.
    pub fn add_message(&mut self, kind: u16, payload: &[u8], kinds: &mut Vec<Name>) {
        if kind != RTM_NEWQDISC {
            return;
        }
        let field = |offset| u32_at(payload, offset);
        let (Some(interface), Some(parent)) = (field(offset_of!(tcmsg, tcm_ifindex)), field(offset_of!(tcmsg, tcm_parent)))
        else {
            return;
        };
        let Some((name, queue, rate)) = parse_attributes(payload.get(size_of::<tcmsg>()..).unwrap_or_default()) else { return };
        // Ingress and clsact have filters and no queue.
        if parent == TC_H_INGRESS {
            self.ingress_drops.insert(interface, Counter(u64::from(queue.drops)));
            return;
        }
        if parent != TC_H_ROOT {
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
            ingress_dropped: None,
            rate_bytes_per_second: rate,
        };
        self.roots.insert(interface, discipline);
    }

    /// The root discipline of each interface. The kernel adds the children's backlog and drops to it
    /// (qdisc_tree_reduce_backlog, mq_dump), their overlimits only under mq: the larger count is taken.
    pub fn into_root_qdiscs(mut self) -> FxHashMap<u32, Qdisc> {
        for (interface, below) in self.child_overlimits {
            if let Some(root) = self.roots.get_mut(&interface) {
                root.overlimits = root.overlimits.max(Counter(below));
            }
        }
        for (interface, drops) in self.ingress_drops {
            if let Some(root) = self.roots.get_mut(&interface) {
                root.ingress_dropped = Some(drops);
            }
        }
        self.roots
    }
}

/// Kind, queue statistics and rate.
fn parse_attributes(bytes: &[u8]) -> Option<(&[u8], QueueStatistics, Option<u64>)> {
    let (mut kind, mut queue, mut options) = (None, None, None);
    for attribute in NlasIterator::new(bytes).map_while(Result::ok) {
        match attribute.kind() {
            TCA_STATS2 => queue = parse_queue_statistics(attribute.value()),
            wanted @ (TCA_KIND | TCA_OPTIONS) => {
                let end = usize::from(attribute.length());
                let value = attribute.into_inner().get(NLA_HEADER_SIZE..end);
                match wanted {
                    TCA_KIND => kind = value.map(|name| name.strip_suffix(b"\0").unwrap_or(name)),
                    _ => options = value,
                }
            }
            _ => {}
        }
    }
    let (kind, queue) = kind.zip(queue)?;
    Some((kind, queue, options.and_then(|options| parse_rate(kind, options))))
}

/// The rate of a shaper in bytes per second, by the options of its kind. htb and hfsc have rates in their classes only.
fn parse_rate(kind: &[u8], options: &[u8]) -> Option<u64> {
    let rate = match kind {
        b"tbf" => {
            let wide = attribute_u64(options, TCA_TBF_RATE64);
            wide.or_else(|| Some(u64::from(u32_at(attribute(options, TCA_TBF_PARMS)?, TBF_RATE_OFFSET)?)))
        }
        b"cake" => attribute_u64(options, TCA_CAKE_BASE_RATE64),
        b"netem" => {
            let attributes = options.get(NETEM_OPTIONS_BYTES..)?;
            let wide = attribute_u64(attributes, TCA_NETEM_RATE64);
            wide.or_else(|| Some(u64::from(u32_at(attribute(attributes, TCA_NETEM_RATE)?, 0)?)))
        }
        _ => None,
    };
    rate.filter(|&rate| rate > 0)
}

fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    let found = NlasIterator::new(bytes).map_while(Result::ok).find(|attribute| attribute.kind() == kind)?;
    let end = usize::from(found.length());
    found.into_inner().get(NLA_HEADER_SIZE..end)
}

fn attribute_u64(bytes: &[u8], kind: u16) -> Option<u64> {
    attribute(bytes, kind)?.first_chunk::<8>().map(|rate| u64::from_ne_bytes(*rate))
}

fn parse_queue_statistics(bytes: &[u8]) -> Option<QueueStatistics> {
    let found = NlasIterator::new(bytes).filter_map(Result::ok).find(|attribute| attribute.kind() == TCA_STATS_QUEUE)?;
    let field = |index: usize| u32_at(found.value(), index * size_of::<u32>());
    Some(QueueStatistics { qlen: field(0)?, backlog: field(1)?, drops: field(2)?, requeues: field(3)?, overlimits: field(4)? })
}

/// `struct gnet_stats_queue` of include/uapi/linux/gen_stats.h.
struct QueueStatistics {
    qlen: u32,
    backlog: u32,
    drops: u32,
    requeues: u32,
    overlimits: u32,
}

fn intern_kind(kind: &[u8], kinds: &mut Vec<Name>) -> Name {
    if let Some(known) = kinds.iter().find(|known| known.as_bytes() == kind) {
        return known.clone();
    }
    let name = Name::from(kind);
    kinds.push(name.clone());
    name
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encode(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(4 + value.len()).unwrap();
        let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend_from_slice(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn discipline(interface: u32, parent: u32, kind: &str, drops: u32, overlimits: u32) -> Vec<u8> {
        let header = [0, interface, 0, parent, 0].map(u32::to_ne_bytes).concat();
        let queue = [3, 4500, drops, 0, overlimits].map(u32::to_ne_bytes).concat();
        let statistics = encode(TCA_STATS2, &encode(TCA_STATS_QUEUE, &queue));
        [header, encode(TCA_KIND, format!("{kind}\0").as_bytes()), statistics].concat()
    }

    #[test]
    fn a_tree_is_its_root_with_the_overlimits_below() {
        let (mut trees, mut kinds) = (QdiscTrees::default(), Vec::new());
        for (parent, kind, drops, overlimits) in
            [(TC_H_ROOT, "prio", 5, 1), (0x1_0001, "tbf", 3, 40), (0x1_0002, "tbf", 2, 50), (TC_H_INGRESS, "ingress", 900, 900)]
        {
            trees.add_message(RTM_NEWQDISC, &discipline(7, parent, kind, drops, overlimits), &mut kinds);
        }
        trees.add_message(RTM_NEWQDISC, &discipline(8, TC_H_ROOT, "fq_codel", 1, 2), &mut kinds);
        let whole = trees.into_root_qdiscs();
        let tree = &whole[&7];
        assert_eq!((tree.kind.as_bytes(), tree.backlog_packets, tree.backlog_bytes), (&b"prio"[..], 3, 4500));
        assert_eq!((tree.dropped, tree.overlimits), (Counter(5), Counter(90)));
        assert_eq!((tree.ingress_dropped, whole[&8].ingress_dropped), (Some(Counter(900)), None));
        assert_eq!((whole[&8].dropped, whole[&8].overlimits), (Counter(1), Counter(2)));
    }

    #[test]
    fn the_rate_of_a_shaper_is_read_from_its_options() {
        let header = [0, 7_u32, 0, TC_H_ROOT, 0].map(u32::to_ne_bytes).concat();
        let statistics = encode(TCA_STATS2, &encode(TCA_STATS_QUEUE, &[0_u32; 5].map(u32::to_ne_bytes).concat()));
        let rate_of = |kind: &str, options: &[u8]| {
            let kind = encode(TCA_KIND, format!("{kind}\0").as_bytes());
            let message = [&header[..], &kind, &encode(TCA_OPTIONS, options), &statistics].concat();
            let mut trees = QdiscTrees::default();
            trees.add_message(RTM_NEWQDISC, &message, &mut Vec::new());
            trees.into_root_qdiscs()[&7].rate_bytes_per_second
        };
        let tbf = encode(TCA_TBF_PARMS, &[0, 0, 12_500_000_u32, 0, 0, 0, 0, 0, 0].map(u32::to_ne_bytes).concat());
        let wide = encode(TCA_TBF_RATE64, &5_000_000_000_u64.to_ne_bytes());
        assert_eq!(rate_of("tbf", &tbf), Some(12_500_000));
        assert_eq!(rate_of("tbf", &[tbf.clone(), wide].concat()), Some(5_000_000_000));
        assert_eq!(rate_of("cake", &encode(TCA_CAKE_BASE_RATE64, &0_u64.to_ne_bytes())), None, "unlimited");
        let netem = encode(TCA_NETEM_RATE, &[250_000_u32, 0, 0, 0].map(u32::to_ne_bytes).concat());
        assert_eq!(rate_of("netem", &[&[0; NETEM_OPTIONS_BYTES], &netem[..]].concat()), Some(250_000));
        assert_eq!(rate_of("htb", &tbf), None);
    }

    #[test]
    fn any_message_is_parsed_without_a_panic() {
        let message = discipline(7, TC_H_ROOT, "tbf", 1, 1);
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
