//! Rule cpu-throttled: a cgroup is throttled by its CPU quota.

use crate::findings::cgroups::{CgroupMembers, describe_members};
use crate::findings::finding::{Finding, Kind, Severity, Subject, Value};
use crate::findings::formatting::{cpu_time, percent, plural, significant_digits};
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{
    Candidate, RuleContext, evidence_chain, evidence_number, evidence_optional, evidence_text,
};
use crate::findings::rules::cpu::run_queue::throttled_cgroups;
use crate::findings::wait_chain::holder::describe_process_group;
use crate::findings::wait_chain::link::ChainLink;
use crate::findings::wait_chain::named_holder::{known_by, thread_name};
use crate::findings::wait_chain::reported_threads::MIN_REPORTED_THREADS;
use crate::ids::CgroupId;
use crate::interval::Interval;
use crate::interval::cgroup::CgroupSpan;
use crate::interval::group_label::group_label;
use crate::interval::lock_holders::LockHolder;
use crate::interval::runnable::is_throttled_by;
use crate::interval::task::ProcessSpan;
use crate::interval::throttled_servers::{ThrottledServers, throttled_servers, waiting_connections};
use crate::sample::cgroup::Controller;
use crate::units::{Ratio, SmallSort};

/// Available share of the host from which the sentence says it. docs/metrics.md, "Fixed thresholds".
const MIN_REPORTED_AVAILABLE: f64 = 0.1;

/// Available share of the host from which the sentence calls the host idle.
const IDLE_HOST_AVAILABLE: f64 = 0.5;

/// Connections that wait for throttled servers from which the finding is critical, if the quota throttles for at least this share of the time.
const MIN_CRITICAL_CONNECTIONS: u32 = 4;
const MIN_CRITICAL_THROTTLED: f64 = 0.5;

/// Evidence: the available share of the host
const AVAILABLE_RATIO: &str = "host_available_ratio";

pub const CPU_THROTTLED: Rule = Rule {
    kind: Kind::CpuThrottled,
    title: "Throttled by a CPU quota",
    meaning: "The tasks of a cgroup need more CPU than its quota allows: they are slow although the host may be idle.",
    computed: "Throttled time of the cgroup (v1 or v2) at least 5 % of the time. The kernel adds up the time of all CPUs: \
               above 100 % it is reported as a number of CPUs, below it as at most the share of throttled periods. Connections wait for a process that it throttles if they have unread \
               or unanswered requests, or are not accepted, and its threads were runnable, but not on a CPU, for half of the time. Threads wait behind it if it throttles the thread that holds their lock. Critical if at least 4 connections wait and it is throttled for half of the time.",
    caveats: "The limit may be intended, for example for batch jobs.",
    next_steps: &[
        "the quota: cpu.max (v2) or cpu.cfs_quota_us (v1)",
        "its tasks by %CPU (screen 5, / with its name)",
        "bursts: a longer period or cpu.max.burst",
    ],
    reference: "Control groups",
    hysteresis: Hysteresis::TwoOfThree,
    evaluate: cpu_throttled,
};

/// The kernel adds up the throttled time of all CPUs: above 100 % it is a number of CPUs, below it at most the throttled periods.
fn throttled(group: &CgroupSpan) -> Option<Ratio> {
    group.throttled.and_then(|summed| if summed.0 > 1.0 { Some(summed) } else { group.throttled_share() })
}

fn format_throttled(share: f64) -> String {
    match share {
        _ if share <= 1.0 => format!("{} of the time", percent(share)),
        cpus => format!("on {} CPUs on average", significant_digits(cpus)),
    }
}

