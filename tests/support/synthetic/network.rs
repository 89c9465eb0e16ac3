//! Synthetic interfaces, sockets and remote hosts: a part of `synthetic`.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use stalltop::ids::{CpuId, NicId, ProcessId};
use stalltop::sample::network::remote_hosts::{RemoteHost, RemoteHosts, RttSums, SendLimitTimes};
use stalltop::sample::network::{DirectionCounters, Duplex, Listener, Nic, NicFacts, Qdisc, Softnet};
use stalltop::sample::{Absent, Name};
use stalltop::units::Counter;

pub fn traffic(bytes: u64, packets: u64) -> DirectionCounters {
    DirectionCounters { bytes: Counter(bytes), packets: Counter(packets), ..DirectionCounters::default() }
}

/// A full-duplex interface that is up, of unknown speed.
pub fn nic(ifindex: u32, name: impl Into<Name>) -> NicBuilder {
    NicBuilder(Nic {
        id: NicId { ifindex, name: name.into() },
        facts: Arc::new(NicFacts {
            speed_mbps: Err(Absent::Unsupported),
            duplex: Ok(Duplex::Full),
            up: Some(true),
            loopback: false,
            virtual_device: false,
        }),
        rx: DirectionCounters::default(),
        tx: DirectionCounters::default(),
        multicast: Counter(0),
        collisions: Counter(0),
        carrier_losses: Counter(0),
        rx_missed: None,
        rx_nohandler: None,
        qdisc: None,
    })
}

#[derive(Clone)]
pub struct NicBuilder(Nic);

impl NicBuilder {
    pub fn facts(self, set: impl FnOnce(&mut NicFacts)) -> Self {
        self.with(|nic| set(Arc::make_mut(&mut nic.facts)))
    }

    pub fn speed_mbps(self, speed: u32) -> Self {
        self.facts(|facts| facts.speed_mbps = Ok(speed))
    }

    pub fn rx(self, direction: DirectionCounters) -> Self {
        self.with(|nic| nic.rx = direction)
    }

    pub fn tx(self, direction: DirectionCounters) -> Self {
        self.with(|nic| nic.tx = direction)
    }

    pub fn qdisc(self, qdisc: Option<Qdisc>) -> Self {
        self.with(|nic| nic.qdisc = qdisc)
    }

    pub fn with(mut self, set: impl FnOnce(&mut Nic)) -> Self {
        set(&mut self.0);
        self
    }

    pub fn build(self) -> Nic {
        self.0
    }
}

impl From<NicBuilder> for Nic {
    fn from(builder: NicBuilder) -> Nic {
        builder.0
    }
}

/// A queueing discipline with a backlog that has dropped nothing.
pub fn qdisc(kind: impl Into<Name>, backlog_packets: u64, packet_bytes: u64) -> Qdisc {
    Qdisc {
        kind: kind.into(),
        backlog_bytes: backlog_packets * packet_bytes,
        backlog_packets,
        dropped: Counter(0),
        overlimits: Counter(0),
        requeues: Counter(0),
        ingress_dropped: None,
        rate_bytes_per_second: None,
    }
}

/// Received packets of one CPU: processed, dropped, and polls that ended with packets left.
pub fn softnet(cpu: u32, processed: u64, dropped: u64, time_squeeze: u64) -> Softnet {
    Softnet {
        cpu: Some(CpuId(cpu)),
        processed: Counter(processed),
        dropped: Counter(dropped),
        time_squeeze: Counter(time_squeeze),
        ..Softnet::default()
    }
}

/// A listening socket with connections in its accept queue, and the process that has it open.
pub fn listener(local_address: SocketAddr, queue: u32, limit: u32, owner: Option<(ProcessId, Name)>) -> Listener {
    Listener { local_address, accept_queue: queue, backlog_limit: limit, owner }
}

/// A remote host to which nothing was sent, on a kernel that counts everything.
pub fn remote_host(address: IpAddr) -> RemoteHost {
    RemoteHost {
        address,
        local: false,
        ifindex: None,
        connections: 0,
        client_connections: 0,
        bytes_acked: Some(Counter(0)),
        bytes_received: Some(Counter(0)),
        data_segments_out: Some(Counter(0)),
        segments_retransmitted: Counter(0),
        active: round_trips(0, 0, 0),
        send_backlogged: round_trips(0, 0, 0),
        send_limits: Some(send_limits(0, 0, 0, 0)),
        worst_process: None,
    }
}

/// Connections at all scans, and the sums of their smoothed and of their minimum round trip times.
pub fn round_trips(count: u64, srtt_us: u64, min_rtt_us: u64) -> RttSums {
    RttSums { count: Counter(count), srtt_us: Counter(srtt_us), min_rtt_us: Some(Counter(min_rtt_us)) }
}

/// Times of connections in microseconds: observed, with data to send, held back by the receive window and by the send buffer.
pub fn send_limits(observed: u64, busy: u64, rwnd_limited: u64, sndbuf_limited: u64) -> SendLimitTimes {
    SendLimitTimes {
        observed_us: Counter(observed),
        busy_us: Counter(busy),
        rwnd_limited_us: Counter(rwnd_limited),
        sndbuf_limited_us: Counter(sndbuf_limited),
    }
}

/// One scan of the connections, which found these hosts.
pub fn remote_hosts(scan_boottime_ns: u64, scan_cpu_ns: u64, hosts: impl IntoIterator<Item = RemoteHost>) -> RemoteHosts {
    let mut rows: Vec<RemoteHost> = hosts.into_iter().collect();
    rows.sort_by_key(|host| host.address);
    RemoteHosts {
        scan_boottime_ns,
        scan_cpu_ns,
        connection_count: rows.iter().map(|host| host.connections).sum(),
        host_count: u32::try_from(rows.len()).unwrap_or(u32::MAX),
        rows,
    }
}
