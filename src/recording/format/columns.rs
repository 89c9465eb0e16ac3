//! Maps the fields of a struct to the columns of a table's row, by the lists in `schema`.
//!
//! A column has 64 bits. The fields of a struct take columns in the order of its list; 0 in all columns of a field means "not read".
//! A new field is appended to the list and takes columns that older recordings leave 0. No field is ever moved or removed: the
//! number after the type is how many columns the struct reserves, those for later fields included.
//!
//! `read` is inlined down to the single columns, so that a row is checked for its width once and not once a field: a quarter less
//! CPU time of decoding a sample (2,000 processes, 20 busy).

use super::names::{Interner, Names};
use super::wire::{Malformed, unzigzag, zigzag};
use crate::sample::waits::WaitEvent;
use crate::sample::{Absent, Name, Reading};
use crate::units::Counter;

/// A value that is stored in a fixed number of columns.
pub trait Columns: Sized {
    /// Columns that the value takes, the room for later fields included.
    const WIDTH: usize;

    /// Fills `row`, which is `WIDTH` zeros.
    fn write(&self, row: &mut [u64], names: &mut Interner);

    /// Reads the value back from `WIDTH` columns.
    fn read(row: &[u64], names: &Names<'_>) -> Result<Self, Malformed>;

    /// Appends the columns of each part, the first of which is column `at`. For docs/recording-format.md and its test.
    #[cfg(test)]
    fn describe(path: &str, at: usize, list: &mut Vec<Described>) {
        list.push(Described { path: path.to_owned(), columns: at..at + Self::WIDTH });
    }
}

/// Which columns a field takes in its table.
#[cfg(test)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    pub path: String,
    pub columns: std::ops::Range<usize>,
}

/// Declares the fields of a struct in the order of their columns, and the room of the struct. Fields after `not recorded` take
/// no columns and read back as the value that is given.
macro_rules! columns {
    ($type:ty: $room:literal { $($field:ident),* $(,)? } $(not recorded { $($absent:ident = $value:expr),* })?) => {
        impl $crate::recording::format::columns::Columns for $type {
            const WIDTH: usize = $room;

            fn write(&self, row: &mut [u64], names: &mut $crate::recording::format::names::Interner) {
                let mut rest = row;
                $( rest = $crate::recording::format::columns::write_first(&self.$field, rest, names); )*
                let _ = rest;
            }

            #[inline]
            fn read(
                row: &[u64],
                names: &$crate::recording::format::names::Names<'_>,
            ) -> Result<Self, $crate::recording::format::wire::Malformed> {
                let row: &[u64; $room] = row.first_chunk().ok_or($crate::recording::format::columns::TOO_NARROW)?;
                let mut rest = row.as_slice();
                let value = Self {
                    $( $field: $crate::recording::format::columns::read_first(&mut rest, names)?, )*
                    $( $( $absent: $value, )* )?
                };
                let _ = rest;
                Ok(value)
            }

            #[cfg(test)]
            fn describe(path: &str, at: usize, list: &mut Vec<$crate::recording::format::columns::Described>) {
                let mut next = at;
                $( $crate::recording::format::columns::describe_field(
                    |this: &$type| &this.$field, path, stringify!($field), &mut next, list,
                ); )*
                assert!(next <= at + $room, "{path} needs {} columns and has room for {}", next - at, $room);
            }
        }
    };
}
pub(super) use columns;

/// Writes a field into the first columns of `row`; returns the columns after it.
pub fn write_first<'r, T: Columns>(value: &T, row: &'r mut [u64], names: &mut Interner) -> &'r mut [u64] {
    let (room, rest) = row.split_at_mut_checked(T::WIDTH).unwrap_or_default();
    if room.len() == T::WIDTH {
        value.write(room, names);
    }
    rest
}

/// Reads a field from the first columns of `row`, which is the columns after it afterwards.
#[inline(always)]
pub fn read_first<T: Columns>(row: &mut &[u64], names: &Names<'_>) -> Result<T, Malformed> {
    let (own, rest) = row.split_at_checked(T::WIDTH).ok_or(TOO_NARROW)?;
    *row = rest;
    T::read(own, names)
}

#[cfg(test)]
pub fn describe_field<S, T: Columns>(_: impl Fn(&S) -> &T, path: &str, field: &str, at: &mut usize, list: &mut Vec<Described>) {
    let path = if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") };
    T::describe(&path, *at, list);
    *at += T::WIDTH;
}

/// Writes a value from column `at` on.
pub fn write_at<T: Columns>(value: &T, row: &mut [u64], at: usize, names: &mut Interner) {
    if let Some(room) = row.get_mut(at..at + T::WIDTH) {
        value.write(room, names);
    }
}

