//! How each column of each table is written, since format 1.3: said once, and kept from frame to frame until it changes.
//!
//! A frame goes on with the forms of the frame that it refers to, so that it holds hardly more than which rows changed and
//! the bits of their numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::bits::{BitSink, BitSource, golomb_length, length_below, length_mostly};
use crate::recording::payload::layout::begins_row;
use crate::recording::wire::{ByteReader, Malformed, put_varint, unzigzag, zigzag};

/// How one column's numbers are written: the lowest `shift` bits, which are 0 in all of them, are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Form {
    pub code: Code,
    pub shift: u32,
    /// Of a row that changed: not the difference, but what it is now.
    pub fresh: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// How far above the least, in a truncated binary code.
    Within { least: u64, most: u64 },
    /// The same, and for those that are further above a longer code.
    Mostly { least: u64, most: u64 },
    /// An exponential Golomb code.
    Golomb { order: u32 },
    /// The same, for numbers of either sign.
    Signed { order: u32 },
}

impl Default for Code {
    /// Zero in all rows.
    fn default() -> Code {
        Code::Within { least: 0, most: 0 }
    }
}

impl Form {
    /// What a difference becomes: `None` where this form cannot say it.
    #[inline(always)]
    fn shifted(self, value: u64) -> Option<u64> {
        let above = match self.code {
            Code::Within { least, .. } | Code::Mostly { least, .. } => value.wrapping_sub(least),
            Code::Golomb { .. } | Code::Signed { .. } => value,
        };
        if above & ((1 << self.shift) - 1) != 0 {
            return None;
        }
        Some(match self.code {
            Code::Signed { .. } => zigzag((above.cast_signed() >> self.shift).cast_unsigned()),
            Code::Within { .. } | Code::Mostly { .. } | Code::Golomb { .. } => above >> self.shift,
        })
    }

    /// Whether this form can say that number.
    pub fn fits(self, value: u64) -> bool {
        self.shifted(value).is_some_and(|shifted| match self.code {
            Code::Within { most, .. } => shifted <= most,
            // A number below the least looks as if it were far above.
            Code::Mostly { .. } => shifted >> 63 == 0,
            Code::Golomb { .. } | Code::Signed { .. } => true,
        })
    }

    /// How many bits that number takes; `None` where this form cannot say it.
    #[inline(always)]
    pub fn length(self, value: u64) -> Option<u32> {
        let shifted = self.shifted(value).filter(|_| self.fits(value))?;
        Some(match self.code {
            Code::Within { most, .. } => length_below(shifted, most),
            Code::Mostly { most, .. } => length_mostly(shifted, most),
            Code::Golomb { order } | Code::Signed { order } => golomb_length(shifted, order),
        })
    }

    /// Writes a number that has a length.
    #[inline(always)]
    pub fn put(self, bits: &mut BitSink, value: u64) {
        let shifted = self.shifted(value).unwrap_or_default();
        match self.code {
            Code::Within { most, .. } => bits.put_below(shifted, most),
            Code::Mostly { most, .. } => bits.put_mostly(shifted, most),
            Code::Golomb { order } | Code::Signed { order } => bits.put_golomb(shifted, order),
        }
    }

    pub fn take(self, bits: &mut BitSource<'_>) -> Result<u64, Malformed> {
        Ok(match self.code {
            Code::Within { least, most } => least.wrapping_add(bits.take_below(most)? << self.shift),
            Code::Mostly { least, most } => least.wrapping_add(bits.take_mostly(most)? << self.shift),
            Code::Golomb { order } => bits.take_golomb(order)? << self.shift,
            Code::Signed { order } => unzigzag(bits.take_golomb(order)?) << self.shift,
        })
    }

    /// The fewest bits that a number takes.
    pub fn least_length(self) -> u32 {
        match self.code {
            Code::Within { most, .. } => length_below(0, most),
            Code::Mostly { most, .. } => length_mostly(0, most),
            Code::Golomb { order } | Code::Signed { order } => order + 1,
        }
    }

