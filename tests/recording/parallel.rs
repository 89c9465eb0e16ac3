//! Samples that are decoded in parallel are the same, in the same order.

use std::ops::Range;
use std::sync::Arc;

use stalltop::recording::{DecodedSample, Recorder, RecordingError, Replayer, SampleParts};
use stalltop::sample::waits::Waits;
use stalltop::sample::{Absent, Sample};

use crate::generator;
use crate::support::places::frames;
use crate::support::{PATIENCE, few_samples, options, record};

/// Each sample with its index.
fn samples_of(
    replayer: &Replayer,
    range: Range<usize>,
    parts: SampleParts,
) -> impl Iterator<Item = (usize, Result<Arc<Sample>, RecordingError>)> {
    replayer.decode_parallel(range, parts, |_| Box::new(|decoded| (decoded.index, decoded.sample)))
}

#[test]
fn samples_come_in_order_and_are_those_of_a_sequential_read() {
    let samples = few_samples(400);
    let mut replayer = Replayer::from_bytes(record(&samples)).unwrap();
    for range in [0..400, 0..0, 7..8, 119..121, 50..333, 350..9999] {
        let expected = range.start..range.end.min(400);
        let read: Vec<_> =
            samples_of(&replayer, range, SampleParts::All).map(|(index, sample)| (index, sample.unwrap())).collect();
        assert_eq!(read.iter().map(|(index, _)| *index).collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        assert!(read.iter().all(|(index, sample)| *sample == samples[*index]));
    }
    // Dropped before its end.
    assert_eq!(samples_of(&replayer, 0..400, SampleParts::All).take(3).count(), 3);
    // Of a part of a recording.
    replayer.restrict_to(130..140);
    let read: Vec<_> = samples_of(&replayer, 0..10, SampleParts::All).map(|(_, sample)| sample.unwrap()).collect();
    assert!(read.iter().zip(&samples[130..]).all(|(read, sample)| read == sample) && read.len() == 10);
}

#[test]
fn each_key_group_has_work_of_its_own() {
    let replayer = Replayer::from_bytes(record(&few_samples(300))).unwrap();
    let count_in_group = |_| -> Box<dyn FnMut(_) -> _> {
        let mut count = 0;
        Box::new(move |_| {
            count += 1;
            count
        })
    };
    let counts: Vec<i32> = replayer.decode_parallel(10..300, SampleParts::All, count_in_group).collect();
    assert_eq!(counts, (1..=110).chain(1..=120).chain(1..=60).collect::<Vec<_>>());
}

/// The samples after it would be taken for it.
#[test]
fn a_panic_on_a_worker_ends_the_samples() {
    let replayer = Replayer::from_bytes(record(&few_samples(300))).unwrap();
    let index = |_| -> Box<dyn FnMut(DecodedSample) -> usize> {
        Box::new(|decoded| {
            assert_ne!(decoded.index, 120, "the panic of this test");
            decoded.index
        })
    };
    let mut samples = replayer.decode_parallel(0..300, SampleParts::All, index);
    assert_eq!(samples.by_ref().collect::<Vec<_>>(), (0..120).collect::<Vec<_>>());
    assert_eq!(samples.next(), None);
}

#[test]
fn without_tasks_everything_else_is_the_same() {
    let samples = few_samples(130);
    assert!(samples.iter().any(|sample| sample.tasks.is_ok() && !sample.waits.threads.is_empty()), "there is nothing to omit");
    let replayer = Replayer::from_bytes(record(&samples)).unwrap();
    let read: Vec<_> = samples_of(&replayer, 0..130, SampleParts::WithoutTasks).collect();
    assert!(read.iter().map(|(index, _)| *index).eq(0..130));
    for (index, sample) in read {
        let mut expected = Sample::clone(&samples[index]);
        (expected.tasks, expected.delays, expected.waits) = (Err(Absent::NotRead), Err(Absent::NotRead), Waits::default());
        assert_eq!(*sample.unwrap(), expected, "sample {index}");
    }
}

#[test]
fn a_damaged_sample_is_an_error_in_its_place() {
    let samples = few_samples(250);
    let mut bytes = record(&samples);
    let damaged = frames(&bytes).into_iter().filter(|place| place.is_sample()).nth(127).unwrap();
    bytes[damaged.at + 60] ^= 1;
    let replayer = Replayer::from_bytes(bytes).unwrap();
    let read: Vec<_> = samples_of(&replayer, 0..250, SampleParts::All).collect();
    assert!(read.iter().map(|(index, _)| *index).eq(0..250), "each has its place");
    let mut wrong = Vec::new();
    for (index, sample) in read {
        match sample {
            Ok(sample) => assert_eq!(sample, samples[index]),
            Err(RecordingError::DamagedFrame { .. }) => wrong.push(index),
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(wrong, [127]);
}

#[test]
fn several_files_are_read_as_one() {
    let samples = few_samples(260);
    let folder = tempfile::tempdir().unwrap();
    for (name, part) in [("a.stalltop", &samples[..130]), ("b.stalltop", &samples[130..])] {
        let mut recorder = Recorder::create(&folder.path().join(name), &generator::meta(), options(200)).unwrap();
        part.iter().for_each(|sample| recorder.offer(sample.clone()));
        recorder.finish(PATIENCE);
    }
    let replayer = Replayer::open(folder.path()).unwrap();
    let read: Vec<_> = samples_of(&replayer, 0..260, SampleParts::All).map(|(_, sample)| sample.unwrap()).collect();
    assert_eq!(read, samples);
}
