//! A few connections, asked for one by one: a dump walks the kernel's whole table of them, 0.3 ms on a small machine however
//! few there are. As long as the counters of opened connections stand still there is no other.

use netlink_packet_core::{NLM_F_ACK, NLM_F_REQUEST, Parseable};
use netlink_packet_sock_diag::inet::InetResponseHeader;

use super::connection::{Connection, connection};
use super::{OPEN_STATES, request};
use crate::kernel::network::netlink::Netlink;
use crate::sample::network::Tcp;

/// From so many on a dump is cheaper.
const FEW: usize = 16;
/// A dump is made after so long in any case: a connection that another process restored (TCP_REPAIR) is in no counter.
const DUMP_NS: u64 = 60_000_000_000;

/// The connections of the last dump, and what the kernel had counted before it.
#[derive(Debug, Default)]
pub struct Singles {
    requests: Vec<Vec<u8>>,
    counted: Option<Counted>,
    dumped_ns: u64,
}

/// Of /proc/net/snmp: while these are the same, so are the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    active_opens: u64,
    passive_opens: u64,
    established: u64,
}

impl Counted {
    pub fn of(tcp: &Tcp) -> Counted {
        Counted { active_opens: tcp.active_opens.0, passive_opens: tcp.passive_opens.0, established: tcp.established }
    }
}

impl Singles {
    /// Whether all open connections are known, and few.
    pub fn suffice(&self, counted: Option<Counted>, now_ns: u64) -> bool {
        let same = counted.is_some() && counted == self.counted;
        same && self.requests.len() < FEW && now_ns.saturating_sub(self.dumped_ns) < DUMP_NS
    }

    /// A dump begins.
    pub fn begin(&mut self, counted: Option<Counted>, now_ns: u64) {
        self.requests.clear();
        (self.counted, self.dumped_ns) = (counted, now_ns);
    }

    /// One message of the dump that is a connection.
    pub fn note(&mut self, payload: &[u8]) {
        if self.requests.len() < FEW
            && let Ok(socket) = InetResponseHeader::parse(payload)
        {
            self.requests.push(request(socket.family, socket.socket_id, NLM_F_REQUEST | NLM_F_ACK, super::OPEN_STATES));
        }
    }

    /// All of them as they are now; `None` when one is not open any more, or cannot be asked for.
    pub fn ask(&mut self, netlink: &mut Netlink) -> Option<Vec<Connection>> {
        let mut ask = |request: &mut Vec<u8>| {
            let mut found = None;
            let keep = |kind, payload: &[u8]| found = connection(kind, payload).filter(|_| is_open(payload)).or(found.take());
            netlink.dump(request, keep).ok()?;
            found
        };
        self.requests.iter_mut().map(&mut ask).collect()
    }
}

/// The second byte of struct inet_diag_msg is the state: whether a dump would show it.
fn is_open(payload: &[u8]) -> bool {
    payload.get(1).is_some_and(|&state| 1_u32.checked_shl(u32::from(state)).is_some_and(|bit| OPEN_STATES.bits() & bit != 0))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::kernel::network::peers::PeerReader;

    fn counted(established: u64) -> Option<Counted> {
        Some(Counted { active_opens: 7, passive_opens: 9, established })
    }

    #[test]
    fn they_suffice_while_nothing_opened_or_closed_and_not_for_ever() {
        let mut singles = Singles::default();
        assert!(!singles.suffice(counted(1), 5));
        singles.begin(counted(1), 5);
        assert!(singles.suffice(counted(1), 6));
        assert!(!singles.suffice(counted(2), 6));
        assert!(!singles.suffice(None, 6));
        assert!(!singles.suffice(counted(1), 5 + DUMP_NS));
        singles.requests = vec![Vec::new(); FEW];
        assert!(!singles.suffice(counted(1), 6));
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
        let mut reader = PeerReader::default();
        // Others on this machine have connections, too: only the two ends of ours are asked for again.
        let found = reader.dump_all(None, |singles, payload| {
            let ours = InetResponseHeader::parse(payload)
                .is_ok_and(|socket| [socket.socket_id.source_port, socket.socket_id.destination_port].contains(&port));
            if ours {
                singles.note(payload);
            }
        });
        if let Err(why) = found {
            return println!("skipped: this kernel has no INET_DIAG ({why})");
        }
        let PeerReader { singles, netlink, .. } = &mut reader;
        assert_eq!(singles.requests.len(), 2);
        assert_eq!(singles.ask(netlink.as_mut().unwrap()).map(|connections| connections.len()), Some(2));
        drop((client, server));
        assert_eq!(singles.ask(netlink.as_mut().unwrap()), None);
    }
}
