//! A sample as the bytes of a frame's payload, and back: tables of cells, a dictionary of names, messages for what is rare.

pub mod cells;
mod column;
pub mod compression;
pub mod decode;
pub mod encode;
pub mod facts;
pub mod layout;
mod predicted;
mod schema;
pub mod sections;
mod strings;
