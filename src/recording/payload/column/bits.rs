//! Bits in and out, lowest first: numbers that look random are not made smaller by whole bytes.
//!
//! The steps of a cell are inlined by hand: a compiler that saves space calls each of them, for half a million cells.

use crate::recording::wire::Malformed;

/// Bits being written.
#[derive(Default)]
pub struct BitSink {
    bytes: Vec<u8>,
    waiting: u64,
    /// Bits that wait: fewer than 64.
    count: u32,
}

impl BitSink {
    /// The lowest `width` bits of a number that has no others; at most 64.
    #[inline(always)]
    pub fn put(&mut self, value: u64, width: u32) {
        self.waiting |= value << self.count;
        let filled = self.count + width;
        if filled < 64 {
            self.count = filled;
            return;
        }
        self.bytes.extend_from_slice(&self.waiting.to_le_bytes());
        self.waiting = value.checked_shr(64 - self.count).unwrap_or(0);
        self.count = filled - 64;
    }

    /// A number of 0 … `most` in a truncated binary code: where that is not a power of two less one, the lower numbers take a bit
    /// less.
    #[inline(always)]
    pub fn put_below(&mut self, value: u64, most: u64) {
        let (width, short) = below(most);
        if value < short || width == 64 {
            self.put(value, width);
        } else {
            // At most all ones in one bit more, which is 64 at most.
            let long = value.wrapping_add(short);
            self.put(long >> 1, width);
            self.put(long & 1, 1);
        }
    }

    /// The same of numbers that are mostly less than `most`: this one stands for all others, and how far beyond follows.
    pub fn put_mostly(&mut self, value: u64, most: u64) {
        self.put_below(value.min(most), most);
        if value >= most {
            self.put_golomb(value - most, beyond(most));
        }
    }

    /// An exponential Golomb code: short for small numbers, and long enough for any. The lowest `order` bits, at most 63, are
    /// written as they are.
    pub fn put_golomb(&mut self, value: u64, order: u32) {
        let lowest = value & ((1 << order) - 1);
        let above = u128::from(value >> order) + 1;
        let more = 127 - above.leading_zeros();
        let rest = (above & !(1 << more)) as u64;
        // Mostly all of it at once: so many zeros, a one, and the rest.
        if 2 * more + 1 + order <= 64 {
            let code = (1 << more) | (rest << 1 << more) | (lowest << more << more << 1);
            return self.put(code, 2 * more + 1 + order);
        }
        self.put(0, more);
        self.put(1, 1);
        self.put(rest, more);
        self.put(lowest, order);
    }

    /// Ends the last byte and gives all away.
    pub fn take(&mut self) -> Vec<u8> {
        let BitSink { mut bytes, waiting, count } = std::mem::take(self);
        bytes.extend(waiting.to_le_bytes().into_iter().take(count.div_ceil(8) as usize));
        bytes
    }
}

/// Bits of the lower numbers of 0 … `most`, and how many these are; all others take one more. Of 64 bits there are no lower
/// ones, and none that take more.
#[inline(always)]
fn below(most: u64) -> (u32, u64) {
    let Some(count) = most.checked_add(1) else { return (64, u64::MAX) };
    let width = 63 - count.leading_zeros();
    (width, 1_u64.checked_shl(width + 1).unwrap_or(0).wrapping_sub(count))
}

/// How many bits `put_below` writes.
#[inline(always)]
pub fn length_below(value: u64, most: u64) -> u32 {
    let (width, short) = below(most);
    width + u32::from(value >= short && width < 64)
}

/// The order of the code for how far beyond `most` a number is.
fn beyond(most: u64) -> u32 {
    (64 - most.leading_zeros()).min(63)
}

/// How many bits `put_mostly` writes.
pub fn length_mostly(value: u64, most: u64) -> u32 {
    let more = value.checked_sub(most).map_or(0, |more| golomb_length(more, beyond(most)));
    length_below(value.min(most), most) + more
}

/// How many bits `put_golomb` writes.
#[inline(always)]
pub fn golomb_length(value: u64, order: u32) -> u32 {
    let above = u128::from(value >> order) + 1;
    2 * (127 - above.leading_zeros()) + 1 + order
}

/// Bits being read.
#[derive(Default)]
pub struct BitSource<'a> {
    bytes: &'a [u8],
    waiting: u128,
    count: u32,
}

const TOO_FEW: Malformed = Malformed("a packed column is longer than its bits");

