//! Findings about CPUs: one core, one thread, all of them, and CPU time that a quota or a hypervisor kept back.

pub mod affinity;
pub mod hidden_cpu;
pub mod load_average;
pub mod serialized_threads;
pub mod short_lived;
pub mod softirq;

use super::cgroups::{CgroupAncestors, CgroupMembers, describe_members};
use super::formatting::{cpus, lossy_name, percent, plural, significant_digits};
use super::rule::{Hysteresis, Rule};
use super::rule_context::{Candidate, RuleContext, evidence_number, evidence_optional, evidence_text};
use super::{Kind, Severity, Subject};
use crate::ids::TaskId;
use crate::interval::cgroup::CgroupSpan;
use crate::interval::cpu::{CpuSpan, CpuUsage};
use crate::interval::task::{ProcessSpan, TaskSpan, ThreadSpan};
use crate::sample::cgroup::Controller;
use crate::units::Ratio;
use softirq::is_softirq_dominated;

pub(super) const SATURATED_CORE: Rule = Rule {
    kind: Kind::SaturatedCore,
    title: "One core at its limit",
    meaning: "One CPU is busy all the time while the box as a whole is not: whatever runs there cannot go faster, however many \
              CPUs stand idle beside it.",
    computed: "A CPU at least 95 % busy (user, nice, system, irq, softirq) while the box is below 60 %. Where interrupts and \
               softirqs take more of it than threads do, no thread is named: the packets that this CPU took off the \
               interfaces are (/proc/net/softnet_stat), and the interface that most packets come in by. No scheduler moves \
               such work to another CPU: it is said of a box below 90 %. Of many CPUs eight are told.",
    caveats: "A batch job that is meant to use its one CPU. A process that hides from the clock tick can make a CPU look idle, \
            or busier than it is.",
    next_steps: &[
        "the thread that runs there most: one thread cannot use two CPUs",
        "softirq: interrupts of a NIC may all land on one CPU (irqbalance, RSS, RPS)",
        "affinity: taskset -p, cpuset of the cgroup",
    ],
    hysteresis: Hysteresis::Sustained,
    evaluate: saturated_core,
};

pub(super) const SATURATED_THREAD: Rule = Rule {
    kind: Kind::SaturatedThread,
    title: "One thread at its limit",
    meaning: "A thread uses a whole CPU all the time, on one CPU or moving between them so that no CPU shows it. It is at its \
              limit: more CPUs won't help, only a faster one or less work. So are threads that take turns, one of them at a \
              time, since all need one lock.",
    computed: "The scheduler's own run time of the thread is at least 95 % of the time while the box is below 60 % busy. A \
               note where the thread is meant to give way to others (SCHED_IDLE, nice 19). Of many threads eight are told. \
               Threads take turns where their process uses 95 % to 110 % of one CPU, none of them alone so much, and exactly \
               one of them runs at four looks of five: that they need one lock is inference.",
    caveats: "A batch job that is meant to run like that. A busy-polling thread (DPDK, spinning locks) uses its CPU without being \
            at a limit.",
    next_steps: &[
        "what it computes: perf top -t TID",
        "whether its work can be divided among threads",
        "threads that take turns: more processes in place of threads, a finer lock",
    ],
    hysteresis: Hysteresis::Sustained,
    evaluate: saturated_thread,
};

pub(super) const CPU_SATURATED: Rule = Rule {
    kind: Kind::CpuSaturated,
    title: "More work than CPUs",
    meaning: "Nearly all CPUs are used, and threads wait for their turn: everything takes longer than its CPU time.",
    computed: "CPUs at least 90 % busy, stolen time included, and threads that are not meant to give way (SCHED_IDLE, nice 19) \
               wait for a CPU for at least 0.25 seconds a second for each CPU, the time left out for which their own quota may \
               have held them back. Where a cpuset or an \
               affinity mask restricts threads to some CPUs, the same of those CPUs and of those threads, although the box has \
               room. PSI cpu and run delay alone do not raise it: a task held back by its quota shows both on an idle box.",
    caveats: "A compile or another batch job that is meant to use the whole box.",
    next_steps: &[
        "who uses it: the processes by %CPU (screen 5, s)",
        "who waits: the threads by runq (screen 5, t and s)",
        "whether batch work can be niced or given a quota",
        "where only some CPUs are meant: taskset -p PID, cpuset.cpus of the cgroup",
    ],
    hysteresis: Hysteresis::Sustained,
    evaluate: cpu_saturated,
};

