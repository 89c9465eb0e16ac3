//! The memory of a made-up virtual machine: classes, objects and threads, in each format that these may have.

use super::super::layout::{FieldList, ObjectLayout};
use super::super::objects::JavaField;
use super::super::thread_list::JavaThread;

/// How the machine has its objects.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// References and addresses of classes have 4 bytes.
    pub is_narrow: bool,
    /// The first word of an object has its class.
    pub is_compact: bool,
    /// References have the bits of generational ZGC.
    pub is_colored: bool,
    /// Threads have the address of a reference to their object.
    pub has_handles: bool,
    /// Fields of classes are a stream.
    pub has_stream: bool,
}

pub const OLD: Format = Format { is_narrow: true, is_compact: false, is_colored: false, has_handles: false, has_stream: false };
pub const FORMATS: [Format; 5] = [
    OLD,
    Format { is_narrow: false, ..OLD },
    Format { has_handles: true, has_stream: true, ..OLD },
    Format { has_handles: true, has_stream: true, is_compact: true, ..OLD },
    Format { is_narrow: false, is_colored: true, has_handles: true, has_stream: true, ..OLD },
];

/// Words of memory; what is in it is allocated from the beginning.
pub struct Heap {
    pub words: Box<[u64]>,
    used: usize,
    pub format: Format,
    pub object: u64,
}

pub const SHIFT: u64 = 3;
/// Offsets: of an object its class; of an InstanceKlass its superclass, name, constants, fields, and their number; of a JavaThread its object; of
/// a ConstantPool the first constant
pub const CLASS: u64 = 8;
pub const SUPER: u64 = 8;
pub const NAME: u64 = 16;
pub const CONSTANTS: u64 = 24;
pub const FIELDS: u64 = 32;
pub const COUNT: u64 = 40;
pub const THREAD_OBJECT: u64 = 24;
pub const FIRST_CONSTANT: u64 = 16;
/// Of objects
pub const EETOP: u64 = 16;
pub const FIRST_REFERENCE: u64 = 32;
pub const CARRIER: u64 = 64;
pub const OWNER: u64 = 24;

impl Heap {
    pub fn new(format: Format) -> Heap {
        let mut heap = Heap { words: vec![0; 8192].into(), used: 8, format, object: 0 };
        heap.object = heap.class("java/lang/Object", 0, &[]);
        // Narrow references: base and shift
        (heap.words[0], heap.words[1]) = (heap.begin(), SHIFT);
        heap
    }

    pub fn begin(&self) -> u64 {
        self.words.as_ptr() as u64
    }

    pub fn layout(&self) -> ObjectLayout {
        let narrow = (self.begin(), self.begin() + 8);
        ObjectLayout {
            thread_object: THREAD_OBJECT,
            class: CLASS,
            narrow_reference: narrow,
            narrow_class: narrow,
            super_class: SUPER,
            name: NAME,
            constants: CONSTANTS,
            first_constant: FIRST_CONSTANT,
            symbol: (4, 6),
            fields: match self.format.has_stream {
                true => FieldList::Stream { array: FIELDS, begin: 4 },
                false => FieldList::Records { array: FIELDS, count: COUNT, begin: 4 },
            },
        }
    }

    /// The address of so many bytes, and that of which it is the first.
    pub fn allocate(&mut self, bytes: usize) -> u64 {
        let address = self.begin() + 8 * self.used as u64;
        self.used += bytes.div_ceil(8);
        assert!(self.used + 16 < self.words.len(), "names are read beyond their ends");
        address
    }

    pub fn put(&mut self, address: u64, bytes: &[u8]) {
        let at = usize::try_from(address - self.begin()).unwrap();
        for (at, &byte) in (at..).zip(bytes) {
            let word = &mut self.words[at / 8];
            let mut own = word.to_ne_bytes();
            own[at % 8] = byte;
            *word = u64::from_ne_bytes(own);
        }
    }

    pub fn put_long(&mut self, address: u64, long: u64) {
        self.put(address, &long.to_ne_bytes());
    }

