//! Rule tcp-retransmits: many TCP segments are sent again.

use std::net::IpAddr;

use crate::findings::finding::{Kind, Severity, Subject};
use crate::findings::formatting::{lossy_name, percent, significant_digits};
use crate::findings::network_scope::NetworkScope;
use crate::findings::nic_conditions::{MIN_LOCAL_DROP_SHARE, dropped_segments};
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{
    Candidate, RuleContext, evidence_chain, evidence_number, evidence_optional, evidence_text,
};
use crate::findings::rules::network::MIN_TOP_HOST_SHARE;
use crate::findings::wait_chain::link::ChainLink;
use crate::ids::ProcessId;
use crate::interval::network::NicSpan;
use crate::interval::network::remote_hosts::RemoteHostSpan;
use crate::sample::Name;
use crate::units::{PerSecond, Ratio};

pub const TCP_RETRANSMITS: Rule = Rule {
    kind: Kind::TcpRetransmits,
    title: "TCP retransmits",
    meaning: "Segments are lost, or late enough to be taken for lost, and retransmitted: connections slow down.",
    computed: "Retransmitted segments at least 1 % of those sent, or of those sent to other hosts without the segments \
               within this one, and at least 10 per second. The sentence says if the local \
               queueing discipline dropped them, and names the remote host with most of them and the process that \
               sends to it. Retransmits caused by a full local accept queue or \
               SYN queue are left out.",
    caveats: "Tail-loss probes and spurious retransmits count too.",
    next_steps: &[
        "ss -ti: the connections with retrans",
        "drops of the local qdisc and of the interface",
        "the path: mtr to the remote host",
    ],
    reference: "TCP and UDP",
    hysteresis: Hysteresis::TwoOfThree,
    evaluate: tcp_retransmits,
};

fn tcp_retransmits(context: &RuleContext) -> Vec<Candidate> {
    NetworkScope::all(context.interval).filter_map(|scope| candidate(context, &scope)).collect()
}

fn candidate(context: &RuleContext, scope: &NetworkScope) -> Option<Candidate> {
    let (thresholds, state) = (context.thresholds, context.state.network(scope.inode()));
    let protocols = scope.protocols;
    let (_, again) = (protocols.segments_out?, protocols.segments_retransmitted?);
    // OutSegs does not count segments that are sent again: there may be more of these, or nothing else.
    let share = protocols.retransmitted_share.map_or(1.0, |share| share.0);
    let elsewhere = match scope.namespace {
        None if share < thresholds.retransmitted_ratio => retransmits_to_other_hosts(context, scope),
        _ => None,
    };
    let to_whom = if elsewhere.is_some() { " to other hosts" } else { "" };
    let (share, again) = elsewhere.unwrap_or((share, again));
    let share = Ratio(share.min(1.0));
    let requests = protocols.syn_retransmits.map_or(0.0, |rate| rate.0).min(again.0);
    // Connection requests that a full local accept queue dropped are retransmitted too, and so is data of a client that
    // takes its connection for established; each is counted as an overflow. The rule listen-overflow reports them. Requests that a
    // full SYN queue dropped are among `requests` if they are this host's.
    let refused_here = state.had_listen_drop(context.interval.at().boottime_ns);
    let overflows = protocols.listen_overflows.or(protocols.listen_drops);
    let in_vain = overflows.map_or(0.0, |rate| rate.0).max(requests).min(again.0);
    // So are the SYN/ACKs of requests in a full SYN queue; the rule syn-queue-overflow reports them.
    let unfinished_here = state.had_full_syn_queue(context.interval.at().boottime_ns);
    let in_vain = if refused_here { in_vain } else { requests };
    let refused_here = refused_here || unfinished_here;
    let left = if refused_here && again.0 > 0.0 { (again.0 - in_vain) / again.0 } else { 1.0 };
    let (share, again) = (Ratio(share.0 * left), PerSecond(again.0 * left));
    if share.0 < thresholds.retransmitted_ratio || again.0 < thresholds.retransmitted_per_second {
        return None;
    }
    // Segments that are retransmitted now were dropped some round trips ago: an interface that was the cause lately needs a
    // smaller share.
    let least = |nic: &NicSpan| {
        if state.had_local_drop(&nic.id, context.interval.at().boottime_ns) {
            MIN_REPEATED_LOCAL_DROP_SHARE
        } else {
            MIN_LOCAL_DROP_SHARE
        }
    };
    let droppers = scope.nics.iter().filter_map(|nic| {
        let lost = dropped_segments(scope, nic).filter(|&lost| lost >= again.0 * least(nic))?;
        Some((lost, lossy_name(&nic.id.name), nic.qdisc.as_ref()?.dropped?.0))
    });
    let dropper = droppers.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, nic, dropped)| (nic, dropped));
    let cause = match &dropper {
        Some((nic, dropped)) => {
            format!(
                "; the local queueing discipline of {nic} drops {} packets per second: not the network",
                significant_digits(*dropped)
            )
        }
        None if !refused_here && requests >= again.0 * MIN_SYN_SHARE => {
            format!("; {} of them are connection requests (SYN) without an answer", significant_digits(requests))
        }
        None => String::new(),
    };
    let top = match scope.namespace {
        None => top_remote_host(context)
            .filter(|(host, rate)| *rate >= again.0 * MIN_TOP_HOST_SHARE && !(elsewhere.is_some() && host.local))
            .map(|(host, rate)| TopHost::new(host.address, host.worst_process.as_ref(), rate)),
        Some(_) => scope
            .top_retransmit_host()
            .filter(|(_, rate)| rate.0 >= again.0 * MIN_TOP_HOST_SHARE)
            .map(|(host, rate)| TopHost::new(host.address, host.process.as_ref(), rate.0)),
    };
    let most = top.as_ref().map(|top| top.describe(again.0)).unwrap_or_default();
    let sender = top.as_ref().and_then(|top| top.process).map(|(id, name)| {
        ChainLink::new(format!("{} ({})", lossy_name(name), id.pid), "the owner of the connections (sock_diag)")
    });
    let again_words = format!(
        "{} segments per second sent again{to_whom}{}, {}",
        significant_digits(again.0),
        scope.place(),
        percent(share.0)
    );
    let drops = dropper.as_ref().map(|(nic, dropped)| {
        let what = format!("queueing discipline of {nic}: {} packets per second dropped", significant_digits(*dropped));
        ChainLink::new(what, "tc (rtnetlink)")
    });
    let receiver =
        top.as_ref().map(|top| ChainLink::new(format!("most of them to {}", top.address), "tcp_info (total_retrans)"));
    let segments = [ChainLink::new(again_words, "/proc/net/snmp (RetransSegs), tcp_info")];
    let chain = evidence_chain(sender.into_iter().chain(segments).chain(receiver).chain(drops));
    Some(Candidate {
        severity: Severity::Warning,
        subject: scope.subject(Subject::Host),
        value: share.0,
        threshold: thresholds.retransmitted_ratio,
        unit: "ratio",
        sentence: format!(
            "TCP retransmits {} segments per second{}, {} of those sent{to_whom}{most}{cause}",
            significant_digits(again.0),
            scope.place(),
            percent(share.0)
        ),
        evidence: vec![
            evidence_number("retransmitted_ratio", share.0),
            evidence_number("retransmitted_per_second", again.0),
            evidence_optional("syn_retransmits_per_second", protocols.syn_retransmits.map(|_| requests)),
            evidence_optional("segments_out_per_second", protocols.segments_out.map(|rate| rate.0)),
            evidence_optional("local_qdisc_dropped_per_second", dropper.map(|(_, dropped)| dropped)),
            top.as_ref().map_or(evidence_optional("top_remote_host", None), |top| {
                evidence_text("top_remote_host", top.address.to_string().as_str())
            }),
            evidence_optional("top_remote_host_retransmitted_per_second", top.as_ref().map(|top| top.rate)),
            top.and_then(|top| top.process)
                .map_or(evidence_optional("top_process", None), |(_, name)| evidence_text("top_process", name.clone())),
        ]
        .into_iter()
        .chain(chain)
        .collect(),
        explained_share: 0.0,
    })
}

