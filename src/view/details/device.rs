//! The details pages of a disk, a network interface and a CPU.

use super::entry::{Plot, graph_width};
use super::page::Page;
use super::table::{PageTable, number, words};
use crate::baseline::RequestStatus;
use crate::baseline::request_latencies::MIN_TAIL_REQUESTS;
use crate::figures::cpu::{self, CpuRow};
use crate::figures::disk_operation::{self, OperationRow};
use crate::figures::{Column, FigureInput, disk, network};
use crate::findings::{Evaluation, Subject};
use crate::ids::{CpuId, DiskId, NicId};
use crate::interval::cpu_accounting::MIN_DIFFERENCE_CPUS;
use crate::interval::disk::{DiskSpan, Operation};
use crate::interval::network::NicSpan;
use crate::safe;
use crate::sample::Name;
use crate::sample::limits::{Limit, LimitKind};
use crate::state::history::GraphFigure;
use crate::state::layout::active_operations;
use crate::state::{Item, State};
use crate::units::SmallSort;
use crate::units::format;
use crate::units::{Millis, PerSecond};
use crate::view::disk::{latency_map, slow_multiple};
use crate::view::safe_text::SafeText;
use crate::view::text::{self, format_figure, format_number, format_optional};
use crate::view::theme::{StyleRole, severity_symbol};
use crate::view::wait_location;

/// The page of a disk.
pub fn disk(state: &State, evaluation: &Evaluation, id: DiskId, page: &mut Page) {
    let interval = &*evaluation.interval;
    let Some(span) = interval.disk(id) else { return };
    let name = wait_location::disk_name(&interval.newer, id);
    page.line(0, safe!("{name}   {}:{}", id.major, id.minor), StyleRole::Bold);
    subject_findings(evaluation, page, |subject| matches!(subject, Subject::Disk { id: other, .. } if *other == id));
    for (operation, _) in active_operations(span) {
        latency(state, evaluation, span, operation, page);
    }
    if let Some(why) = latency_map::obstacle(evaluation) {
        page.labelled("p50, p99", safe!("- {why}"));
    }
    super::baselines::baselines(evaluation, span, page);
    page.heading("NOW");
    let figure = |figure| format_figure(figure, &evaluation.into(), span, 5);
    page.labelled("queue", safe!("{} on average, {} in flight now", figure(&disk::QUEUE), figure(&disk::IN_FLIGHT)));
    page.labelled("busy", safe!("{}% of the time with requests; this is not saturation", figure(&disk::BUSY_RATIO)));
    facts(evaluation, span, page);
    waiters(evaluation, id, page);
}

/// One operation: rate, latency, baseline, and a graph with a line at the multiple of the baseline from which it is slow.
fn latency(state: &State, evaluation: &Evaluation, span: &DiskSpan, operation: Operation, page: &mut Page) {
    let Some(row) = OperationRow::new(span, operation) else { return };
    let input = FigureInput::from(evaluation);
    page.heading(match operation {
        Operation::Read => "READS",
        Operation::Write => "WRITES",
        Operation::Flush => "FLUSHES",
        Operation::Discard => "DISCARDS",
    });
    let size = disk_operation::SIZE_BYTES.displayed(&input, &row);
    let size = size.map_or_else(String::new, |kib| format!(", {} KB each", format_number(kib, 5)));
    let rate = format_figure(&disk_operation::OPERATIONS_PER_SECOND, &input, &row, 6);
    page.labelled("rate", safe!("{rate}/s{size}, {}% merged", format_figure(&disk_operation::MERGED_RATIO, &input, &row, 4)));
    let status = row.latency_status(&input);
    let latency = |figure: &Column<OperationRow>| text::optional_latency(figure.displayed(&input, &row).map(Millis));
    let time = latency(&disk_operation::AWAIT_SECONDS);
    match status {
        Some(status) => {
            let times = format_figure(&disk_operation::BASELINE_MULTIPLE, &input, &row, 5);
            let base = latency(&disk_operation::BASELINE_SECONDS);
            page.labelled("await", safe!("{time} = {times}× its baseline of {base}"));
            page.labelled(
                "baseline",
                match (status.provisional, status.learned_intervals) {
                    (true, 0) => "provisional: typical for this kind of device".into(),
                    (true, n) => safe!("provisional: {n} of 10 intervals learned"),
                    (false, n) => {
                        safe!("learned from {} with one request at a time", format::plural(n, "interval", "intervals"))
                    }
                },
            );
        }
        None => page.labelled("await", safe!("{time}")),
    }
    distribution(span, operation, page);
    if let Some(requests) = status.and_then(|status| status.requests) {
        page.labelled("their baseline", requests_against_baseline(&requests));
    }
    let baseline = status.map(|status| status.baseline.0 as f32);
    let slow = baseline.map(|base| base * slow_multiple(evaluation, status));
    graph(state, page, slow, latency_label, &GraphFigure::DiskAwait(span.id, operation));
}

