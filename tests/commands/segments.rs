//! A directory of consecutive recordings: it replays as one, and only its own closed recordings are deleted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use stalltop::recording::{GapReason, Recorder, RecorderOptions, Replayer, Tail};
use stalltop::sample::Name;

use crate::harness::{DEADLINE, program};

/// Runs the program; returns exit code, standard output, standard error.
fn run(state: &Path, arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(program()).args(arguments).env("XDG_STATE_HOME", state).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn a_directory_of_segments_is_one_recording_with_gaps_between_boots() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("recording");
    let name = directory.to_str().unwrap();
    // Ends when there are two files more.
    let record = || {
        let count = || fs::read_dir(&directory).map_or(0, Iterator::count);
        let wanted = count() + 2;
        let mut recorder = Command::new(program())
            .args(["record", "-i", "100ms", "--rotate", "400ms", name])
            .env("XDG_STATE_HOME", temporary.path())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let begin = Instant::now();
        while count() < wanted {
            assert_eq!(recorder.try_wait().unwrap(), None, "it has ended with {} files", count());
            if begin.elapsed() > DEADLINE {
                recorder.kill().unwrap();
                panic!("it has {} files, not {wanted}", count());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        kill(Pid::from_raw(recorder.id().cast_signed()), Signal::SIGTERM).unwrap();
        let status = recorder.wait().unwrap();
        assert!(status.success(), "{status}");
    };
    record();
    let first_run = files(&directory).len();
    assert!(first_run >= 2, "{:?}", files(&directory));
    let replayer = Replayer::open(&directory).unwrap();
    assert_eq!(replayer.file_count(), first_run);
    std::thread::sleep(Duration::from_millis(1200));
    let before = replayer.len();
    record();
    let mut replayer = Replayer::open(&directory).unwrap();
    assert_eq!(replayer.verify().unwrap(), replayer.len());
    assert!(replayer.len() > before && replayer.tail() == Tail::Closed && replayer.damage().is_empty());
    let pause = replayer.gaps().iter().find(|gap| gap.samples_before == before as u64);
    let pause = pause.expect("the time between the runs is a gap");
    assert!(pause.reason == GapReason::NotSampled && pause.lost_samples >= 10, "{pause:?}");
    let moments: Vec<i64> = (0..replayer.len()).map(|at| replayer.timestamp(at).unwrap().realtime_ns).collect();
    assert!(moments.is_sorted(), "{moments:?}");
    for (at, &moment) in moments.iter().enumerate() {
        assert_eq!(replayer.index_at_time(moment), Some(at));
    }
    let (code, stdout, stderr) = run(temporary.path(), &["info", name]);
    assert!(code == 0 && stdout.contains("segments  ") && stdout.contains("gap  "), "{code} {stdout} {stderr}");
    let (code, _, stderr) = run(temporary.path(), &["check", name]);
    assert!([0, 1, 2].contains(&code), "{code} {stderr}");
}

#[test]
fn no_segment_starts_with_the_last_sample() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("recording");
    let arguments = ["record", "-i", "100ms", "--rotate", "1s", "--for", "1s", directory.to_str().unwrap()];
    let (code, _, stderr) = run(temporary.path(), &arguments);
    assert_eq!(code, 0, "{stderr}");
    let samples: Vec<usize> = files(&directory).iter().map(|file| Replayer::open(file).unwrap().len()).collect();
    assert!(!samples.contains(&0), "{samples:?}");
}

#[test]
fn only_own_closed_segments_are_deleted() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("recording");
    let name = directory.to_str().unwrap();
    let record = |keep: &str| {
        let arguments = ["record", "-i", "100ms", "--rotate", "300ms", "--keep", keep, "--for", "500ms", name];
        let (code, _, stderr) = run(temporary.path(), &arguments);
        assert_eq!(code, 0, "{stderr}");
    };
    record("1h");
    let ours = files(&directory);
    assert!(!ours.is_empty());
    // Files of others: another name, a damaged copy, a link, a file that is no recording.
    let foreign = directory.join("saved-by-hand.stalltop");
    fs::copy(&ours[0], &foreign).unwrap();
    let numbered = |number: u32| PathBuf::from(ours[0].to_str().unwrap().replace(".stalltop", &format!("-{number}.stalltop")));
    let mut bytes = fs::read(&ours[0]).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    bytes.truncate(bytes.len() - 20);
    let (damaged, link, text, killed) = (numbered(90), numbered(91), numbered(92), numbered(93));
    fs::write(&damaged, &bytes).unwrap();
    // Damaged, but closed: its end is intact.
    let (scratched, elsewhere, theirs) = (numbered(94), numbered(95), numbered(96));
    let mut bytes = fs::read(&ours[0]).unwrap();
    bytes[20] ^= 1;
    fs::write(&scratched, &bytes).unwrap();
    assert_eq!(Replayer::open(&scratched).unwrap().tail(), Tail::Closed);
    // Of another machine, whose name is a prefix of this one's.
    let mut replayer = Replayer::open(&ours[0]).unwrap();
    let mut meta = replayer.meta().clone();
    meta.host.hostname = Name::from("elsewhere");
    let mut recorder = Recorder::create(&elsewhere, &meta, RecorderOptions::default()).unwrap();
    recorder.offer(replayer.sample(0).unwrap());
    recorder.finish(std::time::Duration::from_secs(60));
    fs::copy(&ours[0], &theirs).unwrap();
    let has_owner = std::os::unix::fs::chown(&theirs, Some(65_534), None).is_ok();
    if !has_owner {
        println!("skipped: only root can give a file away");
    }
    // Not closed: it may be the only record of an accident.
    let end = Replayer::open(&ours[0]).unwrap().byte_len().unwrap() as usize;
    let sound = fs::read(&ours[0]).unwrap();
    let index_at = u64::from_le_bytes(sound[end - 16..end - 8].try_into().unwrap()) as usize;
    fs::write(&killed, &sound[..index_at]).unwrap();
    assert_eq!(Replayer::open(&killed).unwrap().tail(), Tail::Unfinished);
    std::os::unix::fs::symlink(&ours[0], &link).unwrap();
    fs::write(&text, "not a recording").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    record("200ms");
    for kept in [&foreign, &damaged, &text, &killed, &scratched, &elsewhere] {
        assert!(kept.exists(), "{}", kept.display());
    }
    assert!(theirs.exists() || !has_owner, "another user's is deleted");
    assert!(link.symlink_metadata().is_ok());
    assert!(!ours[0].exists(), "it is older than was to be kept: {:?}", files(&directory));
}

