//! Sorts short lists with little code.
//!
//! A sort of the standard library is compiled anew for each type and order, 8 KiB each: a hundred of them were a tenth of the
//! program. Here one sort of indices is compiled, which calls the comparison through a pointer. Lists of thousands that are
//! sorted with every sample take the standard library's.

use std::cmp::Ordering;

/// Stable sorts of a short list.
pub trait SmallSort {
    type Item;

    /// As `slice::sort_by`.
    fn small_sort_by(&mut self, compare: impl FnMut(&Self::Item, &Self::Item) -> Ordering);

    /// As `slice::sort_by_key`.
    fn small_sort_by_key<K: Ord>(&mut self, mut key: impl FnMut(&Self::Item) -> K) {
        self.small_sort_by(|a, b| key(a).cmp(&key(b)));
    }
}

impl<T> SmallSort for [T] {
    type Item = T;

    fn small_sort_by(&mut self, mut compare: impl FnMut(&T, &T) -> Ordering) {
        let mut order = sorted_places(self.len(), &mut |a, b| match (self.get(a), self.get(b)) {
            (Some(a), Some(b)) => compare(a, b),
            _ => Ordering::Equal,
        });
        // Follows each cycle of the permutation once.
        for start in 0..order.len() {
            let mut place = start;
            while let Some(from) = order.get_mut(place).map(|from| std::mem::replace(from, place)).filter(|&from| from != start)
            {
                self.swap(place, from);
                place = from;
            }
        }
    }
}

/// The places of a list in the order of their items.
#[inline(never)]
fn sorted_places(len: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    order.sort_by(|&a, &b| compare(a, b));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorts_as_the_standard_library_does_and_is_stable() {
        let mut random = 1u64;
        for len in 0..200 {
            let mut list: Vec<(u64, usize)> = (0..len)
                .map(|at| {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (random >> 60, at)
                })
                .collect();
            let mut expected = list.clone();
            expected.sort_by_key(|item| item.0);
            list.small_sort_by_key(|item| item.0);
            assert_eq!(list, expected);
        }
    }
}
