//! Recordings in memory for the other tests.

// Each test takes what it needs.
#![allow(dead_code)]

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stalltop::recording::{Recorder, RecorderOptions, RecorderStatus};
use stalltop::sample::Sample;

use crate::generator;

/// A sink that can be looked at.
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
    RecorderOptions { queue: samples + 8, identity: Some(([9; 16], 1_760_000_000_000_000_000)), ..RecorderOptions::default() }
}

/// The bytes of a recording of these samples.
pub fn record(samples: &[Arc<Sample>]) -> Vec<u8> {
    let sink = Sink::default();
    let mut recorder = Recorder::stream(sink.clone(), &generator::meta(), options(samples.len())).unwrap();
    for sample in samples {
        recorder.offer(sample.clone());
    }
    let status = recorder.finish(PATIENCE);
    assert!(matches!(status, RecorderStatus::Finished(_)), "{status:?}");

    sink.0.lock().unwrap().clone()
}

/// A small machine's samples.
pub fn few_samples(count: usize) -> Vec<Arc<Sample>> {
    let mut machine = generator::Machine::new(7, 6, 8, 2, 2);
    (0..count).map(|_| machine.next()).collect()
}
