//! Reads index, name and kind of each interface of a network namespace by one RTM_GETLINK dump. Needs no privilege.

use std::mem::offset_of;

use libc::{
    ARPHRD_LOOPBACK, IFF_RUNNING, IFLA_IFNAME, IFLA_INFO_KIND, IFLA_LINKINFO, NLM_F_DUMP, NLM_F_REQUEST, RTM_GETLINK,
    RTM_NEWLINK,
};
use linux_raw_sys::netlink::ifinfomsg;
use netlink_packet_core::{NLA_HEADER_SIZE, NlasIterator};

use crate::kernel::network::netlink::{Netlink, request, u32_at};
use crate::sample::Reading;

/// One interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub ifindex: u32,
    pub name: Vec<u8>,
    pub is_loopback: bool,
    /// It has an IFLA_INFO_KIND: veth, bridge, macvlan …; hardware has none
    pub is_virtual: bool,
    /// IFF_RUNNING
    pub is_up: bool,
}

/// The interfaces in the namespace of the socket.
pub fn read(netlink: &mut Netlink) -> Reading<Vec<Link>> {
    let mut request = request(RTM_GETLINK, (NLM_F_REQUEST | NLM_F_DUMP) as u16, &[0; size_of::<ifinfomsg>()]);
    let mut links = Vec::new();
    netlink.dump(&mut request, |kind, payload| links.extend(parse_link(kind, payload)))?;
    Ok(links)
}

/// Parses one message.
fn parse_link(kind: u16, payload: &[u8]) -> Option<Link> {
    (kind == RTM_NEWLINK).then_some(())?;
    let device_type =
        payload.get(offset_of!(ifinfomsg, ifi_type)..)?.first_chunk::<2>().map(|bytes| u16::from_ne_bytes(*bytes))?;
    let flags = u32_at(payload, offset_of!(ifinfomsg, ifi_flags))?;
    let mut link = Link {
        ifindex: u32_at(payload, offset_of!(ifinfomsg, ifi_index))?,
        name: Vec::new(),
        is_loopback: device_type == ARPHRD_LOOPBACK,
        is_virtual: false,
        is_up: flags & IFF_RUNNING.cast_unsigned() != 0,
    };
    for attribute in NlasIterator::new(payload.get(size_of::<ifinfomsg>()..)?).map_while(Result::ok) {
        match attribute.kind() {
            IFLA_IFNAME => {
                let end = usize::from(attribute.length());
                let name = attribute.into_inner().get(NLA_HEADER_SIZE..end)?;
                link.name = name.strip_suffix(b"\0").unwrap_or(name).to_vec();
            }
            IFLA_LINKINFO => {
                let mut inside = NlasIterator::new(attribute.value()).map_while(Result::ok);
                link.is_virtual = inside.any(|attribute| attribute.kind() == IFLA_INFO_KIND);
            }
            _ => {}
        }
    }
    Some(link)
}
