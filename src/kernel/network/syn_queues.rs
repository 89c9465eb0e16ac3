//! Reads the SYN queues: sockets in state SYN_RECV (sock_diag; needs no privilege), summed by listening socket, and the process
//! that has each open. The kernel walks its whole table of connections for it: read only while it counts that a queue is full.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use netlink_packet_core::Parseable;
use netlink_packet_sock_diag::constants::{SOCK_DIAG_BY_FAMILY, TCP_LISTEN, TCP_SYN_RECV};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetResponseHeader, StateFlags};
use nix::sys::socket::SockProtocol;
use rustc_hash::FxHashMap;

use super::inet_diag;
use super::listeners::socket_owner::SocketOwners;
use super::netlink::Netlink;
use crate::kernel::clock::CpuTimer;
use crate::kernel::cost_pacer::CostPacer;
use crate::kernel::root::Root;
use crate::sample::network::{SynQueue, TcpExt};
use crate::sample::{Absent, Reading};
use crate::units::SmallSort;

/// Queues that a sample keeps.
const MAX_QUEUES: usize = 4;
/// The next dump comes after this many times the cost of the last: at most 0.5 % of one CPU while a queue is full.
const INTERVAL_PER_COST: u32 = 200;

/// Requests dumps while a SYN queue is full.
#[derive(Debug, Default)]
pub struct SynQueueReader {
    last_counts: Option<FullCounts>,
    pacer: CostPacer,
    last: Vec<SynQueue>,
    owners: SocketOwners,
}

/// Counters that increase while a SYN queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FullCounts {
    cookies: Option<u64>,
    drops: Option<u64>,
    other_drops: Option<u64>,
}

impl FullCounts {
    pub(super) fn new(counts: &TcpExt) -> FullCounts {
        let (drops, overflows) = (counts.listen_drops, counts.listen_overflows);
        FullCounts {
            cookies: counts.syn_queue_full_cookies.or(counts.syn_cookies_sent).map(|count| count.0),
            drops: counts.syn_queue_full_drops.map(|count| count.0),
            other_drops: drops.zip(overflows).map(|(drops, overflows)| drops.0.saturating_sub(overflows.0)),
        }
    }
}

impl SynQueueReader {
    /// The SYN queues with requests, if the counters in `counts` show that one is full; otherwise `NotRead`. While dumps are
    /// expensive the result is that of the last one.
    pub fn sample(&mut self, root: &Root, counts: &Reading<TcpExt>) -> Reading<Vec<SynQueue>> {
        let counts = FullCounts::new(counts.as_ref().map_err(|why| *why)?);
        let last = self.last_counts.replace(counts);
        if last.is_none_or(|last| last == counts) {
            return Err(Absent::NotRead);
        }
        if !self.pacer.is_due(Instant::now()) {
            return Ok(self.last.clone());
        }
        let timer = CpuTimer::start();
        let queues = dump_queues();
        self.pacer.schedule_next(Instant::now(), timer.elapsed(), INTERVAL_PER_COST);
        let mut queues = queues?;
        self.owners.search(root, queues.iter().filter_map(|(inode, _)| *inode));
        for (inode, queue) in &mut queues {
            queue.owner = inode.and_then(|inode| self.owners.owner(inode));
        }
        self.last = queues.into_iter().map(|(_, queue)| queue).collect();
        Ok(self.last.clone())
    }
}

/// The SYN queues with most requests in the network namespace of the calling thread, most first, each with the inode of its
/// listening socket; without owners.
pub(super) fn dump_queues() -> Reading<Vec<(Option<u32>, SynQueue)>> {
    dump().map(Sockets::queues)
}

fn dump() -> Reading<Sockets> {
    let mut netlink = Netlink::open(SockProtocol::NetlinkSockDiag)?;
    let mut sockets = Sockets::default();
    for mut request in inet_diag::dump_requests(ExtensionFlags::empty(), StateFlags::LISTEN | StateFlags::SYN_RECV) {
        netlink.dump(&mut request, |kind, payload| sockets.add(kind, payload))?;
    }
    Ok(sockets)
}

/// Listening sockets and requests of one dump.
#[derive(Debug, Default)]
struct Sockets {
    listening: Vec<Listening>,
    /// Requests by local address, and by remote address
    requests: FxHashMap<SocketAddr, FxHashMap<IpAddr, u32>>,
}

#[derive(Debug)]
struct Listening {
    address: SocketAddr,
    inode: u32,
    limit: u32,
}

impl Sockets {
    /// Adds the socket of one message.
    fn add(&mut self, kind: u16, payload: &[u8]) {
        let Some(socket) = (kind == SOCK_DIAG_BY_FAMILY).then(|| InetResponseHeader::parse(payload).ok()).flatten() else {
            return;
        };
        let address = SocketAddr::new(socket.socket_id.source_address.to_canonical(), socket.socket_id.source_port);
        match socket.state {
            TCP_LISTEN => self.listening.push(Listening { address, inode: socket.inode, limit: socket.send_queue }),
            TCP_SYN_RECV => {
                let remote = socket.socket_id.destination_address.to_canonical();
                let count = self.requests.entry(address).or_default().entry(remote).or_default();
                *count = count.saturating_add(1);
            }
            _ => {}
        }
    }

