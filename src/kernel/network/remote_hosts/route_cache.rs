//! Finds the interface of the route to a host by RTM_GETROUTE for its address. Needs no privilege. Policy routing by mark or
//! source address is not considered.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use libc::{AF_INET, AF_INET6, NLM_F_ACK, NLM_F_REQUEST, RTA_DST, RTA_OIF, RTM_GETROUTE, RTM_NEWROUTE};
use linux_raw_sys::netlink::rtmsg;
use netlink_packet_core::{NLA_HEADER_SIZE, NlasIterator};
use nix::sys::socket::SockProtocol;
use rustc_hash::FxHashMap;

use crate::kernel::network::netlink::{Netlink, request, u32_at};
use crate::sample::network::remote_hosts::RemoteHost;
use crate::sample::{Absent, Reading};

/// A route is used for this time.
const CACHE_TTL: Duration = Duration::from_secs(30);

/// The cached routes of the hosts in a sample.
#[derive(Debug, Default)]
pub struct RouteCache {
    netlink: Option<Netlink>,
    cache: FxHashMap<IpAddr, (Instant, Option<u32>)>,
}

impl RouteCache {
    /// Sets the interface of each host where the kernel has a route.
    pub fn fill_interfaces(&mut self, hosts: &mut [RemoteHost]) {
        self.cache.retain(|_, (at, _)| at.elapsed() < CACHE_TTL);
        for host in hosts.iter_mut().filter(|host| !host.local) {
            host.ifindex = match self.cache.get(&host.address) {
                Some(&(_, interface)) => interface,
                None => {
                    let interface = self.query_interface(host.address).ok();
                    self.cache.insert(host.address, (Instant::now(), interface));
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
            // The answer was read to its end, also one that there is no route.
            Ok(()) | Err(Absent::Os(_) | Absent::NoSuchFile) => self.netlink = Some(netlink),
            Err(_) => {}
        }
        answer.and(interface.ok_or(Absent::Malformed))
    }
}

/// RTA_OIF, the outgoing interface of a route.
fn parse_outgoing_interface(kind: u16, payload: &[u8]) -> Option<u32> {
    (kind == RTM_NEWROUTE).then_some(())?;
    let mut attributes = NlasIterator::new(payload.get(size_of::<rtmsg>()..)?).map_while(Result::ok);
    let interface = attributes.find(|attribute| attribute.kind() == RTA_OIF)?;
    u32_at(interface.value(), 0)
}

/// `struct rtmsg` for one address, and the address as RTA_DST.
fn route_request(address: IpAddr) -> Vec<u8> {
    let (family, octets) = match address {
        IpAddr::V4(address) => (AF_INET, address.octets().to_vec()),
        IpAddr::V6(address) => (AF_INET6, address.octets().to_vec()),
    };
    let mut body = vec![0; size_of::<rtmsg>()];
    // rtm_family and rtm_dst_len, in bits
    if let [rtm_family, rtm_dst_len, ..] = body.as_mut_slice() {
        (*rtm_family, *rtm_dst_len) = (family as u8, octets.len() as u8 * 8);
    }
    body.extend(((NLA_HEADER_SIZE + octets.len()) as u16).to_ne_bytes());
    body.extend(RTA_DST.to_ne_bytes());
    body.extend(octets);
    // With NLM_F_ACK the answer has an end.
    request(RTM_GETROUTE, (NLM_F_REQUEST | NLM_F_ACK) as u16, &body)
}