pub(super) const CPU_THROTTLED: Rule = Rule {
    kind: Kind::CpuThrottled,
    title: "Held back by its CPU quota",
    meaning: "The tasks of a cgroup want more CPU than its quota allows: they are slow although the box is idle.",
    computed: "Throttled time of the cgroup (v1 or v2) at least 5 % of the time. The kernel adds up the time of each \
               CPU: of several at once it is told as a number of CPUs.",
    caveats: "A quota that is meant to bind (a batch class) binds.",
    next_steps: &[
        "the quota: cpu.max (v2) or cpu.cfs_quota_us (v1)",
        "the tasks in it by %CPU (screen 5, / with its name)",
        "bursts: a higher period or cpu.max.burst",
    ],
    hysteresis: Hysteresis::TwoOfThree,
    evaluate: cpu_throttled,
};

pub(super) const CPU_STOLEN: Rule = Rule {
    kind: Kind::CpuStolen,
    title: "CPU time taken by the hypervisor",
    meaning: "This machine is virtual, and the host gave its CPUs to somebody else while tasks here wanted to run.",
    computed: "steal at least 5 % of the box; critical from 50 %.",
    caveats: "Hypervisors that do not report steal hide it; some report it when the guest is capped by its own contract.",
    next_steps: &["the host's load, or the instance's CPU credits", "noisy neighbours: another host or a dedicated one"],
    hysteresis: Hysteresis::TwoOfThree,
    evaluate: cpu_stolen,
};

/// The part of a CPU's time from which the thread that ran there most says something about it.
const MIN_NAMED_SHARE: f64 = 0.1;

/// The part of a CPU's time that leaves nothing of it to others if it is not given up.
const DOMINANT_SHARE: f64 = 0.5;

/// Of a thread that others need not wait for.
const BACKGROUND_CLAUSE: &str = "; it is meant to give way to others (SCHED_IDLE or nice 19)";

fn is_background(scene: &RuleContext, task: TaskId) -> bool {
    let threads = scene.interval.tasks.as_ref().map_or(&[][..], |tasks| &tasks.threads);
    threads.binary_search_by_key(&task, |thread| thread.id).is_ok_and(|at| threads.get(at).is_some_and(|row| row.background))
}

fn saturated_core(scene: &RuleContext) -> Vec<Candidate> {
    let thresholds = scene.thresholds;
    let Some(cpu) = scene.interval.cpu.as_ref().filter(|cpu| cpu.cpus.len() > 1) else { return Vec::new() };
    let box_has_room = cpu.busy() < thresholds.box_idle_below_ratio;
    // No scheduler moves softirqs to a CPU that has time.
    let is_limit = |core: &&CpuUsage| box_has_room || is_softirq_dominated(core) && cpu.busy() < thresholds.cpu_busy_ratio;
    // Half a clock tick: a short interval has few of them.
    let rounding = 0.5 / (scene.interval.seconds * scene.interval.host.ticks_per_second as f64).max(1.0);
    let limit = thresholds.core_busy_ratio - rounding.min(0.1);
    let mut full: Vec<&CpuUsage> = cpu.cpus.iter().filter(|core| core.busy() >= limit).filter(is_limit).collect();
    // Else by their numbers, so that the same ones are told each time.
    full.sort_by_key(|core| !is_softirq_dominated(core));
    let others = unlisted_clause(full.len(), "more CPU", "more CPUs");
    let mut found = Vec::new();
    for core in full.into_iter().take(MAX_REPORTED) {
        let busy = core.busy();
        let softirq = is_softirq_dominated(core);
        // What ksoftirqd does is counted as softirq, and who runs beside it is not the reason. Nor is who is merely left when
        // those that ran there have come and gone.
        let top = core
            .top_thread
            .filter(|(_, share)| !softirq && share.0 >= busy * MIN_NAMED_SHARE)
            .map(|(task, share)| (scene.task_label(task), share.0));
        let who = match &top {
            Some(((_, who), share)) => format!("; {who} ran there most: {}", percent(*share)),
            None => String::new(),
        };
        let meek = core.top_thread.is_some_and(|(task, share)| share.0 >= busy * DOMINANT_SHARE && is_background(scene, task));
        let what = if softirq { softirq::sentence(scene, core) } else { busy_breakdown(core) };
        let sentence = format!(
            "CPU {} is {} busy ({}) while the box is {} busy ({}){who}{}{others}",
            core.id.0,
            percent(busy),
            what,
            percent(cpu.busy()),
            scene.of_all_cpus(cpu.busy() * scene.cpu_count()),
            if meek { BACKGROUND_CLAUSE } else { "" },
        );
        let mut evidence = vec![
            evidence_number("busy_ratio", busy),
            evidence_number("user_ratio", core.shares.user + core.shares.nice),
            evidence_number("system_ratio", core.shares.system),
            evidence_number("irq_ratio", core.shares.irq),
            evidence_number("softirq_ratio", core.shares.softirq),
            evidence_number("hidden_ratio", core.hidden),
            evidence_number("box_busy_ratio", cpu.busy()),
            top.map_or(evidence_optional("top_thread", None), |((name, _), _)| evidence_text("top_thread", name)),
        ];
        evidence.extend(softirq::evidence(scene, core.id));
        found.push(Candidate {
            severity: if meek { Severity::Note } else { Severity::Warning },
            subject: Subject::Cpu(core.id),
            value: busy,
            threshold: thresholds.core_busy_ratio,
            unit: "ratio",
            sentence,
            evidence,
            explained_share: busy / scene.cpu_count(),
        });
    }
    found
}

