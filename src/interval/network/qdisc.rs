//! The root queueing discipline of an interface: whether it holds packets back, and whether it is a traffic shaper. docs/metrics.md,
//! "Network interfaces".

use crate::sample::Name;
use crate::sample::network::Qdisc;
use crate::units::{Counter, PerSecond};

/// The root queueing discipline.
#[derive(Clone, Debug, PartialEq)]
pub struct QdiscSpan {
    /// tbf, fq_codel, mq …
    pub kind: Name,
    pub backlog_bytes: u64,
    pub backlog_packets: u64,
    pub dropped: Option<PerSecond>,
    pub overlimits: Option<PerSecond>,
    /// Received packets that filters of the interface dropped (ingress, clsact); `None` without such
    pub ingress_dropped: Option<PerSecond>,
    /// Bytes per second to which the discipline limits the interface; `None` where it has no rate of its own
    pub rate: Option<PerSecond>,
}

/// Disciplines that count early drops and marks as overlimits, and have no rate.
const WITHOUT_RATE: [&[u8]; 4] = [b"red", b"gred", b"choke", b"sfb"];

impl QdiscSpan {
    pub(super) fn between(older: Option<&Qdisc>, newer: &Qdisc, seconds: f64) -> QdiscSpan {
        let same = older.filter(|older| older.kind == newer.kind);
        let rate = |field: fn(&Qdisc) -> Counter| PerSecond::between(Some(field(newer)), same.map(field), seconds);
        QdiscSpan {
            kind: newer.kind.clone(),
            backlog_bytes: newer.backlog_bytes,
            backlog_packets: newer.backlog_packets,
            dropped: rate(|qdisc| qdisc.dropped),
            overlimits: rate(|qdisc| qdisc.overlimits),
            ingress_dropped: PerSecond::between(newer.ingress_dropped, same.and_then(|qdisc| qdisc.ingress_dropped), seconds),
            rate: newer.rate_bytes_per_second.map(|rate| PerSecond(rate as f64)),
        }
    }

    /// Whether packets wait in it while it drops or delays packets.
    pub fn is_backlogged(&self) -> bool {
        self.backlog_packets > 0 && (grew(self.dropped) || grew(self.overlimits))
    }

    /// Whether it delays packets to keep a rate: it has one of its own, or its overlimits grow. In others packets wait for the link.
    pub fn is_shaper(&self) -> bool {
        self.rate.is_some() || grew(self.overlimits) && !WITHOUT_RATE.contains(&self.kind.as_bytes())
    }
}

fn grew(rate: Option<PerSecond>) -> bool {
    rate.is_some_and(|rate| rate.0 > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn qdisc(kind: &str, dropped: u64, overlimits: u64) -> Qdisc {
        Qdisc {
            kind: kind.into(),
            backlog_bytes: 3000,
            backlog_packets: 2,
            dropped: Counter(dropped),
            overlimits: Counter(overlimits),
            requeues: Counter(0),
            ingress_dropped: None,
            rate_bytes_per_second: None,
        }
    }

    #[test]
    fn early_drops_of_red_are_no_shaper() {
        let is_shaper = |newer: &Qdisc| {
            let span = QdiscSpan::between(Some(&qdisc(std::str::from_utf8(newer.kind.as_bytes()).unwrap(), 0, 0)), newer, 1.0);
            (span.is_backlogged(), span.is_shaper())
        };
        for kind in ["tbf", "htb", "hfsc"] {
            assert_eq!(is_shaper(&qdisc(kind, 0, 50)), (true, true), "{kind}");
        }
        for kind in ["red", "gred", "choke", "sfb"] {
            assert_eq!(is_shaper(&qdisc(kind, 50, 50)), (true, false), "{kind}");
        }
        assert_eq!(is_shaper(&qdisc("fq_codel", 50, 0)), (true, false), "packets wait for the link");
        assert_eq!(is_shaper(&qdisc("fq_codel", 0, 0)), (false, false));
        let netem = Qdisc { rate_bytes_per_second: Some(12_500_000), ..qdisc("netem", 5, 0) };
        assert_eq!(is_shaper(&netem), (true, true), "its own rate");
    }
}
