//! Recordings into samples: from a file in any order, from a pipe as they come.

mod frame_scan;
pub mod inspection;
pub mod replayer;
pub mod sample_decoder;
mod segment_file;
pub mod stream;
