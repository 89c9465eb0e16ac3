//! A table of numbers and their slots, which this process fills in and an eBPF program searches: `places` in assets/probe.

use std::os::fd::BorrowedFd;

use rustc_hash::FxHashMap;

use super::map_words::join_halves;
use crate::kernel::sys::SharedWords;

/// The table, and the slots that are free.
#[derive(Debug)]
pub struct SlotTable {
    /// Number and slot, each place in one word; 0 where there is none
    places: SharedWords,
    /// Slot and place of each number
    known: FxHashMap<u32, (u32, usize)>,
    free_slots: Vec<u32>,
    next_slot: u32,
    slots: u32,
}

/// `MAX_PROBES` in the programs
pub const MAX_PROBES: usize = 8;

impl SlotTable {
    /// The table in the memory of a map with so many places. Slots are below `slots`.
    pub fn map(map: BorrowedFd, places: usize, slots: u32) -> nix::Result<SlotTable> {
        let places = SharedWords::map(map, places)?;
        Ok(SlotTable { places, known: FxHashMap::default(), free_slots: Vec::new(), next_slot: 0, slots })
    }

    /// The slot of a number that was added.
    pub fn slot(&self, number: u32) -> Option<u32> {
        self.known.get(&number).map(|&(slot, _)| slot)
    }

    /// The numbers that were added, and their slots.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32)> {
        self.known.iter().map(|(&number, &(slot, _))| (number, slot))
    }

    /// Adds a number, which is searched from the place `hash` on. Its slot, if it is new, for which `clear` is called before; `None`
    /// without a free slot or place.
    pub fn add(&mut self, number: u32, hash: u32, clear: impl FnOnce(u32)) -> Option<u32> {
        if let Some(slot) = self.slot(number) {
            return Some(slot);
        }
        let probes = (0..MAX_PROBES).map(|probe| (hash as usize + probe) % self.places.len().max(1));
        let place = probes.into_iter().find(|&place| self.places.get(place) == 0)?;
        let slot = self.free_slots.pop().or_else(|| {
            let slot = self.next_slot;
            self.next_slot += u32::from(slot < self.slots);
            (slot < self.slots).then_some(slot)
        })?;
        clear(slot);
        self.places.set(place, join_halves(number, slot));
        self.known.insert(number, (slot, place));
        Some(slot)
    }

    /// Removes the numbers that do not satisfy `keep`.
    pub fn retain(&mut self, keep: impl Fn(u32) -> bool) {
        let (places, free_slots) = (&self.places, &mut self.free_slots);
        self.known.retain(|&number, &mut (slot, place)| {
            let kept = keep(number);
            if !kept {
                places.set(place, 0);
                free_slots.push(slot);
            }
            kept
        });
    }
}
