//! The readers of the whole machine: files of /proc and /sys that each sample reads, whatever tasks there are.

use super::clock::SampleClock;
use super::probe::block_latencies::BlockLatencyReader;
use super::root::Root;
use super::scan::TaskScanner;
use super::scan::new_pids::ForkCounters;
use super::{cgroup, cpu, cpu_frequency, disk, memory, network, pressure};
use crate::sample::Sample;
use crate::sample::task::Tasks;

/// A reader per subject, with what it last read.
#[derive(Debug, Default)]
pub struct SystemReaders {
    pub cpu: cpu::CpuReader,
    cpu_frequency: cpu_frequency::FrequencyReader,
    memory: memory::MemoryReader,
    pressure: pressure::PressureReader,
    pub disk: disk::DiskReader,
    pub block_latencies: BlockLatencyReader,
    pub network: network::NetworkReader,
    pub cgroup: cgroup::CgroupReader,
}

impl SystemReaders {
    /// Reads all but what needs the task scan; the sample's time is that of the start.
    pub fn sample(&mut self, root: &Root, clock: &SampleClock) -> Sample {
        let mut sample = Sample::empty(clock.now());
        sample.cpu = self.cpu.sample(root);
        if let Ok(cpu) = &sample.cpu {
            let now = (std::time::Instant::now(), sample.at.boottime_ns);
            sample.cpu_frequencies = self.cpu_frequency.sample(root, &cpu.cpus, now);
        }
        sample.load = self.cpu.load(root);
        sample.pressure = self.pressure.sample(root);
        sample.memory = self.memory.sample(root);
        sample.memory_nodes = memory::nodes_under_pressure(root, &sample.pressure);
        sample.read_delays.disks_us = clock.read_delay_us(sample.at);
        sample.disks = self.disk.sample(root);
        sample.block_latencies = self.block_latencies.read(sample.disks.as_deref().unwrap_or_default());
        sample.read_delays.nics_us = clock.read_delay_us(sample.at);
        sample.nics = self.network.sample(root);
        sample.protocols = self.network.protocols(root);
        sample.read_delays.cgroups_us = clock.read_delay_us(sample.at);
        self.cgroup.set_host_oom_kills(sample.memory.as_ref().ok().and_then(|memory| memory.oom_kills));
        (sample.cgroups, sample.io_limits) = self.cgroup.sample(root);
        sample
    }

    /// The counters by which the scan sees whether there are new processes.
    pub fn fork_counters(&self, sample: &Sample) -> ForkCounters {
        ForkCounters { forks: sample.cpu.as_ref().ok().and_then(|cpu| cpu.forks), last_pid: self.cpu.last_pid() }
    }

    /// What depends on the tasks of the same sample: weights of cgroups with runnable tasks, and other network namespaces.
    pub fn sample_of_tasks(
        &mut self,
        (root, clock): (&Root, &SampleClock),
        scanner: &mut TaskScanner,
        (tasks, machine): (&Tasks, &[u8]),
        sample: &mut Sample,
    ) {
        // Also of one task that fills a CPU beside idle ones: that it may wait decides the severity.
        if is_another_task_runnable(sample) {
            sample.cgroup_weights = self.cgroup.weights(root, tasks);
        }
        sample.read_delays.network_namespaces_us = clock.read_delay_us(sample.at);
        sample.network_namespaces = self.network.namespaces(root, scanner.network_namespaces(), tasks);
        sample.protocols.waiting_connections = self.network.waiting_connections(root, scanner.files(), machine);
    }
}

/// Whether a task other than the one that takes the sample is runnable.
fn is_another_task_runnable(sample: &Sample) -> bool {
    sample.cpu.as_ref().is_ok_and(|cpu| cpu.running.is_some_and(|running| running > 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc_tree::ProcTree;
    use crate::sample::Absent;

    #[test]
    fn weights_are_read_while_another_task_is_runnable_on_a_host_with_idle_cpus() {
        let is_read = |running: u32| {
            let text = format!(
                "cpu  4 0 2 90 0 0 0 0 0 0\ncpu0 4 0 2 90 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0 0 0\nprocs_running {running}\n"
            );
            let (tree, mut clock) = (ProcTree::with([("proc/stat", text)]), SampleClock::default());
            clock.set_fixed(5_000_000_000);
            is_another_task_runnable(&SystemReaders::default().sample(&tree.root(), &clock))
        };
        assert_eq!([1, 2, 3].map(is_read), [false, true, true]);
    }

    #[test]
    fn what_is_missing_does_not_keep_the_rest_from_being_read() {
        let stat = "cpu  4 0 2 90 0 0 0 0 0 0\ncpu0 4 0 2 90 0 0 0 0 0 0\nprocesses 77\nprocs_running 9\n";
        let tree = ProcTree::with([("proc/stat", stat), ("proc/loadavg", "0.50 0.25 0.10 9/120 4711\n")]);
        let mut clock = SampleClock::default();
        clock.set_fixed(5_000_000_000);
        let mut readers = SystemReaders::default();
        let sample = readers.sample(&tree.root(), &clock);
        assert_eq!((sample.at.boottime_ns, sample.read_delays.disks_us), (5_000_000_000, 0));
        assert_eq!(sample.memory.as_ref().err(), Some(&Absent::NoSuchFile));
        let counters = readers.fork_counters(&sample);
        assert_eq!((counters.forks.map(|forks| forks.0), counters.last_pid), (Some(77), Some(4711)));
    }
}
