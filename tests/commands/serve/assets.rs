//! docs/serve.md and assets/prometheus name metrics and labels that exist. `STALLTOP_BLESS=1 cargo test --test commands serve` writes the
//! table of the page again.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use stalltop::report::openmetrics::MetricKind;
use stalltop::report::openmetrics::names::{METRICS, metrics_table};

use crate::serve::metrics::has_promtool;

fn place(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn read(path: &str) -> String {
    fs::read_to_string(place(path)).unwrap()
}

/// The names of metrics in a text: words that begin with `stalltop_`, without the endings of a histogram's series. Names of recording
/// rules have colons.
fn metric_names(text: &str) -> BTreeSet<&str> {
    let is_histogram = |name: &str| METRICS.iter().any(|metric| metric.name == name && metric.kind == MetricKind::Histogram);
    let family = |word: &'_ str| {
        let base = ["_bucket", "_count", "_sum"].iter().find_map(|ending| word.strip_suffix(ending));
        base.filter(|base| is_histogram(base)).map_or(word.len(), str::len)
    };
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_' && letter != ':');
    let words = words.filter(|word| word.starts_with("stalltop_") && !word.ends_with('_'));
    words.map(|word| &word[..family(word)]).collect()
}

/// The names of the recording rules.
fn recorded() -> BTreeSet<String> {
    let rules = read("assets/prometheus/stalltop.rules.yml");
    let names = rules.lines().filter_map(|line| Some(line.trim().strip_prefix("- record: ")?.to_owned()));
    names.collect()
}

#[test]
fn the_table_of_the_page_is_up_to_date() {
    let path = place("docs/serve.md");
    let page = fs::read_to_string(&path).unwrap();
    let (text, _) = page.split_once("| metric | labels | meaning |").unwrap_or((page.trim_end_matches("METRICS\n"), ""));
    let made = format!("{text}{}", metrics_table());
    if std::env::var_os("STALLTOP_BLESS").is_some() {
        fs::write(&path, &made).unwrap();
    }
    assert!(
        fs::read_to_string(&path).unwrap() == made,
        "docs/serve.md is stale: STALLTOP_BLESS=1 cargo test --test commands serve"
    );
}

#[test]
fn rules_and_pages_name_metrics_that_exist() {
    let listed: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
    for path in [
        "docs/serve.md",
        "assets/prometheus/stalltop.rules.yml",
        "assets/prometheus/stalltop.rules.test.yml",
        "assets/prometheus/grafana-dashboard.json",
    ] {
        let text = read(path);
        let named = metric_names(&text);
        assert!(named.len() > 4, "{path} names few metrics: {named:?}");
        let unknown: Vec<&&str> = named.difference(&listed).collect();
        assert!(unknown.is_empty(), "{path} names metrics that do not exist: {unknown:?}");
    }
}

/// A panel of the dashboard: title, and the queries with the names of the labels in its legend.
struct Panel {
    title: String,
    queries: Vec<(String, String)>,
}

fn panels() -> Vec<Panel> {
    let dashboard: serde_json::Value = serde_json::from_str(&read("assets/prometheus/grafana-dashboard.json")).unwrap();
    assert!(dashboard["schemaVersion"].as_u64() >= Some(36) && dashboard["title"].is_string() && dashboard["uid"].is_string());
    let mut ids = BTreeSet::new();
    let mut panels = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "an id is used twice");
        let (x, width) = (panel["gridPos"]["x"].as_u64().unwrap(), panel["gridPos"]["w"].as_u64().unwrap());
        assert!(x + width <= 24 && panel["gridPos"]["h"].as_u64() > Some(0), "{panel}");
        assert!(["timeseries", "stat", "table"].contains(&panel["type"].as_str().unwrap()), "{panel}");
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{panel}");
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{panel}");
        let text = |target: &serde_json::Value, key: &str| target[key].as_str().unwrap_or_default().to_owned();
        panels.push(Panel {
            title: panel["title"].as_str().unwrap().to_owned(),
            queries: targets.iter().map(|target| (text(target, "expr"), text(target, "legendFormat"))).collect(),
        });
    }
    panels
}

#[test]
fn the_dashboard_uses_labels_that_its_metrics_have() {
    let panels = panels();
    assert!(panels.len() >= 8, "{} panels", panels.len());
    for Panel { title, queries } in &panels {
        for (query, legend) in queries {
            let names = metric_names(query);
            let known = recorded().iter().any(|name| query.contains(name.as_str()));
            assert!(!names.is_empty() || known, "{title}: {query}");
            for label in legend.split("{{").skip(1).filter_map(|rest| rest.split("}}").next()) {
                let of_metric =
                    |name: &&str| METRICS.iter().any(|metric| metric.name == *name && metric.labels.contains(&label));
                assert!(label == "instance" || names.iter().any(of_metric), "{title}: {query} has no label {label}");
            }
        }
    }
}

/// Runs promtool; returns what it says when it fails.
fn promtool(arguments: &[&str], folder: &Path) -> Result<(), String> {
    let output = Command::new("promtool").args(arguments).current_dir(folder).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(said.into_owned()) }
}

#[test]
fn promtool_accepts_the_rules_and_their_unit_tests() {
    if !has_promtool() {
        return;
    }
    let folder = place("assets/prometheus");
    assert_eq!(promtool(&["check", "rules", "stalltop.rules.yml"], &folder), Ok(()));
    assert_eq!(promtool(&["test", "rules", "stalltop.rules.test.yml"], &folder), Ok(()));
    // These tests can fail: with another threshold they do.
    let changed = tempfile::tempdir().unwrap();
    let rules = read("assets/prometheus/stalltop.rules.yml").replace("ratio_rate1m > 0.3", "ratio_rate1m > 0.8");
    fs::write(changed.path().join("stalltop.rules.yml"), rules).unwrap();
    fs::copy(folder.join("stalltop.rules.test.yml"), changed.path().join("stalltop.rules.test.yml")).unwrap();
    assert!(promtool(&["test", "rules", "stalltop.rules.test.yml"], changed.path()).is_err());
}

/// As the expressions of recording rules.
#[test]
fn promtool_accepts_the_queries_of_the_dashboard() {
    if !has_promtool() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut rules = "groups:\n  - name: dashboard\n    rules:\n".to_owned();
    for (number, (query, _)) in panels().iter().flat_map(|panel| &panel.queries).enumerate() {
        let query = query.replace("$__rate_interval", "1m").replace("$instance", ".*").replace('\'', "''");
        rules.push_str(&format!("      - record: query:number{number}\n        expr: '{query}'\n"));
    }
    fs::write(folder.path().join("rules.yml"), rules).unwrap();
    assert_eq!(promtool(&["check", "rules", "rules.yml"], folder.path()), Ok(()));
}
