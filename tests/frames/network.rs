//! Synthetic network load: remote hosts, a shaped interface, a full accept queue, softnet squeezes.

use std::net::{IpAddr, SocketAddr};

use stalltop::ids::ProcessId;
use stalltop::sample::network::remote_hosts::{RemoteHost, RemoteHosts};
use stalltop::sample::network::{Qdisc, TcpExt};
use stalltop::sample::{Name, Sample};
use stalltop::units::Counter;

use crate::synthetic;

/// Network activity per second.
#[derive(Clone, Default, PartialEq)]
pub struct Network {
    pub hosts: Vec<Host>,
    /// Address, queue length, limit, drops per second
    pub listener: Option<(SocketAddr, u32, u32, u64)>,
    /// Qdisc of the first interface: backlog in packets, drops and overlimits per second
    pub shaped: Option<(u64, u64, u64)>,
    /// CPU, and packets, time squeezes and drops per second
    pub softnet: Option<(u32, u64, u64, u64)>,
    /// Seconds between socket scans, and the CPU time of one in nanoseconds
    pub scans: Option<(u64, u64)>,
}

/// A remote host.
#[derive(Clone, PartialEq)]
pub struct Host {
    pub address: IpAddr,
    pub connections: u32,
    /// Active ones, and path-limited ones among these
    pub active: (u64, u64),
    /// Microseconds: smoothed, minimum
    pub round_trip_us: (u64, u64),
    pub sent: u64,
    pub again: u64,
    /// Per cent of the time: busy, limited by the receive window
    pub busy: (u64, u64),
}

impl Network {
    /// Adds the counters after `k` seconds.
    pub fn fill(&self, sample: &mut Sample, k: u64) {
        if let Some((local, queue, limit, drops)) = self.listener {
            let owner = Some((ProcessId { pid: 5121, start_ticks: 7 }, Name::from("lq")));
            sample.protocols.listeners = Ok(vec![synthetic::listener(local, queue, limit, owner)]);
            sample.protocols.tcp_ext = Ok(TcpExt { listen_drops: Some(Counter(drops * k)), ..TcpExt::default() });
        }
        if let (Some((packets, drops, overlimits)), Ok(nics)) = (self.shaped, &mut sample.nics)
            && let Some(nic) = nics.first_mut()
        {
            nic.qdisc = Some(Qdisc {
                dropped: Counter(drops * k),
                overlimits: Counter(overlimits * k),
                ..synthetic::qdisc("tbf", packets, 7000)
            });
        }
        if let Some((cpu, packets, squeezes, drops)) = self.softnet {
            sample.protocols.softnet = Ok(vec![synthetic::softnet(cpu, packets * k, drops * k, squeezes * k)]);
        }
        if !self.hosts.is_empty() {
            sample.protocols.remote_hosts = Ok(self.peers(sample, k));
        }
    }

    fn peers(&self, sample: &Sample, k: u64) -> RemoteHosts {
        let (every, cost_ns) = self.scans.unwrap_or((1, 400_000));
        let ago = k % every;
        let scanned_ns = sample.at.boottime_ns - ago * 1_000_000_000;
        let mut scan = synthetic::remote_hosts(scanned_ns, cost_ns, self.hosts.iter().map(|host| host.at(k - ago)));
        scan.host_count += 30;
        scan
    }
}

impl Host {
    fn at(&self, k: u64) -> RemoteHost {
        let (smoothed, minimum) = self.round_trip_us;
        let sum = |scans: u64| synthetic::round_trips(scans * k, scans * smoothed * k, scans * minimum * k);
        let watched = self.active.0 * 1_000_000 * k;
        RemoteHost {
            local: self.address.is_loopback(),
            ifindex: Some(1),
            connections: self.connections,
            bytes_acked: Some(Counter(self.sent * k)),
            bytes_received: Some(Counter(self.sent / 10 * k)),
            data_segments_out: Some(Counter(self.sent / 1448 * k)),
            segments_retransmitted: Counter(self.again * k),
            active: sum(self.active.0),
            send_backlogged: sum(self.active.1),
            send_limits: Some(synthetic::send_limits(watched, watched / 100 * self.busy.0, watched / 100 * self.busy.1, 0)),
            ..synthetic::remote_host(self.address)
        }
    }
}
