//! Selects columns and rows of a table, and sorts the rows.

use regex_lite::Regex;

use crate::figures::{Cell, ColumnDefinition, FigureInput, TABLES, Table, Unit};
use crate::units::{SmallSort, similar::did_you_mean};

/// The columns and rows of a table that are shown.
pub struct ResolvedSelection {
    table: &'static dyn Table,
    /// Indices into the table's columns: those that are shown, then those by which rows are selected or sorted
    column_indices: Vec<usize>,
    /// Those that are shown
    pub columns: Vec<&'static ColumnDefinition>,
    /// Indices into `column_indices`
    pid_cell: Option<usize>,
    name_cells: Vec<usize>,
    sort_cell: Option<usize>,
    selection: ColumnSelection,
    name_pattern: Option<Regex>,
}

/// A selection as the command line has it.
#[derive(Clone, Debug, Default)]
pub struct ColumnSelection {
    /// Titles or keys with commas between them, or the name of a set; `None`: the columns that are shown by default
    pub columns: Option<String>,
    /// Sorts by this column: numbers descending, names ascending
    pub sort: Option<String>,
    /// The first rows in the order of `sort`, or of the table's default column
    pub top: Option<usize>,
    /// Rows of these processes; empty: all
    pub pids: Vec<u32>,
    /// A regular expression that a row's name matches
    pub name: Option<String>,
    /// Without rows that had no activity
    pub without_idle: bool,
    /// Shares of one CPU become shares of all CPUs
    pub divide_by_cpus: bool,
}

/// All columns of a table.
const ALL_COLUMNS: &str = "all";

impl ResolvedSelection {
    /// An error says what is wrong with the selection.
    pub fn resolve(table: &'static dyn Table, selection: ColumnSelection) -> Result<ResolvedSelection, String> {
        let shown = match selection.columns.as_deref() {
            None => table.columns().into_iter().filter(|column| column.shown_by_default).collect(),
            Some(names) => parse_columns(table, names)?,
        };
        let mut resolved = ResolvedSelection::new(table, shown, selection);
        if !resolved.selection.pids.is_empty() {
            let column = table.pid_column().ok_or("-p is for the tables of tasks and threads")?;
            resolved.pid_cell = resolved.cell_of(column);
        }
        if let Some(pattern) = &resolved.selection.name {
            let pattern = Regex::new(pattern).map_err(|error| format!("--name is no regular expression: {error}"))?;
            resolved.name_pattern = Some(pattern);
            for column in table.key_columns().into_iter().filter(|column| column.unit == Unit::Name) {
                let cell = resolved.cell_of(column);
                resolved.name_cells.extend(cell);
            }
            if resolved.name_cells.is_empty() {
                let named = TABLES.iter().filter(|table| table.key_columns().iter().any(|column| column.unit == Unit::Name));
                let named: Vec<&str> = named.map(|table| table.name()).collect();
                return Err(format!("the rows of '{}' have no names: those of {} have", table.name(), named.join(", ")));
            }
        }
        let sort = match (&resolved.selection.sort, resolved.selection.top) {
            (Some(name), _) => Some(find_column(table, name, &[])?),
            (None, Some(_)) => Some(table.default_sort()),
            (None, None) => None,
        };
        resolved.sort_cell = sort.and_then(|column| resolved.cell_of(column));
        Ok(resolved)
    }

    /// All columns, each key once.
    pub fn all_columns(table: &'static dyn Table, without_idle: bool) -> ResolvedSelection {
        let mut columns: Vec<&'static ColumnDefinition> = Vec::new();
        for column in table.columns() {
            if !columns.iter().any(|known| known.key == column.key) {
                columns.push(column);
            }
        }
        ResolvedSelection::new(table, columns, ColumnSelection { without_idle, ..ColumnSelection::default() })
    }

    fn new(
        table: &'static dyn Table,
        columns: Vec<&'static ColumnDefinition>,
        selection: ColumnSelection,
    ) -> ResolvedSelection {
        let column_indices = columns.iter().filter_map(|column| table.column_index(column)).collect();
        ResolvedSelection {
            table,
            column_indices,
            columns,
            pid_cell: None,
            name_cells: Vec::new(),
            sort_cell: None,
            selection,
            name_pattern: None,
        }
    }

