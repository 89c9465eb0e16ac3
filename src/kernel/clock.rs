//! The clocks of a sample, and the time that a test sets in their place.

use std::time::Duration;

use nix::time::ClockId;

use super::scan::read_clock_ns;
use crate::sample::Instant;

/// Counters that are read later than this after the time of the sample have a time of their own.
const MIN_READ_DELAY_NS: u64 = 4_000_000;

/// The clocks of this machine; of a fixture tree, a fixed time.
#[derive(Debug, Default)]
pub struct SampleClock {
    /// CLOCK_BOOTTIME
    fixed_ns: Option<u64>,
}

impl SampleClock {
    /// For a fixture tree: the time as CLOCK_BOOTTIME, until the next call.
    pub fn set_fixed(&mut self, boottime_ns: u64) {
        self.fixed_ns = Some(boottime_ns);
    }

    pub fn boottime_ns(&self) -> u64 {
        self.fixed_ns.unwrap_or_else(|| clock_ns(ClockId::CLOCK_BOOTTIME))
    }

    pub fn now(&self) -> Instant {
        match self.fixed_ns {
            Some(boottime_ns) => Instant { boottime_ns, monotonic_ns: boottime_ns, ..now() },
            None => now(),
        }
    }

    /// How long after the time of the sample it is, µs; 0 if that is too little to matter, so that most samples of a recording have
    /// the same.
    pub fn read_delay_us(&self, sample: Instant) -> u32 {
        let delay_ns = self.boottime_ns().saturating_sub(sample.boottime_ns);
        if delay_ns < MIN_READ_DELAY_NS { 0 } else { u32::try_from(delay_ns / 1000).unwrap_or(u32::MAX) }
    }
}

/// The time by the three clocks of a sample.
pub fn now() -> Instant {
    Instant {
        boottime_ns: clock_ns(ClockId::CLOCK_BOOTTIME),
        monotonic_ns: clock_ns(ClockId::CLOCK_MONOTONIC),
        realtime_ns: i64::try_from(clock_ns(ClockId::CLOCK_REALTIME)).unwrap_or(i64::MAX),
    }
}

/// CPU time of this thread.
pub fn thread_cpu_ns() -> u64 {
    clock_ns(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// Measures the CPU time of this thread: on a busy machine elapsed time contains the time of others.
#[derive(Debug)]
pub struct CpuTimer {
    begin_ns: u64,
}

impl CpuTimer {
    pub fn start() -> CpuTimer {
        CpuTimer { begin_ns: thread_cpu_ns() }
    }

    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(thread_cpu_ns().saturating_sub(self.begin_ns))
    }
}

/// CPU time of this program.
pub fn process_cpu_ns() -> u64 {
    clock_ns(ClockId::CLOCK_PROCESS_CPUTIME_ID)
}

/// Reads a clock, which every kernel since 2.6.39 has; 0 where a sandbox forbids it.
pub fn clock_ns(clock: ClockId) -> u64 {
    read_clock_ns(clock).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_delay_that_matters_is_kept() {
        let mut clock = SampleClock::default();
        clock.set_fixed(1_000_000_000);
        let sample = clock.now();
        assert_eq!((sample.boottime_ns, sample.monotonic_ns), (1_000_000_000, 1_000_000_000));
        let delay = |clock: &mut SampleClock, ns: u64| {
            clock.set_fixed(1_000_000_000 + ns);
            clock.read_delay_us(sample)
        };
        assert_eq!([0, 3_999_999, 4_000_000, u64::MAX >> 1].map(|ns| delay(&mut clock, ns)), [0, 0, 4000, u32::MAX]);
    }
}
