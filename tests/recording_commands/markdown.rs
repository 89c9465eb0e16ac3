//! `report` as Markdown: its figures are those of its JSON.

use serde_json::Value;

use crate::lab;
use crate::report::report;

/// A figure of the Markdown in the unit of JSON, and half of its last digit.
fn figure(text: &str) -> (f64, f64) {
    let (digits, unit) = text.split_once(' ').unwrap_or((text, ""));
    let scale = match unit {
        "" | "B" | "s" => 1.0,
        "%" => 1e-2,
        "ms" => 1e-3,
        "µs" => 1e-6,
        "KiB" => 1024.0,
        "MiB" => f64::from(1 << 20),
        "GiB" => f64::from(1 << 30),
        _ => panic!("an unknown unit: {text:?}"),
    };
    let decimals = digits.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let value: f64 = digits.parse().unwrap_or_else(|_| panic!("no figure: {text:?}"));
    (value * scale, 0.5 * scale / 10_f64.powi(decimals.try_into().unwrap()))
}

#[test]
fn markdown_has_the_figures_of_json() {
    let folder = tempfile::tempdir().unwrap();
    let recording = lab("01-commit-serialised-db");
    let text = report(&recording, &folder.path().join("page.md"));
    let told: Value = serde_json::from_str(&report(&recording, &folder.path().join("page.json"))).unwrap();
    assert!(text.starts_with("# vm: critical\n") && text.contains("**critical** idle-but-blocked"), "{text}");
    let sections: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert_eq!(sections, ["Findings", "Figures", "Commands", "Marks, and what is missing"]);
    let cells = |line: &str| line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let rows_of = |section: &str| {
        let rows = text.split_once(&format!("## {section}\n\n")).unwrap().1.lines().take_while(|line| line.starts_with("| "));
        rows.skip(2).map(cells).collect::<Vec<_>>()
    };
    let mut figures = rows_of("Figures").into_iter();
    let mut compared = 0;
    for chart in told["charts"].as_array().unwrap().iter().filter(|chart| chart["id"] != "commands") {
        for series in chart["series"].as_array().unwrap() {
            let row = figures.next().unwrap_or_else(|| panic!("no row of {series}"));
            let (chart, label) = (chart["id"].as_str().unwrap(), series["label"].as_str().unwrap());
            let name = row[0].replace('\\', "");
            // Such as `Disk loop1: await: read` of `read` in `disk-loop1`.
            let of_chart = name.to_lowercase().replacen(' ', "-", 1).starts_with(chart);
            assert!(of_chart && name.ends_with(&format!(": {label}")), "{name} is not {label} in {chart}");
            for (cell, expected) in [(&row[1], &series["overall"]), (&row[2], &series["peak"])] {
                let (found, half) = figure(cell);
                let expected = expected.as_f64().unwrap();
                // JSON has five digits.
                assert!((found - expected).abs() <= half + expected * 1e-4, "{name}: {cell} is not {expected}");
                compared += u32::from(expected > 0.0);
            }
        }
    }
    assert_eq!(figures.next(), None, "JSON has it not");
    assert!(compared >= 40, "{compared} figures");
    let commands: Vec<String> = rows_of("Commands").into_iter().map(|row| row[0].clone()).collect();
    assert!(["postgres", "pgbench"].iter().all(|name| commands.iter().any(|command| command == name)), "{commands:?}");
    for absent in told["absent"].as_array().unwrap() {
        let what = absent["what"].as_str().unwrap();
        assert!(text.contains(&format!("\n- not seen: {what} (")), "{absent}");
    }
    assert!(text.contains("\n- not seen: wait channels of some tasks (not readable"), "{text}");
}
