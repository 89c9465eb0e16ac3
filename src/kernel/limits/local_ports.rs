//! Local ports in use towards one remote address and port. A connect without a bind takes a free port of ip_local_port_range; with
//! none left it fails (EADDRNOTAVAIL). The connections are dumped (sock_diag) only while the host has about as many sockets as ports.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

use netlink_packet_core::Parseable;
use netlink_packet_sock_diag::constants::SOCK_DIAG_BY_FAMILY;
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetResponseHeader, StateFlags};
use nix::sys::socket::SockProtocol;

use super::reading::{MIN_KEPT_SHARE, ReadScope, is_near};
use crate::ids::cpu_list::parse_cpu_list;
use crate::kernel::clock::thread_cpu_ns;
use crate::kernel::fields::{lines, parse_single_u64, parse_u64, words};
use crate::kernel::network::{inet_diag, netlink::Netlink};
use crate::kernel::root::{FileHandle, Root};
use crate::sample::Reading;
use crate::sample::limits::{Limit, LimitKind};
use crate::units::SmallSort;

/// The next dump comes after this many times the cost of the last: 0.1 % of one CPU, or 1 % while a limit is near.
const INTERVAL_PER_COST: u64 = 1000;
const INTERVAL_PER_COST_NEAR: u64 = 100;
const TCP_TIME_WAIT: u8 = 6;

/// Keeps what the last dump showed.
#[derive(Debug)]
pub struct LocalPortReader {
    sockstat: FileHandle,
    sockstat6: FileHandle,
    next_dump_ns: u64,
    rows: Vec<Limit>,
    buffer: Vec<u8>,
}

impl Default for LocalPortReader {
    fn default() -> LocalPortReader {
        LocalPortReader {
            sockstat: FileHandle::new("proc/net/sockstat"),
            sockstat6: FileHandle::new("proc/net/sockstat6"),
            next_dump_ns: 0,
            rows: Vec::new(),
            buffer: Vec::new(),
        }
    }
}

impl LocalPortReader {
    pub fn sample(&mut self, root: &Root, scope: ReadScope, now_ns: u64, rows: &mut Vec<Limit>) {
        if scope == ReadScope::All || !self.rows.is_empty() {
            self.update(root, now_ns);
        }
        rows.extend_from_slice(&self.rows);
    }

    fn update(&mut self, root: &Root, now_ns: u64) {
        let mut count = |file: &mut FileHandle| {
            file.read(root, &mut self.buffer).ok().and_then(|()| parse_socket_count(&self.buffer)).unwrap_or(0)
        };
        let sockets = count(&mut self.sockstat).saturating_add(count(&mut self.sockstat6));
        let range = root.read_once("proc/sys/net/ipv4/ip_local_port_range").ok().and_then(|text| parse_port_range(&text));
        let Some(range) = range else { return };
        if (sockets as f64) < range.clone().count() as f64 * MIN_KEPT_SHARE {
            self.rows.clear();
            return;
        }
        if now_ns < self.next_dump_ns {
            return;
        }
        let begin = thread_cpu_ns();
        self.rows = dump_connections(root, &range).map_or_else(|_| Vec::new(), |found| limits(root, &range, found));
        let cost_ns = thread_cpu_ns().saturating_sub(begin);
        let times = if self.rows.is_empty() { INTERVAL_PER_COST } else { INTERVAL_PER_COST_NEAR };
        self.next_dump_ns = now_ns.saturating_add(cost_ns.saturating_mul(times));
    }
}

/// Connections from one local address to one remote address and port: those open, and those in TIME_WAIT.
type Connections = HashMap<(IpAddr, SocketAddr), (u64, u64)>;