    fn write(self, out: &mut Vec<u8>, gap: usize) {
        let (code, order) = match self.code {
            Code::Within { .. } => (WITHIN, 0),
            Code::Mostly { .. } => (MOSTLY, 0),
            Code::Golomb { order } => (GOLOMB, order),
            Code::Signed { order } => (SIGNED, order),
        };
        put_varint(out, (gap as u64) << 3 | u64::from(self.fresh) << 2 | code);
        put_varint(out, u64::from(self.shift << 6 | order));
        if let Code::Within { least, most } | Code::Mostly { least, most } = self.code {
            put_varint(out, zigzag(least));
            put_varint(out, most);
        }
    }

    /// The column's number less that of the column before, and its form.
    fn read(input: &mut ByteReader<'_>) -> Result<(usize, Form), Malformed> {
        let head = input.read_varint()?;
        let how = input.read_varint()?;
        let shift = u32::try_from(how >> 6).ok().filter(|&shift| shift < 64).ok_or(TOO_WIDE)?;
        let order = (how & 63) as u32;
        let code = match head & 3 {
            WITHIN => Code::Within { least: unzigzag(input.read_varint()?), most: input.read_varint()? },
            GOLOMB => Code::Golomb { order },
            SIGNED => Code::Signed { order },
            _ => Code::Mostly { least: unzigzag(input.read_varint()?), most: input.read_varint()? },
        };
        let gap = usize::try_from(head >> 3).map_err(|_| Malformed("a column's number is too large"))?;
        Ok((gap, Form { code, shift, fresh: head & 4 != 0 }))
    }
}

const WITHIN: u64 = 0;
const GOLOMB: u64 = 1;
const SIGNED: u64 = 2;
const MOSTLY: u64 = 3;
const TOO_WIDE: Malformed = Malformed("a column has numbers of more than 64 bits");

/// Which rows of a table.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Changed since the sample before.
    Near,
    /// Changed since the eighth sample before.
    Far,
    /// The first new one of a frame: its steps are from 0.
    First,
    /// The other new ones.
    Further,
}

impl Role {
    /// Of rows that changed, in the frame at that distance from its key frame.
    pub fn of_changed(distance: u16) -> Role {
        if begins_row(distance) { Role::Far } else { Role::Near }
    }
}

/// The rows of one table that are written alike: its section and their role.
pub type Place = (u64, Role);

/// Columns by their number that are not simply zero.
pub type Columns = BTreeMap<usize, Form>;

/// All forms that hold at a frame. Those that did not change are shared with the frame before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forms {
    places: BTreeMap<Place, Arc<Columns>>,
}

/// Columns that all tables may have together in all roles: four times what they have.
const MOST: usize = 1 << 14;

impl Forms {
    pub fn columns(&self, place: Place) -> Option<&Columns> {
        self.places.get(&place).map(Arc::as_ref)
    }

    pub fn form(&self, place: Place, column: usize) -> Form {
        self.columns(place).and_then(|columns| columns.get(&column)).copied().unwrap_or_default()
    }

    pub fn set(&mut self, place: Place, column: usize, form: Form) {
        let columns = Arc::make_mut(self.places.entry(place).or_default());
        if form == Form::default() {
            columns.remove(&column);
        } else {
            columns.insert(column, form);
        }
    }

    /// What must be said so that a reader who has `before` has these.
    pub fn write_since(&self, before: &Forms, out: &mut Vec<u8>) {
        // No place is ever given up.
        for (&place, columns) in &self.places {
            let old = before.places.get(&place);
            if old.is_some_and(|old| Arc::ptr_eq(old, columns)) {
                continue;
            }
            let numbers: BTreeSet<usize> = old.into_iter().flat_map(|old| old.keys()).chain(columns.keys()).copied().collect();
            let changed = numbers.into_iter().filter(|&column| self.form(place, column) != before.form(place, column));
            let changed: Vec<usize> = changed.collect();
            if changed.is_empty() {
                continue;
            }
            put_varint(out, place.0 << 2 | place.1 as u64);
            put_varint(out, changed.len() as u64);
            let mut last = 0;
            for column in changed {
                self.form(place, column).write(out, column - last);
                last = column;
            }
        }
    }

