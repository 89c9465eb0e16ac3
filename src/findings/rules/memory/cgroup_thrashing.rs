//! Part of rule memory-pressure: a cgroup at its memory limit, whose tasks wait for refaulted pages or in reclaim while the host
//! may have free memory.

use crate::findings::cgroups::{CgroupMembers, describe_members};
use crate::findings::finding::{Severity, Subject};
use crate::findings::formatting::significant_digits;
use crate::findings::formatting::{bytes, percent, plural};
use crate::findings::page_waits::waits_for_page;
use crate::findings::rule_context::{Candidate, RuleContext, evidence_chain, evidence_number, evidence_optional};
use crate::findings::rules::memory::MIN_REFAULTS_OF_THRESHOLD;
use crate::findings::wait_chain::link::ChainLink;
use crate::findings::wait_chain::reported_threads::MIN_REPORTED_THREADS;
use crate::interval::blocked_threads::{BlockedThread, find_blocked};
use crate::interval::cgroup::CgroupSpan;
use crate::interval::delays::DelaySpan;
use crate::interval::task::{ProcessSpan, ThreadSpan};
use crate::sample::cgroup::Controller;
use crate::sample::task::Process;
use crate::sample::waits::WaitClass;

/// Fewer refaults per second take too little time for a finding, even on a slow disk. docs/metrics.md, "Fixed thresholds".
const MIN_REFAULTS_PER_SECOND: f64 = 20.0;

/// Share of the faults that must be refaults if there are few refaults.
const MIN_REFAULT_SHARE: f64 = 0.1;

/// A thread with this many major faults per second waits for pages.
const MIN_MAJOR_FAULTS_PER_SECOND: f64 = 1.0;

/// A thread with this many major faults per second spends its system time on them.
const HIGH_MAJOR_FAULTS_PER_SECOND: f64 = 100.0;

/// A thread waits for memory if delay accounting reports this share of its time.
const MIN_DELAY_SHARE: f64 = 0.05;

/// Mean number of waiting threads from which it is a warning even if they only read files.
const MIN_WARNING_READERS: f64 = 1.5;

/// Mean number of a cgroup's waiting threads from which its PSI may make the finding critical.
const MIN_CRITICAL_THREADS: f64 = 1.5;

/// Share of the host's refaults and major faults from which a cgroup at its limit is named in the host's finding.
const MIN_NAMED_CGROUP_SHARE: f64 = 0.5;

/// Share of the time in page faults from which the sentence says `in reclaim`.
const MOSTLY_RECLAIM_SHARE: f64 = 0.5;

/// A candidate for each cgroup at its memory limit whose threads wait for pages.
pub fn cgroups_at_limit(context: &RuleContext) -> Vec<Candidate> {
    let short: Vec<CgroupThrashing> =
        context.interval.cgroups.iter().filter_map(|group| CgroupThrashing::detect(context, group)).collect();
    // Page cache alone brings a cgroup to its limit: the tasks are examined only for cgroups with refaults.
    let members = CgroupMembers::for_cgroups(context, Controller::Memory, short.iter().map(|short| &short.group.id));
    short.iter().filter_map(|short| short.candidate(context, members.as_ref())).collect()
}

/// Whether it reached its memory limit in this interval; its memory use is near it, where the kernel does not count that.
fn is_at_limit(context: &RuleContext, group: &CgroupSpan, limit: f64, used: f64) -> bool {
    // A group full of page cache that did not meet its limit may wait for memory of the host.
    let is_full = used >= limit * context.thresholds.memory_limit_ratio;
    limit > 0.0 && group.memory_limit_hits.map_or(is_full, |rate| rate.0 > 0.0)
}

/// Share of the host's PSI memory from which that of the cgroups at their limits explains it. docs/metrics.md, "Fixed thresholds".
const MIN_EXPLAINED_PRESSURE: f64 = 0.5;

/// Whether cgroups at their limits, added up, wait for memory at least half as long as the host (`some`, share of the time), as far as
/// that is known.
pub fn is_pressure_of_limit(context: &RuleContext, some: Option<f64>) -> bool {
    // Unknown is enough.
    let of_groups: Option<f64> = groups_at_limit(context).map(|group| Some(group.pressure.memory_some?.0)).sum();
    of_groups.zip(some).is_none_or(|(of_groups, of_host)| of_groups >= of_host * MIN_EXPLAINED_PRESSURE)
}

