//! What the judge keeps, and how sentences write figures.

use super::words::{bytes, count, figure, millis, multiple, percent, plural, seconds};
use super::{Judge, Thresholds};

#[test]
fn three_significant_digits_and_never_a_share_that_rounds_to_nothing() {
    assert_eq!(percent(1.0 / 256.0), "0.39 %");
    assert_eq!(percent(0.00004), "4.0e-3 %");
    assert_eq!(
        [figure(0.0), figure(1.0), figure(12.34), figure(99.96), figure(4711.2)],
        ["0.00", "1.00", "12.3", "100", "4711"]
    );
    assert_eq!([millis(108.7), millis(7.8), millis(0.15), millis(12_500.0)], ["108.7 ms", "7.8 ms", "0.15 ms", "12.5 s"]);
    assert_eq!([multiple(13.936), multiple(1.0), multiple(432.1)], ["13.9×", "1.0×", "432×"]);
    assert_eq!([count(63.0), count(1.0), count(0.6), count(61.7)], ["63", "1", "0.6", "62"]);
    assert_eq!([seconds(7.0), seconds(154.0), seconds(1200.0), seconds(10_800.0)], ["7 s", "2.6 min", "20 min", "3.0 h"]);
    assert_eq!([bytes(512.0), bytes(33_554_432.0), bytes(22.0 * 1_073_741_824.0)], ["512 B", "32.0 MiB", "22.0 GiB"]);
    assert_eq!([plural(1.0, "thread", "threads"), plural(2.0, "thread", "threads")], ["1 thread", "2 threads"]);
}

#[test]
fn thresholds_come_from_a_file_that_may_leave_any_of_them_out() {
    let some: Thresholds = toml::from_str("blocked-ratio = 0.1").expect("one of them");
    assert_eq!(some, Thresholds { blocked_ratio: 0.1, ..Thresholds::default() });
    assert!(toml::from_str::<Thresholds>("blocked-ration = 0.1").is_err(), "a word that is none is told");
}

#[test]
fn a_judge_is_small_enough_to_be_kept_many_times() {
    assert!(std::mem::size_of::<Judge>() <= 320, "{}", std::mem::size_of::<Judge>());
}