    pub fn symbol(&mut self, text: &str) -> u64 {
        let symbol = self.allocate(6 + text.len());
        self.put(symbol + 4, &u16::try_from(text.len()).unwrap().to_ne_bytes());
        self.put(symbol + 6, text.as_bytes());
        symbol
    }

    /// A class with fields of its own.
    pub fn class(&mut self, name: &str, super_class: u64, fields: &[JavaField]) -> u64 {
        let class = self.allocate(48);
        let constants = self.allocate(16 + 16 * fields.len());
        let name = self.symbol(name);
        let mut list = if self.format.has_stream { stream(fields) } else { records(fields) };
        for (at, field) in (0..).zip(fields) {
            let signature = if field.is_reference { "Ljava/lang/Object;" } else { "J" };
            let texts = [self.symbol(std::str::from_utf8(&field.name).unwrap()), self.symbol(signature)];
            for (place, text) in (2 * at..).zip(texts) {
                self.put_long(constants + FIRST_CONSTANT + 8 * place, text);
            }
        }
        let length = u32::try_from(list.len()).unwrap();
        list.splice(0..0, length.to_ne_bytes());
        let array = self.allocate(list.len());
        self.put(array, &list);
        for (offset, long) in [(SUPER, super_class), (NAME, name), (CONSTANTS, constants), (FIELDS, array)] {
            self.put_long(class + offset, long);
        }
        self.put(class + COUNT, &u16::try_from(fields.len()).unwrap().to_ne_bytes());
        class
    }

    pub fn object(&mut self, class: u64) -> u64 {
        let object = self.allocate(128);
        let narrow = (class - self.begin()) >> SHIFT;
        match self.format {
            Format { is_compact: true, .. } => self.put_long(object, narrow << 42 | 1),
            Format { is_narrow: true, .. } => self.put(object + CLASS, &u32::try_from(narrow).unwrap().to_ne_bytes()),
            _ => self.put_long(object + CLASS, class),
        }
        object
    }

    /// A reference in a structure of the virtual machine: with the bits of a collector where it has them.
    pub fn long_reference(&self, object: u64) -> u64 {
        if self.format.is_colored && object != 0 { object << 14 | 1 << 13 | 0x10 } else { object }
    }

    pub fn refer(&mut self, place: u64, object: u64) {
        let narrow = if object == 0 { 0 } else { object.wrapping_sub(self.begin()) >> SHIFT };
        match self.format.is_narrow {
            true => self.put(place, &u32::try_from(narrow).unwrap().to_ne_bytes()),
            false => self.put_long(place, self.long_reference(object)),
        }
    }

    /// The thread that runs with this object of class Thread.
    pub fn java_thread(&mut self, tid: u32, object: u64) -> JavaThread {
        let address = self.allocate(32);
        let reference = self.long_reference(object);
        let pointer = match self.format.has_handles {
            true => {
                let handle = self.allocate(8);
                self.put_long(handle, reference);
                handle
            }
            false => reference,
        };
        self.put_long(address + THREAD_OBJECT, pointer);
        JavaThread { address, os_thread: 8, tid }
    }
}

pub fn field(name: &str, offset: u64, is_reference: bool) -> JavaField {
    JavaField { name: name.into(), offset, is_reference, is_static: false }
}

/// Access flags, name, signature, initial value, and the offset with two bits that say what it is.
pub fn records(fields: &[JavaField]) -> Vec<u8> {
    let record = |(at, field): (u16, &JavaField)| {
        let offset = u16::try_from(field.offset << 2 | 1).unwrap();
        [u16::from(field.is_static) * 8, 2 * at, 2 * at + 1, 0, offset, 0]
    };
    (0..).zip(fields).flat_map(record).flat_map(u16::to_ne_bytes).collect()
}

/// The same as small numbers, of which each is one byte that is 1 more; the first field has an initial value.
pub fn stream(fields: &[JavaField]) -> Vec<u8> {
    let mut numbers = vec![fields.len() as u8, 0];
    for (at, field) in (0..).zip(fields) {
        numbers.extend([2 * at, 2 * at + 1, field.offset as u8, u8::from(field.is_static) * 8, u8::from(at == 0)]);
        numbers.extend((at == 0).then_some(7));
    }
    numbers.into_iter().map(|number| number + 1).collect()
}
