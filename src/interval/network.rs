//! Network interfaces, with the figures of nicstat, and rates of protocol counters. docs/metrics.md, "Network interfaces" and
//! "TCP and UDP".

pub mod namespaces;
mod qdisc;
pub mod remote_hosts;
pub mod softnet;

use std::sync::Arc;

use rustc_hash::FxHashMap;

pub use qdisc::QdiscSpan;

use super::read_seconds;
use crate::ids::NicId;
use crate::sample::network::namespaces::NetworkNamespace;
use crate::sample::network::{DirectionCounters, Duplex, Nic, Protocols, Tcp, TcpExt, Udp, Udp6};
use crate::sample::{Reading, Sample};
use crate::units::{Counter, PerSecond, Ratio, delta};

/// Speed and duplex of a link: configured, or from the driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Megabits per second; `None` where it is not known
    pub speed_mbps: Option<u32>,
    pub duplex: Option<Duplex>,
}

impl Link {
    /// As `-S` has it, `1000`, `100hd`: full unless it says h or f; anything else is an unknown duplex. `None` without a speed.
    pub fn parse(text: &str) -> Option<Link> {
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (mbps, suffix) = text.split_at(digits);
        let duplex = match suffix.chars().next() {
            None | Some('f' | 'F') => Some(Duplex::Full),
            Some('h' | 'H') => Some(Duplex::Half),
            Some(_) => None,
        };
        let mbps = mbps.parse().ok().filter(|mbps: &u32| *mbps > 0)?;
        Some(Link { speed_mbps: Some(mbps), duplex })
    }

    /// `eth0:1000`, `eth0:100hd`. A name may have colons itself: the last one counts.
    pub fn parse_named(text: &str) -> Option<(String, Link)> {
        let (name, link) = text.rsplit_once(':')?;
        Some((name.to_owned(), Link::parse(link)?))
    }

    /// Its speed in KB of 1024 bytes per second, the unit of `DirectionSpan::kilobytes`.
    pub fn kilobytes(self) -> Option<f64> {
        self.speed_mbps.map(|mbps| f64::from(mbps) * 1e6 / 8.0 / 1024.0)
    }
}

/// Configured links by the name of their interface. They take precedence over what the driver reports.
pub type LinkOverrides = Arc<Vec<(String, Link)>>;

/// The network in an interval.
#[derive(Clone, Debug)]
pub struct NetworkSpan {
    /// Same order as the newer sample's interfaces; interfaces present in both
    pub nics: Vec<NicSpan>,
    pub protocols: ProtocolSpan,
    /// Network namespaces other than that of stalltop, in both samples; sorted by inode
    pub namespaces: Vec<namespaces::NamespaceSpan>,
    /// Receive processing by CPU, for CPUs whose counters could be paired
    pub softnet: Vec<softnet::SoftnetSpan>,
    /// `None` if the connections were not scanned in this interval
    pub remote_hosts: Option<Arc<remote_hosts::RemoteHostsSpan>>,
}

impl NetworkSpan {
    pub(super) fn between(older: &Sample, newer: &Sample, links: &[(String, Link)]) -> NetworkSpan {
        let seconds = read_seconds(older, newer, |delays| delays.nics_us);
        let namespace_seconds = read_seconds(older, newer, |delays| delays.network_namespaces_us);
        NetworkSpan {
            nics: nics_between(older, newer, seconds, links),
            protocols: ProtocolSpan::between(&older.protocols, &newer.protocols, seconds),
            namespaces: namespaces::between(older, newer, namespace_seconds),
            softnet: softnet::between(older, newer, seconds),
            remote_hosts: remote_hosts::between(older, newer).map(Arc::new),
        }
    }
}

