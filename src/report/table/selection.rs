//! Which columns of a table and which of its rows are wanted, and in which order.

use regex_lite::Regex;

use crate::figures::{Cell, ColumnDefinition, FigureInput, Table, Unit};

/// What of a table is shown.
pub struct ResolvedSelection {
    table: &'static dyn Table,
    /// The columns that are shown, then those that rows are chosen by
    column_indices: Vec<usize>,
    shown_count: usize,
    pub columns: Vec<&'static ColumnDefinition>,
    /// Places in `columns`
    pid_cell: Option<usize>,
    name_cells: Vec<usize>,
    sort_cell: Option<usize>,
    selection: ColumnSelection,
    name_pattern: Option<Regex>,
}

/// What was asked for.
#[derive(Clone, Debug, Default)]
pub struct ColumnSelection {
    /// Headings, names in JSON, or the name of a set, with commas between them; `None` is the usual ones
    pub columns: Option<String>,
    /// The largest of this column first, names in their order
    pub sort: Option<String>,
    /// So many rows, the foremost by `sort` or by what matters most in the table
    pub top: Option<usize>,
    /// Processes
    pub pids: Vec<u32>,
    /// A regular expression on what the rows are called
    pub name: Option<String>,
    /// Without rows on which nothing happened
    pub without_idle: bool,
    /// Shares of all CPUs instead of one CPU
    pub divide_by_cpus: bool,
}

/// All columns of a table.
const ALL_COLUMNS: &str = "all";

impl ResolvedSelection {
    /// An error describes what is wrong with the selection.
    pub fn resolve(table: &'static dyn Table, wishes: ColumnSelection) -> Result<ResolvedSelection, String> {
        let heads = table.columns();
        let mut columns = match wishes.columns.as_deref() {
            None => column_positions(&heads, |head| head.shown_by_default),
            Some(asked) => parse_columns(table, &heads, asked)?,
        };
        let shown = columns.len();
        let mut also = |name: &str| -> Result<usize, String> {
            let at = find_column(table, &heads, name)?;
            Ok(columns.iter().position(|&column| column == at).unwrap_or_else(|| {
                columns.push(at);
                columns.len() - 1
            }))
        };
        let pid = match wishes.pids.is_empty() {
            true => None,
            false => Some(also("PID").map_err(|_| "-p is for the tables of tasks and threads".to_owned())?),
        };
        let mut named = Vec::new();
        if wishes.name.is_some() {
            let names = table
                .key_columns()
                .iter()
                .filter(|key| heads.iter().any(|head| head.title == **key && head.unit == Unit::Name));
            for name in names {
                named.push(also(name)?);
            }
            if named.is_empty() {
                return Err(format!("the rows of '{}' have no names", table.name()));
            }
        }
        let sorted = match (&wishes.sort, wishes.top) {
            (Some(column), _) => Some(also(column)?),
            (None, Some(_)) => Some(also(table.default_sort())?),
            (None, None) => None,
        };
        let name = match wishes.name.as_deref().map(Regex::new) {
            Some(Err(error)) => return Err(format!("--name is no regular expression: {error}")),
            Some(Ok(name)) => Some(name),
            None => None,
        };
        let heads = columns.iter().take(shown).filter_map(|&at| heads.get(at).copied()).collect();
        Ok(ResolvedSelection {
            table,
            column_indices: columns,
            shown_count: shown,
            columns: heads,
            pid_cell: pid,
            name_cells: named,
            sort_cell: sorted,
            selection: wishes,
            name_pattern: name,
        })
    }

