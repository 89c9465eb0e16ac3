//! Shapes that know cells and numbers, and nothing of what they stand for.

pub mod bar;
pub mod graph;
pub mod sparkline;
pub mod table;