    /// Reads what `write_since` wrote.
    pub fn read(&mut self, section: &[u8]) -> Result<(), Malformed> {
        let mut input = ByteReader::new(section);
        let mut room = MOST.saturating_sub(self.places.values().map(|columns| columns.len()).sum());
        while !input.is_empty() {
            let place = input.read_varint()?;
            let role = match place & 3 {
                0 => Role::Near,
                1 => Role::Far,
                2 => Role::First,
                _ => Role::Further,
            };
            let mut column = 0usize;
            let count = input.read_count()?;
            // Each takes room, also one that had it before.
            room = room.checked_sub(count.max(1)).ok_or(TOO_MANY)?;
            for _ in 0..count {
                let (gap, form) = Form::read(&mut input)?;
                column = column.saturating_add(gap);
                self.set((place >> 2, role), column, form);
            }
        }
        Ok(())
    }
}

const TOO_MANY: Malformed = Malformed("there are more columns than any table has");

#[cfg(test)]
mod tests {
    use super::*;

    fn form(code: Code, shift: u32) -> Form {
        Form { code, shift, fresh: false }
    }

    #[test]
    fn each_form_gives_back_what_it_can_say_and_knows_what_it_cannot() {
        let minus = |value: u64| value.wrapping_neg();
        let numbers = [0, 1, 4096, minus(4096), minus(1), u64::MAX >> 1, 1 << 63];
        let forms = [
            Form::default(),
            form(Code::Within { least: minus(8192), most: 12_288 }, 0),
            form(Code::Within { least: minus(8192), most: 3 }, 12),
            form(Code::Within { least: 3, most: u64::MAX }, 0),
            form(Code::Mostly { least: minus(5), most: 100 }, 0),
            form(Code::Mostly { least: 0, most: 0 }, 3),
            form(Code::Mostly { least: 0, most: 2 }, 12),
            form(Code::Golomb { order: 0 }, 0),
            form(Code::Golomb { order: 9 }, 12),
            form(Code::Signed { order: 3 }, 0),
            form(Code::Signed { order: 63 }, 1),
        ];
        for form in forms {
            let mut sink = BitSink::default();
            let said: Vec<u64> = numbers.into_iter().filter(|&number| form.length(number).is_some()).collect();
            said.iter().for_each(|&number| form.put(&mut sink, number));
            let bits = sink.take();
            let length: u32 = said.iter().filter_map(|&number| form.length(number)).sum();
            assert_eq!(bits.len(), length.div_ceil(8) as usize, "{form:?}");
            let mut source = BitSource::new(&bits);
            said.iter().for_each(|&number| assert_eq!(form.take(&mut source), Ok(number), "{form:?}"));
            assert!(said.iter().all(|&number| form.length(number) >= Some(form.least_length())));
        }
        assert_eq!(Form::default().length(1), None);
        assert_eq!(form(Code::Golomb { order: 9 }, 12).length(4097), None);
        assert_eq!(form(Code::Within { least: 0, most: 7 }, 0).length(minus(1)), None);
    }

    #[test]
    fn what_changed_is_said_and_nothing_else() {
        let mut before = Forms::default();
        before.set((3, Role::Near), 2, form(Code::Golomb { order: 5 }, 0));
        before.set((3, Role::Near), 9, Form { fresh: true, ..form(Code::Signed { order: 1 }, 4) });
        let mut after = before.clone();
        after.set((3, Role::Near), 2, Form::default());
        after.set((3, Role::Near), 11, form(Code::Within { least: u64::MAX, most: u64::MAX }, 0));
        after.set((40, Role::Further), 1000, form(Code::Within { least: 7, most: 0 }, 0));
        let mut said = Vec::new();
        after.write_since(&before, &mut said);
        let mut read = before.clone();
        read.read(&said).unwrap();
        assert_eq!(read, after);
        said.clear();
        after.write_since(&after.clone(), &mut said);
        assert!(said.is_empty());
    }

    #[test]
    fn forms_that_no_column_can_have_are_refused() {
        let read = |bytes: &[u8]| Forms::default().read(bytes);
        assert!(read(&[12, 1, 0, 0, 3, 0]).is_ok());
        assert!(read(&[12, 1, 0, 0, 3]).is_err() && read(&[12, 1, 3, 0, 1]).is_err() && read(&[12, 2, 1, 3]).is_err());
        assert!(read(&[12, 1, 1, 0x80, 0x20]).is_err(), "shifted by 64");
        let mut many = vec![12, 0xff, 0xff, 0x03];
        (0..0xffff).for_each(|_| many.extend([1 << 3, 1, 2]));
        assert!(read(&many).is_err());
    }
}
