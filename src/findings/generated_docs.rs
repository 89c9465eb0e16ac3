//! docs/findings.md, generated from the rules and the thresholds.

use std::fmt::Write;

use super::rule::Hysteresis;
use super::{Kind, RULES, THRESHOLDS, Threshold};

/// The whole page. A test fails if docs/findings.md differs from it.
pub fn findings_docs() -> String {
    let mut page = String::from(
        "# Findings\n\n\
         <!-- Generated from RULES in src/findings: change it there, then STALLTOP_BLESS=1 cargo test --test findings_page -->\n\n\
         A finding is raised when 2 of the last 3 intervals show it (some rules: at once), and ends after 5 intervals without \
         it. Its severity rises and falls in the same way. [metrics.md](metrics.md#causes-and-order) defines the order: root causes first, by \
         severity, then what loses time, then by the share of the host that they explain. The name of a kind does not change.\n\n",
    );
    for rule in RULES {
        let word = rule.kind.as_str();
        // Writing to a String cannot fail.
        let _ = writeln!(page, "- [{word}](#{word}): {}", lowercase_first(rule.title));
    }
    for rule in RULES {
        let _ = writeln!(page, "\n## {}\n\n**{}.** {}\n", rule.kind.as_str(), rule.title, rule.meaning);
        let hysteresis = match rule.hysteresis {
            Hysteresis::TwoOfThree => "",
            Hysteresis::Sustained => " A note until it has lasted for `limit-seconds`: short saturation is normal.",
            Hysteresis::Immediate => " Raised at once.",
        };
        let _ = writeln!(page, "How it is computed: {}{hysteresis}\n", rule.computed);
        let limits = THRESHOLDS.iter().filter(|limit| limit.kinds.contains(&rule.kind));
        let limits: Vec<String> = limits.map(|limit| format!("`{}`", limit.name())).collect();
        if !limits.is_empty() {
            let _ = writeln!(page, "Thresholds: {}\n", limits.join(", "));
        }
        let anchor = rule.reference.to_lowercase().replace(' ', "-");
        let _ = writeln!(page, "Figures: [{}](metrics.md#{anchor})\n", rule.reference);
        let _ = writeln!(page, "Caveats: {}\n\nNext steps:\n", rule.caveats);
        for line in rule.next_steps {
            let _ = writeln!(page, "- {line}");
        }
    }
    let without: Vec<&str> =
        RULES.iter().map(|rule| rule.kind).filter(|&kind| Threshold::primary_for(kind).is_none()).map(Kind::as_str).collect();
    let (last, others) = without.split_last().unwrap_or((&"", &[]));
    let _ = writeln!(
        page,
        "\n## Thresholds\n\nAll of them can be set: in section `thresholds` of the [configuration](configuration.md), in \
         `STALLTOP_THRESHOLD`, and with `check --threshold NAME=VALUE`, where a kind stands for the first threshold of the table below \
         whose column *used by* begins with it; {} and {last} have none.\n\n\
         | name | default | unit | used by | meaning |\n| --- | --- | --- | --- | --- |",
        others.join(", ")
    );
    for limit in THRESHOLDS {
        let Threshold { default, unit, kinds, .. } = limit;
        let kinds: Vec<&str> = kinds.iter().map(|kind| kind.as_str()).collect();
        let (name, unit, meaning) = (limit.name(), unit.label(), limit.meaning());
        let _ = writeln!(page, "| `{name}` | {default} | {unit} | {} | {meaning} |", kinds.join(", "));
    }
    page
}

/// The title for the middle of a line. An abbreviation at its beginning stays in upper case.
fn lowercase_first(title: &str) -> String {
    let mut letters = title.chars();
    match letters.next() {
        Some(first) if title.chars().nth(1).is_some_and(char::is_lowercase) => first.to_lowercase().chain(letters).collect(),
        _ => title.to_owned(),
    }
}
