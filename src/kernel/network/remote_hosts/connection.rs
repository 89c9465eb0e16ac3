//! Parses one message of a sock_diag dump: a TCP connection's addresses and its tcp_info, as far as this kernel fills it.

use std::mem::offset_of;
use std::net::{IpAddr, SocketAddr};

use linux_raw_sys::net::tcp_info;
use netlink_packet_core::{NlasIterator, Parseable};
use netlink_packet_sock_diag::constants::{
    INET_DIAG_INFO, SOCK_DIAG_BY_FAMILY, TCP_CLOSE_WAIT, TCP_ESTABLISHED, TCP_LISTEN, TCP_SYN_SENT,
};
use netlink_packet_sock_diag::inet::InetResponseHeader;

use crate::kernel::network::netlink::u32_at;
use crate::kernel::sys::INET_DIAG_MSG_SIZE;

/// The first of the ports that the kernel gives to clients (net.ipv4.ip_local_port_range).
const FIRST_CLIENT_PORT: u16 = 32_768;

/// Ports that rresvport(3) gives to clients of root.
const RESERVED_CLIENT_PORTS: std::ops::Range<u16> = 512..1024;

/// Where idiag_expires is in struct inet_diag_msg.
const EXPIRES_AT: usize = 52;

/// An open connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// idiag_cookie: unique in this boot
    pub cookie: [u8; 8],
    pub remote_address: IpAddr,
    pub local_address: IpAddr,
    /// Local and remote port
    pub ports: (u16, u16),
    /// idiag_state, TCP_ESTABLISHED …
    pub state: u8,
    pub timer: TcpTimer,
    /// idiag_expires: milliseconds until the retransmit timer ends, if that one runs
    pub timer_ms: Option<u32>,
    /// idiag_retrans: retransmits, or window probes, in a row
    pub retries: u8,
    /// idiag_rqueue: received bytes that the application has not read; of a listening socket the length of its accept queue
    pub unread_bytes: u32,
    /// idiag_wqueue: bytes that are not sent, or sent and not acknowledged
    pub queued_bytes: u32,
    /// The socket's, as in the link of its descriptor (`socket:[inode]`)
    pub inode: u32,
    /// Whether both ends are on this machine
    pub is_local: bool,
    pub tcp_info: TcpInfo,
}

/// The timer that runs, of those that show a connection without progress: idiag_timer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TcpTimer {
    /// 1: data, or a connection request, is not acknowledged
    Retransmit,
    /// 4: the receiver's window is closed
    WindowProbe,
    /// None, or another one
    #[default]
    Other,
}

/// The fields in use of struct tcp_info (include/uapi/linux/tcp.h). Kernels only add fields at its end: one that this kernel
/// does not send is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Segments sent and not acknowledged
    pub unacked: u32,
    /// tcpi_snd_cwnd: how many segments may be unacknowledged
    pub congestion_window: u32,
    /// tcpi_rtt, smoothed, in microseconds
    pub srtt_us: u32,
    pub segments_retransmitted: u32,
    /// Milliseconds since data was last sent
    pub last_data_sent_ms: u32,
    /// Milliseconds since data was last received
    pub last_data_received_ms: u32,
    pub bytes_acked: Option<u64>,
    pub bytes_received: Option<u64>,
    pub notsent_bytes: Option<u32>,
    /// Microseconds; `None` also where none has been measured
    pub min_rtt_us: Option<u32>,
    /// tcpi_data_segs_in: segments with data
    pub data_segments_in: Option<u32>,
    pub data_segments_out: Option<u32>,
    /// Microseconds with data to send (tcpi_busy_time), of these limited by the receiver's window, and by the send buffer
    pub limit_times_us: Option<[u64; 3]>,
}

/// The connection of a message; `None` for another kind of message, and without tcp_info.
pub fn parse_connection(kind: u16, payload: &[u8]) -> Option<Connection> {
    (kind == SOCK_DIAG_BY_FAMILY).then_some(())?;
    let socket = InetResponseHeader::parse(payload).ok()?;
    let attributes = NlasIterator::new(payload.get(INET_DIAG_MSG_SIZE..)?);
    let info = attributes.map_while(Result::ok).find(|attribute| attribute.kind() == INET_DIAG_INFO)?;
    // Bytes 2 and 3 of struct inet_diag_msg: idiag_timer and idiag_retrans.
    let (timer, retries) = (payload.get(2).copied(), payload.get(3));
    let local = socket.socket_id.source_address.to_canonical();
    let remote = socket.socket_id.destination_address.to_canonical();
    Some(Connection {
        cookie: socket.socket_id.cookie,
        remote_address: remote,
        local_address: local,
        state: socket.state,
        timer: match timer {
            Some(1) => TcpTimer::Retransmit,
            Some(4) => TcpTimer::WindowProbe,
            _ => TcpTimer::Other,
        },
        timer_ms: u32_at(payload, EXPIRES_AT).filter(|_| timer == Some(1)),
        retries: retries.copied().unwrap_or(0),
        unread_bytes: socket.recv_queue,
        queued_bytes: socket.send_queue,
        ports: (socket.socket_id.source_port, socket.socket_id.destination_port),
        inode: socket.inode,
        is_local: remote == local || remote.is_loopback(),
        tcp_info: parse_tcp_info(info.value())?,
    })
}

