//! Frame summaries are available as soon as a recording is opened; missing or damaged ones affect nothing else.

use std::sync::Arc;

use stalltop::recording::{
    Copier, FrameSummary, HistoryRing, Recorder, RecorderOptions, RecorderStatus, Replayer, SummarySeverity,
};
use stalltop::sample::Sample;

use crate::generator;
use crate::support::places::frames;
use crate::support::{PATIENCE, Sink, few_samples, options};

const KEY: u8 = 3;
const INDEX: u8 = 7;
const FRAME_SUMMARY: u8 = 9;

/// The summary of sample `number`: the first one is not evaluated.
fn seen(number: usize) -> FrameSummary {
    let worst = [
        SummarySeverity::NotEvaluated,
        SummarySeverity::NoFinding,
        SummarySeverity::Note,
        SummarySeverity::Warning,
        SummarySeverity::Critical,
    ];
    let small = number as u8;
    let worst = if number == 0 { SummarySeverity::NotEvaluated } else { worst[1 + number % 4] };
    FrameSummary { busy: small, blocked: 255 - small, worst_severity: worst }
}

fn recorded(samples: &[Arc<Sample>]) -> Vec<u8> {
    let sink = Sink::default();
    let mut recorder = Recorder::from_writer(sink.clone(), &generator::meta(), options(samples.len())).unwrap();
    samples.iter().enumerate().for_each(|(number, sample)| recorder.offer_with_summary(sample.clone(), seen(number)));
    assert!(matches!(recorder.finish(PATIENCE), RecorderStatus::Finished(_)));
    sink.0.lock().unwrap().clone()
}

fn told(replayer: &Replayer) -> Vec<Option<FrameSummary>> {
    (0..replayer.len()).map(|index| replayer.frame_summary(index)).collect()
}

#[test]
fn each_sample_has_its_summary() {
    let samples = few_samples(130);
    let bytes = recorded(&samples);
    let mut replayer = Replayer::from_bytes(bytes).unwrap();
    let all: Vec<_> = (0..130).map(|number| Some(seen(number))).collect();
    assert_eq!(told(&replayer), all);
    // In a copy of a part too, but for its first sample.
    let folder = tempfile::tempdir().unwrap();
    let part = folder.path().join("part.stalltop");
    Copier::copy_range(&mut replayer, 40..60, &part).unwrap();
    let part = Replayer::open(&part).unwrap();
    assert_eq!((part.frame_summary(0), part.frame_summary(1), part.len()), (Some(FrameSummary::default()), Some(seen(41)), 20));
    replayer.restrict_to(40..60);
    assert_eq!(replayer.frame_summary(1), Some(seen(41)));
    // For samples that were in memory before the recording began.
    let mut ring = HistoryRing::new(1000, 16 << 20, Default::default());
    samples.iter().enumerate().for_each(|(number, sample)| assert!(ring.push_with_summary(sample, seen(number))));
    let sink = Sink::default();
    let options = RecorderOptions { backlog: ring.backlog(), ..options(1) };
    Recorder::from_writer(sink.clone(), &generator::meta(), options).unwrap().finish(PATIENCE);
    assert_eq!(told(&Replayer::from_bytes(sink.0.lock().unwrap().clone()).unwrap()), all);
}

