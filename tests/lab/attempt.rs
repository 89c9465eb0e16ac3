//! One attempt: `stalltop check` for some seconds of a running load, and what was measured beside it in the same seconds.
//!
//! A correct result counts always; a wrong one only on an undisturbed machine. While other processes used the CPUs, or the load
//! was not what it should be, the attempt is repeated.

use std::collections::HashMap;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::check_result::{CheckResult, check};
use crate::proc::{
    BUSY_MS, FLUSH_MS, FLUSHES_COMPLETED, READ_MS, READS_COMPLETED, Snapshot, Ticks, WEIGHTED_MS, parse_diskstat,
    ticks_per_second,
};
use crate::watch::{OTHERS, Place, Watch, Watched, others_now};

/// Maximum number of attempts.
const MAX_ATTEMPTS: u32 = 3;

/// Maximum wait for an idle machine before each.
const QUIET_TIMEOUT: Duration = Duration::from_secs(20);

/// After this time nothing is repeated or waited for. All tests take 14 minutes; on a busy machine those that are left at this time take
/// ten more, and .ci/run as a whole has 45.
const TIME_LIMIT: Duration = Duration::from_secs(780);

/// The start of this process.
static BEGIN: OnceLock<Instant> = OnceLock::new();

fn has_time_left() -> bool {
    std::env::var_os("STALLTOP_LAB_LONG").is_some() || BEGIN.get_or_init(Instant::now).elapsed() < TIME_LIMIT
}

/// The options of an attempt.
#[derive(Clone)]
pub struct Attempt<'a> {
    /// Its name in messages
    pub name: &'a str,
    /// stalltop's state directory
    pub state: &'a Path,
    pub seconds: u32,
    pub interval: &'a str,
    /// Other loads of this test use the CPUs: threads are woken late
    pub crowded: bool,
    /// Further files to read before and after
    pub files: Vec<String>,
}

impl<'a> Attempt<'a> {
    pub fn new(name: &'a str, state: &'a Path) -> Attempt<'a> {
        Attempt { name, state, seconds: 6, interval: "1s", crowded: false, files: Vec::new() }
    }

    /// Repeats the attempt until it is right, or wrong on an undisturbed machine, or no attempt is left.
    pub fn check(&self, mut evaluate: impl FnMut(&mut Window, &mut CheckResult)) {
        repeat(self.name, || vec![self.once(&mut evaluate)]);
    }

    /// One attempt.
    pub fn once(&self, mut evaluate: impl FnMut(&mut Window, &mut CheckResult)) -> AttemptResult {
        wait_for_quiet();
        let watch = Watch::start(self.files.clone());
        let from = Snapshot::read(&self.files);
        let mut said = check(self.name, self.state, self.seconds, self.interval);
        let to = Snapshot::read(&self.files);
        let mut window = Window { from, to, watched: watch.end(), disturbances: Vec::new() };
        evaluate(&mut window, &mut said);
        let mut disturbances: Vec<String> = window.watched.disturbance(self.crowded).into_iter().collect();
        disturbances.append(&mut window.disturbances);
        AttemptResult { said, disturbances }
    }
}

/// The result of an attempt, and what may have disturbed it.
pub struct AttemptResult {
    said: CheckResult,
    disturbances: Vec<String>,
}

/// Repeats an attempt while it is wrong and was disturbed.
pub fn repeat(name: &str, mut attempt: impl FnMut() -> Vec<AttemptResult>) {
    for number in 1.. {
        let results = attempt();
        for result in &results {
            println!("{name}: {}", result.said.summary());
        }
        if let Some(wrong) = results.iter().find(|result| !result.said.is_right() && result.disturbances.is_empty()) {
            wrong.said.fail();
        }
        let Some(wrong) = results.iter().find(|result| !result.said.is_right()) else { return };
        println!("{name}: {}", wrong.said.faults());
        if !again(name, number, &wrong.disturbances.join("; ")) {
            return;
        }
    }
}

