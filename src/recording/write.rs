//! Writing recordings: to files and pipes that may fail, or in memory.

pub mod copier;
pub mod encoder;
pub mod frame_writer;
pub mod history_ring;
pub mod recorder;
pub mod row_diff;
