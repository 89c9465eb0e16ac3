//! Rows as Parquet, in which empty cells take no space: all tables in one file (the wide table), or one table. Cargo feature `parquet`.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};

use super::printer::RowTime;
use super::wide_table::{COMMON_COLUMNS, ColumnType, WideColumn};
use crate::figures::Cell;

/// Rows per row group.
const ROWS_PER_GROUP: usize = 16_384;

/// What a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParquetLayout {
    /// Rows of all tables, the name of their table in a column; Snappy
    Wide,
    /// Rows of one table in the order of time; zstd
    OneTable,
}

/// A file that is being written.
pub struct ParquetWriter<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    layout: ParquetLayout,
    columns: Vec<ColumnBuffer>,
    rows: usize,
}

/// The rows of one column that are not written yet.
struct ColumnBuffer {
    values: ColumnValues,
    /// 1 where there is a value
    definition_levels: Vec<i16>,
}

enum ColumnValues {
    Text(Vec<ByteArray>),
    Integer(Vec<i64>),
    Float(Vec<f64>),
}

impl<W: Write + Send> ParquetWriter<W> {
    pub fn new(columns: &[WideColumn], layout: ParquetLayout, sink: W) -> io::Result<ParquetWriter<W>> {
        ParquetWriter::create(columns, layout, sink).map_err(io::Error::other)
    }

    /// Appends a row, in the order of `columns`.
    pub fn write_row(&mut self, time: &RowTime, table: &str, cells: &[Cell]) -> io::Result<()> {
        let end = Cell::Number((time.at.realtime_ns / 1_000) as f64);
        let mut common = vec![end, Cell::Number(time.seconds)];
        if self.layout == ParquetLayout::Wide {
            common.push(Cell::from(table));
        }
        for (column, cell) in self.columns.iter_mut().zip(common.iter().chain(cells)) {
            column.push(cell);
        }
        self.rows += 1;
        if self.rows >= ROWS_PER_GROUP { self.flush().map_err(io::Error::other) } else { Ok(()) }
    }

    /// Writes the rest and the footer; returns the sink.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush().and_then(|()| self.writer.into_inner()).map_err(io::Error::other)
    }

    fn create(columns: &[WideColumn], layout: ParquetLayout, sink: W) -> Result<ParquetWriter<W>> {
        let [time, seconds, table] = COMMON_COLUMNS;
        let mut types = vec![timestamp_type(time)?, leaf_type(seconds, ColumnType::Float)?];
        let mut kinds = vec![ColumnType::Integer, ColumnType::Float];
        if layout == ParquetLayout::Wide {
            types.push(leaf_type(table, ColumnType::Text)?);
            kinds.push(ColumnType::Text);
        }
        for column in columns {
            types.push(leaf_type(column.name, column.kind)?);
            kinds.push(column.kind);
        }
        let schema = Arc::new(Type::group_type_builder("stalltop").with_fields(types).build()?);
        let properties = match layout {
            ParquetLayout::Wide => WriterProperties::builder().set_compression(Compression::SNAPPY),
            ParquetLayout::OneTable => {
                let by_time = SortingColumn { column_idx: 0, descending: false, nulls_first: false };
                let properties = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default()));
                properties.set_sorting_columns(Some(vec![by_time]))
            }
        };
        let writer = SerializedFileWriter::new(sink, schema, Arc::new(properties.build()))?;
        Ok(ParquetWriter { writer, layout, columns: kinds.into_iter().map(ColumnBuffer::new).collect(), rows: 0 })
    }

    fn flush(&mut self) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = self.writer.next_row_group()?;
        for column in &mut self.columns {
            column.write(&mut group)?;
        }
        self.rows = 0;
        group.close().map(|_| ())
    }
}

impl ColumnBuffer {
    fn new(kind: ColumnType) -> ColumnBuffer {
        let values = match kind {
            ColumnType::Text => ColumnValues::Text(Vec::new()),
            ColumnType::Integer => ColumnValues::Integer(Vec::new()),
            ColumnType::Float => ColumnValues::Float(Vec::new()),
        };
        ColumnBuffer { values, definition_levels: Vec::new() }
    }

    fn push(&mut self, cell: &Cell) {
        let is_there = match (&mut self.values, cell) {
            (ColumnValues::Text(values), Cell::Text(text)) => {
                values.push(ByteArray::from(text.as_str()));
                true
            }
            (ColumnValues::Integer(values), Cell::Number(number) | Cell::Bound(_, number)) => {
                values.push(*number as i64);
                true
            }
            (ColumnValues::Float(values), Cell::Number(number) | Cell::Bound(_, number)) => {
                values.push(*number);
                true
            }
            _ => false,
        };
        self.definition_levels.push(i16::from(is_there));
    }

    fn write<W: Write + Send>(&mut self, group: &mut SerializedRowGroupWriter<'_, W>) -> Result<()> {
        let Some(mut column) = group.next_column()? else { return Ok(()) };
        let levels = Some(self.definition_levels.as_slice());
        match &mut self.values {
            ColumnValues::Text(values) => {
                column.typed::<ByteArrayType>().write_batch(values, levels, None)?;
                values.clear();
            }
            ColumnValues::Integer(values) => {
                column.typed::<Int64Type>().write_batch(values, levels, None)?;
                values.clear();
            }
            ColumnValues::Float(values) => {
                column.typed::<DoubleType>().write_batch(values, levels, None)?;
                values.clear();
            }
        }
        self.definition_levels.clear();
        column.close()
    }
}

fn leaf_type(name: &str, kind: ColumnType) -> Result<TypePtr> {
    let (physical, logical) = match kind {
        ColumnType::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        ColumnType::Integer => (Physical::INT64, None),
        ColumnType::Float => (Physical::DOUBLE, None),
    };
    let leaf = Type::primitive_type_builder(name, physical).with_repetition(Repetition::OPTIONAL);
    leaf.with_logical_type(logical).build().map(Arc::new)
}

/// Microseconds after 1970 in UTC.
fn timestamp_type(name: &str) -> Result<TypePtr> {
    let logical = LogicalType::timestamp(true, TimeUnit::MICROS);
    let leaf = Type::primitive_type_builder(name, Physical::INT64).with_repetition(Repetition::OPTIONAL);
    leaf.with_logical_type(Some(logical)).build().map(Arc::new)
}
