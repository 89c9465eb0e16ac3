//! One figure of one row: a number in the unit of its key, a text, or unknown.

use crate::sample::Name;
use crate::units::{Bytes, Millis, PerSecond, Ratio};

/// The value of a column in one row.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Cell {
    /// `-` in text, nothing in CSV, null in JSON
    #[default]
    Unknown,
    /// Shares of 1, seconds, bytes, events; finite
    Number(f64),
    /// A number that is a bound, because a part of the threads is hidden from this user
    Bound(Bound, f64),
    /// From outside: unprintable characters are escaped where it is printed
    Text(String),
}

/// The side on which the true value lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    AtLeast,
    AtMost,
}

impl Bound {
    /// As on the screens.
    pub fn sign(self) -> char {
        match self {
            Bound::AtLeast => '≥',
            Bound::AtMost => '≤',
        }
    }
}

impl Cell {
    /// A number, and the bound that it is, if any.
    pub fn bounded(number: f64, bound: Option<Bound>) -> Cell {
        match (Cell::from(number), bound) {
            (Cell::Number(number), Some(bound)) => Cell::Bound(bound, number),
            (cell, _) => cell,
        }
    }

    /// The same with another number.
    pub fn map_number(&self, change: impl FnOnce(f64) -> f64) -> Cell {
        match self {
            Cell::Number(number) => Cell::Number(change(*number)),
            Cell::Bound(bound, number) => Cell::Bound(*bound, change(*number)),
            Cell::Unknown | Cell::Text(_) => self.clone(),
        }
    }

    /// The number, unless it is a text or unknown.
    pub fn number(&self) -> Option<f64> {
        match self {
            Cell::Number(number) | Cell::Bound(_, number) => Some(*number),
            Cell::Unknown | Cell::Text(_) => None,
        }
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Cell {
        if number.is_finite() { Cell::Number(number) } else { Cell::Unknown }
    }
}

impl From<u32> for Cell {
    fn from(number: u32) -> Cell {
        Cell::Number(f64::from(number))
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Cell {
        Cell::Number(number as f64)
    }
}

impl From<Ratio> for Cell {
    fn from(ratio: Ratio) -> Cell {
        ratio.0.into()
    }
}

impl From<PerSecond> for Cell {
    fn from(rate: PerSecond) -> Cell {
        rate.0.into()
    }
}

impl From<Bytes> for Cell {
    fn from(bytes: Bytes) -> Cell {
        bytes.0.into()
    }
}

/// Keys are in seconds.
impl From<Millis> for Cell {
    fn from(ms: Millis) -> Cell {
        (ms.0 / 1000.0).into()
    }
}

/// Invalid UTF-8 becomes U+FFFD.
impl From<&Name> for Cell {
    fn from(name: &Name) -> Cell {
        Cell::Text(String::from_utf8_lossy(name.as_bytes()).into_owned())
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Cell {
        value.map_or(Cell::Unknown, T::into)
    }
}
