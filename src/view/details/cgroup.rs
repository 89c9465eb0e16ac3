//! The page of a cgroup: its limits by controller, its pressure, where the time of its tasks goes, its members.

use super::device::{graph, subject_findings};
use super::page::Page;
use super::table::{PageTable, number, words};
use super::task::time_breakdown;
use crate::figures::cgroup::{self as figures};
use crate::figures::{Column, FigureInput};
use crate::findings::cgroups::contains;
use crate::findings::{Evaluation, Subject};
use crate::ids::{CgroupId, CgroupVersion};
use crate::interval::Interval;
use crate::interval::cgroup::{CgroupSpan, IoLimitKind, IoLimitUsage};
use crate::interval::cgroup_names::{CgroupName, NameKind};
use crate::interval::cgroup_tasks::owning_cgroup;
use crate::interval::task::{Microstates, ProcessSpan};
use crate::safe;
use crate::sample::cgroup::{Controller, StallAverages};
use crate::sample::task::Process;
use crate::state::history::{CgroupShare, GraphFigure};
use crate::state::{Item, State};
use crate::units::SmallSort;
use crate::units::{Ratio, format};
use crate::view::safe_text::SafeText;
use crate::view::task_states::throttled_threads;
use crate::view::text::{self, format_number, format_optional};
use crate::view::theme::StyleRole;
use crate::view::wait_location;

/// Members that are listed: those that use or want most CPU time first.
const MAX_MEMBERS: usize = 20;

/// The page of a cgroup with a limit, or of one that is a row of the tasks screen. A limit applies to all groups below; without one
/// the members are those of the row.
pub fn page(state: &State, evaluation: &Evaluation, id: &CgroupId, page: &mut Page) {
    let interval = &*evaluation.interval;
    let group = interval.cgroups.iter().find(|group| group.id == *id);
    let inside = members(interval, id, group.is_some());
    if group.is_none() && inside.is_empty() {
        return;
    }
    let name = CgroupName::from_path(&interval.newer, id.path.as_bytes());
    page.line(0, SafeText::sanitize(name.describe()), StyleRole::Bold);
    if name.kind != NameKind::Path {
        page.labelled("cgroup", SafeText::from_name(&id.path));
    }
    page.labelled("hierarchy", if id.version == CgroupVersion::V1 { "cgroup v1".into() } else { "cgroup v2".into() });
    subject_findings(evaluation, page, |subject| matches!(subject, Subject::Cgroup(other) if other == id));
    match group {
        Some(group) => {
            cpu(state, evaluation, group, page);
            memory(state, evaluation, group, page);
            io(state, evaluation, group, page);
            pressure(group, page);
        }
        None => page.labelled("limits", "none of its own for CPU, memory or I/O".into()),
    }
    list_members(interval, inside, page);
}

/// The figure as on the list.
fn figure(evaluation: &Evaluation, group: &CgroupSpan, figure: &Column<CgroupSpan>) -> String {
    format_optional(figure.displayed(&FigureInput::from(evaluation), group), 6)
}

fn percent_label(share: f64) -> String {
    format!("{}%", format_number(share * 100.0, 4))
}

fn cpu(state: &State, evaluation: &Evaluation, group: &CgroupSpan, page: &mut Page) {
    page.heading("CPU");
    let used = format_optional(group.used_cpus, 5);
    match group.quota_cpus {
        Some(quota) => page.labelled("used", safe!("{used} of its quota of {} CPUs", format_number(quota, 5))),
        None => page.labelled("used", safe!("{used} CPUs, no quota")),
    }
    if group.quota_cpus.is_some() {
        let periods = figure(evaluation, group, &figures::THROTTLED_PERIODS_RATIO);
        let throttled = figure(evaluation, group, &figures::THROTTLED_RATIO);
        page.labelled("throttled", safe!("{throttled}% of the time (its CPUs added up), in {periods}% of its periods"));
        let limit = evaluation.thresholds().throttled_ratio as f32;
        graph(state, page, Some(limit), percent_label, &GraphFigure::Cgroup(group.id.clone(), CgroupShare::Throttled));
    }
    if let Some(cpus) = &group.cpus {
        page.labelled("cpuset", safe!("CPUs {}", SafeText::from_name(cpus)));
    }
    if let Some(weight) = evaluation.interval.cgroup_weight(group.id.version, group.id.path.as_bytes()) {
        page.labelled("weight", safe!("{weight}"));
    }
}

