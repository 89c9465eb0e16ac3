//! Rule disk-drift: the latency of a device at one request at a time has increased since it was first measured.

use crate::findings::finding::{Kind, Severity, Subject};
use crate::findings::formatting::{latency, multiple, plural};
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{Candidate, RuleContext, evidence_number, evidence_text};
use crate::interval::disk::Operation;
use jiff::civil::Date;
use jiff::{Span, civil};

pub const DISK_DRIFT: Rule = Rule {
    kind: Kind::DiskDrift,
    title: "Disk slower than it used to be",
    meaning: "With one request at a time this device takes a multiple of what it took when it was first measured, and has \
              done so for days: a worn or failing disk, another storage class, a permanent noisy neighbour. Today's baseline \
              may have followed the change; this comparison does not.",
    computed: "The median of the last 3 days with one request at a time (at least 10 intervals each, and at least 7 days \
               after the reference) against the median of the first 5 days, for one operation and size class: from 2×, at \
               least 0.1 ms more, and only if the best of the last days is worse than the worst of the first. A note; a \
               warning from 3× if it matters now: (await − reference) × completions per second ≥ 0.5. Never for a baseline \
               that was set by hand.",
    caveats: "Other work at the same size may be slower on a healthy device: random instead of sequential reads on a \
              rotating disk. An intended change (another storage class) is reported until the old baseline is forgotten.",
    next_steps: &[
        "smartctl -a: media wearout, reallocated sectors, temperature; a RAID rebuild; the limits of the volume's class",
        "stalltop baseline show DEVICE: since when, by how much",
        "stalltop baseline forget DEVICE, if the change was intended: it is learned again",
    ],
    reference: "Baselines",
    hysteresis: Hysteresis::TwoOfThree,
    evaluate: disk_drift,
};

fn disk_drift(context: &RuleContext) -> Vec<Candidate> {
    let thresholds = context.thresholds;
    let listed = context.drifts.iter().filter(|(.., drift)| drift.multiple() >= thresholds.drift_multiple);
    listed
        .map(|&(id, operation, size, drift)| {
            let device = context.disk_name(id);
            let evaluated = context
                .latency_status(id, operation)
                .filter(|status| status.size == size)
                .and_then(|status| status.window_load);
            let lost = evaluated.map(|load| {
                let r#await = load.r#await(operation).map_or(0.0, |r#await| r#await.0);
                (r#await - drift.reference.0) / 1000.0 * load.rate(operation)
            });
            let matters = lost.is_some_and(|lost| lost >= thresholds.latency_felt);
            let sized = if operation == Operation::Flush { String::new() } else { format!(" of {}", size.as_str()) };
            let sentence = format!(
                "{device}: {}{sized} take {} as long as in {} ({} → {}, learned over {})",
                operation.plural(),
                multiple(drift.multiple()),
                format_month(drift.since_day),
                latency(drift.reference),
                latency(drift.current),
                plural(f64::from(drift.days), "day", "days")
            );
            let evidence = vec![
                evidence_text("operation", operation.plural()),
                evidence_text("size", size.as_str()),
                evidence_number("reference_seconds", drift.reference.0 / 1000.0),
                evidence_number("alone_seconds", drift.current.0 / 1000.0),
                evidence_number("days", f64::from(drift.days)),
                evidence_text(
                    "since",
                    date_of_day(drift.since_day).map_or_else(|| "-".to_owned(), |date| date.to_string()).as_str(),
                ),
                crate::findings::rule_context::evidence_optional("lost_seconds_per_second", lost),
            ];
            let warns = matters && drift.multiple() >= thresholds.drift_warning_multiple;
            Candidate {
                severity: if warns { Severity::Warning } else { Severity::Note },
                subject: Subject::Disk { id, name: context.disk(id).map(|disk| disk.name.clone()).unwrap_or_default() },
                value: drift.multiple(),
                threshold: thresholds.drift_multiple,
                unit: "ratio",
                sentence,
                evidence,
                explained_share: 0.0,
            }
        })
        .collect()
}

fn date_of_day(day: i32) -> Option<Date> {
    civil::date(1970, 1, 1).checked_add(Span::new().try_days(day).ok()?).ok()
}

/// `March 2026`
fn format_month(day: i32) -> String {
    date_of_day(day).map_or_else(|| "-".to_owned(), |date| date.strftime("%B %Y").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_number_has_its_date() {
        assert_eq!(format_month(20_515), "March 2026");
        assert_eq!(format_month(i32::MAX), "-");
    }
}
