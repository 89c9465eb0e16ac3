//! Synthetic network load: remote hosts, a shaped interface, a full accept queue, softnet squeezes.

use std::net::{IpAddr, SocketAddr};

use stalltop::ids::{CpuId, ProcessId};
use stalltop::sample::network::remote_hosts::{RemoteHost, RemoteHosts, RttSums, SendLimitTimes};
use stalltop::sample::network::{Listener, Qdisc, Softnet, TcpExt};
use stalltop::sample::{Name, Sample};
use stalltop::units::Counter;

/// Network activity per second.
#[derive(Clone, Default)]
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
#[derive(Clone)]
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
            sample.protocols.listeners =
                Ok(vec![Listener { local_address: local, accept_queue: queue, backlog_limit: limit, owner }]);
            sample.protocols.tcp_ext = Ok(TcpExt { listen_drops: Some(Counter(drops * k)), ..TcpExt::default() });
        }
        if let (Some((packets, drops, overlimits)), Ok(nics)) = (self.shaped, &mut sample.nics)
            && let Some(nic) = nics.first_mut()
        {
            nic.qdisc = Some(Qdisc {
                kind: Name::from("tbf"),
                backlog_bytes: packets * 7000,
                backlog_packets: packets,
                dropped: Counter(drops * k),
                overlimits: Counter(overlimits * k),
                requeues: Counter(0),
                ingress_dropped: None,
                rate_bytes_per_second: None,
            });
        }
        if let Some((cpu, packets, squeezes, drops)) = self.softnet {
            let line = Softnet {
                cpu: Some(CpuId(cpu)),
                processed: Counter(packets * k),
                dropped: Counter(drops * k),
                time_squeeze: Counter(squeezes * k),
                ..Softnet::default()
            };
            sample.protocols.softnet = Ok(vec![line]);
        }
        if !self.hosts.is_empty() {
            sample.protocols.remote_hosts = Ok(self.peers(sample, k));
        }
    }

    fn peers(&self, sample: &Sample, k: u64) -> RemoteHosts {
        let (every, cost_ns) = self.scans.unwrap_or((1, 400_000));
        let ago = k % every;
        let mut rows: Vec<RemoteHost> = self.hosts.iter().map(|host| host.at(k - ago)).collect();
        rows.sort_by_key(|peer| peer.address);
        RemoteHosts {
            scan_boottime_ns: sample.at.boottime_ns - ago * 1_000_000_000,
            scan_cpu_ns: cost_ns,
            connection_count: rows.iter().map(|peer| peer.connections).sum(),
            host_count: u32::try_from(rows.len()).unwrap() + 30,
            rows,
        }
    }
}

impl Host {
    fn at(&self, k: u64) -> RemoteHost {
        let (smoothed, minimum) = self.round_trip_us;
        let sum = |scans: u64| RttSums {
            count: Counter(scans * k),
            srtt_us: Counter(scans * smoothed * k),
            min_rtt_us: Some(Counter(scans * minimum * k)),
        };
        let watched = self.active.0 * 1_000_000 * k;
        RemoteHost {
            address: self.address,
            local: self.address.is_loopback(),
            ifindex: Some(1),
            connections: self.connections,
            bytes_acked: Some(Counter(self.sent * k)),
            bytes_received: Some(Counter(self.sent / 10 * k)),
            data_segments_out: Some(Counter(self.sent / 1448 * k)),
            segments_retransmitted: Counter(self.again * k),
            active: sum(self.active.0),
            send_backlogged: sum(self.active.1),
            send_limits: Some(SendLimitTimes {
                observed_us: Counter(watched),
                busy_us: Counter(watched / 100 * self.busy.0),
                rwnd_limited_us: Counter(watched / 100 * self.busy.1),
                sndbuf_limited_us: Counter(0),
            }),
            worst_process: None,
        }
    }
}