/// The owner of the parent directory may replace the directory by another one, or a link, during the recording.
#[test]
fn nothing_is_written_to_a_replaced_directory() {
    let temporary = tempfile::tempdir().unwrap();
    let (directory, moved, victim) =
        (temporary.path().join("recording"), temporary.path().join("moved"), temporary.path().join("victim"));
    fs::create_dir(&victim).unwrap();
    // A file there with the name of an old recording must stay.
    let arguments =
        ["record", "-i", "100ms", "--rotate", "300ms", "--keep", "200ms", "--for", "2500ms", directory.to_str().unwrap()];
    let mut child = Command::new(program())
        .args(arguments)
        .env("XDG_STATE_HOME", temporary.path())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while !directory.is_dir() || files(&directory).is_empty() {
        assert!(child.try_wait().unwrap().is_none(), "it ended");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let old = files(&directory)[0].clone();
    fs::rename(&directory, &moved).unwrap();
    fs::write(victim.join(old.file_name().unwrap()), "another user's").unwrap();
    std::os::unix::fs::symlink(&victim, &directory).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(files(&victim), [victim.join(old.file_name().unwrap())], "the link was followed");
    let replayer = Replayer::open(&moved).unwrap();
    assert!(!replayer.is_empty() && replayer.damage().is_empty());
    assert!(files(&moved).iter().all(|file| file.extension().is_some_and(|ending| ending == "stalltop")));
}

#[test]
fn a_directory_that_others_may_write_to_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("open");
    fs::create_dir(&directory).unwrap();
    for mode in [0o777, 0o1777, 0o757] {
        fs::set_permissions(&directory, fs::Permissions::from_mode(mode)).unwrap();
        let (code, _, said) = run(temporary.path(), &["record", "--rotate", "1d", "--for", "1s", directory.to_str().unwrap()]);
        assert_eq!((code, said.lines().count()), (6, 1), "{said}");
        assert!(said.contains(&format!("mode {mode:o}")) && said.contains("open"), "{said}");
    }
    // Root gets a warning with the owner instead: that user could put other files there.
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
    if std::os::unix::fs::chown(&directory, Some(65_534), None).is_ok() {
        let (code, _, said) = run(temporary.path(), &["record", "--rotate", "1d", "--for", "1s", directory.to_str().unwrap()]);
        assert!(code == 6 && said.contains("belongs to user 65534"), "{code} {said}");
    } else {
        println!("skipped: only root can give a directory away");
    }
    assert!(files(&directory).is_empty());
}

#[test]
fn rotation_needs_a_directory() {
    let temporary = tempfile::tempdir().unwrap();
    let file = temporary.path().join("file");
    fs::write(&file, "there already").unwrap();
    let (code, _, stderr) = run(temporary.path(), &["record", "--rotate", "1d", file.to_str().unwrap()]);
    assert!(code == 5 && stderr.lines().count() == 1, "{code} {stderr}");
    assert_eq!(run(temporary.path(), &["record", "--rotate", "1d", "-"]).0, 2);
    assert_eq!(run(temporary.path(), &["record", "--rotate", "1d"]).0, 2);
    assert_eq!(run(temporary.path(), &["record", "--keep", "1d", "x"]).0, 2);
    assert_eq!(fs::read(&file).unwrap(), b"there already");
    let (code, _, stderr) = run(temporary.path(), &["replay", temporary.path().join("none").to_str().unwrap()]);
    assert!(code != 0 && stderr.lines().count() == 1, "{stderr}");
    let empty = temporary.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let (code, _, stderr) = run(temporary.path(), &["info", empty.to_str().unwrap()]);
    assert!(code == 4 && stderr.contains("has no recordings"), "{code} {stderr}");
}
