//! Decodes the samples of a recording in their order on a thread of its own, a few ahead of the thread that takes them.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

use super::decoder::SampleParts;
use super::replayer::Replayer;
use crate::recording::error::RecordingError;
use crate::sample::{Host, Sample};

/// A sample that was decoded ahead.
pub struct DecodedSample {
    pub index: usize,
    pub host: Arc<Host>,
    /// One that is damaged, or where the index of the recording is wrong, is an error: `Replayer::sample` of the same index says
    /// which, and adds the damage to `Replayer::damage`.
    pub sample: Result<Arc<Sample>, RecordingError>,
}

/// Samples of a recording, in order. They end early if the thread could not be started or panicked.
pub struct DecodedSamples {
    /// Closed to end the thread
    batches: Option<Receiver<Vec<DecodedSample>>>,
    batch: std::vec::IntoIter<DecodedSample>,
    thread: Option<JoinHandle<()>>,
}

/// Samples that are sent at once, so that the thread that takes them is not woken for each.
const BATCH: usize = 10;

/// Batches that wait to be taken at most. A sample that was decoded is soon released, so that its list of processes is in the
/// cache when it is used again (`reused_list`).
const MAX_WAITING: usize = 2;

impl Replayer {
    /// Decodes these parts of these samples.
    pub fn decode_ahead(&self, range: Range<usize>, parts: SampleParts) -> DecodedSamples {
        let range = range.start.min(self.len())..range.end.min(self.len());
        let mut decoder = OrderedDecoder {
            replayer: self.reopen_in_order(parts),
            shape: (self.len(), self.is_indexed()),
            file: self.file_of(range.start),
        };
        let (sender, batches) = sync_channel(MAX_WAITING);
        let decode = move || {
            for start in range.clone().step_by(BATCH) {
                let batch = start..range.end.min(start + BATCH);
                // The receiver may have been dropped.
                if sender.send(batch.map(|index| decoder.decode(index)).collect()).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("decoder".to_owned()).spawn(decode).ok();
        DecodedSamples { batches: Some(batches), batch: Vec::new().into_iter(), thread }
    }
}

/// Decodes samples in their order.
struct OrderedDecoder {
    replayer: Replayer,
    /// How many samples there are, and whether they are read by the index. Where the index is found to be wrong, indices are no
    /// longer those of the replayer that this one was reopened from: from then on all samples are errors.
    shape: (usize, bool),
    /// The number of the file with the last sample
    file: Option<usize>,
}

impl OrderedDecoder {
    fn decode(&mut self, index: usize) -> DecodedSample {
        let file = self.replayer.file_of(index);
        if file != self.file
            && let Some(done) = std::mem::replace(&mut self.file, file)
        {
            // A recording may have hundreds of files.
            self.replayer.release_decoded(done);
        }
        let (host, sample) = (self.replayer.host(index), self.replayer.sample(index));
        let len = self.replayer.len();
        let moved = self.shape != (len, self.replayer.is_indexed());
        DecodedSample { index, host, sample: if moved { Err(RecordingError::NoSuchSample { index, len }) } else { sample } }
    }
}

impl Iterator for DecodedSamples {
    type Item = DecodedSample;

    fn next(&mut self) -> Option<DecodedSample> {
        if self.batch.as_slice().is_empty() {
            self.batch = self.batches.as_ref()?.recv().ok()?.into_iter();
        }
        self.batch.next()
    }
}

impl Drop for DecodedSamples {
    fn drop(&mut self) {
        self.batches = None;
        self.thread.take().map(JoinHandle::join);
    }
}
