//! What stands around payloads: the file's header and those of its frames, small frames, the index, and what damage does to them.

pub mod damage;
pub mod frame;
pub mod frame_summary;
pub mod header;
pub mod index;
pub mod meta;
