//! What is sampled, how often and for how long.

use std::time::{Duration, Instant};

use super::MAX_PROBE_CPU_SHARE;
use super::schedule::Schedule;
use crate::app::operations_command::LatestOperations;
use crate::app::program::exit::{Exit, Failure};
use crate::app::program::privileges::bpf_remedy;
use crate::app::program::stdio::print_stderr;
use crate::cli::ProbeMode;
use crate::ids::escape_unprintable;
use crate::kernel::probe::loader_process;
use crate::kernel::{Root, Sampler};

#[derive(Clone)]
pub struct SamplingPlan {
    root: Root,
    pub(super) interval: Duration,
    span: Option<Duration>,
    begin: Instant,
    probes: ProbeMode,
    min_samples: u32,
    pub(super) is_throttled: bool,
    reads_context_switches: bool,
    pub(super) operations: Option<LatestOperations>,
}

impl SamplingPlan {
    /// With a span, the last sample is taken at its end.
    pub fn new(root: Root, interval: Duration, span: Option<Duration>, probes: ProbeMode) -> SamplingPlan {
        SamplingPlan {
            root,
            interval,
            span,
            begin: Instant::now(),
            probes,
            min_samples: 0,
            is_throttled: true,
            reads_context_switches: false,
            operations: None,
        }
    }

    /// The last sample comes later where fewer would have been taken.
    pub fn with_min_samples(self, min_samples: u32) -> SamplingPlan {
        SamplingPlan { min_samples, ..self }
    }

    /// Each sample contains the last total of `record --ops`.
    pub fn with_operations(self, operations: Option<LatestOperations>) -> SamplingPlan {
        SamplingPlan { operations, ..self }
    }

    /// Without an early second sample and without a throttle: every interval but the last has the requested length.
    pub fn unthrottled(self) -> SamplingPlan {
        SamplingPlan { is_throttled: false, ..self }
    }

    /// Reads the context switches of each thread: one more file for each thread that ran.
    pub fn with_context_switches(self, reads_context_switches: bool) -> SamplingPlan {
        SamplingPlan { reads_context_switches, ..self }
    }

    /// The due times of a thread that begins now. Before any sample the whole span is left; after that, what has not passed of it.
    pub(super) fn schedule(&self, interval: Duration, last_sample_at: Option<Instant>) -> Schedule {
        let passed = if last_sample_at.is_some() { self.begin.elapsed() } else { Duration::ZERO };
        let schedule = Schedule::new(interval, self.span.map(|span| span.saturating_sub(passed)));
        let schedule = schedule.with_min_samples(self.min_samples);
        if self.is_throttled { schedule } else { schedule.without_early_sample() }
    }

    /// /proc/PID/comm, which is read without waiting for the process; escaped.
    pub(super) fn process_name(&self, pid: u32) -> Option<String> {
        let comm = self.root.read_once(format!("proc/{pid}/comm")).ok()?;
        Some(escape_unprintable(&String::from_utf8_lossy(comm.trim_ascii_end())).into_owned())
    }

    /// Opens the files that are read repeatedly, and enables the eBPF programs that `probes` allows.
    pub(super) fn new_sampler(&self) -> Result<Sampler, Failure> {
        let mut sampler = Sampler::new(self.root.clone()).map_err(|error| {
            Failure::new(Exit::NoProc, "cannot sample this machine", error, "mount it: mount -t proc proc /proc")
        })?;
        if self.reads_context_switches {
            sampler.enable_context_switches();
        }
        let program = loader_process::own_executable;
        let max_cpu_share = (self.probes == ProbeMode::Auto).then_some(MAX_PROBE_CPU_SHARE);
        if self.probes != ProbeMode::Off {
            sampler.enable_kernel_lock_owners(program(), max_cpu_share);
            sampler.enable_lock_wakers(program(), max_cpu_share);
        }
        match self.probes {
            ProbeMode::Off => {}
            ProbeMode::Auto => sampler.enable_block_latencies(program(), max_cpu_share),
            ProbeMode::On => sampler.enable_block_latencies(program(), None),
        }
        Ok(sampler)
    }

    /// For `--probes on`: prints why they are not measured.
    pub(super) fn wait_for_block_latencies(&self, sampler: &mut Sampler) {
        if self.probes == ProbeMode::On
            && let Err(why) = sampler.wait_for_block_latencies()
        {
            let remedy = bpf_remedy(true);
            print_stderr(&format!("latencies of single disk requests are not measured: {why}: {remedy}"));
        }
    }
}
