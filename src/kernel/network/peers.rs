//! Remote hosts: a dump of all open TCP connections with tcp_info, by sock_diag (any user may ask), added up by host.

mod connection;
mod ledger;
mod route;

use std::time::{Duration, Instant};

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, SocketId, StateFlags};
use nix::sys::socket::SockProtocol;
use nix::time::ClockId;

pub use connection::{connection, tcp_info};

use super::netlink::Netlink;
use crate::kernel::clock;
use crate::sample::network::peers::Peers;
use crate::sample::{Absent, Reading};
use ledger::Ledger;
use route::Routes;

/// After a look this many times its cost passes before the next: at most 2 % of one CPU, 20 ms a second. A connection costs
/// 1.3 µs to look at (10,010 of them 12.3 ms, 18,010 of them 24.9 ms, a table without any 0.3 ms), nearly all of it the
/// kernel's: ten thousand are looked at in every sample of a second, thirty thousand in every second one.
const REST_TIMES: u32 = 50;
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
    routes: Routes,
    last: Option<Reading<Peers>>,
}

impl PeerReader {
    /// The remote hosts at the last look, which is this moment's unless looking is dear: `looked_ns` tells.
    pub fn sample(&mut self) -> Reading<Peers> {
        if let Some(why) = self.refused {
            return Err(why);
        }
        if let (Some(last), Some(until)) = (&self.last, self.rest_until)
            && Instant::now() < until
        {
            return last.clone();
        }
        let begin = clock(ClockId::CLOCK_THREAD_CPUTIME_ID);
        let read = self.dump();
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

    fn dump(&mut self) -> Reading<()> {
        let mut netlink = match self.netlink.take() {
            Some(netlink) => netlink,
            None => Netlink::open(SockProtocol::NetlinkSockDiag)?,
        };
        if self.requests.is_empty() {
            self.requests = vec![request(AF_INET, SocketId::new_v4()), request(AF_INET6, SocketId::new_v6())];
        }
        let mut look = self.ledger.begin(clock(ClockId::CLOCK_BOOTTIME));
        for request in &mut self.requests {
            netlink.dump(request, |kind, payload| {
                if let Some(connection) = connection::connection(kind, payload) {
                    look.add(&connection);
                }
            })?;
        }
        // Only a socket whose answer was read to its end is used again.
        self.netlink = Some(netlink);
        Ok(())
    }
}

/// All connections of a family that can carry data, with tcp_info.
fn request(family: u8, socket_id: SocketId) -> Vec<u8> {
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let body = SockDiagMessage::InetRequest(InetRequest {
        family,
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::INFO,
        states: StateFlags::ESTABLISHED | StateFlags::CLOSE_WAIT | StateFlags::FIN_WAIT1,
        socket_id,
    });
    let mut message = NetlinkMessage::new(header, body.into());
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}