/// `user 99.1 %, system 0.70 %`, the parts that matter.
fn busy_breakdown(core: &CpuUsage) -> String {
    let shares = &core.shares;
    let parts = [
        ("user", shares.user + shares.nice),
        ("system", shares.system),
        ("irq", shares.irq),
        ("softirq", shares.softirq),
        ("hidden from the clock tick", core.hidden),
    ];
    let shown = parts.iter().filter(|(_, share)| *share >= 0.005);
    shown.map(|(word, share)| format!("{word} {}", percent(*share))).collect::<Vec<_>>().join(", ")
}

/// The CPUs where the box as a whole has room: only then is one core or one thread the limit.
fn cpus_of_unsaturated_host<'a>(scene: &RuleContext<'a>) -> Option<&'a CpuSpan> {
    let interval: &'a crate::interval::Interval = scene.interval;
    interval.cpu.as_ref().filter(|cpu| cpu.busy() < scene.thresholds.box_idle_below_ratio && cpu.cpus.len() > 1)
}

/// So many CPUs, and so many threads, are told one by one: pollers that are pinned may be a hundred.
const MAX_REPORTED: usize = 8;

fn unlisted_clause(all: usize, one: &str, many: &str) -> String {
    match all.saturating_sub(MAX_REPORTED) {
        0 => String::new(),
        more => format!("; {} like it", plural(more as f64, one, many)),
    }
}