fn memory(state: &State, evaluation: &Evaluation, group: &CgroupSpan, page: &mut Page) {
    if group.memory_used.is_none() && group.memory_limit.is_none() {
        return;
    }
    page.heading("MEMORY");
    let size = |bytes: Option<crate::units::Bytes>| bytes.map_or("-".to_owned(), |bytes| format::short_bytes(bytes.0 as f64));
    let share = figure(evaluation, group, &figures::MEMORY_USED_RATIO);
    page.labelled("used", safe!("{} of its limit of {}: {share}%", size(group.memory_used), size(group.memory_limit)));
    if group.memory_limit_hits.is_some() {
        let rate = |rate: Option<crate::units::PerSecond>| format_optional(rate.map(|rate| rate.0), 6);
        page.labelled("limit", safe!("met {}/s", rate(group.memory_limit_hits)));
        page.labelled("read again", safe!("{} refaults/s, {} major faults/s", rate(group.refaults), rate(group.major_faults)));
    }
    if let Some(kills) = group.oom_kills.filter(|&kills| kills > 0) {
        page.labelled("OOM kills", safe!("{kills} in this interval"));
    }
    let limit = evaluation.thresholds().memory_pressure_ratio as f32;
    graph(state, page, Some(limit), percent_label, &GraphFigure::Cgroup(group.id.clone(), CgroupShare::WaitsForMemory));
}

fn io(state: &State, evaluation: &Evaluation, group: &CgroupSpan, page: &mut Page) {
    let interval = &*evaluation.interval;
    let mut limits = interval.io_limits.iter().filter(|limit| limit.cgroup == group.id).peekable();
    if limits.peek().is_none() {
        return;
    }
    page.heading("I/O LIMITS");
    for limit in limits {
        let name = wait_location::disk_name(&interval.newer, limit.disk);
        for usage in &limit.usages {
            page.labelled(name.clone(), io_usage(usage));
        }
    }
    graph(state, page, None, percent_label, &GraphFigure::Cgroup(group.id.clone(), CgroupShare::WaitsForIo));
}

fn io_usage(usage: &IoLimitUsage) -> SafeText {
    let (what, in_bytes) = match usage.kind {
        IoLimitKind::Reads => ("reads/s", false),
        IoLimitKind::Writes => ("writes/s", false),
        IoLimitKind::ReadBytes => ("/s read", true),
        IoLimitKind::WriteBytes => ("/s written", true),
    };
    let amount = |rate: f64| if in_bytes { format::short_bytes(rate) } else { format!("{} ", format_number(rate, 6)) };
    let used = usage.used.map_or("- ".to_owned(), |used| amount(used.0));
    let share = text::format_percent(usage.utilization(), 5);
    safe!("{used}{what} of at most {}{what}: {share}%", amount(usage.limit.0))
}

