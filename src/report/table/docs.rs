//! docs/tables.md, made from the catalogue: what is written there is what is printed.

use std::fmt::Write;

use crate::figures::{Aggregation, ColumnDefinition, TABLES};

/// How the tables are used and where they differ from the tools whose names they use on purpose.
const INTRODUCTION: &str = include_str!("page.md");

/// The whole page. A test fails when the file in docs/ is not this.
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
        for head in table.columns() {
            let total = match head.aggregation {
                Aggregation::Sum | Aggregation::Seconds => format!("`{}`", head.total_key()),
                Aggregation::Unchanged => "the same".to_owned(),
                Aggregation::Unknown => "unknown".to_owned(),
            };
            let (name, unit, json) = (head.title, head.unit.label(), head.key);
            let asked = if head.shown_by_default { "" } else { " (when asked for)" };
            let _ = writeln!(page, "| `{name}` | {unit} | `{json}` | {total} | {}{asked} |", head.description);
        }
    }
    page
}
