//! The object files of the eBPF programs (assets/probe). They are embedded compressed: the released binary has 145 KB less.

use super::LoadError;

/// A compressed object file.
#[derive(Debug)]
pub struct ObjectFile(&'static [u8]);

/// The iterator over threads that wait for kernel locks, and the programs that note for which ones
pub const TASKS: ObjectFile = ObjectFile(include_bytes!("../../../../assets/probe/tasks.bpf.o.zst"));
/// Latencies of block requests
pub const BLOCK: ObjectFile = ObjectFile(include_bytes!("../../../../assets/probe/block.bpf.o.zst"));
/// Operations of file systems
pub const FILE_SYSTEMS: ObjectFile = ObjectFile(include_bytes!("../../../../assets/probe/file_systems.bpf.o.zst"));
/// Waits for a CPU
pub const RUN_QUEUE: ObjectFile = ObjectFile(include_bytes!("../../../../assets/probe/run_queue.bpf.o.zst"));
/// Queries of database servers
pub const QUERY: ObjectFile = ObjectFile(include_bytes!("../../../../assets/probe/query.bpf.o.zst"));
/// Which thread wakes which
pub const WAKES: ObjectFile = ObjectFile(include_bytes!("../../../../assets/probe/wakes.bpf.o.zst"));
/// Which thread was woken last at a futex
pub const LOCK_WAKERS: ObjectFile = ObjectFile(include_bytes!("../../../../assets/probe/lock_wakers.bpf.o.zst"));
/// Copies of what the kernel keeps of threads, from which its layout is found
pub const TASK_LAYOUT: ObjectFile = ObjectFile(include_bytes!("../../../../assets/probe/task_layout.bpf.o.zst"));

impl ObjectFile {
    /// The bytes of the file.
    pub fn decompress(&self) -> Result<Vec<u8>, LoadError> {
        zstd::decode_all(self.0).map_err(LoadError::Decompress)
    }
}
