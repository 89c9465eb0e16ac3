//! Edge cases of learning and of drift.

use super::*;

#[test]
fn the_lowest_await_is_not_taken_from_intervals_of_nearly_no_time() {
    let mut bench = Bench::new();
    bench.teach(9, 5, 1);
    assert_eq!(bench.latency_status(5, 1), (8.0, true), "5 ms in all: the kernel counts whole ones");
    bench.teach(9, 10, 1);
    assert_eq!(bench.learned().lowest().map(|ms| ms.0), Some(1.0));
}

#[test]
fn a_change_within_a_week_is_no_drift() {
    let mut bench = Bench::new();
    bench.teach_days(5, 100, 5);
    bench.teach_days(6, 70, 12);
    assert_eq!(bench.drift(), None, "six days after the first ones");
    bench.teach_days(3, 70, 12);
    assert_eq!(bench.drift().map(|drift| (drift.reference.0, drift.current.0)), Some((5.0, 12.0)));
}

#[test]
fn a_busy_day_counts_as_one_day() {
    let mut bench = Bench::new();
    bench.teach(1000, 100, 5);
    for _ in 0..5 {
        bench.at_ms += 86_400_000;
        bench.teach(40, 100, 8);
    }
    bench.at_ms += 86_400_000;
    bench.teach(1, 100, 8);
    assert_eq!(bench.learned().latency().map(|ms| ms.0), Some(8.0));
}
