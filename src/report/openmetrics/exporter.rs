//! Makes the metric families of each evaluated interval, and keeps the totals that no counter of the kernel has.

use super::cgroups::CgroupMetrics;
use super::disks::DiskMetrics;
use super::family::{FamilyList, MetricFamily};
use super::findings::FindingMetrics;
use super::host::HostMetrics;
use super::names;
use super::network::NetworkMetrics;
use crate::findings::Evaluation;

/// How the last sample was taken.
#[derive(Clone, Copy, Debug, Default)]
pub struct SamplingStatus {
    /// `None`: unknown
    pub duration_seconds: Option<f64>,
    /// Samples that were due and not taken, since the start
    pub missed: u64,
}

/// The totals since the start, and the choice of subjects.
#[derive(Debug)]
pub struct Exporter {
    version: &'static str,
    host: HostMetrics,
    findings: FindingMetrics,
    disks: DiskMetrics,
    network: NetworkMetrics,
    cgroups: CgroupMetrics,
}

impl Exporter {
    /// Without totals. `version`: of the program.
    pub fn new(version: &'static str) -> Exporter {
        Exporter {
            version,
            host: HostMetrics::default(),
            findings: FindingMetrics::default(),
            disks: DiskMetrics::default(),
            network: NetworkMetrics::default(),
            cgroups: CgroupMetrics::default(),
        }
    }

    /// Adds the interval to the totals. Returns all metrics after it.
    pub fn metric_families(&mut self, evaluation: &Evaluation, status: SamplingStatus) -> Vec<MetricFamily> {
        let interval = &evaluation.interval;
        let mut families = FamilyList::default();
        families.add(&names::BUILD_INFO, vec![("version", self.version.to_owned())], 1.0);
        families.add(&names::SAMPLE_TIMESTAMP, vec![], interval.at().realtime_ns as f64 / 1e9);
        families.add(&names::SAMPLE_INTERVAL, vec![], interval.seconds);
        families.add(&names::SAMPLE_DURATION, vec![], status.duration_seconds);
        families.add(&names::MISSED_SAMPLES, vec![], status.missed as f64);
        families.add(&names::SELF_CPU, vec![], interval.newer.cost.process_cpu_ns.0 as f64 / 1e9);
        self.host.add(evaluation, &mut families);
        let left_out = [
            ("finding", self.findings.add(evaluation, &mut families)),
            ("disk", self.disks.add(evaluation, &mut families)),
            ("interface", self.network.add(evaluation, &mut families)),
            ("cgroup", self.cgroups.add(evaluation, &mut families)),
        ];
        for (subject, number) in left_out {
            families.add(&names::LEFT_OUT, vec![("subject", subject.to_owned())], number as f64);
        }
        families.into_families()
    }
}
