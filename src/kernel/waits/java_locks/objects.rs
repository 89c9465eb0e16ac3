//! Objects of a Java program in the memory of its virtual machine: references, classes, and the fields of classes by name.
//!
//! The garbage collector moves objects meanwhile: what is read counts only if it leads to a class with the expected name.

use nix::errno::Errno;

use super::layout::{FieldList, ObjectLayout};
use super::thread_list::low_half;
use crate::kernel::task::memory::{read_longs, read_memory, read_scattered, read_words};

/// Classes from a class up to java.lang.Object
const MAX_SUPER_CLASSES: usize = 32;
/// Fields of a class; java.lang.Thread of version 17 has 33.
const MAX_FIELDS: usize = 64;
/// Bytes of the names of classes and fields that are read
const MAX_NAME_BYTES: usize = 96;
/// Bytes of a stream of fields
const MAX_STREAM_BYTES: u32 = 16 << 10;
/// Shift of the address of a Klass in the first word of an object (`markWord::klass_shift`): compact headers, version 24 and later
const CLASS_SHIFT_IN_MARK: u32 = 42;
/// Of references and addresses of a Klass in 4 bytes; with compact headers it is 10.
const MAX_SHIFT: u32 = 16;

/// A field of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JavaField {
    pub name: Vec<u8>,
    /// In the object
    pub offset: u64,
    /// To an object, or to an array
    pub is_reference: bool,
    pub is_static: bool,
}

/// How objects refer to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceFormat {
    /// 4 bytes (`UseCompressedOops`)
    Narrow,
    /// The address
    Wide,
    /// The address, and bits that say what the garbage collector knows of the reference: generational ZGC, version 21 and later
    Colored,
}

/// How objects have their class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassPointer {
    /// 4 bytes (`UseCompressedClassPointers`)
    Narrow,
    /// 8 bytes
    Wide,
    /// A part of the first word (`UseCompactObjectHeaders`)
    InMark,
}

/// Base and shift of addresses that are kept in 4 bytes: base + (number << shift). They do not change once the virtual machine has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NarrowBase {
    base: u64,
    shift: u32,
}

/// The objects of one virtual machine.
#[derive(Clone, Copy, Debug)]
pub struct Objects<'a> {
    pub pid: u32,
    pub layout: &'a ObjectLayout,
    pub class_pointer: ClassPointer,
    pub references: ReferenceFormat,
    pub narrow_reference: NarrowBase,
    pub narrow_class: NarrowBase,
}

impl NarrowBase {
    /// By the addresses of both variables
    pub fn read(pid: u32, (base, shift): (u64, u64)) -> Option<NarrowBase> {
        let &[base, shift] = &*read_longs(pid, &[base, shift]).ok()? else { return None };
        // An int
        Some(NarrowBase { base, shift: low_half(shift).min(MAX_SHIFT) })
    }

    fn decode(self, word: u32) -> u64 {
        if word == 0 { 0 } else { self.base.saturating_add(u64::from(word) << self.shift) }
    }
}

