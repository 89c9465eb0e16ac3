//! A struct as a row of cells: each field has a fixed place, each cell is 64 bits, and 0 in all of them is "not read".
//!
//! A place is never given to another field: an old recording lacks the new places (they read as 0), a new one fills
//! places that an old reader skips. Each table leaves room between its groups of fields for that.

use std::sync::Arc;

use super::strings::{Interner, Names};
use crate::recording::wire::{Malformed, unzigzag, zigzag};
use crate::sample::task::RawSyscall;
use crate::sample::{Absent, Name, Reading};
use crate::units::Counter;

/// What a struct must do to be kept.
pub trait Cells: Sized {
    /// How many cells it takes, room for later fields included.
    const WIDTH: usize;

    /// Fills `row`, which is `WIDTH` zeros.
    fn put(&self, row: &mut [u64], strings: &mut Interner);

    /// Reads it back from `WIDTH` cells.
    fn take(row: &[u64], names: &Names<'_>) -> Result<Self, Malformed>;

    /// Which places are used, by (first, width); a test holds them apart.
    #[cfg(test)]
    fn places() -> Vec<(usize, usize)> {
        vec![(0, Self::WIDTH)]
    }
}

/// The fields of a struct and where they stand: written once, for both directions.
macro_rules! cells {
    ($type:ty, $width:literal { $($field:ident @ $at:literal),* $(,)? }) => {
        impl $crate::recording::payload::cells::Cells for $type {
            const WIDTH: usize = $width;

            fn put(&self, row: &mut [u64], strings: &mut $crate::recording::payload::strings::Interner) {
                $( $crate::recording::payload::cells::put_at(&self.$field, row, $at, strings); )*
            }

            fn take(
                row: &[u64],
                names: &$crate::recording::payload::strings::Names<'_>,
            ) -> Result<Self, $crate::recording::wire::Malformed> {
                Ok(Self { $( $field: $crate::recording::payload::cells::take_at(row, $at, names)? ),* })
            }

            #[cfg(test)]
            fn places() -> Vec<(usize, usize)> {
                fn width<S, T: $crate::recording::payload::cells::Cells>(_: impl Fn(&S) -> &T) -> usize {
                    T::WIDTH
                }
                vec![$( ($at, width(|this: &$type| &this.$field)) ),*]
            }
        }
    };
}
pub(super) use cells;

/// Writes a field at its place.
pub fn put_at<T: Cells>(value: &T, row: &mut [u64], at: usize, strings: &mut Interner) {
    if let Some(room) = row.get_mut(at..at + T::WIDTH) {
        value.put(room, strings);
    }
}

/// Reads a field from its place.
pub fn take_at<T: Cells>(row: &[u64], at: usize, names: &Names<'_>) -> Result<T, Malformed> {
    T::take(row.get(at..at + T::WIDTH).ok_or(Malformed("a row is too narrow"))?, names)
}

fn first(row: &[u64]) -> u64 {
    row.first().copied().unwrap_or_default()
}

fn set(row: &mut [u64], at: usize, value: u64) {
    if let Some(cell) = row.get_mut(at) {
        *cell = value;
    }
}

macro_rules! one_cell {
    ($($type:ty: $put:expr, $take:expr;)*) => {
        $(impl Cells for $type {
            const WIDTH: usize = 1;

            fn put(&self, row: &mut [u64], _: &mut Interner) {
                let put: fn(&$type) -> u64 = $put;
                set(row, 0, put(self));
            }

            fn take(row: &[u64], _: &Names<'_>) -> Result<Self, Malformed> {
                let take: fn(u64) -> Option<$type> = $take;
                take(first(row)).ok_or(Malformed("a value is out of its range"))
            }
        })*
    };
}

one_cell! {
    u16: |value| u64::from(*value), |cell| u16::try_from(cell).ok();
    u32: |value| u64::from(*value), |cell| u32::try_from(cell).ok();
    u64: |value| *value, Some;
    i64: |value| zigzag(value.cast_unsigned()), |cell| Some(unzigzag(cell).cast_signed());
    bool: |value| u64::from(*value), |cell| Some(cell != 0);
    Counter: |value| value.0, |cell| Some(Counter(cell));
}

impl Cells for () {
    const WIDTH: usize = 0;

    fn put(&self, _: &mut [u64], _: &mut Interner) {}

    fn take(_: &[u64], _: &Names<'_>) -> Result<Self, Malformed> {
        Ok(())
    }
}

impl Cells for Name {
    const WIDTH: usize = 1;

    fn put(&self, row: &mut [u64], strings: &mut Interner) {
        set(row, 0, strings.name(self));
    }

