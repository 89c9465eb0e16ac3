//! The order of the hosts: the worst first. A host keeps its place among those in the same condition unless the difference is clear,
//! so that rows do not change places with every sample.

use super::host::{Condition, FleetHost};

/// By how much a host must be worse than the one before it, to change places with it.
const MARGIN_RATIO: f64 = 1.25;
const MARGIN_SHARE: f64 = 0.05;

/// The weight of a host that is as large as another one but for the CPU time that it uses.
const BUSY_WEIGHT: f64 = 0.1;

/// Sorts indices of hosts, which are in the order of the last time.
pub fn sort(order: &mut [usize], hosts: &[FleetHost], now_ns: u64) {
    let rank = |index: usize| hosts.get(index).map(|host| Rank::new(host, now_ns));
    let mut ranks: Vec<(usize, Option<Rank>)> = order.iter().map(|&index| (index, rank(index))).collect();
    // Insertion: a host passes those before it only where it is clearly worse.
    for end in 1..ranks.len() {
        let mut at = end;
        while at > 0
            && let (Some((_, Some(this))), Some((_, Some(before)))) = (ranks.get(at), ranks.get(at - 1))
            && this.is_clearly_worse_than(before)
        {
            ranks.swap(at, at - 1);
            at -= 1;
        }
    }
    for (place, (index, _)) in order.iter_mut().zip(ranks) {
        *place = index;
    }
}

struct Rank {
    condition: Condition,
    weight: f64,
}

impl Rank {
    fn new(host: &FleetHost, now_ns: u64) -> Rank {
        let weight = host.summary.as_ref().map_or(0.0, |summary| {
            let blocked = summary.blocked.unwrap_or(0.0).max(summary.explained_share);
            blocked + summary.busy.unwrap_or(0.0) * BUSY_WEIGHT
        });
        Rank { condition: host.condition(now_ns), weight }
    }

    fn is_clearly_worse_than(&self, other: &Rank) -> bool {
        match self.condition.cmp(&other.condition) {
            std::cmp::Ordering::Equal => self.weight > other.weight * MARGIN_RATIO + MARGIN_SHARE,
            order => order.is_lt(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::Severity;
    use crate::state::fleet::host::{Connection, HostSummary};

    fn host(worst: Option<Severity>, blocked: f64) -> FleetHost {
        let summary = HostSummary { worst, blocked: Some(blocked), ..HostSummary::default() };
        FleetHost { connection: Connection::Connected, summary: Some(summary), ..FleetHost::new("web") }
    }

    #[test]
    fn the_worst_is_first_and_small_differences_change_nothing() {
        let lost = Connection::Lost { why: String::new(), retry_at_ns: 0 };
        let mut hosts = vec![
            host(None, 0.0),
            FleetHost { connection: lost, ..host(None, 0.0) },
            host(Some(Severity::Warning), 0.40),
            host(Some(Severity::Warning), 0.45),
            host(Some(Severity::Critical), 0.1),
            FleetHost::new("new"),
        ];
        let mut order: Vec<usize> = (0..hosts.len()).collect();
        sort(&mut order, &hosts, 0);
        assert_eq!(order, [4, 2, 3, 1, 0, 5], "0.45 is not clearly worse than 0.40");
        hosts[3] = host(Some(Severity::Warning), 0.60);
        sort(&mut order, &hosts, 0);
        assert_eq!(order, [4, 3, 2, 1, 0, 5]);
        hosts[3] = host(Some(Severity::Warning), 0.45);
        sort(&mut order, &hosts, 0);
        assert_eq!(order, [4, 3, 2, 1, 0, 5], "it keeps its place");
    }
}
