//! Samples of a machine that was made up, for the tests beside.

#![allow(clippy::unwrap_used, reason = "only tests use it")]

use std::ops::Range;
use std::sync::Arc;

use super::checkpoints::IndexedSamples;
use crate::ids::CpuId;
use crate::sample::cpu::{Cpu, CpuTimes};
use crate::sample::{Host, Instant, Name, Sample};
use crate::units::Counter;

/// Two CPUs, of which the first is busy now and then; a second a sample.
pub struct Made {
    pub numbers: Range<u64>,
    pub damaged: Option<u64>,
    /// From which sample on it is another run of the machine
    anew: u64,
    hosts: [Arc<Host>; 2],
}

impl Made {
    pub fn new(damaged: Option<u64>, anew: u64) -> Made {
        Made { numbers: 0..150, damaged, anew, hosts: [host("first"), host("second")] }
    }
}

impl IndexedSamples for Made {
    fn indices(&self) -> Range<u64> {
        self.numbers.clone()
    }

    fn sample(&mut self, number: u64) -> Option<Arc<Sample>> {
        if Some(number) == self.damaged {
            return None;
        }
        let busy = (1..=number).filter(|second| (second / 13) % 2 == 1).count() as u64 * 100;
        let times =
            |busy: u64| CpuTimes { user_ticks: Counter(busy), idle_ticks: Counter(number * 100 - busy), ..CpuTimes::default() };
        let total = CpuTimes { idle_ticks: Counter(number * 200 - busy), ..times(busy) };
        let ns = (number + 1) * 1_000_000_000;
        let mut sample = Sample::empty(Instant { boottime_ns: ns, monotonic_ns: ns, realtime_ns: i64::try_from(ns).unwrap() });
        let cpus = vec![(CpuId(0), times(busy)), (CpuId(1), times(0))];
        sample.cpu = Ok(Cpu { total, cpus, ..Cpu::default() });
        Some(Arc::new(sample))
    }

    fn host(&self, number: u64) -> Arc<Host> {
        Arc::clone(&self.hosts[usize::from(number >= self.anew)])
    }
}

pub fn host(boot_id: &str) -> Arc<Host> {
    let root = tempfile::tempdir().unwrap();
    let host = crate::kernel::host::read(&crate::kernel::Root::at_directory(root.path().to_owned()));
    Arc::new(Host { boot_id: Name::from(boot_id), ..host })
}