/// `None` where it is shorter than on any kernel since 2.6.
pub fn parse_tcp_info(bytes: &[u8]) -> Option<TcpInfo> {
    let small = |at| u32_at(bytes, at);
    let large = |at: usize| bytes.get(at..)?.first_chunk::<8>().map(|field| u64::from_ne_bytes(*field));
    let limit_times = || {
        Some([
            large(offset_of!(tcp_info, tcpi_busy_time))?,
            large(offset_of!(tcp_info, tcpi_rwnd_limited))?,
            large(offset_of!(tcp_info, tcpi_sndbuf_limited))?,
        ])
    };
    Some(TcpInfo {
        unacked: small(offset_of!(tcp_info, tcpi_unacked))?,
        last_data_sent_ms: small(offset_of!(tcp_info, tcpi_last_data_sent))?,
        last_data_received_ms: small(offset_of!(tcp_info, tcpi_last_data_recv))?,
        srtt_us: small(offset_of!(tcp_info, tcpi_rtt))?,
        congestion_window: small(offset_of!(tcp_info, tcpi_snd_cwnd))?,
        segments_retransmitted: small(offset_of!(tcp_info, tcpi_total_retrans))?,
        bytes_acked: large(offset_of!(tcp_info, tcpi_bytes_acked)),
        bytes_received: large(offset_of!(tcp_info, tcpi_bytes_received)),
        notsent_bytes: small(offset_of!(tcp_info, tcpi_notsent_bytes)),
        min_rtt_us: small(offset_of!(tcp_info, tcpi_min_rtt)).filter(|&minimum| minimum != 0 && minimum != u32::MAX),
        data_segments_in: small(offset_of!(tcp_info, tcpi_data_segs_in)),
        data_segments_out: small(offset_of!(tcp_info, tcpi_data_segs_out)),
        limit_times_us: limit_times(),
    })
}

impl Connection {
    /// Whether it is being opened: state SYN_SENT.
    pub fn is_connecting(&self) -> bool {
        self.state == TCP_SYN_SENT
    }

    /// Whether it is no connection but a listening socket.
    pub fn is_listening(&self) -> bool {
        self.state == TCP_LISTEN
    }

    /// Whether its application may still send on it.
    pub fn can_send(&self) -> bool {
        matches!(self.state, TCP_ESTABLISHED | TCP_CLOSE_WAIT)
    }

    /// Whether the remote host opened it, as the ports say: the local one is a server's, and the lower one. NAT gives clients low
    /// ports, too. A local reserved port (rresvport: NFS) is no server's.
    pub fn is_opened_by_remote(&self) -> bool {
        let (local, remote) = self.ports;
        local < FIRST_CLIENT_PORT && local < remote && !RESERVED_CLIENT_PORTS.contains(&local)
    }

    /// Whether the remote host opened it for certain: only its port is one of those that kernels give to clients.
    pub fn is_certainly_opened_by_remote(&self) -> bool {
        self.ports.0 < FIRST_CLIENT_PORT && self.ports.1 >= FIRST_CLIENT_PORT
    }

    /// Local address and port.
    pub fn local(&self) -> SocketAddr {
        SocketAddr::new(self.local_address, self.ports.0)
    }

    /// Remote address and port.
    pub fn remote(&self) -> SocketAddr {
        SocketAddr::new(self.remote_address, self.ports.1)
    }
}

impl TcpInfo {
    /// Whether the application has written more than the connection can send now.
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
    fn a_truncated_answer_is_an_error() {
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
    fn any_damaged_byte_is_parsed_without_a_panic() {
        for answer in [INET, INET6] {
            for at in 0..answer.len() {
                for byte in [0x00, 0x01, 0x7f, 0x80, 0xff, answer[at] ^ 0x04] {
                    let mut damaged = answer.to_vec();
                    damaged[at] = byte;
                    let mut table = ConnectionTable::default();
                    for now_ns in [1_000_000_000, 2_000_000_000] {
                        let (_, connections) = read(&damaged);
                        let mut update = table.begin_dump(now_ns);
                        connections.iter().for_each(|connection| update.add_connection(connection));
                        assert!(table.finish_dump().rows.len() <= 3);
                    }
                }
            }
        }
    }

    #[test]
    fn messages_of_another_type_or_family_are_ignored() {
        assert_eq!(parse_connection(19, &INET[16..408]), None);
        let mut other = INET[16..408].to_vec();
        assert!(parse_connection(20, &other).is_some());
        other[0] = 1;
        assert_eq!(parse_connection(20, &other), None);
        // Without tcp_info there is nothing to say.
        assert_eq!(parse_connection(20, &INET[16..16 + INET_DIAG_MSG_SIZE]), None);
    }
}