impl Objects<'_> {
    /// The objects to which the references at these addresses refer, or 0; `None`: it is not mapped.
    pub fn references(&self, addresses: &[u64]) -> Vec<Option<u64>> {
        if self.references != ReferenceFormat::Narrow {
            return self.long_references(addresses);
        }
        let words = read_each(addresses, |addresses| read_words(self.pid, addresses));
        words.into_iter().map(|word| word.map(|word| self.narrow_reference.decode(word))).collect()
    }

    /// The same of those in structures of the virtual machine, which have 8 bytes also where those of objects have 4
    pub fn long_references(&self, addresses: &[u64]) -> Vec<Option<u64>> {
        let references = self.pointers(addresses);
        match self.references {
            ReferenceFormat::Colored => references.into_iter().map(|reference| reference.map(without_color)).collect(),
            ReferenceFormat::Narrow | ReferenceFormat::Wide => references,
        }
    }

    /// The same of addresses
    pub fn pointers(&self, addresses: &[u64]) -> Vec<Option<u64>> {
        read_each(addresses, |addresses| read_longs(self.pid, addresses))
    }

    /// The class of each object (Klass); `None`: not known.
    pub fn classes(&self, objects: &[u64]) -> Vec<Option<u64>> {
        let places: Vec<u64> = objects.iter().map(|object| object.saturating_add(self.layout.class)).collect();
        let classes: Vec<Option<u64>> = match self.class_pointer {
            ClassPointer::Narrow => {
                let words = read_each(&places, |places| read_words(self.pid, places));
                words.into_iter().map(|word| word.map(|word| self.narrow_class.decode(word))).collect()
            }
            ClassPointer::Wide => self.pointers(&places),
            ClassPointer::InMark => {
                let in_mark = |mark: u64| self.narrow_class.decode(u32::try_from(mark >> CLASS_SHIFT_IN_MARK).unwrap_or(0));
                self.pointers(objects).into_iter().map(|mark| mark.map(in_mark)).collect()
            }
        };
        classes.into_iter().map(|class| class.filter(|&class| class != 0)).collect()
    }

    /// The class and those that it extends, up to java.lang.Object, each with its name. Empty: it is no class.
    pub fn super_classes(&self, class: u64) -> Vec<(u64, Vec<u8>)> {
        let next = |&class: &u64| self.long(class, self.layout.super_class).filter(|&class| class != 0);
        let classes: Vec<u64> = std::iter::successors(Some(class), next).take(MAX_SUPER_CLASSES).collect();
        let symbols: Vec<u64> = classes.iter().map_while(|&class| self.long(class, self.layout.name)).collect();
        let names = self.names(&symbols);
        match names.last() {
            Some(last) if names.len() == classes.len() && last == b"java/lang/Object" => {
                classes.into_iter().zip(names).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The fields that the class declares itself.
    pub fn fields(&self, class: u64) -> Vec<JavaField> {
        let read = match self.layout.fields {
            FieldList::Records { array, count, begin } => self.field_records(class, array, count, begin),
            FieldList::Stream { array, begin } => self.field_stream(class, array, begin),
        };
        let (Some(fields), Some(constants)) = (read, self.long(class, self.layout.constants)) else { return Vec::new() };
        let constant = |index: u32| {
            let begin = constants.saturating_add(self.layout.first_constant);
            begin.saturating_add(u64::from(index) * size_of::<u64>() as u64)
        };
        let places: Vec<u64> = fields.iter().flat_map(|field| [field.name, field.signature].map(constant)).collect();
        let symbols: Vec<u64> = self.pointers(&places).into_iter().map_while(|symbol| symbol).collect();
        let texts = self.names(&symbols);
        let (texts, _) = texts.as_chunks();
        let named = fields.into_iter().zip(texts);
        let field = |(field, [name, signature]): (RawField, &[Vec<u8>; 2])| JavaField {
            name: name.clone(),
            offset: u64::from(field.offset),
            is_reference: matches!(signature.first(), Some(b'L' | b'[')),
            is_static: field.is_static,
        };
        named.map(field).collect()
    }

    fn field_records(&self, class: u64, array: u64, count: u64, begin: u64) -> Option<Vec<RawField>> {
        /// Access flags, name, signature, initial value, and the offset in two halves; 16 bits each
        const RECORD: usize = 6;
        let count = usize::from(self.half_word(class.checked_add(count)?)?).min(MAX_FIELDS);
        let records = self.long(class, array)?.checked_add(begin)?;
        let mut bytes = vec![0; count * RECORD * size_of::<u16>()];
        read_memory(self.pid, records, &mut bytes).ok()?;
        let (words, _) = bytes.as_chunks();
        let words: Vec<u16> = words.iter().map(|&word| u16::from_ne_bytes(word)).collect();
        let (records, _) = words.as_chunks::<RECORD>();
        let field = |&[flags, name, signature, _, low, high]: &[u16; RECORD]| RawField {
            name: name.into(),
            signature: signature.into(),
            // The lowest two bits say what the rest is.
            offset: (u32::from(high) << 16 | u32::from(low)) >> 2,
            is_static: u32::from(flags) & STATIC != 0,
        };
        Some(records.iter().map(field).collect())
    }

    fn field_stream(&self, class: u64, array: u64, begin: u64) -> Option<Vec<RawField>> {
        let array = self.long(class, array)?;
        // Its length is the first word.
        let length = read_words(self.pid, &[array]).ok()?.first().copied()?.min(MAX_STREAM_BYTES);
        let mut bytes = vec![0; usize::try_from(length).ok()?];
        read_memory(self.pid, array.checked_add(begin)?, &mut bytes).ok()?;
        parse_field_stream(&bytes)
    }

    /// The texts of these symbols, up to the first that is not mapped; what is longer is cut off.
    fn names(&self, symbols: &[u64]) -> Vec<Vec<u8>> {
        let (length, text) = self.layout.symbol;
        let places: Vec<u64> = symbols.iter().map(|symbol| symbol.saturating_add(length)).collect();
        let lengths = read_scattered(self.pid, &places, size_of::<u16>()).unwrap_or_default();
        let (lengths, _) = lengths.as_chunks();
        let lengths = lengths.iter().map(|&length| usize::from(u16::from_ne_bytes(length)).min(MAX_NAME_BYTES));
        let name = |(symbol, length): (&u64, usize)| {
            let mut bytes = vec![0; length];
            read_memory(self.pid, symbol.checked_add(text)?, &mut bytes).ok()?;
            Some(bytes)
        };
        symbols.iter().zip(lengths).map_while(name).collect()
    }

    pub fn long(&self, address: u64, offset: u64) -> Option<u64> {
        read_longs(self.pid, &[address.checked_add(offset)?]).ok()?.first().copied()
    }

    fn half_word(&self, address: u64) -> Option<u16> {
        let mut bytes = [0; size_of::<u16>()];
        read_memory(self.pid, address, &mut bytes).ok()?;
        Some(u16::from_ne_bytes(bytes))
    }
}

/// What `read` finds at each address; `None`: it is not mapped, or so are more before it than one reading may have.
fn read_each<T>(addresses: &[u64], read: impl Fn(&[u64]) -> Result<Vec<T>, Errno>) -> Vec<Option<T>> {
    const MAX_GAPS: usize = 8;
    let mut found = Vec::with_capacity(addresses.len());
    for _ in 0..=MAX_GAPS {
        let Some(rest) = addresses.get(found.len()..).filter(|rest| !rest.is_empty()) else { break };
        found.extend(read(rest).unwrap_or_default().into_iter().map(Some));
        if found.len() < addresses.len() {
            found.push(None);
        }
    }
    found.resize_with(addresses.len(), || None);
    found
}

/// The address in a reference of generational ZGC (`ZPointer::uncolor`). One of four bits is set: on x86-64 the address begins behind that one,
/// elsewhere behind all four.
fn without_color(reference: u64) -> u64 {
    const FIRST_OF_FOUR: u32 = 12;
    const BEHIND_THE_FOUR: u32 = 16;
    match reference >> FIRST_OF_FOUR & 0xf {
        0 => 0,
        _ if cfg!(not(target_arch = "x86_64")) => reference >> BEHIND_THE_FOUR,
        four => reference >> (FIRST_OF_FOUR + four.trailing_zeros() + 1),
    }
}

/// `JVM_ACC_STATIC` of the access flags
const STATIC: u32 = 8;

/// A field, its name and its signature by their places in the ConstantPool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RawField {
    name: u32,
    signature: u32,
    offset: u32,
    is_static: bool,
}

/// The fields of a stream (`FieldInfoReader`): their number, that of injected ones, and of each name, signature, offset, access flags, field
/// flags, and up to three numbers that the field flags announce. `None`: it ends early.
fn parse_field_stream(bytes: &[u8]) -> Option<Vec<RawField>> {
    /// Field flags: the initial value, the generic signature, and the group of a contended field follow.
    const FOLLOWED: [u32; 3] = [1, 1 << 2, 1 << 4];
    let mut numbers = Unsigned5(bytes.iter());
    let count = usize::try_from(numbers.next()?).ok()?.min(MAX_FIELDS);
    let _injected = numbers.next()?;
    let mut fields = Vec::new();
    for _ in 0..count {
        let [name, signature, offset, access, flags] = [(); 5].map(|()| numbers.next());
        for flag in FOLLOWED {
            if flags? & flag != 0 {
                numbers.next()?;
            }
        }
        let is_static = access? & STATIC != 0;
        fields.push(RawField { name: name?, signature: signature?, offset: offset?, is_static });
    }
    Some(fields)
}

/// Numbers of up to 5 bytes, the lowest first (`UNSIGNED5`): a byte is 1 more than its digit, and a digit of 191 or more is followed by
/// another one, of 64 times its value.
struct Unsigned5<'a>(std::slice::Iter<'a, u8>);