/// Measures with other tools beside stalltop until both agree, or differ on an undisturbed machine, or no attempt is left. The
/// attempt reports what differs. The caller waits for an idle machine before it starts the load.
pub fn compare_until_equal(name: &str, mut attempt: impl FnMut() -> Result<(), String>) {
    for number in 1.. {
        let watch = Watch::start(Vec::new());
        let found = attempt();
        // Such a load uses CPUs itself: threads are woken late.
        let disturbance = watch.end().disturbance(true);
        let Err(wrong) = found else { return };
        let Some(why) = disturbance else { panic!("{wrong}") };
        println!("{name}: {wrong}");
        if !again(name, number, &why) {
            return;
        }
    }
}

/// Whether to repeat an attempt that was wrong and disturbed; prints it.
fn again(name: &str, number: u32, why: &str) -> bool {
    let again = number < MAX_ATTEMPTS && has_time_left();
    if again {
        println!("{name}: disturbed: {why}, again ({number} of {MAX_ATTEMPTS})");
    } else {
        // Its thread has the path of the test: .ci/run runs it once more.
        let thread = std::thread::current();
        println!("unjudged: {}", thread.name().unwrap_or("?"));
        println!("skipped: {name}: the machine was never quiet: {why}");
    }
    again
}

/// Waits until other processes use little CPU, or until the timeout.
pub fn wait_for_quiet() {
    let begin = Instant::now();
    while others_now() > OTHERS && begin.elapsed() < QUIET_TIMEOUT && has_time_left() {}
}

/// What was measured beside stalltop, from just before it began to just after it ended.
pub struct Window {
    pub from: Snapshot,
    pub to: Snapshot,
    pub watched: Watched,
    disturbances: Vec<String>,
}

/// A disk in that time, by /proc/diskstats.
#[derive(Clone, Copy, Debug)]
pub struct DiskTruth {
    pub reads: f64,
    pub read_await: f64,
    pub flushes: f64,
    pub flush_await: f64,
    pub queue: f64,
    pub busy: f64,
}

/// The least and the most of what was measured several times.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    pub least: f64,
    pub most: f64,
}

impl Range {
    /// NaN is left out; without a number it is a range that contains nothing.
    fn from_values(values: impl Iterator<Item = f64>) -> Range {
        let empty = Range { least: f64::INFINITY, most: f64::NEG_INFINITY };
        values
            .filter(|value| !value.is_nan())
            .fold(empty, |range, value| Range { least: range.least.min(value), most: range.most.max(value) })
    }

    /// Wider by so much at both ends.
    pub fn give_or_take(self, slack: f64) -> Range {
        Range { least: self.least - slack, most: self.most + slack }
    }

    /// Wider by this share of itself at both ends.
    pub fn within(self, share: f64) -> Range {
        Range { least: self.least * (1.0 - share), most: self.most * (1.0 + share) }
    }
}

