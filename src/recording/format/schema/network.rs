//! Columns of network protocols and remote hosts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::recording::format::columns::{Columns, columns, read_at, write_at};
use crate::recording::format::names::{Interner, Names};
use crate::recording::format::wire::{LATER_KIND, Malformed};
use crate::sample::network::namespaces::{NamespaceNic, NetworkNamespace, NetworkNamespaces, RetransmitHost};
use crate::sample::network::remote_hosts::{RemoteHost, RemoteHosts, RttSums, SendLimitTimes};
use crate::sample::network::unix_senders::UnixSenders;
use crate::sample::network::waiting_connections::{ConnectionWait, WaitingConnections};
use crate::sample::network::{Protocols, Udp6, UdpSocket};

columns! { NetworkNamespaces: 8 { count, hidden_processes, rows, nics } }
columns! { NetworkNamespace: 160 {
    inode,
    process,
    comm,
    has_socket,
    tcp,
    tcp_ext,
    udp,
    ip_octets,
    fullest_listener,
    fullest_syn_queue,
    top_udp_socket,
    top_retransmit_host,
    udp6,
} }
columns! { RetransmitHost: 12 { address, segments_retransmitted, process } }
columns! { NamespaceNic: 42 { namespace, nic } }
columns! { UdpSocket: 16 { local_address, inode, queued_bytes, drops, owner } }
columns! { Udp6: 8 { datagrams_in, errors_in, datagrams_out, receive_buffer_errors, send_buffer_errors } }

columns! { Protocols: 96 { tcp, tcp_ext, udp, ip_octets, listeners, softnet, remote_hosts, syn_queues, waiting_connections, udp_sockets, udp6, unix_senders } }

columns! { RemoteHosts: 7 { scan_boottime_ns, scan_cpu_ns, connection_count, host_count, rows } }

columns! { RemoteHost: 48 {
    address,
    ifindex,
    local,
    connections,
    segments_retransmitted,
    bytes_acked,
    bytes_received,
    data_segments_out,
    active,
    send_backlogged,
    send_limits,
    worst_process,
    client_connections,
} }
columns! { RttSums: 6 { count, srtt_us, min_rtt_us } }
columns! { SendLimitTimes: 6 { observed_us, busy_us, rwnd_limited_us, sndbuf_limited_us } }

columns! { WaitingConnections: 32 {
    owner,
    remote_host,
    wait,
    remote_port,
    local_port,
    connections,
    threads,
    since_boottime_ns,
    queued_bytes,
    retries,
    receiver,
    unread_bytes,
    receiving_threads,
    polling_threads,
    longest_answer_ms,
} }

columns! { UnixSenders: 32 {
    owner,
    receiver,
    are_datagrams,
    address,
    sockets,
    threads,
    polling_threads,
    since_boottime_ns,
    unread_bytes,
    backlog,
} }

impl Columns for ConnectionWait {
    const WIDTH: usize = 1;

    fn write(&self, row: &mut [u64], names: &mut Interner) {
        let number: u64 = match self {
            ConnectionWait::Connect => 0,
            ConnectionWait::Acknowledgement => 1,
            ConnectionWait::ClosedWindow => 2,
            ConnectionWait::FullWindow => 3,
            ConnectionWait::SendBuffer => 4,
            ConnectionWait::NameServer => 5,
            ConnectionWait::Answer => 6,
        };
        number.write(row, names);
    }

    fn read(row: &[u64], names: &Names<'_>) -> Result<Self, Malformed> {
        match u64::read(row, names)? {
            0 => Ok(ConnectionWait::Connect),
            1 => Ok(ConnectionWait::Acknowledgement),
            2 => Ok(ConnectionWait::ClosedWindow),
            3 => Ok(ConnectionWait::FullWindow),
            4 => Ok(ConnectionWait::SendBuffer),
            5 => Ok(ConnectionWait::NameServer),
            6 => Ok(ConnectionWait::Answer),
            _ => Err(LATER_KIND),
        }
    }
}

/// Family (4 or 6), the address in two halves.
impl Columns for IpAddr {
    const WIDTH: usize = 3;

    fn write(&self, row: &mut [u64], names: &mut Interner) {
        let (family, address) = match self {
            IpAddr::V4(v4) => (4u64, u128::from(v4.to_bits())),
            IpAddr::V6(v6) => (6, v6.to_bits()),
        };
        write_at(&family, row, 0, names);
        write_at(&[(address >> 64) as u64, address as u64], row, 1, names);
    }

    fn read(row: &[u64], names: &Names<'_>) -> Result<Self, Malformed> {
        let [high, low]: [u64; 2] = read_at(row, 1, names)?;
        match read_at::<u64>(row, 0, names)? {
            4 => {
                let bits = u32::try_from(low).map_err(|_| Malformed("an IPv4 address is too long"))?;
                Ok(IpAddr::V4(Ipv4Addr::from_bits(bits)))
            }
            6 => Ok(IpAddr::V6(Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low)))),
            // An unknown address family of a later version: the host without its address.
            _ => Ok(IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
        }
    }
}
