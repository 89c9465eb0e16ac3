//! Metrics of network interfaces of this network namespace; without those that have never carried a packet.

use super::family::{FamilyList, label};
use super::names;
use super::selection::Selection;
use crate::figures::FigureInput;
use crate::figures::network::{RX_UTILIZATION_RATIO, SATURATION_PER_SECOND, TX_UTILIZATION_RATIO, UTILIZATION_RATIO};
use crate::findings::Evaluation;
use crate::ids::NicId;
use crate::interval::network::NicSpan;
use crate::units::{Counter, SmallSort};

const MAX_INTERFACES: usize = 16;

/// The interfaces that have series, and what the kernel has no counter for.
#[derive(Clone, Debug)]
pub struct NetworkMetrics {
    selection: Selection<NicId>,
    /// Packets since the start that the interface lost or repeated: drops, FIFO and carrier errors, collisions
    saturation: Vec<(NicId, f64)>,
}

impl Default for NetworkMetrics {
    fn default() -> NetworkMetrics {
        NetworkMetrics { selection: Selection::new(MAX_INTERFACES), saturation: Vec::new() }
    }
}

impl NetworkMetrics {
    /// Returns how many interfaces have no series.
    pub fn add(&mut self, evaluation: &Evaluation, families: &mut FamilyList) -> usize {
        let interval = &evaluation.interval;
        let is_virtual = |span: &NicSpan| interval.nic(span).is_none_or(|nic| nic.facts.virtual_device || nic.facts.loopback);
        let has_carried =
            |span: &&NicSpan| interval.nic(span).is_some_and(|nic| nic.rx.packets > Counter(0) || nic.tx.packets > Counter(0));
        let mut spans: Vec<&NicSpan> = interval.network.nics.iter().filter(has_carried).collect();
        // Devices before bridges and ends of containers; stable: idle ones remain in their order.
        spans.small_sort_by(|a, b| {
            let kilobytes = |span: &NicSpan| span.rx.kilobytes.0 + span.tx.kilobytes.0;
            is_virtual(a).cmp(&is_virtual(b)).then(kilobytes(b).total_cmp(&kilobytes(a)))
        });
        let candidates: Vec<NicId> = spans.iter().map(|span| span.id.clone()).collect();
        let left_out = self.selection.update(&candidates, interval.at().boottime_ns);
        self.saturation.retain(|(id, _)| self.selection.contains(id));
        let input = FigureInput::from(evaluation);
        for span in interval.network.nics.iter().filter(|span| self.selection.contains(&span.id)) {
            let Some(nic) = interval.nic(span) else { continue };
            let device = || label("device", &span.id.name.to_string_lossy());
            let directions = [("receive", nic.rx, &RX_UTILIZATION_RATIO), ("transmit", nic.tx, &TX_UTILIZATION_RATIO)];
            for (direction, counters, utilization) in directions {
                let labels = || vec![device(), ("direction", direction.to_owned())];
                families.add(&names::NETWORK_BYTES, labels(), counters.bytes.0 as f64);
                families.add(&names::NETWORK_PACKETS, labels(), counters.packets.0 as f64);
                families.add(&names::NETWORK_DIRECTION_UTILIZATION, labels(), utilization.number(&input, span));
            }
            families.add(&names::NETWORK_UTILIZATION, vec![device()], UTILIZATION_RATIO.number(&input, span));
            let grown = SATURATION_PER_SECOND.number(&input, span).map(|rate| rate * interval.seconds);
            families.add(&names::NETWORK_SATURATION, vec![device()], add_to(&mut self.saturation, &span.id, grown));
        }
        left_out
    }
}

/// The total after the addition; `None` as long as the growth was never known.
fn add_to(totals: &mut Vec<(NicId, f64)>, id: &NicId, grown: Option<f64>) -> Option<f64> {
    if let Some((_, total)) = totals.iter_mut().find(|(known, _)| known == id) {
        *total += grown.unwrap_or(0.0);
        return Some(*total);
    }
    totals.push((id.clone(), grown?));
    grown
}
