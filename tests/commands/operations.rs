//! `record --ops`: the count of the command is recorded, and a faulty command does not affect sampling or recording.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use stalltop::recording::Replayer;
use stalltop::sample::Reading;
use stalltop::sample::operations::Operations;

use crate::harness::program;

const PATIENCE: Duration = Duration::from_secs(60);

/// Records with `--ops` until `enough` holds for the counts and the standard error. Returns the file, the exit status and the
/// standard error.
fn record(folder: &Path, ops: &str, enough: impl Fn(&[Reading<Operations>], &str) -> bool) -> (PathBuf, ExitStatus, String) {
    let (file, told) = (folder.join("new.stalltop"), folder.join("told"));
    let mut command = Command::new(program());
    command.args(["record", "-i", "100ms", "--for", "10m", "--ops", ops]).arg(&file);
    for home in ["XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"] {
        command.env(home, folder);
    }
    let mut child = command.current_dir(folder).stderr(File::create(&told).unwrap()).spawn().unwrap();
    let begun = Instant::now();
    while !(file.exists() && enough(&counted(&file), &fs::read_to_string(&told).unwrap())) {
        let ended = child.try_wait().unwrap();
        if ended.is_some() || begun.elapsed() > PATIENCE {
            let _ = child.kill();
            panic!("{ops}: {ended:?}: {}", fs::read_to_string(&told).unwrap());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    kill(Pid::from_raw(child.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
    let status = child.wait().unwrap();
    (file, status, fs::read_to_string(&told).unwrap())
}

/// The count of each sample.
fn counted(file: &Path) -> Vec<Reading<Operations>> {
    // The file may be incomplete.
    let Ok(mut replayer) = Replayer::open(file) else { return Vec::new() };
    (0..replayer.len()).map(|index| replayer.sample(index).unwrap().operations).collect()
}

#[test]
fn each_sample_has_the_total() {
    let folder = tempfile::tempdir().unwrap();
    // Each call adds 7.
    let ops = "n=$(cat n 2>/dev/null || echo 0); n=$((n + 7)); echo $n > n; echo $n of something";
    let (file, status, told) = record(folder.path(), ops, |counted, _| counted.iter().flatten().count() > 0);
    assert!(status.success(), "{told}");
    let counted: Vec<Operations> = counted(&file).into_iter().flatten().collect();
    let mut replayer = Replayer::open(&file).unwrap();
    let last = replayer.sample(replayer.len() - 1).unwrap();
    assert!(!counted.is_empty() && counted.is_sorted_by_key(|operations| (operations.printed_boottime_ns, operations.total)));
    assert!(counted.iter().all(|operations| operations.total.0 % 7 == 0 && operations.total.0 > 0), "{counted:?}");
    assert!(counted.last().unwrap().printed_boottime_ns <= last.at.boottime_ns);
    let info = Command::new(program()).arg("info").arg(&file).output().unwrap();
    let info = String::from_utf8(info.stdout).unwrap();
    let (first, last) = (counted.first().unwrap().total.0, counted.last().unwrap().total.0);
    assert!(info.contains(&format!("counted   {first} to {last} operations")), "{info}");
}

#[test]
fn a_faulty_command_costs_only_the_count() {
    let cases = [
        ("sleep 1000 & exec sleep 1000", None),
        ("printf '\\033]0;evil\\007\\377 many'", Some("it printed '\\u{1b}]0;evil")),
        ("exit 3", Some("it failed (exit status: 3)")),
        ("echo 7; exit 1", Some("it failed (exit status: 1)")),
        ("kill -9 $$", Some("it failed (signal: 9")),
        ("echo -7", Some("it printed '-7'")),
        ("/nonexistent/command", Some("it failed (exit status: 127)")),
    ];
    std::thread::scope(|scope| {
        for (ops, said) in cases {
            scope.spawn(move || costs_only_the_count(ops, said));
        }
    });
}

fn costs_only_the_count(ops: &str, said: Option<&str>) {
    let folder = tempfile::tempdir().unwrap();
    let (file, status, errors) =
        record(folder.path(), ops, |counted, told| counted.len() >= 2 && told.contains(said.unwrap_or_default()));
    assert_eq!(status.code(), Some(0), "{ops}: {errors}");
    assert!(!errors.chars().any(|c| c.is_control() && c != '\n'), "{errors:?}");
    assert!(errors.lines().any(|line| line.contains("recorded ")), "{ops}: {errors}");
    let counted = counted(&file);
    assert!(counted.len() >= 2, "{ops}: {} samples", counted.len());
    assert!(counted.iter().all(Result::is_err), "{ops}: {counted:?}");
    match said {
        Some(said) => assert!(errors.lines().count() == 2 && errors.contains(said), "{ops}: {errors}"),
        None => assert_eq!(errors.lines().count(), 1, "{ops}: {errors}"),
    }
}
