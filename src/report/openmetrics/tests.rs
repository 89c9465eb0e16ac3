//! The names keep to the conventions.

use super::family::MetricKind;
use super::names::METRICS;

#[test]
fn names_have_base_units_and_counters_end_with_total() {
    for metric in METRICS {
        let name = metric.name;
        assert!(name.starts_with("stalltop_"), "{name}");
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
        let is_counter = matches!(metric.kind, MetricKind::Counter | MetricKind::Total);
        assert_eq!(name.ends_with("_total"), is_counter, "{name}");
        for unit in ["_ms", "_milliseconds", "_percent", "_kilobytes", "_kib", "_per_second"] {
            assert!(!name.contains(unit), "{name}");
        }
        assert!(!metric.help.is_empty() && !metric.help.contains('\n'), "{name}");
    }
    let mut names: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), METRICS.len());
}