/// The distribution of the latencies, and of the parts of it before and after the driver got the requests.
fn distribution(span: &DiskSpan, operation: Operation, page: &mut Page) {
    let Some(known) = span.latency(operation) else { return };
    let at = |share: f64| text::optional_latency(known.total.quantile(share));
    let longest = text::optional_latency(known.total.max());
    // As many as 80 columns have room for.
    page.labelled("requests", safe!("p50 {}, p99 {}, p99.9 {}, max {longest}", at(0.5), at(0.99), at(0.999)));
    if known.queue.requests() > 0 {
        page.labelled("in the queue", latency_map::quantiles(&known.queue));
        page.labelled("in the device", latency_map::quantiles(&known.device));
    }
    if let Some(share) = span.measured_share(operation).filter(|share| share.0 < 1.0) {
        page.labelled(
            "of them measured",
            safe!("{}%: a sample: the probe is on for part of the time", text::format_percent(Some(share.0), 4)),
        );
    }
    if operation != Operation::Flush {
        let share = text::format_percent(known.sequential_share().map(|share| share.0), 4);
        page.labelled("sequential", safe!("{share}% of the requests"));
    }
}

/// `p50 0.20 ms, p99 1.10 ms; now 1.00× and 9.80×`
fn requests_against_baseline(requests: &RequestStatus) -> SafeText {
    let baseline = &requests.baseline;
    let (p50, p99) = (format::latency(baseline.p50), format::latency(baseline.p99));
    match requests.compared() {
        Some(now) => {
            let (p50_multiple, p99_multiple) = (format_number(now.p50_multiple, 5), format_number(now.p99_multiple, 5));
            safe!("p50 {p50}, p99 {p99}; now {p50_multiple}× and {p99_multiple}× that")
        }
        None => safe!("p50 {p50}, p99 {p99}; now fewer than {MIN_TAIL_REQUESTS} requests a second"),
    }
}

/// The label of a latency in milliseconds.
pub fn latency_label(ms: f64) -> String {
    format::latency(Millis(ms))
}

/// A graph of a figure over time, with a line at the threshold.
pub fn graph(state: &State, page: &mut Page, threshold: Option<f32>, format: fn(f64) -> String, figure: &GraphFigure) {
    let columns = state.figure_columns(figure, graph_width(page.width));
    let values = columns.maxima(figure);
    if values.iter().flatten().count() < 2 {
        return;
    }
    let most = values.iter().flatten().copied().fold(0.0, f32::max);
    if most <= 0.0 {
        return;
    }
    let top = threshold.map_or(most, |threshold| most.max(threshold * 1.2));
    let label = |value: f32| safe!("{}", format(f64::from(value)));
    page.plot(
        state,
        &columns,
        Plot {
            values,
            threshold,
            max: top,
            max_label: label(top),
            threshold_label: threshold.map_or_else(SafeText::default, label),
            height: 4,
            role_above_threshold: StyleRole::Warning,
        },
    );
}

