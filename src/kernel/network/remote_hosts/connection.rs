//! One connection, from one message of a sock_diag dump: addresses, and struct tcp_info as far as this kernel fills it.

use std::net::IpAddr;

use netlink_packet_core::{NlasIterator, Parseable};
use netlink_packet_sock_diag::constants::{INET_DIAG_INFO, SOCK_DIAG_BY_FAMILY};
use netlink_packet_sock_diag::inet::InetResponseHeader;

/// Bytes of struct inet_diag_msg, before the attributes.
const INET_DIAG_MSG_SIZE: usize = 72;

/// An open connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Its number in this boot, never given again
    pub cookie: [u8; 8],
    pub remote_address: IpAddr,
    /// Ports here and there
    pub ports: (u16, u16),
    /// The socket's, as a descriptor's link says it
    pub inode: u32,
    /// Both ends are on this machine
    pub is_local: bool,
    pub tcp_info: TcpInfo,
}

/// What is used of struct tcp_info (include/uapi/linux/tcp.h). It only ever grew at its end: a field behind the end of what
/// the kernel sent is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Segments on their way, and how many may be
    pub unacked: u32,
    pub congestion_window: u32,
    /// Microseconds
    pub srtt_us: u32,
    pub segments_retransmitted: u32,
    /// Milliseconds since data was last sent, and received
    pub last_data_sent_ms: u32,
    pub last_data_received_ms: u32,
    pub bytes_acked: Option<u64>,
    pub bytes_received: Option<u64>,
    pub notsent_bytes: Option<u32>,
    /// Microseconds; `None` too where none was measured
    pub min_rtt_us: Option<u32>,
    pub data_segments_out: Option<u32>,
    /// Microseconds: busy, of that limited by the receiver, of that by the send buffer
    pub limit_times_us: Option<[u64; 3]>,
}

/// The connection, if the message is one with tcp_info in it.
pub fn parse_connection(kind: u16, payload: &[u8]) -> Option<Connection> {
    (kind == SOCK_DIAG_BY_FAMILY).then_some(())?;
    let socket = InetResponseHeader::parse(payload).ok()?;
    let attributes = NlasIterator::new(payload.get(INET_DIAG_MSG_SIZE..)?);
    let info = attributes.map_while(Result::ok).find(|attribute| attribute.kind() == INET_DIAG_INFO)?;
    let local = socket.socket_id.source_address.to_canonical();
    let remote = socket.socket_id.destination_address.to_canonical();
    Some(Connection {
        cookie: socket.socket_id.cookie,
        remote_address: remote,
        ports: (socket.socket_id.source_port, socket.socket_id.destination_port),
        inode: socket.inode,
        is_local: remote == local || remote.is_loopback(),
        tcp_info: parse_tcp_info(info.value())?,
    })
}

/// `None` where not even what every kernel since 2.6 sends is there.
pub fn parse_tcp_info(bytes: &[u8]) -> Option<TcpInfo> {
    let small = |at: usize| bytes.get(at..)?.first_chunk::<4>().map(|field| u32::from_ne_bytes(*field));
    let large = |at: usize| bytes.get(at..)?.first_chunk::<8>().map(|field| u64::from_ne_bytes(*field));
    Some(TcpInfo {
        unacked: small(24)?,
        last_data_sent_ms: small(44)?,
        last_data_received_ms: small(52)?,
        srtt_us: small(68)?,
        congestion_window: small(80)?,
        segments_retransmitted: small(100)?,
        bytes_acked: large(120),
        bytes_received: large(128),
        notsent_bytes: small(144),
        min_rtt_us: small(148).filter(|&minimum| minimum != 0 && minimum != u32::MAX),
        data_segments_out: small(156),
        limit_times_us: (|| Some([large(168)?, large(176)?, large(184)?]))(),
    })
}

