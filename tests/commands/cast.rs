//! .ci/cast: what it writes is an asciicast of version 2, in which the keys of the demo show what they should.

use std::num::NonZero;
use std::process::Command;

use serde_json::Value;

use crate::harness::program;
use crate::output::texts_of;

/// Of the pauses before the keys, which are for people.
const PACE: &str = "0.3";

#[test]
fn the_cast_of_the_demo_plays() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("demo.cast");
    let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.ci/cast"));
    command.arg(program()).arg(&file).arg(PACE).env("XDG_STATE_HOME", folder.path());
    let output = match command.output() {
        Ok(output) if output.status.code() != Some(127) => output,
        _ => return println!("skipped: no python3"),
    };
    let (code, stdout, stderr) = texts_of(&output);
    assert!(code == 0 && stderr.is_empty(), "{stdout}{stderr}");

    let text = std::fs::read_to_string(&file).unwrap();
    let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let header = lines.next().unwrap();
    assert_eq!(header["version"], 2);
    let size = |name: &str| NonZero::new(u16::try_from(header[name].as_u64().unwrap()).unwrap()).unwrap();
    let mut terminal = vt100::Parser::new(size("height"), size("width"), 0);
    let (mut last, mut screens) = (0.0, Vec::new());
    for event in lines {
        let [time, kind, text] = event.as_array().unwrap().as_slice() else { panic!("{event}") };
        let time = time.as_f64().unwrap();
        assert!(time >= last && kind == "o", "{event} after {last} s");
        last = time;
        terminal.process(text.as_str().unwrap().as_bytes());
        screens.push(terminal.screen().contents());
    }
    assert!(!terminal.screen().alternate_screen(), "the terminal is restored");
    assert!(last < 30.0, "{last} s");

    // In this order: the first recording, its wait chain, the CPU of the second, the latency of the third over time.
    let mut rest = screens.iter();
    for shown in ["blocked-database", "WHO WAITS FOR WHOM", "saturated-thread", "HOT THREADS", "BASELINES"] {
        assert!(rest.any(|screen| screen.contains(shown)), "{shown} is not shown: {}", screens.last().unwrap());
    }
}
