//! Queries connections one by one while there are few: for a dump the kernel walks its whole table, which takes 0.3 ms on a
//! small machine. While the counters of opened connections do not change, there are no new connections.

use netlink_packet_core::{NLM_F_ACK, NLM_F_REQUEST, Parseable};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetResponseHeader};

use super::DATA_STATES;
use super::connection::{Connection, parse_connection};
use crate::kernel::network::inet_diag;
use crate::kernel::network::netlink::Netlink;
use crate::sample::network::Tcp;

/// With more connections a dump is cheaper.
const MAX_QUERIES: usize = 16;
/// A dump is requested after this time in any case: a connection that was restored (TCP_REPAIR) is in no counter.
const MAX_DUMP_AGE_NS: u64 = 60_000_000_000;

/// Requests for the connections of the last dump, and the counters before it.
#[derive(Debug, Default)]
pub struct SocketQueries {
    requests: Vec<Vec<u8>>,
    counters_at_dump: Option<ConnectionCounters>,
    last_dump_ns: u64,
}

/// Counters of /proc/net/snmp: while they do not change, the connections are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionCounters {
    active_opens: u64,
    passive_opens: u64,
    established: u64,
}

impl ConnectionCounters {
    /// The counters in the `Tcp:` lines of /proc/net/snmp.
    pub fn from_tcp(tcp: &Tcp) -> ConnectionCounters {
        ConnectionCounters {
            active_opens: tcp.active_opens.0,
            passive_opens: tcp.passive_opens.0,
            established: tcp.established,
        }
    }
}

impl SocketQueries {
    /// Whether all open connections are known and few.
    pub fn can_replace_dump(&self, counted: Option<ConnectionCounters>, now_ns: u64) -> bool {
        let same = counted.is_some() && counted == self.counters_at_dump;
        same && self.requests.len() < MAX_QUERIES && now_ns.saturating_sub(self.last_dump_ns) < MAX_DUMP_AGE_NS
    }

    /// Starts a dump.
    pub fn begin_dump(&mut self, counted: Option<ConnectionCounters>, now_ns: u64) {
        self.requests.clear();
        (self.counters_at_dump, self.last_dump_ns) = (counted, now_ns);
    }

    /// Adds a connection of the dump.
    pub fn add_socket(&mut self, payload: &[u8]) {
        if self.requests.len() < MAX_QUERIES
            && let Ok(socket) = InetResponseHeader::parse(payload)
        {
            self.requests.push(inet_diag::request(
                socket.family,
                socket.socket_id,
                NLM_F_REQUEST | NLM_F_ACK,
                ExtensionFlags::INFO,
                DATA_STATES,
            ));
        }
    }

    /// Queries all of them; `None` when one is no longer open or cannot be queried.
    pub fn query_all(&mut self, netlink: &mut Netlink) -> Option<Vec<Connection>> {
        let mut query = |request: &mut Vec<u8>| {
            let mut found = None;
            let keep = |kind, payload: &[u8]| {
                found = parse_connection(kind, payload).filter(|_| is_data_state(payload)).or(found.take())
            };
            netlink.dump(request, keep).ok()?;
            found
        };
        self.requests.iter_mut().map(&mut query).collect()
    }
}

/// Whether a dump would contain the connection: the second byte of struct inet_diag_msg is its state.
fn is_data_state(payload: &[u8]) -> bool {
    payload.get(1).is_some_and(|&state| 1_u32.checked_shl(u32::from(state)).is_some_and(|bit| DATA_STATES.bits() & bit != 0))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use netlink_packet_core::NLM_F_DUMP;
    use netlink_packet_sock_diag::constants::AF_INET;
    use netlink_packet_sock_diag::inet::SocketId;
    use nix::sys::socket::SockProtocol;

    use super::*;
    use crate::units::Counter;

    fn counted(established: u64) -> Option<ConnectionCounters> {
        let tcp = Tcp { active_opens: Counter(7), passive_opens: Counter(9), established, ..Tcp::default() };
        Some(ConnectionCounters::from_tcp(&tcp))
    }

    #[test]
    fn queries_replace_a_dump_while_no_connection_opens_or_closes_up_to_a_maximum_age() {
        let mut queries = SocketQueries::default();
        assert!(!queries.can_replace_dump(counted(1), 5));
        queries.begin_dump(counted(1), 5);
        assert!(queries.can_replace_dump(counted(1), 6));
        assert!(!queries.can_replace_dump(counted(2), 6));
        assert!(!queries.can_replace_dump(None, 6));
        assert!(!queries.can_replace_dump(counted(1), 5 + MAX_DUMP_AGE_NS));
        // A struct inet_diag_msg of an IPv4 connection
        let mut socket = [0; 72];
        socket[0] = AF_INET;
        (0..MAX_QUERIES).for_each(|_| queries.add_socket(&socket));
        assert!(!queries.can_replace_dump(counted(1), 6));
    }

    #[test]
    fn each_connection_is_found_again_and_one_that_closed_is_missed() {
        if TcpListener::bind("127.0.0.1:0").and_then(|here| TcpStream::connect(here.local_addr()?)).is_err() {
            return println!("skipped: no loopback interface is up here");
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut queries = SocketQueries::default();
        // This machine may have other connections: only both ends of this one are queried.
        let mut add = |_: u16, payload: &[u8]| {
            let ours = InetResponseHeader::parse(payload)
                .is_ok_and(|socket| [socket.socket_id.source_port, socket.socket_id.destination_port].contains(&port));
            if ours {
                queries.add_socket(payload);
            }
        };
        let flags = NLM_F_REQUEST | NLM_F_DUMP;
        let mut dump = inet_diag::request(AF_INET, SocketId::new_v4(), flags, ExtensionFlags::INFO, DATA_STATES);
        let dumped = Netlink::open(SockProtocol::NetlinkSockDiag)
            .and_then(|mut netlink| netlink.dump(&mut dump, &mut add).map(|()| netlink));
        let mut netlink = match dumped {
            Ok(netlink) => netlink,
            Err(why) => return println!("skipped: this kernel has no INET_DIAG ({why})"),
        };
        assert_eq!(queries.query_all(&mut netlink).map(|connections| connections.len()), Some(2));
        drop((client, server));
        assert_eq!(queries.query_all(&mut netlink), None);
    }
}
