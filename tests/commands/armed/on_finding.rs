//! Findings as triggers, and the command that is told of them.

use std::fs;

use serde_json::Value;

use crate::busy::Busy;

use super::armed_recorder::{Place, open, texts};

/// With these thresholds a thread that computes is a finding at once, on any machine.
const CONFIGURATION: &str =
    "[thresholds]\nlimit-seconds = 0\nthread-busy-ratio = 0.01\nhost-busy-below-ratio = 1\nfree-cpus = 0\n";

/// A place with that configuration and a script that notes what it is told, as `told.N`.
fn place_with_script() -> Place {
    let place = Place::new();
    fs::create_dir_all(place.path("config/stalltop")).unwrap();
    fs::write(place.path("config/stalltop/config.toml"), CONFIGURATION).unwrap();
    let script = "n=$(ls | grep -c '^json\\.')\ncat > new.$n\nenv | grep ^STALLTOP_ > env.$n\necho \"$*\" > arguments\nmv new.$n json.$n\n";
    fs::write(place.path("script"), script).unwrap();
    place
}

fn until_told(place: &Place) -> (Value, String) {
    let begun = std::time::Instant::now();
    while !place.path("json.0").exists() {
        assert!(begun.elapsed() < super::armed_recorder::PATIENCE, "the command is not run");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let json = fs::read_to_string(place.path("json.0")).unwrap();
    assert_eq!(json.lines().count(), 1, "{json}");
    (serde_json::from_str(&json).unwrap(), fs::read_to_string(place.path("env.0")).unwrap())
}

/// The value of a variable.
fn value<'a>(environment: &'a str, name: &str) -> &'a str {
    environment
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
        .unwrap_or_else(|| panic!("{name}: {environment}"))
}

fn json_tells_the_same(json: &Value, environment: &str) {
    assert_eq!((json["schema"].as_str(), json["change"].as_str()), (Some("stalltop/1"), Some("begins")));
    let finding = &json["finding"];
    assert_eq!(finding["kind"].as_str(), Some(value(environment, "STALLTOP_KIND")));
    assert_eq!(finding["severity"].as_str(), Some(value(environment, "STALLTOP_SEVERITY")));
    assert_eq!(finding["sentence"].as_str(), Some(value(environment, "STALLTOP_SENTENCE")));
    assert_eq!(json["host"].as_str(), Some(value(environment, "STALLTOP_HOST")));
    let severity_id = match finding["severity"].as_str() {
        Some("critical") => "2",
        Some("warning") => "1",
        _ => "0",
    };
    assert_eq!(value(environment, "STALLTOP_SEVERITY_ID"), severity_id);
    assert!(value(environment, "STALLTOP_TIME").parse::<i64>().unwrap() > 1_700_000_000);
    assert!(!value(environment, "STALLTOP_SUBJECT").is_empty());
}

#[test]
fn a_finding_starts_a_capture_and_the_command_is_told_of_it() {
    let place = place_with_script();
    let script = format!("sh {} a $(reboot) ;", place.path("script").display());
    let options = ["-i", "200ms", "--psi", "none", "--on", "saturated-thread", "--on-finding", &script];
    let mut recorder = place.armed(&options);
    let _hog = Busy::start();
    recorder.until_it_captures();
    let (json, environment) = until_told(&place);
    let told = recorder.end();
    json_tells_the_same(&json, &environment);
    assert_eq!(json["finding"]["kind"], "saturated-thread");
    // No shell has read the words.
    assert_eq!(fs::read_to_string(place.path("arguments")).unwrap(), "a $(reboot) ;\n");
    let captures = place.captures();
    let [file] = captures.as_slice() else { panic!("{captures:?}: {told}") };
    assert!(file.ends_with(value(&environment, "STALLTOP_FILE").trim_start_matches("captures/")), "{environment}");
    assert!(file.to_str().unwrap().contains("-saturated-thread-"), "{file:?}");
    let replayer = open(file);
    let sentence = json["finding"]["sentence"].as_str().unwrap();
    let mark = format!("{} saturated-thread: {sentence}", json["finding"]["severity"].as_str().unwrap());
    assert!(texts(&replayer).contains(&mark), "{:?} lacks {mark}", texts(&replayer));
    // `check` of the capture finds what has started it.
    let check = place.stalltop(&["check", file.to_str().unwrap(), "--json"]).output().unwrap();
    let check: Value = serde_json::from_slice(&check.stdout).unwrap();
    let kinds: Vec<&Value> = check["findings"].as_array().unwrap().iter().map(|finding| &finding["kind"]).collect();
    assert!(kinds.iter().any(|kind| *kind == "saturated-thread"), "{kinds:?}");
}

