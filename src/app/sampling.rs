//! The sampling thread: reading /proc blocks, for seconds on a sick box, so it happens where nobody waits for it.
//!
//! Samples stand on a grid of due times, so that they do not drift; one that comes late says by how much. Where one costs
//! more than it may, some are left out (`pace`), and the next one says how many. Whoever receives them records them before
//! the screen may leave any out, and never waits for the terminal.

mod jitter;
mod throttle;

use std::sync::Arc;
use std::sync::mpsc::{self, TryRecvError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use tokio::sync::mpsc as channel;

use self::jitter::Jitter;
use self::throttle::Throttle;
use crate::app::operations_command::LatestOperations;
use crate::app::program::exit::{Exit, Failure};
use crate::kernel::{Root, Sampler};
use crate::sample::{Absent, Host, Sample};

/// Time between sub-samples, on average.
const SUB_SAMPLE_INTERVAL: Duration = Duration::from_millis(100);

/// Two looks at less than that from each other stand for no time: /proc/stat counts in ticks.
const CLOCK_TICK: Duration = Duration::from_millis(10);

/// The second sample comes this soon, so that there is something to be seen.
const FIRST_INTERVAL: Duration = Duration::from_millis(250);

/// Samples that may wait for whoever judges them. It never waits for the terminal, so they only pile up on a starved box.
const QUEUE_CAPACITY: usize = 16;

/// A sample, and how many that were due before it there are not: nobody had time to take them (we were stopped, or got no
/// CPU), or the last ones waited for somebody who did not take them.
#[derive(Clone, Debug)]
pub struct TimedSample {
    pub sample: Arc<Sample>,
    pub missed: u64,
}

/// What the sampling thread can be asked for.
pub enum SamplerCommand {
    SetInterval(Duration),
    /// One sample more, at once
    FinalSample,
    /// No sample more
    Stop,
}

/// The running thread. Dropping it ends it at its next look, or after the sample it is taking.
pub struct SamplerThread {
    pub host: Arc<Host>,
    pub samples: channel::Receiver<TimedSample>,
    control: SamplerControl,
}

/// The way to ask the thread for something. It sleeps without a queue to wait at, which is cheaper ten times a second, and is
/// woken for an order.
#[derive(Clone, Debug)]
pub struct SamplerControl {
    sender: mpsc::Sender<SamplerCommand>,
    thread: Thread,
}

impl SamplerControl {
    /// Wakes the thread for this. It is gone only when the program ends.
    pub fn send(&self, order: SamplerCommand) {
        let _ = self.sender.send(order);
        self.thread.unpark();
    }
}

impl SamplerThread {
    /// Starts sampling at once; the first sample follows without a wait. With a span it ends after that, with a sample.
    pub fn start(root: Root, interval: Duration, span: Option<Duration>) -> Result<SamplerThread, Failure> {
        SamplerThread::spawn(new_sampler(root)?, Schedule::new(interval, span), Some(Throttle::default()), None)
    }

    /// The same; each sample takes along what was counted last.
    pub fn start_with_operations(
        root: Root,
        interval: Duration,
        span: Option<Duration>,
        tally: Option<LatestOperations>,
    ) -> Result<SamplerThread, Failure> {
        SamplerThread::spawn(new_sampler(root)?, Schedule::new(interval, span), Some(Throttle::default()), tally)
    }

    /// The same without an early look, and whatever it costs: every interval but the last is as long as it was asked for.
    /// `switches` are those of each thread, a file more of each that ran.
    pub fn start_unthrottled(
        root: Root,
        interval: Duration,
        span: Option<Duration>,
        switches: bool,
    ) -> Result<SamplerThread, Failure> {
        let mut sampler = new_sampler(root)?;
        if switches {
            sampler.enable_context_switches();
        }
        SamplerThread::spawn(sampler, Schedule { first_interval: interval, ..Schedule::new(interval, span) }, None, None)
    }

    fn spawn(
        mut sampler: Sampler,
        mut due: Schedule,
        mut pace: Option<Throttle>,
        tally: Option<LatestOperations>,
    ) -> Result<SamplerThread, Failure> {
        let host = Arc::new(sampler.host().clone());
        let (sender, samples) = channel::channel(QUEUE_CAPACITY);
        let (orders, inbox) = mpsc::channel();
        let mut handover = SampleSender { sender, missed: 0 };
        let mut phase = Jitter::default();
        let body = move || {
            loop {
                let begun = Instant::now();
                let late = due.lateness(begun);
                handover.add_missed(due.missed(begun));
                // Before the sample, so that it is never later than that.
                let operations = tally.as_ref().map_or(Err(Absent::NotRead), LatestOperations::reading);
                let (mut sample, cost) = throttle::with_cpu_time(|| sampler.sample());
                sample.operations = operations;
                sample.cost.skipped_samples = due.skipped;
                sample.cost.start_delay_ns = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
                crate::app::program::panics::panic_if_requested("sampling");
                if !handover.send(sample) {
                    return;
                }
                let one_in = pace.as_mut().map_or(1, |pace| pace.stride(cost, due.interval));
                if !due.advance(Instant::now(), one_in) {
                    return;
                }
                let mut due_look = next_sub_sample(&mut sampler, Instant::now() + SUB_SAMPLE_INTERVAL, due.next);
                let mut look = phase.jittered(due_look);
                loop {
                    let now = Instant::now();
                    if now >= due.next {
                        break;
                    }
                    // One just before a sample would tell nothing new: the sample looks itself.
                    let wanted = leaves_time_before(due_look, due.next) && look + CLOCK_TICK < due.next;
                    if wanted && now >= look {
                        sampler.sub_sample();
                        // What has passed meanwhile is not made up for.
                        let passed =
                            Instant::now().saturating_duration_since(due_look).as_nanos() / SUB_SAMPLE_INTERVAL.as_nanos();
                        due_look += SUB_SAMPLE_INTERVAL * u32::try_from(passed + 1).unwrap_or(u32::MAX);
                        due_look = next_sub_sample(&mut sampler, due_look, due.next);
                        look = phase.jittered(due_look);
                        continue;
                    }
                    let until = if wanted { look.min(due.next) } else { due.next };
                    match inbox.try_recv() {
                        Ok(SamplerCommand::SetInterval(interval)) => due.set_interval(interval, Instant::now()),
                        Ok(SamplerCommand::FinalSample) => due.end_at(Instant::now()),
                        Err(TryRecvError::Empty) => thread::park_timeout(until.saturating_duration_since(now)),
                        Ok(SamplerCommand::Stop) | Err(TryRecvError::Disconnected) => return,
                    }
                }
            }
        };
        let thread = thread::Builder::new().name("sampling".to_owned()).spawn(body);
        let thread = thread.map_err(|error| Failure::new(Exit::Failed, "cannot start sampling", error, ""))?;
        Ok(SamplerThread { host, samples, control: SamplerControl { sender: orders, thread: thread.thread().clone() } })
    }

    /// A way to ask the thread for something, for somebody else.
    pub fn control(&self) -> SamplerControl {
        self.control.clone()
    }

    /// Asks the thread for something.
    pub fn send(&self, order: SamplerCommand) {
        self.control.send(order);
    }
}

/// Gives samples away without ever waiting, and counts those that there was no room for.
struct SampleSender {
    sender: channel::Sender<TimedSample>,
    /// Since the last one that somebody has, or will have
    missed: u64,
}

impl SampleSender {
    /// So many were not even taken.
    fn add_missed(&mut self, count: u64) {
        self.missed = self.missed.saturating_add(count);
    }

    /// False where nobody is there any more.
    fn send(&mut self, sample: Sample) -> bool {
        match self.sender.try_send(TimedSample { sample: Arc::new(sample), missed: self.missed }) {
            Ok(()) => self.missed = 0,
            Err(channel::error::TrySendError::Full(_)) => self.add_missed(1),
            Err(channel::error::TrySendError::Closed(_)) => return false,
        }
        true
    }
}

/// Whether a sub-sample then is not too near to the next sample.
fn leaves_time_before(due_look: Instant, next: Instant) -> bool {
    due_look + SUB_SAMPLE_INTERVAL / 2 < next
}

/// When the first sub-sample from `due_look` on is due that has anything to look at: each time that we wake up costs more than a look.
fn next_sub_sample(sampler: &mut Sampler, due_look: Instant, next: Instant) -> Instant {
    let first = due_look.saturating_duration_since(Instant::now());
    let rest =
        next.saturating_duration_since(due_look + SUB_SAMPLE_INTERVAL / 2).as_nanos().div_ceil(SUB_SAMPLE_INTERVAL.as_nanos());
    due_look
        + SUB_SAMPLE_INTERVAL
            * sampler.omit_idle_sub_samples(first, SUB_SAMPLE_INTERVAL, u32::try_from(rest).unwrap_or(u32::MAX))
}

fn new_sampler(root: Root) -> Result<Sampler, Failure> {
    Sampler::new(root)
        .map_err(|error| Failure::new(Exit::NoProc, "cannot sample this machine", error, "mount it: mount -t proc proc /proc"))
}

/// When samples are due: start, start + a short while, then start + n · interval; at the end of the span at last.
#[derive(Debug)]
struct Schedule {
    interval: Duration,
    next: Instant,
    /// Where the grid stands
    origin: Instant,
    /// The last due time that is accounted for
    accounted_until: Instant,
    /// Due times before `next` that are passed over on purpose
    skipped: u32,
    end: Option<Instant>,
    /// How soon the second sample comes
    first_interval: Duration,
}

impl Schedule {
    fn new(interval: Duration, span: Option<Duration>) -> Schedule {
        let now = Instant::now();
        Schedule {
            interval,
            next: now,
            origin: now,
            accounted_until: now,
            skipped: 0,
            end: span.map(|span| now + span),
            first_interval: FIRST_INTERVAL,
        }
    }

    fn lateness(&self, begun: Instant) -> Duration {
        begun.saturating_duration_since(self.next)
    }

    /// How many due times have passed since the last sample without one, this sample's own and those that were left out not
    /// counted.
    fn missed(&mut self, begun: Instant) -> u64 {
        let interval = self.interval.as_nanos().max(1);
        let passed = |until: Instant| until.saturating_duration_since(self.origin).as_nanos() / interval;
        let here = self.origin + self.interval * u32::try_from(passed(begun)).unwrap_or(u32::MAX);
        let wanted = 1 + u128::from(self.skipped);
        let missed = passed(here).saturating_sub(passed(self.accounted_until)).saturating_sub(wanted);
        self.accounted_until = self.accounted_until.max(here);
        u64::try_from(missed).unwrap_or(u64::MAX)
    }

    /// To the next due time after `now`, of which only one in so many is wanted; those that were missed are not made up for.
    /// False when there is none.
    fn advance(&mut self, now: Instant, one_in: u32) -> bool {
        if self.end.is_some_and(|end| self.next >= end) {
            return false;
        }
        self.skipped = 0;
        self.next =
            if self.next == self.origin && self.interval > self.first_interval * 2 && now < self.origin + self.first_interval {
                self.origin + self.first_interval
            } else {
                let grid = |at: Instant| {
                    let passed = at.saturating_duration_since(self.origin).as_nanos() / self.interval.as_nanos().max(1);
                    u32::try_from(passed).unwrap_or(u32::MAX)
                };
                // Counted from this sample's own due time: one that took long has used up a part of the pause.
                let (soonest, wanted) = (grid(now).saturating_add(1), grid(self.next).saturating_add(one_in));
                self.skipped = wanted.saturating_sub(soonest);
                self.origin + self.interval * soonest.max(wanted)
            };
        if let Some(end) = self.end {
            // A rest that is too short for an interval belongs to the last one.
            let last = self.next + self.interval.min(FIRST_INTERVAL) > end;
            self.next = if last { end } else { self.next };
            self.skipped = if last { 0 } else { self.skipped };
        }
        true
    }

    fn end_at(&mut self, now: Instant) {
        (self.next, self.end) = (now, Some(now));
    }

    fn set_interval(&mut self, interval: Duration, now: Instant) {
        let (first, end) = (self.first_interval, self.end);
        *self = Schedule {
            interval,
            next: now + interval.min(first),
            origin: now,
            accounted_until: now,
            skipped: 0,
            end,
            first_interval: first,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples that nobody has taken fill the queue; the next one that finds room says how many there were no room for.
    #[test]
    fn samples_that_nobody_took_are_counted() {
        let sample = || Sample::empty(crate::sample::Instant::default());
        let (sender, mut samples) = channel::channel(2);
        let mut handover = SampleSender { sender, missed: 0 };
        let mut take = || samples.try_recv().ok().map(|taken| taken.missed);
        for due_without_one in [0, 3, 0, 5] {
            handover.add_missed(due_without_one);
            assert!(handover.send(sample()));
        }
        assert_eq!([take(), take(), take()], [Some(0), Some(3), None], "two found room");
        assert!(handover.send(sample()) && handover.send(sample()));
        assert_eq!([take(), take()], [Some(1 + 5 + 1), Some(0)], "two found none, and five more were due");
        drop(samples);
        assert!(!handover.send(sample()), "nobody is there");
    }

    #[test]
    fn the_grid_does_not_drift() {
        let mut due = Schedule::new(Duration::from_secs(1), None);
        let start = due.origin;
        due.advance(start + Duration::from_millis(5), 1);
        assert_eq!(due.next, start + FIRST_INTERVAL, "the first figures come soon");
        due.advance(start + Duration::from_millis(260), 1);
        assert_eq!(due.next, start + Duration::from_secs(1));
        due.advance(start + Duration::from_millis(1040), 1);
        assert_eq!(due.next, start + Duration::from_secs(2));
        assert_eq!(due.lateness(start + Duration::from_millis(2300)), Duration::from_millis(300));
        due.advance(start + Duration::from_millis(5300), 1);
        assert_eq!(due.next, start + Duration::from_secs(6), "missed ones are not made up for");
    }

    #[test]
    fn due_times_without_a_sample_are_counted_once() {
        let mut due = Schedule::new(Duration::from_secs(1), None);
        let start = due.origin;
        let mut missed = |ms: u64| {
            let now = start + Duration::from_millis(ms);
            let missed = due.missed(now);
            due.advance(now + Duration::from_millis(5), 1);
            missed
        };
        let counted: Vec<u64> = [0, 250, 1000, 2400, 3000, 33_100, 34_000, 35_999, 36_001].map(&mut missed).to_vec();
        assert_eq!(counted, [0, 0, 0, 0, 0, 29, 0, 0, 0], "stopped for 30 s");
        // A sample that itself takes three seconds.
        due.advance(start + Duration::from_millis(39_500), 1);
        assert_eq!(due.next, start + Duration::from_secs(40));
        assert_eq!(due.missed(start + Duration::from_secs(40)), 3);
    }

    #[test]
    fn what_is_left_out_on_purpose_is_not_missed_and_the_grid_stays() {
        let mut due = Schedule::new(Duration::from_secs(1), None);
        let start = due.origin;
        let at = |ms: u64| start + Duration::from_millis(ms);
        due.advance(at(900), 3);
        assert_eq!((due.next, due.skipped), (at(3000), 2));
        assert_eq!(due.missed(at(3010)), 0);
        // This one takes 1.2 s itself: one of the two due times is past already when it is done.
        due.advance(at(4210), 3);
        assert_eq!((due.next, due.skipped), (at(6000), 1));
        assert_eq!(due.missed(at(9_020)), 4, "of the five between, only the one at 5 s was not wanted");
    }

    #[test]
    fn a_span_ends_with_a_sample() {
        let mut due = Schedule::new(Duration::from_secs(1), Some(Duration::from_millis(2100)));
        let start = due.origin;
        let mut times = Vec::new();
        while due.advance(due.next, 1) {
            times.push((due.next - start).as_millis());
        }
        assert_eq!(times, [250, 1000, 2100]);
    }

    #[test]
    fn another_interval_begins_a_new_grid() {
        let mut due = Schedule::new(Duration::from_secs(1), None);
        let now = due.origin + Duration::from_secs(10);
        due.set_interval(Duration::from_secs(5), now);
        assert_eq!(due.next, now + FIRST_INTERVAL);
        due.advance(due.next, 1);
        assert_eq!(due.next, now + Duration::from_secs(5));
    }
}
