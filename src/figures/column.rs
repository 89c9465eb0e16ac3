//! One column: its title for people, its key for programs, its unit, and the function that reads its value.

use super::{Cell, FigureInput, Precision, Unit};
use crate::findings::Kind;

/// A column of rows of one type.
pub struct Column<T: 'static> {
    pub definition: ColumnDefinition,
    value: fn(&FigureInput, &T) -> Cell,
}

/// A column without the function that reads its value.
#[derive(Debug, PartialEq, Eq)]
pub struct ColumnDefinition {
    /// The heading, and the name for `--columns`: as in the kernel's own tools
    pub title: &'static str,
    /// The heading of the screens' tables and the label of their sort order: the title, or a shorter one
    pub heading: &'static str,
    /// The name in JSON and CSV; it ends with the unit of the number
    pub key: &'static str,
    pub unit: Unit,
    pub precision: Precision,
    /// The total of a whole run
    pub aggregation: Aggregation,
    /// Whether it is shown without `--columns`
    pub shown_by_default: bool,
    /// Whether it is sampled only where it is shown, because it costs more
    pub expensive: bool,
    /// Whether it is a baseline, not a measurement
    pub reference: bool,
    /// Which of two values is the better one
    pub better: Better,
    /// The kind of the findings whose value it is, if any: their graph begins before they were raised
    pub finding: Option<Kind>,
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

/// The total of a figure over a whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregation {
    /// Of a rate: the number of events, or bytes
    Sum,
    /// Of a share of time: seconds
    Seconds,
    /// The same as of an interval: a mean, a state at the end, a name
    Unchanged,
    /// Known of an interval only
    Unknown,
}

impl<T> Column<T> {
    /// A column of names.
    pub(super) const fn text(
        title: &'static str,
        key: &'static str,
        description: &'static str,
        value: fn(&FigureInput, &T) -> Cell,
    ) -> Column<T> {
        Column::new(title, key, Unit::Name, description, value)
    }

    /// A column whose precision and total follow from its unit.
    pub(super) const fn new(
        title: &'static str,
        key: &'static str,
        unit: Unit,
        description: &'static str,
        value: fn(&FigureInput, &T) -> Cell,
    ) -> Column<T> {
        let precision = match unit {
            Unit::Name | Unit::Id | Unit::Count | Unit::Kilobytes => Precision::Integer,
            Unit::Percent
            | Unit::PercentOfCpu
            | Unit::PerSecond
            | Unit::KilobytesPerSecond
            | Unit::MegabytesPerSecond
            | Unit::Milliseconds
            | Unit::Seconds => Precision::TwoDecimals,
        };
        let aggregation = match unit {
            Unit::Name | Unit::Id | Unit::Count | Unit::Percent | Unit::Milliseconds | Unit::Seconds | Unit::Kilobytes => {
                Aggregation::Unchanged
            }
            Unit::PercentOfCpu => Aggregation::Seconds,
            Unit::PerSecond | Unit::KilobytesPerSecond | Unit::MegabytesPerSecond => Aggregation::Sum,
        };
        Column {
            definition: ColumnDefinition {
                title,
                heading: title,
                key,
                unit,
                precision,
                aggregation,
                shown_by_default: true,
                expensive: false,
                reference: false,
                better: Better::Neither,
                finding: None,
                description,
            },
            value,
        }
    }

    /// A column of processes or threads: four significant digits.
    pub(super) const fn four_digits(
        title: &'static str,
        key: &'static str,
        unit: Unit,
        description: &'static str,
        value: fn(&FigureInput, &T) -> Cell,
    ) -> Column<T> {
        Column::new(title, key, unit, description, value).precision(Precision::FourSignificant)
    }

    /// A share of a task's time, estimated from sub-samples: it has no total.
    pub(super) const fn sampled_share(
        title: &'static str,
        key: &'static str,
        description: &'static str,
        value: fn(&FigureInput, &T) -> Cell,
    ) -> Column<T> {
        Column::four_digits(title, key, Unit::PercentOfCpu, description, value).without_total().hidden_by_default()
    }

