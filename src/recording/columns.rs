//! One column of a table: a difference a row, in whichever way takes the fewest bytes.
//!
//! Counters that move by random amounts do not compress: what can be had is to write no more bits than the largest of
//! them needs. Those bits stand apart from the rest of the frame, which zstd makes smaller; they would only spoil it.

use super::layout::Layout;
use super::wire::{Input, Malformed, put_varint, unzigzag, zigzag};

/// Differences as varints, one a row.
const PLAIN: u64 = 0;
/// One difference for all rows.
const ALIKE: u64 = 1;
/// The smallest difference, then how far each is above it, all in as many bits as the largest needs.
const PACKED: u64 = 2;
/// The first difference apart, since it is one from 0; the others as above, less lowest bits that are 0 in all of them.
const APART: u64 = 3;

/// The bits of all packed columns of one table.
#[derive(Default)]
pub struct BitSink {
    bytes: Vec<u8>,
    /// Fewer than eight.
    waiting: u128,
    count: u32,
}

impl BitSink {
    fn put(&mut self, value: u64, width: u32) {
        self.waiting |= u128::from(value) << self.count;
        self.count += width;
        while self.count >= 8 {
            self.bytes.push(self.waiting as u8);
            self.waiting >>= 8;
            self.count -= 8;
        }
    }

    /// Ends the last byte and gives all away.
    pub fn take(&mut self) -> Vec<u8> {
        if self.count > 0 {
            self.bytes.push(self.waiting as u8);
        }
        let BitSink { bytes, .. } = std::mem::take(self);
        bytes
    }
}

/// The bits of a table's packed columns, being read.
pub struct BitSource<'a> {
    bytes: &'a [u8],
    waiting: u128,
    count: u32,
}

impl<'a> BitSource<'a> {
    pub fn new(bytes: &'a [u8]) -> BitSource<'a> {
        BitSource { bytes, waiting: 0, count: 0 }
    }

    /// `width` is at most 64.
    fn take(&mut self, width: u32) -> Result<u64, Malformed> {
        while self.count < width {
            let (first, rest) = self.bytes.split_first().ok_or(Malformed("a packed column is longer than its bits"))?;
            self.waiting |= u128::from(*first) << self.count;
            self.count += 8;
            self.bytes = rest;
        }
        let value = self.waiting & ((1 << width) - 1);
        self.waiting >>= width;
        self.count -= width;
        u64::try_from(value).map_err(|_| Malformed("a packed value has more than 64 bits"))
    }

    /// Bytes that are left.
    pub fn left(&self) -> usize {
        self.bytes.len()
    }

    /// Whether all of it was used.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.waiting == 0
    }
}

/// Writes a column, its number given as the distance from the column before. Column 0 takes at least a byte a row: so
/// no table has more rows than bytes.
pub fn put_column(out: &mut Vec<u8>, bits: &mut BitSink, gap: usize, values: &[u64]) {
    let how = match How::best(values) {
        How::Alike(_) if gap == 0 => How::Plain,
        How::Packed(bits) | How::Apart(_, bits) if gap == 0 && bits.width < BYTE => How::Plain,
        how => how,
    };
    put_varint(out, (gap as u64) << 2 | how.number());
    match how {
        How::Plain => values.iter().for_each(|&value| put_varint(out, zigzag(value))),
        How::Alike(value) => put_varint(out, zigzag(value)),
        How::Packed(Bits { least, width, .. }) => {
            put_varint(out, zigzag(least));
            out.push(width as u8);
            values.iter().for_each(|&value| bits.put(value.wrapping_sub(least), width));
        }
        How::Apart(first, Bits { least, shift, width }) => {
            put_varint(out, zigzag(first));
            put_varint(out, zigzag(least));
            out.extend_from_slice(&[shift as u8, width as u8]);
            values.iter().skip(1).for_each(|&value| bits.put(value.wrapping_sub(least) >> shift, width));
        }
    }
}

/// Reads a column and gives each row's difference to `set`; of column 0 each row must take a byte.
pub fn read_column(
    input: &mut Input<'_>,
    bits: &mut BitSource<'_>,
    (gap, how): (usize, u64),
    rows: usize,
    mut set: impl FnMut(u64),
) -> Result<(), Malformed> {
    match how {
        PLAIN => {
            for _ in 0..rows {
                set(unzigzag(input.varint()?));
            }
        }
        ALIKE if gap == 0 => return Err(TOO_SHORT),
        ALIKE => {
            let value = unzigzag(input.varint()?);
            (0..rows).for_each(|_| set(value));
        }
        _ => {
            let mut rows = rows;
            if how == APART {
                set(unzigzag(input.varint()?));
                rows = rows.saturating_sub(1);
            }
            let least = unzigzag(input.varint()?);
            let shift = if how == APART { input.byte()? } else { 0 };
            let width = input.byte()?;
            if shift >= 64 || width > 64 {
                return Err(Malformed("a packed column has numbers of more than 64 bits"));
            }
            if gap == 0 && u32::from(width) < BYTE {
                return Err(TOO_SHORT);
            }
            for _ in 0..rows {
                set(least.wrapping_add(bits.take(u32::from(width))? << shift));
            }
        }
    }
    Ok(())
}

const TOO_SHORT: Malformed = Malformed("a table has more rows than its first column has bytes");

/// A column's number, less that of the one before, and how it is written.
pub fn read_gap(input: &mut Input<'_>, layout: Layout) -> Result<(usize, u64), Malformed> {
    let number = input.varint()?;
    let (gap, how) = match layout {
        Layout::Tree => (number, PLAIN),
        Layout::Eights => (number >> 2, number & 3),
    };
    Ok((usize::try_from(gap).map_err(|_| Malformed("a column's number is too large"))?, how))
}

