//! Builds sock_diag requests for TCP sockets (include/uapi/linux/inet_diag.h).

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, SocketId, StateFlags};

/// Requests for dumps of the sockets in these states, of IPv4 and of IPv6.
pub fn dump_requests(extensions: ExtensionFlags, states: StateFlags) -> [Vec<u8>; 2] {
    [(AF_INET, SocketId::new_v4()), (AF_INET6, SocketId::new_v6())]
        .map(|(family, any)| request(family, any, NLM_F_REQUEST | NLM_F_DUMP, extensions.clone(), states.clone()))
}

/// A request for the sockets of an address family in these states, or for the one socket of `socket_id`, with the attributes
/// of `extensions`.
pub fn request(family: u8, socket_id: SocketId, flags: u16, extensions: ExtensionFlags, states: StateFlags) -> Vec<u8> {
    let mut header = NetlinkHeader::default();
    header.flags = flags;
    let body = SockDiagMessage::InetRequest(InetRequest { family, protocol: IPPROTO_TCP, extensions, states, socket_id });
    let mut message = NetlinkMessage::new(header, body.into());
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}
