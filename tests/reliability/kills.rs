//! The recorder is killed at any time, killed in each of its system calls, and each of them fails: every sample whose
//! write had returned is there afterwards, and no sample that was never recorded.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use stalltop::recording::{Recorder, RecorderOptions, RecorderStatus, Replayer};
use stalltop::sample::Sample;

use crate::generator::{self, Dice, Machine};
use crate::measure::{MIB, Trials, full};
use crate::support::{PATIENCE, options};

/// The recording's file.
const FILE: &str = "victim.stalltop";

/// The samples that the killed process records.
fn samples(count: usize) -> Vec<Arc<Sample>> {
    let mut machine = Machine::new(31, 5, 6, 1, 1);
    (0..count).map(|_| machine.next()).collect()
}

/// A recording by another process, and a file that grows by one byte with each sample that is written.
struct Victim {
    directory: tempfile::TempDir,
    count: usize,
}

impl Victim {
    fn new(count: usize) -> Victim {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("recording")).unwrap();
        Victim { directory, count }
    }

    /// The files of the recording: one or two.
    fn segments(&self) -> PathBuf {
        self.directory.path().join("recording")
    }

    fn recording(&self) -> PathBuf {
        self.segments().join(FILE)
    }

    /// strace for the system calls on the recording's first file: by its path, and by its name in its directory.
    fn traced(&self, options: &[&str]) -> Command {
        let recording = self.recording();
        let files = ["-P", recording.to_str().unwrap(), "-P", FILE];
        self.command(&[&["strace", "-f", "-qq"], options, &files[..]].concat())
    }

    /// Number of samples that the recorder had written.
    fn written(&self) -> usize {
        fs::metadata(self.directory.path().join("written")).map_or(0, |metadata| metadata.len() as usize)
    }

    fn command(&self, before: &[&str]) -> Command {
        let own = std::env::current_exe().unwrap();
        let mut words = before.iter().map(PathBuf::from).chain([own]);
        let mut command = Command::new(words.next().unwrap());
        command
            .args(words)
            .args(["--exact", "kills::records_where_the_environment_says"])
            .env("STALLTOP_TEST_RECORDS", self.directory.path())
            .env("STALLTOP_TEST_SAMPLES", self.count.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    /// Number of written samples that are lost. Must be 0.
    fn lost(&self, what: &str) -> usize {
        let written = self.written();
        let truth = samples(self.count);
        let sound = match Replayer::open(&self.segments()) {
            Ok(mut replayer) => {
                assert!(!replayer.is_growing(), "{what}: the lock outlives its process");
                let sound = replayer.verify().unwrap();
                assert_eq!(sound, replayer.len(), "{what}: {:?}", replayer.damage());
                assert!(replayer.damage().is_empty(), "{what}: {:?}", replayer.damage());
                for number in 0..sound {
                    let place = usize::try_from(replayer.sequence(number).unwrap()).unwrap();
                    let sample = replayer.sample(number).unwrap();
                    let in_gaps: u64 = replayer
                        .gaps()
                        .iter()
                        .filter(|gap| gap.samples_before <= place as u64)
                        .map(|gap| gap.lost_samples)
                        .sum();
                    assert_eq!(sample, truth[place + in_gaps as usize], "{what}: a sample that was never recorded");
                }
                sound
            }
            Err(error) => {
                assert_eq!(written, 0, "{what}: {error}");
                0
            }
        };
        let beside: Vec<_> = fs::read_dir(self.segments()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(beside.len() <= 2, "{what}: something is left: {beside:?}");
        assert!(sound >= written, "{what}: {written} samples were written, and {sound} are there");
        written.saturating_sub(sound)
    }
}

/// The child process that is killed: does nothing by itself.
#[test]
fn records_where_the_environment_says() {
    let Some(directory) = std::env::var_os("STALLTOP_TEST_RECORDS") else { return };
    let count = std::env::var("STALLTOP_TEST_SAMPLES").unwrap().parse().unwrap();
    let directory = Path::new(&directory);
    let options = RecorderOptions { reserve_free_space: false, ..options(count) };
    let Ok(mut recorder) = Recorder::create(&directory.join("recording").join(FILE), &generator::meta(), options) else {
        return;
    };
    let written = fs::OpenOptions::new().append(true).create(true).open(directory.join("written")).unwrap();
    for (number, sample) in samples(count).into_iter().enumerate() {
        recorder.offer(sample);
        loop {
            let status = recorder.status();
            if status.progress().samples > number as u64 {
                std::io::Write::write_all(&mut &written, b".").unwrap();
                break;
            }
            if !matches!(status, RecorderStatus::Recording(_)) || status.progress().lost_samples > 0 {
                break;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }
    recorder.finish(PATIENCE);
}

fn killed(mut child: Child) -> ExitStatus {
    child.kill().unwrap();
    child.wait().unwrap()
}

#[test]
fn a_kill_at_any_time_loses_at_most_the_sample_in_flight() {
    let mut dice = Dice::new(9);
    let rounds = if full() { 1000 } else { 25 };
    let mut trials = Trials::new("kill -9 at a random moment", 150);
    let mut most = 0;
    for round in 0..rounds {
        let victim = Victim::new(150);
        let mut child = victim.command(&[]).spawn().unwrap();
        // Some while the file is opened, most during writes.
        let until = dice.below(140).saturating_sub(10) as usize;
        while victim.written() < until && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_micros(200));
        }
        std::thread::sleep(Duration::from_micros(dice.below(3000)));
        let status = killed(child);
        let (by_kill, written) = (status.signal() == Some(9), victim.written());
        // It may have recorded everything before the kill.
        assert!(by_kill || status.success() && written >= until, "round {round}: {status} after {written} of {until} samples");
        most = most.max(written);
        trials.run(64 * MIB, || victim.lost(&format!("round {round}")));
    }
    assert!(most >= 50, "no round was killed after more than {most} samples");
}

/// The system calls on the recording with their counts, by strace; `None` where strace is not permitted.
fn system_calls(count: usize) -> Option<Vec<(String, usize)>> {
    let victim = Victim::new(count);
    let log = victim.directory.path().join("strace");
    if !victim.traced(&["-o", log.to_str().unwrap()]).status().is_ok_and(|status| status.success()) {
        println!("skipped: strace is not there, or may not trace");
        return None;
    }
    let mut calls = std::collections::BTreeMap::new();
    for line in fs::read_to_string(&log).unwrap().lines() {
        let call = line.split_whitespace().nth(1).and_then(|call| call.split_once('('));
        if let Some((name, _)) = call {
            *calls.entry(name.to_owned()).or_insert(0) += 1;
        }
    }
    fs::remove_file(log).unwrap();
    assert_eq!(victim.lost("traced"), 0);
    assert!(calls.contains_key("write") && calls.contains_key("fdatasync"), "{calls:?}");
    Some(calls.into_iter().collect())
}

/// Runs the recorder with an injected fault in the `nth` call of that name; returns lost samples and the files.
fn injected(call: &str, nth: usize, what: &str, count: usize) -> (usize, Vec<PathBuf>) {
    let victim = Victim::new(count);
    let inject = format!("inject={call}:{what}:when={nth}");
    // Any end is right.
    let _ = victim.traced(&["-o", "/dev/null", "-e", &inject]).status().unwrap();
    let lost = victim.lost(&inject);
    let files: Vec<PathBuf> = fs::read_dir(victim.segments()).unwrap().map(|entry| entry.unwrap().path()).collect();
    for file in files.iter().filter(|_| what.starts_with("error")) {
        Replayer::open(file).unwrap_or_else(|error| panic!("{inject}: what could not begin is left: {error}"));
    }
    (lost, files)
}

#[test]
fn a_kill_in_any_system_call_loses_at_most_the_sample_in_flight() {
    let count = if full() { 8 } else { 2 };
    let Some(calls) = system_calls(count) else { return };
    let mut trials = Trials::new("killed inside each system call", count);
    for (call, times) in calls {
        for nth in 1..=times {
            trials.run(64 * MIB, || injected(&call, nth, "signal=SIGKILL", count).0);
        }
    }
}

#[test]
fn whichever_system_call_fails_what_was_written_is_there() {
    let count = if full() { 8 } else { 2 };
    let Some(calls) = system_calls(count) else { return };
    let mut trials = Trials::new("each system call fails: ENOSPC, EIO, EDQUOT, EINTR", count);
    let errors: &[&str] = if full() { &["ENOSPC", "EIO", "EDQUOT", "EINTR"] } else { &["EIO"] };
    for (call, times) in calls {
        for nth in (1..=times).take(if full() { usize::MAX } else { 2 }) {
            for error in errors {
                trials.run(64 * MIB, || {
                    let (lost, files) = injected(&call, nth, &format!("error={error}"), count);
                    // If the first one fails there is no recording. An interrupted one is tried again.
                    let sync_failed = call == "fdatasync" && nth > 1 && *error != "EINTR";
                    assert!(!sync_failed || files.len() == 2, "it goes on in {files:?} after a failed sync ({nth}, {error})");
                    lost
                });
            }
        }
    }
}
