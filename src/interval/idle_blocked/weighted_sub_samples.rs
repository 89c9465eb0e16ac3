//! Weights of sub-samples: the seconds that each counts for, and the CPUs that were available in that time.

use crate::interval::cpu::usage::idle_ticks;
use crate::sample::Sample;
use crate::sample::cpu::CpuTimes;
use crate::sample::waits::SubSample;
use crate::units::delta;

/// A sub-sample with the time that it counts for and the CPUs that were available in that time.
pub struct WeightedSubSample<'a> {
    pub sub_sample: &'a SubSample,
    /// Its index in `Waits::sub_samples`
    pub index: usize,
    pub seconds: f64,
    pub available_cpus: f64,
}

/// The sub-samples of an interval, in order. One without CPU times shares those of the next one that has them.
pub fn weighted_sub_samples<'a>(
    ticks_per_second: f64,
    older: &Sample,
    newer: &'a Sample,
    cpus: f64,
) -> Vec<WeightedSubSample<'a>> {
    let start = older.waits.sub_samples.last().and_then(|sub| Some((sub.boottime_ns, sub.cpu?)));
    let start = start.or_else(|| Some((older.at.boottime_ns, older.cpu.as_ref().ok()?.total)));
    let Some((mut at_ns, mut times)) = start else { return Vec::new() };
    let first = (at_ns, times);
    let mut entries = Vec::with_capacity(newer.waits.sub_samples.len());
    let mut since = Vec::new();
    for (index, sub) in newer.waits.sub_samples.iter().enumerate() {
        let Some(now) = sub.cpu else {
            since.push((index, sub));
            continue;
        };
        let ticks = sub.boottime_ns.saturating_sub(at_ns) as f64 / 1e9 * ticks_per_second;
        if ticks < 1.0 {
            continue;
        }
        let available = available_cpus(&times, &now, ticks, cpus);
        for (index, sub) in since.drain(..).chain([(index, sub)]) {
            let seconds = sub.boottime_ns.saturating_sub(at_ns) as f64 / 1e9;
            let weighted = |available| WeightedSubSample { sub_sample: sub, index, seconds, available_cpus: available };
            entries.extend(available.map(weighted));
            at_ns = at_ns.max(sub.boottime_ns);
        }
        times = now;
    }
    equalize_weights(&mut entries);
    // A tenth of a second has ten ticks: each sub-sample is rounded, and the limit to the elapsed time rounds one way only. From end to end
    // the figure is exact, so the sub-samples are scaled to it.
    let ticks = at_ns.saturating_sub(first.0) as f64 / 1e9 * ticks_per_second;
    let whole: f64 = entries.iter().map(|entry: &WeightedSubSample| entry.seconds).sum();
    let mean = entries.iter().map(|entry| entry.available_cpus * entry.seconds).sum::<f64>() / whole;
    if let Some(exact) = available_cpus(&first.1, &times, ticks, cpus).filter(|_| mean > 0.0) {
        for entry in &mut entries {
            entry.available_cpus *= exact / mean;
        }
    }
    entries
}

/// A sub-sample after a pause of more than this multiple of the mean distance counts for its pause.
const PAUSE_FACTOR: f64 = 4.0;

/// The times of sub-samples are jittered (`app/sampling`), so that periodic loads are met at all their phases. The distance to the last one
/// is therefore random and must not be a weight: each counts for the same time.
fn equalize_weights(entries: &mut [WeightedSubSample]) {
    let whole: f64 = entries.iter().map(|entry| entry.seconds).sum();
    let most = entries.iter().map(|entry| entry.seconds).fold(0.0, f64::max);
    let longest = PAUSE_FACTOR * (whole - most) / entries.len().saturating_sub(1).max(1) as f64;
    let regular = |entry: &&mut WeightedSubSample| entry.seconds <= longest;
    let (count, time) =
        entries.iter_mut().filter(regular).fold((0.0, 0.0), |(count, time), entry| (count + 1.0, time + entry.seconds));
    entries.iter_mut().filter(regular).for_each(|entry| entry.seconds = time / count);
}

