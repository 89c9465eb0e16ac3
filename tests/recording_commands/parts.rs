//! `cut`, `cat`, `--from` and `--to`: a part has the samples of the whole, and the whole is not changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stalltop::recording::{GapReason, Recorder, RecorderStatus, Replayer, Tail};
use stalltop::sample::{Name, Sample};

use crate::{generator, stalltop, support, text};

/// Runs the program; its exit code and standard error.
fn run(arguments: &[&str]) -> (i32, String) {
    let output = stalltop(arguments);
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// 150 samples, a second apart: three key frames, and marks before the third and after the last.
fn whole(folder: &Path) -> (PathBuf, Vec<Arc<Sample>>) {
    let file = folder.join("whole.stalltop");
    let samples = support::few_samples(150);
    support::record_into(&file, "host", &samples, ["begun", "done"]);
    (file, samples)
}

/// All samples of a file; each must be valid.
fn samples(file: &Path) -> (Replayer, Vec<Arc<Sample>>) {
    let mut replayer = Replayer::open(file).unwrap();
    assert!(replayer.is_indexed() && replayer.tail() == Tail::Closed, "{file:?}");
    let list = (0..replayer.len()).map(|index| replayer.sample(index).unwrap()).collect();
    assert_eq!(replayer.verify().unwrap(), replayer.len());
    assert!(replayer.damage().is_empty());
    (replayer, list)
}

#[test]
fn a_part_contains_the_samples_of_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (file, all) = whole(folder.path());
    let before = fs::read(&file).unwrap();
    let apart = (all[1].at.realtime_ns - all[0].at.realtime_ns) as f64 / 1e9;
    // From inside one key group to inside another.
    let (from, to) = (format!("+{:.0}s", 70.0 * apart), format!("+{:.0}s", 130.0 * apart));
    let part = folder.path().join("part.stalltop");
    let (code, said) = run(&["cut", text(&file), "--from", &from, "--to", &to, "-o", text(&part)]);
    assert_eq!((code, said.lines().count()), (0, 1), "{said}");
    let (replayer, held) = samples(&part);
    let first = all.iter().position(|sample| sample.at == held[0].at).unwrap();
    assert!((68..=71).contains(&first) && (59..=62).contains(&held.len()), "{first}, {}", held.len());
    assert_eq!(held[..], all[first..first + held.len()]);
    assert!(replayer.marks().is_empty() && replayer.gaps().is_empty());
    assert_eq!(replayer.meta().host.hostname, Name::from("host"));
    assert_eq!(fs::read(&file).unwrap(), before, "the whole was touched");
    // The end with its mark.
    let end = folder.path().join("end.stalltop");
    assert_eq!(run(&["cut", text(&file), "--from", "-5s", "-o", text(&end)]).0, 0);
    let (replayer, held) = samples(&end);
    assert_eq!((held.last().unwrap(), replayer.marks().len()), (all.last().unwrap(), 1));
    assert_eq!(replayer.marks()[0].text, "done");
    // Existing files are not overwritten, and a refused command leaves no file.
    assert_eq!(run(&["cut", text(&file), "--from", "-5s", "-o", text(&end)]).0, 6);
    assert_eq!(run(&["cut", text(&file), "--from", "-5s", "-o", text(&file)]).0, 6);
    for [from, to] in [["+2h", "+3h"], ["-1s", "+1s"], ["2001-01-01T00:00:00Z", "2001-01-02T00:00:00Z"]] {
        let nowhere = folder.path().join("nowhere.stalltop");
        let (code, said) = run(&["cut", text(&file), "--from", from, "--to", to, "-o", text(&nowhere)]);
        assert_eq!((code, said.lines().count(), nowhere.exists()), (2, 1, false), "{said}");
    }
}

#[test]
fn parts_are_put_together_with_the_gap_between_them() {
    let folder = tempfile::tempdir().unwrap();
    let (file, all) = whole(folder.path());
    let path = |name: &str| folder.path().join(name);
    let (head, tail, both) = (path("head.stalltop"), path("tail.stalltop"), path("both.stalltop"));
    assert_eq!(run(&["cut", text(&file), "--to", "+40s", "-o", text(&head)]).0, 0);
    assert_eq!(run(&["cut", text(&file), "--from", "-40s", "-o", text(&tail)]).0, 0);
    // In the wrong order: they are sorted by time.
    let (code, said) = run(&["cat", text(&tail), text(&head), "-o", text(&both)]);
    assert_eq!(code, 0, "{said}");
    let (replayer, held) = samples(&both);
    let (first, last) = (samples(&head).1, samples(&tail).1);
    assert_eq!(held, [first.clone(), last.clone()].concat());
    let [gap] = replayer.gaps() else { panic!("{:?}", replayer.gaps()) };
    assert_eq!((gap.reason, gap.samples_before), (GapReason::BetweenRecordings, first.len() as u64));
    assert_eq!((gap.from, gap.to), (first.last().unwrap().at.into(), last[0].at.into()));
    let missing = all.len() - first.len() - last.len();
    assert!(gap.lost_samples.abs_diff(missing as u64) <= 1, "{} lost, {missing} are missing", gap.lost_samples);
    let marks: Vec<&str> = replayer.marks().iter().map(|mark| mark.text.as_str()).collect();
    assert_eq!(marks, ["begun", "done"]);
    // Recordings that overlap, or are of another machine or boot, are refused, and no file is left.
    let none = path("none.stalltop");
    let (code, said) = run(&["cat", text(&file), text(&head), "-o", text(&none)]);
    assert!(code == 6 && said.contains("overlap"), "{code}: {said}");
    let elsewhere = path("elsewhere.stalltop");
    support::record_into(&elsewhere, "another", &all[120..], ["", ""]);
    let (code, said) = run(&["cat", text(&head), text(&elsewhere), "-o", text(&none)]);
    assert!(code == 6 && said.contains("different machines"), "{code}: {said}");
    let rebooted = path("rebooted.stalltop");
    let mut meta = generator::meta();
    meta.host.hostname = Name::from("host");
    meta.host.boot_id = Name::from("another boot");
    let mut recorder = Recorder::create(&rebooted, &meta, support::options(40)).unwrap();
    all[120..].iter().for_each(|sample| recorder.offer(Arc::clone(sample)));
    assert!(matches!(recorder.finish(support::PATIENCE), RecorderStatus::Finished(_)));
    let (code, said) = run(&["cat", text(&head), text(&rebooted), "-o", text(&none)]);
    assert!(code == 6 && said.contains("rebooted"), "{code}: {said}");
    assert!(!none.exists());
    assert_eq!(run(&["cat", text(&head), "-o", text(&none)]).0, 2);
}

