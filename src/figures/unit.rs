//! The unit of a figure, and how precisely it is printed.

/// What a number counts, and the unit in which people read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A name, not a number
    Name,
    /// A number that is a name: of a CPU, of a process
    Id,
    /// A number of things, now or on average
    Count,
    /// A share in per cent
    Percent,
    /// A share of one CPU in per cent: 100 % is one whole CPU
    PercentOfCpu,
    PerSecond,
    /// Bytes per second, read in kB of 1024
    KilobytesPerSecond,
    /// Bytes per second, read in MB of 2^20
    MegabytesPerSecond,
    /// Seconds, read in milliseconds
    Milliseconds,
    Seconds,
    /// Bytes, read in kB of 1024
    Kilobytes,
}

impl Unit {
    /// The number in the unit that people read; `number` is in the unit of the key (shares of 1, seconds, bytes).
    pub fn displayed(self, number: f64) -> f64 {
        match self {
            Unit::Name | Unit::Id | Unit::Count | Unit::PerSecond | Unit::Seconds => number,
            // A product is exact where a quotient by 0.01 or 0.001 is not.
            Unit::Percent | Unit::PercentOfCpu => number * 100.0,
            Unit::Milliseconds => number * 1000.0,
            Unit::KilobytesPerSecond | Unit::Kilobytes => number / 1024.0,
            Unit::MegabytesPerSecond => number / 1_048_576.0,
        }
    }

    /// As in docs/tables.md.
    pub fn label(self) -> &'static str {
        match self {
            Unit::Name => "name",
            Unit::Id => "number",
            Unit::Count => "count",
            Unit::Percent => "%",
            Unit::PercentOfCpu => "% of a CPU",
            Unit::PerSecond => "1/s",
            Unit::KilobytesPerSecond => "kB/s",
            Unit::MegabytesPerSecond => "MB/s",
            Unit::Milliseconds => "ms",
            Unit::Seconds => "s",
            Unit::Kilobytes => "kB",
        }
    }

    /// Whether a number in it is a share of 1.
    pub fn is_ratio(self) -> bool {
        matches!(self, Unit::Percent | Unit::PercentOfCpu)
    }
}

/// The digits of a printed number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    Integer,
    /// Two decimals; fewer if the number has more than four digits before the point
    TwoDecimals,
    /// Four significant digits, and all digits before the point
    FourSignificant,
}

impl Precision {
    /// The number as text.
    pub fn format(self, number: f64) -> String {
        let decimals = match (self, number.abs()) {
            (Precision::Integer, _) => 0,
            (Precision::TwoDecimals, size) if size < 9_999.995 => 2,
            (Precision::TwoDecimals, size) if size < 99_999.95 => 1,
            (Precision::TwoDecimals, _) => 0,
            (Precision::FourSignificant, size) if size >= 999.95 => 0,
            (Precision::FourSignificant, size) if size >= 99.995 => 1,
            (Precision::FourSignificant, size) if size >= 9.9995 => 2,
            (Precision::FourSignificant, size) if size >= 0.99995 => 3,
            (Precision::FourSignificant, 0.0) => 2,
            (Precision::FourSignificant, _) => 4,
        };
        format!("{number:.decimals$}")
    }

    /// Cells that six digits take, the point included.
    pub fn width(self) -> usize {
        match self {
            Precision::Integer | Precision::FourSignificant => 6,
            Precision::TwoDecimals => 7,
        }
    }
}