impl Window {
    /// From end to end.
    fn whole(&self) -> Span<'_> {
        Span { from: &self.from, to: &self.to }
    }

    /// In each second: a finding has the figures of its last second, which lie between the least and the most of them. Bursts may
    /// have twice the most, if a burst is in two seconds of the lab and in one of stalltop's.
    pub fn each(&self, figure: impl Fn(Span) -> f64) -> Range {
        let points: Vec<&Snapshot> = [&self.from].into_iter().chain(&self.watched.snapshots).chain([&self.to]).collect();
        let spans = points.windows(2).map(|pair| Span { from: pair[0], to: pair[1] });
        Range::from_values(spans.filter(|span| span.seconds() >= 0.5).map(figure))
    }

    /// The load differed from what is known of it: the result does not count.
    pub fn known(&mut self, what: &str, value: f64, low: f64, high: f64) {
        if !(low..=high).contains(&value) {
            self.disturbances.push(format!("the load itself was another: {what} {value:.3}, known as {low} to {high}"));
        }
    }

    pub fn disk(&self, device: &str) -> DiskTruth {
        self.whole().disk(device)
    }

    /// The host (`cpu`) or a CPU (`cpu1`), by /proc/stat.
    pub fn ticks(&self, name: &str) -> Ticks {
        self.whole().ticks(name)
    }

    /// The part of the host that no task used, in each second.
    pub fn available_each(&self) -> Range {
        self.each(|span| {
            let ticks = span.ticks("cpu");
            ticks.share(ticks.available)
        })
    }

    /// The part of the time that is in no field of a CPU's line.
    pub fn missing(&self, name: &str) -> f64 {
        self.whole().missing(name)
    }

    /// How much a counter grew per second.
    pub fn rate(&self, counter: impl Fn(&Snapshot) -> f64) -> f64 {
        self.whole().rate(counter)
    }

    /// The same in each second.
    pub fn rate_each(&self, counter: impl Fn(&Snapshot) -> f64) -> Range {
        self.each(|span| span.rate(&counter))
    }

    /// A counter of /proc/net/netstat's TcpExt.
    pub fn tcp_ext(&self, name: &str) -> f64 {
        self.rate(|snapshot| snapshot.protocol("/proc/net/netstat", "TcpExt", name))
    }

    /// A counter of /proc/net/snmp's Udp.
    pub fn udp(&self, name: &str) -> f64 {
        self.rate(|snapshot| snapshot.protocol("/proc/net/snmp", "Udp", name))
    }

    /// Mean number of the scenario's threads of this name in this state.
    pub fn threads(&self, comm: &str, state: char) -> f64 {
        self.mean(|place| place.comm == comm && place.state == state)
    }

    /// Mean number of the scenario's threads in such a wait.
    pub fn mean(&self, is: impl Fn(&Place) -> bool) -> f64 {
        let readings = &self.watched.readings;
        let sum: f64 = readings.iter().map(|reading| count(reading, &is)).sum();
        if readings.is_empty() { f64::NAN } else { sum / readings.len() as f64 }
    }

    /// The least and the most of them in one reading.
    pub fn readings(&self, is: impl Fn(&Place) -> bool) -> Range {
        Range::from_values(self.watched.readings.iter().map(|reading| count(reading, &is)))
    }

    /// CPUs that the scenario's processes of this name used.
    pub fn used(&self, comm: &str) -> f64 {
        self.watched.used.get(comm).copied().unwrap_or(0.0)
    }

    /// The same in each second.
    pub fn used_each(&self, comm: &str) -> Range {
        Range::from_values(self.watched.used_each(comm))
    }
}

fn count(reading: &HashMap<Place, u32>, is: impl Fn(&Place) -> bool) -> f64 {
    reading.iter().filter(|(place, _)| is(place)).map(|(_, count)| f64::from(*count)).sum()
}

/// From one moment to another.
#[derive(Clone, Copy)]
pub struct Span<'a> {
    pub from: &'a Snapshot,
    pub to: &'a Snapshot,
}

impl Span<'_> {
    pub fn seconds(self) -> f64 {
        self.to.at.duration_since(self.from.at).as_secs_f64()
    }

    pub fn disk(self, device: &str) -> DiskTruth {
        let grown = |column: usize| {
            let at = |snapshot: &Snapshot| parse_diskstat(snapshot.text("/proc/diskstats"), device, column);
            at(self.to).saturating_sub(at(self.from)) as f64
        };
        let each = |ms: usize, completed: usize| grown(ms) / grown(completed).max(1.0) / 1000.0;
        DiskTruth {
            reads: grown(READS_COMPLETED) / self.seconds(),
            read_await: each(READ_MS, READS_COMPLETED),
            flushes: grown(FLUSHES_COMPLETED) / self.seconds(),
            flush_await: each(FLUSH_MS, FLUSHES_COMPLETED),
            queue: grown(WEIGHTED_MS) / 1000.0 / self.seconds(),
            busy: grown(BUSY_MS) / 1000.0 / self.seconds(),
        }
    }

    pub fn ticks(self, name: &str) -> Ticks {
        let at = |snapshot: &Snapshot| Ticks::parse(snapshot.text("/proc/stat"), name);
        at(self.to).since(at(self.from))
    }

    pub fn missing(self, name: &str) -> f64 {
        1.0 - self.ticks(name).all() as f64 / (self.seconds() * ticks_per_second())
    }

    pub fn rate(self, counter: impl Fn(&Snapshot) -> f64) -> f64 {
        (counter(self.to) - counter(self.from)) / self.seconds()
    }

    /// A counter of /proc/net/snmp's Tcp.
    pub fn tcp(self, name: &str) -> f64 {
        self.rate(|snapshot| snapshot.protocol("/proc/net/snmp", "Tcp", name))
    }
}
