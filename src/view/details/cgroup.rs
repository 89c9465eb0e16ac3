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
use crate::sample::cgroup::Controller;
use crate::sample::task::Process;
use crate::state::history::{CgroupShare, GraphFigure};
use crate::state::{Item, State};
use crate::units::SmallSort;
use crate::units::format;
use crate::view::safe_text::SafeText;
use crate::view::task_states::throttled_threads;
use crate::view::text::{self, format_figure, format_number, format_optional};
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
            pressure(evaluation, group, page);
        }
        None => page.labelled("limits", "none of its own for CPU, memory or I/O".into()),
    }
    list_members(interval, inside, page);
}

fn value(evaluation: &Evaluation, group: &CgroupSpan, figure: &Column<CgroupSpan>) -> Option<f64> {
    figure.number(&FigureInput::from(evaluation), group)
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
    let used = format_optional(value(evaluation, group, &figures::CPU_RATIO), 5);
    let quota = value(evaluation, group, &figures::QUOTA_CPUS);
    match quota {
        Some(quota) => page.labelled("used", safe!("{used} of its quota of {} CPUs", format_number(quota, 5))),
        None => page.labelled("used", safe!("{used} CPUs, no quota")),
    }
    if quota.is_some() {
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
    let value = |figure| value(evaluation, group, figure);
    let sizes = [&figures::MEMORY_USED_BYTES, &figures::MEMORY_LIMIT_BYTES].map(value);
    if sizes == [None, None] {
        return;
    }
    page.heading("MEMORY");
    let [used, limit] = sizes.map(|bytes| bytes.map_or("-".to_owned(), format::short_bytes));
    let share = figure(evaluation, group, &figures::MEMORY_USED_RATIO);
    page.labelled("used", safe!("{used} of its limit of {limit}: {share}%"));
    if value(&figures::LIMIT_HITS_PER_SECOND).is_some() {
        let rate = |rate| figure(evaluation, group, rate);
        page.labelled("limit", safe!("met {}/s", rate(&figures::LIMIT_HITS_PER_SECOND)));
        let (again, major) = (rate(&figures::REFAULTS_PER_SECOND), rate(&figures::MAJOR_FAULTS_PER_SECOND));
        page.labelled("read again", safe!("{again} refaults/s, {major} major faults/s"));
    }
    if let Some(kills) = value(&figures::OOM_KILLS).filter(|&kills| kills > 0.0) {
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

/// The lines of its pressure: of the interval, and the averages of 10, 60 and 300 s.
static PRESSURE: [(&str, [&Column<CgroupSpan>; 4]); 5] = [
    (
        "cpu, some",
        [
            &figures::PSI_CPU_SOME_RATIO,
            &figures::PSI_CPU_SOME_10S_RATIO,
            &figures::PSI_CPU_SOME_60S_RATIO,
            &figures::PSI_CPU_SOME_300S_RATIO,
        ],
    ),
    (
        "io, some",
        [
            &figures::PSI_IO_SOME_RATIO,
            &figures::PSI_IO_SOME_10S_RATIO,
            &figures::PSI_IO_SOME_60S_RATIO,
            &figures::PSI_IO_SOME_300S_RATIO,
        ],
    ),
    (
        "io, full",
        [
            &figures::PSI_IO_FULL_RATIO,
            &figures::PSI_IO_FULL_10S_RATIO,
            &figures::PSI_IO_FULL_60S_RATIO,
            &figures::PSI_IO_FULL_300S_RATIO,
        ],
    ),
    (
        "memory, some",
        [
            &figures::PSI_MEMORY_SOME_RATIO,
            &figures::PSI_MEMORY_SOME_10S_RATIO,
            &figures::PSI_MEMORY_SOME_60S_RATIO,
            &figures::PSI_MEMORY_SOME_300S_RATIO,
        ],
    ),
    (
        "memory, full",
        [
            &figures::PSI_MEMORY_FULL_RATIO,
            &figures::PSI_MEMORY_FULL_10S_RATIO,
            &figures::PSI_MEMORY_FULL_60S_RATIO,
            &figures::PSI_MEMORY_FULL_300S_RATIO,
        ],
    ),
];

/// Time in which its tasks waited. v2 has the kernel's averages too.
fn pressure(evaluation: &Evaluation, group: &CgroupSpan, page: &mut Page) {
    let is_known = |figure: &&Column<CgroupSpan>| value(evaluation, group, figure).is_some();
    let mut known = PRESSURE.iter().filter(|(_, figures)| figures.iter().any(is_known)).peekable();
    if known.peek().is_some() {
        page.heading("PRESSURE");
    }
    for (name, figures) in known {
        let [now, ten, minute, five_minutes] =
            figures.map(|figure| format_figure(figure, &FigureInput::from(evaluation), group, 5));
        let averages = match figures.iter().skip(1).any(is_known) {
            true => safe!("   10 s {ten}%   60 s {minute}%   300 s {five_minutes}%"),
            false => SafeText::default(),
        };
        page.labelled(*name, safe!("{now}%{averages}"));
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
