//! Reads the counters of one network namespace: /proc/net/snmp and /proc/net/netstat.

use super::protocols::{parse_ip_octets, parse_tcp, parse_tcp_ext, parse_udp, parse_window_probes};
use crate::kernel::root::{FileHandle, Root};
use crate::sample::Reading;
use crate::sample::network::{Tcp, TcpExt, Udp};
use crate::units::Counter;

/// Counters of both files.
#[derive(Clone, Copy, Debug)]
pub struct NamespaceCounters {
    pub tcp: Reading<Tcp>,
    pub udp: Reading<Udp>,
    pub tcp_ext: Reading<TcpExt>,
    pub ip_octets: Reading<(Counter, Counter)>,
    pub window_probes: Option<Counter>,
}

/// The open files, and what was last read of them.
#[derive(Debug)]
pub struct CounterFiles {
    snmp: FileHandle,
    netstat: FileHandle,
    last_snmp: Vec<u8>,
    last: Option<NamespaceCounters>,
}

impl CounterFiles {
    /// `directory`: `proc/net`, or that of a process in another namespace.
    pub fn new(directory: &str) -> CounterFiles {
        let [snmp, netstat] = files(directory);
        CounterFiles { snmp, netstat, last_snmp: Vec::new(), last: None }
    }

    /// Reads the same namespace through another process from now on.
    pub fn set_directory(&mut self, directory: &str) {
        [self.snmp, self.netstat] = files(directory);
    }

    /// The counters as last read, if both files could be read.
    pub fn last(&self) -> Option<NamespaceCounters> {
        self.last
    }

    /// Reads snmp, and netstat, the most expensive file of all, only if snmp has changed: it counts each packet and segment, and no
    /// counter in use of netstat increases without one.
    pub fn read(&mut self, root: &Root, buffer: &mut Vec<u8>) -> NamespaceCounters {
        let snmp = self.snmp.read(root, buffer);
        if let Some(last) = self.last.filter(|_| snmp.is_ok() && *buffer == self.last_snmp) {
            return last;
        }
        let (tcp, udp) = (snmp.and_then(|()| parse_tcp(buffer)), snmp.and_then(|()| parse_udp(buffer)));
        self.last_snmp.clone_from(buffer);
        let netstat = self.netstat.read(root, buffer);
        let tcp_ext = netstat.and_then(|()| parse_tcp_ext(buffer));
        let ip_octets = netstat.and_then(|()| parse_ip_octets(buffer));
        let window_probes = netstat.ok().and_then(|()| parse_window_probes(buffer));
        let counters = NamespaceCounters { tcp, udp, tcp_ext, ip_octets, window_probes };
        self.last = [snmp, netstat].iter().all(Result::is_ok).then_some(counters);
        counters
    }
}

fn files(directory: &str) -> [FileHandle; 2] {
    ["snmp", "netstat"].map(|name| FileHandle::new(format!("{directory}/{name}")))
}
