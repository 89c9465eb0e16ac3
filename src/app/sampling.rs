//! The sampling thread. It is separate because reading /proc blocks, on an overloaded machine for seconds.
//!
//! Samples are due at fixed times (`schedule`); a late sample records its delay. Where samples cost too much CPU time, some are
//! skipped (`throttle`), and the next one records their number. The receiver records each sample before the screen may skip
//! any, and never waits for the terminal.

mod jitter;
mod schedule;
mod throttle;

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc as channel;

use self::jitter::Jitter;
use self::schedule::Schedule;
use self::throttle::Throttle;
use crate::app::operations_command::LatestOperations;
use crate::app::program::exit::{Exit, Failure};
use crate::app::program::privileges::bpf_remedy;
use crate::app::program::stdio::print_stderr;
use crate::app::program::{priority, threads};
use crate::cli::ProbeMode;
use crate::kernel::probe::loader_process;
use crate::kernel::{Root, Sampler};
use crate::sample::{Absent, Host, Sample};

/// Time between sub-samples, on average.
const SUB_SAMPLE_INTERVAL: Duration = Duration::from_millis(100);

/// Two readings with less time between them show no progress: /proc/stat counts in ticks.
const CLOCK_TICK: Duration = Duration::from_millis(10);

/// A sample out of turn comes at least so long after the one before: in less time, rates by clock ticks mean nothing.
const MIN_SPACING: Duration = Duration::from_millis(100);

/// Of one CPU: what eBPF programs may take with `probes = "auto"`.
pub const MAX_PROBE_CPU_SHARE: f64 = 0.01;

/// Samples that may wait for the receiver. It never waits for the terminal, so that they queue only where it gets no CPU.
const QUEUE_CAPACITY: usize = 16;

/// A sample, and the number of samples that are missing before it: they were due while the process was stopped or got no CPU,
/// or the queue was full.
#[derive(Clone, Debug)]
pub struct TimedSample {
    pub sample: Arc<Sample>,
    pub missed: u64,
}

pub enum SamplerCommand {
    SetInterval(Duration),
    /// Take a sample soon, beside those that are due: now, or `MIN_SPACING` after the last one
    SampleNow,
    /// Take one more sample, now
    FinalSample,
    /// Take no more samples
    Stop,
}

/// The running thread. Dropping it, and all `SamplerControl`s, ends the thread.
pub struct SamplerThread {
    pub host: Arc<Host>,
    pub samples: channel::Receiver<TimedSample>,
    control: SamplerControl,
}

/// Sends commands to the thread.
#[derive(Clone, Debug)]
pub struct SamplerControl(mpsc::Sender<SamplerCommand>);

impl SamplerControl {
    pub fn send(&self, command: SamplerCommand) {
        // The thread has ended only when its samples are no longer received.
        let _ = self.0.send(command);
    }

    /// A control without a thread, and what is sent to it.
    #[cfg(test)]
    pub fn for_test() -> (SamplerControl, mpsc::Receiver<SamplerCommand>) {
        let (sender, commands) = mpsc::channel();
        (SamplerControl(sender), commands)
    }
}

impl SamplerThread {
    /// Starts sampling; the first sample is taken at once. With a span, the last sample is taken at its end.
    pub fn start(root: Root, interval: Duration, span: Option<Duration>, probes: ProbeMode) -> Result<SamplerThread, Failure> {
        SamplerThread::start_with_operations(root, interval, span, probes, None)
    }

    /// The same; the last sample comes later where fewer than `min_samples` would have been taken.
    pub fn start_with_min_samples(
        root: Root,
        interval: Duration,
        span: Option<Duration>,
        probes: ProbeMode,
        min_samples: u32,
    ) -> Result<SamplerThread, Failure> {
        let schedule = Schedule::new(interval, span).with_min_samples(min_samples);
        SamplerThread::spawn(new_sampler(root, probes)?, schedule, Some(Throttle::default()), None)
    }

    /// As `start`; each sample contains the last total of `record --ops`.
    pub fn start_with_operations(
        root: Root,
        interval: Duration,
        span: Option<Duration>,
        probes: ProbeMode,
        operations: Option<LatestOperations>,
    ) -> Result<SamplerThread, Failure> {
        SamplerThread::spawn(new_sampler(root, probes)?, Schedule::new(interval, span), Some(Throttle::default()), operations)
    }