/// If the recorder was killed or is still running, the summaries up to the last key frame are there, if they are intact.
#[test]
fn without_an_index_summaries_are_known_up_to_the_last_key_frame() {
    let samples = few_samples(400);
    let bytes = recorded(&samples);
    let places = frames(&bytes);
    let of_kind = |kind: u8| places.iter().filter(move |place| place.kind == kind).copied().collect::<Vec<_>>();
    let (summaries, keys) = (of_kind(FRAME_SUMMARY), of_kind(KEY));
    assert_eq!((keys.len(), summaries.len()), (4, 4), "each group has one");
    let told_of = |bytes: &[u8]| told(&Replayer::from_bytes(bytes.to_vec()).unwrap());
    let until = |known: usize, all: usize| (0..all).map(|number| (number < known).then(|| seen(number))).collect::<Vec<_>>();
    let killed = &bytes[..summaries[3].at];
    assert_eq!(told_of(killed), until(360, 400));
    // Closed, but the index is damaged: the frames of the key groups are found.
    let mut damaged = bytes.clone();
    damaged[of_kind(INDEX)[0].at + 60] ^= 1;
    assert_eq!(told_of(&damaged), until(400, 400));
    // A damaged summary frame costs the summaries of its own samples, and is reported.
    let mut damaged = killed.to_vec();
    damaged[summaries[1].at + 55] ^= 1;
    let replayer = Replayer::from_bytes(damaged).unwrap();
    let expected: Vec<_> =
        (0..400).map(|number| if (120..240).contains(&number) { FrameSummary::default() } else { seen(number) }).collect();
    let known: Vec<_> = told(&replayer).into_iter().flatten().collect();
    assert_eq!((known.as_slice(), replayer.damage().len()), (&expected[..360], 1));
    // Missing samples have no summaries; those of the others are right.
    let gone = places.iter().filter(|place| place.is_sample()).nth(150).unwrap();
    let short = [&killed[..gone.at], &killed[gone.end()..]].concat();
    let replayer = Replayer::from_bytes(short).unwrap();
    let expected = (0..360).filter(|&number| number != 150).map(seen).collect::<Vec<_>>();
    assert_eq!(told(&replayer).into_iter().flatten().collect::<Vec<_>>(), expected);
    // A copy has the same summaries.
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.stalltop");
    Copier::repair(&mut Replayer::from_bytes(killed.to_vec()).unwrap(), &copy).unwrap();
    let copied = told(&Replayer::open(&copy).unwrap());
    assert_eq!((&copied[1..360], copied.len()), (&until(360, 360)[1..], 400));
}

/// A reader that follows a growing recording gets the summaries as they are written.
#[test]
fn a_reader_of_a_growing_recording_gets_summaries() {
    let samples = few_samples(130);
    let bytes = recorded(&samples);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("growing.stalltop");
    let key = frames(&bytes).into_iter().filter(|place| place.kind == KEY).nth(1).unwrap();
    let summary = frames(&bytes).into_iter().find(|place| place.kind == FRAME_SUMMARY).unwrap();
    std::fs::write(&path, &bytes[..summary.at]).unwrap();
    let mut replayer = Replayer::open(&path).unwrap();
    assert!(replayer.len() == 120 && told(&replayer).iter().all(Option::is_none));
    std::fs::write(&path, &bytes[..key.end()]).unwrap();
    replayer.refresh().unwrap();
    let expected: Vec<_> = (0..121).map(|number| (number < 120).then(|| seen(number))).collect();
    assert_eq!(told(&replayer), expected);
}

#[test]
fn damaged_summaries_affect_no_sample() {
    let samples = few_samples(20);
    let bytes = recorded(&samples);
    let sound = |bytes: Vec<u8>, what: &str| {
        let mut replayer = Replayer::from_bytes(bytes).unwrap();
        assert_eq!(replayer.len(), 20, "{what}");
        for (index, sample) in samples.iter().enumerate() {
            assert_eq!(&replayer.sample(index).unwrap(), sample, "{what}");
        }
        told(&replayer)
    };
    let places = frames(&bytes);
    let place = |kind: u8| *places.iter().find(|place| place.kind == kind).unwrap();
    // Not closed: no summaries.
    assert!(sound(bytes[..place(FRAME_SUMMARY).at].to_vec(), "cut").iter().all(Option::is_none));
    // Damaged summary frame: the index has them too. Damaged index: the summary frame has them.
    let all: Vec<_> = (0..20).map(|number| Some(seen(number))).collect();
    // Fields have 1, 2, 4 or 8 bytes: some of each.
    for at in (place(FRAME_SUMMARY).at..place(INDEX).end()).step_by(3) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert_eq!(sound(damaged, "damaged"), all, "byte {at}");
    }
}