/// The directory is gone: nothing can be captured, but the command is told, and it goes on.
#[test]
fn the_command_is_told_of_a_finding_that_cannot_be_captured() {
    let place = place_with_script();
    let script = format!("sh {}", place.path("script").display());
    let options = ["-i", "200ms", "--psi", "none", "--on", "saturated-thread", "--on-finding", &script];
    let mut recorder = place.armed(&options);
    fs::remove_dir(place.path("captures")).unwrap();
    let _hog = Busy::start();
    recorder.until("reports it", |told| told.contains("stalltop: nothing is captured of '"));
    let (json, environment) = until_told(&place);
    json_tells_the_same(&json, &environment);
    assert_eq!(value(&environment, "STALLTOP_FILE"), "");
    let told = recorder.end();
    assert!(told.contains("No such file or directory"), "{told}");
}

/// A redacted recording has no sentence, which may name a container.
#[test]
fn a_redacted_capture_has_the_kind_only() {
    let place = place_with_script();
    let mut recorder = place.armed(&["-i", "200ms", "--psi", "none", "--on", "saturated-thread", "--redact"]);
    let _hog = Busy::start();
    recorder.until_it_captures();
    recorder.end();
    let captures = place.captures();
    let name = captures[0].file_stem().unwrap().to_str().unwrap();
    assert!(name.ends_with("-saturated-thread"), "{name}");
    assert!(texts(&open(&captures[0])).iter().all(|mark| mark.ends_with(" saturated-thread")));
}

#[test]
fn record_and_check_run_the_command_too() {
    let script = |place: &Place| format!("sh {}", place.path("script").display());
    let recording = place_with_script();
    let watching = place_with_script();
    let _hog = Busy::start();
    let with = |place: &Place, arguments: &[&str]| {
        let end = ["--on", "saturated-thread", "--on-finding", &script(place)];
        place
            .stalltop(arguments)
            .args(end)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap()
    };
    let mut recorder = with(&recording, &["record", "all.stalltop", "-i", "200ms"]);
    let mut watcher = with(&watching, &["check", "--watch", "-i", "200ms"]);
    for (place, file) in [(&recording, "all.stalltop"), (&watching, "")] {
        let (json, environment) = until_told(place);
        json_tells_the_same(&json, &environment);
        assert_eq!(value(&environment, "STALLTOP_FILE"), file);
    }
    for child in [&mut recorder, &mut watcher] {
        let _ = child.kill();
        let _ = child.wait();
    }
}

#[test]
fn a_recording_tells_of_each_finding_once() {
    let place = place_with_script();
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings/lab/07-one-hot-thread-pinned.stalltop");
    let script = format!("sh {}", place.path("script").display());
    let arguments = ["check", file.to_str().unwrap(), "--no-config", "--watch", "--on", "warning", "--on-finding", &script];
    let output = place.stalltop(&arguments).output().unwrap();
    let log = String::from_utf8(output.stdout).unwrap();
    let told = (0..100).filter(|number| place.path(&format!("json.{number}")).exists()).count();
    let counts = |line: &&str| line.contains(" begins warning ") || line.contains(" worse  warning ");
    assert_eq!(told, log.lines().filter(counts).count(), "{log}");
    assert!(told >= 1, "{log}");
}