impl<'a> BitSource<'a> {
    pub fn new(bytes: &'a [u8]) -> BitSource<'a> {
        BitSource { bytes, waiting: 0, count: 0 }
    }

    /// `width` is at most 64.
    #[inline(always)]
    pub fn take(&mut self, width: u32) -> Result<u64, Malformed> {
        while self.count < width {
            let (first, rest) = self.bytes.split_first().ok_or(TOO_FEW)?;
            self.waiting |= u128::from(*first) << self.count;
            self.count += 8;
            self.bytes = rest;
        }
        let value = self.waiting & ((1 << width) - 1);
        self.waiting >>= width;
        self.count -= width;
        u64::try_from(value).map_err(|_| Malformed("a packed value has more than 64 bits"))
    }

    /// The inverse of `BitSink::put_below`.
    #[inline(always)]
    pub fn take_below(&mut self, most: u64) -> Result<u64, Malformed> {
        let (width, short) = below(most);
        let first = self.take(width)?;
        if first < short || width == 64 {
            return Ok(first);
        }
        let long = u128::from(first) << 1 | u128::from(self.take(1)?);
        Ok(long.wrapping_sub(u128::from(short)) as u64)
    }

    /// The inverse of `BitSink::put_mostly`.
    pub fn take_mostly(&mut self, most: u64) -> Result<u64, Malformed> {
        let value = self.take_below(most)?;
        if value < most {
            return Ok(value);
        }
        most.checked_add(self.take_golomb(beyond(most))?).ok_or(GOLOMB_TOO_LONG)
    }

    /// The inverse of `BitSink::put_golomb`; `order` is at most 63.
    pub fn take_golomb(&mut self, order: u32) -> Result<u64, Malformed> {
        let mut more = 0;
        while self.take(1)? == 0 {
            more += 1;
            if more > 64 {
                return Err(GOLOMB_TOO_LONG);
            }
        }
        let above = (1u128 << more | u128::from(self.take(more)?)) - 1;
        let above = u64::try_from(above).ok().filter(|&above| above <= u64::MAX >> order).ok_or(GOLOMB_TOO_LONG)?;
        Ok(above << order | self.take(order)?)
    }

    /// Bytes that are left.
    pub fn left(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there are as many bits.
    pub fn has(&self, bits: u128) -> bool {
        self.bytes.len() as u128 * 8 + u128::from(self.count) >= bits
    }

    /// Whether all of it was used.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.waiting == 0
    }
}

const GOLOMB_TOO_LONG: Malformed = Malformed("a number of a column has more than 64 bits");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_width_come_back() {
        let edges = [0, 1, 2, 3, 6, 7, 8, 200, 0xffff, 1 << 40, u64::MAX >> 1, u64::MAX - 1, u64::MAX];
        let mut sink = BitSink::default();
        let mut length = 0;
        for value in edges {
            sink.put(value, 64 - value.leading_zeros());
            length += 64 - value.leading_zeros();
            for order in [0, 1, 5, 31, 63] {
                sink.put_golomb(value, order);
                length += golomb_length(value, order);
            }
        }
        let bytes = sink.take();
        assert_eq!(bytes.len(), length.div_ceil(8) as usize);
        let mut source = BitSource::new(&bytes);
        for value in edges {
            assert_eq!(source.take(64 - value.leading_zeros()), Ok(value));
            for order in [0, 1, 5, 31, 63] {
                assert_eq!(source.take_golomb(order), Ok(value), "order {order}");
            }
        }
        assert!(source.is_empty() && source.take(8).is_err());
    }

    #[test]
    fn numbers_below_any_bound_come_back_and_take_no_more_bits_than_they_must() {
        for most in [0, 1, 2, 3, 4, 5, 300, (1 << 40) - 1, 1 << 40, 80_000_000, u64::MAX >> 1, u64::MAX - 1, u64::MAX] {
            let edges = [0, 1, 2, 3, most / 3, most / 2, most.saturating_sub(1), most];
            let beyond = [most.saturating_add(1), u64::MAX / 2, u64::MAX];
            let values: Vec<u64> = edges.into_iter().filter(|&value| value <= most).collect();
            let mut sink = BitSink::default();
            values.iter().for_each(|&value| sink.put_below(value, most));
            edges.iter().chain(&beyond).for_each(|&value| sink.put_mostly(value, most));
            let mostly: u32 = edges.iter().chain(&beyond).map(|&value| length_mostly(value, most)).sum();
            let length: u32 = mostly + values.iter().map(|&value| length_below(value, most)).sum::<u32>();
            let bytes = sink.take();
            assert_eq!(bytes.len(), length.div_ceil(8) as usize, "{most}");
            let mut source = BitSource::new(&bytes);
            values.iter().for_each(|&value| assert_eq!(source.take_below(most), Ok(value), "{most}"));
            edges.iter().chain(&beyond).for_each(|&value| assert_eq!(source.take_mostly(most), Ok(value), "{most}"));
        }
        assert_eq!((length_below(210, 300), length_below(211, 300), length_below(0, 0)), (8, 9, 0));
    }

    #[test]
    fn a_number_without_end_or_of_too_many_bits_is_refused() {
        assert!(BitSource::new(&[0; 40]).take_golomb(0).is_err());
        assert!(BitSource::new(&[]).take_golomb(3).is_err());
        let mut sink = BitSink::default();
        sink.put(0, 64);
        sink.put(1, 1);
        sink.put(u64::MAX, 64);
        sink.put(1, 1);
        let bytes = sink.take();
        assert!(BitSource::new(&bytes).take_golomb(1).is_err(), "65 bits");
        assert!(!BitSource::new(&[0; 2]).has(17) && BitSource::new(&[0; 2]).has(16));
    }
}
