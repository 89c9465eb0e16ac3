//! Findings about network interfaces and TCP.

use super::Thresholds;
use crate::interval::network::NicSpan;

/// Whether packets were lost in the interface at a rate, and at a share, that matters.
pub(super) fn is_dropping(nic: &NicSpan, thresholds: &Thresholds) -> bool {
    let packets = nic.rx.packets.0 + nic.tx.packets.0;
    nic.saturation.is_some_and(|lost| {
        lost.0 >= thresholds.nic_saturation_per_second && lost.0 >= packets * thresholds.nic_saturation_ratio
    })
}

/// Whether packets wait in the queueing discipline while it drops or delays.
pub(super) fn is_backlogged(nic: &NicSpan) -> bool {
    nic.qdisc.as_ref().is_some_and(|qdisc| {
        let grew = |rate: Option<crate::units::PerSecond>| rate.is_some_and(|rate| rate.0 > 0.0);
        qdisc.backlog_packets > 0 && (grew(qdisc.dropped) || grew(qdisc.overlimits))
    })
}