fn facts(evaluation: &Evaluation, span: &DiskSpan, page: &mut Page) {
    let sample = &evaluation.interval.newer;
    let Some(disk) = sample.disks.as_ref().ok().and_then(|disks| disks.get(span.index)) else { return };
    let facts = &disk.facts;
    page.heading("DEVICE");
    let mut pair = |label: &'static str, text: Option<SafeText>| {
        if let Some(text) = text {
            page.labelled(label, text);
        }
    };
    let named = |name: &Option<Name>| name.as_ref().map(SafeText::from_name);
    let kind = crate::view::disk::device_kind(disk);
    pair("kind", (!kind.is_empty()).then_some(kind));
    pair("model", named(&facts.model));
    pair("size", facts.size_bytes.map(|size| safe!("{}", format::short_bytes(size as f64))));
    pair("scheduler", named(&facts.scheduler));
    pair("backing file", named(&facts.backing_file));
    let joined = |words: Vec<String>| (!words.is_empty()).then(|| SafeText::sanitize(words.join(" ")));
    pair("mounted on", joined(facts.mount_points.iter().map(|mount| mount_point(evaluation, mount)).collect()));
    pair("backing devices", joined(facts.slaves.iter().map(|&id| wait_location::disk_name(sample, id).to_string()).collect()));
    let above = sample.disks.iter().flatten().filter(|other| other.facts.slaves.contains(&span.id));
    pair("used by", joined(above.map(|other| SafeText::from_name(&other.name).to_string()).collect()));
}

/// `/var`, or `/var (97.5% used)` of a file system that is nearly full.
fn mount_point(evaluation: &Evaluation, name: &Name) -> String {
    let is_of_mount = |limit: &Limit| limit.kind == LimitKind::FileSystemSpace && limit.mount_point.as_ref() == Some(name);
    let span = evaluation.interval.limits.iter().find(|span| is_of_mount(&span.limit));
    let used = span.map_or_else(String::new, |span| format!(" ({}% used)", text::format_percent(Some(span.used_share), 4)));
    format!("{}{used}", SafeText::from_name(name))
}

/// Threads that were blocked on the disk, and the processes with the most I/O on any disk.
fn waiters(evaluation: &Evaluation, id: DiskId, page: &mut Page) {
    let interval = &*evaluation.interval;
    let blocked: Vec<_> = interval.blocked_threads.iter().filter(|thread| thread.wait.disk == Some(id)).take(12).collect();
    if !blocked.is_empty() {
        page.heading("WAITING THREADS (↓ selects, Enter opens)");
        let mut table = PageTable::new([words("thread", 24), words("where", 0)]);
        for thread in blocked {
            let name = safe!("{}/{}", SafeText::from_name(&thread.wait.comm), thread.wait.task.tid);
            let place = wait_location::blocked_location(interval, thread, wait_location::Detail::Full);
            let function = wait_location::wait_channel(interval, thread.wait.task);
            let place = if function.is_empty() { place } else { safe!("{place} ({function})") };
            table.push_item([name, place], Item::Thread(thread.wait.task), StyleRole::Plain);
        }
        page.table(table);
    }
    let (Some(tasks), Ok(sample)) = (&interval.tasks, &interval.newer.tasks) else { return };
    let moved = |rate: Option<PerSecond>| rate.map_or(0.0, |rate| rate.0);
    let mut busiest: Vec<_> = (tasks.active_processes.iter())
        .map(|span| (moved(span.read_bytes) + moved(span.write_bytes), span))
        .filter(|(rate, _)| *rate > 0.0)
        .collect();
    busiest.small_sort_by(|a, b| b.0.total_cmp(&a.0));
    if busiest.is_empty() {
        return;
    }
    page.heading("TOP READERS AND WRITERS (all devices)");
    let mut table = PageTable::new([words("process", 24), number("read/s", 7), number("write/s", 7)]);
    for (_, span) in busiest.into_iter().take(8) {
        let name = sample.process(span.id.pid).map(|process| SafeText::from_name(&process.comm)).unwrap_or_default();
        let rate = |rate| safe!("{}", format::short_bytes(moved(rate)));
        let cells = [safe!("{name}/{}", span.id.pid), rate(span.read_bytes), rate(span.write_bytes)];
        table.push_item(cells, Item::Process(span.id), StyleRole::Plain);
    }
    page.table(table);
}

