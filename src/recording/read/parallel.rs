//! Decodes a recording in parallel: key frames are entry points, so that each key group (at most 120 samples) is decoded by one
//! worker thread of its own. The results come back in the order of the samples.
//!
//! At most one key group per worker is decoded ahead of the one that is being consumed: with 2,000 processes and two workers
//! about 30 MiB.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::decoder::SampleParts;
use super::replayer::Replayer;
use crate::recording::error::RecordingError;
use crate::sample::Sample;

/// Consecutive samples, from one key frame to the next.
pub struct KeyGroup {
    /// Index of the first one.
    pub first: usize,
    /// A damaged sample is an error. `Replayer::sample` of the same index adds it to `Replayer::damage`.
    pub samples: Vec<Result<Arc<Sample>, RecordingError>>,
}

/// What is done with a key group, on its worker thread.
type Work<T> = dyn Fn(KeyGroup) -> T + Send + Sync;

/// The results of some work on each key group of a recording, in order.
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
            let run = move || {
                loop {
                    let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok((range, result)) = job else { return };
                    let first = range.start;
                    let samples = range.map(|index| replayer.sample(index)).collect();
                    // The consumer may have been dropped.
                    let _ = result.send(work(KeyGroup { first, samples }));
                }
            };
            std::thread::Builder::new().name("decoder".to_owned()).spawn(run).ok()
        };
        let workers: Vec<_> = (0..workers).filter_map(spawn).collect();
        KeyGroups { waiting, jobs: Some(jobs), results: VecDeque::new(), ahead: workers.len() + 1, workers }
    }

    /// Decodes these samples on all CPUs; they come in order, each with its index.
    pub fn samples(&self, range: Range<usize>, parts: SampleParts) -> Samples {
        Samples { groups: self.key_groups(range, parts, |group| group), index: 0, group: Vec::new().into_iter() }
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
        self.results.pop_front()?.recv().ok()
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

/// Samples in order, decoded in parallel.
pub struct Samples {
    groups: KeyGroups<KeyGroup>,
    index: usize,
    group: std::vec::IntoIter<Result<Arc<Sample>, RecordingError>>,
}

impl Iterator for Samples {
    type Item = (usize, Result<Arc<Sample>, RecordingError>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(sample) = self.group.next() {
                self.index += 1;
                return Some((self.index - 1, sample));
            }
            let KeyGroup { first, samples } = self.groups.next()?;
            (self.index, self.group) = (first, samples.into_iter());
        }
    }
}
