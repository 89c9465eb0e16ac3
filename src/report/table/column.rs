//! One column: what it is called for people and for programs, in which unit, and how it is read.

use super::{Cell, Look};

/// A column of rows of one type.
pub(super) struct Column<T: 'static> {
    pub head: Head,
    pub read: fn(&Look, &T) -> Cell,
}

/// What a column is, apart from how it is read.
#[derive(Debug, PartialEq, Eq)]
pub struct Head {
    /// In a heading, and for `--columns`: the name that the kernel's own tools use
    pub name: &'static str,
    /// In JSON and CSV, with the unit at its end
    pub json: &'static str,
    pub unit: Unit,
    pub digits: Digits,
    /// What becomes of it over a whole run
    pub total: Total,
    /// Whether it is shown unless something else is asked for
    pub usual: bool,
    /// Whether it costs more to sample, and so is sampled only where it is shown
    pub dear: bool,
    pub meaning: &'static str,
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
    Rate,
    /// Bytes a second, read in kB of 1024
    KbRate,
    /// Bytes a second, read in MB of 2^20
    MbRate,
    /// Seconds, read in milliseconds
    Millis,
    /// Bytes, read in kB of 1024
    Kb,
}

impl Unit {
    /// What a number is divided by for people.
    pub fn divisor(self) -> f64 {
        match self {
            Unit::Name | Unit::Id | Unit::Count | Unit::Rate => 1.0,
            Unit::Percent | Unit::PercentOfCpu => 0.01,
            Unit::KbRate | Unit::Kb => 1024.0,
            Unit::MbRate => 1_048_576.0,
            Unit::Millis => 0.001,
        }
    }

    /// As docs/tables.md says it.
    pub fn word(self) -> &'static str {
        match self {
            Unit::Name => "name",
            Unit::Id => "number",
            Unit::Count => "count",
            Unit::Percent => "%",
            Unit::PercentOfCpu => "% of a CPU",
            Unit::Rate => "1/s",
            Unit::KbRate => "kB/s",
            Unit::MbRate => "MB/s",
            Unit::Millis => "ms",
            Unit::Kb => "kB",
        }
    }
}

/// How exactly people read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digits {
    Whole,
    /// Two decimals, fewer as soon as it would be wider than six digits
    Two,
    /// Four significant digits, and every one before the point
    Four,
}

impl Digits {
    /// The number as it is printed.
    pub fn text(self, number: f64) -> String {
        let decimals = match (self, number.abs()) {
            (Digits::Whole, _) => 0,
            (Digits::Two, size) if size < 9_999.995 => 2,
            (Digits::Two, size) if size < 99_999.95 => 1,
            (Digits::Two, _) => 0,
            (Digits::Four, size) if size >= 999.95 => 0,
            (Digits::Four, size) if size >= 99.995 => 1,
            (Digits::Four, size) if size >= 9.9995 => 2,
            (Digits::Four, size) if size >= 0.99995 => 3,
            (Digits::Four, 0.0) => 2,
            (Digits::Four, _) => 4,
        };
        format!("{number:.decimals$}")
    }

    /// Cells that six digits take, with what stands behind the point.
    pub fn width(self) -> usize {
        match self {
            Digits::Whole | Digits::Four => 6,
            Digits::Two => 7,
        }
    }
}

/// What becomes of a figure over a whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Total {
    /// A rate becomes how many, or how much
    Amount,
    /// A share of time becomes seconds
    Seconds,
    /// It means the same of a long time: a mean, a state at the end, a name
    Same,
    /// It is known of short times only
    Unknown,
}

impl<T> Column<T> {
    /// What tells one row from another.
    pub(super) const fn name(
        name: &'static str,
        json: &'static str,
        meaning: &'static str,
        read: fn(&Look, &T) -> Cell,
    ) -> Column<T> {
        Column::new(name, json, Unit::Name, meaning, read)
    }

    /// A figure; how exact it is and what becomes of it in a total follow from its unit, unless it is said.
    pub(super) const fn new(
        name: &'static str,
        json: &'static str,
        unit: Unit,
        meaning: &'static str,
        read: fn(&Look, &T) -> Cell,
    ) -> Column<T> {
        let digits = match unit {
            Unit::Name | Unit::Id | Unit::Count | Unit::Kb => Digits::Whole,
            Unit::Percent | Unit::PercentOfCpu | Unit::Rate | Unit::KbRate | Unit::MbRate | Unit::Millis => Digits::Two,
        };
        let total = match unit {
            Unit::Name | Unit::Id | Unit::Count | Unit::Percent | Unit::Millis | Unit::Kb => Total::Same,
            Unit::PercentOfCpu => Total::Seconds,
            Unit::Rate | Unit::KbRate | Unit::MbRate => Total::Amount,
        };
        Column { head: Head { name, json, unit, digits, total, usual: true, dear: false, meaning }, read }
    }

    /// A figure of a task: with four significant digits.
    pub(super) const fn four(
        name: &'static str,
        json: &'static str,
        unit: Unit,
        meaning: &'static str,
        read: fn(&Look, &T) -> Cell,
    ) -> Column<T> {
        Column::new(name, json, unit, meaning, read).digits(Digits::Four)
    }

    /// A share of a task's time as the sub-samples saw it: nothing to be added up over a run.
    pub(super) const fn seen(
        name: &'static str,
        json: &'static str,
        meaning: &'static str,
        read: fn(&Look, &T) -> Cell,
    ) -> Column<T> {
        Column::four(name, json, Unit::PercentOfCpu, meaning, read).momentary().unusual()
    }

    pub(super) const fn digits(mut self, digits: Digits) -> Column<T> {
        self.head.digits = digits;
        self
    }

    /// A share of time: in a total it is seconds.
    pub(super) const fn of_time(mut self) -> Column<T> {
        self.head.total = Total::Seconds;
        self
    }

    /// Known of short times only.
    pub(super) const fn momentary(mut self) -> Column<T> {
        self.head.total = Total::Unknown;
        self
    }

    /// It costs a file more a thread that ran, so it is sampled where it is shown.
    pub(super) const fn dear(mut self) -> Column<T> {
        self.head.dear = true;
        self
    }

    /// Shown when it is asked for.
    pub(super) const fn unusual(mut self) -> Column<T> {
        self.head.usual = false;
        self
    }
}

impl Head {
    /// Cells that it takes on a line: the heading, and figures of six digits.
    pub fn width(&self) -> usize {
        let figures = match (self.unit, self.digits) {
            (Unit::Name, _) => 12,
            (Unit::Id, _) => 7,
            // Memory has more than six digits of kB.
            (Unit::Kb, Digits::Whole) => 9,
            (Unit::Percent | Unit::PercentOfCpu, Digits::Two) => 6,
            (_, digits) => digits.width(),
        };
        self.name.len().max(figures)
    }

    /// Its name in JSON and CSV in a total: what was a rate has no time in it.
    pub fn total_json(&self) -> String {
        match self.total {
            Total::Amount => self.json.trim_end_matches("_per_second").to_owned(),
            Total::Seconds => format!("{}_seconds", self.json.trim_end_matches("_ratio")),
            Total::Same | Total::Unknown => self.json.to_owned(),
        }
    }

    /// Its heading in a total.
    pub fn total_name(&self) -> String {
        match self.total {
            Total::Amount => self.name.trim_end_matches("/s").trim_end_matches("_s").to_owned(),
            Total::Seconds => format!("{}_s", self.name.trim_matches('%')),
            Total::Same | Total::Unknown => self.name.to_owned(),
        }
    }
}
