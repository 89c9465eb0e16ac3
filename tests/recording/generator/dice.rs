//! Random numbers, the same ones for the same seed, and random values of the types of a sample.

use stalltop::sample::{Absent, Name, Reading};
use stalltop::units::Counter;

/// SplitMix64: small, and the same everywhere.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.roll() % end.max(1)
    }

    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    /// Any value, and the edges often.
    pub fn u64(&mut self) -> u64 {
        match self.below(8) {
            0 => 0,
            1 => u64::MAX,
            2 => self.roll(),
            3 => 1 << self.below(64),
            _ => self.below(100_000),
        }
    }

    pub fn u32(&mut self) -> u32 {
        if self.one_in(8) { u32::MAX } else { (self.u64() & 0xffff_ffff) as u32 }
    }

    pub fn u16(&mut self) -> u16 {
        if self.one_in(8) { u16::MAX } else { (self.u64() & 0xffff) as u16 }
    }

    pub fn counter(&mut self) -> Counter {
        Counter(self.u64())
    }

    /// Adds up to `most`.
    pub fn grow(&mut self, counter: &mut Counter, most: u64) {
        counter.0 += self.below(most + 1);
    }

    pub fn bool(&mut self) -> bool {
        self.one_in(2)
    }

    pub fn float(&mut self) -> f64 {
        match self.below(6) {
            0 => 0.0,
            1 => -0.0,
            2 => f64::INFINITY,
            3 => self.below(u64::MAX) as f64 / 7.0,
            4 => -1.25,
            _ => self.below(10_000) as f64 / 100.0,
        }
    }

    pub fn small_float(&mut self) -> f32 {
        match self.below(4) {
            0 => self.float() as f32,
            _ => format!("{}.{:02}", self.below(100), self.below(100)).parse().unwrap(),
        }
    }

    pub fn name(&mut self) -> Name {
        let words: [&[u8]; 6] = [b"", b"bash", b"mysqld", b"\x1b]0;evil\x07", b"\xff\xfe\0arg", "größe".as_bytes()];
        let word = words[self.below(6) as usize];
        if self.bool() { Name::from(word) } else { Name::from([word, &self.below(50).to_le_bytes()].concat().as_slice()) }
    }

    pub fn maybe<T>(&mut self, make: impl FnOnce(&mut Dice) -> T) -> Option<T> {
        if self.one_in(3) { None } else { Some(make(self)) }
    }

    pub fn absent(&mut self) -> Absent {
        match self.below(9) {
            0 => Absent::NotRead,
            1 => Absent::NoSuchFile,
            2 => Absent::NoPermission,
            3 => Absent::Hidden,
            4 => Absent::Vanished,
            5 => Absent::Unsupported,
            6 => Absent::Malformed,
            7 => Absent::Os(-5),
            _ => Absent::Os(i32::MAX),
        }
    }

    pub fn reading<T>(&mut self, make: impl FnOnce(&mut Dice) -> T) -> Reading<T> {
        if self.one_in(4) { Err(self.absent()) } else { Ok(make(self)) }
    }

    pub fn list<T>(&mut self, most: u64, mut make: impl FnMut(&mut Dice) -> T) -> Vec<T> {
        (0..self.below(most + 1)).map(|_| make(self)).collect()
    }
}