    /// The queues with most requests, most first, each with the inode of its listening socket.
    fn queues(self) -> Vec<(Option<u32>, SynQueue)> {
        let mut by_listener: FxHashMap<SocketAddr, (Option<&Listening>, FxHashMap<IpAddr, u32>)> = FxHashMap::default();
        for (local, hosts) in self.requests {
            let listening = find_listening(&self.listening, local);
            let address = listening.map_or(local, |listening| listening.address);
            let (_, sums) = by_listener.entry(address).or_insert_with(|| (listening, FxHashMap::default()));
            for (host, count) in hosts {
                let sum = sums.entry(host).or_default();
                *sum = sum.saturating_add(count);
            }
        }
        let queue = |(address, (listening, hosts)): (SocketAddr, (Option<&Listening>, FxHashMap<IpAddr, u32>))| {
            let (&top_remote_host, &top_requests) = hosts.iter().max_by_key(|&(host, count)| (*count, *host))?;
            let queue = SynQueue {
                local_address: address,
                requests: hosts.values().fold(0, |sum: u32, count| sum.saturating_add(*count)),
                limit: listening.map(|listening| listening.limit),
                remote_hosts: u32::try_from(hosts.len()).unwrap_or(u32::MAX),
                top_remote_host,
                top_requests,
                owner: None,
            };
            Some((listening.map(|listening| listening.inode), queue))
        };
        let mut queues: Vec<_> = by_listener.into_iter().filter_map(queue).collect();
        queues.small_sort_by_key(|(_, queue)| (std::cmp::Reverse(queue.requests), queue.local_address));
        queues.truncate(MAX_QUEUES);
        queues
    }
}

/// The socket that listens at a local address: one bound to the address itself comes before one bound to all addresses.
fn find_listening(listening: &[Listening], local: SocketAddr) -> Option<&Listening> {
    let of_port = || listening.iter().filter(|listening| listening.address.port() == local.port());
    of_port()
        .find(|listening| listening.address.ip() == local.ip())
        .or_else(|| of_port().find(|listening| listening.address.ip().is_unspecified()))
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::Emitable;

    use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6};
    use netlink_packet_sock_diag::inet::SocketId;

    use super::*;

    /// A struct inet_diag_msg.
    fn message(state: u8, (local, remote): (&str, &str), inode: u32) -> Vec<u8> {
        let [local, remote] = [local, remote].map(|address| address.parse::<SocketAddr>().unwrap());
        let socket_id = SocketId {
            source_port: local.port(),
            destination_port: remote.port(),
            source_address: local.ip(),
            destination_address: remote.ip(),
            ..SocketId::new_v4()
        };
        let family = if local.is_ipv4() { AF_INET } else { AF_INET6 };
        let header =
            InetResponseHeader { family, state, timer: None, socket_id, recv_queue: 0, send_queue: 256, uid: 0, inode };
        let mut bytes = vec![0; header.buffer_len()];
        header.emit(&mut bytes);
        bytes
    }

    #[test]
    fn requests_are_summed_by_listening_socket_and_most_come_first() {
        let mut sockets = Sockets::default();
        for (local, remote, inode) in
            [("[::]:80", "[::]:0", 1), ("10.0.0.1:443", "0.0.0.0:0", 2), ("0.0.0.0:443", "0.0.0.0:0", 3)]
        {
            sockets.add(SOCK_DIAG_BY_FAMILY, &message(TCP_LISTEN, (local, remote), inode));
        }
        let mut add = |local: &str, remote: &str, count| {
            let request = message(TCP_SYN_RECV, (local, remote), 0);
            (0..count).for_each(|_| sockets.add(SOCK_DIAG_BY_FAMILY, &request));
        };
        add("10.0.0.1:80", "192.0.2.1:5000", 3);
        add("[::ffff:10.0.0.2]:80", "[::ffff:192.0.2.1]:5000", 2);
        add("10.0.0.2:80", "192.0.2.2:5000", 1);
        add("10.0.0.1:443", "192.0.2.3:5000", 1);
        add("10.0.0.2:443", "192.0.2.3:5000", 2);
        let queues = sockets.queues();
        let short: Vec<_> = queues
            .iter()
            .map(|(inode, queue)| {
                let address = queue.local_address.to_string();
                (*inode, address, queue.limit, queue.requests, queue.remote_hosts, queue.top_requests)
            })
            .collect();
        let expected = [
            (Some(1), "[::]:80".to_owned(), Some(256), 6, 2, 5),
            (Some(3), "0.0.0.0:443".to_owned(), Some(256), 2, 1, 2),
            (Some(2), "10.0.0.1:443".to_owned(), Some(256), 1, 1, 1),
        ];
        assert_eq!(short, expected);
    }

    #[test]
    fn nothing_is_read_while_no_counter_grows() {
        let mut reader = SynQueueReader::default();
        let counts = Ok(TcpExt::default());
        assert_eq!(reader.sample(&Root::host(), &counts), Err(Absent::NotRead));
        assert_eq!(reader.sample(&Root::host(), &counts), Err(Absent::NotRead));
        assert_eq!(reader.sample(&Root::host(), &Err(Absent::NoSuchFile)), Err(Absent::NoSuchFile));
    }
}
