//! Receive processing of packets by CPU: rates of /proc/net/softnet_stat.

use crate::ids::CpuId;
use crate::sample::Sample;
use crate::sample::network::Softnet;
use crate::units::SmallSort;
use crate::units::{Counter, PerSecond};

/// One CPU; rates per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SoftnetSpan {
    pub cpu: CpuId,
    pub processed: PerSecond,
    /// Lost because the CPU's backlog was full. The interface's receive drops contain them: they are not added to Sat.
    pub dropped: PerSecond,
    /// Runs of net_rx_action that ended with packets left
    pub time_squeeze: PerSecond,
}

/// CPUs with counters in both samples, by number.
pub fn between(older: &Sample, newer: &Sample, seconds: f64) -> Vec<SoftnetSpan> {
    let mut was = lines_by_cpu(older);
    was.small_sort_by_key(|(cpu, _)| *cpu);
    let span = |(cpu, now): (CpuId, &Softnet)| {
        let at = was.binary_search_by_key(&cpu, |(cpu, _)| *cpu).ok()?;
        let (_, before) = was.get(at)?;
        let rate = |field: fn(&Softnet) -> Counter| PerSecond::between(Some(field(now)), Some(field(before)), seconds);
        Some(SoftnetSpan {
            cpu,
            processed: rate(|line| line.processed)?,
            dropped: rate(|line| line.dropped)?,
            time_squeeze: rate(|line| line.time_squeeze)?,
        })
    };
    let mut list: Vec<SoftnetSpan> = lines_by_cpu(newer).into_iter().filter_map(span).collect();
    list.small_sort_by_key(|span| span.cpu);
    list
}

/// A kernel that writes no number writes the lines of the online CPUs, which are those of /proc/stat, in their order.
fn lines_by_cpu(sample: &Sample) -> Vec<(CpuId, &Softnet)> {
    let lines = sample.protocols.softnet.as_deref().unwrap_or_default();
    if lines.iter().all(|line| line.cpu.is_some()) {
        return lines.iter().filter_map(|line| Some((line.cpu?, line))).collect();
    }
    match &sample.cpu {
        Ok(cpu) if cpu.cpus.len() == lines.len() => cpu.cpus.iter().map(|(id, _)| *id).zip(lines).collect(),
        _ => Vec::new(),
    }
}
