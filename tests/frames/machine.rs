//! Synthetic machines: every counter grows by the same amount per second, so that each value on a frame follows from the
//! fields here. `synthetic` builds the rows of their samples.

#[path = "machine/devices.rs"]
mod devices;
#[path = "machine/tasks.rs"]
mod tasks;

use std::collections::BTreeMap;
use std::sync::Arc;

use stalltop::baseline::{Baselines, LatencyStatus, SizeClass};
use stalltop::findings::{Evaluation, Evidence, Finding, Kind, Severity, Subject, Value};
use stalltop::ids::{CpuId, DiskId};
use stalltop::interval::Interval;
use stalltop::interval::disk::Operation;
use stalltop::sample::block_latencies::BlockLatencies;
use stalltop::sample::cpu::{Cpu, CpuTimes, Load};
use stalltop::sample::host::{CpuTopology, Privilege};
use stalltop::sample::memory::Memory;
use stalltop::sample::network::{Tcp, Udp};
use stalltop::sample::{Host, Instant, Name, Sample, SamplingCost};
use stalltop::units::{Counter, Millis};

use super::synthetic;

pub use devices::{Device, Link};
pub use tasks::{RUNNER, SLEEPER, Thread, Worker};

/// The activity of a machine per second.
#[derive(Clone, PartialEq)]
pub struct Machine {
    pub hostname: &'static [u8],
    /// user, system, softirq, steal, iowait in ticks; the rest of 100 is idle
    pub cpus: Vec<[u64; 5]>,
    pub load: [f64; 3],
    pub workers: Vec<Worker>,
    pub devices: Vec<Device>,
    pub links: Vec<Link>,
    pub network: crate::network::Network,
    /// Threads of the first worker: blocked on storage, waiting for a lock
    pub stuck: (u16, u16),
    pub privileged: bool,
    pub findings: Vec<Finding>,
    pub latency_statuses: Vec<LatencyStatus>,
}

/// 2026-03-01 12:00:00 UTC
const BEGIN_S: u64 = 1_772_366_400;
const UPTIME_S: u64 = 1_051_860;

pub fn instant(second: u64) -> Instant {
    synthetic::instant((UPTIME_S + second) as f64, BEGIN_S - UPTIME_S)
}

impl Machine {
    pub fn host(&self) -> Host {
        Host {
            hostname: Name::from(self.hostname),
            kernel: Name::from("6.18.44"),
            machine: Name::from("x86_64"),
            boot_id: Name::from("0f6c"),
            boot_time_s: Some(BEGIN_S - UPTIME_S),
            topology: (0..u32::try_from(self.cpus.len()).unwrap())
                .map(|cpu| CpuTopology { cpu: CpuId(cpu), node: cpu / 64, package: cpu / 64, core: cpu })
                .collect(),
            privilege: Privilege {
                effective_uid: if self.privileged { 0 } else { 1000 },
                has_cap_sys_ptrace: self.privileged,
                delay_accounting: Ok(true),
                hidepid: false,
            },
            ..synthetic::host()
        }
    }

    /// `count` intervals of one second; the findings are active from interval `from`.
    pub fn intervals(&self, count: u64, from: u64) -> Vec<Evaluation> {
        let host = Arc::new(self.host());
        let samples: Vec<Arc<Sample>> = (0..=count).map(|second| Arc::new(self.sample(second))).collect();
        let mut peers = None;
        samples
            .windows(2)
            .zip(0_u64..)
            .map(|(pair, at)| {
                let interval = Arc::new(Interval::between(&host, &pair[0], &pair[1]).unwrap());
                let mut findings = if at >= from { self.findings.clone() } else { Vec::new() };
                findings.iter_mut().for_each(|finding| finding.since = instant(from));
                // Not every interval has a socket scan.
                peers = interval.network.remote_hosts.clone().or(peers.take());
                Evaluation {
                    rule_config: Arc::default(),
                    remote_hosts: peers.clone(),
                    interval,
                    active: findings.into(),
                    ended: Vec::new(),
                    latency_statuses: self.latency_statuses.clone().into(),
                    baselines: Baselines::default(),
                    observations: Arc::default(),
                }
            })
            .collect()
    }

