//! The learned baselines of a disk by operation and request size, with their confidence and age.

use super::page::Page;
use crate::baseline::{DeviceIdentity, effective_baseline};
use crate::findings::Evaluation;
use crate::interval::disk::{DiskSpan, Operation};
use crate::safe;
use crate::units::format;
use crate::units::time;
use crate::view::safe_text::SafeText;
use crate::view::text::format_number;
use crate::view::theme::StyleRole;

/// The section with the baselines of a disk.
pub fn baselines(evaluation: &Evaluation, span: &DiskSpan, page: &mut Page) {
    let sample = &evaluation.interval.newer;
    let Some(disk) = sample.disks.as_ref().ok().and_then(|disks| disks.get(span.index)) else { return };
    let device = DeviceIdentity::from_disk(disk);
    let now_s = evaluation.interval.at().realtime_ns.div_euclid(1_000_000_000);
    page.heading("BASELINES (one request at a time)");
    let mut any = false;
    for (key, learned) in evaluation.baselines.for_device(&device) {
        any = true;
        let label = match key.operation {
            Operation::Flush => SafeText::from(key.operation.plural()),
            _ => safe!("{} {}", key.operation.plural(), key.size.as_str()),
        };
        let baseline = match effective_baseline(Some(learned), disk) {
            (baseline, false) => safe!("{:>9}", format::latency(baseline)),
            (baseline, true) => safe!("{:>9}", format!("~{}", format::latency(baseline))),
        };
        let word = learned.confidence(now_s).as_str();
        let words = match learned.intervals {
            0 => safe!("{baseline}  {word}"),
            n => {
                let (first, last) =
                    (format_age(now_s.saturating_sub(learned.first_s)), format_age(now_s.saturating_sub(learned.last_s)));
                let when = if first == last { last } else { format!("{first} to {last}") };
                safe!("{baseline}  {word}, {}, {when}", format::plural(n, "interval", "intervals"))
            }
        };
        page.labelled(label, words);
        if let Some(known) = learned.quantiles() {
            let (p50, p99) = (format::latency(known.p50), format::latency(known.p99));
            page.labelled("", safe!("single requests: p50 {p50}, p99 {p99}"));
        }
        if let Some(drift) = learned.drift() {
            let (was, times) = (format::latency(drift.reference), format_number(drift.multiple(), 4));
            page.labelled("", safe!("was {was} in the first days, now {times}× that"));
        }
    }
    if !any {
        page.line(2, "none learned yet: typical values for this kind of device are used (~)".into(), StyleRole::Dim);
    }
}

/// `40d02h ago`; a time in the future, after a clock step, is `now`.
fn format_age(seconds: i64) -> String {
    if seconds < 60 { "now".to_owned() } else { format!("{} ago", time::duration(seconds as f64)) }
}