fn saturated_thread(scene: &RuleContext) -> Vec<Candidate> {
    let thresholds = scene.thresholds;
    let (Some(cpu), Some(tasks)) = (cpus_of_unsaturated_host(scene), &scene.interval.tasks) else { return Vec::new() };
    let is_hot = |thread: &&ThreadSpan| thread.cpu.is_some_and(|used| used.0 >= thresholds.thread_busy_ratio);
    let hot: Vec<&ThreadSpan> = tasks.threads.iter().filter(is_hot).collect();
    let others = unlisted_clause(hot.len(), "more thread", "more threads");
    let mut found = Vec::new();
    // Threads are sorted by identity: the same ones are told each time.
    for thread in hot.into_iter().take(MAX_REPORTED) {
        let used = thread.cpu.map_or(0.0, |used| used.0);
        let (thread_name, who) = scene.task_label(thread.id);
        let home = cpu.cpus.iter().find(|core| core.id == thread.processor);
        // ksoftirqd: saturated-core tells of the softirqs that keep it busy.
        if scene.process(thread.id.pid).is_some_and(|process| process.kernel_thread) && home.is_some_and(is_softirq_dominated) {
            continue;
        }
        let stays = home.is_some_and(|core| core.busy() >= thresholds.core_busy_ratio);
        let place = if stays {
            format!("on CPU {}", thread.processor.0)
        } else {
            "moving between CPUs, so that none of them shows it".into()
        };
        let sentence = format!(
            "{who} uses {} of one CPU, {place}: at its limit, more CPUs won't help{}; the box is {} busy ({}){others}",
            percent(used.min(1.0)),
            if thread.background { BACKGROUND_CLAUSE } else { "" },
            percent(cpu.busy()),
            scene.of_all_cpus(cpu.busy() * scene.cpu_count()),
        );
        found.push(Candidate {
            severity: if thread.background { Severity::Note } else { Severity::Warning },
            subject: Subject::Task { id: thread.id, name: thread_name },
            value: used,
            threshold: thresholds.thread_busy_ratio,
            unit: "ratio",
            sentence,
            evidence: vec![
                evidence_number("cpu_ratio", used),
                evidence_number("user_ratio", thread.states.user),
                evidence_number("system_ratio", thread.states.system),
                evidence_optional("run_queue_wait_ratio", thread.run_queue_wait.map(|wait| wait.0)),
                evidence_number("box_busy_ratio", cpu.busy()),
                evidence_number("last_cpu", f64::from(thread.processor.0)),
            ],
            explained_share: used / scene.cpu_count(),
        });
    }
    found.extend(serialized_threads::serialized_threads(scene));
    found
}

/// The box, or else the CPUs to which some threads are restricted.
fn cpu_saturated(scene: &RuleContext) -> Vec<Candidate> {
    host_saturated(scene).map_or_else(|| affinity::affinity_saturated(scene), |whole| vec![whole])
}

fn host_saturated(scene: &RuleContext) -> Option<Candidate> {
    let thresholds = scene.thresholds;
    let cpu = scene.interval.cpu.as_ref()?;
    let taken = cpu.busy() + cpu.total.steal;
    if taken < thresholds.cpu_busy_ratio {
        return None;
    }
    let background = background_run_queue_waiters(scene);
    let waiting = (run_queue_waiters(scene)? - background.unwrap_or(0.0)).max(0.0);
    if waiting < thresholds.cpu_waiting_per_cpu * scene.cpu_count() {
        return None;
    }
    let wanted = cpu.busy() * scene.cpu_count() + waiting;
    let critical = waiting >= thresholds.cpu_waiting_critical_per_cpu * scene.cpu_count();
    let most = top_cpu_users(scene);
    let stolen = match cpu.total.steal >= 0.01 {
        true => format!(" ({} of it stolen by the hypervisor)", percent(cpu.total.steal)),
        false => String::new(),
    };
    let sentence = format!(
        "the CPUs are {} taken{stolen}: {} threads want to run on {}, {} of them wait{most}",
        percent(taken),
        significant_digits(wanted),
        cpus(scene.interval.online_cpus()),
        significant_digits(waiting),
    );
    Some(Candidate {
        severity: if critical { Severity::Critical } else { Severity::Warning },
        subject: Subject::Host,
        value: waiting / scene.cpu_count(),
        threshold: thresholds.cpu_waiting_per_cpu,
        unit: "ratio",
        sentence,
        evidence: vec![
            evidence_number("busy_ratio", cpu.busy()),
            evidence_number("steal_ratio", cpu.total.steal),
            evidence_number("waiting_threads", waiting),
            evidence_number("wanting_threads", wanted),
            evidence_optional("background_waiting_threads", background),
            evidence_optional("psi_cpu_some_ratio", scene.interval.pressure.cpu_some.map(|share| share.0)),
        ],
        explained_share: taken.min(1.0),
    })
}

/// Threads that wait for a CPU on average, without what their own quotas may have kept them waiting. Without schedstat, and
/// where tasks are hidden from this user, at least how many more can run than there are CPUs.
pub(super) fn run_queue_waiters(scene: &RuleContext) -> Option<f64> {
    let tasks = scene.interval.tasks.as_ref()?;
    let privilege = &scene.interval.host.privilege;
    match tasks.run_queue_wait {
        Some(_) if privilege.hidepid && !privilege.has_cap_sys_ptrace => {
            Some(run_queue_waits_beyond_quota(scene, |_| true).max(runnable_excess(scene, tasks)))
        }
        Some(_) => Some(run_queue_waits_beyond_quota(scene, |_| true)),
        None => Some(runnable_excess(scene, tasks)),
    }
}