    /// The cell of a column in each row; the column is added if it is not shown.
    fn cell_of(&mut self, column: &ColumnDefinition) -> Option<usize> {
        let index = self.table.column_index(column)?;
        Some(self.column_indices.iter().position(|&known| known == index).unwrap_or_else(|| {
            self.column_indices.push(index);
            self.column_indices.len() - 1
        }))
    }

    /// Whether one of the columns is sampled only on request.
    pub fn is_expensive(&self) -> bool {
        let columns = self.table.columns();
        self.column_indices.iter().filter_map(|&index| columns.get(index)).any(|column| column.expensive)
    }

    pub fn table(&self) -> &'static dyn Table {
        self.table
    }

    /// The cells of the selected rows.
    pub fn rows(&self, input: &FigureInput) -> Vec<Vec<Cell>> {
        let mut rows = self.table.rows(input, &self.column_indices);
        rows.retain(|row| !(self.selection.without_idle && row.idle) && self.matches(&row.cells));
        let mut rows: Vec<Vec<Cell>> = rows.into_iter().map(|row| row.cells).collect();
        if let Some(index) = self.sort_cell {
            rows.small_sort_by(|a, b| compare_cells(a.get(index), b.get(index)));
        }
        rows.truncate(self.selection.top.unwrap_or(usize::MAX));
        let cpus = input.interval.online_cpus().max(1) as f64;
        for row in &mut rows {
            row.truncate(self.columns.len());
            for (cell, column) in row.iter_mut().zip(&self.columns) {
                if column.unit == Unit::PercentOfCpu && self.selection.divide_by_cpus {
                    *cell = cell.map_number(|share| share / cpus);
                }
            }
        }
        rows
    }

    fn matches(&self, cells: &[Cell]) -> bool {
        let pid = self.pid_cell.and_then(|index| cells.get(index)?.number());
        let has_pid = self.pid_cell.is_none() || self.selection.pids.iter().any(|&wanted| pid == Some(f64::from(wanted)));
        let matches = |name: &Regex| {
            self.name_cells.iter().any(|&index| matches!(cells.get(index), Some(Cell::Text(text)) if name.is_match(text)))
        };
        has_pid && self.name_pattern.as_ref().is_none_or(matches)
    }
}

/// Numbers descending, names ascending, unknown values last.
fn compare_cells(a: Option<&Cell>, b: Option<&Cell>) -> std::cmp::Ordering {
    if let Some((a, b)) = a.and_then(Cell::number).zip(b.and_then(Cell::number)) {
        return b.total_cmp(&a);
    }
    match (a, b) {
        (Some(Cell::Text(a)), Some(Cell::Text(b))) => a.cmp(b),
        (a, b) => {
            let unknown = |cell: Option<&Cell>| matches!(cell, None | Some(Cell::Unknown));
            unknown(a).cmp(&unknown(b))
        }
    }
}

fn parse_columns(table: &dyn Table, names: &str) -> Result<Vec<&'static ColumnDefinition>, String> {
    if names == ALL_COLUMNS {
        return Ok(table.columns());
    }
    if let Some((_, columns)) = table.column_sets().into_iter().find(|(name, _)| *name == names) {
        return Ok(columns);
    }
    // The name of a set stands alone.
    let mut sets = Vec::new();
    if !names.contains(',') {
        sets.push(ALL_COLUMNS);
        sets.extend(table.column_sets().into_iter().map(|(name, _)| name));
    }
    names.split(',').map(|name| find_column(table, name.trim(), &sets)).collect()
}

/// By its title, else by its key. `sets`: other names that may have been meant.
fn find_column(table: &dyn Table, name: &str, sets: &[&str]) -> Result<&'static ColumnDefinition, String> {
    let columns = table.columns();
    let by = |field: fn(&ColumnDefinition) -> &str| columns.iter().copied().find(|column| field(column) == name);
    by(|column| column.title).or_else(|| by(|column| column.key)).ok_or_else(|| {
        let known = columns.iter().flat_map(|column| [column.title, column.key]).chain(sets.iter().copied());
        let mut remedy = did_you_mean(name, known);
        if remedy.is_empty() {
            remedy = ": --columns all shows all, docs/tables.md explains them".to_owned();
        }
        format!("'{}' has no column '{name}'{remedy}", table.name())
    })
}
