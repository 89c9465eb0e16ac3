//! Widgets: they draw numbers and text without knowledge of the screens.

pub mod bar;
pub mod graph;
pub mod sparkline;
pub mod table;
