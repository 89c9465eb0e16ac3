//! Reading recordings: from files in any order, from pipes in sequence, in parallel.

pub mod damage;
pub mod decoder;
mod frame_scan;
pub mod growth;
pub mod inspection;
pub mod parallel;
pub mod replayer;
mod row_changes;
pub mod sample_decoder;
mod segment_file;
pub mod stream;
