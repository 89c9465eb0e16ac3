//! Recordings in memory for the other tests.

// Each test uses a part of it.
#![allow(dead_code)]

use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stalltop::recording::{FrameSummary, Recorder, RecorderOptions, RecorderStatus, SummarySeverity};
use stalltop::sample::{Instant, Name, Sample};

use crate::{generator, synthetic};

#[path = "places.rs"]
pub mod places;
#[path = "../support/until.rs"]
mod until;

pub use until::until;

/// A writer whose bytes can be inspected.
#[derive(Clone, Default)]
pub struct Sink(pub Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

pub const PATIENCE: Duration = Duration::from_secs(60);

/// Options under which nothing is lost and the same samples give the same bytes.
pub fn options(samples: usize) -> RecorderOptions {
    RecorderOptions {
        queue_capacity: samples + 8,
        identity: Some(([9; 16], 1_760_000_000_000_000_000)),
        ..RecorderOptions::default()
    }
}

/// The summary of a sample that was evaluated without a finding.
pub fn ok_summary() -> FrameSummary {
    FrameSummary { worst_severity: SummarySeverity::NoFinding, ..FrameSummary::default() }
}

/// The bytes of a recording of these samples.
pub fn record(samples: &[Arc<Sample>]) -> Vec<u8> {
    let sink = Sink::default();
    let mut recorder = Recorder::from_writer(sink.clone(), &generator::meta(), options(samples.len())).unwrap();
    for sample in samples {
        recorder.offer_with_summary(sample.clone(), ok_summary());
    }
    let status = recorder.finish(PATIENCE);
    assert!(matches!(status, RecorderStatus::Finished(_)), "{status:?}");

    sink.0.lock().unwrap().clone()
}

/// A recording of these samples in a file: of that host, with a mark before the third sample and one after the last.
pub fn record_into(file: &Path, host: &str, samples: &[Arc<Sample>], marks: [&str; 2]) {
    let mut meta = generator::meta();
    meta.host.hostname = Name::from(host);
    let mut recorder = Recorder::create(file, &meta, options(samples.len())).unwrap();
    for (index, sample) in samples.iter().enumerate() {
        if index == 2 && !marks[0].is_empty() {
            assert!(recorder.add_mark(sample.at.into(), marks[0]));
        }
        recorder.offer(sample.clone());
    }
    if let Some(last) = samples.last().filter(|_| !marks[1].is_empty()) {
        assert!(recorder.add_mark(last.at.into(), marks[1]));
    }
    let status = recorder.finish(PATIENCE);
    assert!(matches!(status, RecorderStatus::Finished(_)), "{status:?}");
}

/// The instant so many milliseconds after a fixed beginning.
pub fn instant(ms: u64) -> Instant {
    synthetic::instant((ms + 1_000_000) as f64 / 1000.0, 1_800_000_000)
}

/// Samples of a small machine.
pub fn few_samples(count: usize) -> Vec<Arc<Sample>> {
    let mut machine = generator::Machine::new(7, 6, 8, 2, 2);
    (0..count).map(|_| machine.next()).collect()
}