    fn take(row: &[u64], names: &Names<'_>) -> Result<Self, Malformed> {
        names.name(first(row)).cloned()
    }
}

/// 0 none, 1 some; then the value.
impl<T: Cells> Cells for Option<T> {
    const WIDTH: usize = 1 + T::WIDTH;

    fn put(&self, row: &mut [u64], strings: &mut Interner) {
        if let Some(value) = self {
            set(row, 0, 1);
            put_at(value, row, 1, strings);
        }
    }

    fn take(row: &[u64], names: &Names<'_>) -> Result<Self, Malformed> {
        if first(row) == 0 { Ok(None) } else { take_at(row, 1, names).map(Some) }
    }
}

impl Cells for Arc<RawSyscall> {
    const WIDTH: usize = RawSyscall::WIDTH;

    fn put(&self, row: &mut [u64], strings: &mut Interner) {
        RawSyscall::put(self, row, strings);
    }

    fn take(row: &[u64], names: &Names<'_>) -> Result<Self, Malformed> {
        RawSyscall::take(row, names).map(Arc::new)
    }
}

/// 1 read, else why not (0 is "not read"); then the value, or the errno.
impl<T: Cells> Cells for Reading<T> {
    const WIDTH: usize = 1 + if T::WIDTH > 1 { T::WIDTH } else { 1 };

    fn put(&self, row: &mut [u64], strings: &mut Interner) {
        match self {
            Ok(value) => {
                set(row, 0, 1);
                put_at(value, row, 1, strings);
            }
            Err(why) => {
                let (code, errno) = absent_code(*why);
                set(row, 0, code);
                set(row, 1, zigzag(i64::from(errno).cast_unsigned()));
            }
        }
    }

    fn take(row: &[u64], names: &Names<'_>) -> Result<Self, Malformed> {
        if first(row) == 1 {
            return take_at(row, 1, names).map(Ok);
        }
        let errno = unzigzag(row.get(1).copied().unwrap_or_default()).cast_signed();
        Ok(Err(absent_from_code(first(row), i32::try_from(errno).map_err(|_| Malformed("an errno is out of its range"))?)))
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
        _ => Absent::NotRead,
    }
}

impl<T: Cells, const N: usize> Cells for [T; N] {
    const WIDTH: usize = N * T::WIDTH;

    fn put(&self, row: &mut [u64], strings: &mut Interner) {
        for (at, value) in self.iter().enumerate() {
            put_at(value, row, at * T::WIDTH, strings);
        }
    }

    fn take(row: &[u64], names: &Names<'_>) -> Result<Self, Malformed> {
        let list: Vec<T> = (0..N).map(|at| take_at(row, at * T::WIDTH, names)).collect::<Result<_, _>>()?;
        <[T; N]>::try_from(list).map_err(|_| Malformed("an array has another length"))
    }
}

impl<A: Cells, B: Cells> Cells for (A, B) {
    const WIDTH: usize = A::WIDTH + B::WIDTH;

    fn put(&self, row: &mut [u64], strings: &mut Interner) {
        put_at(&self.0, row, 0, strings);
        put_at(&self.1, row, A::WIDTH, strings);
    }

    fn take(row: &[u64], names: &Names<'_>) -> Result<Self, Malformed> {
        Ok((take_at(row, 0, names)?, take_at(row, A::WIDTH, names)?))
    }
}

/// The kernel prints these with two decimals: 0 and hundredths, or 1 and the bits of a number that is not such.
impl Cells for f64 {
    const WIDTH: usize = 2;

    fn put(&self, row: &mut [u64], _: &mut Interner) {
        match hundredths(*self).filter(|&count| (count as f64 / 100.0).to_bits() == self.to_bits()) {
            Some(count) => set(row, 1, count),
            None => {
                set(row, 0, 1);
                set(row, 1, self.to_bits());
            }
        }
    }

    fn take(row: &[u64], _: &Names<'_>) -> Result<Self, Malformed> {
        let value = row.get(1).copied().unwrap_or_default();
        Ok(if first(row) == 0 { value as f64 / 100.0 } else { f64::from_bits(value) })
    }
}

impl Cells for f32 {
    const WIDTH: usize = 2;

    fn put(&self, row: &mut [u64], _: &mut Interner) {
        match hundredths(f64::from(*self)).filter(|&count| ((count as f64 / 100.0) as f32).to_bits() == self.to_bits()) {
            Some(count) => set(row, 1, count),
            None => {
                set(row, 0, 1);
                set(row, 1, u64::from(self.to_bits()));
            }
        }
    }

    fn take(row: &[u64], _: &Names<'_>) -> Result<Self, Malformed> {
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
