//! Rules about network interfaces, TCP, UDP and remote hosts.

pub mod answer_blocked;
pub mod connect_blocked;
pub mod listen_overflow;
pub mod lookup_blocked;
pub mod network_latency;
pub mod nic_saturated;
pub mod send_blocked;
pub mod syn_queue_overflow;
pub mod tcp_retransmits;
pub mod udp_overflow;

use crate::findings::finding::Kind;
use crate::findings::rule_context::RuleContext;

/// Remote hosts that have findings of their own.
const MAX_REPORTED_HOSTS: usize = 3;

/// Whether so many remote hosts have one finding for all. An active one lasts at fewer hosts: a number of hosts that varies around
/// the limit does not replace the findings again and again.
fn are_reported_together(context: &RuleContext, kind: Kind, hosts: usize) -> bool {
    hosts as f64 > MAX_REPORTED_HOSTS as f64 * context.threshold_share(kind)
}

/// Share of the requests in a SYN queue, or of retransmitted segments, from which one remote host is named for them.
/// docs/metrics.md, "Fixed thresholds".
const MIN_TOP_HOST_SHARE: f64 = 0.5;
