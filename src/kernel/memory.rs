//! Reads /proc/meminfo and /proc/vmstat, each field by its name: kernels differ in which fields they have.

use super::fields::{lines, parse_u32, parse_u64, words};
use super::root::{FileHandle, Root};
use crate::sample::memory::{Memory, MemoryNode};
use crate::sample::pressure::Pressure;
use crate::sample::{Absent, Reading};
use crate::units::Counter;

/// Reads memory counters; keeps both files open.
#[derive(Debug)]
pub struct MemoryReader {
    meminfo: FileHandle,
    vmstat: FileHandle,
    buffer: Vec<u8>,
}

impl Default for MemoryReader {
    fn default() -> MemoryReader {
        MemoryReader { meminfo: FileHandle::new("proc/meminfo"), vmstat: FileHandle::new("proc/vmstat"), buffer: Vec::new() }
    }
}

impl MemoryReader {
    /// Reads both files. Fields of a file that cannot be read are `None`; if none is known there is no reading.
    pub fn sample(&mut self, root: &Root) -> Reading<Memory> {
        let mut memory = Memory::default();
        let meminfo = self.meminfo.read(root, &mut self.buffer);
        if meminfo.is_ok() {
            parse_meminfo(&self.buffer, &mut memory);
        }
        if self.vmstat.read(root, &mut self.buffer).is_ok() {
            parse_vmstat(&self.buffer, &mut memory);
        }
        if memory == Memory::default() { Err(meminfo.err().unwrap_or(Absent::Malformed)) } else { Ok(memory) }
    }
}

/// PSI memory (avg10, per cent) from which the nodes are read: below the threshold of memory-pressure, since the average lags behind.
const MIN_NODE_PRESSURE: f32 = 5.0;

/// Nodes that are read.
const MAX_NODES: usize = 64;

/// The NUMA nodes while tasks wait for memory; empty otherwise, and with a single node.
pub fn nodes_under_pressure(root: &Root, pressure: &Pressure) -> Vec<MemoryNode> {
    let some = pressure.memory.ok().and_then(|stall| stall.some);
    if some.is_some_and(|line| line.avg10 >= MIN_NODE_PRESSURE) { read_nodes(root) } else { Vec::new() }
}

fn read_nodes(root: &Root) -> Vec<MemoryNode> {
    let directory = "sys/devices/system/node";
    let entries = root.list_directory(directory).unwrap_or_default();
    let number = |entry: &std::ffi::OsString| parse_u32(entry.as_encoded_bytes().strip_prefix(b"node")?);
    let mut numbers: Vec<u32> = entries.iter().filter_map(number).collect();
    if numbers.len() < 2 {
        return Vec::new();
    }
    numbers.sort_unstable();
    let read = |node: u32| parse_node(node, &root.read_once(format!("{directory}/node{node}/meminfo")).ok()?);
    numbers.into_iter().take(MAX_NODES).filter_map(read).collect()
}

/// Parses the meminfo of a node: `Node 0 MemTotal:       12345 kB`. `None` without the fields that every kernel has.
fn parse_node(node: u32, bytes: &[u8]) -> Option<MemoryNode> {
    let field = |of: &[u8]| {
        lines(bytes).find_map(|line| {
            let mut words = words(line).skip(2);
            (words.next() == Some(of)).then(|| parse_u64(words.next()?)).flatten()
        })
    };
    Some(MemoryNode {
        node,
        total_kb: field(b"MemTotal:")?,
        free_kb: field(b"MemFree:")?,
        file_kb: field(b"Active(file):")?.saturating_add(field(b"Inactive(file):")?),
        slab_reclaimable_kb: field(b"SReclaimable:")?,
    })
}

/// Parses /proc/meminfo: `MemTotal:       12345 kB`. A line in another unit is left out.
pub fn parse_meminfo(bytes: &[u8], memory: &mut Memory) {
    // Nearly half of the lines have an initial that no field in use has: they are skipped unparsed.
    for line in lines(bytes).filter(|line| matches!(line, [b'M' | b'B' | b'C' | b'S' | b'D' | b'W', ..])) {
        let mut words = words(line);
        let (Some(name), Some(amount), Some(b"kB")) = (words.next(), words.next(), words.next()) else { continue };
        let field = match name {
            b"MemTotal:" => &mut memory.total_kb,
            b"MemFree:" => &mut memory.free_kb,
            b"MemAvailable:" => &mut memory.available_kb,
            b"Buffers:" => &mut memory.buffers_kb,
            b"Cached:" => &mut memory.cached_kb,
            b"Shmem:" => &mut memory.shmem_kb,
            b"SReclaimable:" => &mut memory.slab_reclaimable_kb,
            b"SUnreclaim:" => &mut memory.slab_unreclaimable_kb,
            b"SwapTotal:" => &mut memory.swap_total_kb,
            b"SwapFree:" => &mut memory.swap_free_kb,
            b"Dirty:" => &mut memory.dirty_kb,
            b"Writeback:" => &mut memory.writeback_kb,
            _ => continue,
        };
        *field = parse_u64(amount);
    }
}