/// One interface, present at both samples.
#[derive(Clone, Debug, PartialEq)]
pub struct NicSpan {
    pub id: NicId,
    /// Inode of its network namespace; `None`: that of stalltop
    pub namespace: Option<u64>,
    /// Index into the newer sample's interfaces of that namespace, which have name and facts (`Interval::nic`)
    pub index: usize,
    pub rx: DirectionSpan,
    pub tx: DirectionSpan,
    /// Speed and duplex that utilization is relative to: from the configuration, otherwise from the driver
    pub link: Link,
    /// The link is from the configuration: then it is a limit even for a virtual interface
    pub link_is_configured: bool,
    /// nicstat's %Util: full duplex the larger direction, half duplex both added. `None` where the speed is unknown.
    pub utilization: Option<Ratio>,
    /// nicstat's Sat: rx drop (which has those missed) + rx fifo + tx drop + tx fifo + collisions + carrier, per second
    pub saturation: Option<PerSecond>,
    pub collisions: Option<PerSecond>,
    pub qdisc: Option<QdiscSpan>,
}

/// One direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DirectionSpan {
    /// KB of 1024 bytes
    pub kilobytes: PerSecond,
    pub packets: PerSecond,
    /// Bytes a packet; 0 without packets, as nicstat has it
    pub average_bytes: f64,
    /// Of the link's speed; `None` where that is unknown
    pub utilization: Option<Ratio>,
    pub errors: Option<PerSecond>,
    pub dropped: Option<PerSecond>,
}

impl DirectionSpan {
    fn between(older: &DirectionCounters, newer: &DirectionCounters, seconds: f64) -> Option<DirectionSpan> {
        let bytes = newer.bytes.since(older.bytes)? as f64 / seconds;
        let packets = newer.packets.since(older.packets)? as f64 / seconds;
        Some(DirectionSpan {
            kilobytes: PerSecond(bytes / 1024.0),
            packets: PerSecond(packets),
            average_bytes: if packets > 0.0 { bytes / packets } else { 0.0 },
            utilization: None,
            errors: PerSecond::between(Some(newer.errors), Some(older.errors), seconds),
            dropped: PerSecond::between(Some(newer.dropped), Some(older.dropped), seconds),
        })
    }
}

impl NicSpan {
    fn between(index: usize, older: &Nic, newer: &Nic, seconds: f64, configured: Option<Link>) -> Option<NicSpan> {
        let rx = DirectionSpan::between(&older.rx, &newer.rx, seconds)?;
        let tx = DirectionSpan::between(&older.tx, &newer.tx, seconds)?;
        let pieces = [
            newer.rx.dropped.since(older.rx.dropped),
            newer.rx.fifo_errors.since(older.rx.fifo_errors),
            newer.tx.dropped.since(older.tx.dropped),
            newer.tx.fifo_errors.since(older.tx.fifo_errors),
            newer.collisions.since(older.collisions),
            newer.carrier_losses.since(older.carrier_losses),
        ];
        let saturation = pieces.into_iter().try_fold(0_u64, |sum, piece| Some(sum.saturating_add(piece?)));
        let saturation = saturation.and_then(|sum| PerSecond::over(sum, seconds));
        let mut span = NicSpan {
            id: newer.id.clone(),
            namespace: None,
            index,
            rx,
            tx,
            link: configured.unwrap_or(Link { speed_mbps: newer.facts.speed_mbps.ok(), duplex: newer.facts.duplex.ok() }),
            link_is_configured: configured.is_some(),
            utilization: None,
            saturation,
            collisions: PerSecond::between(Some(newer.collisions), Some(older.collisions), seconds),
            qdisc: newer.qdisc.as_ref().map(|qdisc| QdiscSpan::between(older.qdisc.as_ref(), qdisc, seconds)),
        };
        span.set_utilization();
        Some(span)
    }

    /// Computes the utilization from the speed and duplex of the link.
    fn set_utilization(&mut self) {
        let speed = self.link.speed_mbps.map(|mbps| f64::from(mbps) * 1e6);
        for side in [&mut self.rx, &mut self.tx] {
            let bits = side.kilobytes.0 * 1024.0 * 8.0;
            side.utilization = speed.and_then(|speed| Ratio::new(bits.min(speed), speed));
        }
        self.utilization = self.rx.utilization.zip(self.tx.utilization).map(|(rx, tx)| match self.link.duplex {
            Some(Duplex::Full) => Ratio(rx.0.max(tx.0)),
            _ => Ratio((rx.0 + tx.0).min(1.0)),
        });
    }
}

