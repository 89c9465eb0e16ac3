//! The sections of a payload by their numbers, and the tables in them.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::column::bits::BitSource;
use super::column::changes::{BITS, Changes};
use super::column::forms::{Forms, Role};
use super::column::table::{Rows, Table};
use super::encode::MAX_CELLS_ON_THE_WAY;
use super::layout::PayloadLayout;
use super::schema;
use super::strings;
use crate::recording::wire::{ByteReader, Malformed};
use crate::sample::Name;

/// Unknown ones are skipped.
pub struct Sections<'a> {
    layout: PayloadLayout,
    list: [Option<&'a [u8]>; 64],
    /// Of `Layout::Forms`: the tables, all read at once since their bits stand one behind the other.
    ready: RefCell<BTreeMap<u64, Changes>>,
    /// What holds after this frame.
    forms: Arc<Forms>,
}

impl<'a> Sections<'a> {
    /// `forms`: those of the frame that it refers to.
    pub fn of(raw: &'a [u8], layout: PayloadLayout, forms: Arc<Forms>, changed: Role) -> Result<Sections<'a>, Malformed> {
        let mut input = ByteReader::new(raw);
        let mut sections = Sections { layout, list: [None; 64], ready: RefCell::default(), forms };
        let mut order = Vec::new();
        while !input.is_empty() {
            let number = input.read_varint()?;
            let section = input.read_length_prefixed()?;
            let place = usize::try_from(number).ok().and_then(|number| sections.list.get_mut(number));
            match place.map(|place| place.replace(section)) {
                Some(Some(_)) => return Err(Malformed("a section comes twice")),
                _ if layout != PayloadLayout::Forms || APART.contains(&number) => {}
                _ => order.push((number, section)),
            }
        }
        if layout == PayloadLayout::Forms {
            sections.read_tables(&order, changed)?;
        }
        Ok(sections)
    }

    fn read_tables(&mut self, order: &[(u64, &[u8])], changed: Role) -> Result<(), Malformed> {
        if let Some(section) = self.section(schema::FORMS) {
            Arc::make_mut(&mut self.forms).read(section)?;
        }
        let mut bits = BitSource::new(self.section(schema::BITS).unwrap_or_default());
        let mut ready = BTreeMap::new();
        let mut cells = 0;
        for &(number, section) in order {
            // Of a table that only a later version knows there are no columns here, but bits to pass over.
            let table = schema::table(number).unwrap_or(Table { section: number, width: 0, keys: 0, steps: 0, fresh: None });
            let changes = Changes::read(table, section, &self.forms, changed, &mut bits)?;
            cells += changes.cells();
            // They are all held at once.
            if cells > MAX_CELLS_ON_THE_WAY {
                return Err(Malformed("the tables of a frame hold too much together"));
            }
            if ready.insert(number, changes).is_some() {
                return Err(Malformed("a section comes twice"));
            }
        }
        if !bits.is_empty() {
            return Err(Malformed("there are more bits than tables"));
        }
        self.ready = RefCell::new(ready);
        Ok(())
    }

    pub fn layout(&self) -> PayloadLayout {
        self.layout
    }

    pub fn forms(&self) -> &Arc<Forms> {
        &self.forms
    }

    fn section(&self, number: u64) -> Option<&'a [u8]> {
        usize::try_from(number).ok().and_then(|number| self.list.get(number).copied()?)
    }

    pub fn names(&self, known: &HashSet<Name>) -> Result<Vec<Name>, Malformed> {
        match self.section(schema::NAMES) {
            Some(section) => strings::read(section, known),
            None => Ok(Vec::new()),
        }
    }

    /// What happened to a table, once; `None` where nothing did.
    pub fn changes(&self, table: Table, cells: &mut usize) -> Result<Option<Changes>, Malformed> {
        let changes = if self.layout == PayloadLayout::Forms {
            self.ready.borrow_mut().remove(&table.section)
        } else {
            let bits = self.section(table.section + BITS).unwrap_or_default();
            let read = |section| Changes::read_before(table, self.layout, section, bits);
            self.section(table.section).map(read).transpose()?
        };
        *cells += changes.as_ref().map_or(0, Changes::cells);
        Ok(changes)
    }

    /// A table that needs nothing but its rows; one that is left out did not change.
    pub fn rows(&self, table: Table, reference: Option<&Rows>, cells: &mut usize) -> Result<Rows, Malformed> {
        let empty = Rows::new(table.width);
        let reference = reference.unwrap_or(&empty);
        match self.changes(table, cells)? {
            Some(changes) => changes.rows(reference),
            None => Ok(reference.clone()),
        }
    }
}

/// Sections that are no tables.
const APART: [u64; 3] = [schema::NAMES, schema::FORMS, schema::BITS];