/// How a column is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Plain,
    Alike(u64),
    Packed(Bits),
    /// The first value, and the others.
    Apart(u64, Bits),
}

/// Bits in a byte.
const BYTE: u32 = 8;

/// What packed values have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bits {
    least: u64,
    shift: u32,
    width: u32,
}

impl How {
    fn number(self) -> u64 {
        match self {
            How::Plain => PLAIN,
            How::Alike(_) => ALIKE,
            How::Packed(_) => PACKED,
            How::Apart(..) => APART,
        }
    }

    fn best(values: &[u64]) -> How {
        let [first, rest @ ..] = values else { return How::Plain };
        if rest.is_empty() {
            return How::Plain;
        }
        if rest.iter().all(|value| value == first) {
            return How::Alike(*first);
        }
        let plain: usize = values.iter().map(|&value| varint_length(zigzag(value))).sum();
        let all = Bits::of(values).whole();
        let packed = all.length(values.len()) + 1;
        let others = Bits::of(rest);
        let apart = varint_length(zigzag(*first)) + others.length(rest.len()) + 2;
        // zstd takes something off the plain ones, and nothing off these.
        match packed.min(apart) {
            least if least * 10 >= plain * WORTH => How::Plain,
            least if least == packed => How::Packed(all),
            _ => How::Apart(*first, others),
        }
    }
}

impl Bits {
    fn of(values: &[u64]) -> Bits {
        let least = values.iter().map(|value| value.cast_signed()).min().unwrap_or_default().cast_unsigned();
        let above = values.iter().fold(0, |all, value| all | value.wrapping_sub(least));
        let shift = if above == 0 { 0 } else { above.trailing_zeros() };
        Bits { least, shift, width: 64 - (above >> shift).leading_zeros() }
    }

    /// With the lowest bits too, though they are 0.
    fn whole(self) -> Bits {
        Bits { shift: 0, width: if self.width > 0 { self.width + self.shift } else { 0 }, ..self }
    }

    /// Bytes of so many values, and of the least of them.
    fn length(self, count: usize) -> usize {
        varint_length(zigzag(self.least)) + (count * self.width as usize).div_ceil(8)
    }
}

/// Tenths of their plain size under which columns are packed.
const WORTH: usize = 9;

fn varint_length(value: u64) -> usize {
    (64 - value.leading_zeros()).max(1).div_ceil(7) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(values: &[u64]) -> (u64, usize) {
        let (mut out, mut sink) = (Vec::new(), BitSink::default());
        put_column(&mut out, &mut sink, 5, values);
        let bits = sink.take();
        let (mut input, mut source) = (Input::new(&out), BitSource::new(&bits));
        let (gap, how) = read_gap(&mut input, Layout::Eights).unwrap();
        let mut read = Vec::new();
        read_column(&mut input, &mut source, (gap, how), values.len(), |value| read.push(value)).unwrap();
        assert_eq!((gap, read.as_slice()), (5, values));
        assert!(input.is_empty() && source.is_empty());
        (how, out.len() + bits.len())
    }

    #[test]
    fn each_way_gives_back_what_went_in() {
        let minus = |value: u64| value.wrapping_neg();
        assert_eq!(round_trip(&[7]).0, PLAIN);
        assert_eq!(round_trip(&[minus(7); 9]).0, ALIKE);
        assert_eq!(round_trip(&[1_000_000, 1_000_090, 1_000_017, 1_000_000]), (PACKED, 1 + 3 + 1 + 4));
        assert_eq!(round_trip(&[minus(40_000), minus(35_904), minus(15_424), minus(40_000)]).0, APART);
        assert_eq!(round_trip(&[0, 4096 * 9, 4096 * 20, 4096, 4096 * 3]).0, APART);
        assert_eq!(round_trip(&[900_000_000, 100_000, 100_090, 100_017, 100_003]), (APART, 1 + 5 + 3 + 2 + 4));
        round_trip(&[0, u64::MAX >> 1, minus(u64::MAX >> 1), 1 << 63, 3, 1 << 62]);
        round_trip(&[1 << 63, (1 << 63) + 1, 1 << 62, u64::MAX].repeat(9));
        assert_eq!(round_trip(&[1 << 63, (1 << 63) + 1, 1 << 62, (1 << 61) + 7].repeat(9)).0, PACKED);
        assert_eq!(round_trip(&[0, 0, 0, 0, 0, 1 << 40, 3, 0, 0]).0, PLAIN);
    }

    #[test]
    fn what_claims_more_than_there_is_is_refused() {
        let read = |gap, how, bytes: &[u8], bits: &[u8]| {
            read_column(&mut Input::new(bytes), &mut BitSource::new(bits), (gap, how), 3, |_| ())
        };
        assert!(read(1, PACKED, &[0, 8], &[1, 2, 3]).is_ok());
        assert!(read(1, PACKED, &[0, 8], &[1, 2]).is_err());
        assert!(read(1, PACKED, &[0, 65], &[0; 99]).is_err());
        assert!(read(1, APART, &[0, 64, 1], &[0; 99]).is_err());
        assert!(read(1, PACKED, &[0], &[]).is_err());
        assert!(read(1, ALIKE, &[0], &[]).is_ok() && read(0, ALIKE, &[0], &[]).is_err());
        assert!(read(1, PACKED, &[0, 7], &[0; 9]).is_ok() && read(0, PACKED, &[0, 7], &[0; 9]).is_err());
    }
}
