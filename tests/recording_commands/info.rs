//! `info`: its lines about recordings of every kind.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stalltop::recording::{Gap, GapReason, Meta, Recorder, RecorderStatus, Redaction};
use stalltop::sample::operations::Operations;
use stalltop::sample::{Name, Sample};
use stalltop::units::Counter;

use crate::support::places::frames;
use crate::support::{PATIENCE, few_samples, options};
use crate::{generator, stalltop, text};

/// Records these samples; `before`: what is added before a sample.
fn record(file: &Path, meta: &Meta, samples: &[Arc<Sample>], before: impl Fn(&mut Recorder, usize, &Sample)) {
    let mut recorder = Recorder::create(file, meta, options(samples.len())).unwrap();
    for (index, sample) in samples.iter().enumerate() {
        before(&mut recorder, index, sample);
        recorder.offer(Arc::clone(sample));
    }
    let status = recorder.finish(PATIENCE);
    assert!(matches!(status, RecorderStatus::Finished(_)), "{status:?}");
}

fn nothing(_: &mut Recorder, _: usize, _: &Sample) {}

/// What `info --verify` prints, and its exit code.
fn info(file: &Path) -> (i32, String) {
    let output = stalltop(&["info", "--verify", text(file)]);
    let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), said)
}

/// It prints these lines, or lines that begin so, and exits with this code.
fn tells(file: &Path, code: i32, lines: &[&str]) {
    let (found, said) = info(file);
    assert_eq!(found, code, "{}: {said}", file.display());
    for line in lines {
        assert!(said.lines().any(|said| said.starts_with(line)), "{}: no {line:?} in:\n{said}", file.display());
    }
}

struct Place(tempfile::TempDir);

impl Place {
    fn file(&self, name: &str) -> PathBuf {
        let file = self.0.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        file
    }
}

#[test]
fn an_intact_recording_has_its_facts_marks_and_gaps() {
    let place = Place(tempfile::tempdir().unwrap());
    let (file, redacted) = (place.file("whole.stalltop"), place.file("redacted.stalltop"));
    let samples = few_samples(8);
    record(&file, &generator::meta(), &samples, |recorder, index, sample| {
        let at = sample.at.into();
        match index {
            2 => assert!(recorder.add_mark(at, "deploy 42")),
            5 => recorder.add_gap(&Gap { samples_before: 5, lost_samples: 3, from: at, to: at, reason: GapReason::NotSampled }),
            _ => {}
        }
    });
    let gap = "gap       3 samples, ";
    let lines = [
        "format    1.",
        "host      db1, Linux 6.18.0, x86_64",
        "interval  1 s",
        "samples   8, ",
        "time      ",
        "end       closed",
        gap,
        "mark      ",
        "not seen  /proc/pressure/io (",
        "verified  8 of 8 samples intact",
    ];
    tells(&file, 0, &lines);
    let said = info(&file).1;
    let line = |begin: &str| said.lines().find(|line| line.starts_with(begin)).unwrap();
    assert!(line("mark").ends_with(": deploy 42") && line(gap).ends_with(GapReason::NotSampled.description()), "{said}");
    for other in ["segments", "runs", "torn", "redacted", "counted", "unknown", "unread", "damage"] {
        assert!(!said.lines().any(|line| line.starts_with(other)), "{other}: {said}");
    }
    // What --verify reads needs no index.
    let plain = String::from_utf8(stalltop(&["info", text(&file)]).stdout).unwrap();
    assert!(plain.contains("\nindex     valid\n") && !plain.contains("\nverified") && !said.contains("\nindex"), "{plain}");
    record(&redacted, &Meta { redaction: Redaction::Arguments, ..generator::meta() }, &samples, nothing);
    tells(&redacted, 0, &["redacted  arguments of commands were not recorded"]);
}

#[test]
fn a_directory_has_files_and_runs() {
    let place = Place(tempfile::tempdir().unwrap());
    let samples = few_samples(8);
    record(&place.file("runs/a.stalltop"), &generator::meta(), &samples[..4], nothing);
    let mut meta = generator::meta();
    meta.host.boot_id = Name::from("11111111-3f0b-4a55-9f60-1f6f2a0c7b11");
    record(&place.file("runs/b.stalltop"), &meta, &samples[4..], nothing);
    let runs = "runs      2: the machine was rebooted in between, or it is another machine";
    tells(&place.file("runs"), 0, &["segments  2 files", runs, "samples   8, ", "end       closed"]);
}

