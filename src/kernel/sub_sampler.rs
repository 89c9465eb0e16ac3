//! Sub-samples: between two samples, about ten times a second, the hot threads are read again, and what may be compared
//! with them at the same moment: CPU times and requests in flight. `waits` counts what was seen; `schedule` says what is due.

mod schedule;

use std::time::Duration;

use nix::time::ClockId;

use super::clock::{SampleClock, clock_ns, thread_cpu_ns};
use super::exits::ExitReader;
use super::root::Root;
use super::scan::TaskScanner;
use super::system_readers::SystemReaders;
use super::waits::budget::{CpuBudget, DEFAULT_SHARE};
use super::waits::{IntervalWaits, SubSampleReadings, WaitCounter};
use crate::sample::Sample;
use schedule::SubSampleSchedule;

/// The CPU times read at the start of a sample are used for its closing sub-sample if they are not older than this, a tick.
const MAX_CPU_TIMES_AGE_NS: u64 = 10_000_000;

/// Takes sub-samples, as often as its budget allows.
#[derive(Debug)]
pub struct SubSampler {
    pub waits: WaitCounter,
    schedule: SubSampleSchedule,
    budget: CpuBudget,
    /// Since the last sample
    cpu_ns: u64,
    /// When they were last read
    in_flight: Option<u32>,
}

/// What a sub-sample is read with.
pub struct SubSampleSources<'a> {
    pub root: &'a Root,
    pub clock: &'a SampleClock,
    pub system: &'a mut SystemReaders,
    pub scanner: &'a mut TaskScanner,
    pub exits: &'a mut ExitReader,
}

impl Default for SubSampler {
    fn default() -> SubSampler {
        SubSampler {
            waits: WaitCounter::default(),
            schedule: SubSampleSchedule::default(),
            budget: CpuBudget::new(DEFAULT_SHARE),
            cpu_ns: 0,
            in_flight: None,
        }
    }
}

impl SubSampler {
    /// The CPU budget, as a share of one CPU.
    pub fn set_cpu_share(&mut self, share: f64) {
        self.budget = CpuBudget::new(share);
    }

    /// Whether the budget allows a sub-sample now. `sub_sample` checks this, too.
    pub fn is_allowed(&self) -> bool {
        self.budget.allows(clock_ns(ClockId::CLOCK_MONOTONIC))
    }

    /// How many of the next `most` sub-samples would read no thread. The first is due after `first`, the others a `period` apart.
    /// `record_omitted` records them.
    pub fn omit_idle(&mut self, sources: &SubSampleSources, first: Duration, period: Duration, most: u32) -> u32 {
        let now_ns = sources.clock.boottime_ns();
        let is_blocked = self.was_blocked_recently(sources.scanner, now_ns);
        let count = if is_blocked || sources.system.block_latencies.is_limited() {
            0
        } else {
            sources.scanner.idle_sub_samples(now_ns).min(most)
        };
        self.schedule.omit(count, now_ns, first, period);
        count
    }

    /// Records the omitted sub-samples that were due before now, with the thread states seen last.
    pub fn record_omitted(&mut self, sources: &mut SubSampleSources) {
        for boottime_ns in self.schedule.take_omitted(sources.clock.boottime_ns()) {
            sources.scanner.skip_sub_sample();
            let readings = SubSampleReadings { boottime_ns, cpu: None, in_flight: self.in_flight };
            self.waits.record_sub_sample(sources.scanner.sub_sampled_mut(), readings);
        }
    }

    /// Takes a sub-sample. If the budget does not allow it, counts it as skipped and returns false.
    pub fn sub_sample(&mut self, sources: &mut SubSampleSources) -> bool {
        self.record_omitted(sources);
        sources.system.block_latencies.pace();
        if !self.is_allowed() {
            self.waits.record_skipped();
            return false;
        }
        let begin = thread_cpu_ns();
        sources.scanner.sub_sample(sources.clock.boottime_ns());
        let is_full = self.schedule.begin_sub_sample();
        let is_blocked = self.was_blocked_recently(sources.scanner, sources.clock.boottime_ns());
        // The two most expensive files. While no thread is blocked, requests in flight are only displayed, and CPU times are
        // not used.
        if is_blocked || (is_full && !sources.system.disk.is_idle()) {
            self.in_flight = sources.system.disk.in_flight(sources.root).ok();
        }
        let cpu = if is_blocked { sources.system.cpu.read_total(sources.root).ok() } else { None };
        let boottime_ns = sources.clock.boottime_ns();
        self.record(sources, SubSampleReadings { boottime_ns, cpu, in_flight: self.in_flight });
        if is_full {
            sources.exits.fetch(sources.clock.boottime_ns(), sources.scanner);
        }
        let cost_ns = thread_cpu_ns().saturating_sub(begin);
        self.cpu_ns = self.cpu_ns.saturating_add(cost_ns);
        self.budget.spend(clock_ns(ClockId::CLOCK_MONOTONIC), cost_ns);
        true
    }

