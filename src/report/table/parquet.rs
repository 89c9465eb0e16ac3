//! The wide table as Parquet: a column that is mostly empty costs nothing there. Cargo feature `parquet`.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};

use super::Cell;
use super::printer::Stamp;
use super::sheet::{COMMON, Field, Kind};

/// Rows that are written together.
const GROUP: usize = 16_384;

/// A file that is being written.
pub struct Parquet<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    columns: Vec<Column>,
    rows: usize,
}

/// The rows of one column that are not written yet.
struct Column {
    values: Values,
    /// 1 where there is a value
    levels: Vec<i16>,
}

enum Values {
    Text(Vec<ByteArray>),
    Whole(Vec<i64>),
    Number(Vec<f64>),
}

impl<W: Write + Send> Parquet<W> {
    pub fn new(fields: &[Field], sink: W) -> io::Result<Parquet<W>> {
        Parquet::create(fields, sink).map_err(io::Error::other)
    }

    /// One row; cells as `fields` were.
    pub fn row(&mut self, stamp: &Stamp, table: &str, cells: &[Cell]) -> io::Result<()> {
        let time = Cell::Number((stamp.at.realtime_ns / 1_000) as f64);
        let common = [time, Cell::Number(stamp.seconds), Cell::from(table)];
        for (column, cell) in self.columns.iter_mut().zip(common.iter().chain(cells)) {
            column.push(cell);
        }
        self.rows += 1;
        if self.rows >= GROUP { self.flush().map_err(io::Error::other) } else { Ok(()) }
    }

    /// The rest, and the footer.
    pub fn finish(mut self) -> io::Result<()> {
        self.flush().and_then(|()| self.writer.close().map(|_| ())).map_err(io::Error::other)
    }

    fn create(fields: &[Field], sink: W) -> Result<Parquet<W>> {
        let [time, seconds, table] = COMMON;
        let mut types = vec![moment(time)?, leaf(seconds, Kind::Number)?, leaf(table, Kind::Text)?];
        for field in fields {
            types.push(leaf(field.name, field.kind)?);
        }
        let schema = Arc::new(Type::group_type_builder("stalltop").with_fields(types).build()?);
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let writer = SerializedFileWriter::new(sink, schema, Arc::new(properties))?;
        let kinds = [Kind::Whole, Kind::Number, Kind::Text].into_iter().chain(fields.iter().map(|field| field.kind));
        Ok(Parquet { writer, columns: kinds.map(Column::new).collect(), rows: 0 })
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

impl Column {
    fn new(kind: Kind) -> Column {
        let values = match kind {
            Kind::Text => Values::Text(Vec::new()),
            Kind::Whole => Values::Whole(Vec::new()),
            Kind::Number => Values::Number(Vec::new()),
        };
        Column { values, levels: Vec::new() }
    }

    fn push(&mut self, cell: &Cell) {
        let is_there = match (&mut self.values, cell) {
            (Values::Text(values), Cell::Text(text)) => {
                values.push(ByteArray::from(text.as_str()));
                true
            }
            (Values::Whole(values), Cell::Number(number) | Cell::Bound(_, number)) => {
                values.push(*number as i64);
                true
            }
            (Values::Number(values), Cell::Number(number) | Cell::Bound(_, number)) => {
                values.push(*number);
                true
            }
            _ => false,
        };
        self.levels.push(i16::from(is_there));
    }

    fn write<W: Write + Send>(&mut self, group: &mut SerializedRowGroupWriter<'_, W>) -> Result<()> {
        let Some(mut column) = group.next_column()? else { return Ok(()) };
        let levels = Some(self.levels.as_slice());
        match &mut self.values {
            Values::Text(values) => {
                column.typed::<ByteArrayType>().write_batch(values, levels, None)?;
                values.clear();
            }
            Values::Whole(values) => {
                column.typed::<Int64Type>().write_batch(values, levels, None)?;
                values.clear();
            }
            Values::Number(values) => {
                column.typed::<DoubleType>().write_batch(values, levels, None)?;
                values.clear();
            }
        }
        self.levels.clear();
        column.close()
    }
}

fn leaf(name: &str, kind: Kind) -> Result<TypePtr> {
    let (physical, logical) = match kind {
        Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        Kind::Whole => (Physical::INT64, None),
        Kind::Number => (Physical::DOUBLE, None),
    };
    let leaf = Type::primitive_type_builder(name, physical).with_repetition(Repetition::OPTIONAL);
    leaf.with_logical_type(logical).build().map(Arc::new)
}

/// Microseconds after 1970 in UTC.
fn moment(name: &str) -> Result<TypePtr> {
    let logical = LogicalType::timestamp(true, TimeUnit::MICROS);
    let leaf = Type::primitive_type_builder(name, Physical::INT64).with_repetition(Repetition::OPTIONAL);
    leaf.with_logical_type(Some(logical)).build().map(Arc::new)
}
