//! Pairs items of the older and the newer sample, both sorted by the same key, in one pass.

use std::cmp::Ordering;
use std::sync::Arc;

/// A position in a sorted list that only moves forward. Keys must be searched in ascending order.
#[derive(Debug)]
pub struct SortedCursor<'a, T> {
    rest: &'a [T],
}

impl<'a, T> SortedCursor<'a, T> {
    /// `list` is sorted by the key that `find` and `skip_below` compare.
    pub fn new(list: &'a [T]) -> SortedCursor<'a, T> {
        SortedCursor { rest: list }
    }

    /// Moves to the first item that `compare` does not call less, and returns the items that were passed.
    pub fn skip_below(&mut self, compare: impl Fn(&T) -> Ordering) -> &'a [T] {
        // Not a binary search: mostly the next item is the one.
        let passed = self.rest.iter().take_while(|item| compare(item) == Ordering::Less).count();
        let (passed, rest) = self.rest.split_at(passed);
        self.rest = rest;
        passed
    }

    /// The item that `compare` calls equal, if there is one; it is passed.
    pub fn find(&mut self, compare: impl Fn(&T) -> Ordering) -> Option<&'a T> {
        self.skip_below(&compare);
        let (first, rest) = self.rest.split_first().filter(|(first, _)| compare(first) == Ordering::Equal)?;
        self.rest = rest;
        Some(first)
    }

    /// The items that were not passed yet.
    pub fn rest(&self) -> &'a [T] {
        self.rest
    }
}

impl<'a, T> SortedCursor<'a, Arc<T>> {
    /// Passes the items with which `newer` begins too: the very same ones, so that nothing changed in them. Returns how many.
    pub fn pass_shared(&mut self, newer: &[Arc<T>]) -> usize {
        let shared = shared_prefix(self.rest, newer);
        self.rest = self.rest.get(shared..).unwrap_or_default();
        shared
    }
}

/// How many items both lists begin with. Does not compare them.
pub fn shared_prefix<T>(older: &[Arc<T>], newer: &[Arc<T>]) -> usize {
    // Without a branch for each item: of thousands of processes few change.
    let differs = |old: &Arc<T>, new: &Arc<T>| Arc::as_ptr(old) as usize ^ Arc::as_ptr(new) as usize;
    let is_shared = |(olds, news): &(&[Arc<T>], &[Arc<T>])| {
        olds.iter().zip(*news).fold(0, |difference, (old, new)| difference | differs(old, new)) == 0
    };
    let (older_blocks, newer_blocks) = (older.chunks_exact(BLOCK), newer.chunks_exact(BLOCK));
    let shared = older_blocks.zip(newer_blocks).take_while(is_shared).count() * BLOCK;
    let rest = older.iter().zip(newer).skip(shared);
    shared + rest.take_while(|(old, new)| Arc::ptr_eq(old, new)).count()
}

/// Items that `shared_prefix` compares at once.
const BLOCK: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_equal_items_and_returns_what_was_passed() {
        let older = [1, 3, 5, 7, 9];
        let mut cursor = SortedCursor::new(&older);
        assert_eq!(cursor.find(|item| item.cmp(&0)), None);
        assert_eq!(cursor.find(|item| item.cmp(&3)), Some(&3));
        assert_eq!(cursor.find(|item| item.cmp(&3)), None, "each item is found once");
        assert_eq!(cursor.skip_below(|item| item.cmp(&8)), [5, 7]);
        assert_eq!(cursor.rest(), [9]);
        assert_eq!(cursor.find(|item| item.cmp(&10)), None);
        assert!(cursor.rest().is_empty());
    }
}
