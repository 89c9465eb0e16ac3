//! Formats numbers for all layers: three significant digits, amounts in bytes, plurals.

/// Three significant digits, at most two decimals: `0.39`, `41.0`, `1234`.
pub fn three_digits(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

/// The same with more decimals below 0.1, so that nothing small becomes 0: `0.052`, `0.0012`, `1.2e-5`.
pub fn significant_digits(value: f64) -> String {
    match value.abs() {
        size if size >= 0.0995 || size == 0.0 => three_digits(value),
        size if size >= 0.00995 => format!("{value:.3}"),
        size if size >= 0.000_995 => format!("{value:.4}"),
        _ => format!("{value:.1e}"),
    }
}

/// An amount in powers of 1024: `1.50 KiB`.
pub fn bytes(value: f64) -> String {
    let (mut value, mut units) = (value, ["B", "KiB", "MiB", "GiB", "TiB"].into_iter());
    let mut unit = units.next().unwrap_or_default();
    while value.abs() >= 999.5 {
        let Some(larger) = units.next() else { break };
        value /= 1024.0;
        unit = larger;
    }
    format!("{} {unit}", three_digits(value))
}

/// `1 sample`, `12 samples`.
pub fn plural(count: impl std::fmt::Display, one: &str, many: &str) -> String {
    let count = count.to_string();
    let words = if count == "1" { one } else { many };
    format!("{count} {words}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!(
            [0.0, 0.39, 9.99, 9.999, 41.04, 99.97, 1234.5].map(three_digits),
            ["0.00", "0.39", "9.99", "10.0", "41.0", "100", "1234"]
        );
        assert_eq!(
            [0.0, 0.15, 0.052, 0.0012, 0.000_012].map(significant_digits),
            ["0.00", "0.15", "0.052", "0.0012", "1.2e-5"]
        );
    }

    #[test]
    fn amounts_have_a_binary_unit() {
        assert_eq!([17.0, 1023.0, 1536.0, 1e15].map(bytes), ["17.0 B", "1.00 KiB", "1.50 KiB", "909 TiB"]);
        assert_eq!([plural(1, "core", "cores"), plural(12_u64, "process", "processes")], ["1 core", "12 processes"]);
    }
}
