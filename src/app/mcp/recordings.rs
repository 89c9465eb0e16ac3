//! The tool `recordings`: the recordings in the directories of `--dir`, the newest first.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::{Value, json};

use super::answer::page;
use super::arguments::number;
use super::tool::{AllowedTargets, Arguments, ToolResult};
use crate::recording::{Inspection, Replayer};
use crate::units::time::rfc3339;

/// Files of all directories that are listed.
const MAX_FILES: usize = 1000;

/// Reads the header and the index of each recording on the page; blocks.
pub fn recordings(arguments: &Arguments, allowed: &AllowedTargets) -> ToolResult {
    let mut files: Vec<(SystemTime, PathBuf, u64)> = allowed.directories.iter().flat_map(|directory| list(directory)).collect();
    files.sort();
    files.dedup();
    let newest = files.into_iter().rev().take(MAX_FILES);
    let entries = newest.map(|(_, path, bytes)| json!({ "recording": path, "bytes": bytes })).collect();
    let mut page = page(entries, number(arguments, "page", 1, (1, u64::MAX))?);
    page.items.iter_mut().for_each(describe);
    Ok(json!({ "recordings": page.items, "page": page.page, "pages": page.pages }))
}

fn list(directory: &Path) -> Vec<(SystemTime, PathBuf, u64)> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let recording = |entry: std::fs::DirEntry| {
        let path = entry.path();
        let meta =
            entry.metadata().ok().filter(|meta| meta.is_file() && path.extension().is_some_and(|end| end == "stalltop"))?;
        Some((meta.modified().ok()?, path, meta.len()))
    };
    entries.filter_map(recording).collect()
}

/// Adds host, time and number of samples, or why they cannot be read.
fn describe(entry: &mut Value) {
    let read = || {
        let mut replayer = Replayer::open(Path::new(entry["recording"].as_str().unwrap_or_default()))?;
        Inspection::new(&mut replayer, false)
    };
    let found = match read() {
        Ok(found) => json!({
            "host": found.meta.host.hostname.to_string_lossy(),
            "from": found.first_timestamp.map(|at| rfc3339(at.realtime_ns)),
            "to": found.last_timestamp.map(|at| rfc3339(at.realtime_ns)),
            "samples": found.sample_count,
            "interval_seconds": found.meta.interval.as_secs_f64(),
        }),
        Err(error) => json!({ "error": error.to_string() }),
    };
    if let (Some(entry), Value::Object(found)) = (entry.as_object_mut(), found) {
        entry.extend(found);
    }
}
