//! Reads what is missing while a stack is unwound: tables of files, and mappings that were added. All that is kept of processes and files
//! has one limit of memory; other processes are forgotten first.

use rustc_hash::FxHashMap;

use super::code_files::CodeFiles;
use super::process_space::ProcessSpace;
use crate::kernel::clock::thread_cpu_ns;

/// Kept in memory: tables, functions, mappings and names, those of perf maps included.
pub const MAX_BYTES: usize = 64 << 20;
/// Files whose tables are kept
const MAX_FILES: usize = 256;

pub struct TableLoader<'a> {
    files: &'a mut CodeFiles,
    /// The processes beside the one whose stack is unwound, by pid
    others: &'a mut FxHashMap<u32, ProcessSpace>,
    buffer: &'a mut Vec<u8>,
    /// Whether the budget permits to read files.
    may_read: bool,
    /// Something was not read for want of budget.
    pub is_incomplete: bool,
    /// CPU time of what is read once
    pub once_ns: u64,
}

impl<'a> TableLoader<'a> {
    pub fn new(
        files: &'a mut CodeFiles,
        others: &'a mut FxHashMap<u32, ProcessSpace>,
        buffer: &'a mut Vec<u8>,
        may_read: bool,
    ) -> TableLoader<'a> {
        TableLoader { files, others, buffer, may_read, is_incomplete: false, once_ns: 0 }
    }

    /// Reads the tables of the file with an address.
    pub fn load(&mut self, space: &mut ProcessSpace, address: u64) {
        if !self.may_read {
            self.is_incomplete = true;
            return;
        }
        let before_ns = thread_cpu_ns();
        space.load(self.files, address);
        if !self.make_room(space) {
            space.refuse(address);
            self.files.forget_unused();
        }
        self.once_ns += thread_cpu_ns().saturating_sub(before_ns);
    }

    /// Reads the mappings again, if that was not done a short time ago. Whether they changed.
    pub fn refresh(&mut self, space: &mut ProcessSpace) -> bool {
        let before_ns = thread_cpu_ns();
        let has_changed = self.may_read && space.refresh(self.files.root(), self.buffer);
        self.once_ns += thread_cpu_ns().saturating_sub(before_ns);
        has_changed
    }

    /// The names of functions, a line each.
    pub fn names(&mut self, space: &mut ProcessSpace, addresses: &[u64]) -> String {
        // Those of the first ones were forgotten if the mappings were read again.
        for &address in addresses {
            if !space.is_loaded(address) {
                self.load(space, address);
            }
        }
        let before_ns = thread_cpu_ns();
        let mut text = String::new();
        for &address in addresses {
            if self.may_read {
                space.refresh_perf_map(self.files.root(), address);
            }
            text.push_str(&space.name(address));
            text.push('\n');
        }
        if !self.make_room(space) {
            space.forget_names();
        }
        self.once_ns += thread_cpu_ns().saturating_sub(before_ns);
        text
    }

    /// Whether all fits in memory, if need be without other processes, which are forgotten.
    pub fn make_room(&mut self, space: &ProcessSpace) -> bool {
        let is_large = |loader: &TableLoader| {
            let others: usize = loader.others.values().map(ProcessSpace::bytes).sum();
            loader.files.count() > MAX_FILES || loader.files.bytes() + space.bytes() + others > MAX_BYTES
        };
        if is_large(self) {
            self.others.clear();
            self.files.forget_unused();
        }
        !is_large(self)
    }
}
