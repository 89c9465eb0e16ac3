//! The section of a finding's page with what the usual metrics show at the same time: those of vmstat, mpstat, iostat, nicstat and PSI
//! that one would look at for this kind of finding.

use super::page::Page;
use super::table::{PageTable, number};
use crate::figures::cpu::{self, CpuRow};
use crate::figures::pressure::{PSI_CPU_SOME_RATIO, PSI_IO_SOME_RATIO, PSI_MEMORY_SOME_RATIO};
use crate::figures::{Column, FigureInput, Unit, disk, load, memory, network as nic, protocols};
use crate::findings::cross_checks::contradiction_sentence;
use crate::findings::{Evaluation, Finding, Kind, Subject};
use crate::interval::Interval;
use crate::interval::idle_blocked::CrossChecks;
use crate::safe;
use crate::units::format::short_bytes;
use crate::view::safe_text::SafeText;
use crate::view::text::{format_optional, format_percent};
use crate::view::theme::StyleRole;

/// A metric, by the name that its tool gives it, and its value.
type Check = (&'static str, SafeText);

/// The section, of a finding that is active.
pub fn section(evaluation: &Evaluation, finding: &Finding, page: &mut Page) {
    let (interval, input) = (&*evaluation.interval, &FigureInput::from(evaluation));
    let checks = match (finding.kind, &finding.subject) {
        _ if finding.until.is_some() => return,
        // Its counters are those of another network namespace.
        (_, Subject::NetworkNamespace { .. }) => return,
        (kind, _) if is_about_cpus(kind) => of_cpus(input),
        (kind, _) if is_about_memory(kind) => of_memory(input),
        // Unix sockets have no packets.
        (_, Subject::Group { .. }) => of_blocked_tasks(interval),
        (kind, _) if is_about_network(kind) => of_network(input, finding),
        (_, Subject::Disk { .. }) => of_disk(input, finding),
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

fn of_cpus(input: &FigureInput) -> Vec<Check> {
    let interval = input.interval;
    let cpu = interval.cpu.as_ref();
    let all = cpu.map(CpuRow::all_cpus);
    let busiest = cpu.and_then(|cpu| cpu.cpus.iter().max_by(|a, b| a.busy().total_cmp(&b.busy()))).map(CpuRow::core);
    vec![
        ("all CPUs busy", figure(input, &cpu::BUSY_RATIO, all.as_ref())),
        ("busiest CPU", figure(input, &cpu::BUSY_RATIO, busiest.as_ref())),
        ("steal", figure(input, &cpu::STEAL_RATIO, all.as_ref())),
        ("load 1 min", figure(input, &load::LOAD1, Some(interval))),
        ("wait for a CPU", count(interval.tasks.as_ref().and_then(|tasks| tasks.run_queue_wait))),
        ("PSI cpu some", figure(input, &PSI_CPU_SOME_RATIO, Some(&interval.pressure))),
    ]
}

fn of_disk(input: &FigureInput, finding: &Finding) -> Vec<Check> {
    let Subject::Disk { id, .. } = &finding.subject else { return Vec::new() };
    let interval = input.interval;
    let span = interval.disk(*id);
    let blocked = interval.idle_blocked.as_ref().map(|blocked| blocked.cross_checks);
    vec![
        ("%util", figure(input, &disk::BUSY_RATIO, span)),
        ("aqu-sz", figure(input, &disk::QUEUE, span)),
        ("in flight", figure(input, &disk::IN_FLIGHT, span)),
        ("iowait", percent(blocked.and_then(|seen| seen.iowait))),
        ("PSI io some", figure(input, &PSI_IO_SOME_RATIO, Some(&interval.pressure))),
        ("threads in D", count(blocked.map(|seen| seen.d_threads))),
    ]
}

fn of_network(input: &FigureInput, finding: &Finding) -> Vec<Check> {
    let network = &input.interval.network;
    let dropped: f64 = network.softnet.iter().map(|cpu| cpu.dropped.0).sum();
    let mut checks = Vec::new();
    if let Subject::Nic(id) = &finding.subject {
        let span = network.nics.iter().find(|span| span.id == *id);
        checks.push(("%Util", figure(input, &nic::UTILIZATION_RATIO, span)));
        checks.push(("Sat", figure(input, &nic::SATURATION_PER_SECOND, span)));
        checks.push(("qdisc drops/s", figure(input, &nic::QDISC_DROPPED_PER_SECOND, span)));
    }
    let protocols = Some(&network.protocols);
    checks.push(("%ReTX", figure(input, &protocols::RETRANSMITTED_RATIO, protocols)));
    checks.push(("listen drops/s", figure(input, &protocols::LISTEN_DROPS_PER_SECOND, protocols)));
    checks.push(("SynReTX/s", figure(input, &protocols::SYN_RETRANSMITS_PER_SECOND, protocols)));
    checks.push(("softnet drops/s", count((!network.softnet.is_empty()).then_some(dropped))));
    checks
}

fn of_memory(input: &FigureInput) -> Vec<Check> {
    let span = input.interval.memory.as_ref();
    vec![
        ("host available", figure(input, &memory::AVAILABLE_BYTES, span)),
        ("host majflt/s", figure(input, &memory::MAJOR_FAULTS_PER_SECOND, span)),
        ("host refaults/s", figure(input, &memory::REFAULTS_PER_SECOND, span)),
        ("swap in B/s", figure(input, &memory::SWAP_IN_BYTES_PER_SECOND, span)),
        ("swap out B/s", figure(input, &memory::SWAP_OUT_BYTES_PER_SECOND, span)),
        ("PSI mem some", figure(input, &PSI_MEMORY_SOME_RATIO, Some(&input.interval.pressure))),
    ]
}

/// A figure of the catalogue, in the unit of its key; "-" where it is unknown.
fn figure<T>(input: &FigureInput, figure: &Column<T>, row: Option<&T>) -> SafeText {
    let value = row.and_then(|row| figure.number(input, row));
    match figure.definition.unit {
        Unit::Percent => percent(value),
        Unit::Kilobytes => value.map_or_else(|| "-".into(), |bytes| safe!("{}", short_bytes(bytes))),
        _ => count(value),
    }
}

fn percent(share: Option<f64>) -> SafeText {
    share.map_or_else(|| "-".into(), |share| safe!("{}%", format_percent(Some(share), 5)))
}

fn count(value: Option<f64>) -> SafeText {
    safe!("{}", format_optional(value, 5))
}
