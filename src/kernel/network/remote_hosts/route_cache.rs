//! Which interface the route to a host leaves by: RTM_GETROUTE for one address, which any user may ask. Policy routing
//! by mark or source address is not followed.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use netlink_packet_core::{NLM_F_ACK, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NlasIterator};
use netlink_packet_route::route::{RouteAttribute, RouteMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use nix::sys::socket::SockProtocol;
use rustc_hash::FxHashMap;

use crate::kernel::network::netlink::Netlink;
use crate::sample::network::remote_hosts::RemoteHost;
use crate::sample::{Absent, Reading};

/// A route is believed this long.
const CACHE_TTL: Duration = Duration::from_secs(30);

const RTM_NEWROUTE: u16 = 24;
/// Bytes of struct rtmsg, before the attributes.
const RTMSG_SIZE: usize = 12;
const RTA_OIF: u16 = 4;

/// The routes found so far, of the hosts that a sample keeps.
#[derive(Debug, Default)]
pub struct RouteCache {
    netlink: Option<Netlink>,
    cache: FxHashMap<IpAddr, (Instant, Option<u32>)>,
}

impl RouteCache {
    /// Fills in the interface of each host, where it can be told.
    pub fn fill_interfaces(&mut self, peers: &mut [RemoteHost]) {
        self.cache.retain(|_, (at, _)| at.elapsed() < CACHE_TTL);
        for peer in peers.iter_mut().filter(|peer| !peer.local) {
            peer.ifindex = match self.cache.get(&peer.address) {
                Some(&(_, interface)) => interface,
                None => {
                    let interface = self.query_interface(peer.address).ok();
                    self.cache.insert(peer.address, (Instant::now(), interface));
                    interface
                }
            };
        }
    }

    fn query_interface(&mut self, address: IpAddr) -> Reading<u32> {
        let mut netlink = match self.netlink.take() {
            Some(netlink) => netlink,
            None => Netlink::open(SockProtocol::NetlinkRoute)?,
        };
        let mut interface = None;
        let answer = netlink.dump(&mut route_request(address), |kind, payload| {
            interface = interface.or(parse_outgoing_interface(kind, payload))
        });
        match answer {
            // An answer read to its end, be it that there is no route.
            Ok(()) | Err(Absent::Os(_) | Absent::NoSuchFile) => self.netlink = Some(netlink),
            Err(_) => {}
        }
        answer.and(interface.ok_or(Absent::Malformed))
    }
}

/// RTA_OIF of a route.
fn parse_outgoing_interface(kind: u16, payload: &[u8]) -> Option<u32> {
    (kind == RTM_NEWROUTE).then_some(())?;
    let mut attributes = NlasIterator::new(payload.get(RTMSG_SIZE..)?).map_while(Result::ok);
    let interface = attributes.find(|attribute| attribute.kind() == RTA_OIF)?;
    interface.value().first_chunk::<4>().map(|index| u32::from_ne_bytes(*index))
}

fn route_request(address: IpAddr) -> Vec<u8> {
    let mut header = NetlinkHeader::default();
    // Acknowledged, so that the answer has an end.
    header.flags = NLM_F_REQUEST | NLM_F_ACK;
    let mut route = RouteMessage::default();
    (route.header.address_family, route.header.destination_prefix_length) = match address {
        IpAddr::V4(_) => (AddressFamily::Inet, 32),
        IpAddr::V6(_) => (AddressFamily::Inet6, 128),
    };
    route.attributes = vec![RouteAttribute::Destination(address.into())];
    let mut message = NetlinkMessage::new(header, RouteNetlinkMessage::GetRoute(route).into());
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}
