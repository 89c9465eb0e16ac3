//! The clause for CPUs that are busy at a fraction of their highest clock rate: a thermal limit, a power cap, or a governor.

use crate::findings::causes::DOMINANT_SHARE;
use crate::findings::formatting::significant_digits;
use crate::findings::rule_context::RuleContext;
use crate::interval::cpu::{CpuSpan, CpuUsage};

/// `; at 0.80 of 3.50 GHz`: the mean clock rate of the busy CPUs of which `is_meant` holds, and the mean of their highest ones; empty where
/// it is not below half of that, or not known. Only frequencies that were read while the CPU was busy count: those of many CPUs
/// are read in turn.
pub fn clock_rate_clause(context: &RuleContext, cpu: &CpuSpan, is_meant: impl Fn(&CpuUsage) -> bool) -> String {
    let begin_s = context.interval.older.at.boottime_ns / 1_000_000_000;
    let is_busy = |id| {
        let place = cpu.cpus.binary_search_by_key(&id, |core| core.id).ok();
        let core = place.and_then(|place| cpu.cpus.get(place));
        core.is_some_and(|core| core.busy() >= context.thresholds.cpu_busy_ratio && is_meant(core))
    };
    let known = context.interval.newer.cpu_frequencies.iter();
    let read = known.filter(|of| of.max_khz > 0 && u64::from(of.read_s) >= begin_s && is_busy(of.cpu));
    let (count, now, most) = read
        .fold((0.0, 0.0, 0.0), |(count, now, most), of| (count + 1.0, now + f64::from(of.khz), most + f64::from(of.max_khz)));
    if count == 0.0 || now >= most * DOMINANT_SHARE {
        return String::new();
    }
    let ghz = |khz: f64| significant_digits(khz / count / 1e6);
    format!("; at {} of {} GHz", ghz(now), ghz(most))
}
