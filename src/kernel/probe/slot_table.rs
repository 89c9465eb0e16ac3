//! A table of numbers and their slots, which this process fills in and an eBPF program searches: `places` in assets/probe.

use std::os::fd::BorrowedFd;

use rustc_hash::FxHashMap;

use super::map_words::join_halves;
use crate::kernel::sys::SharedWords;

/// The table, and the slots that are free.
#[derive(Debug)]
pub struct SlotTable {
    /// Of each place the first word is number and slot, or 0 where there is none
    places: SharedWords,
    words_per_place: usize,
    /// Slot of each number, and the first word of its place
    known: FxHashMap<u32, (u32, usize)>,
    free_slots: Vec<u32>,
    next_slot: u32,
    slots: u32,
}

/// `MAX_PROBES` in the programs
const MAX_PROBES: usize = 8;

/// What a number that is added gets.
#[derive(Clone, Copy, Debug)]
pub struct NewSlot<'a> {
    pub slot: u32,
    /// Another number has had the slot
    pub was_used: bool,
    words: &'a SharedWords,
    /// Its first word
    place: usize,
}

impl NewSlot<'_> {
    /// Writes one value to the first `count` words of its place that are the program's.
    pub fn fill(&self, count: usize, value: u64) {
        self.words.fill(self.place + 1..self.place + 1 + count, value);
    }
}

impl SlotTable {
    /// The table in the memory of a map with so many places of one word. Slots are below `slots`.
    pub fn map(map: BorrowedFd, places: usize, slots: u32) -> nix::Result<SlotTable> {
        SlotTable::map_wide(map, places, 1, slots)
    }

    /// The same with places of several words: those after the first are the program's.
    pub fn map_wide(map: BorrowedFd, places: usize, words_per_place: usize, slots: u32) -> nix::Result<SlotTable> {
        let places = SharedWords::map(map, places * words_per_place)?;
        Ok(SlotTable { places, words_per_place, known: FxHashMap::default(), free_slots: Vec::new(), next_slot: 0, slots })
    }

    /// The slot of a number that was added.
    pub fn slot(&self, number: u32) -> Option<u32> {
        self.known.get(&number).map(|&(slot, _)| slot)
    }

    /// The numbers that were added, and their slots.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32)> {
        self.known.iter().map(|(&number, &(slot, _))| (number, slot))
    }

    /// Adds a number, which is searched from the place `hash` on, and returns its slot; `None` without a free slot or place. `prepare` is
    /// called for a number that is new, before the program can find it.
    pub fn add(&mut self, number: u32, hash: u32, prepare: impl FnOnce(NewSlot<'_>)) -> Option<u32> {
        if let Some(slot) = self.slot(number) {
            return Some(slot);
        }
        let places = (self.places.len() / self.words_per_place.max(1)).max(1);
        let mut probes = (0..MAX_PROBES).map(|probe| (hash as usize + probe) % places * self.words_per_place);
        let place = probes.find(|&place| self.places.get(place) == 0)?;
        let freed = self.free_slots.pop();
        let slot = freed.or_else(|| {
            let slot = self.next_slot;
            self.next_slot += u32::from(slot < self.slots);
            (slot < self.slots).then_some(slot)
        })?;
        prepare(NewSlot { slot, was_used: freed.is_some(), words: &self.places, place });
        self.places.set(place, join_halves(number, slot));
        self.known.insert(number, (slot, place));
        Some(slot)
    }

    /// Removes a number; its slot is free then.
    pub fn remove(&mut self, number: u32) {
        if let Some((slot, place)) = self.known.remove(&number) {
            self.places.set(place, 0);
            self.free_slots.push(slot);
        }
    }

    /// Removes the numbers that do not satisfy `keep`.
    pub fn retain(&mut self, keep: impl Fn(u32) -> bool) {
        let gone: Vec<u32> = self.known.keys().copied().filter(|&number| !keep(number)).collect();
        gone.into_iter().for_each(|number| self.remove(number));
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    const PLACES: usize = 16;
    const WORDS: usize = 3;

    /// A table in a file, and the words that a program would see.
    fn table(slots: u32) -> (SlotTable, SharedWords) {
        let file = tempfile::tempfile().unwrap();
        file.set_len((PLACES * WORDS * 8) as u64).unwrap();
        let words = SharedWords::map(file.as_fd(), PLACES * WORDS).unwrap();
        (SlotTable::map_wide(file.as_fd(), PLACES, WORDS, slots).unwrap(), words)
    }

    #[test]
    fn numbers_of_one_hash_are_in_places_one_after_another() {
        let (mut table, words) = table(8);
        assert_eq!([70, 71].map(|number| table.add(number, 15, |new| new.fill(1, 9))), [Some(0), Some(1)]);
        assert_eq!([15 * WORDS, 15 * WORDS + 1, 15 * WORDS + 2].map(|at| words.get(at)), [join_halves(70, 0), 9, 0]);
        assert_eq!(words.get(0), join_halves(71, 1), "behind the last place is the first");
        assert_eq!(table.add(70, 15, |_| panic!("it is not new")), Some(0));
    }

    #[test]
    fn a_slot_that_is_free_again_is_used_again() {
        let (mut table, words) = table(2);
        let mut added = Vec::new();
        (1..=2).for_each(|number| {
            table.add(number, number, |new| added.push((new.slot, new.was_used)));
        });
        assert_eq!(table.add(3, 3, |_| panic!("there is no slot")), None);
        table.remove(1);
        assert_eq!((words.get(WORDS), table.slot(1)), (0, None));
        table.add(3, 3, |new| added.push((new.slot, new.was_used)));
        assert_eq!(added, [(0, false), (1, false), (0, true)]);
        table.retain(|number| number == 3);
        assert_eq!(table.iter().collect::<Vec<_>>(), [(3, 0)]);
    }
}
