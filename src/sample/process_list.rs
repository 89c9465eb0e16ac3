//! The processes of a sample, in blocks that samples share.
//!
//! From one sample to the next few processes change. A block without a change is the same allocation in both lists: it is neither
//! copied when the next list is made, nor compared when the two are paired. With 20 of 2,000 processes busy `report` takes 7 % less
//! CPU time than with one list, and a scan copies no list.

use std::ops::Range;
use std::sync::Arc;

use super::task::Process;

/// Processes sorted by pid. A copy shares all blocks.
#[derive(Clone, Default)]
pub struct ProcessList {
    /// None is empty
    blocks: Vec<Block>,
}

#[derive(Clone)]
struct Block {
    /// Place of its first process in the list
    start: usize,
    processes: Arc<[Arc<Process>]>,
}

/// Processes of a new block. Larger ones share less, smaller ones are more to copy.
const BLOCK: usize = 16;

/// A block of at least this many processes remains one when the next list is made.
const MIN_BLOCK: usize = 8;

impl Block {
    fn end(&self) -> usize {
        self.start + self.processes.len()
    }
}

impl ProcessList {
    pub fn len(&self) -> usize {
        self.blocks.last().map_or(0, Block::end)
    }

    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The process at a place of the list.
    pub fn get(&self, place: usize) -> Option<&Arc<Process>> {
        let block = self.block_of(place)?;
        block.processes.get(place - block.start)
    }

    /// The same to be changed; its block is copied first if another list shares it.
    pub fn get_mut(&mut self, place: usize) -> Option<&mut Arc<Process>> {
        let at = self.blocks.partition_point(|block| block.end() <= place);
        let block = self.blocks.get_mut(at)?;
        Arc::make_mut(&mut block.processes).get_mut(place - block.start)
    }

    /// The process with this pid.
    pub fn find(&self, pid: u32) -> Option<&Arc<Process>> {
        let is_before = |block: &Block| block.processes.last().is_some_and(|last| last.pid < pid);
        let block = self.blocks.get(self.blocks.partition_point(is_before))?;
        let at = block.processes.binary_search_by_key(&pid, |process| process.pid).ok()?;
        block.processes.get(at)
    }

    pub fn iter(&self) -> ProcessCursor<'_> {
        self.cursor()
    }

    /// Keeps the processes for which `keep` is true.
    pub fn retain(&mut self, mut keep: impl FnMut(&Process) -> bool) {
        *self = self.iter().filter(|process| keep(process)).cloned().collect();
    }

    /// A position at the first process.
    pub fn cursor(&self) -> ProcessCursor<'_> {
        ProcessCursor { list: self, block: 0, offset: 0 }
    }

    /// The next list after this one, made of these processes. Shares the blocks whose processes are all the same allocations.
    pub fn updated<'a>(&self, processes: impl Iterator<Item = &'a Arc<Process>>) -> ProcessList {
        let mut builder = ProcessListBuilder::new(self);
        let mut older = self.cursor();
        let mut kept = 0..0;
        for process in processes {
            while older.next_if(|old| old.pid < process.pid).is_some() {}
            let place = older.place();
            let old = older.next_if(|old| old.pid == process.pid);
            let is_kept = old.is_some_and(|old| Arc::ptr_eq(old, process));
            if is_kept && kept.end == place {
                kept.end += 1;
                continue;
            }
            builder.keep(std::mem::replace(&mut kept, if is_kept { place..place + 1 } else { 0..0 }));
            if !is_kept {
                builder.push(Arc::clone(process), old.map(|_| place));
            }
        }
        builder.keep(kept);
        builder.finish()
    }

    fn block_of(&self, place: usize) -> Option<&Block> {
        self.blocks.get(self.blocks.partition_point(|block| block.end() <= place))
    }
}

impl PartialEq for ProcessList {
    fn eq(&self, other: &ProcessList) -> bool {
        self.iter().eq(other.iter())
    }
}

impl std::fmt::Debug for ProcessList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// They must be sorted by pid.
impl FromIterator<Arc<Process>> for ProcessList {
    fn from_iter<T: IntoIterator<Item = Arc<Process>>>(processes: T) -> ProcessList {
        let nothing = ProcessList::default();
        let mut builder = ProcessListBuilder::new(&nothing);
        processes.into_iter().for_each(|process| builder.push(process, None));
        builder.finish()
    }
}

impl From<Vec<Arc<Process>>> for ProcessList {
    fn from(processes: Vec<Arc<Process>>) -> ProcessList {
        processes.into_iter().collect()
    }
}

impl<'a> IntoIterator for &'a ProcessList {
    type Item = &'a Arc<Process>;
    type IntoIter = ProcessCursor<'a>;

    fn into_iter(self) -> ProcessCursor<'a> {
        self.cursor()
    }
}

