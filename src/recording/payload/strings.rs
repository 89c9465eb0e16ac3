//! Each name once a key frame: a cell holds a number, the dictionary holds the bytes. Number 0 is the empty name.
//!
//! A frame brings those names that the frames it builds on do not have: its numbers go on where theirs end.

use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::facts::SharedFacts;
use crate::recording::wire::{Input, Malformed, put_varint};
use crate::sample::Name;

/// More names than this in one frame is nonsense (a process has about four).
const MAX_NAMES: usize = 1 << 20;

/// The writer's side: from a name to its number.
#[derive(Default)]
pub struct Interner {
    by_bytes: HashMap<Name, u64>,
    /// Address to number, so that a name (or a facts block) shared between samples is not hashed again.
    by_address: FxHashMap<(usize, usize), u64>,
    /// Keeps every address in `by_address` from being given away.
    held: Vec<Held>,
    names: Vec<Name>,
    /// How many of `names` the frame being written need not bring.
    known: usize,
}

/// Held for its address only.
enum Held {
    Name { name: Name, number: u64 },
    Facts { _keeps: Arc<dyn Any + Send + Sync>, address: (usize, usize), number: u64 },
}

impl Interner {
    /// The number of that name.
    pub fn name(&mut self, name: &Name) -> u64 {
        if name.as_bytes().is_empty() {
            return 0;
        }
        let address = address_of(name);
        if let Some(&number) = self.by_address.get(&address) {
            return number;
        }
        let number = match self.by_bytes.get(name) {
            Some(&number) => number,
            None => self.append(name.clone()),
        };
        self.by_address.insert(address, number);
        self.held.push(Held::Name { name: name.clone(), number });
        number
    }

    /// The number of a block of bytes made from something shared; `encode` runs only when it is new.
    pub fn facts<T: Any + Send + Sync>(&mut self, shared: &Arc<T>, encode: impl FnOnce(&T) -> Vec<u8>) -> u64 {
        let address = (Arc::as_ptr(shared) as usize, usize::MAX);
        if let Some(&number) = self.by_address.get(&address) {
            return number;
        }
        let number = self.bytes(encode(shared));
        self.by_address.insert(address, number);
        self.held.push(Held::Facts { _keeps: shared.clone(), address, number });
        number
    }

    /// The number of a block of bytes.
    pub fn bytes(&mut self, bytes: Vec<u8>) -> u64 {
        if bytes.is_empty() {
            return 0;
        }
        match self.by_bytes.get(bytes.as_slice()) {
            Some(&number) => number,
            None => self.append(Name::from(bytes.as_slice())),
        }
    }

    fn append(&mut self, name: Name) -> u64 {
        self.names.push(name.clone());
        let number = self.names.len() as u64;
        self.by_bytes.insert(name, number);
        number
    }

    /// Starts a key frame: nothing is known.
    pub fn begin_key(&mut self) {
        *self = Interner::default();
    }

    /// Begins a frame that refers to one after which there were `known` names; forgets all later ones.
    pub fn begin_delta(&mut self, known: usize) {
        self.known = known;
        if self.names.len() <= known {
            return;
        }
        for name in self.names.drain(known..) {
            self.by_bytes.remove(&name);
        }
        let by_address = &mut self.by_address;
        self.held.retain(|held| {
            let (address, number) = match held {
                Held::Name { name, number } => (address_of(name), *number),
                Held::Facts { address, number, .. } => (*address, *number),
            };
            let stays = number <= known as u64;
            if !stays {
                by_address.remove(&address);
            }
            stays
        });
    }

    /// Names known after this frame.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// The section of the frame being written: its own names only.
    pub fn write(&self, out: &mut Vec<u8>) {
        let own = self.names.get(self.known..).unwrap_or_default();
        put_varint(out, own.len() as u64);
        for name in own {
            put_varint(out, name.as_bytes().len() as u64);
        }
        for name in own {
            out.extend_from_slice(name.as_bytes());
        }
    }

    pub fn has_own(&self) -> bool {
        self.names.len() > self.known
    }

    pub fn is_too_large(&self) -> bool {
        self.names.len() > MAX_NAMES
    }
}

fn address_of(name: &Name) -> (usize, usize) {
    (name.as_bytes().as_ptr() as usize, name.as_bytes().len())
}

/// The reader's side: from a number to its name.
pub struct Names<'a> {
    pub list: &'a [Name],
    pub empty: &'a Name,
    pub facts: &'a SharedFacts,
}

impl Names<'_> {
    pub fn name(&self, number: u64) -> Result<&Name, Malformed> {
        let Some(at) = number.checked_sub(1) else { return Ok(self.empty) };
        usize::try_from(at).ok().and_then(|at| self.list.get(at)).ok_or(OUT_OF_RANGE)
    }
}

const OUT_OF_RANGE: Malformed = Malformed("a name is not in the dictionary");

/// Reads the section that `Interner::write` wrote; `known` holds names that exist already.
pub fn read(section: &[u8], known: &HashSet<Name>) -> Result<Vec<Name>, Malformed> {
    let mut input = Input::new(section);
    let count = input.count()?;
    if count > MAX_NAMES {
        return Err(Malformed("too many names"));
    }
    let mut lengths = Vec::with_capacity(count);
    for _ in 0..count {
        lengths.push(usize::try_from(input.varint()?).map_err(|_| Malformed("a name is too long"))?);
    }
    let name = |bytes: &[u8]| known.get(bytes).cloned().unwrap_or_else(|| Name::from(bytes));
    lengths.into_iter().map(|length| Ok(name(input.take(length)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delta_forgets_its_names_and_keeps_those_it_builds_on() {
        let mut interner = Interner::default();
        let (kept, passing) = (Name::from("kept"), Name::from("passing"));
        interner.begin_key();
        assert_eq!(interner.name(&kept), 1);
        interner.begin_delta(1);
        assert_eq!(interner.name(&passing), 2);
        assert_eq!(interner.name(&Name::from("kept")), 1, "another copy of the same bytes");
        interner.begin_delta(1);
        assert!(!interner.has_own());
        assert_eq!(interner.name(&Name::from("other")), 2);
        assert_eq!(interner.name(&passing), 3);
    }

    #[test]
    fn a_number_outside_the_dictionary_is_refused() {
        let list = [Name::from("a")];
        let names = Names { list: &list, empty: &Name::default(), facts: &SharedFacts::default() };
        assert_eq!(names.name(1), Ok(&list[0]));
        assert!(names.name(2).is_err());
        assert!(names.name(u64::MAX).is_err());
    }
}
