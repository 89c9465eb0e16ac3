//! Decodes a recording in parallel: key frames are entry points, so that each key group (at most 120 samples) is decoded by one
//! worker thread of its own. The results come back in the order of the samples.
//!
//! As many key groups as there are workers are decoded ahead of the one that is being consumed: with 2,000 processes and two
//! workers about 30 MiB.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::decoder::SampleParts;
use super::replayer::Replayer;
use crate::recording::error::RecordingError;
use crate::sample::{Host, Sample};

/// Consecutive samples, from one key frame to the next.
pub struct KeyGroup {
    /// Index of the first one.
    pub first: usize,
    /// Each with its host. One that is damaged, or where the index of the recording is wrong, is an error: `Replayer::sample`
    /// of the same index says which, and adds the damage to `Replayer::damage`.
    pub samples: Vec<(Arc<Host>, DecodedSample)>,
}

/// A sample, or why it cannot be decoded.
type DecodedSample = Result<Arc<Sample>, RecordingError>;

/// What is done with a key group, on its worker thread.
type Work<T> = dyn Fn(KeyGroup) -> T + Send + Sync;

/// The results of some work on each key group of a recording, in order. Ends early if no thread could be started or one panicked.
pub struct KeyGroups<T> {
    waiting: VecDeque<Range<usize>>,
    /// Closed to end the workers.
    jobs: Option<std::sync::mpsc::Sender<(Range<usize>, SyncSender<T>)>>,
    /// Of the groups that are being decoded, in order.
    results: VecDeque<Receiver<T>>,
    ahead: usize,
    workers: Vec<JoinHandle<()>>,
}

impl Replayer {
    /// Decodes these samples on all CPUs and applies `work` to each key group there.
    pub fn key_groups<T: Send + 'static>(
        &self,
        range: Range<usize>,
        parts: SampleParts,
        work: impl Fn(KeyGroup) -> T + Send + Sync + 'static,
    ) -> KeyGroups<T> {
        let workers = std::thread::available_parallelism().map_or(1, |count| count.get()).min(MAX_WORKERS);
        let range = range.start.min(self.len())..range.end.min(self.len());
        let mut starts: Vec<usize> = range.clone().filter(|&index| self.is_key_frame(index)).collect();
        if starts.first() != Some(&range.start) {
            starts.insert(0, range.start);
        }
        let ends = starts.iter().skip(1).copied().chain([range.end]);
        let waiting = starts.iter().zip(ends).map(|(&start, end)| start..end).filter(|group| !group.is_empty()).collect();
        let (jobs, queue) = channel::<(Range<usize>, SyncSender<T>)>();
        let (queue, work): (_, Arc<Work<T>>) = (Arc::new(Mutex::new(queue)), Arc::new(work));
        let spawn = |_| {
            let (mut replayer, queue, work) = (self.reopen(parts), Arc::clone(&queue), Arc::clone(&work));
            let shape = (self.len(), self.is_indexed());
            let run = move || {
                loop {
                    let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok((range, result)) = job else { return };
                    // The consumer may have been dropped.
                    let _ = result.send(work(replayer.key_group(range, shape)));
                }
            };
            std::thread::Builder::new().name("decoder".to_owned()).spawn(run).ok()
        };
        let workers: Vec<_> = (0..workers).filter_map(spawn).collect();
        KeyGroups { waiting, jobs: Some(jobs), results: VecDeque::new(), ahead: workers.len().max(1), workers }
    }

    /// Decodes a key group. Where the index of the recording is found to be wrong, indices are no longer those of the replayer
    /// that this one was reopened from: then all samples are errors.
    fn key_group(&mut self, range: Range<usize>, shape: (usize, bool)) -> KeyGroup {
        let first = range.start;
        // What a group shares with others would move between the caches of two CPUs with each sample.
        self.forget_decoded();
        let mut samples: Vec<_> = range.map(|index| (self.host(index), self.sample(index))).collect();
        if shape != (self.len(), self.is_indexed()) {
            let moved = || Err(RecordingError::NoSuchSample { index: first, len: self.len() });
            samples.iter_mut().for_each(|(_, sample)| *sample = moved());
        }
        KeyGroup { first, samples }
    }
}

/// More would not be faster: the consumer does work too.
const MAX_WORKERS: usize = 8;

impl<T> Iterator for KeyGroups<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        while self.results.len() < self.ahead
            && let Some(range) = self.waiting.pop_front()
        {
            let (result, receiver) = sync_channel(1);
            self.jobs.as_ref()?.send((range, result)).ok()?;
            self.results.push_back(receiver);
        }
        let result = self.results.pop_front()?.recv().ok();
        if result.is_none() {
            // A group is missing: what follows would be taken for it.
            (self.waiting, self.results) = (VecDeque::new(), VecDeque::new());
        }
        result
    }
}

impl<T> Drop for KeyGroups<T> {
    fn drop(&mut self) {
        self.jobs = None;
        // A worker ends after the groups that were given to it.
        self.results.clear();
        self.workers.drain(..).for_each(|worker| drop(worker.join()));
    }
}
