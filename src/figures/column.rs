//! One column: what it is called for people and for programs, in which unit, and how it is read.

use super::{Cell, FigureInput};

/// A column of rows of one type.
pub struct Column<T: 'static> {
    pub definition: ColumnDefinition,
    value: fn(&FigureInput, &T) -> Cell,
}

/// What a column is, apart from how it is read.
#[derive(Debug, PartialEq, Eq)]
pub struct ColumnDefinition {
    /// In a heading, and for `--columns`: the name that the kernel's own tools use
    pub title: &'static str,
    /// In JSON and CSV, with the unit at its end
    pub key: &'static str,
    pub unit: Unit,
    pub precision: Precision,
    /// What becomes of it over a whole run
    pub aggregation: Aggregation,
    /// Whether it is shown unless something else is asked for
    pub shown_by_default: bool,
    /// Whether it costs more to sample, and so is sampled only where it is shown
    pub expensive: bool,
    /// A reference that other figures are compared with: a baseline
    pub reference: bool,
    /// Which of two values is the better one
    pub better: Better,
    pub description: &'static str,
}

/// Which of two values of a figure is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    Lower,
    Higher,
    /// The figure alone does not tell: more work done, or more work needed
    Neither,
}

/// What a number counts, and so what people read it in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// What somebody or something is called
    Name,
    /// A number that is a name: of a CPU, of a process
    Id,
    /// Things, now or on average
    Count,
    /// A share in per cent
    Percent,
    /// The same: 100 % is one whole CPU, and may be asked for as a share of the box
    PercentOfCpu,
    /// A second
    PerSecond,
    /// Bytes a second, read in kB of 1024
    KilobytesPerSecond,
    /// Bytes a second, read in MB of 2^20
    MegabytesPerSecond,
    /// Seconds, read in milliseconds
    Milliseconds,
    /// Bytes, read in kB of 1024
    Kilobytes,
}

impl Unit {
    /// What a number is divided by for people.
    pub fn divisor(self) -> f64 {
        match self {
            Unit::Name | Unit::Id | Unit::Count | Unit::PerSecond => 1.0,
            Unit::Percent | Unit::PercentOfCpu => 0.01,
            Unit::KilobytesPerSecond | Unit::Kilobytes => 1024.0,
            Unit::MegabytesPerSecond => 1_048_576.0,
            Unit::Milliseconds => 0.001,
        }
    }

    /// As docs/tables.md says it.
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
            Unit::Kilobytes => "kB",
        }
    }
}

/// How exactly people read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    Integer,
    /// Two decimals, fewer as soon as it would be wider than six digits
    TwoDecimals,
    /// Four significant digits, and every one before the point
    FourSignificant,
}

impl Precision {
    /// The number as it is printed.
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

    /// Cells that six digits take, with what stands behind the point.
    pub fn width(self) -> usize {
        match self {
            Precision::Integer | Precision::FourSignificant => 6,
            Precision::TwoDecimals => 7,
        }
    }
}

/// What becomes of a figure over a whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregation {
    /// A rate becomes how many, or how much
    Sum,
    /// A share of time becomes seconds
    Seconds,
    /// It means the same of a long time: a mean, a state at the end, a name
    Unchanged,
    /// It is known of short times only
    Unknown,
}

impl<T> Column<T> {
    /// What tells one row from another.
    pub(super) const fn text(
        name: &'static str,
        json: &'static str,
        meaning: &'static str,
        read: fn(&FigureInput, &T) -> Cell,
    ) -> Column<T> {
        Column::new(name, json, Unit::Name, meaning, read)
    }

    /// A figure; how exact it is and what becomes of it in a total follow from its unit, unless it is said.
    pub(super) const fn new(
        name: &'static str,
        json: &'static str,
        unit: Unit,
        meaning: &'static str,
        read: fn(&FigureInput, &T) -> Cell,
    ) -> Column<T> {
        let digits = match unit {
            Unit::Name | Unit::Id | Unit::Count | Unit::Kilobytes => Precision::Integer,
            Unit::Percent
            | Unit::PercentOfCpu
            | Unit::PerSecond
            | Unit::KilobytesPerSecond
            | Unit::MegabytesPerSecond
            | Unit::Milliseconds => Precision::TwoDecimals,
        };
        let total = match unit {
            Unit::Name | Unit::Id | Unit::Count | Unit::Percent | Unit::Milliseconds | Unit::Kilobytes => {
                Aggregation::Unchanged
            }
            Unit::PercentOfCpu => Aggregation::Seconds,
            Unit::PerSecond | Unit::KilobytesPerSecond | Unit::MegabytesPerSecond => Aggregation::Sum,
        };
        Column {
            definition: ColumnDefinition {
                title: name,
                key: json,
                unit,
                precision: digits,
                aggregation: total,
                shown_by_default: true,
                expensive: false,
                reference: false,
                better: Better::Neither,
                description: meaning,
            },
            value: read,
        }
    }