/// The cgroups that reached their memory limit in this interval.
pub fn groups_at_limit<'a>(context: &'a RuleContext) -> impl Iterator<Item = &'a CgroupSpan> {
    context.interval.cgroups.iter().filter(|group| {
        let known = group.memory_limit.zip(group.memory_used);
        known.is_some_and(|(limit, used)| is_at_limit(context, group, limit.0 as f64, used.0 as f64))
    })
}

/// `; cgroup /batch is at its memory limit of 100 MiB`: the cgroup at its limit that has most of the host's refaults and major
/// faults (`of_host` per second). Empty if there is none.
pub fn at_limit_clause(context: &RuleContext, of_host: f64) -> String {
    let again = |group: &CgroupSpan| group.refaults.map_or(0.0, |rate| rate.0) + group.major_faults.map_or(0.0, |rate| rate.0);
    let at_limit = context.interval.cgroups.iter().filter_map(|group| {
        let (limit, used) = (group.memory_limit?.0 as f64, group.memory_used?.0 as f64);
        is_at_limit(context, group, limit, used).then_some((again(group), limit, group))
    });
    let most = at_limit
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(again, ..)| *again > 0.0 && *again >= of_host * MIN_NAMED_CGROUP_SHARE);
    most.map_or_else(String::new, |(_, limit, group)| {
        format!("; {} is at its memory limit of {}", context.cgroup_name(&group.id), bytes(limit))
    })
}

/// A cgroup at its limit with refaults.
struct CgroupThrashing<'a> {
    group: &'a CgroupSpan,
    limit: f64,
    used: f64,
    /// Refaults and major faults per second
    faults_per_second: f64,
    /// Its PSI memory reaches the threshold
    by_pressure: bool,
    /// Most of the faults are refaults
    mostly_refaults: bool,
    /// A thread of the host was seen in reclaim, possibly one of this cgroup
    reclaim: bool,
}

