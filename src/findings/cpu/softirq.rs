//! A core that is full of interrupts and softirqs: what it does is told from what the kernel counts of packets, since no
//! thread can be blamed for it.

use crate::findings::Evidence;
use crate::findings::formatting::{lossy_name, percent, significant_digits};
use crate::findings::rule_context::{RuleContext, evidence_optional};
use crate::ids::CpuId;
use crate::interval::cpu::CpuUsage;
use crate::interval::network::NicSpan;
use crate::interval::network::softnet::SoftnetSpan;

/// Fewer packets than this do not fill a core, at the slowest.
const MIN_PACKETS_PER_SECOND: f64 = 5_000.0;

/// Where the cards took in this part of what a virtual interface did, it came by them: the counters are read one by one.
const MIN_PHYSICAL_SHARE: f64 = 0.9;

/// Whether more of its time goes to interrupts and softirqs than to threads.
pub fn is_softirq_dominated(core: &CpuUsage) -> bool {
    let shares = &core.shares;
    shares.irq + shares.softirq > shares.user + shares.nice + shares.system
}

/// `softirq 96.0 %: packets of eth0, not a thread (812000 a second on this CPU, 40 rounds a second out of budget)`
pub fn sentence(scene: &RuleContext, core: &CpuUsage) -> String {
    let interrupts = core.shares.irq + core.shares.softirq;
    let word = if core.shares.irq > core.shares.softirq { "interrupts" } else { "softirq" };
    let begin = format!("{word} {}", percent(interrupts));
    let Some(softnet) = softnet(scene, core.id) else { return format!("{begin}, not a thread") };
    if softnet.processed.0 < MIN_PACKETS_PER_SECOND {
        let packets = significant_digits(softnet.processed.0);
        return format!("{begin}, not a thread, and hardly packets ({packets} a second): timers, disks or another driver");
    }
    let whose = busiest_interface(scene).map_or_else(String::new, |nic| format!(" of {nic}"));
    let mut details = vec![format!("{} a second on this CPU", significant_digits(softnet.processed.0))];
    if softnet.time_squeeze.0 > 0.0 {
        details.push(format!("{} rounds a second out of budget", significant_digits(softnet.time_squeeze.0)));
    }
    if softnet.dropped.0 > 0.0 {
        details.push(format!("{} dropped a second, its backlog is full", significant_digits(softnet.dropped.0)));
    }
    format!("{begin}: packets{whose}, not a thread ({})", details.join(", "))
}

/// What the kernel counts of packets on this CPU.
pub fn evidence(scene: &RuleContext, cpu: CpuId) -> [Evidence; 3] {
    let softnet = softnet(scene, cpu);
    [
        evidence_optional("softnet_packets_per_second", softnet.map(|span| span.processed.0)),
        evidence_optional("softnet_time_squeeze_per_second", softnet.map(|span| span.time_squeeze.0)),
        evidence_optional("softnet_dropped_per_second", softnet.map(|span| span.dropped.0)),
    ]
}

fn softnet<'a>(scene: &'a RuleContext, cpu: CpuId) -> Option<&'a SoftnetSpan> {
    scene.interval.softnet.iter().find(|span| span.cpu == cpu)
}

/// The interface that most packets come in by, which the kernel does not tell by CPU: one that has most of all. What comes by a
/// card comes by the bond, the VLAN and the bridge on it once more; of packets that no card has they are told apart.
fn busiest_interface(scene: &RuleContext) -> Option<String> {
    let facts = scene.interval.newer.nics.as_deref().unwrap_or_default();
    let is_card = |span: &&NicSpan| facts.get(span.index).is_none_or(|nic| !nic.facts.virtual_device);
    let (cards, others): (Vec<&NicSpan>, Vec<&NicSpan>) = scene.interval.nics.iter().partition(is_card);
    let received = |list: &[&NicSpan]| list.iter().map(|nic| nic.rx.packets.0).sum::<f64>();
    let most = others.iter().map(|nic| nic.rx.packets.0).fold(0.0, f64::max);
    let list = if received(&cards) >= most * MIN_PHYSICAL_SHARE { cards } else { others };
    let busiest = list.iter().max_by(|a, b| a.rx.packets.0.total_cmp(&b.rx.packets.0))?;
    (busiest.rx.packets.0 > received(&list) / 2.0).then(|| lossy_name(&busiest.id.name))
}