/// Retransmitted segments ÷ those sent, and retransmitted segments per second, both without those sent within this host. `None` where
/// that is not known.
fn retransmits_to_other_hosts(context: &RuleContext, scope: &NetworkScope) -> Option<(f64, PerSecond)> {
    let rows = &context.state.remote_hosts()?.rows;
    let sum = |local: bool, of: fn(&RemoteHostSpan) -> Option<PerSecond>| -> f64 {
        rows.iter().filter(|host| host.local == local).filter_map(of).map(|rate| rate.0).sum()
    };
    let (all, again) = (scope.protocols.segments_out?.0, scope.protocols.segments_retransmitted?.0);
    // Of the last scan: what was sent within this host then may be more than all that is sent now.
    let left = all - sum(true, |host| host.data_segments_out);
    let again = again - sum(true, |host| host.segments_retransmitted);
    let sent = left.max(sum(false, |host| host.data_segments_out));
    (left > 0.0 && again > 0.0 && sent > 0.0).then(|| (again / sent, PerSecond(again)))
}

/// The remote host to which most segments were retransmitted at the last scan of the connections, and how many per second.
/// `None` if none has `MIN_TOP_HOST_SHARE` of them.
fn top_remote_host<'a>(context: &RuleContext<'a>) -> Option<(&'a RemoteHostSpan, f64)> {
    let span = context.state.remote_hosts()?;
    let rates = || span.rows.iter().filter_map(|host| Some((host, host.segments_retransmitted?.0)));
    let all: f64 = rates().map(|(_, rate)| rate).sum();
    let top = rates().max_by(|a, b| a.1.total_cmp(&b.1))?;
    (top.1 > 0.0 && top.1 >= all * MIN_TOP_HOST_SHARE).then_some(top)
}

/// The remote host with most retransmits.
struct TopHost<'a> {
    address: IpAddr,
    process: Option<&'a (ProcessId, Name)>,
    /// Segments per second
    rate: f64,
}

impl<'a> TopHost<'a> {
    fn new(address: IpAddr, process: Option<&'a (ProcessId, Name)>, rate: f64) -> TopHost<'a> {
        TopHost { address, process, rate }
    }

    /// `; most from iperf3 (1234) to 192.0.2.7: 480 per second`. The rate is that of the last scan, which is left out if it is far above
    /// that of the interval (`all` per second).
    fn describe(&self, all: f64) -> String {
        let process = self.process.map_or_else(String::new, |(id, name)| format!(" from {} ({})", lossy_name(name), id.pid));
        let rate = match self.rate <= all * MAX_SCAN_DIFFERENCE {
            true => format!(": {} per second", significant_digits(self.rate.min(all))),
            false => String::new(),
        };
        format!("; most{process} to {}{rate}", self.address)
    }
}

/// Multiple of the retransmits of an interval up to which a scan, which takes place a little earlier or later, has seen the same ones.
const MAX_SCAN_DIFFERENCE: f64 = 1.25;

/// As `MIN_LOCAL_DROP_SHARE`, for an interface that was found to be the cause recently.
/// docs/metrics.md, "Fixed thresholds".
const MIN_REPEATED_LOCAL_DROP_SHARE: f64 = 0.25;

/// Share of the retransmitted segments from which unanswered connection requests are named as the cause.
const MIN_SYN_SHARE: f64 = 0.5;
