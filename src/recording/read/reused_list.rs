//! The list of processes of a sample that is not used any more becomes that of a later one.
//!
//! Most of its items are in their places already. Of 2,000 processes, 20 of them busy, the reference counts of a few are changed
//! instead of all: a sixth less CPU time of `report` (10.3 to 11.2 s before, 8.6 to 8.8 after, all on one thread).

use std::collections::VecDeque;
use std::sync::Arc;

use crate::sample::Sample;
use crate::sample::task::Process;

/// Samples that are held where at most 40 are decoded ahead.
pub const MAX_HELD: usize = 64;

/// The last samples that were decoded, in order, but for those whose lists were taken.
pub struct HeldSamples {
    samples: VecDeque<Arc<Sample>>,
    most: usize,
}

impl HeldSamples {
    /// Holds at most that many samples, also those that are used no more: 0 where samples are kept for long.
    pub fn up_to(most: usize) -> HeldSamples {
        HeldSamples { samples: VecDeque::new(), most }
    }

    pub fn hold(&mut self, sample: Arc<Sample>) {
        self.samples.push_back(sample);
        if self.samples.len() > self.most {
            self.samples.pop_front();
        }
    }

    /// The list of a sample to which nothing else refers; an empty one if there is none. One a call: they are released in batches.
    pub fn take_list(&mut self) -> Vec<Arc<Process>> {
        let released = self.samples.iter().position(|sample| Arc::strong_count(sample) == 1);
        let sample = released.and_then(|at| self.samples.remove(at)).and_then(Arc::into_inner);
        sample.and_then(|sample| sample.tasks.ok()).map(|tasks| tasks.processes).unwrap_or_default()
    }
}

/// A list that is built in the memory of another one. An item that both have at the same place stays there.
pub struct ReusedList<T> {
    list: Vec<Arc<T>>,
    /// Items of the new list
    len: usize,
}

impl<T> ReusedList<T> {
    /// With room for that many items.
    pub fn new(mut list: Vec<Arc<T>>, capacity: usize) -> ReusedList<T> {
        list.reserve_exact(capacity.saturating_sub(list.len()));
        ReusedList { list, len: 0 }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn push(&mut self, item: Arc<T>) {
        match self.list.get_mut(self.len) {
            Some(place) => *place = item,
            None => self.list.push(item),
        }
        self.len += 1;
    }

    pub fn extend(&mut self, items: &[Arc<T>]) {
        let places = self.list.get_mut(self.len..).unwrap_or_default();
        let (reused, appended) = items.split_at(items.len().min(places.len()));
        for (place, item) in places.iter_mut().zip(reused).filter(|(place, item)| !Arc::ptr_eq(place, item)) {
            *place = Arc::clone(item);
        }
        self.list.extend_from_slice(appended);
        self.len += items.len();
    }

    pub fn finish(mut self) -> Vec<Arc<T>> {
        self.list.truncate(self.len);
        self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;

    #[test]
    fn items_that_are_in_their_places_are_not_counted_again() {
        let items: Vec<Arc<usize>> = (0..6).map(Arc::new).collect();
        let former = vec![Arc::clone(&items[0]), Arc::clone(&items[5]), Arc::clone(&items[2])];
        let mut list = ReusedList::new(former, 5);
        list.extend(&items[..2]);
        list.push(Arc::clone(&items[2]));
        list.extend(&items[3..5]);
        assert_eq!((list.len(), list.finish().as_slice()), (5, &items[..5]));
        assert!(items.iter().all(|item| Arc::strong_count(item) == 1));
        let mut shorter = ReusedList::new(items.clone(), 2);
        shorter.extend(&items[4..]);
        assert_eq!(shorter.finish(), items[4..]);
    }

    #[test]
    fn only_a_sample_that_nothing_refers_to_gives_its_list() {
        let mut held = HeldSamples::up_to(5);
        let sample = |pid: u32| synthetic::sample(1.0).processes([synthetic::process(pid, "a").build()]).shared();
        let mut samples: Vec<Arc<Sample>> = (1..6).map(sample).collect();
        samples.iter().for_each(|sample| held.hold(Arc::clone(sample)));
        assert!(held.take_list().is_empty(), "all are used");
        let process = |sample: &Sample| Arc::clone(&sample.tasks.as_ref().unwrap().processes[0]);
        let expected = [process(&samples[0]), process(&samples[2])];
        samples.remove(2);
        samples.remove(0);
        for expected in expected {
            assert!(held.take_list().iter().any(|process| Arc::ptr_eq(process, &expected)));
        }
        assert!(held.take_list().is_empty(), "each is taken once");
        assert!(samples.iter().all(|sample| Arc::strong_count(sample) == 2));
        let mut none = HeldSamples::up_to(0);
        none.hold(sample(9));
        assert!(none.take_list().is_empty());
    }
}
