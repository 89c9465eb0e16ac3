//! The tool `compare`: what differs between two recordings, those that became worse first.

use std::path::Path;

use serde_json::{Value, json};

use super::answer::page;
use super::arguments::{number, recording, required};
use super::program::run_one;
use super::tool::{AllowedTargets, Arguments, ToolResult};
use crate::units::SmallSort;

pub async fn compare(arguments: &Arguments, allowed: &AllowedTargets) -> ToolResult {
    let base = recording(Path::new(required(arguments, "base")?), allowed)?;
    let new = recording(Path::new(required(arguments, "new")?), allowed)?;
    let words = vec!["compare".into(), "--json".into(), "--".into(), base.into_os_string(), new.into_os_string()];
    let found = run_one(words, 0, &[0]).await?;
    let mut figures: Vec<Value> = found["figures"].as_array().into_iter().flatten().filter_map(difference).collect();
    let rank = |figure: &Value| match figure["change"].as_str() {
        Some("worse") => 0,
        Some("better") => 1,
        _ => 2,
    };
    figures.small_sort_by_key(rank);
    let page = page(figures, number(arguments, "page", 1, (1, u64::MAX))?);
    Ok(json!({
        "recordings": found["recordings"],
        "figures": page.items,
        "page": page.page,
        "pages": page.pages,
    }))
}

/// The medians of a figure; `None` if it did not change.
fn difference(figure: &Value) -> Option<Value> {
    let new = figure["beside"].get(0)?;
    if matches!(new["change"].as_str(), None | Some("none")) {
        return None;
    }
    Some(json!({
        "table": figure["table"],
        "row": figure["row"],
        "name": figure["name"],
        "base_median": figure["base"]["median"],
        "new_median": new["median"],
        "ratio": new["ratio"],
        "certainty": new["certainty"],
        "change": new["change"],
    }))
}