    fn sample(&self, k: u64) -> Sample {
        let at = instant(k);
        let mut sample =
            synthetic::sample_at(at).processes(self.workers.iter().map(|worker| worker.at(k, at, self.privileged))).build();
        sample.cpu = Ok(self.cpu(k as f64));
        sample.load = Ok(Load { one: self.load[0], five: self.load[1], fifteen: self.load[2], runnable: 1, entities: 900 });
        sample.memory = Ok(Memory {
            total_kb: Some(32_768_000),
            available_kb: Some(12_900_000),
            swap_total_kb: Some(2_097_152),
            swap_free_kb: Some(2_097_152),
            swapped_in_pages: Some(Counter(0)),
            swapped_out_pages: Some(Counter(0)),
            major_faults: Some(Counter(3 * k)),
            ..Memory::default()
        });
        sample.disks = Ok(self.devices.iter().map(|device| device.at(k)).collect());
        sample.nics = Ok(self.links.iter().zip(1..).map(|(link, index)| link.at(index, k)).collect());
        sample.protocols.tcp = Ok(Tcp {
            segments_in: Counter(902 * k),
            segments_out: Counter(1204 * k),
            established: 47,
            passive_opens: Counter(12 * k),
            active_opens: Counter(4 * k),
            ..Tcp::default()
        });
        sample.protocols.udp = Ok(Udp { datagrams_in: Counter(3 * k), ..Udp::default() });
        self.network.fill(&mut sample, k);
        if let Ok(tasks) = &mut sample.tasks {
            let threads = tasks.processes.iter().map(|process| process.threads.len() as u32).sum();
            tasks.users = Arc::new(BTreeMap::from([(26, Name::from("postgres")), (0, Name::from("root"))]));
            tasks.hidden.wait_channels = if self.privileged { 0 } else { threads };
        }
        sample.waits = self.waits(k);
        sample.stacks = self.stacks();
        if self.devices.iter().any(|device| !device.read_latencies.is_empty()) {
            let buckets = self.devices.iter().flat_map(|device| device.latencies_at(k)).collect();
            sample.block_latencies = Ok(BlockLatencies { since_boottime_ns: instant(0).boottime_ns, buckets });
        }
        sample.user_stacks = Ok(self.user_stacks());
        sample.cost = SamplingCost {
            process_cpu_ns: Counter(4_200_000 * k),
            scan_cpu_ns: 2_310_000,
            sub_samples_cpu_ns: 900_000,
            start_delay_ns: 0,
            tasks_read: 12,
            skipped_samples: 0,
        };
        sample
    }

    fn cpu(&self, seconds: f64) -> Cpu {
        let times = |rates: [u64; 5]| {
            let ticks = |rate: u64| Counter((rate as f64 * seconds).round() as u64);
            CpuTimes {
                user_ticks: ticks(rates[0]),
                system_ticks: ticks(rates[1]),
                softirq_ticks: ticks(rates[2]),
                steal_ticks: Some(ticks(rates[3])),
                iowait_ticks: ticks(rates[4]),
                idle_ticks: ticks(100 - rates.iter().sum::<u64>()),
                ..CpuTimes::default()
            }
        };
        Cpu {
            context_switches: Some(Counter((5120.0 * seconds) as u64)),
            forks: Some(Counter((2.0 * seconds) as u64)),
            ..synthetic::cpu(self.cpus.iter().map(|&rates| times(rates)))
        }
    }
}

/// A finding with this sentence.
pub fn finding(kind: Kind, severity: Severity, subject: Subject, sentence: &str) -> Finding {
    Finding {
        since: instant(0),
        // Shown by the interval of the frame, whichever that is.
        figures_at: instant(1_000_000),
        value: 0.46,
        threshold: 0.25,
        sentence: sentence.to_owned(),
        evidence: vec![
            Evidence { name: "iowait_ratio", value: Value::Number(0.05) },
            Evidence { name: "queue", value: Value::Number(66.0) },
            Evidence { name: "device", value: Value::Unknown },
        ],
        next: vec!["the device's await against its baseline".to_owned()],
        explained_share: 0.46,
        ..synthetic::finding(kind, severity, subject)
    }
}

pub fn latency_status(disk: DiskId, operation: Operation, baseline: f64, multiple: f64, provisional: bool) -> LatencyStatus {
    LatencyStatus {
        disk,
        operation,
        baseline: Millis(baseline),
        provisional,
        from_light_load: !provisional,
        multiple: Some(multiple),
        learned_intervals: if provisional { 3 } else { 412 },
        size: SizeClass::Small,
        window_load: None,
        baseline_load: None,
        requests: None,
    }
}
