//! Configuration of the rules: thresholds, configured baselines and link speeds, ignored devices. Constant for a run.

use super::{Subject, Thresholds};
use crate::baseline::{BaselineKey, Baselines, DeviceIdentity, SizeClass};
use crate::interval::disk::Operation;
use crate::interval::network::LinkOverrides;
use crate::sample::disk::Disk;
use crate::units::Millis;

/// The configuration of the rules.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleConfig {
    pub thresholds: Thresholds,
    pub ignored: IgnoredDevices,
    /// An input of each interval, not of the rules
    pub link_overrides: LinkOverrides,
    pub baseline_overrides: Vec<BaselineOverride>,
}

/// A baseline from the configuration file.
#[derive(Clone, Debug, PartialEq)]
pub struct BaselineOverride {
    /// Kernel name, or the identity that `stalltop baseline show` prints
    pub device: String,
    pub operation: Operation,
    /// `None` stands for all sizes
    pub size: Option<SizeClass>,
    pub latency: Millis,
}

/// Disks, interfaces and file systems without findings; their figures are still shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IgnoredDevices {
    /// Kernel names; a `*` at the end stands for any rest
    pub disks: Vec<String>,
    pub nics: Vec<String>,
    /// Mount points
    pub file_systems: Vec<String>,
}

impl RuleConfig {
    /// Sets the configured baselines of these disks.
    pub fn apply_baseline_overrides(&self, disks: &[Disk], baselines: &mut Baselines) {
        for configured in &self.baseline_overrides {
            let named = |disk: &&Disk| {
                disk.name.as_bytes() == configured.device.as_bytes() || *DeviceIdentity::from_disk(disk).0 == *configured.device
            };
            let Some(device) = disks.iter().find(named).map(DeviceIdentity::from_disk) else { continue };
            let sizes = match (configured.size, configured.operation) {
                // A flush has no size.
                (_, Operation::Flush) => &[SizeClass::Small][..],
                (None, _) => &SizeClass::ALL,
                (Some(SizeClass::Small), _) => &[SizeClass::Small],
                (Some(SizeClass::Medium), _) => &[SizeClass::Medium],
                (Some(SizeClass::Large), _) => &[SizeClass::Large],
            };
            for &size in sizes {
                let key = BaselineKey { device: device.clone(), operation: configured.operation, size };
                // Clones share their entries until one of them changes.
                if baselines.get(&key).and_then(|learned| learned.latency()) != Some(configured.latency) {
                    baselines.set(key, configured.latency);
                }
            }
        }
    }
}

impl IgnoredDevices {
    /// Whether findings about this subject are suppressed.
    pub fn contains(&self, subject: &Subject) -> bool {
        let among = |patterns: &[String], name: &[u8]| patterns.iter().any(|pattern| matches_pattern(pattern, name));
        match subject {
            Subject::Disk { name, .. } => among(&self.disks, name.as_bytes()),
            Subject::Limit(_) => subject.mount_point().is_some_and(|mount_point| among(&self.file_systems, mount_point)),
            Subject::Nic(id) | Subject::NetworkNamespace { nic: Some(id), .. } => among(&self.nics, id.name.as_bytes()),
            _ => false,
        }
    }
}

fn matches_pattern(pattern: &str, name: &[u8]) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning.as_bytes()),
        None => name == pattern.as_bytes(),
    }
}