/// Of those that wait, the ones that are meant to wait for all others. `None` without schedstat.
fn background_run_queue_waiters(scene: &RuleContext) -> Option<f64> {
    scene.interval.tasks.as_ref()?.run_queue_wait.map(|_| run_queue_waits_beyond_quota(scene, |thread| thread.background))
}

/// What these threads waited beyond the time for which their quotas held them back.
fn run_queue_waits_beyond_quota(scene: &RuleContext, which: fn(&ThreadSpan) -> bool) -> f64 {
    let threads = scene.interval.tasks.as_ref().map_or(&[][..], |tasks| &tasks.threads);
    let quotas = QuotaThrottling::from_context(scene);
    let waits = threads.iter().filter(|thread| which(thread)).filter_map(|thread| {
        let wait = thread.run_queue_wait.filter(|wait| wait.0 > 0.0)?;
        Some((wait.0 - quotas.throttled_share(scene, thread.id.pid)).max(0.0))
    });
    waits.sum()
}

/// Tasks that can run, the monitor left out, beyond one for each CPU at this moment; the kernel does not count throttled ones
/// among them (procs_running).
fn runnable_excess(scene: &RuleContext, tasks: &TaskSpan) -> f64 {
    let runnable = scene.interval.newer.cpu.as_ref().ok().and_then(|cpu| cpu.running);
    let runnable = runnable.map_or(tasks.counts.running, |running| running.saturating_sub(1));
    (f64::from(runnable) - scene.cpu_count()).max(0.0)
}

/// For which share of the time quotas may have held back the tasks of each group that has one.
pub(super) struct QuotaThrottling<'a>(CgroupAncestors<'a, f64>);

impl<'a> QuotaThrottling<'a> {
    /// No longer than the group was held back, its CPUs added, nor than the periods lasted in which it was.
    pub(super) fn from_context(scene: &RuleContext<'a>) -> QuotaThrottling<'a> {
        let share = |share: Option<Ratio>| share.map_or(1.0, |share| share.0);
        let held = |group: &CgroupSpan| share(group.throttled).min(share(group.throttled_periods));
        QuotaThrottling(CgroupAncestors::from_cgroups(throttled_cgroups(scene).map(|group| (&group.id, held(group)))))
    }

    /// The share of the time for which its quota, or that of a group above its own, may have held back a thread of a process.
    pub(super) fn throttled_share(&self, scene: &RuleContext, pid: u32) -> f64 {
        // Mostly nobody is held back, and then no process need be looked up.
        let cgroup = Some(pid).filter(|_| !self.0.is_empty()).and_then(|pid| scene.process(pid)?.facts.cgroup.as_ref().ok());
        cgroup.map_or(0.0, |cgroup| self.0.ancestors_of(cgroup).sum())
    }
}

fn throttled_cgroups<'a>(scene: &RuleContext<'a>) -> impl Iterator<Item = &'a CgroupSpan> + Clone + use<'a> {
    let interval: &'a crate::interval::Interval = scene.interval;
    interval.cgroups.iter().filter(|group| group.throttled.is_some_and(|share| share.0 > 0.0))
}

/// `; most: cc1 (4711) 1.20 CPUs, …`
pub(super) fn top_cpu_users(scene: &RuleContext) -> String {
    let Some(tasks) = &scene.interval.tasks else { return String::new() };
    let mut users: Vec<_> = tasks.active_processes.iter().filter_map(|span| Some((span.cpu?.0, span.id.pid))).collect();
    users.sort_by(|a, b| b.0.total_cmp(&a.0));
    let told = users.iter().take(3).filter(|(cpus, _)| *cpus >= 0.05).filter_map(|(cpus, pid)| {
        let process = scene.process(*pid)?;
        Some(format!("{} ({pid}) {} CPU", lossy_name(&process.comm), significant_digits(*cpus)))
    });
    let told: Vec<_> = told.collect();
    if told.is_empty() { String::new() } else { format!("; most: {}", told.join(", ")) }
}

