//! Remote hosts: a dump of all open TCP connections with tcp_info, by sock_diag (any user may ask), added up by host.

mod connection;
mod ledger;
mod route;
mod singles;

use std::time::{Duration, Instant};

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, SocketId, StateFlags};
use nix::sys::socket::SockProtocol;
use nix::time::ClockId;

pub use connection::{Connection, connection, tcp_info};
pub use singles::Counted;

use super::netlink::Netlink;
use crate::kernel::clock;
use crate::sample::network::peers::Peers;
use crate::sample::{Absent, Reading};
use ledger::Ledger;
use route::Routes;
use singles::Singles;

/// After a look this many times its cost passes before the next: at most 2 % of one CPU, 20 ms a second. A connection costs
/// 1.3 µs to look at (10,010 of them 12.3 ms, 18,010 of them 24.9 ms, a table without any 0.3 ms), nearly all of it the
/// kernel's: ten thousand are looked at in every sample of a second, thirty thousand in every second one.
const REST_TIMES: u32 = 50;
/// Connections that can carry data.
const OPEN_STATES: StateFlags = StateFlags::ESTABLISHED.union(StateFlags::CLOSE_WAIT).union(StateFlags::FIN_WAIT1);
/// After an answer that could not be understood.
const REST_AFTER_FAILURE: Duration = Duration::from_secs(10);

/// Asks again and again over one socket, less often where it is dear.
#[derive(Debug, Default)]
pub struct PeerReader {
    netlink: Option<Netlink>,
    requests: Vec<Vec<u8>>,
    /// A kernel that does not answer this is not asked again.
    refused: Option<Absent>,
    rest_until: Option<Instant>,
    ledger: Ledger,
    singles: Singles,
    routes: Routes,
    last: Option<Reading<Peers>>,
}

impl PeerReader {
    /// The remote hosts at the last look, which is this moment's unless looking is dear: `looked_ns` tells. `counted` was read
    /// before.
    pub fn sample(&mut self, counted: Option<Counted>) -> Reading<Peers> {
        if let Some(why) = self.refused {
            return Err(why);
        }
        if let (Some(last), Some(until)) = (&self.last, self.rest_until)
            && Instant::now() < until
        {
            return last.clone();
        }
        let begin = clock(ClockId::CLOCK_THREAD_CPUTIME_ID);
        let read = self.look(counted);
        let cost_ns = || clock(ClockId::CLOCK_THREAD_CPUTIME_ID).saturating_sub(begin);
        let reading = read.map(|()| self.ledger.end(0)).map(|mut peers| {
            self.routes.find(&mut peers.rows);
            peers.cost_ns = cost_ns();
            peers
        });
        let rest = match &reading {
            Ok(peers) => Duration::from_nanos(peers.cost_ns).saturating_mul(REST_TIMES),
            Err(_) => REST_AFTER_FAILURE,
        };
        if let Err(why @ (Absent::NoSuchFile | Absent::NoPermission | Absent::Unsupported)) = &reading {
            self.refused = Some(*why);
        }
        self.rest_until = Some(Instant::now() + rest);
        self.last = Some(reading.clone());
        reading
    }

    fn look(&mut self, counted: Option<Counted>) -> Reading<()> {
        let now_ns = clock(ClockId::CLOCK_BOOTTIME);
        if self.singles.suffice(counted, now_ns)
            && let Some(netlink) = &mut self.netlink
            && let Some(connections) = self.singles.ask(netlink)
        {
            let mut look = self.ledger.begin(now_ns);
            connections.iter().for_each(|connection| look.add(connection));
            return Ok(());
        }
        self.dump_all(counted, Singles::note)
    }

    /// A dump for each family; `note` is given what may be asked for one by one next time.
    fn dump_all(&mut self, counted: Option<Counted>, note: impl Fn(&mut Singles, &[u8])) -> Reading<()> {
        let mut netlink = match self.netlink.take() {
            Some(netlink) => netlink,
            None => Netlink::open(SockProtocol::NetlinkSockDiag)?,
        };
        if self.requests.is_empty() {
            let dump = |family, socket_id| request(family, socket_id, NLM_F_REQUEST | NLM_F_DUMP, OPEN_STATES);
            self.requests = vec![dump(AF_INET, SocketId::new_v4()), dump(AF_INET6, SocketId::new_v6())];
        }
        let now_ns = clock(ClockId::CLOCK_BOOTTIME);
        self.singles.begin(counted, now_ns);
        let Self { requests, ledger, singles, .. } = self;
        let mut look = ledger.begin(now_ns);
        for request in requests {
            netlink.dump(request, |kind, payload| {
                if let Some(connection) = connection::connection(kind, payload) {
                    look.add(&connection);
                    note(singles, payload);
                }
            })?;
        }
        // Only a socket whose answer was read to its end is used again.
        self.netlink = Some(netlink);
        Ok(())
    }
}

/// Sockets of a family in these states, or this one, with tcp_info.
pub fn request(family: u8, socket_id: SocketId, flags: u16, states: StateFlags) -> Vec<u8> {
    let mut header = NetlinkHeader::default();
    header.flags = flags;
    let body = SockDiagMessage::InetRequest(InetRequest {
        family,
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::INFO,
        states,
        socket_id,
    });
    let mut message = NetlinkMessage::new(header, body.into());
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}
