//! Samples of a synthetic machine, for the tests of this module.

#![allow(clippy::unwrap_used, reason = "only tests use it")]

use std::ops::Range;
use std::sync::Arc;

use super::checkpoints::IndexedSamples;
use crate::ids::CpuId;
use crate::sample::cpu::{Cpu, CpuTimes};
use crate::sample::{Host, Instant, Name, Sample};
use crate::units::Counter;

/// Two CPUs, of which the first is busy now and then; a second a sample.
pub struct SyntheticSamples {
    pub indices: Range<u64>,
    pub damaged: Option<u64>,
    /// The first sample of the second boot
    second_boot: u64,
    hosts: [Arc<Host>; 2],
}

impl SyntheticSamples {
    pub fn new(damaged: Option<u64>, second_boot: u64) -> SyntheticSamples {
        SyntheticSamples { indices: 0..150, damaged, second_boot, hosts: [host("first"), host("second")] }
    }
}

impl IndexedSamples for SyntheticSamples {
    fn indices(&self) -> Range<u64> {
        self.indices.clone()
    }

    fn sample(&mut self, index: u64) -> Option<Arc<Sample>> {
        if Some(index) == self.damaged {
            return None;
        }
        let busy = (1..=index).filter(|second| (second / 13) % 2 == 1).count() as u64 * 100;
        let times =
            |busy: u64| CpuTimes { user_ticks: Counter(busy), idle_ticks: Counter(index * 100 - busy), ..CpuTimes::default() };
        let total = CpuTimes { idle_ticks: Counter(index * 200 - busy), ..times(busy) };
        let ns = (index + 1) * 1_000_000_000;
        let mut sample = Sample::empty(Instant { boottime_ns: ns, monotonic_ns: ns, realtime_ns: i64::try_from(ns).unwrap() });
        let cpus = vec![(CpuId(0), times(busy)), (CpuId(1), times(0))];
        sample.cpu = Ok(Cpu { total, cpus, ..Cpu::default() });
        Some(Arc::new(sample))
    }

    fn host(&self, index: u64) -> Arc<Host> {
        Arc::clone(&self.hosts[usize::from(index >= self.second_boot)])
    }
}

pub fn host(boot_id: &str) -> Arc<Host> {
    let root = tempfile::tempdir().unwrap();
    let host = crate::kernel::host::read(&crate::kernel::Root::at_directory(root.path().to_owned()));
    Arc::new(Host { boot_id: Name::from(boot_id), ..host })
}