/// The kernel adds up what each CPU was throttled: above the whole time it is no share of it.
fn format_throttled(share: f64) -> String {
    match share {
        _ if share <= 1.0 => format!("{} of the time", percent(share)),
        cpus => format!("on {} CPUs on average", significant_digits(cpus)),
    }
}

fn cpu_throttled(scene: &RuleContext) -> Vec<Candidate> {
    let thresholds = scene.thresholds;
    let mut found = Vec::new();
    let held = |group: &&CgroupSpan| group.throttled.is_some_and(|share| share.0 >= thresholds.throttled_ratio);
    let groups = throttled_cgroups(scene).filter(held);
    let residents = CgroupMembers::for_cgroups(scene, Controller::Cpu, groups.clone().map(|group| &group.id));
    for group in groups {
        let Some(throttled) = group.throttled else { continue };
        let quota = group
            .quota_cpus
            .map_or_else(|| "its quota".into(), |cpus| format!("its quota of {} CPU", significant_digits(cpus)));
        let used =
            group.used_cpus.map_or_else(|| "is held to".into(), |cpus| format!("used {} CPU of", significant_digits(cpus)));
        let periods = group.throttled_periods.map(|share| format!(", in {} of its periods", percent(share.0.min(1.0))));
        let available = scene.interval.cpu.as_ref().map_or(0.0, |cpu| cpu.available());
        let room =
            if available >= 0.1 { format!(" while {} of the box is available", percent(available)) } else { String::new() };
        let sentence = format!(
            "{}cgroup {} {used} {quota}: throttled {}{}{room}; in it: {}",
            if available >= 0.5 { "idle box, throttled container: " } else { "" },
            lossy_name(&group.id.path),
            format_throttled(throttled.0),
            periods.unwrap_or_default(),
            describe_members(scene, residents.as_ref(), &group.id, cpu_demand),
        );
        found.push(Candidate {
            severity: Severity::Warning,
            subject: Subject::Cgroup(group.id.clone()),
            value: throttled.0,
            threshold: thresholds.throttled_ratio,
            unit: "ratio",
            sentence,
            evidence: vec![
                evidence_number("throttled_ratio", throttled.0),
                evidence_optional("throttled_periods_ratio", group.throttled_periods.map(|share| share.0)),
                evidence_optional("quota_cpus", group.quota_cpus),
                evidence_optional("used_cpus", group.used_cpus),
                evidence_optional("psi_cpu_some_ratio", group.pressure.cpu_some.map(|share| share.0)),
                evidence_optional("box_available_ratio", scene.interval.cpu.as_ref().map(|cpu| cpu.available())),
            ],
            explained_share: throttled.0.min(1.0) / scene.cpu_count(),
        });
    }
    found
}

fn cpu_demand(span: &ProcessSpan) -> f64 {
    span.cpu.map_or(0.0, |cpu| cpu.0) + span.run_queue_wait.map_or(0.0, |wait| wait.0)
}

fn cpu_stolen(scene: &RuleContext) -> Vec<Candidate> {
    let thresholds = scene.thresholds;
    let Some(cpu) = scene.interval.cpu.as_ref().filter(|cpu| cpu.total.steal >= thresholds.stolen_ratio) else {
        return Vec::new();
    };
    let n = scene.cpu_count();
    let (got, stolen) = (cpu.busy() * n, cpu.total.steal * n);
    let sentence = format!(
        "the hypervisor gave {} of the {} CPUs asked for: {} of the box was stolen",
        significant_digits(got),
        significant_digits(got + stolen),
        percent(cpu.total.steal),
    );
    vec![Candidate {
        severity: if cpu.total.steal >= thresholds.stolen_critical_ratio { Severity::Critical } else { Severity::Warning },
        subject: Subject::Host,
        value: cpu.total.steal,
        threshold: thresholds.stolen_ratio,
        unit: "ratio",
        sentence,
        evidence: vec![
            evidence_number("steal_ratio", cpu.total.steal),
            evidence_number("busy_ratio", cpu.busy()),
            evidence_number("got_cpus", got),
            evidence_number("asked_cpus", got + stolen),
        ],
        explained_share: cpu.total.steal,
    }]
}
