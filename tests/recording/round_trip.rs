//! Every field of every sample comes back as it was, in any order, and what was shared is shared again.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use stalltop::recording::{
    Copier, HistoryRing, Mark, Recorder, RecorderOptions, Replayer, Sections, StreamEvent, StreamReader,
};
use stalltop::sample::Sample;

use crate::generator::{self, Dice, Machine, strange_samples};
use crate::support::{PATIENCE, Sink, few_samples, options, record};

fn assert_same(left: &Sample, right: &Sample, what: &str) {
    // Field by field, so that a failure can be read.
    assert_eq!(left.at, right.at, "{what}: at");
    assert_eq!(left.cpu, right.cpu, "{what}: cpu");
    assert_eq!(left.load, right.load, "{what}: load");
    assert_eq!(left.memory, right.memory, "{what}: memory");
    assert_eq!(left.pressure, right.pressure, "{what}: pressure");
    assert_eq!(left.disks, right.disks, "{what}: disks");
    assert_eq!(left.nics, right.nics, "{what}: nics");
    assert_eq!(left.protocols, right.protocols, "{what}: protocols");
    assert_eq!(left.cgroups, right.cgroups, "{what}: cgroups");
    assert_eq!(left.tasks, right.tasks, "{what}: tasks");
    assert_eq!(left.waits, right.waits, "{what}: waits");
    assert_eq!(left.cost, right.cost, "{what}: cost");
    assert_eq!(left, right, "{what}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 25, ..ProptestConfig::default() })]

    #[test]
    fn any_sample_comes_back(seed in any::<u64>(), count in 1usize..70) {
        let samples = strange_samples(&mut Dice::new(seed), count);
        let bytes = record(&samples);
        let mut replayer = Replayer::from_bytes(bytes.clone()).unwrap();
        prop_assert_eq!(replayer.len(), samples.len());
        prop_assert!(replayer.is_indexed());
        for (index, sample) in samples.iter().enumerate() {
            assert_same(&replayer.sample(index).unwrap(), sample, &format!("sample {index}"));
            prop_assert_eq!(replayer.timestamp(index).unwrap().realtime_ns, sample.at.realtime_ns);
        }
        // In any order.
        let mut fresh = Replayer::from_bytes(bytes).unwrap();
        let mut dice = Dice::new(seed);
        for _ in 0..40 {
            let index = dice.below(count as u64) as usize;
            assert_same(&fresh.sample(index).unwrap(), &samples[index], &format!("sample {index} out of order"));
        }
        prop_assert_eq!(replayer.verify().unwrap(), samples.len());
        prop_assert_eq!(replayer.damage(), &[]);
    }

    #[test]
    fn any_sample_comes_back_from_a_pipe(seed in any::<u64>()) {
        let samples = strange_samples(&mut Dice::new(seed), 65);
        let bytes = record(&samples);
        let mut reader = StreamReader::open(bytes.as_slice()).unwrap();
        let mut index = 0;
        while let Some(event) = reader.next_event().unwrap() {
            match event {
                StreamEvent::Sample(sample) => {
                    assert_same(&sample, &samples[index], &format!("sample {index}"));
                    index += 1;
                }
                StreamEvent::Meta(meta) => prop_assert_eq!(*meta, generator::meta()),
                StreamEvent::End => {}
                other => prop_assert!(false, "{:?}", other),
            }
        }
        prop_assert_eq!(index, samples.len());
    }

    #[test]
    fn any_sample_comes_back_from_a_copy(seed in any::<u64>(), count in 1usize..30) {
        let samples = strange_samples(&mut Dice::new(seed), count);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("copy");
        let copied = Copier::repair(&mut Replayer::from_bytes(record(&samples)).unwrap(), &path).unwrap();
        prop_assert_eq!((copied.samples, copied.lost_samples), (count as u64, 0));
        let mut replayer = Replayer::open(&path).unwrap();
        for (index, sample) in samples.iter().enumerate() {
            assert_same(&replayer.sample(index).unwrap(), sample, &format!("sample {index}"));
        }
    }

    /// Sections, marks and gaps, from a file, a pipe and a copy.
    #[test]
    fn sections_marks_and_gaps_come_back(
        sections in proptest::collection::btree_map(any::<String>(), proptest::collection::vec(any::<u8>(), 0..300), 0..4),
        marks in proptest::collection::vec((0u64..20, any::<String>()), 0..8),
        gaps in proptest::collection::btree_map(1u64..20, 1u64..1 << 40, 0..5),
    ) {
        // An empty mark is refused; control characters of others are replaced.
        let mut marks: Vec<_> = marks.into_iter().filter_map(|(at, text)| Some((at, Mark::sanitize(&text)?))).collect();
        marks.sort_by_key(|mark| mark.0);
        let sink = Sink::default();
        let options = RecorderOptions { sections: sections.clone(), ..options(64) };
        let mut recorder = Recorder::from_writer(sink.clone(), &generator::meta(), options).unwrap();
        for (number, sample) in few_samples(20).into_iter().enumerate() {
            for (_, text) in marks.iter().filter(|mark| mark.0 == number as u64) {
                prop_assert!(recorder.add_mark(sample.at.into(), text));
            }
            recorder.add_missed(gaps.get(&(number as u64)).copied().unwrap_or(0), sample.at.into());
            recorder.offer(sample);
        }
        recorder.finish(PATIENCE);
        let bytes = sink.0.lock().unwrap().clone();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("copy");
        let mut replayer = Replayer::from_bytes(bytes.clone()).unwrap();
        Copier::repair(&mut replayer, &path).unwrap();
        for replayer in [replayer, Replayer::open(&path).unwrap()] {
            let read: Vec<_> = replayer.marks().iter().map(|mark| (mark.samples_before, mark.text.clone())).collect();
            prop_assert_eq!(&read, &marks);
            let read: BTreeMap<_, _> = replayer.gaps().iter().map(|gap| (gap.samples_before, gap.lost_samples)).collect();
            prop_assert_eq!(&read, &gaps);
            let read: Sections = replayer.sections().map(|(name, bytes)| (name.to_owned(), bytes.to_vec())).collect();
            prop_assert_eq!(&read, &sections);
        }
        let mut reader = StreamReader::open(bytes.as_slice()).unwrap();
        let (mut texts, mut lost, mut blocks) = (Vec::new(), Vec::new(), Sections::new());
        while let Some(event) = reader.next_event().unwrap() {
            match event {
                StreamEvent::Mark(mark) => texts.push((mark.samples_before, mark.text)),
                StreamEvent::Gap(gap) => lost.push((gap.samples_before, gap.lost_samples)),
                StreamEvent::Section { name, bytes } => drop(blocks.insert(name, bytes)),
                StreamEvent::Damage(damage) => prop_assert!(false, "{:?}", damage),
                _ => {}
            }
        }
        prop_assert_eq!((texts, lost, blocks), (marks, gaps.into_iter().collect::<Vec<_>>(), sections));
    }
}

fn processes_shared(older: &Sample, newer: &Sample) -> Vec<bool> {
    let (older, newer) = (older.tasks.as_ref().unwrap(), newer.tasks.as_ref().unwrap());
    newer.processes.iter().map(|process| older.process(process.pid).is_some_and(|other| Arc::ptr_eq(other, process))).collect()
}

#[test]
fn values_that_samples_share_are_shared_again() {
    let mut machine = Machine::new(3, 40, 80, 3, 2);
    let samples: Vec<_> = (0..130).map(|_| machine.next()).collect();
    let bytes = record(&samples);
    // Forwards, backwards, and the middle first: each time across two key frames.
    let orders: [Vec<usize>; 3] = [(0..130).collect(), (0..130).rev().collect(), vec![70, 69, 71, 60, 59, 61, 120, 119]];
    for order in orders {
        let mut replayer = Replayer::from_bytes(bytes.clone()).unwrap();
        let mut read: Vec<Option<Arc<Sample>>> = vec![None; samples.len()];
        for index in order {
            read[index] = Some(replayer.sample(index).unwrap());
        }
        for (index, pair) in read.windows(2).enumerate() {
            if let [Some(older), Some(newer)] = pair {
                let live = processes_shared(&samples[index], &samples[index + 1]);
                assert_eq!(processes_shared(older, newer), live, "samples {index} and {}", index + 1);
                let (older, newer) = (older.tasks.as_ref().unwrap(), newer.tasks.as_ref().unwrap());
                assert!(Arc::ptr_eq(&older.users, &newer.users));
            }
        }
    }
}

#[test]
fn a_history_keeps_the_last_samples_and_saves_them() {
    let mut machine = Machine::new(3, 10, 20, 3, 2);
    let samples: Vec<_> = (0..400).map(|_| machine.next()).collect();
    let mut ring = HistoryRing::new(100, 16 << 20, Default::default());
    for sample in &samples {
        assert!(ring.push(sample));
    }
    assert!((100..220).contains(&ring.len()), "{}", ring.len());
    let first = usize::try_from(ring.evicted()).unwrap();
    assert_eq!(first + ring.len(), samples.len());
    for index in (0..ring.len()).rev() {
        assert_same(&ring.sample(index).unwrap(), &samples[first + index], &format!("ring {index}"));
    }
    assert!(ring.sample(ring.len()).is_err());
    let mut saved = Vec::new();
    let sections = [("baselines".to_owned(), vec![1, 2, 3])].into_iter().collect();
    let bytes = ring.write_to(&mut saved, &generator::meta(), &sections).unwrap();
    assert_eq!(bytes, saved.len() as u64);
    let mut replayer = Replayer::from_bytes(saved).unwrap();
    assert_eq!(replayer.meta(), &generator::meta());
    assert_eq!(replayer.section("baselines"), Some([1, 2, 3].as_slice()));
    assert_eq!(replayer.verify().unwrap(), ring.len());
    assert_eq!(replayer.sample(0).unwrap(), samples[first]);
}

#[test]
fn a_recorder_begins_with_the_history_and_its_marks() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("from-memory");
    let mut machine = Machine::new(3, 10, 20, 3, 2);
    let samples: Vec<_> = (0..300).map(|_| machine.next()).collect();
    let mut ring = HistoryRing::new(100, 16 << 20, Default::default());
    let (before, after) = samples.split_at(280);
    for (at, sample) in before.iter().enumerate() {
        ring.push(sample);
        if [3, 250].contains(&at) {
            ring.add_mark(sample.at.into(), &format!("\x1b mark {at}"));
        }
    }
    let marks: Vec<_> = ring.marks().map(|mark| mark.text.clone()).collect();
    assert_eq!(marks, ["mark 250"], "the other one was forgotten with its sample");
    let options = RecorderOptions { backlog: ring.backlog(), ..options(after.len()) };
    let mut recorder = Recorder::create(&path, &generator::meta(), options).unwrap();
    assert!(recorder.add_mark(after[0].at.into(), &"x".repeat(1 << 20)), "cut, and kept");
    assert!(!recorder.add_mark(after[0].at.into(), "\n\x07 "), "nothing is left of it");
    after.iter().for_each(|sample| recorder.offer(sample.clone()));
    assert_eq!(recorder.finish(PATIENCE).progress().samples, (ring.len() + after.len()) as u64);
    let mut replayer = Replayer::open(&path).unwrap();
    let first = usize::try_from(ring.evicted()).unwrap();
    assert_eq!(replayer.verify().unwrap(), samples.len() - first);
    for index in 0..replayer.len() {
        assert_same(&replayer.sample(index).unwrap(), &samples[first + index], &format!("sample {index}"));
    }
    let marks: Vec<_> = replayer.marks().iter().map(|mark| (mark.samples_before as usize + first, mark.text.len())).collect();
    assert_eq!(marks, [(251, "mark 250".len()), (280, 1024)]);
}

#[test]
fn a_history_is_bounded_in_bytes() {
    let mut machine = Machine::new(3, 100, 100, 50, 2);
    let mut ring = HistoryRing::new(100_000, 300_000, Default::default());
    for _ in 0..600 {
        ring.push(&machine.next());
        assert!(ring.bytes() < 500_000);
    }
    assert!(ring.len() < 600);
}
