//! Copies of recordings: all intact samples go into a new file, missing ones become gaps, the source is not changed.

use std::fs;
use std::path::Path;

use stalltop::recording::{Copier, CopyTotals, GapReason, Recorder, RecorderOptions, RecordingError, Replayer, Sections, Tail};

use crate::generator::{self, Dice};
use crate::support::places::{Place, frames};
use crate::support::{PATIENCE, Sink, few_samples, options, record};

/// A recording with sections, marks and a gap.
fn rich(samples: usize) -> Vec<u8> {
    let sections: Sections = [("baselines".to_owned(), vec![7; 500])].into_iter().collect();
    let sink = Sink::default();
    let options = RecorderOptions { sections, ..options(samples * 2) };
    let mut recorder = Recorder::from_writer(sink.clone(), &generator::meta(), options).unwrap();
    for (index, sample) in few_samples(samples).into_iter().enumerate() {
        if index % 10 == 4 {
            assert!(recorder.add_mark(sample.at.into(), &format!("before {index}")));
        }
        if index == 7 {
            recorder.add_missed(3, sample.at.into());
        }
        recorder.offer(sample);
    }
    recorder.finish(PATIENCE);
    sink.0.lock().unwrap().clone()
}

fn repaired(bytes: &[u8]) -> Result<(CopyTotals, Replayer), RecordingError> {
    let directory = tempfile::tempdir().unwrap();
    let (damaged, out) = (directory.path().join("damaged"), directory.path().join("out"));
    fs::write(&damaged, bytes).unwrap();
    let result = Replayer::open(&damaged).and_then(|mut replayer| Copier::repair(&mut replayer, &out));
    assert_eq!(fs::read(&damaged).unwrap(), bytes, "the source was changed");
    match result {
        Ok(copied) => {
            let kept = fs::read(&out).unwrap();
            assert_eq!(copied.bytes, kept.len() as u64);
            Ok((copied, Replayer::from_bytes(kept)?))
        }
        Err(error) => {
            assert!(!out.exists(), "half a copy: {error}");
            Err(error)
        }
    }
}

/// An incomplete copy would look like a shorter, intact recording.
#[test]
fn a_copy_has_no_name_until_it_is_complete() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("copy.stalltop");
    let mut source = Replayer::from_bytes(rich(40)).unwrap();
    let mut copy = Copier::create(&path, &source.meta().clone(), &Sections::new()).unwrap();
    copy.append_samples(&mut source, 0..30).unwrap();
    assert!(!path.exists());
    copy.append_samples(&mut source, 30..40).unwrap();
    assert_eq!(copy.finish().unwrap().samples, 40);
    assert_eq!(Replayer::open(&path).unwrap().len(), 40);
}

#[test]
fn an_intact_recording_is_copied_completely() {
    let samples = few_samples(140);
    let (copied, mut copy) = repaired(&rich(140)).unwrap();
    assert_eq!((copied.samples, copied.lost_samples), (140, 0));
    assert_eq!(copy.verify().unwrap(), 140);
    for (index, sample) in samples.iter().enumerate() {
        assert_eq!(&copy.sample(index).unwrap(), sample, "sample {index}");
    }
    assert_eq!(copy.section("baselines"), Some([7; 500].as_slice()));
    assert_eq!(copy.meta(), &generator::meta());
    let marks: Vec<_> = copy.marks().iter().map(|mark| (mark.samples_before, mark.text.as_str())).collect();
    assert_eq!(marks[..2], [(4, "before 4"), (14, "before 14")]);
    assert_eq!(marks.len(), 14);
    let gaps: Vec<_> = copy.gaps().iter().map(|gap| (gap.samples_before, gap.lost_samples, gap.reason)).collect();
    assert_eq!(gaps, [(7, 3, GapReason::NotSampled)]);
}

