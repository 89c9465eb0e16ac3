//! The section of a finding's page with what the usual metrics show at the same time: those of vmstat, mpstat, iostat, nicstat and PSI
//! that one would look at for this kind of finding.

use super::page::Page;
use super::table::{PageTable, number};
use crate::findings::cross_checks::contradiction_sentence;
use crate::findings::{Finding, Kind, Subject};
use crate::interval::Interval;
use crate::interval::idle_blocked::CrossChecks;
use crate::safe;
use crate::units::format::short_bytes;
use crate::units::{Bytes, PerSecond, Ratio};
use crate::view::safe_text::SafeText;
use crate::view::text::{format_optional, format_percent};
use crate::view::theme::StyleRole;

/// A metric, by the name that its tool gives it, and its value.
type Check = (&'static str, SafeText);

/// The section, of a finding that is active.
pub fn section(interval: &Interval, finding: &Finding, page: &mut Page) {
    let checks = match (finding.kind, &finding.subject) {
        _ if finding.until.is_some() => return,
        // Its counters are those of another network namespace.
        (_, Subject::NetworkNamespace { .. }) => return,
        (kind, _) if is_about_cpus(kind) => of_cpus(interval),
        (kind, _) if is_about_memory(kind) => of_memory(interval),
        // Unix sockets have no packets.
        (_, Subject::Group { .. }) => of_blocked_tasks(interval),
        (kind, _) if is_about_network(kind) => of_network(interval, finding),
        (_, Subject::Disk { .. }) => of_disk(interval, finding),
        _ => of_blocked_tasks(interval),
    };
    if checks.is_empty() {
        return;
    }
    page.heading("CROSS-CHECKS");
    let cells = |heading: &str| u16::try_from(heading.len()).unwrap_or(0).max(6) + 2;
    if page.width >= checks.iter().map(|(heading, _)| cells(heading) + 1).sum::<u16>() + 2 {
        let mut table = PageTable::from_columns(checks.iter().map(|(heading, _)| number(heading, cells(heading))));
        table.push_cells(checks.into_iter().map(|(_, value)| value), StyleRole::Plain);
        page.table(table);
    } else {
        checks.into_iter().for_each(|(heading, value)| page.labelled(heading, value));
    }
    if finding.kind == Kind::IdleButBlocked {
        contradictions(interval, page);
    }
}

/// Where iowait or PSI mislead, and what this user cannot see.
fn contradictions(interval: &Interval, page: &mut Page) {
    if let Some(words) = contradiction_sentence(interval) {
        page.paragraph(2, &SafeText::sanitize(words), StyleRole::Plain);
    }
    if interval.idle_blocked.as_ref().is_some_and(|blocked| blocked.lower_bound) {
        page.paragraph(2, &"≥: waits of other users' tasks are hidden, only threads in D state count".into(), StyleRole::Plain);
    }
}

fn is_about_cpus(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::SaturatedCore
            | Kind::SaturatedThread
            | Kind::CpuSaturated
            | Kind::CpuThrottled
            | Kind::CpuStolen
            | Kind::HiddenCpu
            | Kind::ShortLivedProcesses
            | Kind::LoadNotCpu
    )
}

fn is_about_memory(kind: Kind) -> bool {
    matches!(kind, Kind::MemoryPressure | Kind::Swapping | Kind::OomKill)
}

fn is_about_network(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::NicSaturated
            | Kind::TcpRetransmits
            | Kind::ListenOverflow
            | Kind::SynQueueOverflow
            | Kind::UdpOverflow
            | Kind::NetworkLatency
            | Kind::SendBlocked
            | Kind::ConnectBlocked
            | Kind::LookupBlocked
            | Kind::AnswerBlocked
    )
}

fn of_blocked_tasks(interval: &Interval) -> Vec<Check> {
    let Some(blocked) = &interval.idle_blocked else { return Vec::new() };
    let CrossChecks { iowait, psi_io_some, d_threads, in_flight, run_queue_wait } = blocked.cross_checks;
    vec![
        ("iowait", percent(iowait)),
        ("PSI io some", percent(psi_io_some)),
        ("threads in D", count(Some(d_threads))),
        ("in flight", count(in_flight)),
        ("wait for a CPU", count(run_queue_wait)),
    ]
}

