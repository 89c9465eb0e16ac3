//! Encodes the values of one column of a table.
//!
//! A column is written as `gap << 1 | encoding`, then its values. `gap` is the distance from the column before, so that a column
//! without values takes no byte. `PLAIN` writes each value as a varint; `PACKED` writes all values with as many bits as the
//! largest of them needs, which saves 15 % of a sample (200 processes, 20 busy).

use super::wire::{ByteReader, Malformed, put_varint, unzigzag, varint_length, zigzag};

/// Each value as a varint of its zigzag.
const PLAIN: u64 = 0;
/// The least value, then how far each value is above it, in bits.
const PACKED: u64 = 1;

/// Rows beyond this take a bit each at least, so that few bytes cannot make a huge table.
pub const MAX_FREE_ROWS: usize = 4096;

/// Appends a column. `needs_bits`: its rows must not take less than a bit each.
pub fn write_column(out: &mut Vec<u8>, gap: usize, values: &[u64], needs_bits: bool) {
    let plain: usize = values.iter().map(|&value| varint_length(zigzag(value))).sum();
    let packing = Packing::new(values, needs_bits);
    if packing.length(values.len()) >= plain {
        put_varint(out, (gap as u64) << 1 | PLAIN);
        values.iter().for_each(|&value| put_varint(out, zigzag(value)));
        return;
    }
    put_varint(out, (gap as u64) << 1 | PACKED);
    put_varint(out, zigzag(packing.least));
    put_varint(out, u64::from(packing.shift << 7 | packing.width));
    let (mut waiting, mut count) = (0u128, 0);
    for &value in values {
        waiting |= u128::from(value.wrapping_sub(packing.least) >> packing.shift) << count;
        count += packing.width;
        while count >= 8 {
            out.push(waiting as u8);
            waiting >>= 8;
            count -= 8;
        }
    }
    if count > 0 {
        out.push(waiting as u8);
    }
}

/// Reads the head of a column: the gap, and how it is encoded.
pub fn read_column_head(input: &mut ByteReader<'_>) -> Result<(usize, u64), Malformed> {
    let head = input.read_varint()?;
    Ok((usize::try_from(head >> 1).map_err(|_| Malformed("a column's number is too large"))?, head & 1))
}

/// Reads the values of `rows` rows and appends them to `values`.
pub fn read_column(input: &mut ByteReader<'_>, encoding: u64, rows: usize, values: &mut Vec<u64>) -> Result<(), Malformed> {
    values.reserve(rows);
    if encoding == PLAIN {
        for _ in 0..rows {
            values.push(unzigzag(input.read_varint()?));
        }
        return Ok(());
    }
    let (least, shift, width) = read_packing(input)?;
    let bits = rows.checked_mul(width as usize).ok_or(TOO_WIDE)?;
    let bytes = input.read_bytes(bits.div_ceil(8))?;
    let value = |bits: u64| least.wrapping_add(bits << shift);
    if width == 0 {
        values.extend(std::iter::repeat_n(value(0), rows));
    } else {
        let mut bits = Bits { rest: bytes, held: 0, count: 0 };
        values.extend((0..rows).map(|_| value(bits.take(width))));
    }
    Ok(())
}

/// Bits of bytes, the least significant bit of each first.
struct Bits<'b> {
    rest: &'b [u8],
    /// Bits that were read from the bytes and not taken yet
    held: u128,
    count: u32,
}

impl Bits<'_> {
    /// The next 1 to 64 bits; those behind the end are 0.
    fn take(&mut self, width: u32) -> u64 {
        if self.count < width {
            let (word, bytes) = match self.rest.first_chunk() {
                Some(word) => (u64::from_le_bytes(*word), 8),
                None => (self.rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)), self.rest.len()),
            };
            self.held |= u128::from(word) << self.count;
            self.count += 64;
            self.rest = self.rest.get(bytes..).unwrap_or_default();
        }
        let taken = self.held as u64 & (u64::MAX >> (64 - width));
        self.held >>= width;
        self.count -= width;
        taken
    }
}

