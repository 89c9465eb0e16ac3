//! The tool `explain`: what a finding means, how it is computed, its caveats and next steps (docs/findings.md).

use serde_json::json;

use super::arguments::text;
use super::tool::{Arguments, ToolError, ToolResult};
use crate::findings::RULES;

pub fn explain(arguments: &Arguments) -> ToolResult {
    let Some(kind) = text(arguments, "kind")? else {
        let kinds = RULES.iter().map(|rule| json!({ "kind": rule.kind.as_str(), "title": rule.title }));
        return Ok(json!({ "kinds": kinds.collect::<Vec<_>>() }));
    };
    let rule = RULES.iter().find(|rule| rule.kind.as_str() == kind);
    let rule = rule.ok_or_else(|| ToolError::Argument(format!("no kind '{kind}': without kind all are listed")))?;
    Ok(json!({
        "kind": kind,
        "title": rule.title,
        "meaning": rule.meaning,
        "computed": rule.computed,
        "caveats": rule.caveats,
        "next_steps": rule.next_steps,
    }))
}