    /// The heading on the screens, where the title is too long or the unit is another.
    pub(super) const fn heading(mut self, heading: &'static str) -> Column<T> {
        self.definition.heading = heading;
        self
    }

    pub(super) const fn precision(mut self, precision: Precision) -> Column<T> {
        self.definition.precision = precision;
        self
    }

    /// A share of time: its total is in seconds.
    pub(super) const fn time_share(mut self) -> Column<T> {
        self.definition.aggregation = Aggregation::Seconds;
        self
    }

    /// Known of an interval only.
    pub(super) const fn without_total(mut self) -> Column<T> {
        self.definition.aggregation = Aggregation::Unknown;
        self
    }

    /// Shown only if selected by name.
    pub(super) const fn hidden_by_default(mut self) -> Column<T> {
        self.definition.shown_by_default = false;
        self
    }

    /// Sampled only where it is shown: it costs one more file for each thread that ran.
    pub(super) const fn expensive(mut self) -> Column<T> {
        self.definition.expensive = true;
        self
    }

    /// A baseline, not a measurement.
    pub(super) const fn reference(mut self) -> Column<T> {
        self.definition.reference = true;
        self
    }

    pub(super) const fn lower_is_better(mut self) -> Column<T> {
        self.definition.better = Better::Lower;
        self
    }

    pub(super) const fn higher_is_better(mut self) -> Column<T> {
        self.definition.better = Better::Higher;
        self
    }

    /// The value of findings of this kind, in the unit of the column.
    pub(super) const fn value_of(mut self, kind: Kind) -> Column<T> {
        self.definition.finding = Some(kind);
        self
    }

    /// The figure of one row.
    pub fn value(&self, input: &FigureInput, row: &T) -> Cell {
        (self.value)(input, row)
    }

    /// The figure in the unit of its key; `None` if it is unknown or a name.
    pub fn number(&self, input: &FigureInput, row: &T) -> Option<f64> {
        self.value(input, row).number()
    }

    /// The figure in the unit in which people read it; `None` if it is unknown or a name.
    pub fn displayed(&self, input: &FigureInput, row: &T) -> Option<f64> {
        self.number(input, row).map(|number| self.definition.unit.displayed(number))
    }
}

impl ColumnDefinition {
    /// A number in the unit of the key, as text for people, without its unit.
    pub fn format(&self, number: f64) -> String {
        self.precision.format(self.unit.displayed(number))
    }

    /// Cells on a line: enough for the heading, and for figures of six digits.
    pub fn width(&self) -> usize {
        let figures = match (self.unit, self.precision) {
            (Unit::Name, _) => 12,
            (Unit::Id, _) => 7,
            // Memory has more than six digits of kB.
            (Unit::Kilobytes, Precision::Integer) => 9,
            (Unit::Percent | Unit::PercentOfCpu, Precision::TwoDecimals) => 6,
            (_, precision) => precision.width(),
        };
        self.title.len().max(figures)
    }

    /// The key of its total: without `_per_second` and `_ratio`.
    pub fn total_key(&self) -> String {
        match self.aggregation {
            Aggregation::Sum => self.key.trim_end_matches("_per_second").to_owned(),
            Aggregation::Seconds => format!("{}_seconds", self.key.trim_end_matches("_ratio")),
            Aggregation::Unchanged | Aggregation::Unknown => self.key.to_owned(),
        }
    }

    /// The heading of its total.
    pub fn total_title(&self) -> String {
        match self.aggregation {
            Aggregation::Sum => self.title.trim_end_matches("/s").trim_end_matches("_s").to_owned(),
            Aggregation::Seconds => format!("{}_s", self.title.trim_matches('%')),
            Aggregation::Unchanged | Aggregation::Unknown => self.title.to_owned(),
        }
    }
}
