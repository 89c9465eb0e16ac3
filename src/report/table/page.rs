//! docs/tables.md, made from the catalogue: what is written there is what is printed.

use std::fmt::Write;

use super::{TABLES, Total};

/// How the tables are used and where they differ from the tools whose names they use on purpose.
const BEGINNING: &str = include_str!("page.md");

/// The whole page. A test fails when the file in docs/ is not this.
pub fn page() -> String {
    let mut page = String::from(BEGINNING);
    for table in TABLES {
        // Writing to a String cannot fail.
        let _ = writeln!(page, "\n## {}\n\n{}.\n", table.name(), table.about());
        if let [only] = table.key() {
            let _ = writeln!(page, "Rows are told apart by `{only}`.\n");
        } else if !table.key().is_empty() {
            let _ = writeln!(page, "Rows are told apart by `{}` together.\n", table.key().join("`, `"));
        }
        for (name, columns) in table.sets() {
            let _ = writeln!(page, "`--columns {name}`: {}.\n", columns.join(" "));
        }
        page.push_str("| column | unit | JSON, CSV | in a total | |\n| --- | --- | --- | --- | --- |\n");
        for head in table.heads() {
            let total = match head.total {
                Total::Amount | Total::Seconds => format!("`{}`", head.total_json()),
                Total::Same => "the same".to_owned(),
                Total::Unknown => "unknown".to_owned(),
            };
            let (name, unit, json) = (head.name, head.unit.word(), head.json);
            let asked = if head.usual { "" } else { " (when asked for)" };
            let _ = writeln!(page, "| `{name}` | {unit} | `{json}` | {total} | {}{asked} |", head.meaning);
        }
    }
    page
}