/// Reads a value from column `at` on.
#[inline(always)]
pub fn read_at<T: Columns>(row: &[u64], at: usize, names: &Names<'_>) -> Result<T, Malformed> {
    T::read(row.get(at..at + T::WIDTH).ok_or(TOO_NARROW)?, names)
}

pub const TOO_NARROW: Malformed = Malformed("a row is too narrow");

#[inline(always)]
fn first(row: &[u64]) -> u64 {
    row.first().copied().unwrap_or_default()
}

fn set(row: &mut [u64], at: usize, value: u64) {
    if let Some(cell) = row.get_mut(at) {
        *cell = value;
    }
}

macro_rules! one_cell {
    ($($type:ty: $write:expr, $read:expr;)*) => {
        $(impl Columns for $type {
            const WIDTH: usize = 1;

            fn write(&self, row: &mut [u64], _: &mut Interner) {
                let write: fn(&$type) -> u64 = $write;
                set(row, 0, write(self));
            }

            #[inline(always)]
            fn read(row: &[u64], _: &Names<'_>) -> Result<Self, Malformed> {
                let read: fn(u64) -> Option<$type> = $read;
                read(first(row)).ok_or(Malformed("a value is out of its range"))
            }
        })*
    };
}

one_cell! {
    u8: |value| u64::from(*value), |cell| u8::try_from(cell).ok();
    i8: |value| zigzag(i64::from(*value).cast_unsigned()), |cell| i8::try_from(unzigzag(cell).cast_signed()).ok();
    u16: |value| u64::from(*value), |cell| u16::try_from(cell).ok();
    u32: |value| u64::from(*value), |cell| u32::try_from(cell).ok();
    u64: |value| *value, Some;
    i64: |value| zigzag(value.cast_unsigned()), |cell| Some(unzigzag(cell).cast_signed());
    bool: |value| u64::from(*value), |cell| Some(cell != 0);
    Counter: |value| value.0, |cell| Some(Counter(cell));
    WaitEvent: |value| u64::from(value.0), |cell| u32::try_from(cell).ok().map(WaitEvent);
}

impl Columns for Name {
    const WIDTH: usize = 1;

    fn write(&self, row: &mut [u64], names: &mut Interner) {
        set(row, 0, names.name(self));
    }

    #[inline(always)]
    fn read(row: &[u64], names: &Names<'_>) -> Result<Self, Malformed> {
        names.name(first(row)).cloned()
    }
}

/// 0 none, 1 some; then the value.
impl<T: Columns> Columns for Option<T> {
    const WIDTH: usize = 1 + T::WIDTH;

    fn write(&self, row: &mut [u64], names: &mut Interner) {
        if let Some(value) = self {
            set(row, 0, 1);
            write_at(value, row, 1, names);
        }
    }

    #[inline(always)]
    fn read(row: &[u64], names: &Names<'_>) -> Result<Self, Malformed> {
        if first(row) == 0 { Ok(None) } else { read_at(row, 1, names).map(Some) }
    }

    #[cfg(test)]
    fn describe(path: &str, at: usize, list: &mut Vec<Described>) {
        list.push(Described { path: format!("{path}?"), columns: at..at + 1 });
        T::describe(path, at + 1, list);
    }
}

/// A list takes no columns: it is a table of its own (`schema::LISTS`), and reads back empty here.
impl<T> Columns for Vec<T> {
    const WIDTH: usize = 0;

    fn write(&self, _: &mut [u64], _: &mut Interner) {}

    fn read(_: &[u64], _: &Names<'_>) -> Result<Self, Malformed> {
        Ok(Vec::new())
    }

    #[cfg(test)]
    fn describe(_: &str, _: usize, _: &mut Vec<Described>) {}
}

/// 1 read, else why not (0 is "not read"); then the value, or the errno.
impl<T: Columns> Columns for Reading<T> {
    const WIDTH: usize = 1 + if T::WIDTH > 1 { T::WIDTH } else { 1 };

    fn write(&self, row: &mut [u64], names: &mut Interner) {
        match self {
            Ok(value) => {
                set(row, 0, 1);
                write_at(value, row, 1, names);
            }
            Err(why) => why.write(row, names),
        }
    }

    #[inline(always)]
    fn read(row: &[u64], names: &Names<'_>) -> Result<Self, Malformed> {
        if first(row) == 1 {
            return read_at(row, 1, names).map(Ok);
        }
        Absent::read(row, names).map(Err)
    }

    #[cfg(test)]
    fn describe(path: &str, at: usize, list: &mut Vec<Described>) {
        list.push(Described { path: format!("{path}!"), columns: at..at + 1 });
        T::describe(path, at + 1, list);
    }
}

/// Why a reading is missing, and the errno.
impl Columns for Absent {
    const WIDTH: usize = 2;

