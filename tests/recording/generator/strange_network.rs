//! Interfaces, protocols, sockets and network namespaces of strange samples.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::sync::Arc;

use stalltop::ids::{CpuId, NicId};
use stalltop::sample::network::namespaces::{NetworkNamespace, RetransmitHost};
use stalltop::sample::network::remote_hosts::{RemoteHost, RemoteHosts, RttSums, SendLimitTimes};
use stalltop::sample::network::unix_senders::UnixSenders;
use stalltop::sample::network::waiting_connections::{ConnectionWait, WaitingConnections};
use stalltop::sample::network::{
    DirectionCounters, Duplex, Listener, Nic, NicFacts, Protocols, Qdisc, Softnet, SynQueue, Tcp, TcpExt, Udp, Udp6, UdpSocket,
};

use super::dice::Dice;
use super::strange_tasks::process_id;

pub fn protocols(d: &mut Dice) -> Protocols {
    Protocols {
        tcp: d.reading(tcp),
        tcp_ext: d.reading(tcp_ext),
        udp: d.reading(udp),
        ip_octets: d.reading(|d| (d.counter(), d.counter())),
        listeners: d.reading(|d| d.list(3, listener)),
        syn_queues: d.reading(|d| d.list(3, syn_queue)),
        waiting_connections: d.reading(|d| d.list(3, waiting_connections)),
        udp_sockets: d.reading(|d| d.list(3, udp_socket)),
        unix_senders: d.reading(|d| d.list(3, unix_senders)),
        udp6: d.reading(udp6),
        softnet: d.reading(|d| d.list(4, softnet)),
        remote_hosts: d.reading(|d| RemoteHosts {
            scan_boottime_ns: d.u64(),
            scan_cpu_ns: d.u64(),
            connection_count: d.u32(),
            host_count: d.u32(),
            rows: d.list(4, peer),
        }),
    }
}

pub fn nic(d: &mut Dice) -> Nic {
    let direction = |d: &mut Dice| DirectionCounters {
        bytes: d.counter(),
        packets: d.counter(),
        errors: d.counter(),
        dropped: d.counter(),
        fifo_errors: d.counter(),
    };
    Nic {
        id: NicId { ifindex: d.u32(), name: d.name() },
        facts: Arc::new(NicFacts {
            speed_mbps: d.reading(Dice::u32),
            duplex: d.reading(|d| if d.bool() { Duplex::Half } else { Duplex::Full }),
            up: d.maybe(Dice::bool),
            loopback: d.bool(),
            virtual_device: d.bool(),
        }),
        rx: direction(d),
        tx: direction(d),
        multicast: d.counter(),
        collisions: d.counter(),
        carrier_losses: d.counter(),
        rx_missed: d.maybe(Dice::counter),
        rx_nohandler: d.maybe(Dice::counter),
        qdisc: d.maybe(|d| Qdisc {
            kind: d.name(),
            backlog_bytes: d.u64(),
            backlog_packets: d.u64(),
            dropped: d.counter(),
            overlimits: d.counter(),
            requeues: d.counter(),
            ingress_dropped: d.maybe(Dice::counter),
            rate_bytes_per_second: d.maybe(Dice::u64),
        }),
    }
}

fn tcp(d: &mut Dice) -> Tcp {
    Tcp {
        active_opens: d.counter(),
        passive_opens: d.counter(),
        attempt_fails: d.counter(),
        established_resets: d.counter(),
        established: d.u64(),
        segments_in: d.counter(),
        segments_out: d.counter(),
        segments_retransmitted: d.counter(),
        errors_in: d.counter(),
        resets_out: d.counter(),
    }
}

pub fn socket_address(d: &mut Dice) -> SocketAddr {
    let port = d.u16();
    match d.bool() {
        true => SocketAddr::from((Ipv4Addr::from_bits(d.u32()), port)),
        false => {
            let bits = u128::from(d.u64()) << 64 | u128::from(d.u64());
            SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::from_bits(bits), port, d.u32(), d.u32()))
        }
    }
}

fn waiting_connections(d: &mut Dice) -> WaitingConnections {
    use ConnectionWait::{Acknowledgement, Answer, ClosedWindow, Connect, FullWindow, NameServer, SendBuffer};
    let waits = [Connect, Acknowledgement, ClosedWindow, FullWindow, SendBuffer, NameServer, Answer];
    WaitingConnections {
        remote_host: socket_address(d).ip(),
        remote_port: d.maybe(Dice::u16),
        local_port: d.maybe(Dice::u16),
        wait: waits[usize::from(d.u16()) % waits.len()],
        connections: d.u32(),
        owner: d.maybe(|d| (process_id(d), d.name())),
        threads: d.maybe(Dice::u32),
        since_boottime_ns: d.u64(),
        queued_bytes: d.u64(),
        retries: d.u32(),
        receiver: d.maybe(|d| (process_id(d), d.name())),
        unread_bytes: d.u64(),
        receiving_threads: d.u32(),
        polling_threads: d.u32(),
        longest_answer_ms: d.maybe(Dice::u32),
    }
}

