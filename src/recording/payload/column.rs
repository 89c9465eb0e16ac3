//! Tables column by column, cell by cell, bit by bit. Knows nothing of what a cell means.

pub mod bits;
pub mod changes;
pub mod choice;
pub mod columns;
pub mod forms;
pub mod gathered;
pub mod table;
