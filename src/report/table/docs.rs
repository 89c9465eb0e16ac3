//! docs/tables.md, generated from the catalogue.

use std::fmt::Write;

use crate::figures::{Aggregation, ColumnDefinition, TABLES};

/// How to use the tables, and how they differ from the tools whose column names they use.
const INTRODUCTION: &str = include_str!("page.md");

/// The whole page; a test fails if the file in docs/ differs.
pub fn tables_page() -> String {
    let mut page = String::from(INTRODUCTION);
    for table in TABLES {
        // Writing to a String cannot fail.
        let _ = writeln!(page, "\n## {}\n\n{}.\n", table.name(), table.description());
        let titles = |columns: &[&ColumnDefinition], separator: &str| -> String {
            columns.iter().map(|column| column.title).collect::<Vec<_>>().join(separator)
        };
        match &*table.key_columns() {
            [] => {}
            [only] => {
                let _ = writeln!(page, "Rows are identified by `{}`.\n", only.title);
            }
            several => {
                let _ = writeln!(page, "Rows are identified by `{}` together.\n", titles(several, "`, `"));
            }
        }
        for (name, columns) in table.column_sets() {
            let _ = writeln!(page, "`--columns {name}`: {}.\n", titles(&columns, " "));
        }
        page.push_str("| column | unit | JSON, CSV | in a total | |\n| --- | --- | --- | --- | --- |\n");
        for column in table.columns() {
            let total = match column.aggregation {
                Aggregation::Sum | Aggregation::Seconds => format!("`{}`", column.total_key()),
                Aggregation::Unchanged => "the same".to_owned(),
                Aggregation::Unknown => "unknown".to_owned(),
            };
            let (name, unit, json) = (column.title, column.unit.label(), column.key);
            let hidden = if column.shown_by_default { "" } else { " (hidden by default)" };
            let _ = writeln!(page, "| `{name}` | {unit} | `{json}` | {total} | {}{hidden} |", column.description);
        }
    }
    page
}