/// Such files are left by a recorder whose first disk failed.
#[test]
fn samples_that_a_second_file_repeats_are_there_once() {
    let folder = tempfile::tempdir().unwrap();
    let all = support::few_samples(200);
    for repeated in [1, 10, 129] {
        let (first, second) = (folder.path().join("one.stalltop"), folder.path().join("one-2.stalltop"));
        support::record_into(&first, "host", &all[..130], ["begun", ""]);
        support::record_into(&second, "host", &all[130 - repeated..], ["", "done"]);
        let mut together = Replayer::open(folder.path()).unwrap();
        assert_eq!((together.len(), together.gaps().len(), together.marks().len()), (200, 0, 2), "{repeated}");
        for (index, sample) in all.iter().enumerate() {
            assert_eq!(&together.sample(index).unwrap(), sample, "{repeated}, {index}");
            assert_eq!(together.index_at_time(sample.at.realtime_ns), Some(index), "{repeated}");
        }
        let out = folder.path().join("together");
        let (code, said) = run(&["cat", text(&second), text(&first), "-o", text(&out)]);
        assert_eq!(code, 0, "{said}");
        let (replayer, held) = samples(&out);
        assert!(held == all, "{repeated}: {} samples", held.len());
        assert_eq!((replayer.gaps().len(), replayer.marks().len()), (0, 2), "{repeated}");
        [first, second, out].iter().for_each(|file| fs::remove_file(file).unwrap());
    }
}

#[test]
fn a_damaged_sample_is_a_gap_in_the_part() {
    let folder = tempfile::tempdir().unwrap();
    let (file, all) = whole(folder.path());
    let mut bytes = fs::read(&file).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 0x10;
    fs::write(&file, bytes).unwrap();
    let part = folder.path().join("part.stalltop");
    let (code, said) = run(&["cut", text(&file), "-o", text(&part)]);
    assert!(code == 3 && said.contains("damaged samples left out"), "{code}: {said}");
    let (replayer, held) = samples(&part);
    assert!(held.len() < all.len() && held.len() > all.len() / 2);
    assert!(held.iter().all(|sample| all.contains(sample)));
    assert!(replayer.gaps().iter().all(|gap| gap.reason == GapReason::Damaged) && !replayer.gaps().is_empty());
}

#[test]
fn from_and_to_give_the_same_as_cut() {
    let folder = tempfile::tempdir().unwrap();
    let (file, all) = whole(folder.path());
    let mut replayer = Replayer::open(&file).unwrap();
    replayer.restrict_to(65..100);
    assert_eq!(replayer.len(), 35);
    // Decoding the first one needs samples outside the range.
    assert_eq!((replayer.sample(0).unwrap(), replayer.sample(34).unwrap()), (all[65].clone(), all[99].clone()));
    assert!(replayer.sample(35).is_err() && replayer.timestamp(35).is_none() && replayer.marks().is_empty());
    assert_eq!(replayer.index_at_time(i64::MAX), Some(34));
    assert_eq!(replayer.index_at_time(0), Some(0));
    replayer.restrict_to(5..10);
    assert_eq!((replayer.len(), replayer.sample(0).unwrap()), (5, all[70].clone()));
    // A report of a range equals the report of that range after `cut`.
    let (part, direct, cut) = (folder.path().join("p.stalltop"), folder.path().join("d.json"), folder.path().join("c.json"));
    assert_eq!(run(&["report", text(&file), "--from", "+30s", "--to", "+90s", "-o", text(&direct)]).0, 0);
    assert_eq!(run(&["cut", text(&file), "--from", "+30s", "--to", "+90s", "-o", text(&part)]).0, 0);
    assert_eq!(run(&["report", text(&part), "-o", text(&cut)]).0, 0);
    assert_eq!(fs::read_to_string(direct).unwrap(), fs::read_to_string(cut).unwrap());
}