impl<'a> CgroupThrashing<'a> {
    fn detect(context: &RuleContext<'a>, group: &'a CgroupSpan) -> Option<CgroupThrashing<'a>> {
        let thresholds = context.thresholds;
        let (limit, used) = (group.memory_limit?.0 as f64, group.memory_used?.0 as f64);
        if !is_at_limit(context, group, limit, used) {
            return None;
        }
        let (refaults, faults) = (group.refaults.map(|rate| rate.0), group.major_faults.map(|rate| rate.0));
        let again = refaults.unwrap_or(0.0) + faults.unwrap_or(0.0);
        // Starting programs have major faults, too: only refaults show a lack of memory. Under a small limit the kernel does not
        // count all refaults, since it keeps few shadow entries (one in five was counted on 6.18).
        let returning = refaults.is_none_or(|rate| {
            rate >= thresholds.refaults_per_second * MIN_REFAULTS_OF_THRESHOLD
                || rate >= faults.unwrap_or(0.0) * MIN_REFAULT_SHARE
        });
        let by_stall = group.pressure.memory_some.is_some_and(|share| share.0 >= thresholds.memory_pressure_ratio);
        let enough = again >= thresholds.refaults_per_second || refaults.is_some_and(|rate| rate >= MIN_REFAULTS_PER_SECOND);
        let reclaim = context.interval.blocked_threads.iter().any(|thread| thread.class == WaitClass::Memory);
        let short = CgroupThrashing {
            group,
            limit,
            used,
            faults_per_second: again,
            by_pressure: by_stall,
            mostly_refaults: returning,
            reclaim,
        };
        (by_stall || returning && enough || reclaim).then_some(short)
    }

    /// Share of the time in which a task of the cgroup waited for memory: its PSI; where the kernel has none of it (v1), that of the host,
    /// if no other cgroup is at its limit.
    fn stall(&self, context: &RuleContext) -> Option<f64> {
        let is_only = || groups_at_limit(context).nth(1).is_none();
        let of_host = || context.interval.pressure.memory_some.filter(|_| is_only());
        self.group.pressure.memory_some.or_else(of_host).map(|share| share.0)
    }

    fn candidate(&self, context: &RuleContext, members: Option<&CgroupMembers>) -> Option<Candidate> {
        let thresholds = context.thresholds;
        let CgroupThrashing {
            group,
            limit,
            used,
            faults_per_second: again,
            by_pressure: by_stall,
            mostly_refaults: returning,
            reclaim,
        } = *self;
        let (refaults, faults) = (group.refaults.map(|rate| rate.0), group.major_faults.map(|rate| rate.0));
        let hits = group.memory_limit_hits.map(|rate| rate.0);
        let stall = group.pressure.memory_some.map(|share| share.0);
        let time = PageWaitTime::for_processes(context, members.map_or(&[], |members| members.members_of(&group.id)));
        let waits = time.waiting_threads() >= thresholds.memory_waiting_threads;
        let by_rate = again >= thresholds.refaults_per_second && waits;
        let by_time = refaults.is_some_and(|rate| rate >= MIN_REFAULTS_PER_SECOND)
            && waits
            && time.mean_share() >= thresholds.memory_fault_share;
        // Dirty pages must be written back first: then few refault, and the time is spent in reclaim.
        let by_reclaim = reclaim && time.in_reclaim >= thresholds.memory_waiting_threads;
        if !(by_stall || by_reclaim || returning && (by_rate || by_time)) {
            return None;
        }
        let is_warning =
            by_stall || time.faulting >= thresholds.memory_waiting_threads || time.waiting_threads() >= MIN_WARNING_READERS;
        let is_critical = self.stall(context).is_some_and(|share| share >= thresholds.memory_pressure_critical_ratio)
            && time.waiting_threads() >= MIN_CRITICAL_THREADS;
        let free = context.interval.memory.as_ref().and_then(|memory| memory.available);
        let free = free.map(|free| format!("; the host has {} available", bytes(free.0 as f64))).unwrap_or_default();
        let rate = |rate: Option<f64>| rate.map_or_else(|| "-".into(), significant_digits);
        let stalled = stall.map(|share| format!(", PSI memory {}", percent(share))).unwrap_or_default();
        let (name, tasks) = (context.cgroup_name(&group.id), describe_members(context, members, &group.id, page_wait_weight));
        let sentence = format!(
            "{name} is at its memory limit of {}: {} refaults/s, {} major faults/s{stalled}{}{free}; in it: {tasks}",
            bytes(limit),
            rate(refaults),
            rate(faults),
            time.describe(),
        );
        let (value, threshold, unit) = match (by_stall, by_rate && returning) {
            (true, _) => (stall.unwrap_or(0.0), thresholds.memory_pressure_ratio, "ratio"),
            (false, true) => (again, thresholds.refaults_per_second, "per_second"),
            (false, false) if by_reclaim => (time.in_reclaim, thresholds.memory_waiting_threads, "threads"),
            (false, false) => (time.mean_share(), thresholds.memory_fault_share, "ratio"),
        };
        Some(Candidate {
            severity: match is_warning {
                true if is_critical => Severity::Critical,
                true => Severity::Warning,
                false => Severity::Note,
            },
            subject: Subject::Cgroup(group.id.clone()),
            value,
            threshold,
            unit,
            sentence,
            evidence: vec![
                evidence_number("memory_limit_bytes", limit),
                evidence_number("memory_used_bytes", used),
                evidence_optional("refaults_per_second", refaults),
                evidence_optional("major_faults_per_second", faults),
                evidence_optional("limit_hits_per_second", hits),
                evidence_number("waiting_threads", time.waiting_threads()),
                evidence_optional("time_in_faults_ratio", (time.affected_threads > 0).then(|| time.mean_share().min(1.0))),
                evidence_optional("thrashing_threads", time.if_delay_accounting(context, time.thrashing)),
                evidence_optional("reclaiming_threads", time.if_delay_accounting(context, time.reclaiming)),
                evidence_optional("psi_memory_some_ratio", stall),
                evidence_optional("host_psi_memory_some_ratio", context.interval.pressure.memory_some.map(|share| share.0)),
            ]
            .into_iter()
            .chain(evidence_chain([
                ChainLink::new(
                    match time.waiting_threads() {
                        few if few < MIN_REPORTED_THREADS => tasks,
                        threads => format!("{tasks}: {} for memory", plural(threads, "thread waits", "threads wait")),
                    },
                    "/proc/PID/cgroup, wait channels and major faults of the threads",
                ),
                ChainLink::new(
                    format!("{name}: {} refaults/s, {} major faults/s", rate(refaults), rate(faults)),
                    "memory.stat of the cgroup",
                ),
                ChainLink::new(format!("its memory limit of {}", bytes(limit)), "memory.max, or memory.limit_in_bytes (v1)"),
            ]))
            .collect(),
            explained_share: (time.waiting_threads() / context.cpu_count()).min(1.0),
        })
    }
}

