//! Conditions of network interfaces: drops packets, has a backlog in its queueing discipline, drops TCP segments.

use crate::findings::network_scope::NetworkScope;
use crate::findings::thresholds::Thresholds;
use crate::ids::NicId;
use crate::interval::network::NicSpan;

/// Whether the interface lost packets at the rate and share of a finding.
pub fn is_dropping(nic: &NicSpan, thresholds: &Thresholds) -> bool {
    let packets = nic.rx.packets.0 + nic.tx.packets.0;
    nic.saturation.is_some_and(|lost| {
        lost.0 >= thresholds.nic_saturation_per_second && lost.0 >= packets * thresholds.nic_saturation_ratio
    })
}

/// Packets per second that were received or sent with errors, and their share of all, at the rate and share of a finding.
pub fn damaged_packets(nic: &NicSpan, thresholds: &Thresholds) -> Option<(f64, f64)> {
    let errors = nic.rx.errors?.0 + nic.tx.errors?.0;
    // A driver may count a packet that it could not receive as an error alone.
    let share = errors / (nic.rx.packets.0 + nic.tx.packets.0).max(errors).max(f64::MIN_POSITIVE);
    (errors >= thresholds.nic_saturation_per_second && share >= thresholds.nic_saturation_ratio).then_some((errors, share))
}

/// Whether the queueing discipline has a backlog while it drops or delays packets. Drops at the rate and share of a finding
/// count as a backlog: paced senders let the queue run empty between samples.
pub fn is_backlogged(nic: &NicSpan, thresholds: &Thresholds) -> bool {
    nic.qdisc.as_ref().is_some_and(|qdisc| {
        let dropped = qdisc.dropped.map_or(0.0, |rate| rate.0);
        let offered = nic.tx.packets.0 + dropped;
        let full = dropped >= thresholds.nic_saturation_per_second && dropped >= offered * thresholds.nic_saturation_ratio;
        full || qdisc.is_backlogged()
    })
}

/// Ethernet without jumbo frames
const SEGMENT_BYTES: f64 = 1500.0;

/// A packet before segmentation has at most 64 KiB.
const MAX_GSO_SEGMENTS: f64 = 45.0;

/// An interface's queueing discipline is the cause of retransmits if it dropped this share of the retransmitted segments.
pub const MIN_LOCAL_DROP_SHARE: f64 = 0.5;

/// The interface whose queueing discipline dropped most of the retransmitted segments.
pub fn local_drop_nic<'a>(scope: &NetworkScope<'a>) -> Option<&'a NicId> {
    let again = scope.protocols.segments_retransmitted.filter(|again| again.0 > 0.0)?;
    let lost = |nic: &NicSpan| dropped_segments(scope, nic).unwrap_or(0.0);
    let most = scope.nics.iter().max_by(|a, b| lost(a).total_cmp(&lost(b)))?;
    (lost(most) >= again.0 * MIN_LOCAL_DROP_SHARE).then_some(&most.id)
}

/// Segments of TCP that an interface's queueing discipline dropped, per second; `None` if it reports no drops. Packets may be
/// segmented behind it (GSO): a dropped packet is several segments, and large packets are dropped first. The result is the
/// number of segments in the packets that passed, or the segments that TCP sent and no interface did.
pub fn dropped_segments(scope: &NetworkScope, nic: &NicSpan) -> Option<f64> {
    let dropped = nic.qdisc.as_ref()?.dropped?.0;
    let by_size = |nic: &NicSpan| nic.tx.kilobytes.0 * 1024.0 / SEGMENT_BYTES;
    let Some(sent) = scope.protocols.segments_out else { return Some(dropped) };
    let out: f64 = scope.nics.iter().map(|nic| nic.tx.packets.0.max(by_size(nic))).sum();
    let missing = (sent.0 - out).clamp(0.0, dropped * MAX_GSO_SEGMENTS);
    let packets = nic.tx.packets.0.max(1.0);
    Some((dropped * (by_size(nic) / packets).min(sent.0 / packets)).max(missing).max(dropped))
}
