//! One column of a table as it was written before format 1.3: a difference a row, in whichever of four ways took the fewest
//! bytes. New recordings have `forms`.

use super::bits::BitSource;
use crate::recording::payload::layout::PayloadLayout;
use crate::recording::wire::{ByteReader, Malformed, unzigzag};

/// Differences as varints, one a row.
const PLAIN: u64 = 0;
/// One difference for all rows.
const ALIKE: u64 = 1;
/// The smallest difference, then how far each is above it, all in as many bits as the largest needs; so too what is neither.
#[cfg(test)]
const PACKED: u64 = 2;
/// The first difference apart, since it is one from 0; the others as above, less lowest bits that are 0 in all of them.
const APART: u64 = 3;

/// Bits in a byte.
const BYTE: u32 = 8;

/// Reads a column and gives each row's difference to `set`; of column 0 each row must take a byte.
pub fn read_column(
    input: &mut ByteReader<'_>,
    bits: &mut BitSource<'_>,
    (gap, how): (usize, u64),
    rows: usize,
    mut set: impl FnMut(u64),
) -> Result<(), Malformed> {
    match how {
        PLAIN => {
            for _ in 0..rows {
                set(unzigzag(input.read_varint()?));
            }
        }
        ALIKE if gap == 0 => return Err(TOO_SHORT),
        ALIKE => {
            let value = unzigzag(input.read_varint()?);
            (0..rows).for_each(|_| set(value));
        }
        _ => {
            let mut rows = rows;
            if how == APART {
                set(unzigzag(input.read_varint()?));
                rows = rows.saturating_sub(1);
            }
            let least = unzigzag(input.read_varint()?);
            let shift = if how == APART { input.read_byte()? } else { 0 };
            let width = input.read_byte()?;
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
pub fn read_gap(input: &mut ByteReader<'_>, layout: PayloadLayout) -> Result<(usize, u64), Malformed> {
    let number = input.read_varint()?;
    let (gap, how) = match layout {
        PayloadLayout::Tree => (number, PLAIN),
        PayloadLayout::Eights | PayloadLayout::Forms => (number >> 2, number & 3),
    };
    Ok((usize::try_from(gap).map_err(|_| Malformed("a column's number is too large"))?, how))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_that_was_written_is_read() {
        let read = |how, bytes: &[u8], bits: &[u8]| {
            let (mut input, mut source) = (ByteReader::new(bytes), BitSource::new(bits));
            let mut read = Vec::new();
            read_column(&mut input, &mut source, (5, how), 3, |value| read.push(value)).unwrap();
            assert!(input.is_empty() && source.is_empty());
            read
        };
        assert_eq!(read(PLAIN, &[14, 1, 0x80, 1], &[]), [7, u64::MAX, 64]);
        assert_eq!(read(ALIKE, &[13], &[]), [7u64.wrapping_neg(); 3]);
        assert_eq!(read(PACKED, &[20, 4], &[0x93, 0x0f]), [13, 19, 25]);
        assert_eq!(read(APART, &[20, 2, 12, 3], &[0b10_1011]), [10, 1 + (3 << 12), 1 + (5 << 12)]);
        assert_eq!(read_gap(&mut ByteReader::new(&[23]), PayloadLayout::Eights), Ok((5, APART)));
        assert_eq!(read_gap(&mut ByteReader::new(&[23]), PayloadLayout::Tree), Ok((23, PLAIN)));
    }

    #[test]
    fn what_claims_more_than_there_is_is_refused() {
        let read = |gap, how, bytes: &[u8], bits: &[u8]| {
            read_column(&mut ByteReader::new(bytes), &mut BitSource::new(bits), (gap, how), 3, |_| ())
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