#[cfg(test)]
impl std::ops::Index<usize> for ProcessList {
    type Output = Arc<Process>;

    fn index(&self, place: usize) -> &Arc<Process> {
        self.get(place).unwrap()
    }
}

/// Makes a list from an older one and its changes, in the order of pids.
pub struct ProcessListBuilder<'a> {
    older: &'a ProcessList,
    /// The block of `older` that the last kept or replaced process was in
    at: usize,
    blocks: Vec<Block>,
    /// Processes of the block that is being made
    pending: Vec<Arc<Process>>,
    /// Processes in `blocks`
    len: usize,
}

impl<'a> ProcessListBuilder<'a> {
    pub fn new(older: &'a ProcessList) -> ProcessListBuilder<'a> {
        let (blocks, pending) = (Vec::with_capacity(older.blocks.len() + 1), Vec::with_capacity(2 * BLOCK));
        ProcessListBuilder { older, at: 0, blocks, pending, len: 0 }
    }

    /// Number of processes so far.
    pub fn len(&self) -> usize {
        self.len + self.pending.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the processes at these places of the older list. Places must ascend; those behind its end are left out.
    pub fn keep(&mut self, places: Range<usize>) {
        let mut place = places.start;
        while place < places.end {
            let Some(block) = self.block_of(place) else { return };
            if place == block.start && self.pending.len() >= MIN_BLOCK {
                self.flush();
            }
            let whole = self.pending.is_empty() && place == block.start && block.end() <= places.end;
            let is_last = self.at + 1 == self.older.blocks.len();
            if whole && (is_last || block.processes.len() >= MIN_BLOCK) {
                self.blocks.push(Block { start: self.len, processes: Arc::clone(&block.processes) });
                self.len += block.processes.len();
                place = block.end();
                continue;
            }
            let end = block.end().min(places.end);
            self.pending.extend_from_slice(block.processes.get(place - block.start..end - block.start).unwrap_or_default());
            place = end;
            self.end_block(place == block.end());
        }
    }

    /// Appends a process that is new, or has changed: then `old` is its place in the older list.
    pub fn push(&mut self, process: Arc<Process>, old: Option<usize>) {
        self.pending.push(process);
        let ends = old.is_some_and(|old| self.block_of(old).is_some_and(|block| block.end() == old + 1));
        self.end_block(ends);
    }

    pub fn finish(mut self) -> ProcessList {
        self.flush();
        ProcessList { blocks: self.blocks }
    }

    /// The block of a place of the older list that is not before that of the last call.
    fn block_of(&mut self, place: usize) -> Option<&'a Block> {
        let rest = self.older.blocks.get(self.at..).unwrap_or_default();
        self.at += rest.iter().take_while(|block| block.end() <= place).count();
        self.older.blocks.get(self.at)
    }

    /// Blocks end where those of the older list do: the next ones can be shared again.
    fn end_block(&mut self, older_ends: bool) {
        let enough = match self.older.is_empty() {
            true => BLOCK,
            false if older_ends => MIN_BLOCK,
            false => 2 * BLOCK,
        };
        if self.pending.len() >= enough {
            self.flush();
        }
    }

    fn flush(&mut self) {
        while !self.pending.is_empty() {
            let count = if self.pending.len() > 2 * BLOCK { BLOCK } else { self.pending.len() };
            let block = Block { start: self.len, processes: self.pending.drain(..count).collect() };
            self.blocks.push(block);
            self.len += count;
        }
    }
}

/// A position in a list that only moves forward.
#[derive(Clone)]
pub struct ProcessCursor<'a> {
    list: &'a ProcessList,
    block: usize,
    /// In the block, below its length
    offset: usize,
}

impl<'a> ProcessCursor<'a> {
    /// Place of the next process in its list.
    pub fn place(&self) -> usize {
        self.list.blocks.get(self.block).map_or(self.list.len(), |block| block.start + self.offset)
    }

    /// The next process.
    pub fn peek(&self) -> Option<&'a Arc<Process>> {
        self.list.blocks.get(self.block)?.processes.get(self.offset)
    }

    /// Passes the next process if `is` is true for it.
    pub fn next_if(&mut self, is: impl FnOnce(&Process) -> bool) -> Option<&'a Arc<Process>> {
        let process = self.peek().filter(|process| is(process))?;
        self.offset += 1;
        self.skip_end_of_block();
        Some(process)
    }

    /// Passes the processes with which both lists go on: the same allocations, so that nothing changed in them. Returns how many.
    pub fn pass_shared(&mut self, other: &mut ProcessCursor<'_>) -> usize {
        let start = self.place();
        while let (Some(one), Some(two)) = (self.list.blocks.get(self.block), other.list.blocks.get(other.block)) {
            if self.offset == other.offset && Arc::ptr_eq(&one.processes, &two.processes) {
                (self.block, self.offset) = (self.block + 1, 0);
                (other.block, other.offset) = (other.block + 1, 0);
                continue;
            }
            let (rest, others) = (one.processes.get(self.offset..), two.processes.get(other.offset..));
            let (rest, others) = (rest.unwrap_or_default(), others.unwrap_or_default());
            let same = rest.iter().zip(others).take_while(|(one, two)| Arc::ptr_eq(one, two)).count();
            self.offset += same;
            other.offset += same;
            let all = same == rest.len() || same == others.len();
            self.skip_end_of_block();
            other.skip_end_of_block();
            if !all {
                break;
            }
        }
        self.place() - start
    }

    fn skip_end_of_block(&mut self) {
        if self.list.blocks.get(self.block).is_some_and(|block| self.offset >= block.processes.len()) {
            (self.block, self.offset) = (self.block + 1, 0);
        }
    }
}