/// The active findings about this subject.
pub fn subject_findings(evaluation: &Evaluation, page: &mut Page, about: impl Fn(&Subject) -> bool) {
    for finding in evaluation.active.iter().filter(|finding| about(&finding.subject)) {
        page.paragraph(
            0,
            &safe!("{} {}", severity_symbol(finding.severity), finding.sentence),
            StyleRole::from(finding.severity),
        );
    }
}

/// The figures of one direction of an interface.
struct Direction {
    heading: &'static str,
    bytes: &'static Column<NicSpan>,
    packets: &'static Column<NicSpan>,
    size: &'static Column<NicSpan>,
    utilization: &'static Column<NicSpan>,
    errors: &'static Column<NicSpan>,
    drops: &'static Column<NicSpan>,
    total: &'static Column<NicSpan>,
    over_time: fn(NicId) -> GraphFigure,
}

static DIRECTIONS: [Direction; 2] = [
    Direction {
        heading: "IN",
        bytes: &network::RECEIVED_BYTES_PER_SECOND,
        packets: &network::RECEIVED_PACKETS_PER_SECOND,
        size: &network::RECEIVED_SIZE_BYTES,
        utilization: &network::RX_UTILIZATION_RATIO,
        errors: &network::RECEIVE_ERRORS_PER_SECOND,
        drops: &network::RECEIVE_DROPS_PER_SECOND,
        total: &network::RECEIVED_TOTAL_BYTES,
        over_time: GraphFigure::Received,
    },
    Direction {
        heading: "OUT",
        bytes: &network::SENT_BYTES_PER_SECOND,
        packets: &network::SENT_PACKETS_PER_SECOND,
        size: &network::SENT_SIZE_BYTES,
        utilization: &network::TX_UTILIZATION_RATIO,
        errors: &network::SEND_ERRORS_PER_SECOND,
        drops: &network::SEND_DROPS_PER_SECOND,
        total: &network::SENT_TOTAL_BYTES,
        over_time: GraphFigure::Sent,
    },
];

/// The page of a network interface.
pub fn nic(state: &State, evaluation: &Evaluation, id: &NicId, page: &mut Page) {
    let interval = &*evaluation.interval;
    let Some(span) = interval.network.nics.iter().find(|span| span.id == *id) else { return };
    page.line(0, safe!("{}   index {}", SafeText::from_name(&id.name), id.ifindex), StyleRole::Bold);
    subject_findings(evaluation, page, |subject| matches!(subject, Subject::Nic(other) if other == id));
    let input = FigureInput::from(evaluation);
    let figure = |figure: &Column<NicSpan>, cells| format_optional(figure.displayed(&input, span), cells);
    for direction in &DIRECTIONS {
        page.heading(direction.heading);
        let (packets, size) = (figure(direction.packets, 6), figure(direction.size, 5));
        page.labelled("rate", safe!("{} KB/s, {packets} packets/s of {size} bytes", figure(direction.bytes, 6)));
        let share = direction.utilization.number(&input, span).map(|_| safe!("{}%", figure(direction.utilization, 5)));
        page.labelled("of its speed", share.unwrap_or_else(|| "?".into()));
        let (errors, drops) = (figure(direction.errors, 6), figure(direction.drops, 6));
        page.labelled("lost", safe!("{errors} errors/s, {drops} dropped/s"));
        if let Some(bytes) = direction.total.number(&input, span) {
            page.labelled("in total", safe!("{} since it was created", format::bytes(bytes)));
        }
        let over_time = (direction.over_time)(id.clone());
        if let Some(peak) = state.graphs.peak(&over_time) {
            page.labelled("peak", safe!("{} KB/s", format_number(f64::from(peak), 6)));
        }
        graph(state, page, None, |kilobytes| format!("{} KB/s", format_number(kilobytes, 5)), &over_time);
    }
    page.heading("INTERFACE");
    let nic = interval.newer.nics.as_ref().ok().and_then(|nics| nics.get(span.index));
    if let Some(nic) = nic {
        match (span.link.speed_mbps, nic.facts.speed_mbps) {
            (Some(mbps), _) if span.link_is_configured => page.labelled("speed", safe!("{mbps} Mbit/s, as configured")),
            (_, Ok(mbps)) => page.labelled(
                "speed",
                safe!("{mbps} Mbit/s{}", if nic.facts.virtual_device { " (reported by a virtual device)" } else { "" }),
            ),
            (_, Err(why)) => {
                let name = SafeText::from_name(&id.name);
                page.labelled("speed", safe!("? {why}: set it with --nic-speed {name}=1000fd or in the configuration"));
            }
        }
        if let Some(qdisc) = &span.qdisc {
            page.labelled("qdisc", SafeText::from_name(&qdisc.kind));
            let backlog = format::short_bytes(qdisc.backlog_bytes as f64);
            page.labelled("backlog", safe!("{backlog} in {}", format::plural(qdisc.backlog_packets, "packet", "packets")));
            let drops = figure(&network::QDISC_DROPPED_PER_SECOND, 6);
            page.labelled("drops", safe!("{drops}/s, overlimits {}/s", figure(&network::QDISC_OVERLIMITS_PER_SECOND, 6)));
        }
    }
}

