//! A core that is saturated by interrupts and softirqs: described by the kernel's packet counters, since no thread is the
//! cause.

use crate::findings::finding::Evidence;
use crate::findings::formatting::{lossy_name, percent, significant_digits};
use crate::findings::rule_context::{RuleContext, evidence_optional};
use crate::ids::CpuId;
use crate::interval::cpu::CpuUsage;
use crate::interval::network::NicSpan;
use crate::interval::network::softnet::SoftnetSpan;

/// Packet rates below this do not saturate a core. docs/metrics.md, "Fixed thresholds".
const MIN_PACKETS_PER_SECOND: f64 = 5_000.0;

/// If physical interfaces received at least this share of a virtual interface's packets, the packets came through them.
const MIN_PHYSICAL_SHARE: f64 = 0.9;

/// An interface is named if it received more than this share of all packets.
const MIN_BUSIEST_SHARE: f64 = 0.5;

/// Whether interrupts and softirqs take more of its time than threads.
pub fn is_softirq_dominated(core: &CpuUsage) -> bool {
    let shares = &core.shares;
    shares.irq + shares.softirq > shares.user + shares.nice + shares.system
}

/// `softirq 96.0 %: packets of eth0, not a thread (812000 per second on this CPU, 40 rounds per second out of budget)`
pub fn softirq_sentence(context: &RuleContext, core: &CpuUsage) -> String {
    let interrupts = core.shares.irq + core.shares.softirq;
    let word = if core.shares.irq > core.shares.softirq { "interrupts" } else { "softirq" };
    let begin = format!("{word} {}", percent(interrupts));
    let Some(softnet) = softnet(context, core.id) else { return format!("{begin}, not a thread") };
    if softnet.processed.0 < MIN_PACKETS_PER_SECOND {
        let packets = significant_digits(softnet.processed.0);
        return format!("{begin}, not a thread, with few packets ({packets} per second): timers, disks or another driver");
    }
    let whose = busiest_interface(context).map_or_else(String::new, |nic| format!(" from {nic}"));
    let mut details = vec![format!("{} per second on this CPU", significant_digits(softnet.processed.0))];
    if softnet.time_squeeze.0 > 0.0 {
        details.push(format!("{} time_squeeze per second", significant_digits(softnet.time_squeeze.0)));
    }
    if softnet.dropped.0 > 0.0 {
        details.push(format!("{} dropped per second: backlog full", significant_digits(softnet.dropped.0)));
    }
    format!("{begin}: packets{whose}, not a thread ({})", details.join(", "))
}

/// Packet counters of this CPU.
pub fn softirq_evidence(context: &RuleContext, cpu: CpuId) -> [Evidence; 3] {
    let softnet = softnet(context, cpu);
    [
        evidence_optional("softnet_packets_per_second", softnet.map(|span| span.processed.0)),
        evidence_optional("softnet_time_squeeze_per_second", softnet.map(|span| span.time_squeeze.0)),
        evidence_optional("softnet_dropped_per_second", softnet.map(|span| span.dropped.0)),
    ]
}

fn softnet<'a>(context: &'a RuleContext, cpu: CpuId) -> Option<&'a SoftnetSpan> {
    context.interval.network.softnet.iter().find(|span| span.cpu == cpu)
}

/// The interface that received most of all packets (the kernel does not count them by interface and CPU). Packets
/// of a physical interface are counted again by the bond, VLAN or bridge on it; packets that no physical interface has are
/// compared separately.
fn busiest_interface(context: &RuleContext) -> Option<String> {
    let facts = context.interval.newer.nics.as_deref().unwrap_or_default();
    let is_card = |span: &&NicSpan| facts.get(span.index).is_none_or(|nic| !nic.facts.virtual_device);
    let (cards, others): (Vec<&NicSpan>, Vec<&NicSpan>) = context.interval.network.nics.iter().partition(is_card);
    let received = |list: &[&NicSpan]| list.iter().map(|nic| nic.rx.packets.0).sum::<f64>();
    let most = others.iter().map(|nic| nic.rx.packets.0).fold(0.0, f64::max);
    let list = if received(&cards) >= most * MIN_PHYSICAL_SHARE { cards } else { others };
    let busiest = list.iter().max_by(|a, b| a.rx.packets.0.total_cmp(&b.rx.packets.0))?;
    (busiest.rx.packets.0 > received(&list) * MIN_BUSIEST_SHARE).then(|| lossy_name(&busiest.id.name))
}