/// As after a kill: without an index, and inside a frame.
#[test]
fn a_recording_without_its_end_says_what_is_missing() {
    let place = Place(tempfile::tempdir().unwrap());
    let (whole, samples) = (place.file("whole.stalltop"), few_samples(8));
    record(&whole, &generator::meta(), &samples, nothing);
    let bytes = fs::read(&whole).unwrap();
    let last = frames(&bytes).into_iter().filter(|frame| frame.is_sample()).nth(7).unwrap();
    let (unfinished, torn) = (place.file("unfinished.stalltop"), place.file("torn.stalltop"));
    fs::write(&unfinished, &bytes[..last.end()]).unwrap();
    tells(
        &unfinished,
        0,
        &[
            "samples   8, ",
            "end       not closed: the recorder was killed; all samples that it wrote are here",
            "verified  8 of 8 samples intact",
        ],
    );
    assert!(!info(&unfinished).1.contains("index     valid"));
    fs::write(&torn, &bytes[..last.end() - 10]).unwrap();
    let (have, need) = (last.length - 10, last.length);
    let end = format!("end       last frame incomplete ({have} of {need} bytes at byte {}): the recorder was stopped", last.at);
    tells(&torn, 3, &["samples   7, ", &end, "verified  7 of 7 samples intact"]);
    let output = stalltop(&["info", text(&torn)]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && said.contains("\nindex     missing or invalid: all frames were read\n"), "{said}");
    // The same before another file.
    fs::copy(&torn, place.file("both/a.stalltop")).unwrap();
    fs::copy(&whole, place.file("both/b.stalltop")).unwrap();
    tells(&place.file("both"), 3, &["torn      1 earlier file with an incomplete last frame: the recorder was stopped"]);
}

#[test]
fn damage_has_its_place() {
    let place = Place(tempfile::tempdir().unwrap());
    let file = place.file("damaged.stalltop");
    record(&file, &generator::meta(), &few_samples(8), nothing);
    let mut bytes = fs::read(&file).unwrap();
    let frame = frames(&bytes).into_iter().filter(|frame| frame.is_sample()).nth(7).unwrap();
    bytes[frame.at + 60] ^= 1;
    fs::write(&file, &bytes).unwrap();
    tells(
        &file,
        3,
        &[&format!("damage    bytes {} to {}: ", frame.at, frame.end()), "verified  7 of 8 samples intact", "stalltop: "],
    );
    assert!(info(&file).1.contains("1 place, 1 sample lost: 7 intact samples can be replayed"), "{}", info(&file).1);
}

#[test]
fn a_recording_that_grows_is_said_to() {
    let place = Place(tempfile::tempdir().unwrap());
    let file = place.file("growing.stalltop");
    let mut recorder = Recorder::create(&file, &generator::meta(), options(8)).unwrap();
    few_samples(8).into_iter().for_each(|sample| recorder.offer(sample));
    crate::support::until("the samples are written", || recorder.status().progress().samples == 8);
    tells(&file, 0, &["samples   8, ", "end       still being written"]);
    recorder.finish(PATIENCE);
    tells(&file, 0, &["samples   8, ", "end       closed"]);
}

#[test]
fn operations_that_were_counted_have_a_rate_unless_the_count_began_again() {
    let place = Place(tempfile::tempdir().unwrap());
    let samples = few_samples(4);
    let counted = |name: &str, totals: [u64; 4]| {
        let file = place.file(name);
        let first = samples[0].at.boottime_ns;
        let of = |(index, total): (u64, u64)| {
            let printed_boottime_ns = first + index * 1_000_000_000;
            let mut sample = Sample::clone(&samples[index as usize]);
            sample.operations = Ok(Operations { total: Counter(total), printed_boottime_ns });
            Arc::new(sample)
        };
        record(&file, &generator::meta(), &(0..).zip(totals).map(of).collect::<Vec<_>>(), nothing);
        file
    };
    let even = counted("even.stalltop", [100, 200, 300, 400]);
    tells(&even, 0, &["counted   100 to 400 operations: 100.0 per second"]);
    let again = counted("again.stalltop", [100, 200, 10, 20]);
    tells(&again, 0, &["counted   100 to 20 operations: it restarted in between"]);
}