/// What a CPU's time is spent on, as on its page.
static CPU_SHARES: [(&str, &Column<CpuRow>); 9] = [
    ("user", &cpu::USER_RATIO),
    ("nice", &cpu::NICE_RATIO),
    ("system", &cpu::SYSTEM_RATIO),
    ("irq", &cpu::IRQ_RATIO),
    ("softirq", &cpu::SOFTIRQ_RATIO),
    ("steal", &cpu::STEAL_RATIO),
    ("idle", &cpu::IDLE_RATIO),
    ("iowait", &cpu::IOWAIT_RATIO),
    ("unaccounted", &cpu::UNACCOUNTED_RATIO),
];

/// The page of a CPU.
pub fn cpu(state: &State, evaluation: &Evaluation, id: CpuId, page: &mut Page) {
    let interval = &*evaluation.interval;
    let Some(span) = interval.cpu.as_ref().and_then(|span| span.cpus.iter().find(|cpu| cpu.id == id)) else { return };
    let place = interval.host.topology.iter().find(|place| place.cpu == id);
    let place =
        place.map_or_else(String::new, |place| format!("   node {} package {} core {}", place.node, place.package, place.core));
    page.line(0, safe!("cpu{}{place}", id.0), StyleRole::Bold);
    subject_findings(evaluation, page, |subject| *subject == Subject::Cpu(id));
    let row = CpuRow::core(span);
    page.heading("NOW");
    for (word, figure) in &CPU_SHARES {
        page.labelled(*word, safe!("{:>5}%", format_figure(figure, &evaluation.into(), &row, 5)));
    }
    // Errors of the tick accounting, from the run time of the threads.
    for (word, share) in [("counted twice", span.shares.excess), ("hidden from tick", span.hidden)] {
        if share >= MIN_DIFFERENCE_CPUS {
            page.labelled(word, safe!("{:>5}%", format_number(share * 100.0, 5)));
        }
    }
    page.heading("BUSY OVER TIME");
    graph(state, page, None, |share| format_number(share * 100.0, 5), &GraphFigure::CpuBusy(id));
    page.heading("THREADS LAST SEEN ON IT (↓ selects, Enter opens)");
    let Some(tasks) = &interval.tasks else { return };
    let mut table = PageTable::new([number("%CPU", 6), words("thread", 0)]);
    let mut threads: Vec<_> = tasks.threads.iter().filter(|thread| thread.processor == id && thread.cpu.is_some()).collect();
    threads.small_sort_by(|a, b| b.cpu.partial_cmp(&a.cpu).unwrap_or(std::cmp::Ordering::Equal));
    for thread in threads.into_iter().take(12) {
        let used = text::format_percent(thread.cpu.map(|cpu| cpu.0), 5);
        let name = wait_location::process_thread_and_tid(&interval.newer, thread.id);
        table.push_item([safe!("{used}"), name], Item::Thread(thread.id), StyleRole::Plain);
    }
    page.table(table);
}
