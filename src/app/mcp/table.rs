//! The tools `table` and `history`: the rows of `table --format json`.

use std::ffi::OsString;

use serde_json::{Value, json};

use super::answer::page;
use super::arguments::{number, recording as recording_path, required, target, text, time_options};
use super::program::{recording, run};
use super::tool::{AllowedTargets, Arguments, ToolError, ToolResult};

/// Seconds over which a table of a machine is measured.
const DEFAULT_SECONDS: u64 = 1;
const DEFAULT_ROWS: u64 = 20;
const MAX_ROWS: u64 = 500;

/// Intervals of a history.
const DEFAULT_POINTS: u64 = 30;
const MAX_POINTS: u64 = 500;

/// The rows of one interval of a machine, or the totals of a recording.
pub async fn table(arguments: &Arguments, allowed: &AllowedTargets) -> ToolResult {
    let seconds = number(arguments, "seconds", DEFAULT_SECONDS, (1, 60))?;
    let recording = recording(target(arguments, allowed)?, seconds.saturating_add(1)).await?;
    let mut words = table_words(arguments, number(arguments, "rows", DEFAULT_ROWS, (1, MAX_ROWS))?)?;
    match &recording {
        None => words.extend([seconds.to_string(), "1".into()].map(OsString::from)),
        Some(recording) => {
            words.extend(["1h", "--total"].map(OsString::from));
            words.extend(time_options(arguments)?.into_iter().map(OsString::from));
            words.push("--from".into());
            words.push(recording.path.clone().into_os_string());
        }
    }
    let mut found = run(words, seconds, &[0]).await?;
    // A recording of one interval has no other total.
    if found.iter().any(is_total) {
        found.retain(is_total);
    }
    rows(arguments, found)
}

fn is_total(row: &Value) -> bool {
    row["total"] == true
}

/// The same rows over the time of a recording.
pub async fn history(arguments: &Arguments, allowed: &AllowedTargets) -> ToolResult {
    let file = recording_path(std::path::Path::new(required(arguments, "recording")?), allowed)?;
    let step = text(arguments, "step")?.unwrap_or("1m");
    let mut words = table_words(arguments, number(arguments, "rows", 1, (1, MAX_ROWS))?)?;
    words.extend([OsString::from(step), number(arguments, "points", DEFAULT_POINTS, (1, MAX_POINTS))?.to_string().into()]);
    words.extend(time_options(arguments)?.into_iter().map(OsString::from));
    words.extend(["--from".into(), file.into_os_string()]);
    rows(arguments, run(words, 0, &[0]).await?)
}

fn table_words(arguments: &Arguments, rows: u64) -> Result<Vec<OsString>, ToolError> {
    let table = required(arguments, "table")?;
    if !crate::figures::TABLES.iter().any(|known| known.name() == table) {
        let known: Vec<&str> = crate::figures::TABLES.iter().map(|table| table.name()).collect();
        return Err(ToolError::Argument(format!("no table '{table}': there are {}", known.join(", "))));
    }
    let mut words = vec!["table".into(), table.into(), "--format=json".into(), format!("--top={rows}").into()];
    for name in ["columns", "sort"] {
        if let Some(value) = text(arguments, name)? {
            words.push(format!("--{name}={value}").into());
        }
    }
    Ok(words)
}

fn rows(arguments: &Arguments, rows: Vec<Value>) -> ToolResult {
    let page = page(rows, number(arguments, "page", 1, (1, u64::MAX))?);
    Ok(json!({ "rows": page.items, "page": page.page, "pages": page.pages }))
}
