//! Scenarios are data: what a machine does, and which findings it must and must not raise. Each .toml in this folder is
//! evaluated like a recording: intervals, baselines, findings. Every rule has a case that raises it, and a similar one that must
//! not.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_possible_wrap,
    reason = "a test may fail loudly, and says why it skips"
)]

mod format;
mod machine;
mod network;
mod pairs;
mod placed;
#[path = "../support/synthetic.rs"]
mod synthetic;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use stalltop::baseline::Baselines;
use stalltop::findings::{Evaluation, Evaluator, Finding, Kind, RULES, Value, WaitChain, cross_checks, wait_chains};
use stalltop::interval::Interval;

use format::{Case, Expect, Figure, File};
use machine::Machine;

#[test]
fn every_scenario_has_its_findings_and_no_others() {
    let mut wrong = Vec::new();
    for (path, file) in files() {
        for case in &file.case {
            play(case, |complaint| wrong.push(format!("{}: {}: {complaint}", path.display(), case.title)));
        }
    }
    assert!(wrong.is_empty(), "{} complaints:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_rule_has_a_scenario_that_raises_it_and_one_that_does_not() {
    let (mut raised, mut not_raised) = (BTreeSet::new(), BTreeSet::new());
    for (_, file) in files() {
        for case in &file.case {
            let expected = || case.phase.iter().flat_map(|phase| &phase.expect.finding).map(|finding| finding.kind);
            raised.extend(expected());
            if let Some(kind) = case.must_not_raise {
                assert!(expected().all(|other| other != kind), "{}: raises what it must not raise", case.title);
                not_raised.insert(kind);
            }
        }
    }
    let all: BTreeSet<Kind> = RULES.iter().map(|rule| rule.kind).collect();
    assert_eq!(raised, all, "raised");
    assert_eq!(not_raised, all, "must-not-raise");
}

fn files() -> Vec<(PathBuf, File)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        let file = toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        (path, file)
    };
    paths.into_iter().map(read).collect()
}

fn play(case: &Case, mut complain: impl FnMut(String)) {
    let mut last: Vec<Option<Evaluation>> = case.phase.iter().map(|_| None).collect();
    evaluate(case, &mut Machine::new(case), |number, evaluated| last[number] = Some(evaluated));
    for (number, (phase, evaluated)) in case.phase.iter().zip(last).enumerate() {
        let Some(evaluated) = evaluated else { continue };
        if std::env::var_os("STALLTOP_SENTENCES").is_some() {
            evaluated.active.iter().for_each(print_words);
        }
        check(&phase.expect, &evaluated, |complaint| complain(format!("phase {}: {complaint}", number + 1)));
    }
}

/// Evaluates each interval of each phase.
fn evaluate(case: &Case, machine: &mut Machine, mut evaluated: impl FnMut(usize, Evaluation)) {
    let host = machine.host();
    let mut evaluator = Evaluator::new(Baselines::default());
    let mut older = None;
    for (number, phase) in case.phase.iter().enumerate() {
        if phase.gap_seconds > 0.0 {
            machine.skip(phase.gap_seconds);
            older = None;
        }
        // The first sample of all, and the first after a gap, have nothing to be compared with.
        let mut before = older.take().unwrap_or_else(|| machine.first(phase));
        for index in 0..phase.intervals {
            let sample = machine.interval(phase, index);
            let interval = Interval::between(&host, &before, &sample).expect("time passed");
            evaluated(number, evaluator.evaluate(interval));
            before = sample;
        }
        older = Some(before);
    }
}

