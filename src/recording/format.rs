//! The binary format of a recording, for writers and readers: file header, frames, and the payload of a sample as sections of
//! tables (docs/recording-format.md).

pub mod column;
pub mod columns;
pub mod compression;
pub mod file_header;
pub mod frame;
pub mod frame_summary;
pub mod index;
pub mod messages;
pub mod meta;
pub mod names;
pub mod references;
pub mod schema;
pub mod shared_facts;
pub mod table;
pub mod wire;
