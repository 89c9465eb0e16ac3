//! The tables of the catalogue as text: selection of columns and rows, and output formats. Nothing is printed here.

mod csv_format;
mod docs;
mod event_rows;
#[cfg(feature = "parquet")]
mod parquet;
mod printer;
mod resource_usage;
mod run_total;
mod selection;
mod wide_table;

pub use docs::tables_page;
pub use event_rows::{FINDING_COLUMNS, MARK_COLUMNS, finding_cells, mark_cells};
#[cfg(feature = "parquet")]
pub use parquet::{ParquetLayout, ParquetWriter};
pub use printer::{Format, Headings, Printer, RowTime};
pub use resource_usage::ResourceUsage;
pub use run_total::{EvaluatedRun, RunTotal};
pub use selection::{ColumnSelection, ResolvedSelection};
pub use wide_table::{WideColumn, WideTable, columns_of};

#[cfg(test)]
mod tests;