/// Intact samples stay intact, and every sample is there or in a gap.
#[test]
fn any_damage_is_copied_as_gaps() {
    let bytes = rich(30);
    let samples = few_samples(30);
    let mut dice = Dice::new(17);
    for round in 0..75 {
        let mut damaged = bytes.clone();
        for _ in 0..1 + dice.below(3) {
            let at = 128 + dice.below(damaged.len() as u64 - 200) as usize;
            let end = (at + 1 + dice.below(300) as usize).min(damaged.len());
            match dice.below(4) {
                0 => damaged[at] ^= 1 << dice.below(8),
                1 => damaged[at..end].fill(0),
                2 => drop(damaged.drain(at..end)),
                _ => damaged.truncate(end.max(1000)),
            }
        }
        let Ok(mut before) = Replayer::from_bytes(damaged.clone()) else {
            // All copies of the meta frame are damaged.
            let error = repaired(&damaged).err().unwrap();
            assert!(
                matches!(error, RecordingError::NoMeta { .. } | RecordingError::HeaderDamaged { .. }),
                "round {round}: {error}"
            );
            continue;
        };
        let sound = before.verify().unwrap();
        match repaired(&damaged) {
            Ok((copied, mut copy)) => {
                assert_eq!(copied.samples, sound as u64, "round {round}");
                assert_eq!(copy.verify().unwrap(), sound);
                assert_eq!((copy.damage(), copy.tail()), (&[][..], Tail::Closed));
                let damaged: u64 =
                    copy.gaps().iter().filter(|gap| gap.reason == GapReason::Damaged).map(|gap| gap.lost_samples).sum();
                assert_eq!(damaged, copied.lost_samples, "round {round}");
                let last = samples.iter().rposition(|sample| copy.timestamp(sound - 1) == Some(sample.at.into())).unwrap();
                assert!(sound as u64 + damaged > last as u64, "round {round}: samples vanished without a word");
                for index in 0..sound {
                    let sample = copy.sample(index).unwrap();
                    assert!(samples.contains(&sample), "round {round}: a sample that was never recorded");
                }
            }
            Err(error) => {
                assert!(matches!(error, RecordingError::NoIntactSamples { .. }), "round {round}: {error}");
                assert_eq!(sound, 0, "round {round}");
            }
        }
    }
}

#[test]
fn a_damaged_frame_becomes_a_gap_with_its_time() {
    let bytes = record(&few_samples(30));
    let samples = few_samples(30);
    let hit = frames(&bytes).into_iter().filter(Place::is_sample).nth(15).unwrap();
    let mut damaged = bytes;
    damaged[hit.at + 60] ^= 4;
    let (copied, copy) = repaired(&damaged).unwrap();
    assert_eq!((copied.samples, copied.lost_samples), (29, 1));
    let gap = &copy.gaps()[0];
    assert_eq!((gap.samples_before, gap.from, gap.to), (15, samples[15].at.into(), samples[15].at.into()));
}

#[test]
fn a_part_is_copied_with_its_gaps_and_marks() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("part");
    let samples = few_samples(40);
    let mut whole = Replayer::from_bytes(rich(40)).unwrap();
    let mut copier = Copier::create(&out, &generator::meta(), &Sections::new()).unwrap();
    copier.append_samples(&mut whole, 13..25).unwrap();
    // Another part is appended, as if of another recording.
    copier.append_samples(&mut whole, 3..5).unwrap();
    let copied = copier.finish().unwrap();
    assert_eq!((copied.samples, copied.lost_samples), (14, 0));
    let mut part = Replayer::open(&out).unwrap();
    for (index, number) in (13..25).chain(3..5).enumerate() {
        assert_eq!(part.sample(index).unwrap(), samples[number], "sample {index}");
    }
    let marks: Vec<_> = part.marks().iter().map(|mark| (mark.samples_before, mark.text.as_str())).collect();
    assert_eq!(marks, [(1, "before 14"), (11, "before 24"), (13, "before 4")]);
    assert!(part.gaps().is_empty());
}

#[test]
fn a_copy_needs_a_new_file_and_leaves_no_incomplete_one() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let mut source = Replayer::from_bytes(rich(10)).unwrap();
    fs::write(&out, "precious").unwrap();
    assert!(matches!(Copier::repair(&mut source, &out), Err(RecordingError::AlreadyExists { .. })));
    assert_eq!(fs::read(&out).unwrap(), b"precious");
    let refused = Copier::repair(&mut source, Path::new("/dev/full"));
    assert!(matches!(refused, Err(RecordingError::NotARegularFile { .. })));
    fs::remove_file(&out).unwrap();
    // Dropped before it is complete.
    let mut copier = Copier::create(&out, &generator::meta(), &Sections::new()).unwrap();
    copier.append_samples(&mut source, 0..5).unwrap();
    drop(copier);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn without_intact_samples_there_is_no_copy() {
    let mut bytes = rich(5);
    for frame in frames(&bytes) {
        if frame.kind == 3 {
            bytes[frame.at + 60] ^= 1;
        }
    }
    let error = repaired(&bytes).err().unwrap();
    assert!(matches!(error, RecordingError::NoIntactSamples { .. }), "{error}");
}
