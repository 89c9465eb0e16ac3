//! Which columns of a table and which of its rows are wanted, and in which order.

use regex_lite::Regex;

use super::{Cell, Head, Look, Table, Unit};

/// What of a table is shown.
pub struct Choice {
    table: &'static dyn Table,
    /// The columns that are shown, then those that rows are chosen by
    columns: Vec<usize>,
    shown: usize,
    pub heads: Vec<&'static Head>,
    /// Places in `columns`
    pid: Option<usize>,
    named: Vec<usize>,
    sorted: Option<usize>,
    wishes: Wishes,
    name: Option<Regex>,
}

/// What was asked for.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
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
    pub busy: bool,
    /// Shares of the whole box instead of one CPU
    pub of_box: bool,
}

/// All columns of a table.
const ALL: &str = "all";

impl Choice {
    /// What is wrong with the wishes, in words.
    pub fn of(table: &'static dyn Table, wishes: Wishes) -> Result<Choice, String> {
        let heads = table.heads();
        let mut columns = match wishes.columns.as_deref() {
            None => positions(&heads, |head| head.usual),
            Some(asked) => asked_for(table, &heads, asked)?,
        };
        let shown = columns.len();
        let mut also = |name: &str| -> Result<usize, String> {
            let at = find(table, &heads, name)?;
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
            let names = table.key().iter().filter(|key| heads.iter().any(|head| head.name == **key && head.unit == Unit::Name));
            for name in names {
                named.push(also(name)?);
            }
            if named.is_empty() {
                return Err(format!("the rows of '{}' have no names", table.name()));
            }
        }
        let sorted = match (&wishes.sort, wishes.top) {
            (Some(column), _) => Some(also(column)?),
            (None, Some(_)) => Some(also(table.measure())?),
            (None, None) => None,
        };
        let name = match wishes.name.as_deref().map(Regex::new) {
            Some(Err(error)) => return Err(format!("--name is no regular expression: {error}")),
            Some(Ok(name)) => Some(name),
            None => None,
        };
        let heads = columns.iter().take(shown).filter_map(|&at| heads.get(at).copied()).collect();
        Ok(Choice { table, columns, shown, heads, pid, named, sorted, wishes, name })
    }

    /// Each column once, as programs call it.
    pub fn everything(table: &'static dyn Table, busy: bool) -> Choice {
        let heads = table.heads();
        let first = |at: usize, head: &Head| heads.iter().position(|other| other.json == head.json) == Some(at);
        let columns: Vec<usize> = heads.iter().enumerate().filter(|(at, head)| first(*at, head)).map(|(at, _)| at).collect();
        let shown = columns.len();
        let heads = columns.iter().filter_map(|&at| heads.get(at).copied()).collect();
        let wishes = Wishes { busy, ..Wishes::default() };
        Choice { table, columns, shown, heads, pid: None, named: Vec::new(), sorted: None, wishes, name: None }
    }

    /// Whether some of it is sampled only on request.
    pub fn is_dear(&self) -> bool {
        let heads = self.table.heads();
        self.columns.iter().filter_map(|&at| heads.get(at)).any(|head| head.dear)
    }

    pub fn table(&self) -> &'static dyn Table {
        self.table
    }

    /// The cells of the rows that are wanted, in their order.
    pub fn rows(&self, look: &Look) -> Vec<Vec<Cell>> {
        let mut rows = self.table.rows(look, &self.columns);
        rows.retain(|row| !(self.wishes.busy && row.idle) && self.wants(&row.cells));
        let mut rows: Vec<Vec<Cell>> = rows.into_iter().map(|row| row.cells).collect();
        if let Some(at) = self.sorted {
            rows.sort_by(|a, b| order(a.get(at), b.get(at)));
        }
        rows.truncate(self.wishes.top.unwrap_or(usize::MAX));
        let box_of_cpus = look.interval.online_cpus().max(1) as f64;
        for row in &mut rows {
            row.truncate(self.shown);
            for (cell, head) in row.iter_mut().zip(&self.heads) {
                if head.unit == Unit::PercentOfCpu && self.wishes.of_box {
                    *cell = cell.map(|share| share / box_of_cpus);
                }
            }
        }
        rows
    }

    fn wants(&self, cells: &[Cell]) -> bool {
        let pid = self.pid.and_then(|at| cells.get(at)?.number());
        let has_pid = self.pid.is_none() || self.wishes.pids.iter().any(|&wanted| pid == Some(f64::from(wanted)));
        let matches =
            |name: &Regex| self.named.iter().any(|&at| matches!(cells.get(at), Some(Cell::Text(text)) if name.is_match(text)));
        has_pid && self.name.as_ref().is_none_or(matches)
    }
}

/// The largest number first, names in their order, what is not known last.
fn order(a: Option<&Cell>, b: Option<&Cell>) -> std::cmp::Ordering {
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

fn positions(heads: &[&Head], wanted: impl Fn(&Head) -> bool) -> Vec<usize> {
    heads.iter().enumerate().filter(|(_, head)| wanted(head)).map(|(at, _)| at).collect()
}

fn asked_for(table: &dyn Table, heads: &[&Head], asked: &str) -> Result<Vec<usize>, String> {
    if asked == ALL {
        return Ok(positions(heads, |_| true));
    }
    if let Some((_, names)) = table.sets().iter().find(|(name, _)| *name == asked) {
        return names.iter().map(|name| find(table, heads, name)).collect();
    }
    asked.split(',').map(|name| find(table, heads, name.trim())).collect()
}

/// By its heading, else by its name in JSON.
fn find(table: &dyn Table, heads: &[&Head], name: &str) -> Result<usize, String> {
    let by = |is: fn(&Head) -> &str| heads.iter().position(|head| is(head) == name);
    by(|head| head.name).or_else(|| by(|head| head.json)).ok_or_else(|| {
        let names: Vec<&str> = heads.iter().map(|head| head.name).collect();
        let sets: Vec<&str> = table.sets().iter().map(|(name, _)| *name).chain([ALL]).collect();
        let (table, names, kind) = (table.name(), names.join(" "), if sets.len() == 1 { "set" } else { "sets" });
        format!("'{table}' has no column '{name}': it has {names}, and the {kind} {}", sets.join(", "))
    })
}
