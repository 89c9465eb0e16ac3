//! Reads the listening TCP sockets with connections in their accept queue (sock_diag), and the process that has each open.

pub(super) mod socket_owner;

use std::net::SocketAddr;
use std::time::Instant;

use netlink_packet_core::Parseable;
use netlink_packet_sock_diag::constants::SOCK_DIAG_BY_FAMILY;
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetResponseHeader, StateFlags};
use nix::sys::socket::SockProtocol;

use super::inet_diag;
use super::netlink::Netlink;
use crate::kernel::clock::CpuTimer;
use crate::kernel::cost_pacer::CostPacer;
use crate::kernel::root::Root;
use crate::sample::network::Listener;
use crate::sample::{Absent, Reading};
use socket_owner::SocketOwners;

/// The next dump comes after this many times the cost of the last: at most 0.2 % of one CPU. For a dump the kernel walks its
/// whole table of listeners, up to 65,536 buckets.
const INTERVAL_PER_COST: u32 = 500;

/// Requests dumps over one socket, less often where they are expensive.
#[derive(Debug, Default)]
pub struct ListenerReader {
    netlink: Option<Netlink>,
    requests: Vec<Vec<u8>>,
    /// Reason why the kernel has no tcp_diag. Then no dump is requested again: each request would search for the module.
    unsupported: Option<Absent>,
    pacer: CostPacer,
    /// PassiveOpens when all accept queues were empty
    opens_when_empty: Option<u64>,
    owners: SocketOwners,
}

impl ListenerReader {
    /// The sockets whose accept queue is not empty. `opened` is PassiveOpens of /proc/net/snmp, read before: while it does not grow,
    /// no queue can have grown.
    pub fn sample(&mut self, root: &Root, opened: Option<u64>, now: Instant) -> Reading<Vec<Listener>> {
        if self.unsupported.is_none() && opened.is_some() && opened == self.opens_when_empty {
            return Ok(Vec::new());
        }
        if self.unsupported.is_none() && !self.pacer.is_due(now) {
            return Err(Absent::NotRead);
        }
        self.sample_at_once(root, opened, now)
    }

    /// The same by a dump even when it is expensive, or no connection was opened: connections were just refused.
    pub fn sample_at_once(&mut self, root: &Root, opened: Option<u64>, now: Instant) -> Reading<Vec<Listener>> {
        if let Some(why) = self.unsupported {
            return Err(why);
        }
        let timer = CpuTimer::start();
        let waiting = self.dump();
        self.pacer.schedule_next(now, timer.elapsed(), INTERVAL_PER_COST);
        let waiting = match waiting {
            Ok(waiting) => waiting,
            Err(why) => {
                self.unsupported =
                    matches!(why, Absent::NoSuchFile | Absent::NoPermission | Absent::Unsupported).then_some(why);
                return Err(why);
            }
        };
        self.opens_when_empty = opened.filter(|_| waiting.is_empty());
        self.owners.search(
            root,
            waiting.iter().filter(|(_, listener)| listener.accept_queue >= listener.backlog_limit).map(|(inode, _)| *inode),
        );
        let with_owner = |(inode, listener): (u32, Listener)| Listener { owner: self.owners.owner(inode), ..listener };
        Ok(waiting.into_iter().map(with_owner).collect())
    }

    fn dump(&mut self) -> Reading<Vec<(u32, Listener)>> {
        let mut netlink = match self.netlink.take() {
            Some(netlink) => netlink,
            None => Netlink::open(SockProtocol::NetlinkSockDiag)?,
        };
        if self.requests.is_empty() {
            self.requests = inet_diag::dump_requests(ExtensionFlags::empty(), StateFlags::LISTEN).into();
        }
        let mut waiting = Vec::new();
        for request in &mut self.requests {
            netlink.dump(request, |kind, payload| waiting.extend(parse_listener(kind, payload)))?;
        }
        // A socket is used again only if its answer was read to the end.
        self.netlink = Some(netlink);
        Ok(waiting)
    }
}

/// The sockets whose accept queue is not empty in the network namespace of the calling thread, by inode; without owners.
pub(super) fn dump_once() -> Reading<Vec<(u32, Listener)>> {
    ListenerReader::default().dump()
}

/// Parses one message: the socket's inode and the listener, if its accept queue is not empty.
pub fn parse_listener(kind: u16, payload: &[u8]) -> Option<(u32, Listener)> {
    (kind == SOCK_DIAG_BY_FAMILY).then_some(())?;
    let socket = InetResponseHeader::parse(payload).ok()?;
    let local = SocketAddr::new(socket.socket_id.source_address, socket.socket_id.source_port);
    let listener =
        Listener { local_address: local, accept_queue: socket.recv_queue, backlog_limit: socket.send_queue, owner: None };
    (listener.accept_queue > 0).then_some((socket.inode, listener))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use super::*;

    #[test]
    fn no_dump_is_requested_while_all_queues_are_empty_and_no_connection_opens() {
        if TcpListener::bind("127.0.0.1:0").and_then(|here| TcpStream::connect(here.local_addr()?)).is_err() {
            return println!("skipped: no loopback interface is up here");
        }
        let listening = TcpListener::bind("127.0.0.1:0").unwrap();
        let here = listening.local_addr().unwrap();
        let (mut reader, mut now) = (ListenerReader::default(), Instant::now());
        let mut waiting = |opened| {
            // After an hour even an expensive dump is repeated.
            now += Duration::from_secs(3600);
            let found = reader.sample(&Root::host(), opened, now);
            found.map(|found| (found.is_empty(), found.iter().any(|listener| listener.local_address == here)))
        };
        let client = TcpStream::connect(here).unwrap();
        match waiting(Some(1)) {
            Ok((_, ours)) => assert!(ours),
            Err(why) => return println!("skipped: this kernel has no INET_DIAG ({why})"),
        }
        assert_eq!(waiting(Some(1)).map(|found| found.1), Ok(true), "it still waits");
        drop(listening.accept().unwrap());
        let (none, ours) = waiting(Some(1)).unwrap();
        assert!(!ours);
        // Another program on this machine may have connections in its accept queue.
        if none {
            let another = TcpStream::connect(here).unwrap();
            assert_eq!(waiting(Some(1)), Ok((true, false)), "no dump was requested");
            assert_eq!(waiting(Some(2)).map(|found| found.1), Ok(true));
            assert_eq!(waiting(None).map(|found| found.1), Ok(true));
            drop(another);
        }
        drop(client);
    }
}
