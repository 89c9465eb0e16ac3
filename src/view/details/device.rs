//! The details pages of a disk, a network interface and a CPU.

use super::entry::{Plot, graph_width};
use super::page::Page;
use super::table::{PageTable, number, words};
use crate::baseline::RequestStatus;
use crate::baseline::request_latencies::MIN_TAIL_REQUESTS;
use crate::findings::{Evaluation, Subject};
use crate::ids::{CpuId, DiskId, NicId};
use crate::interval::disk::{DiskSpan, OpSpan, Operation};
use crate::safe;
use crate::sample::Name;
use crate::state::history::GraphFigure;
use crate::state::layout::active_operations;
use crate::state::{Item, State};
use crate::units::SmallSort;
use crate::units::format;
use crate::units::{Millis, PerSecond};
use crate::view::disk::{latency_map, latency_status, slow_multiple};
use crate::view::safe_text::SafeText;
use crate::view::text::{self, format_number, format_optional};
use crate::view::theme::{StyleRole, severity_symbol};
use crate::view::wait_location;

/// The page of a disk.
pub fn disk(state: &State, evaluation: &Evaluation, id: DiskId, page: &mut Page) {
    let interval = &*evaluation.interval;
    let Some(span) = interval.disk(id) else { return };
    let name = wait_location::disk_name(&interval.newer, id);
    page.line(0, safe!("{name}   {}:{}", id.major, id.minor), StyleRole::Bold);
    subject_findings(evaluation, page, |subject| matches!(subject, Subject::Disk { id: other, .. } if *other == id));
    for (operation, op) in active_operations(span) {
        latency(state, evaluation, span, operation, op, page);
    }
    if let Some(why) = latency_map::obstacle(evaluation) {
        page.labelled("p50, p99", safe!("- {why}"));
    }
    super::baselines::baselines(evaluation, span, page);
    page.heading("NOW");
    page.labelled("queue", safe!("{} on average, {} in flight now", format_optional(span.aqu_sz, 5), span.in_flight));
    page.labelled(
        "busy",
        safe!("{}% of the time with requests; this is not saturation", text::format_percent(span.busy.map(|b| b.0), 5)),
    );
    facts(evaluation, span, page);
    waiters(evaluation, id, page);
}

/// One operation: rate, latency, baseline, and a graph with a line at the multiple of the baseline from which it is slow.
fn latency(state: &State, evaluation: &Evaluation, span: &DiskSpan, operation: Operation, op: &OpSpan, page: &mut Page) {
    page.heading(match operation {
        Operation::Read => "READS",
        Operation::Write => "WRITES",
        Operation::Flush => "FLUSHES",
        Operation::Discard => "DISCARDS",
    });
    let size = op.request_size_kib.map_or_else(String::new, |kib| format!(", {} KB each", format_number(kib, 5)));
    page.labelled(
        "rate",
        safe!("{}/s{size}, {}% merged", format_number(op.rate.0, 6), text::format_percent(op.merged_share().map(|s| s.0), 4)),
    );
    let status = latency_status(evaluation, span.id, operation);
    let time = text::optional_latency(op.r#await);
    match status {
        Some(status) => {
            let times = format_optional(status.multiple, 5);
            let base = format::latency(status.baseline);
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
    pair("mounted on", joined(facts.mount_points.iter().map(|mount| SafeText::from_name(mount).to_string()).collect()));
    pair("backing devices", joined(facts.slaves.iter().map(|&id| wait_location::disk_name(sample, id).to_string()).collect()));
    let above = sample.disks.iter().flatten().filter(|other| other.facts.slaves.contains(&span.id));
    pair("used by", joined(above.map(|other| SafeText::from_name(&other.name).to_string()).collect()));
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

/// The page of a network interface.
pub fn nic(state: &State, evaluation: &Evaluation, id: &NicId, page: &mut Page) {
    let interval = &*evaluation.interval;
    let Some(span) = interval.network.nics.iter().find(|span| span.id == *id) else { return };
    page.line(0, safe!("{}   index {}", SafeText::from_name(&id.name), id.ifindex), StyleRole::Bold);
    subject_findings(evaluation, page, |subject| matches!(subject, Subject::Nic(other) if other == id));
    let rate = |rate: Option<PerSecond>| format_optional(rate.map(|rate| rate.0), 6);
    for (words, side) in [("IN", &span.rx), ("OUT", &span.tx)] {
        page.heading(words);
        let packets = format_number(side.packets.0, 6);
        let average = format_number(side.average_bytes, 5);
        page.labelled("rate", safe!("{} KB/s, {packets} packets/s of {average} bytes", format_number(side.kilobytes.0, 6)));
        let share = side.utilization.map(|share| safe!("{}%", format_number(share.percent(), 5)));
        page.labelled("of its speed", share.unwrap_or_else(|| "?".into()));
        page.labelled("lost", safe!("{} errors/s, {} dropped/s", rate(side.errors), rate(side.dropped)));
        let figure = if words == "IN" { GraphFigure::Received(id.clone()) } else { GraphFigure::Sent(id.clone()) };
        if let Some(nic) = interval.nic(span) {
            let bytes = if words == "IN" { nic.rx.bytes } else { nic.tx.bytes };
            page.labelled("in total", safe!("{} since it was created", format::bytes(bytes.0 as f64)));
        }
        if let Some(peak) = state.graphs.peak(&figure) {
            page.labelled("peak", safe!("{} KB/s", format_number(f64::from(peak), 6)));
        }
        graph(state, page, None, |kilobytes| format!("{} KB/s", format_number(kilobytes, 5)), &figure);
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
        if let (Some(qdisc), Some(now)) = (&nic.qdisc, &span.qdisc) {
            page.labelled("qdisc", SafeText::from_name(&qdisc.kind));
            page.labelled(
                "backlog",
                safe!(
                    "{} in {}",
                    format::short_bytes(now.backlog_bytes as f64),
                    format::plural(now.backlog_packets, "packet", "packets")
                ),
            );
            page.labelled("drops", safe!("{}/s, overlimits {}/s", rate(now.dropped), rate(now.overlimits)));
        }
    }
}

/// The page of a CPU.
pub fn cpu(state: &State, evaluation: &Evaluation, id: CpuId, page: &mut Page) {
    let interval = &*evaluation.interval;
    let Some(span) = interval.cpu.as_ref().and_then(|span| span.cpus.iter().find(|cpu| cpu.id == id)) else { return };
    let place = interval.host.topology.iter().find(|place| place.cpu == id);
    let place =
        place.map_or_else(String::new, |place| format!("   node {} package {} core {}", place.node, place.package, place.core));
    page.line(0, safe!("cpu{}{place}", id.0), StyleRole::Bold);
    subject_findings(evaluation, page, |subject| *subject == Subject::Cpu(id));
    let shares = &span.shares;
    page.heading("NOW");
    for (word, share) in [
        ("user", shares.user),
        ("nice", shares.nice),
        ("system", shares.system),
        ("irq", shares.irq),
        ("softirq", shares.softirq),
        ("steal", shares.steal),
        ("idle", shares.idle),
        ("iowait", shares.iowait),
        ("unaccounted", shares.unaccounted),
    ] {
        page.labelled(word, safe!("{:>5}%", format_number(share * 100.0, 5)));
    }
    // Errors of the tick accounting, from the run time of the threads.
    for (word, share) in [("counted twice", shares.excess), ("hidden from tick", span.hidden)] {
        if share >= 0.05 {
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