fn check(expect: &Expect, evaluated: &Evaluation, mut complain: impl FnMut(String)) {
    for (name, figure) in &expect.figures {
        match figure_of(name, &evaluated.interval) {
            Some(value) if is(figure, value) => {}
            other => complain(format!("{name} is {other:?}, not {} ± {}", figure.is, figure.within)),
        }
    }
    if let Some(words) = &expect.cross_check {
        let said = cross_checks::contradiction_sentence(&evaluated.interval).unwrap_or_default();
        if words.is_empty() != said.is_empty() || !said.contains(words.as_str()) {
            complain(format!("the cross-check is {said:?}, not {words:?}"));
        }
    }
    if let Some(expected) = &expect.wait_chains {
        let found: Vec<String> = wait_chains(&evaluated.interval, &[]).iter().map(wait_chain).collect();
        if found != *expected {
            complain(format!("the wait chains are {found:?}, not {expected:?}"));
        }
    }
    let first = evaluated.active.first().map(|finding| finding.kind);
    if let Some(kind) = expect.first.filter(|&kind| first != Some(kind)) {
        complain(format!("the first finding is {first:?}, not {kind:?}"));
    }
    for finding in evaluated.active.iter().filter(|finding| counts_one_as_many(&finding.sentence)) {
        complain(format!("a count of one in the plural: {}", finding.sentence));
    }
    let mut left: Vec<&Finding> = evaluated.active.iter().collect();
    for expected in &expect.finding {
        let fits = |finding: &&Finding| {
            finding.kind == expected.kind && expected.says.iter().all(|words| finding.sentence.contains(words.as_str()))
        };
        let Some(at) = left.iter().position(fits) else {
            complain(format!(
                "no {} that says {:?} among {}",
                expected.kind.as_str(),
                expected.says,
                sentences(&evaluated.active)
            ));
            continue;
        };
        let finding = left.remove(at);
        if finding.severity != expected.severity {
            complain(format!("{} is a {:?}: {}", expected.kind.as_str(), finding.severity, finding.sentence));
        }
        for words in expected.never_says.iter().filter(|words| finding.sentence.contains(words.as_str())) {
            complain(format!("{} says {words:?}: {}", expected.kind.as_str(), finding.sentence));
        }
        let cause = finding.follows_from.as_ref().map_or("none", |cause| cause.kind.as_str());
        if let Some(expected_cause) = expected.follows_from.as_ref().filter(|kind| kind.as_str() != cause) {
            complain(format!("{} follows from {cause}, not from {expected_cause}", expected.kind.as_str()));
        }
        let chain = chain(finding);
        for words in expected.chain.iter().filter(|words| !chain.contains(words.as_str())) {
            complain(format!("{} has no link that says {words:?}: {chain}", expected.kind.as_str()));
        }
        for words in expected.never_chain.iter().filter(|words| chain.contains(words.as_str())) {
            complain(format!("{} has a link that says {words:?}: {chain}", expected.kind.as_str()));
        }
        if let Some(confidence) = expected.confidence.as_ref().filter(|word| confidence(finding).as_ref() != Some(word)) {
            complain(format!("{} is not known with confidence {confidence}: {chain}", expected.kind.as_str()));
        }
        if let Some(figure) = expected.value.as_ref().filter(|figure| !is(figure, finding.value)) {
            complain(format!("{} has value {}, not {}", expected.kind.as_str(), finding.value, figure.is));
        }
        for (name, value) in &expected.evidence {
            let found = evidence_text(finding, name);
            if found.as_ref() != Some(value) {
                complain(format!("{} has evidence {name} {found:?}, not {value}", expected.kind.as_str()));
            }
        }
        let lasted = evaluated.interval.at().seconds_since(finding.since);
        if let Some(figure) = expected.for_seconds.as_ref().filter(|figure| !is(figure, lasted)) {
            complain(format!("{} has held for {lasted} s, not {}", expected.kind.as_str(), figure.is));
        }
    }
    for finding in left {
        complain(format!("must not say: {} ({:?}): {}", finding.kind.as_str(), finding.severity, finding.sentence));
    }
}

/// A finding and its chain, to be read against docs/terms.md.
fn print_words(finding: &Finding) {
    println!("{}\t{}\t{}", finding.kind.as_str(), finding.severity.as_str(), finding.sentence);
    if !chain(finding).is_empty() {
        println!("{}\tchain\t{}", finding.kind.as_str(), chain(finding));
    }
}

