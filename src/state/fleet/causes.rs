//! The findings of all hosts, grouped by cause.

use super::FleetState;
use super::host::FleetHost;
use crate::findings::Severity;
use crate::units::SmallSort;

/// A cause and the hosts that have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetCause {
    pub words: String,
    /// The worst on any host
    pub severity: Severity,
    /// Indices in the list of hosts, ascending
    pub hosts: Vec<usize>,
}

/// The causes, the worst and the most frequent first. Hosts without a connection or a recent sample are left out.
pub fn causes(state: &FleetState) -> Vec<FleetCause> {
    grouped(state.hosts.iter().enumerate().filter(|(_, host)| host.condition(state.now_ns).severity().is_some()))
}

/// The causes of these hosts, each with its index.
pub fn grouped<'a>(hosts: impl Iterator<Item = (usize, &'a FleetHost)>) -> Vec<FleetCause> {
    let mut causes: Vec<FleetCause> = Vec::new();
    for (index, host) in hosts {
        for cause in host.summary.iter().flat_map(|summary| &summary.causes) {
            match causes.iter_mut().find(|known| known.words == cause.words) {
                Some(known) => {
                    known.severity = known.severity.max(cause.severity);
                    if known.hosts.last() != Some(&index) {
                        known.hosts.push(index);
                    }
                }
                None => causes.push(FleetCause { words: cause.words.clone(), severity: cause.severity, hosts: vec![index] }),
            }
        }
    }
    let order = |a: &FleetCause, b: &FleetCause| {
        b.severity.cmp(&a.severity).then(b.hosts.len().cmp(&a.hosts.len())).then_with(|| a.words.cmp(&b.words))
    };
    causes.small_sort_by(order);
    causes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::fleet::host::{HostCause, HostSummary};

    fn host(causes: &[(Severity, &str)]) -> FleetHost {
        let causes = causes.iter().map(|&(severity, words)| HostCause { severity, words: words.to_owned() }).collect();
        FleetHost { summary: Some(HostSummary { causes, ..HostSummary::default() }), ..FleetHost::new("web") }
    }

    #[test]
    fn hosts_with_one_cause_are_one_group() {
        let hosts = [
            host(&[(Severity::Warning, "disk"), (Severity::Critical, "fsync")]),
            host(&[(Severity::Warning, "fsync")]),
            host(&[(Severity::Warning, "disk"), (Severity::Warning, "disk")]),
            host(&[(Severity::Warning, "disk")]),
        ];
        let grouped = grouped(hosts.iter().enumerate());
        let expected = [("fsync", Severity::Critical, vec![0, 1]), ("disk", Severity::Warning, vec![0, 2, 3])];
        let found: Vec<_> = grouped.iter().map(|cause| (cause.words.as_str(), cause.severity, cause.hosts.clone())).collect();
        assert_eq!(found, expected);
    }
}
