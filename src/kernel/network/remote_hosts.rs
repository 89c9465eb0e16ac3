//! Reads remote hosts: all open TCP connections with their tcp_info (sock_diag; needs no privilege), summed by host.

mod connection;
mod connection_table;
mod host_entry;
mod route_cache;
mod socket_queries;
mod unanswered_requests;
mod waiting_sockets;

use std::time::{Duration, Instant};

use netlink_packet_sock_diag::inet::{ExtensionFlags, StateFlags};
use nix::sys::socket::SockProtocol;
use nix::time::ClockId;

pub use connection::{Connection, parse_connection, parse_tcp_info};
#[cfg(test)]
pub use connection::{TcpInfo, TcpTimer};
pub use socket_queries::ConnectionCounters;
pub use waiting_sockets::{MAX_WAITING_SOCKETS, WaitingSocket, has_sent_last, may_be_requests};

use super::inet_diag;
use super::listeners::socket_owner::SocketOwners;
use super::netlink::Netlink;
use crate::kernel::clock::{clock_ns, thread_cpu_ns};
use crate::kernel::cost_pacer::CostPacer;
use crate::kernel::root::Root;
use crate::sample::network::remote_hosts::{RemoteHost, RemoteHosts};
use crate::sample::{Absent, Reading};
pub use connection_table::ConnectionTable;
use route_cache::RouteCache;
use socket_queries::SocketQueries;

/// The next reading comes after this many times the cost of the last: at most 2 % of one CPU. A connection costs 1.3 µs
/// (10,010 of them 12.3 ms, 18,010 24.9 ms, an empty table 0.3 ms), nearly all of it in the kernel: at an interval of 1 s
/// ten thousand are read in every sample, thirty thousand in every second one.
const INTERVAL_PER_COST: u32 = 50;
/// States of connections that can carry data, and of those that are being opened.
const DATA_STATES: StateFlags =
    StateFlags::ESTABLISHED.union(StateFlags::CLOSE_WAIT).union(StateFlags::FIN_WAIT1).union(StateFlags::SYN_SENT);
/// The next reading after a damaged answer.
const RETRY_AFTER_FAILURE: Duration = Duration::from_secs(10);

/// Requests dumps over one socket, less often where they are expensive.
#[derive(Debug, Default)]
pub struct RemoteHostReader {
    netlink: Option<Netlink>,
    requests: Vec<Vec<u8>>,
    /// Reason why the kernel does not support it; then no dump is requested again.
    unsupported: Option<Absent>,
    pacer: CostPacer,
    connection_table: ConnectionTable,
    socket_queries: SocketQueries,
    route_cache: RouteCache,
    owners: SocketOwners,
    last: Option<Reading<RemoteHosts>>,
}

impl RemoteHostReader {
    /// For the network namespace of the socket.
    pub fn with_socket(netlink: Netlink) -> RemoteHostReader {
        RemoteHostReader { netlink: Some(netlink), ..RemoteHostReader::default() }
    }

    /// Scans the connections now, without their hosts. After an error the next scan would be of the calling thread's namespace.
    pub fn scan_connections(&mut self) -> Reading<()> {
        self.update_connections(None)?;
        self.connection_table.finish_dump();
        Ok(())
    }

    /// The remote hosts at the last scan of the connections. A scan is made now unless scans are expensive; the result has its
    /// time. `counted`: the counters of /proc/net/snmp, read before.
    pub fn sample(&mut self, root: &Root, counted: Option<ConnectionCounters>) -> Reading<RemoteHosts> {
        if let Some(why) = self.unsupported {
            return Err(why);
        }
        if let Some(last) = &self.last
            && !self.pacer.is_due(Instant::now())
        {
            return last.clone();
        }
        let begin_ns = thread_cpu_ns();
        let read = self.update_connections(counted);
        let reading = read.map(|()| self.connection_table.finish_dump()).map(|mut hosts| {
            self.route_cache.fill_interfaces(&mut hosts.rows);
            hosts.scan_cpu_ns = thread_cpu_ns().saturating_sub(begin_ns);
            // Seldom, and limited by itself: it must not delay the next scan.
            self.fill_processes(root, &mut hosts.rows);
            hosts
        });
        if let Err(why @ (Absent::NoSuchFile | Absent::NoPermission | Absent::Unsupported)) = &reading {
            self.unsupported = Some(*why);
        }
        match &reading {
            Ok(hosts) => {
                self.pacer.schedule_next(Instant::now(), Duration::from_nanos(hosts.scan_cpu_ns), INTERVAL_PER_COST);
            }
            Err(_) => self.pacer.postpone_until(Instant::now() + RETRY_AFTER_FAILURE),
        }
        self.last = Some(reading.clone());
        reading
    }

    /// The processes of the worst connections of hosts with retransmits or slow round trips. `None` for the others.
    fn fill_processes(&mut self, root: &Root, rows: &mut [RemoteHost]) {
        let process_lookups = self.connection_table.process_lookups();
        self.owners.search(root, process_lookups.iter().map(|&(_, inode)| inode));
        for row in rows {
            let lookup = process_lookups.iter().find(|(address, _)| *address == row.address);
            row.worst_process = lookup.and_then(|&(_, inode)| self.owners.owner(inode));
        }
    }

    /// The connections of the last scan that wait for their remote end, and the sockets with unread data of this machine.
    pub fn connections(&self) -> &ConnectionTable {
        &self.connection_table
    }

    fn update_connections(&mut self, counted: Option<ConnectionCounters>) -> Reading<()> {
        let now_ns = clock_ns(ClockId::CLOCK_BOOTTIME);
        if self.socket_queries.can_replace_dump(counted, now_ns)
            && let Some(netlink) = &mut self.netlink
            && let Some(connections) = self.socket_queries.query_all(netlink)
        {
            let mut update = self.connection_table.begin_dump(now_ns);
            connections.iter().for_each(|connection| update.add_connection(connection));
            return Ok(());
        }
        self.dump_all(counted)
    }

    /// Requests a dump for each address family; a single query may request each connection next time.
    fn dump_all(&mut self, counted: Option<ConnectionCounters>) -> Reading<()> {
        let mut netlink = match self.netlink.take() {
            Some(netlink) => netlink,
            None => Netlink::open(SockProtocol::NetlinkSockDiag)?,
        };
        if self.requests.is_empty() {
            self.requests = inet_diag::dump_requests(ExtensionFlags::INFO, DATA_STATES).into();
        }
        let now_ns = clock_ns(ClockId::CLOCK_BOOTTIME);
        self.socket_queries.begin_dump(counted, now_ns);
        let Self { requests, connection_table, socket_queries, .. } = self;
        let mut update = connection_table.begin_dump(now_ns);
        for request in requests {
            netlink.dump(request, |kind, payload| {
                if let Some(connection) = connection::parse_connection(kind, payload) {
                    update.add_connection(&connection);
                    socket_queries.add_socket(payload);
                }
            })?;
        }
        // A socket is used again only if its answer was read to the end.
        self.netlink = Some(netlink);
        Ok(())
    }
}
