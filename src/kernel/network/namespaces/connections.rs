//! Reads the TCP connections of another network namespace, over a socket that was opened there: those that wait for their remote end,
//! and the remote host with the most retransmits. A read costs 0.3 ms even without connections. It is done once at first, and then
//! while counters of the namespace show such a wait.

use std::time::{Duration, Instant};

use crate::kernel::cost_pacer::CostPacer;
use crate::kernel::network::netlink::Netlink;
use crate::kernel::network::remote_hosts::{ConnectionTable, RemoteHostReader};
use crate::sample::Reading;
use crate::sample::network::TcpExt;
use crate::units::Counter;

/// While nothing waits but requests for their answers the next scan comes after this time.
const ANSWERS_INTERVAL: Duration = Duration::from_secs(5);
/// Connections are scanned for this long after the counters have grown: a wait of seconds shows in several scans.
const SCAN_TIME: Duration = Duration::from_secs(10);
/// The next scan comes after this many times the cost of the last: at most 0.5 % of one CPU for each namespace.
const INTERVAL_PER_COST: u32 = 200;

/// Counters that grow while a connection waits for its remote end, or retransmits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitCounters {
    timeouts: Option<Counter>,
    syn_retransmits: Option<Counter>,
    window_probes: Option<Counter>,
    segments_retransmitted: Option<Counter>,
}

impl WaitCounters {
    /// `window_probes`: TCPWinProbe of the same file. `segments_retransmitted`: RetransSegs.
    pub fn new(tcp_ext: &TcpExt, window_probes: Option<Counter>, segments_retransmitted: Option<Counter>) -> WaitCounters {
        let TcpExt { timeouts, syn_retransmits, .. } = *tcp_ext;
        WaitCounters { timeouts, syn_retransmits, window_probes, segments_retransmitted }
    }
}

/// The connections of one namespace.
#[derive(Debug)]
pub struct ConnectionScan {
    reader: RemoteHostReader,
    last_counters: Option<WaitCounters>,
    scan_until: Option<Instant>,
    pacer: CostPacer,
}

impl ConnectionScan {
    /// `netlink`: a sock_diag socket of the namespace.
    pub fn new(netlink: Netlink) -> ConnectionScan {
        let reader = RemoteHostReader::with_socket(netlink);
        ConnectionScan { reader, last_counters: None, scan_until: None, pacer: CostPacer::default() }
    }

    /// Scans if a connection waits, or may. After an error the socket must not be used again.
    pub fn update(&mut self, counters: WaitCounters) -> Reading<()> {
        let begin = Instant::now();
        if self.last_counters.replace(counters) != Some(counters) {
            self.scan_until = Some(begin + SCAN_TIME);
        }
        let may_wait = self.scan_until.is_some_and(|until| begin < until);
        let none_waits = || self.connections().waiting().is_empty() && self.connections().awaited_answers().next().is_none();
        if !self.pacer.is_due(begin) || !may_wait && none_waits() {
            return Ok(());
        }
        self.reader.scan_connections()?;
        self.pacer.schedule_next(begin, begin.elapsed(), INTERVAL_PER_COST);
        // Consumers of a queue on another host may wait for hours.
        if !may_wait && self.connections().waiting().is_empty() {
            self.pacer.postpone_until(begin + ANSWERS_INTERVAL);
        }
        Ok(())
    }

    /// As of the last scan.
    pub fn connections(&self) -> &ConnectionTable {
        self.reader.connections()
    }
}
