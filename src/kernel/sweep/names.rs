//! Names that many tasks share: one allocation for each, so that equal names are the same `Name`.

use rustc_hash::FxHashSet;

use crate::sample::Name;

/// More different names than that (a fork bomb with random names): start anew, sharing is only lost, not wrong.
const MOST_NAMES: usize = 16_384;

/// The names seen so far.
#[derive(Debug, Default)]
pub struct Names(FxHashSet<Name>);

impl Names {
    /// The shared name with these bytes.
    pub fn shared(&mut self, bytes: &[u8]) -> Name {
        if let Some(name) = self.0.get(bytes) {
            return name.clone();
        }
        if self.0.len() >= MOST_NAMES {
            self.0.clear();
        }
        let name = Name::from(bytes);
        self.0.insert(name.clone());
        name
    }

    /// `current` if it has these bytes already, else the shared name.
    pub fn unless_same(&mut self, current: &Name, bytes: &[u8]) -> Name {
        if current.as_bytes() == bytes { current.clone() } else { self.shared(bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_are_the_same() {
        let mut names = Names::default();
        let first = names.shared(b"postgres");
        assert!(first.is_same(&names.shared(b"postgres")));
        assert!(!first.is_same(&names.shared(b"postgre")));
        assert!(first.is_same(&names.unless_same(&first, b"postgres")));
    }
}
