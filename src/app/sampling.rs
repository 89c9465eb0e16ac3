//! The sampling thread. It is separate because reading /proc blocks, on an overloaded machine for seconds.
//!
//! Samples are due at fixed times (`schedule`); a late sample records its delay. Where samples cost too much CPU time, some are
//! skipped (`throttle`), and the next one records their number. The receiver records each sample before the screen may skip
//! any, and never waits for the terminal. Where a read of a process does not return, another thread takes the place of the one that
//! waits for it, and leaves that process out (`hang_check`).

mod hang_check;
mod jitter;
mod plan;
mod sampling_loop;
mod schedule;
mod throttle;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc as channel;
use tokio::time::timeout_at;

use self::hang_check::HangCheck;
use self::jitter::Jitter;
pub use self::plan::SamplingPlan;
use self::sampling_loop::{Replaced, SampleSender, SamplingLoop};
use self::throttle::Throttle;
use crate::app::program::exit::Failure;
use crate::app::program::{priority, threads};
use crate::kernel::Sampler;
use crate::kernel::task::read_watch::{HungRead, LeftOut, ReadWatch};
use crate::sample::{Host, Sample};

/// Of one CPU: what eBPF programs may take with `probes = "auto"`.
pub const MAX_PROBE_CPU_SHARE: f64 = 0.01;

/// Samples that may wait for the receiver. It never waits for the terminal, so that they queue only where it gets no CPU.
const QUEUE_CAPACITY: usize = 16;

/// A sample, and the number of samples that are missing before it: they were due while the process was stopped or got no CPU, a read
/// did not return, or the queue was full.
#[derive(Clone, Debug)]
pub struct TimedSample {
    pub sample: Arc<Sample>,
    pub missed: u64,
    /// A line that says what is not read from this sample on, since a read of it did not return
    pub left_out: Option<Arc<str>>,
}

impl TimedSample {
    /// A sample that was not taken by this process.
    pub fn new(sample: Arc<Sample>, missed: u64) -> TimedSample {
        TimedSample { sample, missed, left_out: None }
    }
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
    samples: channel::Receiver<TimedSample>,
    control: SamplerControl,
    plan: SamplingPlan,
    commands: Arc<Mutex<mpsc::Receiver<SamplerCommand>>>,
    /// The present time between samples
    interval: Arc<Mutex<Duration>>,
    /// The next sample is the last one
    is_final: Arc<AtomicBool>,
    watch: ReadWatch,
    replaced: Arc<Replaced>,
    left_out: LeftOut,
    hang_check: HangCheck,
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
    /// Starts sampling; the first sample is taken at once.
    pub fn start(plan: SamplingPlan) -> Result<SamplerThread, Failure> {
        let mut sampler = plan.new_sampler()?;
        plan.wait_for_block_latencies(&mut sampler);
        let host = Arc::new(sampler.host().clone());
        let (control, commands) = mpsc::channel();
        // Replaced by that of the thread.
        let (_, samples) = channel::channel(1);
        let left_out = LeftOut::default();
        let mut thread = SamplerThread {
            host,
            samples,
            control: SamplerControl(control),
            commands: Arc::new(Mutex::new(commands)),
            interval: Arc::new(Mutex::new(plan.interval)),
            is_final: Arc::default(),
            watch: ReadWatch::new(left_out.clone()),
            replaced: Arc::default(),
            left_out,
            hang_check: HangCheck::new(Instant::now()),
            plan,
        };
        thread.spawn(sampler)?;
        Ok(thread)
    }

    pub fn control(&self) -> SamplerControl {
        self.control.clone()
    }

    pub fn send(&self, command: SamplerCommand) {
        self.control.send(command);
    }

    /// Waits for the next sample; `None` after the last one. Cancel-safe.
    pub async fn next(&mut self) -> Option<TimedSample> {
        loop {
            match timeout_at(self.hang_check.due().into(), self.samples.recv()).await {
                Ok(Some(sample)) => {
                    let interval = *self.interval.lock().unwrap_or_else(PoisonError::into_inner);
                    return Some(self.hang_check.received(sample, interval, Instant::now()));
                }
                Ok(None) => return None,
                Err(_) => {
                    if let Some(hung) = self.hang_check.check(self.watch.current(), Instant::now()) {
                        self.replace(hung);
                    }
                }
            }
        }
    }

    /// Starts another thread, which leaves the process out, in place of the one that waits for it.
    fn replace(&mut self, hung: HungRead) {
        if !self.left_out.add(hung) {
            return;
        }
        let replaced = Arc::clone(&self.replaced);
        if self.plan.new_sampler().and_then(|sampler| self.spawn(sampler)).is_err() {
            // Tried again by the next check.
            self.left_out.remove(hung);
        } else {
            // Each thread is replaced once: it is not set yet.
            let _ = replaced.set(hung);
            let name = self.plan.process_name(hung.pid);
            self.hang_check.replaced_without(hung, name.as_deref());
        }
    }

    fn spawn(&mut self, sampler: Sampler) -> Result<(), Failure> {
        let (sender, samples) = channel::channel(QUEUE_CAPACITY);
        let (watch, replaced) = (ReadWatch::new(self.left_out.clone()), Arc::<Replaced>::default());
        let interval = *self.interval.lock().unwrap_or_else(PoisonError::into_inner);
        let mut schedule = self.plan.schedule(interval, self.hang_check.last_sample_at());
        if self.is_final.load(Ordering::Acquire) {
            schedule.end_at(Instant::now());
        }
        let is_final = Arc::clone(&self.is_final);
        let (plan, commands, interval) = (self.plan.clone(), Arc::clone(&self.commands), Arc::clone(&self.interval));
        let (left_out, watch_of_loop, replaced_of_loop) = (self.left_out.clone(), watch.clone(), Arc::clone(&replaced));
        let run = move || {
            priority::raise();
            watch_of_loop.install();
            let sampling = SamplingLoop {
                sampler,
                schedule,
                last_started: Instant::now(),
                throttle: plan.is_throttled.then(Throttle::default),
                operations: plan.operations,
                jitter: Jitter::default(),
                sender: SampleSender::new(sender),
                commands,
                interval,
                is_final,
                replaced: replaced_of_loop,
                left_out,
            };
            sampling.run();
        };
        threads::spawn("sampling", run)?;
        (self.samples, self.watch, self.replaced) = (samples, watch, replaced);
        Ok(())
    }
}