/// Passes over a column that only a later version has.
pub fn skip_column(input: &mut ByteReader<'_>, encoding: u64, rows: usize) -> Result<(), Malformed> {
    if encoding == PLAIN {
        return (0..rows).try_for_each(|_| input.read_varint().map(drop));
    }
    let (_, _, width) = read_packing(input)?;
    input.read_bytes(rows.checked_mul(width as usize).ok_or(TOO_WIDE)?.div_ceil(8)).map(drop)
}

/// The least value, the shift and the bits of each value.
fn read_packing(input: &mut ByteReader<'_>) -> Result<(u64, u32, u32), Malformed> {
    let least = unzigzag(input.read_varint()?);
    let how = input.read_varint()?;
    let (shift, width) = (u32::try_from(how >> 7).map_err(|_| TOO_WIDE)?, (how & 127) as u32);
    if shift < 64 && width <= 64 { Ok((least, shift, width)) } else { Err(TOO_WIDE) }
}

const TOO_WIDE: Malformed = Malformed("a column has values of more than 64 bits");

/// How a column is packed.
struct Packing {
    least: u64,
    /// Lowest bits that are 0 in all differences from the least value.
    shift: u32,
    width: u32,
}

impl Packing {
    fn new(values: &[u64], needs_bits: bool) -> Packing {
        let signed = || values.iter().map(|value| value.cast_signed());
        let least = signed().min().unwrap_or_default().cast_unsigned();
        let most = signed().max().unwrap_or_default().cast_unsigned();
        let used = values.iter().fold(0, |used, value| used | value.wrapping_sub(least));
        let shift = if used == 0 { 0 } else { used.trailing_zeros() };
        let width = 64 - (most.wrapping_sub(least) >> shift).leading_zeros();
        Packing { least, shift, width: width.max(u32::from(needs_bits)) }
    }

    /// Bytes behind the head.
    fn length(&self, count: usize) -> usize {
        let head = varint_length(zigzag(self.least)) + varint_length(u64::from(self.shift << 7 | self.width));
        head + (self.width as usize * count).div_ceil(8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(values: &[u64], needs_bits: bool) -> Vec<u8> {
        let mut out = Vec::new();
        write_column(&mut out, 5, values, needs_bits);
        out
    }

    #[test]
    fn any_values_are_read_back_as_they_were_written() {
        let edges = [0, 1, u64::MAX, 1 << 63, u64::MAX >> 1, 4096, 4096u64.wrapping_neg(), 12_345_678_901];
        let mut columns: Vec<Vec<u64>> = (0..edges.len())
            .flat_map(|from| {
                [1, 2, 7, 40, 600]
                    .map(|count| edges.iter().copied().cycle().skip(from).step_by(count + 1).take(count).collect())
            })
            .collect();
        columns.extend(edges.map(|value| vec![value; 5000]));
        columns.push((0..300).map(|at| 1_000_000 + 4096 * (at % 9)).collect());
        for values in columns {
            let bytes = written(&values, values.len() > MAX_FREE_ROWS);
            let mut input = ByteReader::new(&bytes);
            let (gap, encoding) = read_column_head(&mut input).unwrap();
            let mut read = Vec::new();
            read_column(&mut input, encoding, values.len(), &mut read).unwrap();
            assert_eq!((gap, read), (5, values));
            assert!(input.is_empty());
        }
    }

    #[test]
    fn values_of_few_bits_take_few_bits() {
        assert!(written(&(0..300).map(|at| 1_000_000 + 4096 * (at % 9)).collect::<Vec<_>>(), false).len() < 300 * 4 / 8 + 8);
        assert!(written(&[7; 4000], false).len() < 5);
        assert!(written(&[0; 8000], true).len() >= 1000);
    }

    #[test]
    fn a_column_that_is_shorter_than_its_rows_is_refused() {
        let read = |encoding, bytes: &[u8]| read_column(&mut ByteReader::new(bytes), encoding, 3, &mut Vec::new());
        assert!(read(PLAIN, &[0, 1, 2]).is_ok() && read(PLAIN, &[0, 1]).is_err());
        assert!(read(PACKED, &[0, 8, 1, 2, 3]).is_ok() && read(PACKED, &[0, 8, 1, 2]).is_err());
        assert!(read(PACKED, &[0, 65]).is_err() && read(PACKED, &[0]).is_err());
        assert!(read(PACKED, &[0, 0x80, 0x40, 1]).is_err(), "shifted by 64 bits");
    }
}
