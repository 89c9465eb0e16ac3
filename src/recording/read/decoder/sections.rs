//! The sections of a frame's payload, and the changes of the table in each.

use crate::recording::format::schema::{LISTS, MAX_SECTIONS, PROCESSES, SAMPLE, SUB_SAMPLE_WAITS, THREADS};
use crate::recording::format::table::{MAX_CHAIN_CELLS, Table};
use crate::recording::format::wire::{ByteReader, Malformed};
use crate::recording::read::row_changes::RowChanges;

/// The sections of a payload by their numbers. Sections that only a later version has are ignored.
pub struct SectionDirectory<'a> {
    list: [Option<&'a [u8]>; MAX_SECTIONS],
}

impl<'a> SectionDirectory<'a> {
    pub fn parse(raw: &'a [u8]) -> Result<SectionDirectory<'a>, Malformed> {
        let mut input = ByteReader::new(raw);
        let mut sections = SectionDirectory { list: [None; MAX_SECTIONS] };
        while !input.is_empty() {
            let number = input.read_varint()?;
            let section = input.read_length_prefixed()?;
            let place = usize::try_from(number).ok().and_then(|number| sections.list.get_mut(number));
            if place.is_some_and(|place| place.replace(section).is_some()) {
                return Err(Malformed("a section comes twice"));
            }
        }
        Ok(sections)
    }

    pub fn section(&self, number: u64) -> Option<&'a [u8]> {
        usize::try_from(number).ok().and_then(|number| self.list.get(number).copied()?)
    }

    /// Refuses tables that are too large together before any of them is read: all are in memory at once.
    pub fn check_size(&self) -> Result<(), Malformed> {
        let mut cells = 0usize;
        let tables = LISTS.iter().map(|list| list.table).chain([SAMPLE, SUB_SAMPLE_WAITS, PROCESSES, THREADS]);
        for (table, section) in tables.filter_map(|table| Some((table, self.section(table.section)?))) {
            cells = cells.saturating_add(RowChanges::claimed_cells(table, section)?);
        }
        if cells > MAX_CHAIN_CELLS { Err(Malformed("the tables of a frame hold too much together")) } else { Ok(()) }
    }

    /// What became of the rows of a table; `None` where all are the same.
    pub fn changes(&self, table: Table, cells: &mut usize) -> Result<Option<RowChanges>, Malformed> {
        let Some(section) = self.section(table.section) else { return Ok(None) };
        let changes = RowChanges::parse(table, section)?;
        *cells += changes.cell_count();
        Ok(Some(changes))
    }
}