fn dump_connections(root: &Root, range: &RangeInclusive<u16>) -> Reading<Connections> {
    // 1: ports in TIME_WAIT are used again after a second; 2: towards this host. By default 2.
    let reuse = root.read_once("proc/sys/net/ipv4/tcp_tw_reuse").ok().and_then(|text| parse_single_u64(&text)).unwrap_or(2);
    let states = StateFlags::all().difference(StateFlags::LISTEN.union(StateFlags::CLOSE));
    let mut netlink = Netlink::open(SockProtocol::NetlinkSockDiag)?;
    let mut found = Connections::new();
    for mut request in inet_diag::dump_requests(ExtensionFlags::empty(), states) {
        netlink.dump(&mut request, |kind, payload| {
            let parsed = (kind == SOCK_DIAG_BY_FAMILY).then(|| InetResponseHeader::parse(payload).ok()).flatten();
            let Some(socket) = parsed.filter(|socket| range.contains(&socket.socket_id.source_port)) else { return };
            let remote =
                SocketAddr::new(socket.socket_id.destination_address.to_canonical(), socket.socket_id.destination_port);
            let in_time_wait = payload.get(1) == Some(&TCP_TIME_WAIT);
            if in_time_wait && (reuse == 1 || (reuse == 2 && remote.ip().is_loopback())) {
                return;
            }
            let counts = found.entry((socket.socket_id.source_address.to_canonical(), remote)).or_default();
            counts.0 += u64::from(!in_time_wait);
            counts.1 += u64::from(in_time_wait);
        })?;
    }
    Ok(found)
}

fn limits(root: &Root, range: &RangeInclusive<u16>, found: Connections) -> Vec<Limit> {
    let reserved = root.read_once("proc/sys/net/ipv4/ip_local_reserved_ports").unwrap_or_default();
    let is_free = |port: &u16| !parse_cpu_list(&reserved).any(|reserved| reserved.contains(&u32::from(*port)));
    let max = if reserved.trim_ascii().is_empty() { range.clone().count() } else { range.clone().filter(is_free).count() };
    let limit = |((_, remote), (open, in_time_wait)): ((IpAddr, SocketAddr), (u64, u64))| Limit {
        remote: Some(remote),
        in_time_wait,
        ..Limit::new(LimitKind::LocalPorts, open.saturating_add(in_time_wait), max as u64)
    };
    let mut near: Vec<Limit> = found.into_iter().map(limit).filter(is_near).collect();
    near.small_sort_by_key(|limit| limit.remote);
    // Of one destination the local address with most connections.
    near.dedup_by(|this, kept| {
        let same = this.remote == kept.remote;
        if same && this.used > kept.used {
            kept.clone_from(this);
        }
        same
    });
    near
}

/// The first and the last port of net.ipv4.ip_local_port_range.
fn parse_port_range(text: &[u8]) -> Option<RangeInclusive<u16>> {
    let mut ports = words(lines(text).next()?).map(|word| parse_u64(word).and_then(|port| u16::try_from(port).ok()));
    let (first, last) = (ports.next()??, ports.next()??);
    (first <= last).then_some(first..=last)
}

/// TCP sockets of /proc/net/sockstat and sockstat6: `TCP: inuse 5 orphan 0 tw 20 alloc 7 mem 1`, those in TIME_WAIT (`tw`) of both
/// families in the first.
fn parse_socket_count(text: &[u8]) -> Option<u64> {
    let line = lines(text).find(|line| line.starts_with(b"TCP: ") || line.starts_with(b"TCP6: "))?;
    let mut words = words(line).skip(1);
    let mut sum: u64 = 0;
    while let (Some(name), Some(count)) = (words.next(), words.next()) {
        if name == b"inuse" || name == b"tw" {
            sum = sum.checked_add(parse_u64(count)?)?;
        }
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_in_time_wait_hold_a_port_too() {
        let text = b"sockets: used 130\nTCP: inuse 5 orphan 0 tw 20 alloc 7 mem 1\nUDP: inuse 3 mem 2\n";
        assert_eq!(parse_socket_count(text), Some(25));
        assert_eq!(parse_socket_count(b"TCP6: inuse 4\nUDP6: inuse 1\n"), Some(4));
        assert_eq!(parse_socket_count(b"UDP: inuse 3\n"), None);
    }

    #[test]
    fn a_range_has_both_ports() {
        assert_eq!(parse_port_range(b"32768\t60999\n"), Some(32768..=60999));
        for bad in [&b"32768\n"[..], b"60999 32768\n", b"0 70000\n", b""] {
            assert_eq!(parse_port_range(bad), None);
        }
    }
}