    /// A figure of a task: with four significant digits.
    pub(super) const fn four_digits(
        name: &'static str,
        json: &'static str,
        unit: Unit,
        meaning: &'static str,
        read: fn(&FigureInput, &T) -> Cell,
    ) -> Column<T> {
        Column::new(name, json, unit, meaning, read).precision(Precision::FourSignificant)
    }

    /// A share of a task's time as the sub-samples saw it: nothing to be added up over a run.
    pub(super) const fn sampled_share(
        name: &'static str,
        json: &'static str,
        meaning: &'static str,
        read: fn(&FigureInput, &T) -> Cell,
    ) -> Column<T> {
        Column::four_digits(name, json, Unit::PercentOfCpu, meaning, read).without_total().hidden_by_default()
    }

    pub(super) const fn precision(mut self, digits: Precision) -> Column<T> {
        self.definition.precision = digits;
        self
    }

    /// A share of time: in a total it is seconds.
    pub(super) const fn time_share(mut self) -> Column<T> {
        self.definition.aggregation = Aggregation::Seconds;
        self
    }

    /// Known of short times only.
    pub(super) const fn without_total(mut self) -> Column<T> {
        self.definition.aggregation = Aggregation::Unknown;
        self
    }

    /// It costs a file more a thread that ran, so it is sampled where it is shown.
    pub(super) const fn expensive(mut self) -> Column<T> {
        self.definition.expensive = true;
        self
    }

    /// A reference, not a measurement.
    pub(super) const fn reference(mut self) -> Column<T> {
        self.definition.reference = true;
        self
    }

    /// More of it is worse.
    pub(super) const fn lower_is_better(mut self) -> Column<T> {
        self.definition.better = Better::Lower;
        self
    }

    /// Less of it is worse.
    pub(super) const fn higher_is_better(mut self) -> Column<T> {
        self.definition.better = Better::Higher;
        self
    }

    /// The figure of one row.
    pub fn value(&self, input: &FigureInput, row: &T) -> Cell {
        (self.value)(input, row)
    }

    /// The figure where it is a number, in the unit that people read it in.
    pub fn displayed(&self, input: &FigureInput, row: &T) -> Option<f64> {
        let number = self.number(input, row)?;
        Some(match self.definition.unit {
            // A product is exact where a quotient by 0.01 or 0.001 is not.
            Unit::Percent | Unit::PercentOfCpu => number * 100.0,
            Unit::Milliseconds => number * 1000.0,
            unit => number / unit.divisor(),
        })
    }

    /// The figure where it is a number, in the unit of its key.
    pub fn number(&self, input: &FigureInput, row: &T) -> Option<f64> {
        self.value(input, row).number()
    }

    /// Shown when it is asked for.
    pub(super) const fn hidden_by_default(mut self) -> Column<T> {
        self.definition.shown_by_default = false;
        self
    }
}

impl ColumnDefinition {
    /// Cells that it takes on a line: the heading, and figures of six digits.
    pub fn width(&self) -> usize {
        let figures = match (self.unit, self.precision) {
            (Unit::Name, _) => 12,
            (Unit::Id, _) => 7,
            // Memory has more than six digits of kB.
            (Unit::Kilobytes, Precision::Integer) => 9,
            (Unit::Percent | Unit::PercentOfCpu, Precision::TwoDecimals) => 6,
            (_, digits) => digits.width(),
        };
        self.title.len().max(figures)
    }

    /// Its name in JSON and CSV in a total: what was a rate has no time in it.
    pub fn total_key(&self) -> String {
        match self.aggregation {
            Aggregation::Sum => self.key.trim_end_matches("_per_second").to_owned(),
            Aggregation::Seconds => format!("{}_seconds", self.key.trim_end_matches("_ratio")),
            Aggregation::Unchanged | Aggregation::Unknown => self.key.to_owned(),
        }
    }

    /// Its heading in a total.
    pub fn total_title(&self) -> String {
        match self.aggregation {
            Aggregation::Sum => self.title.trim_end_matches("/s").trim_end_matches("_s").to_owned(),
            Aggregation::Seconds => format!("{}_s", self.title.trim_matches('%')),
            Aggregation::Unchanged | Aggregation::Unknown => self.title.to_owned(),
        }
    }
}