/// For each newer interface the older one, or `None`. The kernel lists them mostly in the same order.
pub fn paired_with_older<'a>(older: &'a [Nic], newer: &'a [Nic]) -> impl Iterator<Item = Option<&'a Nic>> {
    let mut by_id: Option<FxHashMap<&NicId, &Nic>> = None;
    newer.iter().enumerate().map(move |(index, nic)| match older.get(index) {
        Some(before) if before.id == nic.id => Some(before),
        _ => by_id.get_or_insert_with(|| older.iter().map(|nic| (&nic.id, nic)).collect()).get(&nic.id).copied(),
    })
}

/// Interfaces that both samples contain and whose counters did not decrease.
fn nics_between(older: &Sample, newer: &Sample, seconds: f64, overrides: &[(String, Link)]) -> Vec<NicSpan> {
    let (Ok(was), Ok(now)) = (&older.nics, &newer.nics) else { return Vec::new() };
    let pairs = now.iter().enumerate().zip(paired_with_older(was, now));
    let configured =
        |nic: &Nic| overrides.iter().find(|(name, _)| name.as_bytes() == nic.id.name.as_bytes()).map(|(_, link)| *link);
    pairs.filter_map(|((index, nic), before)| NicSpan::between(index, before?, nic, seconds, configured(nic))).collect()
}

/// TCP and UDP of one network namespace; rates per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProtocolSpan {
    pub segments_in: Option<PerSecond>,
    pub segments_out: Option<PerSecond>,
    pub segments_retransmitted: Option<PerSecond>,
    /// RetransSegs ÷ OutSegs; `None` where none were sent
    pub retransmitted_share: Option<Ratio>,
    /// EstabResets + OutRsts
    pub resets: Option<PerSecond>,
    pub attempt_fails: Option<PerSecond>,
    /// PassiveOpens
    pub connections_in: Option<PerSecond>,
    /// ActiveOpens
    pub connections_out: Option<PerSecond>,
    /// CurrEstab; a gauge
    pub established: Option<u64>,
    /// ListenDrops, which already contains ListenOverflows
    pub listen_drops: Option<PerSecond>,
    pub listen_overflows: Option<PerSecond>,
    pub syn_retransmits: Option<PerSecond>,
    /// SyncookiesSent
    pub syn_cookies_sent: Option<PerSecond>,
    /// SyncookiesRecv: handshakes finished with a cookie
    pub syn_cookies_received: Option<PerSecond>,
    /// TCPReqQFullDrop
    pub syn_queue_full_drops: Option<PerSecond>,
    pub udp_in: Option<PerSecond>,
    pub udp_out: Option<PerSecond>,
    pub udp_errors_in: Option<PerSecond>,
    /// RcvbufErrors and Udp6RcvbufErrors: datagrams that found the buffer of their socket full
    pub udp_overflows: Option<PerSecond>,
    /// Udp6InDatagrams and Udp6InErrors
    pub udp6_in: Option<PerSecond>,
    pub udp6_errors_in: Option<PerSecond>,
    /// SndbufErrors
    pub udp_errors_out: Option<PerSecond>,
    /// IpExt InOctets and OutOctets, KB of 1024 bytes
    pub ip_kilobytes_in: Option<PerSecond>,
    pub ip_kilobytes_out: Option<PerSecond>,
}

/// The counters of one network namespace.
#[derive(Clone, Copy, Debug)]
struct Counters<'a> {
    tcp: &'a Reading<Tcp>,
    tcp_ext: &'a Reading<TcpExt>,
    udp: &'a Reading<Udp>,
    udp6: &'a Reading<Udp6>,
    ip_octets: &'a Reading<(Counter, Counter)>,
}

impl<'a> From<&'a Protocols> for Counters<'a> {
    fn from(own: &'a Protocols) -> Counters<'a> {
        let Protocols { tcp, tcp_ext, udp, udp6, ip_octets, .. } = own;
        Counters { tcp, tcp_ext, udp, udp6, ip_octets }
    }
}