impl<'a> Iterator for ProcessCursor<'a> {
    type Item = &'a Arc<Process>;

    fn next(&mut self) -> Option<&'a Arc<Process>> {
        self.next_if(|_| true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;

    fn process(pid: u32) -> Arc<Process> {
        Arc::new(synthetic::process(pid, "sh").build())
    }

    fn shared_blocks(one: &ProcessList, two: &ProcessList) -> usize {
        let is_in_both = |block: &&Block| two.blocks.iter().any(|other| Arc::ptr_eq(&other.processes, &block.processes));
        one.blocks.iter().filter(is_in_both).count()
    }

    fn assert_places(list: &ProcessList, expected: &[Arc<Process>]) {
        assert_eq!(list.len(), expected.len());
        assert!(list.iter().zip(expected).all(|(found, expected)| Arc::ptr_eq(found, expected)));
        for (place, process) in expected.iter().enumerate() {
            assert!(Arc::ptr_eq(list.get(place).unwrap(), process) && Arc::ptr_eq(list.find(process.pid).unwrap(), process));
        }
        assert!(list.get(expected.len()).is_none() && list.find(u32::MAX).is_none());
        assert!(list.blocks.iter().all(|block| (1..=2 * BLOCK).contains(&block.processes.len())));
    }

    #[test]
    fn only_blocks_with_a_change_are_made_anew() {
        let mut processes: Vec<_> = (1..=400).map(|number| process(number * 10)).collect();
        let first: ProcessList = processes.iter().cloned().collect();
        assert_places(&first, &processes);
        let again = first.updated(processes.iter());
        assert_eq!(shared_blocks(&first, &again), first.blocks.len());
        processes[37] = process(380);
        processes.insert(205, process(2055));
        processes.remove(100);
        let next = again.updated(processes.iter());
        assert_places(&next, &processes);
        assert_eq!(shared_blocks(&first, &next), first.blocks.len() - 3);
        assert_ne!(first, next);
    }

    #[test]
    fn a_list_remains_right_while_processes_come_and_go() {
        let mut dice = 1u64;
        let mut roll = |end: usize| {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (dice >> 33) as usize % end
        };
        let mut processes: Vec<_> = (1..=300).map(|number| process(number * 1000)).collect();
        let mut list: ProcessList = processes.iter().cloned().collect();
        for _ in 0..300 {
            for _ in 0..roll(20) {
                let at = roll(processes.len());
                match roll(3) {
                    0 => processes[at] = process(processes[at].pid),
                    1 if processes.len() > 50 => drop(processes.remove(at)),
                    _ => {
                        let pid = processes[at].pid + 1;
                        if processes.get(at + 1).is_none_or(|next| next.pid > pid) {
                            processes.insert(at + 1, process(pid));
                        }
                    }
                }
            }
            let next = list.updated(processes.iter());
            assert_places(&next, &processes);
            let (mut old, mut new) = (list.cursor(), next.cursor());
            let mut shared = 0;
            loop {
                shared += old.pass_shared(&mut new);
                let (Some(before), Some(after)) = (old.peek(), new.peek()) else { break };
                if before.pid <= after.pid {
                    old.next();
                }
                if after.pid <= before.pid {
                    new.next();
                }
            }
            let kept = list.iter().filter(|process| next.find(process.pid).is_some_and(|same| Arc::ptr_eq(process, same)));
            assert_eq!(shared, kept.count());
            list = next;
        }
        assert!(list.blocks.len() <= list.len() / MIN_BLOCK + 2, "the blocks do not crumble");
    }

    #[test]
    fn a_changed_process_leaves_the_list_it_was_shared_with() {
        let list: ProcessList = (1..=40).map(process).collect();
        let mut copy = list.clone();
        Arc::make_mut(copy.get_mut(20).unwrap()).resident_pages = 7;
        assert_eq!((list[20].resident_pages, copy[20].resident_pages), (0, 7));
        copy.retain(|process| process.pid % 2 == 0);
        assert_eq!((copy.len(), list.len()), (20, 40));
    }
}