/// `1 packets`: a whole number one before a word in the plural. `1 of its 2 threads` is none, `1 is` neither.
fn counts_one_as_many(sentence: &str) -> bool {
    let words: Vec<&str> = sentence.split(|c: char| c.is_whitespace() || "(),;:".contains(c)).collect();
    let is_plural = |word: &str| word.len() > 3 && word.ends_with('s') && !word.ends_with("ss") && !word.ends_with("/s");
    words.windows(2).any(|pair| pair[0] == "1" && is_plural(pair[1]) && !["waits", "wants"].contains(&pair[1]))
}

/// A value of its evidence as text; `None` if it has no such evidence.
fn evidence_text(finding: &Finding, name: &str) -> Option<String> {
    let evidence = finding.evidence.iter().find(|evidence| evidence.name == name)?;
    Some(match &evidence.value {
        Value::Number(number) => number.to_string(),
        Value::Text(text) => String::from_utf8_lossy(text.as_bytes()).into_owned(),
        Value::Unknown => "unknown".to_owned(),
        other => format!("{other:?}"),
    })
}

/// `app: 3 wait → … (low)`
fn wait_chain(chain: &WaitChain) -> String {
    let links: Vec<&str> = chain.links.iter().map(|link| link.what.as_str()).collect();
    format!("{}: {} ({})", chain.group_label, links.join(" → "), chain.confidence.as_str())
}

/// The links of its chain, one behind the other; empty where it has none.
fn chain(finding: &Finding) -> String {
    let links = finding.evidence.iter().find_map(|evidence| match &evidence.value {
        Value::Chain(links) => Some(links.iter().map(|link| link.what.as_str()).collect::<Vec<_>>().join(" → ")),
        _ => None,
    });
    links.unwrap_or_default()
}

fn confidence(finding: &Finding) -> Option<String> {
    finding.evidence.iter().find(|evidence| evidence.name == "chain_confidence").and_then(|evidence| match &evidence.value {
        Value::Text(word) => Some(String::from_utf8_lossy(word.as_bytes()).into_owned()),
        _ => None,
    })
}

fn is(figure: &Figure, value: f64) -> bool {
    (value - figure.is).abs() <= figure.within
}

fn sentences(findings: &[Finding]) -> String {
    let list: Vec<String> = findings
        .iter()
        .map(|finding| format!("[{} {:?}] {}", finding.kind.as_str(), finding.severity, finding.sentence))
        .collect();
    if list.is_empty() { "nothing".into() } else { list.join(" | ") }
}

/// Figures that a scenario may expect; shares in per cent.
fn figure_of(name: &str, interval: &Interval) -> Option<f64> {
    let cpu = interval.cpu.as_ref();
    let blocked = interval.idle_blocked.as_ref();
    let percent = |share: Option<f64>| share.map(|share| share * 100.0);
    match name {
        "busy" => percent(cpu.map(|cpu| cpu.busy())),
        "busy-cpus" => cpu.map(|cpu| cpu.tick_busy_cpus),
        "iowait" => percent(cpu.map(|cpu| cpu.total.iowait)),
        "steal" => percent(cpu.map(|cpu| cpu.total.steal)),
        "available" => percent(cpu.map(|cpu| cpu.available())),
        "scheduler-cpus" => cpu.and_then(|cpu| cpu.scheduler_busy_cpus),
        "unseen-cpus" => interval.short_lived.as_ref().and_then(|short| short.cpus),
        "idle-but-blocked" => percent(blocked.map(|blocked| blocked.ratio)),
        "idle-but-blocked-cpus" => blocked.map(|blocked| blocked.cpus),
        "free" => percent(blocked.map(|blocked| blocked.free)),
        "blocked-threads" => blocked.map(|blocked| blocked.blocked_threads),
        "suspended" => Some(interval.suspended_seconds),
        other => panic!("no figure {other}"),
    }
}
