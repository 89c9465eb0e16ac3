//! Samples into recordings: to a disk that may fail, or in memory.

pub mod copy;
pub mod framer;
pub mod recorder;
pub mod tape;
