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

/// Share of the requests in a SYN queue, or of retransmitted segments, from which one remote host is named for them.
/// docs/metrics.md, "Fixed thresholds".
const MIN_TOP_HOST_SHARE: f64 = 0.5;
