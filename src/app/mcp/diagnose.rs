//! The tool `diagnose`: the findings of `check`, those that explain most first.

use serde_json::{Value, json};

use super::answer::page;
use super::arguments::{DEFAULT_SECONDS, MAX_SECONDS, flag, number, target, time_options};
use super::program::{recording, run_one};
use super::tool::{AllowedTargets, Arguments, ToolResult};

/// The figures of the host that an answer has.
const FIGURES: [&str; 9] = [
    "cpus",
    "busy_ratio",
    "idle_but_blocked_ratio",
    "free_ratio",
    "iowait_ratio",
    "steal_ratio",
    "load1",
    "running",
    "blocked_threads",
];

/// What a finding says without `detail`.
const BRIEF: [&str; 7] = ["kind", "severity", "subject", "sentence", "since", "until", "follows_from"];

/// Next steps of a finding in an answer.
const MAX_NEXT: usize = 2;

/// `check` without findings, with a warning, with a critical one, and with too few samples for a verdict.
const EXITS: [i32; 4] = [0, 1, 2, 3];

pub async fn diagnose(arguments: &Arguments, allowed: &AllowedTargets) -> ToolResult {
    let seconds = number(arguments, "seconds", DEFAULT_SECONDS, (1, MAX_SECONDS))?;
    let number = number(arguments, "page", 1, (1, u64::MAX))?;
    let detail = flag(arguments, "detail")?;
    let found = check(arguments, allowed, seconds).await?;
    let findings = found["findings"].as_array().into_iter().flatten();
    let findings: Vec<Value> = findings.map(|finding| if detail { finding.clone() } else { brief(finding) }).collect();
    let page = page(findings, number);
    let figures: serde_json::Map<String, Value> =
        FIGURES.iter().filter_map(|name| Some(((*name).to_owned(), found["figures"].get(name)?.clone()))).collect();
    let not_seen = found["absent"].as_array().into_iter().flatten();
    let not_seen = not_seen.map(|absent| format!("{}: {}", word(&absent["what"]), word(&absent["why"])));
    Ok(json!({
        "host": found["host"],
        "from": found["from"],
        "to": found["to"],
        "verdict": found["verdict"],
        "figures": figures,
        "misleading": found["cross_checks"]["artefact"],
        "findings": page.items,
        "page": page.page,
        "pages": page.pages,
        "not_seen": not_seen.collect::<Vec<String>>(),
    }))
}

/// The JSON object of `check`.
async fn check(arguments: &Arguments, allowed: &AllowedTargets, seconds: u64) -> ToolResult {
    let mut words = vec!["check".into(), "--json".into()];
    match recording(target(arguments, allowed)?, seconds).await? {
        None => words.push(format!("--for={seconds}s").into()),
        Some(recording) => {
            words.extend(time_options(arguments)?.into_iter().map(Into::into));
            words.extend(["--".into(), recording.path.clone().into_os_string()]);
            return run_one(words, seconds, &EXITS).await;
        }
    }
    run_one(words, seconds, &EXITS).await
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

/// The links of the wait chain, from the threads that wait to what they wait for, each with how it is known.
fn chain(evidence: &Value) -> Vec<Value> {
    let link = |link: &Value| format!("{} ({})", word(&link["what"]), word(&link["known_by"])).into();
    evidence["chain"].as_array().into_iter().flatten().map(link).collect()
}

/// A finding without its evidence but its chain, and with the first of its next steps.
fn brief(finding: &Value) -> Value {
    let mut brief: serde_json::Map<String, Value> =
        BRIEF.iter().map(|name| ((*name).to_owned(), finding[*name].clone())).filter(|(_, value)| !value.is_null()).collect();
    let chain = chain(&finding["evidence"]);
    if !chain.is_empty() {
        brief.insert("chain".into(), chain.into());
    }
    let next: Vec<Value> = finding["next"].as_array().into_iter().flatten().take(MAX_NEXT).cloned().collect();
    brief.insert("look_at_next".into(), next.into());
    brief.into()
}
