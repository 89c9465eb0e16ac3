//! Samples of a synthetic machine, for the tests of this module: what the one builder makes, by index, as a recording has them.

use std::ops::Range;
use std::sync::Arc;

use super::checkpoints::IndexedSamples;
use crate::sample::{Host, Name, Sample};
use crate::synthetic::{self, cpu_times};

/// One sample per second of two CPUs; the first is busy for 13 s, idle for 13 s, and so on.
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
        let idle = index * 100;
        let cpus = [cpu_times(busy, 0, idle - busy, 0), cpu_times(0, 0, idle, 0)];
        Some(synthetic::sample_at(synthetic::instant((index + 1) as f64, 0)).cpus(cpus).shared())
    }

    fn host(&self, index: u64) -> Arc<Host> {
        Arc::clone(&self.hosts[usize::from(index >= self.second_boot)])
    }
}

pub fn host(boot_id: &str) -> Arc<Host> {
    Arc::new(Host { boot_id: Name::from(boot_id), ..synthetic::host() })
}