    /// Without an early second sample and without a throttle: every interval but the last has the requested length.
    /// `context_switches`: those of each thread, which costs one more file for each thread that ran.
    pub fn start_unthrottled(
        root: Root,
        interval: Duration,
        span: Option<Duration>,
        probes: ProbeMode,
        context_switches: bool,
    ) -> Result<SamplerThread, Failure> {
        let mut sampler = new_sampler(root, probes)?;
        if context_switches {
            sampler.enable_context_switches();
        }
        SamplerThread::spawn(sampler, Schedule::new(interval, span).without_early_sample(), None, None)
    }

    fn spawn(
        sampler: Sampler,
        schedule: Schedule,
        throttle: Option<Throttle>,
        operations: Option<LatestOperations>,
    ) -> Result<SamplerThread, Failure> {
        let host = Arc::new(sampler.host().clone());
        let (sender, samples) = channel::channel(QUEUE_CAPACITY);
        let (control, commands) = mpsc::channel();
        let sender = SampleSender::new(sender);
        let jitter = Jitter::default();
        let last_started = Instant::now();
        let sampling = SamplingLoop { sampler, schedule, last_started, throttle, operations, jitter, sender, commands };
        let run = move || {
            priority::raise();
            sampling.run();
        };
        threads::spawn("sampling", run)?;
        Ok(SamplerThread { host, samples, control: SamplerControl(control) })
    }

    pub fn control(&self) -> SamplerControl {
        self.control.clone()
    }

    pub fn send(&self, command: SamplerCommand) {
        self.control.send(command);
    }
}

fn new_sampler(root: Root, probes: ProbeMode) -> Result<Sampler, Failure> {
    let mut sampler = Sampler::new(root).map_err(|error| {
        Failure::new(Exit::NoProc, "cannot sample this machine", error, "mount it: mount -t proc proc /proc")
    })?;
    let program = loader_process::own_executable;
    let max_cpu_share = (probes == ProbeMode::Auto).then_some(MAX_PROBE_CPU_SHARE);
    if probes != ProbeMode::Off {
        sampler.enable_kernel_lock_owners(program(), max_cpu_share);
        sampler.enable_lock_wakers(program(), max_cpu_share);
    }
    match probes {
        ProbeMode::Off => {}
        ProbeMode::Auto => sampler.enable_block_latencies(program(), max_cpu_share),
        ProbeMode::On => {
            sampler.enable_block_latencies(program(), None);
            if let Err(why) = sampler.wait_for_block_latencies() {
                let remedy = bpf_remedy(true);
                print_stderr(&format!("latencies of single disk requests are not measured: {why}: {remedy}"));
            }
        }
    }
    Ok(sampler)
}

/// What the thread owns.
struct SamplingLoop {
    sampler: Sampler,
    schedule: Schedule,
    /// The start of the last sample
    last_started: Instant,
    throttle: Option<Throttle>,
    operations: Option<LatestOperations>,
    jitter: Jitter,
    sender: SampleSender,
    commands: mpsc::Receiver<SamplerCommand>,
}

/// A sub-sample: its due time, and the time at which it is taken.
struct PlannedSubSample {
    due: Instant,
    at: Instant,
}

impl SamplingLoop {
    fn run(mut self) {
        while self.take_sample() && self.wait_for_next_sample() {}
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
                // Those that were missed are not taken later.
                let late = Instant::now().saturating_duration_since(sub_sample.due);
                let intervals = late.as_nanos() / SUB_SAMPLE_INTERVAL.as_nanos() + 1;
                let due = sub_sample.due + SUB_SAMPLE_INTERVAL * u32::try_from(intervals).unwrap_or(u32::MAX);
                sub_sample = self.plan_sub_sample(due);
                continue;
            }
            let until = if wanted { sub_sample.at } else { next };
            match self.commands.recv_timeout(until.saturating_duration_since(now)) {
                Ok(SamplerCommand::SetInterval(interval)) => self.schedule.set_interval(interval, Instant::now()),
                Ok(SamplerCommand::SampleNow) => {
                    self.schedule.bring_forward(Instant::now().max(self.last_started + MIN_SPACING))
                }
                Ok(SamplerCommand::FinalSample) => self.schedule.end_at(Instant::now()),
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
struct SampleSender {
    sender: channel::Sender<TimedSample>,
    /// Since the last sample that was sent
    missed: u64,
}

impl SampleSender {
    fn new(sender: channel::Sender<TimedSample>) -> SampleSender {
        SampleSender { sender, missed: 0 }
    }

    /// Samples that were due and not taken.
    fn add_missed(&mut self, count: u64) {
        self.missed = self.missed.saturating_add(count);
    }

    /// False if samples are no longer received.
    fn send(&mut self, sample: Sample) -> bool {
        match self.sender.try_send(TimedSample { sample: Arc::new(sample), missed: self.missed }) {
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