fn unix_senders(d: &mut Dice) -> UnixSenders {
    UnixSenders {
        owner: (process_id(d), d.name()),
        receiver: d.maybe(|d| (process_id(d), d.name())),
        are_datagrams: d.bool(),
        address: d.maybe(Dice::name),
        sockets: d.u32(),
        threads: d.u32(),
        polling_threads: d.u32(),
        since_boottime_ns: d.u64(),
        unread_bytes: d.u64(),
        backlog: d.maybe(Dice::u32),
    }
}

fn udp6(d: &mut Dice) -> Udp6 {
    Udp6 {
        datagrams_in: d.counter(),
        errors_in: d.counter(),
        datagrams_out: d.counter(),
        receive_buffer_errors: d.maybe(Dice::counter),
        send_buffer_errors: d.maybe(Dice::counter),
    }
}

pub fn network_namespace(d: &mut Dice) -> NetworkNamespace {
    NetworkNamespace {
        inode: d.u64(),
        process: process_id(d),
        comm: d.name(),
        has_socket: d.bool(),
        tcp: d.reading(tcp),
        tcp_ext: d.reading(tcp_ext),
        udp: d.reading(udp),
        udp6: d.reading(udp6),
        ip_octets: d.reading(|d| (d.counter(), d.counter())),
        fullest_listener: d.maybe(listener),
        fullest_syn_queue: d.maybe(syn_queue),
        top_udp_socket: d.maybe(udp_socket),
        top_retransmit_host: d.maybe(|d| RetransmitHost {
            address: socket_address(d).ip(),
            segments_retransmitted: d.counter(),
            process: d.maybe(|d| (process_id(d), d.name())),
        }),
    }
}

fn tcp_ext(d: &mut Dice) -> TcpExt {
    TcpExt {
        listen_overflows: d.maybe(Dice::counter),
        listen_drops: d.maybe(Dice::counter),
        syn_retransmits: d.maybe(Dice::counter),
        timeouts: d.maybe(Dice::counter),
        lost_retransmits: d.maybe(Dice::counter),
        backlog_drops: d.maybe(Dice::counter),
        syn_cookies_sent: d.maybe(Dice::counter),
        syn_cookies_received: d.maybe(Dice::counter),
        syn_cookies_failed: d.maybe(Dice::counter),
        syn_queue_full_cookies: d.maybe(Dice::counter),
        syn_queue_full_drops: d.maybe(Dice::counter),
    }
}

fn udp(d: &mut Dice) -> Udp {
    Udp {
        datagrams_in: d.counter(),
        no_ports: d.counter(),
        errors_in: d.counter(),
        datagrams_out: d.counter(),
        receive_buffer_errors: d.maybe(Dice::counter),
        send_buffer_errors: d.maybe(Dice::counter),
    }
}

fn udp_socket(d: &mut Dice) -> UdpSocket {
    UdpSocket {
        local_address: socket_address(d),
        inode: d.u64(),
        queued_bytes: d.u64(),
        drops: d.counter(),
        owner: d.maybe(|d| (process_id(d), d.name())),
    }
}

fn syn_queue(d: &mut Dice) -> SynQueue {
    SynQueue {
        local_address: socket_address(d),
        requests: d.u32(),
        limit: d.maybe(Dice::u32),
        remote_hosts: d.u32(),
        top_remote_host: socket_address(d).ip(),
        top_requests: d.u32(),
        owner: d.maybe(|d| (process_id(d), d.name())),
    }
}

fn listener(d: &mut Dice) -> Listener {
    Listener {
        local_address: socket_address(d),
        accept_queue: d.u32(),
        backlog_limit: d.u32(),
        owner: d.maybe(|d| (process_id(d), d.name())),
    }
}

fn softnet(d: &mut Dice) -> Softnet {
    Softnet {
        cpu: d.maybe(|d| CpuId(d.u32())),
        processed: d.counter(),
        dropped: d.counter(),
        time_squeeze: d.counter(),
        received_rps: d.maybe(Dice::counter),
        flow_limited: d.maybe(Dice::counter),
    }
}

fn peer(d: &mut Dice) -> RemoteHost {
    let round_trips = |d: &mut Dice| RttSums { count: d.counter(), srtt_us: d.counter(), min_rtt_us: d.maybe(Dice::counter) };
    RemoteHost {
        address: match d.bool() {
            true => IpAddr::V4(Ipv4Addr::from_bits(d.u32())),
            false => IpAddr::V6(Ipv6Addr::from_bits(u128::from(d.u64()) << 64 | u128::from(d.u64()))),
        },
        local: d.bool(),
        ifindex: d.maybe(Dice::u32),
        connections: d.u32(),
        client_connections: d.u32(),
        bytes_acked: d.maybe(Dice::counter),
        bytes_received: d.maybe(Dice::counter),
        data_segments_out: d.maybe(Dice::counter),
        segments_retransmitted: d.counter(),
        active: round_trips(d),
        send_backlogged: round_trips(d),
        send_limits: d.maybe(|d| SendLimitTimes {
            observed_us: d.counter(),
            busy_us: d.counter(),
            rwnd_limited_us: d.counter(),
            sndbuf_limited_us: d.counter(),
        }),
        worst_process: d.maybe(|d| (process_id(d), d.name())),
    }
}
