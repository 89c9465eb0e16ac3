//! Columns of remote hosts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::recording::payload::cells::{Cells, cells, put_at, take_at};
use crate::recording::payload::strings::{Interner, Names};
use crate::recording::wire::Malformed;
use crate::sample::network::remote_hosts::{RemoteHost, RemoteHosts, RttSums, SendLimitTimes};

/// The look at the connections without its rows.
pub struct PeerSingles {
    looked_ns: u64,
    cost_ns: u64,
    connections: u32,
    hosts: u32,
}

cells! { PeerSingles, 7 { looked_ns @ 0, cost_ns @ 1, connections @ 2, hosts @ 3 } }

cells! { RemoteHost, 48 {
    address @ 0, ifindex @ 3, local @ 5, connections @ 6, segments_retransmitted @ 7,
    bytes_acked @ 8, bytes_received @ 10, data_segments_out @ 12, active @ 16, send_backlogged @ 22, send_limits @ 28,
} }
cells! { RttSums, 6 { count @ 0, srtt_us @ 1, min_rtt_us @ 2 } }
cells! { SendLimitTimes, 6 { observed_us @ 0, busy_us @ 1, rwnd_limited_us @ 2, sndbuf_limited_us @ 3 } }

impl PeerSingles {
    pub fn of(peers: &RemoteHosts) -> PeerSingles {
        let &RemoteHosts {
            scan_boottime_ns: looked_ns,
            scan_cpu_ns: cost_ns,
            connection_count: connections,
            host_count: hosts,
            ..
        } = peers;
        PeerSingles { looked_ns, cost_ns, connections, hosts }
    }

    pub fn with(self, rows: Vec<RemoteHost>) -> RemoteHosts {
        let PeerSingles { looked_ns, cost_ns, connections, hosts } = self;
        RemoteHosts {
            scan_boottime_ns: looked_ns,
            scan_cpu_ns: cost_ns,
            connection_count: connections,
            host_count: hosts,
            rows,
        }
    }
}

/// Family (4 or 6), the address in two halves.
impl Cells for IpAddr {
    const WIDTH: usize = 3;

    fn put(&self, row: &mut [u64], strings: &mut Interner) {
        let (family, address) = match self {
            IpAddr::V4(v4) => (4u64, u128::from(v4.to_bits())),
            IpAddr::V6(v6) => (6, v6.to_bits()),
        };
        put_at(&family, row, 0, strings);
        put_at(&[(address >> 64) as u64, address as u64], row, 1, strings);
    }

    fn take(row: &[u64], names: &Names<'_>) -> Result<Self, Malformed> {
        let [high, low]: [u64; 2] = take_at(row, 1, names)?;
        match take_at::<u64>(row, 0, names)? {
            4 => {
                let bits = u32::try_from(low).map_err(|_| Malformed("an IPv4 address is too long"))?;
                Ok(IpAddr::V4(Ipv4Addr::from_bits(bits)))
            }
            6 => Ok(IpAddr::V6(Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low)))),
            // A family of a later version: keep the host, not its address.
            _ => Ok(IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
        }
    }
}
