//! The object files of the eBPF programs, which are in this program compressed: 145 KB less.

use super::LoadError;

/// A compressed object file.
#[derive(Debug)]
pub struct ObjectFile(&'static [u8]);

/// Rows of threads that wait for a lock, and programs that note for which ones.
pub const TASKS: ObjectFile = ObjectFile(include_bytes!("../../../../assets/probe/tasks.bpf.o.zst"));
/// Counts block requests.
pub const BLOCK: ObjectFile = ObjectFile(include_bytes!("../../../../assets/probe/block.bpf.o.zst"));
/// Count operations of file systems.
pub const FILE_SYSTEMS: ObjectFile = ObjectFile(include_bytes!("../../../../assets/probe/file_systems.bpf.o.zst"));
/// Counts waits for a CPU.
pub const RUN_QUEUE: ObjectFile = ObjectFile(include_bytes!("../../../../assets/probe/run_queue.bpf.o.zst"));
/// Count queries.
pub const QUERY: ObjectFile = ObjectFile(include_bytes!("../../../../assets/probe/query.bpf.o.zst"));
/// Which thread wakes which.
pub const WAKES: ObjectFile = ObjectFile(include_bytes!("../../../../assets/probe/wakes.bpf.o.zst"));
/// Which thread was woken last at a futex.
pub const LOCK_WAKERS: ObjectFile = ObjectFile(include_bytes!("../../../../assets/probe/lock_wakers.bpf.o.zst"));
/// Copy what the kernel keeps of threads, to find its layout.
pub const TASK_LAYOUT: ObjectFile = ObjectFile(include_bytes!("../../../../assets/probe/task_layout.bpf.o.zst"));

impl ObjectFile {
    /// The bytes of the file.
    pub fn decompress(&self) -> Result<Vec<u8>, LoadError> {
        zstd::decode_all(self.0).map_err(LoadError::Decompress)
    }
}