/// Mean number of CPUs that no task used and no hypervisor took (steal).
fn available_cpus(older: &CpuTimes, newer: &CpuTimes, ticks: f64, cpus: f64) -> Option<f64> {
    let steal = delta(newer.steal_ticks, older.steal_ticks).unwrap_or(0);
    let busy = [
        newer.user_ticks.since(older.user_ticks)?,
        newer.nice_ticks.since(older.nice_ticks)?,
        newer.system_ticks.since(older.system_ticks)?,
        newer.irq_ticks.since(older.irq_ticks)?,
        newer.softirq_ticks.since(older.softirq_ticks)?,
        steal,
    ];
    let (idle, iowait) = idle_ticks(older, newer)?;
    let idle = idle as f64 + iowait as f64;
    let busy = busy.iter().map(|&part| part as f64).sum::<f64>();
    let whole = (busy + idle).max(ticks * cpus);
    Some((idle / whole * cpus).clamp(0.0, cpus))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;

    const TICKS: f64 = 100.0;

    /// A sample at a full second, with sub-samples at these hundredths of it, each with its busy and idle ticks since boot.
    fn sample(second: u64, subs: &[(u64, Option<(u64, u64)>)]) -> Sample {
        let sub = |&(hundredths, cpu): &(u64, Option<(u64, u64)>)| SubSample {
            boottime_ns: (second * 100 + hundredths) * 10_000_000,
            cpu: cpu.map(|(busy, idle)| synthetic::cpu_times(busy, 0, idle, 0)),
            ..SubSample::default()
        };
        synthetic::sample(second as f64).with(|sample| sample.waits.sub_samples = subs.iter().map(sub).collect()).build()
    }

    fn found(older: &Sample, newer: &Sample) -> Vec<(f64, f64)> {
        let rounded = |figure: f64| (figure * 1000.0).round() / 1000.0;
        weighted_sub_samples(TICKS, older, newer, 1.0)
            .iter()
            .map(|sub_sample| (rounded(sub_sample.seconds), rounded(sub_sample.available_cpus)))
            .collect()
    }

    #[test]
    fn a_sub_sample_without_cpu_times_shares_those_of_the_next() {
        let older = sample(9, &[(0, Some((50, 50)))]);
        // Busy for 15 of 30 ticks, then for none of 10, then for all of 20.
        let newer = sample(
            9,
            &[
                (10, None),
                (20, None),
                (30, Some((65, 65))),
                (40, Some((65, 75))),
                (50, None),
                (60, Some((85, 75))),
                // No sub-sample after this one read it.
                (70, None),
            ],
        );
        let expected = [(0.1, 0.5), (0.1, 0.5), (0.1, 0.5), (0.1, 1.0), (0.1, 0.0), (0.1, 0.0)];
        assert_eq!(found(&older, &newer), expected);
    }

    #[test]
    fn sub_samples_have_equal_weights_except_after_a_pause() {
        let older = sample(9, &[(0, Some((0, 0)))]);
        let idle = |hundredths: u64| (hundredths, Some((0, hundredths)));
        let seconds = |newer: &Sample| found(&older, newer).into_iter().map(|(seconds, _)| seconds).collect::<Vec<f64>>();
        assert_eq!(seconds(&sample(9, &[idle(6), idle(22), idle(28), idle(40)])), [0.1; 4]);
        assert_eq!(seconds(&sample(9, &[idle(6), idle(306), idle(312), idle(328)])), [0.093, 3.0, 0.093, 0.093]);
        assert_eq!(seconds(&sample(9, &[idle(10), idle(310)])), [0.1, 3.0]);
        assert_eq!(seconds(&sample(9, &[idle(10)])), [0.1]);
    }

    #[test]
    fn a_sub_sample_within_a_tick_of_the_one_before_has_no_weight() {
        let older = sample(9, &[(0, Some((50, 50)))]);
        let mut newer = sample(9, &[(10, Some((50, 60))), (10, Some((50, 60))), (20, Some((60, 60)))]);
        newer.waits.sub_samples[1].boottime_ns += 1_000_000;
        assert_eq!(found(&older, &newer), [(0.1, 1.0), (0.1, 0.0)]);
    }
}
