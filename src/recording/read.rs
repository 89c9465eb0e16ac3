//! Recordings into samples: from a file in any order, from a pipe as they come.

pub mod inspect;
mod part;
pub mod samples;
pub mod segments;
pub mod stream;
mod walk;