    /// The closing sub-sample of a sample, of the threads as its scan has read them; returns what all since the last sample saw.
    pub fn finish(&mut self, sources: &mut SubSampleSources, sample: &Sample) -> IntervalWaits {
        let is_stale = sources.clock.boottime_ns().saturating_sub(sample.at.boottime_ns) > MAX_CPU_TIMES_AGE_NS;
        let cpu = match &sample.cpu {
            Ok(cpu) if !is_stale && !self.was_blocked_recently(sources.scanner, sources.clock.boottime_ns()) => {
                self.in_flight = sources.system.disk.last_in_flight();
                Some(cpu.total)
            }
            _ => {
                self.in_flight = sources.system.disk.in_flight(sources.root).ok();
                sources.system.cpu.read_total(sources.root).ok()
            }
        };
        let readings = SubSampleReadings { boottime_ns: sources.clock.boottime_ns(), cpu, in_flight: self.in_flight };
        let switches = sample.cpu.as_ref().ok().and_then(|cpu| cpu.context_switches);
        self.waits.limit_lock_wakers(switches, sample.at.boottime_ns);
        self.record(sources, readings);
        self.waits.finish_interval()
    }

    /// CPU time of the sub-samples since the last call.
    pub fn take_cpu_ns(&mut self) -> u64 {
        std::mem::take(&mut self.cpu_ns)
    }

    fn record(&mut self, sources: &mut SubSampleSources, readings: SubSampleReadings) {
        // Not of a fixture tree, whose processes have no memory.
        let have_memory = sources.root.is_host();
        if have_memory {
            self.waits.read_wait_events(sources.scanner);
            self.waits.read_java_locks(sources.root, sources.scanner);
        }
        self.waits.record_sub_sample(sources.scanner.sub_sampled_mut(), readings);
        if have_memory {
            let machine = sources.scanner.machine().clone();
            self.waits.read_lock_owners(sources.scanner.files(), machine.as_bytes());
        }
    }

    fn was_blocked_recently(&mut self, scanner: &TaskScanner, now_ns: u64) -> bool {
        self.schedule.was_blocked_recently(scanner.has_blocked_threads(), now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::host;
    use crate::proc_tree::ProcTree;

    /// A machine without tasks.
    struct Machine {
        _tree: ProcTree,
        root: Root,
        clock: SampleClock,
        system: SystemReaders,
        scanner: TaskScanner,
        exits: ExitReader,
    }

    impl Machine {
        fn new() -> Machine {
            let tree = ProcTree::new();
            let root = tree.root();
            let scanner = TaskScanner::new(&root, &host::read(&root)).unwrap();
            let exits = ExitReader::new(&root);
            Machine { _tree: tree, clock: SampleClock::default(), system: SystemReaders::default(), scanner, exits, root }
        }

        /// The sources of a sub-sample at this time.
        fn at(&mut self, milliseconds: u64) -> SubSampleSources<'_> {
            self.clock.set_fixed(milliseconds * 1_000_000);
            let Machine { root, clock, system, scanner, exits, .. } = self;
            SubSampleSources { root, clock, system, scanner, exits }
        }

        fn sample(&mut self, milliseconds: u64) -> Sample {
            let SubSampleSources { root, clock, system, .. } = self.at(milliseconds);
            system.sample(root, clock)
        }
    }

    fn times_ms(waits: &IntervalWaits) -> Vec<u64> {
        waits.waits.sub_samples.iter().map(|sub_sample| sub_sample.boottime_ns / 1_000_000).collect()
    }

    #[test]
    fn a_sample_has_the_sub_samples_since_the_last_one_and_a_closing_one() {
        let (mut machine, mut sub_sampler) = (Machine::new(), SubSampler::default());
        assert!([1000, 1100].into_iter().all(|ms| sub_sampler.sub_sample(&mut machine.at(ms))));
        let sample = machine.sample(1200);
        let waits = sub_sampler.finish(&mut machine.at(1200), &sample);
        assert_eq!(times_ms(&waits), [1000, 1100, 1200]);
        let cpu = waits.waits.sub_samples.iter().map(|sub_sample| sub_sample.cpu.is_some());
        assert_eq!(cpu.collect::<Vec<_>>(), [false, false, true], "no thread is blocked");
        assert_eq!(times_ms(&sub_sampler.finish(&mut machine.at(1300), &sample)), [1300]);
    }

    #[test]
    fn what_the_budget_forbids_is_counted_as_skipped() {
        let (mut machine, mut sub_sampler) = (Machine::new(), SubSampler::default());
        sub_sampler.set_cpu_share(0.0);
        let taken = (0..100_000).take_while(|_| sub_sampler.sub_sample(&mut machine.at(1000))).count();
        let sample = machine.sample(2000);
        let waits = sub_sampler.finish(&mut machine.at(2000), &sample).waits;
        assert_eq!((waits.skipped_sub_samples, waits.sub_samples.len()), (1, taken + 1));
        assert!(sub_sampler.take_cpu_ns() > 0 && sub_sampler.take_cpu_ns() == 0);
    }
}