impl Iterator for Unsigned5<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        const LAST_DIGIT: u32 = 191;
        let mut number = 0_u32;
        for place in 0..5 {
            let digit = u32::from(*self.0.next()?).checked_sub(1)?;
            number = number.wrapping_add(digit << (6 * place));
            if digit < LAST_DIGIT {
                break;
            }
        }
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_stream_have_up_to_five_bytes() {
        let numbers = |bytes: &[u8]| Unsigned5(bytes.iter()).collect::<Vec<u32>>();
        assert_eq!(numbers(&[1, 2, 191, 192, 1, 193, 1, 192, 2]), [0, 1, 190, 191, 192, 191 + 64]);
        assert_eq!(numbers(&[192 + 5, 192, 1]), [196 + 64 * 191]);
        assert_eq!(numbers(&[255; 5]), [(0..5).map(|place| 254_u32 << (6 * place)).fold(0, u32::wrapping_add)]);
        assert!(numbers(&[255; 4]).is_empty(), "it ends early");
        assert!(numbers(&[0]).is_empty(), "a byte is never 0");
    }

    #[test]
    fn a_stream_has_the_fields_and_what_their_flags_announce() {
        // Each number is one byte, 1 more: 2 fields, 1 injected one.
        let bytes = [3, 2, 11, 12, 17, 9, 2, 100, 21, 22, 13, 1, 21, 100, 101];
        let fields = parse_field_stream(&bytes).unwrap();
        let field = |name, signature, offset, is_static| RawField { name, signature, offset, is_static };
        assert_eq!(fields, [field(10, 11, 16, true), field(20, 21, 12, false)]);
        for length in 0..bytes.len() {
            assert_eq!(parse_field_stream(&bytes[..length]), None, "{length}");
        }
    }

    #[test]
    fn the_address_in_a_coloured_reference_begins_behind_the_bit_that_is_set() {
        let object = 0x40_0012_3450_u64;
        for bit in 12..16 {
            let shift = if cfg!(target_arch = "x86_64") { bit + 1 } else { 16 };
            assert_eq!(without_color(object << shift | 1 << bit | 0x5f0), object);
        }
        assert_eq!(without_color(0), 0);
    }
}