/// Parses /proc/vmstat.
pub fn parse_vmstat(bytes: &[u8], memory: &mut Memory) {
    let mut scanned_kswapd = ZoneSum::default();
    let mut scanned_direct = ZoneSum::default();
    let mut reclaimed_kswapd = ZoneSum::default();
    let mut reclaimed_direct = ZoneSum::default();
    let mut stalls = ZoneSum::default();
    let (mut refaults, mut refaults_anon, mut refaults_file) = (None, None, None);
    for line in lines(bytes) {
        // Most lines have an initial that no field in use has: they only complete a sum.
        if !matches!(line, [b'p' | b'a' | b'c' | b'o' | b't' | b'w', ..]) && !line.starts_with(b"nr_dirty_") {
            let sums = [&mut scanned_kswapd, &mut scanned_direct, &mut reclaimed_kswapd, &mut reclaimed_direct, &mut stalls];
            sums.into_iter().for_each(ZoneSum::mark_complete);
            continue;
        }
        let mut words = words(line);
        let (Some(name), Some(value)) = (words.next(), words.next().map(parse_u64)) else { continue };
        scanned_kswapd.add_line(name, b"pgscan_kswapd", value);
        scanned_direct.add_line(name, b"pgscan_direct", value);
        reclaimed_kswapd.add_line(name, b"pgsteal_kswapd", value);
        reclaimed_direct.add_line(name, b"pgsteal_direct", value);
        stalls.add_line(name, b"allocstall", value);
        match name {
            b"nr_dirty_threshold" => memory.dirty_threshold_pages = value,
            b"nr_dirty_background_threshold" => memory.dirty_background_threshold_pages = value,
            _ => {}
        }
        let field = match name {
            b"pswpin" => &mut memory.swapped_in_pages,
            b"pswpout" => &mut memory.swapped_out_pages,
            b"pgpgin" => &mut memory.paged_in_kb,
            b"pgpgout" => &mut memory.paged_out_kb,
            b"pgfault" => &mut memory.faults,
            b"pgmajfault" => &mut memory.major_faults,
            b"thp_fault_fallback" => &mut memory.thp_fault_fallbacks,
            b"compact_stall" => &mut memory.compaction_stalls,
            b"oom_kill" => &mut memory.oom_kills,
            b"workingset_refault" => &mut refaults,
            b"workingset_refault_anon" => &mut refaults_anon,
            b"workingset_refault_file" => &mut refaults_file,
            _ => continue,
        };
        *field = value.map(Counter);
    }
    memory.scanned_kswapd_pages = scanned_kswapd.total();
    memory.scanned_direct_pages = scanned_direct.total();
    memory.reclaimed_pages = checked_sum(reclaimed_kswapd.total(), reclaimed_direct.total());
    memory.refaulted_pages = refaults.or_else(|| checked_sum(refaults_anon, refaults_file));
    memory.allocation_stalls = stalls.total();
}

/// The sum of two counters; `None` when one is missing, since one alone would be wrong.
pub(super) fn checked_sum(one: Option<Counter>, other: Option<Counter>) -> Option<Counter> {
    Some(Counter(one?.0.checked_add(other?.0)?))
}

/// A counter that newer kernels have once and older ones once a memory zone (`pgscan_kswapd_dma32` before 4.8).
/// The zones' lines are adjacent: the sum is complete only when another line follows them.
#[derive(Default)]
struct ZoneSum {
    sum: Option<u64>,
    is_complete: bool,
    is_invalid: bool,
}

impl ZoneSum {
    fn add_line(&mut self, name: &[u8], of: &[u8], value: Option<u64>) {
        // Only the zones' suffixes: `pgscan_direct_throttle` is another counter.
        let zone = name.strip_prefix(of);
        if let Some(b"" | b"_dma" | b"_dma32" | b"_normal" | b"_high" | b"_movable" | b"_device") = zone {
            match value.and_then(|value| self.sum.unwrap_or(0).checked_add(value)) {
                Some(sum) => self.sum = Some(sum),
                None => self.is_invalid = true,
            }
        } else {
            self.mark_complete();
        }
    }

    /// A line of another counter follows.
    fn mark_complete(&mut self) {
        self.is_complete |= self.sum.is_some();
    }

    fn total(&self) -> Option<Counter> {
        self.sum.filter(|_| self.is_complete && !self.is_invalid).map(Counter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc_tree::ProcTree;
    use crate::sample::pressure::{Stall, StallLine};

    #[test]
    fn nodes_are_read_only_while_tasks_wait_for_memory() {
        let tree = ProcTree::empty();
        let put = |node: &str, text: &str| tree.write(format!("sys/devices/system/node/{node}/meminfo"), text);
        put(
            "node0",
            "Node 0 MemTotal: 1000 kB\nNode 0 MemFree: 10 kB\nNode 0 Active(file): 3 kB\nNode 0 Inactive(file): 4 kB\nNode 0 SReclaimable: 5 kB\n",
        );
        let waiting = |avg10: f32| {
            let line = StallLine { avg10, ..StallLine::default() };
            let memory = Ok(Stall { some: Some(line), full: None });
            nodes_under_pressure(&tree.root(), &Pressure { memory, ..Pressure::absent(Absent::NotRead) })
        };
        assert_eq!(waiting(50.0), [], "a single node");
        put("node1", "Node 1 MemTotal: 1000 kB\nNode 1 MemFree: 900 kB\n");
        put(
            "node2",
            "Node 2 MemTotal: 2 kB\nNode 2 MemFree: 1 kB\nNode 2 Active(file): 0 kB\nNode 2 Inactive(file): 0 kB\nNode 2 SReclaimable: 1 kB\n",
        );
        let full = MemoryNode { node: 0, total_kb: 1000, free_kb: 10, file_kb: 7, slab_reclaimable_kb: 5 };
        let small = MemoryNode { node: 2, total_kb: 2, free_kb: 1, file_kb: 0, slab_reclaimable_kb: 1 };
        assert_eq!(waiting(50.0), [full, small], "one that is damaged is left out");
        assert_eq!(waiting(4.0), []);
    }
}