impl TcpInfo {
    /// The application gives more than the path takes at this moment.
    pub fn is_send_backlogged(&self) -> bool {
        let window_full = self.unacked > 0 && self.unacked >= self.congestion_window;
        self.notsent_bytes.is_some_and(|bytes| bytes > 0) || window_full
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::super::connection_table::ConnectionTable;
    use super::*;
    use crate::kernel::network::netlink::{Progress, parse_messages};
    use crate::sample::{Absent, Reading};

    /// The whole answers of a 6.18 kernel to the request for IPv4 and IPv6, sequence 7: 60,000 bytes each way over loopback,
    /// between two IPv4 sockets, two IPv6 sockets, and an IPv4 and a dual-stack one.
    const INET: &[u8] = include_bytes!("../../../../tests/kernel/netlink/tcp-inet-6.18.bin");
    const INET6: &[u8] = include_bytes!("../../../../tests/kernel/netlink/tcp-inet6-6.18.bin");

    fn read(answer: &[u8]) -> (Reading<Progress>, Vec<Connection>) {
        let mut connections = Vec::new();
        let progress = parse_messages(answer, 7, &mut |kind, payload| connections.extend(parse_connection(kind, payload)));
        (progress, connections)
    }

    #[test]
    fn a_captured_answer_is_read() {
        let (progress, inet) = read(INET);
        assert_eq!((progress, inet.len()), (Ok(Progress::Done), 3));
        let sender = inet.iter().find(|connection| connection.tcp_info.bytes_acked == Some(60_001)).unwrap();
        assert!(sender.is_local);
        assert_eq!(sender.remote_address, IpAddr::V4(Ipv4Addr::LOCALHOST));
        assert_eq!((sender.tcp_info.data_segments_out, sender.tcp_info.bytes_received), (Some(30), Some(300)));
        assert!(sender.tcp_info.min_rtt_us.unwrap() <= sender.tcp_info.srtt_us);
        assert!(!sender.tcp_info.is_send_backlogged());
        let (progress, inet6) = read(INET6);
        assert_eq!((progress, inet6.len()), (Ok(Progress::Done), 3));
        let mapped = inet6.iter().filter(|connection| connection.remote_address == IpAddr::V4(Ipv4Addr::LOCALHOST)).count();
        assert_eq!(mapped, 1, "the dual-stack socket's host is an IPv4 address");
        assert!(inet6.iter().all(|connection| connection.is_local));
    }

    #[test]
    fn a_shorter_struct_lacks_its_last_fields() {
        let whole: Vec<u8> = (0..70_u32).flat_map(|word| (word + 1).to_ne_bytes()).collect();
        let fields = |length: usize| parse_tcp_info(&whole[..length]);
        assert_eq!(fields(103), None);
        // 3.10, 4.4, 4.9, 4.10.
        let old = fields(104).unwrap();
        assert_eq!((old.srtt_us, old.segments_retransmitted, old.bytes_acked, old.min_rtt_us), (18, 26, None, None));
        let newer = fields(144).unwrap();
        assert!(newer.bytes_received.is_some() && newer.notsent_bytes.is_none());
        let newer = fields(160).unwrap();
        assert_eq!((newer.min_rtt_us, newer.data_segments_out, newer.limit_times_us), (Some(38), Some(40), None));
        assert!(fields(192).unwrap().limit_times_us.is_some());
        // A field that is cut in its middle is none.
        assert_eq!(fields(123).unwrap().bytes_acked, None);
        assert_eq!(fields(191).unwrap().limit_times_us, None);
        for length in 0..=whole.len() {
            let _ = fields(length);
        }
    }

    #[test]
    fn an_answer_that_is_cut_is_no_answer() {
        for answer in [INET, INET6] {
            for length in 0..answer.len() {
                let (progress, _) = read(&answer[..length]);
                assert_ne!(progress, Ok(Progress::Done), "cut at {length}");
                // Between two messages it may go on; within one it may not.
                assert!(matches!(progress, Ok(Progress::More) | Err(Absent::Malformed)), "cut at {length}: {progress:?}");
            }
        }
    }

    #[test]
    fn any_damaged_byte_is_survived() {
        for answer in [INET, INET6] {
            for at in 0..answer.len() {
                for byte in [0x00, 0x01, 0x7f, 0x80, 0xff, answer[at] ^ 0x04] {
                    let mut damaged = answer.to_vec();
                    damaged[at] = byte;
                    let mut ledger = ConnectionTable::default();
                    for now_ns in [1_000_000_000, 2_000_000_000] {
                        let (_, connections) = read(&damaged);
                        let mut look = ledger.begin_dump(now_ns);
                        connections.iter().for_each(|connection| look.add_to_optional(connection));
                        assert!(ledger.finish_dump(0).rows.len() <= 3);
                    }
                }
            }
        }
    }

    #[test]
    fn another_message_or_family_is_passed_over() {
        assert_eq!(parse_connection(19, &INET[16..408]), None);
        let mut other = INET[16..408].to_vec();
        assert!(parse_connection(20, &other).is_some());
        other[0] = 1;
        assert_eq!(parse_connection(20, &other), None);
        // Without tcp_info there is nothing to say.
        assert_eq!(parse_connection(20, &INET[16..16 + INET_DIAG_MSG_SIZE]), None);
    }
}
