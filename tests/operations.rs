//! `record --ops`: what a command counts is in the recording; what it does otherwise touches neither sampling nor recording.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test may fail loudly, and says why it skips"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use stalltop::recording::Replayer;
use stalltop::sample::operations::Operations;
use stalltop::sample::{Absent, Reading};

/// Records ten samples and more, and asks that command meanwhile.
fn record(folder: &Path, ops: &str) -> (PathBuf, Output) {
    let file = folder.join("new.stalltop");
    let mut command = Command::new(env!("CARGO_BIN_EXE_stalltop"));
    command.args(["record", "-i", "100ms", "--for", "1200ms", "--ops", ops]).arg(&file);
    for home in ["XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"] {
        command.env(home, folder);
    }
    let output = command.current_dir(folder).output().unwrap();
    (file, output)
}

/// What each sample says was counted.
fn counted(file: &Path) -> Vec<Reading<Operations>> {
    let mut replayer = Replayer::open(file).unwrap();
    (0..replayer.len()).map(|index| replayer.sample(index).unwrap().operations).collect()
}

#[test]
fn a_total_goes_along_with_each_sample() {
    let folder = tempfile::tempdir().unwrap();
    // Each time it is asked, 7 more.
    let (file, output) =
        record(folder.path(), "n=$(cat n 2>/dev/null || echo 0); n=$((n + 7)); echo $n > n; echo $n of something");
    assert!(output.status.success(), "{output:?}");
    let counted: Vec<Operations> = counted(&file).into_iter().flatten().collect();
    let mut replayer = Replayer::open(&file).unwrap();
    let last = replayer.sample(replayer.len() - 1).unwrap();
    assert!(!counted.is_empty() && counted.is_sorted_by_key(|operations| (operations.at_boottime_ns, operations.total)));
    assert!(counted.iter().all(|operations| operations.total.0 % 7 == 0 && operations.total.0 > 0), "{counted:?}");
    assert!(counted.last().unwrap().at_boottime_ns <= last.at.boottime_ns);
    let info = Command::new(env!("CARGO_BIN_EXE_stalltop")).arg("info").arg(&file).output().unwrap();
    let info = String::from_utf8(info.stdout).unwrap();
    let (first, last) = (counted.first().unwrap().total.0, counted.last().unwrap().total.0);
    assert!(info.contains(&format!("counted   {first} to {last} operations")), "{info}");
}

#[test]
fn a_command_that_hangs_or_says_nonsense_costs_only_the_count() {
    let cases = [
        ("sleep 1000 & exec sleep 1000", None),
        ("printf '\\033]0;evil\\007\\377 many'", Some("it printed no number but '\\u{1b}]0;evil")),
        ("exit 3", Some("it printed nothing")),
        ("kill -9 $$", Some("it printed nothing")),
        ("echo -7", Some("it printed no number but '-7'")),
        ("/nonexistent/command", Some("it printed nothing")),
    ];
    std::thread::scope(|scope| {
        for (ops, said) in cases {
            scope.spawn(move || costs_only_the_count(ops, said));
        }
    });
}

fn costs_only_the_count(ops: &str, said: Option<&str>) {
    let folder = tempfile::tempdir().unwrap();
    let (file, output) = record(folder.path(), ops);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{ops}: {errors}");
    assert!(!errors.chars().any(|c| c.is_control() && c != '\n'), "{errors:?}");
    assert!(errors.lines().any(|line| line.contains("recorded ")), "{ops}: {errors}");
    let counted = counted(&file);
    assert!(counted.len() >= 2, "{ops}: {} samples", counted.len());
    let none = |reading: &Reading<Operations>| matches!(reading, Err(Absent::NotRead | Absent::Malformed));
    assert!(counted.iter().all(none), "{ops}: {counted:?}");
    match said {
        Some(said) => assert!(errors.lines().count() == 2 && errors.contains(said), "{ops}: {errors}"),
        None => assert_eq!(errors.lines().count(), 1, "{ops}: {errors}"),
    }
}