fn of_cpus(interval: &Interval) -> Vec<Check> {
    let cpu = interval.cpu.as_ref();
    let busiest = cpu.and_then(|cpu| cpu.cpus.iter().map(|core| core.busy()).max_by(f64::total_cmp));
    let load = interval.newer.load.as_ref().ok().map(|load| load.one);
    vec![
        ("all CPUs busy", percent(cpu.map(|cpu| cpu.busy()))),
        ("busiest CPU", percent(busiest)),
        ("steal", percent(cpu.map(|cpu| cpu.total.steal))),
        ("load 1 min", count(load)),
        ("wait for a CPU", count(interval.tasks.as_ref().and_then(|tasks| tasks.run_queue_wait))),
        ("PSI cpu some", share(interval.pressure.cpu_some)),
    ]
}

fn of_disk(interval: &Interval, finding: &Finding) -> Vec<Check> {
    let Subject::Disk { id, .. } = &finding.subject else { return Vec::new() };
    let span = interval.disk(*id);
    let blocked = interval.idle_blocked.as_ref().map(|blocked| blocked.cross_checks);
    vec![
        ("%util", share(span.and_then(|span| span.busy))),
        ("aqu-sz", count(span.and_then(|span| span.aqu_sz))),
        ("in flight", count(span.map(|span| f64::from(span.in_flight)))),
        ("iowait", percent(blocked.and_then(|seen| seen.iowait))),
        ("PSI io some", share(interval.pressure.io_some)),
        ("threads in D", count(blocked.map(|seen| seen.d_threads))),
    ]
}

fn of_network(interval: &Interval, finding: &Finding) -> Vec<Check> {
    let network = &interval.network;
    let protocols = &network.protocols;
    let dropped: f64 = network.softnet.iter().map(|cpu| cpu.dropped.0).sum();
    let mut checks = Vec::new();
    if let Subject::Nic(id) = &finding.subject {
        let span = network.nics.iter().find(|span| span.id == *id);
        checks.push(("%Util", share(span.and_then(|span| span.utilization))));
        checks.push(("Sat", rate(span.and_then(|span| span.saturation))));
        checks.push(("qdisc drops/s", rate(span.and_then(|span| span.qdisc.as_ref()).and_then(|qdisc| qdisc.dropped))));
    }
    checks.push(("%ReTX", share(protocols.retransmitted_share)));
    checks.push(("listen drops/s", rate(protocols.listen_drops)));
    checks.push(("SynReTX/s", rate(protocols.syn_retransmits)));
    checks.push(("softnet drops/s", count((!network.softnet.is_empty()).then_some(dropped))));
    checks
}

fn of_memory(interval: &Interval) -> Vec<Check> {
    let memory = interval.memory.as_ref();
    let bytes = |value: Option<Bytes>| value.map_or_else(|| "-".into(), |value| safe!("{}", short_bytes(value.0 as f64)));
    vec![
        ("host available", bytes(memory.and_then(|memory| memory.available))),
        ("host majflt/s", rate(memory.and_then(|memory| memory.major_faults))),
        ("host refaults/s", rate(memory.and_then(|memory| memory.refaults))),
        ("swap in B/s", rate(memory.and_then(|memory| memory.swapped_in))),
        ("swap out B/s", rate(memory.and_then(|memory| memory.swapped_out))),
        ("PSI mem some", share(interval.pressure.memory_some)),
    ]
}

fn share(value: Option<Ratio>) -> SafeText {
    percent(value.map(|share| share.0))
}

fn percent(share: Option<f64>) -> SafeText {
    share.map_or_else(|| "-".into(), |share| safe!("{}%", format_percent(Some(share), 5)))
}

fn rate(value: Option<PerSecond>) -> SafeText {
    count(value.map(|rate| rate.0))
}

fn count(value: Option<f64>) -> SafeText {
    safe!("{}", format_optional(value, 5))
}
