//! Names are stored once per key group: a column has the number of a name. Number 0 is the empty name.
//!
//! A frame adds the names that the frames of its chain of references do not have: its numbers continue theirs.

use std::any::Any;
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::shared_facts::SharedFacts;
use super::wire::{ByteReader, Malformed, put_varint, varint_length};
use crate::sample::Name;

/// Most names of a frame; a process has about four.
const MAX_NAMES: usize = 1 << 20;

/// The writer's side: from a name to its number.
#[derive(Default)]
pub struct Interner {
    names: Vec<Name>,
    hasher: RandomState,
    /// By the hash of the bytes. If two names have the same hash, the first one may be written again.
    by_hash: FxHashMap<u64, u32>,
    /// By address, so that a name or message that samples share is not hashed again.
    by_address: FxHashMap<usize, u32>,
    /// Keeps the addresses in `by_address` alive that are not of one of `names`.
    held: Vec<Held>,
    /// How many of `names` earlier frames have.
    known: usize,
}

/// Kept alive for its address only.
struct Held {
    _keeps: Arc<dyn Any + Send + Sync>,
    address: usize,
    number: u32,
}

impl Interner {
    /// The number of a name.
    pub fn name(&mut self, name: &Name) -> u64 {
        if name.as_bytes().is_empty() {
            return 0;
        }
        let address = address_of(name);
        if let Some(&number) = self.by_address.get(&address) {
            return u64::from(number);
        }
        let hash = self.hash(name.as_bytes());
        if let Some(number) = self.known_by(hash, name.as_bytes()) {
            self.hold(Arc::new(name.clone()), address, number);
            return u64::from(number);
        }
        u64::from(self.append(name.clone(), hash))
    }

    /// The number of the message of a shared value; `encode` runs only if it is new.
    pub fn facts<T: Any + Send + Sync>(&mut self, shared: &Arc<T>, encode: impl FnOnce(&T) -> Vec<u8>) -> u64 {
        let address = Arc::as_ptr(shared) as usize;
        if let Some(&number) = self.by_address.get(&address) {
            return u64::from(number);
        }
        let number = self.bytes(&encode(shared));
        self.hold(shared.clone(), address, number);
        u64::from(number)
    }

    /// The number of some bytes.
    fn bytes(&mut self, bytes: &[u8]) -> u32 {
        if bytes.is_empty() {
            return 0;
        }
        let hash = self.hash(bytes);
        self.known_by(hash, bytes).unwrap_or_else(|| self.append(Name::from(bytes), hash))
    }

    /// With a random key: names are untrusted, and must not collide on purpose.
    fn hash(&self, bytes: &[u8]) -> u64 {
        self.hasher.hash_one(bytes)
    }

    fn known_by(&self, hash: u64, bytes: &[u8]) -> Option<u32> {
        let &number = self.by_hash.get(&hash)?;
        let name = self.names.get((number as usize).checked_sub(1)?)?;
        (name.as_bytes() == bytes).then_some(number)
    }

    fn append(&mut self, name: Name, hash: u64) -> u32 {
        let address = address_of(&name);
        self.names.push(name);
        // A frame with so many names is refused.
        let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.by_hash.insert(hash, number);
        self.by_address.insert(address, number);
        number
    }

    fn hold(&mut self, keeps: Arc<dyn Any + Send + Sync>, address: usize, number: u32) {
        self.by_address.insert(address, number);
        self.held.push(Held { _keeps: keeps, address, number });
    }

    /// Begins a key frame: forgets all names.
    pub fn begin_key(&mut self) {
        *self = Interner::default();
    }

    /// Begins a frame that refers to one after which there were `known` names; forgets all later ones.
    pub fn begin_delta(&mut self, known: usize) {
        self.known = known;
        if self.names.len() <= known {
            return;
        }
        let Self { names, hasher, by_hash, by_address, held, .. } = self;
        for name in names.drain(known..) {
            by_hash.remove(&hasher.hash_one(name.as_bytes()));
            by_address.remove(&address_of(&name));
        }
        held.retain(|held| {
            let stays = held.number as usize <= known;
            if !stays {
                by_address.remove(&held.address);
            }
            stays
        });
    }

    /// Number of names after this frame.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// The names that the frame must add.
    fn own(&self) -> &[Name] {
        self.names.get(self.known..).unwrap_or_default()
    }

    /// Bytes that `write` appends.
    pub fn length(&self) -> usize {
        let one = |name: &Name| varint_length(name.as_bytes().len() as u64) + name.as_bytes().len();
        varint_length(self.own().len() as u64) + self.own().iter().map(one).sum::<usize>()
    }

    /// Appends the section with the names of this frame.
    pub fn write(&self, out: &mut Vec<u8>) {
        let own = self.own();
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

/// Unique among all names that are alive, since each has some bytes.
fn address_of(name: &Name) -> usize {
    name.as_bytes().as_ptr() as usize
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

/// Parses the section that `Interner::write` wrote; names in `known` are shared.
pub fn read(section: &[u8], known: &HashSet<Name>) -> Result<Vec<Name>, Malformed> {
    let mut input = ByteReader::new(section);
    let count = input.read_count()?;
    if count > MAX_NAMES {
        return Err(Malformed("too many names"));
    }
    let mut lengths = Vec::with_capacity(count);
    for _ in 0..count {
        lengths.push(usize::try_from(input.read_varint()?).map_err(|_| Malformed("a name is too long"))?);
    }
    let name = |bytes: &[u8]| known.get(bytes).cloned().unwrap_or_else(|| Name::from(bytes));
    lengths.into_iter().map(|length| Ok(name(input.read_bytes(length)?))).collect()
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
