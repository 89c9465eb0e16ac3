//! The precision of each figure.

use super::columns::{precision, precision_parseable, precision4};

#[test]
fn the_three_precisions() {
    let cases = [0.0, 9.999, 10.0, 99.994, 100.0, 9999.4, 10_000.0, 99_999.9, 100_000.0, 123_456.7].map(Some);
    assert_eq!(
        cases.map(precision),
        ["0.00", "10.00", "10.00", "99.99", "100.0", "9999.4", "10000.0", "99999.9", "100000", "123457"]
    );
    assert_eq!(cases.map(precision4), ["0.00", "10.00", "10.0", "100.0", "100", "9999", "10000", "100000", "100000", "123457"]);
    assert_eq!(
        cases.map(precision_parseable),
        ["0.000", "9.999", "10.00", "99.99", "100.0", "9999.4", "10000", "100000", "100000", "123457"]
    );
    assert_eq!([precision(None), precision4(None), precision_parseable(None)], ["-", "-", "-"]);
}