fn page_wait_weight(span: &ProcessSpan) -> f64 {
    span.major_faults.map_or(0.0, |rate| rate.0) + span.states.disk + span.states.other_blocked
}

/// Mean numbers of threads of the cgroup that wait for pages.
#[derive(Default)]
struct PageWaitTime {
    /// In page faults or reclaim
    faulting: f64,
    /// Of those, seen in reclaim
    in_reclaim: f64,
    /// In reads of files that are not in memory
    reading: f64,
    /// Threads that do either
    affected_threads: usize,
    affected_processes: usize,
    /// Waiting for refaulted pages, by delay accounting
    thrashing: f64,
    /// In reclaim, by delay accounting
    reclaiming: f64,
}

impl PageWaitTime {
    fn for_processes(context: &RuleContext, inside: &[&Process]) -> PageWaitTime {
        let mut time = PageWaitTime::default();
        let threads = context.interval.tasks.as_ref().map_or(&[][..], |tasks| &tasks.threads);
        for process in inside {
            let before = time.affected_threads;
            // Threads are sorted by process.
            let from = threads.partition_point(|span| span.id.pid < process.pid);
            let own = threads.iter().skip(from).take_while(|span| span.id.pid == process.pid);
            for span in own {
                let blocked = find_blocked(&context.interval.blocked_threads, span.id);
                time.affected_threads += usize::from(time.add(context, span, blocked));
            }
            time.affected_processes += usize::from(time.affected_threads > before);
        }
        time
    }

    /// Whether the thread spends any time on pages.
    fn add(&mut self, context: &RuleContext, span: &ThreadSpan, blocked: Option<&BlockedThread>) -> bool {
        let faults = span.major_faults.map_or(0.0, |rate| rate.0);
        let delays = context.interval.task_delays(span.id);
        self.thrashing += delays.and_then(|delays| delays.thrashing).map_or(0.0, |share| share.0);
        self.reclaiming += delays.and_then(|delays| delays.reclaim).map_or(0.0, |share| share.0);
        let counted = delays.map_or(0.0, DelaySpan::memory_share);
        let waits = (span.states.disk + span.states.other_blocked).max(counted);
        let in_fault = counted >= MIN_DELAY_SHARE
            || faults >= MIN_MAJOR_FAULTS_PER_SECOND
            || blocked.is_some_and(|thread| thread.is_page_fault() || thread.class == WaitClass::Memory);
        if in_fault {
            if blocked.is_some_and(|thread| thread.class == WaitClass::Memory) {
                self.in_reclaim += waits;
            }
            self.faulting += waits + if faults >= HIGH_MAJOR_FAULTS_PER_SECOND { span.states.system } else { 0.0 };
            return true;
        }
        let reads = blocked.is_some_and(|thread| waits_for_page(context, thread));
        if reads {
            self.reading += waits;
        }
        reads
    }

    fn waiting_threads(&self) -> f64 {
        self.faulting + self.reading
    }

    /// `None` where delay accounting is off.
    fn if_delay_accounting(&self, context: &RuleContext, threads: f64) -> Option<f64> {
        context.interval.newer.delays.as_ref().ok().map(|_| threads)
    }

    /// Mean share of the time of those threads.
    fn mean_share(&self) -> f64 {
        self.waiting_threads() / self.affected_threads.max(1) as f64
    }

    /// `; its 4 processes spend 98 % of their time in page faults`
    fn describe(&self) -> String {
        if self.waiting_threads() < MIN_REPORTED_THREADS {
            return String::new();
        }
        let doing = match () {
            () if self.faulting < self.reading => "waiting for pages of files",
            () if self.in_reclaim >= self.faulting * MOSTLY_RECLAIM_SHARE => "in reclaim",
            () => "in page faults",
        };
        let label = match (self.affected_threads, self.affected_processes) {
            (1, _) => "a thread in it spends".to_owned(),
            (threads, processes) if threads == processes => format!("{processes} of its processes spend"),
            (threads, _) => format!("{threads} of its threads spend"),
        };
        let whose = if self.affected_threads == 1 { "its" } else { "their" };
        format!("; {label} {} of {whose} time {doing}", percent(self.mean_share().min(1.0)))
    }
}
