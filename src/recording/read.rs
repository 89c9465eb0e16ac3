//! Reading recordings: from files in any order or ahead, from pipes in sequence.

pub mod damage;
pub mod decode_ahead;
pub mod decoder;
mod frame_scan;
pub mod growth;
pub mod inspection;
pub mod replayer;
mod reused_list;
mod row_changes;
pub mod sample_decoder;
mod segment_file;
pub mod stream;
