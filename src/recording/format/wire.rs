//! Varints, and a reader of bytes that cannot run past its end.

/// A payload that contradicts the format although its checksum is right: it was written wrongly or on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub &'static str);

/// A row is of a kind that only a later version knows: a list is read without it.
pub const LATER_KIND: Malformed = Malformed("a row is of a kind that is not known");

/// Appends a varint: little-endian base 128, as in protobuf.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// How many bytes `put_varint` appends.
pub fn varint_length(value: u64) -> usize {
    (64 - (value | 1).leading_zeros()).div_ceil(7) as usize
}

/// Maps signed differences so that small ones of either sign are short.
pub fn zigzag(difference: u64) -> u64 {
    let signed = difference.cast_signed();
    ((signed << 1) ^ (signed >> 63)).cast_unsigned()
}

/// The inverse of `zigzag`.
pub fn unzigzag(value: u64) -> u64 {
    (value >> 1) ^ (value & 1).wrapping_neg()
}

/// Bytes that are left to read.
#[derive(Clone, Copy, Debug)]
pub struct ByteReader<'a> {
    bytes: &'a [u8],
}

impl<'a> ByteReader<'a> {
    pub fn new(bytes: &'a [u8]) -> ByteReader<'a> {
        ByteReader { bytes }
    }

    pub fn remaining(&self) -> usize {
        self.bytes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    #[inline]
    pub fn read_varint(&mut self) -> Result<u64, Malformed> {
        match self.bytes.split_first() {
            Some((&byte, rest)) if byte < 0x80 => {
                self.bytes = rest;
                Ok(u64::from(byte))
            }
            _ => self.read_long_varint(),
        }
    }

    fn read_long_varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0u64;
        for (at, &byte) in self.bytes.iter().enumerate().take(10) {
            let part = u64::from(byte & 0x7f);
            if at == 9 && part > 1 {
                return Err(Malformed("a number has more than 64 bits"));
            }
            value |= part << (7 * at);
            if byte < 0x80 {
                self.bytes = self.bytes.get(at + 1..).unwrap_or_default();
                return Ok(value);
            }
        }
        Err(Malformed("a number has no end"))
    }

    /// Reads a count of items that take at least one byte each of what is left.
    pub fn read_count(&mut self) -> Result<usize, Malformed> {
        match usize::try_from(self.read_varint()?) {
            Ok(count) if count <= self.remaining() => Ok(count),
            _ => Err(Malformed("a count is larger than what is left")),
        }
    }

    pub fn read_bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or(Malformed("a length is larger than what is left"))?;
        self.bytes = rest;
        Ok(taken)
    }

    /// Reads a length and that many bytes.
    pub fn read_length_prefixed(&mut self) -> Result<&'a [u8], Malformed> {
        let count = self.read_count()?;
        self.read_bytes(count)
    }
}

/// `N` bytes at an offset of a fixed-size header; `None` past its end.
pub fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk::<N>().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_and_zigzag_round_trip() {
        for value in [0, 1, 127, 128, 16_383, 16_384, u64::MAX >> 1, u64::MAX - 1, u64::MAX] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(varint_length(value), out.len());
            assert_eq!(ByteReader::new(&out).read_varint(), Ok(value));
            assert_eq!(unzigzag(zigzag(value)), value);
        }
        assert_eq!(zigzag(0u64.wrapping_sub(1)), 1);
    }

    #[test]
    fn a_number_that_never_ends_or_is_too_long_is_refused() {
        assert!(ByteReader::new(&[0x80; 20]).read_varint().is_err());
        assert!(ByteReader::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]).read_varint().is_err());
        assert!(ByteReader::new(&[5, 1, 2]).read_count().is_err());
    }
}
