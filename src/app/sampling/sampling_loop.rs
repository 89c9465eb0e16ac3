//! The loop of the sampling thread: takes samples and sub-samples when they are due.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc as channel;

use super::jitter::Jitter;
use super::schedule::Schedule;
use super::throttle::{self, Throttle};
use super::{SamplerCommand, TimedSample};
use crate::app::operations_command::LatestOperations;
use crate::kernel::Sampler;
use crate::kernel::task::read_watch::{HungRead, LeftOut};
use crate::sample::{Absent, Sample};

/// Time between sub-samples, on average.
pub const SUB_SAMPLE_INTERVAL: Duration = Duration::from_millis(100);

/// Two readings with less time between them show no progress: /proc/stat counts in ticks.
const CLOCK_TICK: Duration = Duration::from_millis(10);

/// A sample out of turn comes at least so long after the one before: in less time, rates by clock ticks mean nothing.
const MIN_SPACING: Duration = Duration::from_millis(100);

/// Tells a loop in a read that does not return that another one has taken its place, and without which process.
pub type Replaced = OnceLock<HungRead>;

/// What the thread owns.
pub struct SamplingLoop {
    pub sampler: Sampler,
    pub schedule: Schedule,
    /// The start of the last sample
    pub last_started: Instant,
    pub throttle: Option<Throttle>,
    pub operations: Option<LatestOperations>,
    pub jitter: Jitter,
    pub sender: SampleSender,
    pub commands: Arc<Mutex<mpsc::Receiver<SamplerCommand>>>,
    pub interval: Arc<Mutex<Duration>>,
    pub is_final: Arc<AtomicBool>,
    pub replaced: Arc<Replaced>,
    pub left_out: LeftOut,
}

/// A sub-sample: its due time, and the time at which it is taken.
struct PlannedSubSample {
    due: Instant,
    at: Instant,
}

impl SamplingLoop {
    pub fn run(mut self) {
        while self.take_sample() && self.wait_for_next_sample() {}
        // The read has returned.
        if let Some(hung) = self.replaced.get() {
            self.left_out.remove(*hung);
        }
    }

    fn is_replaced(&self) -> bool {
        self.replaced.get().is_some()
    }

    /// False if no sample follows.
    fn take_sample(&mut self) -> bool {
        let started = Instant::now();
        self.last_started = started;
        let late = self.schedule.lateness(started);
        self.sender.add_missed(self.schedule.missed(started));
        // Read before the sample, so that it is never newer than the sample.
        let operations = self.operations.as_ref().map_or(Err(Absent::NotRead), LatestOperations::reading);
        let (mut sample, cpu_time) = throttle::with_cpu_time(|| self.sampler.sample());
        if self.is_replaced() {
            return false;
        }
        sample.operations = operations;
        sample.cost.skipped_samples = self.schedule.skipped();
        sample.cost.start_delay_ns = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
        crate::app::program::panics::panic_if_requested("sampling");
        if !self.sender.send(sample) {
            return false;
        }
        let interval = self.schedule.interval();
        let stride = self.throttle.as_mut().map_or(1, |throttle| throttle.stride(cpu_time, interval));
        self.schedule.advance(Instant::now(), stride)
    }

    /// Takes sub-samples until the next sample is due. False if the thread is to stop.
    fn wait_for_next_sample(&mut self) -> bool {
        let mut sub_sample = self.plan_sub_sample(Instant::now() + SUB_SAMPLE_INTERVAL);
        loop {
            let (now, next) = (Instant::now(), self.schedule.next_due());
            if now >= next {
                return true;
            }
            // Not shortly before a sample, which reads the same.
            let wanted = sub_sample.due + SUB_SAMPLE_INTERVAL / 2 < next && sub_sample.at + CLOCK_TICK < next;
            if wanted && now >= sub_sample.at {
                self.sampler.sub_sample();
                if self.is_replaced() {
                    return false;
                }
                // Those that were missed are not taken later.
                let late = Instant::now().saturating_duration_since(sub_sample.due);
                let intervals = late.as_nanos() / SUB_SAMPLE_INTERVAL.as_nanos() + 1;
                let due = sub_sample.due + SUB_SAMPLE_INTERVAL * u32::try_from(intervals).unwrap_or(u32::MAX);
                sub_sample = self.plan_sub_sample(due);
                continue;
            }
            let until = if wanted { sub_sample.at } else { next };
            let commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
            let command = commands.recv_timeout(until.saturating_duration_since(now));
            drop(commands);
            match command {
                Ok(SamplerCommand::SetInterval(interval)) => {
                    *self.interval.lock().unwrap_or_else(PoisonError::into_inner) = interval;
                    self.schedule.set_interval(interval, Instant::now());
                }
                Ok(SamplerCommand::SampleNow) => {
                    self.schedule.bring_forward(Instant::now().max(self.last_started + MIN_SPACING))
                }
                Ok(SamplerCommand::FinalSample) => {
                    self.is_final.store(true, Ordering::Release);
                    self.schedule.end_at(Instant::now());
                }
                Err(RecvTimeoutError::Timeout) => {}
                Ok(SamplerCommand::Stop) | Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    /// The first sub-sample from `due` on that has a thread to read: a wakeup costs more than the sub-sample itself.
    fn plan_sub_sample(&mut self, due: Instant) -> PlannedSubSample {
        let first = due.saturating_duration_since(Instant::now());
        let rest = self.schedule.next_due().saturating_duration_since(due + SUB_SAMPLE_INTERVAL / 2);
        let rest = u32::try_from(rest.as_nanos().div_ceil(SUB_SAMPLE_INTERVAL.as_nanos())).unwrap_or(u32::MAX);
        let due = due + SUB_SAMPLE_INTERVAL * self.sampler.omit_idle_sub_samples(first, SUB_SAMPLE_INTERVAL, rest);
        PlannedSubSample { due, at: self.jitter.jittered(due) }
    }
}

/// Sends samples without blocking, and counts those that the queue had no room for.
pub struct SampleSender {
    sender: channel::Sender<TimedSample>,
    /// Since the last sample that was sent
    missed: u64,
}

impl SampleSender {
    pub fn new(sender: channel::Sender<TimedSample>) -> SampleSender {
        SampleSender { sender, missed: 0 }
    }

    /// Samples that were due and not taken.
    fn add_missed(&mut self, count: u64) {
        self.missed = self.missed.saturating_add(count);
    }

    /// False if samples are no longer received.
    fn send(&mut self, sample: Sample) -> bool {
        match self.sender.try_send(TimedSample { sample: Arc::new(sample), missed: self.missed, left_out: None }) {
            Ok(()) => self.missed = 0,
            Err(channel::error::TrySendError::Full(_)) => self.add_missed(1),
            Err(channel::error::TrySendError::Closed(_)) => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first sample after a full queue says how many were missed.
    #[test]
    fn samples_without_room_in_the_queue_are_counted() {
        let sample = || Sample::empty(crate::sample::Instant::default());
        let (sender, mut samples) = channel::channel(2);
        let mut sender = SampleSender::new(sender);
        let mut received = || samples.try_recv().ok().map(|sample| sample.missed);
        for due_without_sample in [0, 3, 0, 5] {
            sender.add_missed(due_without_sample);
            assert!(sender.send(sample()));
        }
        assert_eq!([received(), received(), received()], [Some(0), Some(3), None], "the queue has room for two");
        assert!(sender.send(sample()) && sender.send(sample()));
        assert_eq!([received(), received()], [Some(1 + 5 + 1), Some(0)], "two had no room, and five more were due");
        drop(samples);
        assert!(!sender.send(sample()), "nothing receives them");
    }
}