fn cpu_throttled(context: &RuleContext) -> Vec<Candidate> {
    let thresholds = context.thresholds;
    let mut found = Vec::new();
    let held = |group: &&CgroupSpan| group.throttled_share().is_some_and(|share| share.0 >= thresholds.throttled_ratio);
    let groups = throttled_cgroups(context).filter(held);
    let members = CgroupMembers::for_cgroups(context, Controller::Cpu, groups.clone().map(|group| &group.id));
    let servers = throttled_servers(context.interval);
    for group in groups {
        let connections = waiting_connections(context.interval, &servers, &group.id);
        let servers: Vec<&ThrottledServers> = servers.iter().filter(|server| *server.cgroup == group.id).collect();
        let holders = throttled_holders(context.interval, &group.id);
        let Some(throttled) = throttled(group) else { continue };
        let quota = group.quota_cpus.map_or_else(|| "its quota".into(), |cpus| format!("its quota of {}", cpu_time(cpus)));
        let used = group.used_cpus.map_or_else(|| "is limited to".into(), |cpus| format!("used {} of", cpu_time(cpus)));
        let periods = group.throttled_periods.map(|share| format!(", in {} of its periods", percent(share.0.min(1.0))));
        let available = context.interval.cpu.as_ref().map_or(0.0, |cpu| cpu.available());
        let room = if available >= MIN_REPORTED_AVAILABLE {
            format!(", while {} of the host is available", percent(available))
        } else {
            String::new()
        };
        let name = context.cgroup_name(&group.id);
        let idle_host = if available < IDLE_HOST_AVAILABLE { "" } else { "idle host, throttled: " };
        let tasks = describe_members(context, members.as_ref(), &group.id, cpu_demand);
        let sentence = format!(
            "{idle_host}{name} {used} {quota}: throttled {}{}{room}; in it: {tasks}{}{}",
            format_throttled(throttled.0),
            periods.unwrap_or_default(),
            describe_connections(&servers),
            describe_threads_behind(context.interval, &holders),
        );
        let mut evidence = vec![
            evidence_number("throttled_ratio", throttled.0),
            evidence_optional("throttled_periods_ratio", group.throttled_periods.map(|share| share.0)),
            evidence_optional("quota_cpus", group.quota_cpus),
            evidence_optional("used_cpus", group.used_cpus),
            evidence_optional("psi_cpu_some_ratio", group.pressure.cpu_some.map(|share| share.0)),
            evidence_optional("waiting_connections", connections.ok().map(f64::from)),
            evidence_optional(AVAILABLE_RATIO, context.interval.cpu.as_ref().map(|cpu| cpu.available())),
        ];
        if !holders.is_empty() {
            evidence.push(evidence_number("threads_behind_holders", holders.iter().map(|holder| holder.waiters_of_lock).sum()));
        }
        let behind = holders.first().and_then(|holder| {
            Some(ChainLink { what: describe_behind(context.interval, holder)?, known_by: known_by(holder.field).into() })
        });
        let waiting = servers
            .first()
            .map(|server| ChainLink::new(describe_waiting(server), "the receive queues and tcp_info of its sockets"));
        evidence.extend(evidence_chain(waiting.into_iter().chain(behind).chain([
            ChainLink::new(tasks, "/proc/PID/cgroup"),
            ChainLink::new(format!("{name}: throttled {}", format_throttled(throttled.0)), "cpu.stat"),
            ChainLink::new(quota, "cpu.max, or cpu.cfs_quota_us (v1)"),
        ])));
        if let Err(why) = connections {
            evidence.push(evidence_text("waiting_connections_unknown", why.to_string().as_str()));
        }
        let share = group.throttled_share().map_or(0.0, |share| share.0);
        found.push(Candidate {
            severity: match connections {
                Ok(MIN_CRITICAL_CONNECTIONS..) if share >= MIN_CRITICAL_THROTTLED => Severity::Critical,
                _ => Severity::Warning,
            },
            subject: Subject::Cgroup(group.id.clone()),
            value: throttled.0,
            threshold: thresholds.throttled_ratio,
            unit: "ratio",
            sentence,
            evidence,
            explained_share: (throttled.0 / context.cpu_count()).min(1.0),
        });
    }
    found
}

/// Servers that a sentence names.
const MAX_NAMED_SERVERS: usize = 3;

/// `; 50 connections wait for server (4711)`, or nothing
fn describe_connections(servers: &[&ThrottledServers]) -> String {
    servers.iter().take(MAX_NAMED_SERVERS).map(|server| format!("; {}", describe_waiting(server))).collect()
}

/// `50 connections wait for server (4711)`
fn describe_waiting(server: &ThrottledServers) -> String {
    let connections = plural(f64::from(server.connections), "connection waits", "connections wait");
    format!("{connections} for {}", describe_process_group(&server.group, &server.label))
}

/// Holders of locks that the quota of this cgroup throttles, those with most waiters first
fn throttled_holders<'a>(interval: &'a Interval, cgroup: &CgroupId) -> Vec<&'a LockHolder> {
    let holders = interval.locks.futex_holders.iter().chain(&interval.locks.kernel_holders);
    let delays_others =
        |holder: &&LockHolder| holder.waiters_of_lock >= MIN_REPORTED_THREADS && is_throttled_by(interval, holder, cgroup);
    let mut found: Vec<&LockHolder> = holders.filter(delays_others).collect();
    found.small_sort_by(|a, b| b.waiters_of_lock.total_cmp(&a.waiters_of_lock).then_with(|| a.group.cmp(&b.group)));
    found
}

/// `; 12 threads of app (700) wait for a lock behind app/702`, or nothing
fn describe_threads_behind(interval: &Interval, holders: &[&LockHolder]) -> String {
    let named = holders.iter().take(MAX_NAMED_SERVERS).filter_map(|holder| describe_behind(interval, holder));
    named.map(|words| format!("; {words}")).collect()
}

/// `12 threads of app (700) wait for a lock behind app/702`
fn describe_behind(interval: &Interval, holder: &LockHolder) -> Option<String> {
    let group = interval.newer.waits.groups.get(usize::from(holder.group))?;
    let label = describe_process_group(group, &group_label(group, &interval.newer, &interval.newer));
    let (one, many) = (format!("thread of {label} waits"), format!("threads of {label} wait"));
    let waiting = plural(holder.waiters_of_lock, &one, &many);
    Some(format!("{waiting} for a lock behind {}", thread_name(holder.last_thread())))
}

/// Whether the sentence of a finding begins with the words for an idle host and a colon.
pub fn begins_with_idle_host(finding: &Finding) -> bool {
    let available = finding.evidence.iter().find(|evidence| evidence.name == AVAILABLE_RATIO).map(|evidence| &evidence.value);
    finding.kind == Kind::CpuThrottled && matches!(available, Some(Value::Number(share)) if *share >= IDLE_HOST_AVAILABLE)
}

fn cpu_demand(span: &ProcessSpan) -> f64 {
    span.cpu.map_or(0.0, |cpu| cpu.0) + span.run_queue_wait.map_or(0.0, |wait| wait.0)
}