/// Time in which its tasks waited. v2 has the kernel's averages too.
fn pressure(group: &CgroupSpan, page: &mut Page) {
    let (span, averages) = (&group.pressure, &group.pressure_averages);
    let lines: [(&'static str, Option<Ratio>, Option<StallAverages>); 5] = [
        ("cpu, some", span.cpu_some, averages.cpu_some),
        ("io, some", span.io_some, averages.io_some),
        ("io, full", span.io_full, averages.io_full),
        ("memory, some", span.memory_some, averages.memory_some),
        ("memory, full", span.memory_full, averages.memory_full),
    ];
    if lines.iter().all(|(_, share, averages)| share.is_none() && averages.is_none()) {
        return;
    }
    page.heading("PRESSURE");
    for (name, share, averages) in lines {
        if share.is_none() && averages.is_none() {
            continue;
        }
        let average = |value: u16| format_number(f64::from(value) / 100.0, 5);
        let averages = averages.map_or_else(String::new, |line| {
            format!("   10 s {}%   60 s {}%   300 s {}%", average(line.avg10), average(line.avg60), average(line.avg300))
        });
        page.labelled(name, safe!("{}%{averages}", text::format_percent(share.map(|share| share.0), 5)));
    }
}

/// A process, and the mean number of its threads that ran, waited for a CPU, or were blocked.
struct Member<'a> {
    process: &'a Process,
    span: ProcessSpan,
    cpu: f64,
    waits: f64,
    blocked: f64,
}

/// The processes in the group, with those in the groups below it if a limit `applies_below`, the most active first.
fn members<'a>(interval: &'a Interval, id: &CgroupId, applies_below: bool) -> Vec<Member<'a>> {
    let (Ok(tasks), Some(spans)) = (&interval.newer.tasks, &interval.tasks) else { return Vec::new() };
    let controllers = [Controller::Cpu, Controller::Memory, Controller::Io, Controller::Cpuset];
    let inside = |process: &Process| match applies_below {
        true => controllers.iter().any(|&controller| process.cgroup_for(controller).is_some_and(|own| contains(id, own))),
        false => owning_cgroup(process) == Some((id.version, id.path.as_bytes())),
    };
    let with_spans = spans.processes_with_spans(&tasks.processes).filter(|(process, _)| inside(process));
    let mut members: Vec<Member> = with_spans
        .map(|(process, span)| Member {
            process,
            span,
            cpu: span.cpu.map_or(0.0, |cpu| cpu.0),
            waits: span.run_queue_wait.map_or(0.0, |wait| wait.0),
            blocked: span.states.disk + span.states.lock + span.states.other_blocked,
        })
        .collect();
    members.small_sort_by(|a, b| (b.cpu + b.waits + b.blocked).total_cmp(&(a.cpu + a.waits + a.blocked)));
    members
}

fn list_members(interval: &Interval, members: Vec<Member>, page: &mut Page) {
    if !members.is_empty() {
        let mut states = Microstates::default();
        members.iter().for_each(|member| states.add(&member.span.states));
        let throttled = |member: &Member| throttled_threads(interval, member.process, &member.span.states, member.span.threads);
        let hidden = members.iter().any(|member| wait_location::waits_are_hidden(interval, member.process));
        time_breakdown(&states, members.iter().map(throttled).sum(), hidden, page);
    }
    page.heading(if members.is_empty() { "MEMBERS" } else { "MEMBERS (↓ selects, Enter opens)" });
    if members.is_empty() {
        page.line(2, "no task visible to this user".into(), StyleRole::Dim);
        return;
    }
    let mut table =
        PageTable::new([number("pid", 7), number("%CPU", 7), number("runq", 7), number("blocked", 8), words("command", 0)]);
    for Member { process, cpu, waits, blocked, .. } in members.iter().take(MAX_MEMBERS) {
        let cells = [
            safe!("{}", process.pid),
            safe!("{}", format_number(cpu * 100.0, 6)),
            safe!("{}", format_number(*waits, 5)),
            safe!("{}", format_number(*blocked, 5)),
            SafeText::from_name(&process.comm),
        ];
        table.push_item(cells, Item::Process(process.id()), StyleRole::Plain);
    }
    page.table(table);
    if members.len() > MAX_MEMBERS {
        page.line(2, safe!("{} more", members.len() - MAX_MEMBERS), StyleRole::Dim);
    }
}