impl<'a> From<&'a NetworkNamespace> for Counters<'a> {
    fn from(other: &'a NetworkNamespace) -> Counters<'a> {
        let NetworkNamespace { tcp, tcp_ext, udp, udp6, ip_octets, .. } = other;
        Counters { tcp, tcp_ext, udp, udp6, ip_octets }
    }
}

impl ProtocolSpan {
    fn between<'a>(older: impl Into<Counters<'a>>, newer: impl Into<Counters<'a>>, seconds: f64) -> ProtocolSpan {
        let (older, newer): (Counters, Counters) = (older.into(), newer.into());
        let tcp = |field: fn(&Tcp) -> u64| reading_delta(newer.tcp, older.tcp, |tcp| Some(Counter(field(tcp))));
        let ext = |field: fn(&TcpExt) -> Option<Counter>| reading_delta(newer.tcp_ext, older.tcp_ext, field);
        let udp = |field: fn(&Udp) -> Option<Counter>| reading_delta(newer.udp, older.udp, field);
        let udp6 = |field: fn(&Udp6) -> Option<Counter>| reading_delta(newer.udp6, older.udp6, field);
        let octets = |field: fn(&(Counter, Counter)) -> Counter| {
            reading_delta(newer.ip_octets, older.ip_octets, |octets| Some(field(octets)))
        };
        let rate = |growth: Option<u64>| PerSecond::over(growth?, seconds);
        let kilobytes = |growth: Option<u64>| rate(growth).map(|bytes| PerSecond(bytes.0 / 1024.0));
        let sent = tcp(|tcp| tcp.segments_out.0);
        let retransmitted = tcp(|tcp| tcp.segments_retransmitted.0);
        ProtocolSpan {
            segments_in: rate(tcp(|tcp| tcp.segments_in.0)),
            segments_out: rate(sent),
            segments_retransmitted: rate(retransmitted),
            retransmitted_share: retransmitted.zip(sent).and_then(|(part, whole)| Ratio::new(part as f64, whole as f64)),
            resets: rate(tcp(|tcp| tcp.established_resets.0.saturating_add(tcp.resets_out.0))),
            attempt_fails: rate(tcp(|tcp| tcp.attempt_fails.0)),
            connections_in: rate(tcp(|tcp| tcp.passive_opens.0)),
            connections_out: rate(tcp(|tcp| tcp.active_opens.0)),
            established: newer.tcp.as_ref().ok().map(|tcp| tcp.established),
            listen_drops: rate(ext(|ext| ext.listen_drops)),
            listen_overflows: rate(ext(|ext| ext.listen_overflows)),
            syn_retransmits: rate(ext(|ext| ext.syn_retransmits)),
            syn_cookies_sent: rate(ext(|ext| ext.syn_cookies_sent.or(ext.syn_queue_full_cookies))),
            syn_cookies_received: rate(ext(|ext| ext.syn_cookies_received)),
            syn_queue_full_drops: rate(ext(|ext| ext.syn_queue_full_drops)),
            udp_in: rate(udp(|udp| Some(udp.datagrams_in))),
            udp_out: rate(udp(|udp| Some(udp.datagrams_out))),
            udp_errors_in: rate(udp(|udp| Some(udp.errors_in))),
            udp_overflows: rate(sum(udp(|udp| udp.receive_buffer_errors), udp6(|udp| udp.receive_buffer_errors))),
            udp6_in: rate(udp6(|udp| Some(udp.datagrams_in))),
            udp6_errors_in: rate(udp6(|udp| Some(udp.errors_in))),
            udp_errors_out: rate(udp(|udp| udp.send_buffer_errors)),
            ip_kilobytes_in: kilobytes(octets(|octets| octets.0)),
            ip_kilobytes_out: kilobytes(octets(|octets| octets.1)),
        }
    }
}

/// The sum of those that are known.
fn sum(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    (a.is_some() || b.is_some()).then(|| a.unwrap_or(0).saturating_add(b.unwrap_or(0)))
}

fn reading_delta<T>(newer: &Reading<T>, older: &Reading<T>, field: impl Fn(&T) -> Option<Counter>) -> Option<u64> {
    delta(newer.as_ref().ok().and_then(&field), older.as_ref().ok().and_then(&field))
}