    /// Each column once, as programs call it.
    pub fn all_columns(table: &'static dyn Table, busy: bool) -> ResolvedSelection {
        let heads = table.columns();
        let first = |at: usize, head: &ColumnDefinition| heads.iter().position(|other| other.key == head.key) == Some(at);
        let columns: Vec<usize> = heads.iter().enumerate().filter(|(at, head)| first(*at, head)).map(|(at, _)| at).collect();
        let shown = columns.len();
        let heads = columns.iter().filter_map(|&at| heads.get(at).copied()).collect();
        let wishes = ColumnSelection { without_idle: busy, ..ColumnSelection::default() };
        ResolvedSelection {
            table,
            column_indices: columns,
            shown_count: shown,
            columns: heads,
            pid_cell: None,
            name_cells: Vec::new(),
            sort_cell: None,
            selection: wishes,
            name_pattern: None,
        }
    }

    /// Whether some of it is sampled only on request.
    pub fn is_expensive(&self) -> bool {
        let heads = self.table.columns();
        self.column_indices.iter().filter_map(|&at| heads.get(at)).any(|head| head.expensive)
    }

    pub fn table(&self) -> &'static dyn Table {
        self.table
    }

    /// The cells of the rows that are wanted, in their order.
    pub fn rows(&self, look: &FigureInput) -> Vec<Vec<Cell>> {
        let mut rows = self.table.rows(look, &self.column_indices);
        rows.retain(|row| !(self.selection.without_idle && row.idle) && self.matches(&row.cells));
        let mut rows: Vec<Vec<Cell>> = rows.into_iter().map(|row| row.cells).collect();
        if let Some(at) = self.sort_cell {
            rows.sort_by(|a, b| compare_cells(a.get(at), b.get(at)));
        }
        rows.truncate(self.selection.top.unwrap_or(usize::MAX));
        let box_of_cpus = look.interval.online_cpus().max(1) as f64;
        for row in &mut rows {
            row.truncate(self.shown_count);
            for (cell, head) in row.iter_mut().zip(&self.columns) {
                if head.unit == Unit::PercentOfCpu && self.selection.divide_by_cpus {
                    *cell = cell.map_number(|share| share / box_of_cpus);
                }
            }
        }
        rows
    }

    fn matches(&self, cells: &[Cell]) -> bool {
        let pid = self.pid_cell.and_then(|at| cells.get(at)?.number());
        let has_pid = self.pid_cell.is_none() || self.selection.pids.iter().any(|&wanted| pid == Some(f64::from(wanted)));
        let matches = |name: &Regex| {
            self.name_cells.iter().any(|&at| matches!(cells.get(at), Some(Cell::Text(text)) if name.is_match(text)))
        };
        has_pid && self.name_pattern.as_ref().is_none_or(matches)
    }
}

/// The largest number first, names in their order, what is not known last.
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

fn column_positions(heads: &[&ColumnDefinition], wanted: impl Fn(&ColumnDefinition) -> bool) -> Vec<usize> {
    heads.iter().enumerate().filter(|(_, head)| wanted(head)).map(|(at, _)| at).collect()
}

fn parse_columns(table: &dyn Table, heads: &[&ColumnDefinition], asked: &str) -> Result<Vec<usize>, String> {
    if asked == ALL_COLUMNS {
        return Ok(column_positions(heads, |_| true));
    }
    if let Some((_, names)) = table.column_sets().iter().find(|(name, _)| *name == asked) {
        return names.iter().map(|name| find_column(table, heads, name)).collect();
    }
    asked.split(',').map(|name| find_column(table, heads, name.trim())).collect()
}

/// By its heading, else by its name in JSON.
fn find_column(table: &dyn Table, heads: &[&ColumnDefinition], name: &str) -> Result<usize, String> {
    let by = |is: fn(&ColumnDefinition) -> &str| heads.iter().position(|head| is(head) == name);
    by(|head| head.title).or_else(|| by(|head| head.key)).ok_or_else(|| {
        let names: Vec<&str> = heads.iter().map(|head| head.title).collect();
        let sets: Vec<&str> = table.column_sets().iter().map(|(name, _)| *name).chain([ALL_COLUMNS]).collect();
        let (table, names, kind) = (table.name(), names.join(" "), if sets.len() == 1 { "set" } else { "sets" });
        format!("'{table}' has no column '{name}': it has {names}, and the {kind} {}", sets.join(", "))
    })
}