    fn write(&self, row: &mut [u64], _: &mut Interner) {
        let (code, errno) = absent_code(*self);
        set(row, 0, code);
        set(row, 1, zigzag(i64::from(errno).cast_unsigned()));
    }

    fn read(row: &[u64], _: &Names<'_>) -> Result<Self, Malformed> {
        let errno = unzigzag(row.get(1).copied().unwrap_or_default()).cast_signed();
        Ok(absent_from_code(first(row), i32::try_from(errno).map_err(|_| Malformed("an errno is out of its range"))?))
    }
}

/// The number a recording keeps for a reason, and its errno. 1 is taken by "read".
pub fn absent_code(why: Absent) -> (u64, i32) {
    match why {
        Absent::NotRead => (0, 0),
        Absent::NoSuchFile => (2, 0),
        Absent::NoPermission => (3, 0),
        Absent::Hidden => (4, 0),
        Absent::Vanished => (5, 0),
        Absent::Unsupported => (6, 0),
        Absent::Malformed => (7, 0),
        Absent::Os(errno) => (8, errno),
        Absent::TooExpensive => (9, 0),
    }
}

/// The inverse of `absent_code`; a reason that only a later version knows is "not read" here.
pub fn absent_from_code(code: u64, errno: i32) -> Absent {
    match code {
        2 => Absent::NoSuchFile,
        3 => Absent::NoPermission,
        4 => Absent::Hidden,
        5 => Absent::Vanished,
        6 => Absent::Unsupported,
        7 => Absent::Malformed,
        8 => Absent::Os(errno),
        9 => Absent::TooExpensive,
        _ => Absent::NotRead,
    }
}

impl<T: Columns, const N: usize> Columns for [T; N] {
    const WIDTH: usize = N * T::WIDTH;

    fn write(&self, row: &mut [u64], names: &mut Interner) {
        for (at, value) in self.iter().enumerate() {
            write_at(value, row, at * T::WIDTH, names);
        }
    }

    fn read(row: &[u64], names: &Names<'_>) -> Result<Self, Malformed> {
        let list: Vec<T> = (0..N).map(|at| read_at(row, at * T::WIDTH, names)).collect::<Result<_, _>>()?;
        <[T; N]>::try_from(list).map_err(|_| Malformed("an array has another length"))
    }
}

impl<A: Columns, B: Columns> Columns for (A, B) {
    const WIDTH: usize = A::WIDTH + B::WIDTH;

    fn write(&self, row: &mut [u64], names: &mut Interner) {
        write_at(&self.0, row, 0, names);
        write_at(&self.1, row, A::WIDTH, names);
    }

    fn read(row: &[u64], names: &Names<'_>) -> Result<Self, Malformed> {
        Ok((read_at(row, 0, names)?, read_at(row, A::WIDTH, names)?))
    }

    #[cfg(test)]
    fn describe(path: &str, at: usize, list: &mut Vec<Described>) {
        A::describe(&format!("{path}.0"), at, list);
        B::describe(&format!("{path}.1"), at + A::WIDTH, list);
    }
}

/// The kernel prints these with two decimals: 0 and hundredths, or 1 and the bits of a number that is not such.
impl Columns for f64 {
    const WIDTH: usize = 2;

    fn write(&self, row: &mut [u64], _: &mut Interner) {
        match hundredths(*self).filter(|&count| (count as f64 / 100.0).to_bits() == self.to_bits()) {
            Some(count) => set(row, 1, count),
            None => {
                set(row, 0, 1);
                set(row, 1, self.to_bits());
            }
        }
    }

    fn read(row: &[u64], _: &Names<'_>) -> Result<Self, Malformed> {
        let value = row.get(1).copied().unwrap_or_default();
        Ok(if first(row) == 0 { value as f64 / 100.0 } else { f64::from_bits(value) })
    }
}

impl Columns for f32 {
    const WIDTH: usize = 2;

    fn write(&self, row: &mut [u64], _: &mut Interner) {
        match hundredths(f64::from(*self)).filter(|&count| ((count as f64 / 100.0) as f32).to_bits() == self.to_bits()) {
            Some(count) => set(row, 1, count),
            None => {
                set(row, 0, 1);
                set(row, 1, u64::from(self.to_bits()));
            }
        }
    }

    fn read(row: &[u64], _: &Names<'_>) -> Result<Self, Malformed> {
        let value = row.get(1).copied().unwrap_or_default();
        if first(row) == 0 {
            return Ok((value as f64 / 100.0) as f32);
        }
        u32::try_from(value).map(f32::from_bits).map_err(|_| Malformed("a value is out of its range"))
    }
}

fn hundredths(value: f64) -> Option<u64> {
    let count = (value * 100.0).round();
    (0.0..1e12).contains(&count).then_some(count as u64)
}
