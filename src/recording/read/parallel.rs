//! Decodes a recording in parallel: key frames are entry points, so that each key group (at most 120 samples) is decoded by one
//! worker thread of its own. The results come back in the order of the samples.
//!
//! A worker stops where the consumer is about half a key group behind it (with two workers): both then decode all the time, and
//! with 2,000 processes about 10 MiB of samples are in flight.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::decoder::SampleParts;
use super::replayer::Replayer;
use crate::recording::error::RecordingError;
use crate::sample::{Host, Sample};

/// A sample that was decoded by a worker thread.
pub struct DecodedSample {
    pub index: usize,
    pub host: Arc<Host>,
    /// One that is damaged, or where the index of the recording is wrong, is an error: `Replayer::sample` of the same index says
    /// which, and adds the damage to `Replayer::damage`.
    pub sample: Result<Arc<Sample>, RecordingError>,
}

/// What is done with each sample, on its worker thread. Every key group has one of its own.
type Work<T> = Box<dyn FnMut(DecodedSample) -> T>;

/// The results of some work on each sample of a recording, in order. Ends early if no thread could be started or one panicked.
pub struct DecodedSamples<T> {
    waiting: VecDeque<Range<usize>>,
    /// Closed to end the workers.
    jobs: Option<Sender<Job<T>>>,
    /// The key groups that are being decoded, in order: how many of their results are still to come, and these.
    groups: VecDeque<(usize, Receiver<Vec<T>>)>,
    batch: std::vec::IntoIter<T>,
    /// Batches that a worker may be ahead of the consumer.
    ahead: usize,
    workers: Vec<JoinHandle<()>>,
}

/// A key group to be decoded.
struct Job<T> {
    range: Range<usize>,
    results: SyncSender<Vec<T>>,
}

/// More would not be faster: the consumer does work too.
pub const MAX_WORKERS: usize = 8;

/// Samples that are sent at once, so that the consumer is not woken for each.
const BATCH: usize = 10;

/// Batches of a whole key group.
const BATCHES_A_GROUP: usize = 12;

impl Replayer {
    /// Decodes these samples on all CPUs, and applies what `work` returns to each sample there: `work` is called once a key
    /// group, with the number of the worker thread, below `MAX_WORKERS`.
    pub fn decode_parallel<T: Send + 'static>(
        &self,
        range: Range<usize>,
        parts: SampleParts,
        work: impl Fn(usize) -> Work<T> + Send + Sync + 'static,
    ) -> DecodedSamples<T> {
        let workers = std::thread::available_parallelism().map_or(1, |count| count.get()).min(MAX_WORKERS);
        let range = range.start.min(self.len())..range.end.min(self.len());
        let mut starts: Vec<usize> = range.clone().filter(|&index| self.is_key_frame(index)).collect();
        if starts.first() != Some(&range.start) {
            starts.insert(0, range.start);
        }
        let ends = starts.iter().skip(1).copied().chain([range.end]);
        let waiting = starts.iter().zip(ends).map(|(&start, end)| start..end).filter(|group| !group.is_empty()).collect();
        let (jobs, queue) = channel::<Job<T>>();
        let (queue, work) = (Arc::new(Mutex::new(queue)), Arc::new(work));
        let spawn = |worker| {
            let (mut replayer, queue, work) = (self.reopen(parts), Arc::clone(&queue), Arc::clone(&work));
            let shape = (self.len(), self.is_indexed());
            let run = move || {
                loop {
                    let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(job) = job else { return };
                    replayer.decode_group(job, shape, work(worker));
                }
            };
            std::thread::Builder::new().name("decoder".to_owned()).spawn(run).ok()
        };
        let workers: Vec<_> = (0..workers).filter_map(spawn).collect();
        let ahead = (BATCHES_A_GROUP * workers.len().saturating_sub(1) / workers.len().max(1)).max(1);
        DecodedSamples { waiting, jobs: Some(jobs), groups: VecDeque::new(), batch: Vec::new().into_iter(), ahead, workers }
    }

    /// Decodes a key group. Where the index of the recording is found to be wrong, indices are no longer those of the replayer
    /// that this one was reopened from: from then on all samples are errors.
    fn decode_group<T>(&mut self, Job { range, results }: Job<T>, shape: (usize, bool), mut work: Work<T>) {
        // What a group shares with others would move between the caches of two CPUs with each sample.
        self.forget_decoded();
        for start in range.clone().step_by(BATCH) {
            let batch = start..range.end.min(start + BATCH);
            let decode = |index| {
                let (host, sample) = (self.host(index), self.sample(index));
                let moved = shape != (self.len(), self.is_indexed());
                let sample = if moved { Err(RecordingError::NoSuchSample { index, len: self.len() }) } else { sample };
                work(DecodedSample { index, host, sample })
            };
            // The consumer may have been dropped.
            if results.send(batch.map(decode).collect()).is_err() {
                return;
            }
        }
    }
}

impl<T> DecodedSamples<T> {
    /// Gives each worker a key group, and one more for the first that is done.
    fn start_groups(&mut self) {
        while self.groups.len() <= self.workers.len()
            && let Some(range) = self.waiting.pop_front()
        {
            let (results, receiver) = sync_channel(self.ahead);
            self.groups.push_back((range.len(), receiver));
            let _ = self.jobs.as_ref().map(|jobs| jobs.send(Job { range, results }));
        }
    }
}

impl<T> Iterator for DecodedSamples<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        loop {
            if let Some(result) = self.batch.next() {
                return Some(result);
            }
            self.start_groups();
            let (left, results) = self.groups.front_mut()?;
            match results.recv() {
                Ok(batch) => {
                    *left = left.saturating_sub(batch.len());
                    self.batch = batch.into_iter();
                    if *left == 0 {
                        self.groups.pop_front();
                    }
                }
                // Samples are missing: what follows would be taken for them.
                Err(_) => (self.waiting, self.groups) = (VecDeque::new(), VecDeque::new()),
            }
        }
    }
}

impl<T> Drop for DecodedSamples<T> {
    fn drop(&mut self) {
        self.jobs = None;
        // A worker ends after the batch that it is decoding.
        self.groups.clear();
        self.workers.drain(..).for_each(|worker| drop(worker.join()));
    }
}
