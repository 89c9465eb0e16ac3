//! ratatui widgets that ratatui lacks; they draw numbers, and know no screen.

pub mod area_graph;
pub mod bar;
pub mod gradient;
pub mod graph;
pub mod heat_map;
pub mod log_graph;
pub mod range_column;
pub mod sparkline;
pub mod stacked_area;
pub mod time_cursor;
