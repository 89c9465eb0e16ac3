//! Findings about CPUs: one core, one thread, all of them, and CPU time that a quota or a hypervisor kept back.

pub mod crowd;
pub mod hidden;
pub mod load;
pub mod short_lived;
pub mod softirq;
pub mod turns;

use super::groups::{Above, Residents, members};
use super::rule::{Patience, Rule};
use super::scene::{Scene, Suspicion, maybe, number, text};
use super::words::{cpus, figure, name, percent, plural};
use super::{Kind, Severity, Subject};
use crate::ids::TaskId;
use crate::interval::cgroup::CgroupSpan;
use crate::interval::cpu::{CpuSpan, CpuUsage};
use crate::interval::task::{ProcessSpan, TaskSpan, ThreadSpan};
use crate::sample::cgroup::Controller;
use crate::units::Ratio;
use softirq::is_softirq;

pub(super) const SATURATED_CORE: Rule = Rule {
    kind: Kind::SaturatedCore,
    title: "One core at its limit",
    meaning: "One CPU is busy all the time while the box as a whole is not: whatever runs there cannot go faster, however many \
              CPUs stand idle beside it.",
    computed: "A CPU at least 95 % busy (user, nice, system, irq, softirq) while the box is below 60 %. Where interrupts and \
               softirqs take more of it than threads do, no thread is named: the packets that this CPU took off the \
               interfaces are (/proc/net/softnet_stat), and the interface that most packets come in by. No scheduler moves \
               such work to another CPU: it is said of a box below 90 %. Of many CPUs eight are told.",
    wrong: "A batch job that is meant to use its one CPU. A process that hides from the clock tick can make a CPU look idle, \
            or busier than it is.",
    next: &[
        "the thread that runs there most: one thread cannot use two CPUs",
        "softirq: interrupts of a NIC may all land on one CPU (irqbalance, RSS, RPS)",
        "affinity: taskset -p, cpuset of the cgroup",
    ],
    patience: Patience::Lasting,
    suspect: saturated_core,
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
    wrong: "A batch job that is meant to run like that. A busy-polling thread (DPDK, spinning locks) uses its CPU without being \
            at a limit.",
    next: &[
        "what it computes: perf top -t TID",
        "whether its work can be divided among threads",
        "threads that take turns: more processes in place of threads, a finer lock",
    ],
    patience: Patience::Lasting,
    suspect: saturated_thread,
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
    wrong: "A compile or another batch job that is meant to use the whole box.",
    next: &[
        "who uses it: the processes by %CPU (screen 5, s)",
        "who waits: the threads by runq (screen 5, t and s)",
        "whether batch work can be niced or given a quota",
        "where only some CPUs are meant: taskset -p PID, cpuset.cpus of the cgroup",
    ],
    patience: Patience::Lasting,
    suspect: cpu_saturated,
};

pub(super) const CPU_THROTTLED: Rule = Rule {
    kind: Kind::CpuThrottled,
    title: "Held back by its CPU quota",
    meaning: "The tasks of a cgroup want more CPU than its quota allows: they are slow although the box is idle.",
    computed: "Throttled time of the cgroup (v1 or v2) at least 5 % of the time. The kernel adds up the time of each \
               CPU: of several at once it is told as a number of CPUs.",
    wrong: "A quota that is meant to bind (a batch class) binds.",
    next: &[
        "the quota: cpu.max (v2) or cpu.cfs_quota_us (v1)",
        "the tasks in it by %CPU (screen 5, / with its name)",
        "bursts: a higher period or cpu.max.burst",
    ],
    patience: Patience::TwoOfThree,
    suspect: cpu_throttled,
};

pub(super) const CPU_STOLEN: Rule = Rule {
    kind: Kind::CpuStolen,
    title: "CPU time taken by the hypervisor",
    meaning: "This machine is virtual, and the host gave its CPUs to somebody else while tasks here wanted to run.",
    computed: "steal at least 5 % of the box; critical from 50 %.",
    wrong: "Hypervisors that do not report steal hide it; some report it when the guest is capped by its own contract.",
    next: &["the host's load, or the instance's CPU credits", "noisy neighbours: another host or a dedicated one"],
    patience: Patience::TwoOfThree,
    suspect: cpu_stolen,
};

/// The part of a CPU's time from which the thread that ran there most says something about it.
const WORTH_NAMING: f64 = 0.1;

/// The part of a CPU's time that leaves nothing of it to others if it is not given up.
const MOSTLY: f64 = 0.5;

/// Of a thread that others need not wait for.
const GIVES_WAY: &str = "; it is meant to give way to others (SCHED_IDLE or nice 19)";

fn gives_way(scene: &Scene, task: TaskId) -> bool {
    let threads = scene.interval.tasks.as_ref().map_or(&[][..], |tasks| &tasks.threads);
    threads.binary_search_by_key(&task, |thread| thread.id).is_ok_and(|at| threads.get(at).is_some_and(|row| row.background))
}

fn saturated_core(scene: &Scene) -> Vec<Suspicion> {
    let thresholds = scene.thresholds;
    let Some(cpu) = scene.interval.cpu.as_ref().filter(|cpu| cpu.cpus.len() > 1) else { return Vec::new() };
    let box_has_room = cpu.busy() < thresholds.box_idle_below_ratio;
    // No scheduler moves softirqs to a CPU that has time.
    let is_limit = |core: &&CpuUsage| box_has_room || is_softirq(core) && cpu.busy() < thresholds.cpu_busy_ratio;
    // Half a clock tick: a short interval has few of them.
    let rounding = 0.5 / (scene.interval.seconds * scene.interval.host.ticks_per_second as f64).max(1.0);
    let limit = thresholds.core_busy_ratio - rounding.min(0.1);
    let mut full: Vec<&CpuUsage> = cpu.cpus.iter().filter(|core| core.busy() >= limit).filter(is_limit).collect();
    // Else by their numbers, so that the same ones are told each time.
    full.sort_by_key(|core| !is_softirq(core));
    let others = others(full.len(), "more CPU", "more CPUs");
    let mut found = Vec::new();
    for core in full.into_iter().take(TOLD) {
        let busy = core.busy();
        let softirq = is_softirq(core);
        // What ksoftirqd does is counted as softirq, and who runs beside it is not the reason. Nor is who is merely left when
        // those that ran there have come and gone.
        let top = core
            .top_thread
            .filter(|(_, share)| !softirq && share.0 >= busy * WORTH_NAMING)
            .map(|(task, share)| (scene.who(task), share.0));
        let who = match &top {
            Some(((_, who), share)) => format!("; {who} ran there most: {}", percent(*share)),
            None => String::new(),
        };
        let meek = core.top_thread.is_some_and(|(task, share)| share.0 >= busy * MOSTLY && gives_way(scene, task));
        let what = if softirq { softirq::sentence(scene, core) } else { parts(core) };
        let sentence = format!(
            "CPU {} is {} busy ({}) while the box is {} busy ({}){who}{}{others}",
            core.id.0,
            percent(busy),
            what,
            percent(cpu.busy()),
            scene.of_cpus(cpu.busy() * scene.cpus()),
            if meek { GIVES_WAY } else { "" },
        );
        let mut evidence = vec![
            number("busy_ratio", busy),
            number("user_ratio", core.shares.user + core.shares.nice),
            number("system_ratio", core.shares.system),
            number("irq_ratio", core.shares.irq),
            number("softirq_ratio", core.shares.softirq),
            number("hidden_ratio", core.hidden),
            number("box_busy_ratio", cpu.busy()),
            top.map_or(maybe("top_thread", None), |((name, _), _)| text("top_thread", name)),
        ];
        evidence.extend(softirq::evidence(scene, core.id));
        found.push(Suspicion {
            severity: if meek { Severity::Note } else { Severity::Warning },
            subject: Subject::Cpu(core.id),
            value: busy,
            threshold: thresholds.core_busy_ratio,
            unit: "ratio",
            sentence,
            evidence,
            explains: busy / scene.cpus(),
        });
    }
    found
}

/// `user 99.1 %, system 0.70 %`, the parts that matter.
fn parts(core: &CpuUsage) -> String {
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
fn box_is_not_busy<'a>(scene: &Scene<'a>) -> Option<&'a CpuSpan> {
    let interval: &'a crate::interval::Interval = scene.interval;
    interval.cpu.as_ref().filter(|cpu| cpu.busy() < scene.thresholds.box_idle_below_ratio && cpu.cpus.len() > 1)
}

/// So many CPUs, and so many threads, are told one by one: pollers that are pinned may be a hundred.
const TOLD: usize = 8;

fn others(all: usize, one: &str, many: &str) -> String {
    match all.saturating_sub(TOLD) {
        0 => String::new(),
        more => format!("; {} like it", plural(more as f64, one, many)),
    }
}

fn saturated_thread(scene: &Scene) -> Vec<Suspicion> {
    let thresholds = scene.thresholds;
    let (Some(cpu), Some(tasks)) = (box_is_not_busy(scene), &scene.interval.tasks) else { return Vec::new() };
    let is_hot = |thread: &&ThreadSpan| thread.cpu.is_some_and(|used| used.0 >= thresholds.thread_busy_ratio);
    let hot: Vec<&ThreadSpan> = tasks.threads.iter().filter(is_hot).collect();
    let others = others(hot.len(), "more thread", "more threads");
    let mut found = Vec::new();
    // Threads are sorted by identity: the same ones are told each time.
    for thread in hot.into_iter().take(TOLD) {
        let used = thread.cpu.map_or(0.0, |used| used.0);
        let (thread_name, who) = scene.who(thread.id);
        let home = cpu.cpus.iter().find(|core| core.id == thread.processor);
        // ksoftirqd: saturated-core tells of the softirqs that keep it busy.
        if scene.process(thread.id.pid).is_some_and(|process| process.kernel_thread) && home.is_some_and(is_softirq) {
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
            if thread.background { GIVES_WAY } else { "" },
            percent(cpu.busy()),
            scene.of_cpus(cpu.busy() * scene.cpus()),
        );
        found.push(Suspicion {
            severity: if thread.background { Severity::Note } else { Severity::Warning },
            subject: Subject::Task { id: thread.id, name: thread_name },
            value: used,
            threshold: thresholds.thread_busy_ratio,
            unit: "ratio",
            sentence,
            evidence: vec![
                number("cpu_ratio", used),
                number("user_ratio", thread.states.user),
                number("system_ratio", thread.states.system),
                maybe("run_queue_wait_ratio", thread.run_queue_wait.map(|wait| wait.0)),
                number("box_busy_ratio", cpu.busy()),
                number("last_cpu", f64::from(thread.processor.0)),
            ],
            explains: used / scene.cpus(),
        });
    }
    found.extend(turns::in_turn(scene));
    found
}

/// The box, or else the CPUs to which some threads are restricted.
fn cpu_saturated(scene: &Scene) -> Vec<Suspicion> {
    box_saturated(scene).map_or_else(|| crowd::saturated(scene), |whole| vec![whole])
}

fn box_saturated(scene: &Scene) -> Option<Suspicion> {
    let thresholds = scene.thresholds;
    let cpu = scene.interval.cpu.as_ref()?;
    let taken = cpu.busy() + cpu.total.steal;
    if taken < thresholds.cpu_busy_ratio {
        return None;
    }
    let background = waiting_in_background(scene);
    let waiting = (waiting(scene)? - background.unwrap_or(0.0)).max(0.0);
    if waiting < thresholds.cpu_waiting_per_cpu * scene.cpus() {
        return None;
    }
    let wanted = cpu.busy() * scene.cpus() + waiting;
    let critical = waiting >= thresholds.cpu_waiting_critical_per_cpu * scene.cpus();
    let most = most(scene);
    let stolen = match cpu.total.steal >= 0.01 {
        true => format!(" ({} of it stolen by the hypervisor)", percent(cpu.total.steal)),
        false => String::new(),
    };
    let sentence = format!(
        "the CPUs are {} taken{stolen}: {} threads want to run on {}, {} of them wait{most}",
        percent(taken),
        figure(wanted),
        cpus(scene.interval.online_cpus()),
        figure(waiting),
    );
    Some(Suspicion {
        severity: if critical { Severity::Critical } else { Severity::Warning },
        subject: Subject::Box,
        value: waiting / scene.cpus(),
        threshold: thresholds.cpu_waiting_per_cpu,
        unit: "ratio",
        sentence,
        evidence: vec![
            number("busy_ratio", cpu.busy()),
            number("steal_ratio", cpu.total.steal),
            number("waiting_threads", waiting),
            number("wanting_threads", wanted),
            maybe("background_waiting_threads", background),
            maybe("psi_cpu_some_ratio", scene.interval.pressure.cpu_some.map(|share| share.0)),
        ],
        explains: taken.min(1.0),
    })
}

/// Threads that wait for a CPU on average, without what their own quotas may have kept them waiting. Without schedstat, and
/// where tasks are hidden from this user, at least how many more can run than there are CPUs.
pub(super) fn waiting(scene: &Scene) -> Option<f64> {
    let tasks = scene.interval.tasks.as_ref()?;
    let privilege = &scene.interval.host.privilege;
    match tasks.run_queue_wait {
        Some(_) if privilege.hidepid && !privilege.has_cap_sys_ptrace => Some(waits(scene, |_| true).max(excess(scene, tasks))),
        Some(_) => Some(waits(scene, |_| true)),
        None => Some(excess(scene, tasks)),
    }
}

/// Of those that wait, the ones that are meant to wait for all others. `None` without schedstat.
fn waiting_in_background(scene: &Scene) -> Option<f64> {
    scene.interval.tasks.as_ref()?.run_queue_wait.map(|_| waits(scene, |thread| thread.background))
}

/// What these threads waited beyond the time for which their quotas held them back.
fn waits(scene: &Scene, which: fn(&ThreadSpan) -> bool) -> f64 {
    let threads = scene.interval.tasks.as_ref().map_or(&[][..], |tasks| &tasks.threads);
    let quotas = Quotas::of(scene);
    let waits = threads.iter().filter(|thread| which(thread)).filter_map(|thread| {
        let wait = thread.run_queue_wait.filter(|wait| wait.0 > 0.0)?;
        Some((wait.0 - quotas.held_back(scene, thread.id.pid)).max(0.0))
    });
    waits.sum()
}

/// Tasks that can run, the monitor left out, beyond one for each CPU at this moment; the kernel does not count throttled ones
/// among them (procs_running).
fn excess(scene: &Scene, tasks: &TaskSpan) -> f64 {
    let runnable = scene.interval.newer.cpu.as_ref().ok().and_then(|cpu| cpu.running);
    let runnable = runnable.map_or(tasks.counts.running, |running| running.saturating_sub(1));
    (f64::from(runnable) - scene.cpus()).max(0.0)
}

/// For which share of the time quotas may have held back the tasks of each group that has one.
pub(super) struct Quotas<'a>(Above<'a, f64>);

impl<'a> Quotas<'a> {
    /// No longer than the group was held back, its CPUs added, nor than the periods lasted in which it was.
    pub(super) fn of(scene: &Scene<'a>) -> Quotas<'a> {
        let share = |share: Option<Ratio>| share.map_or(1.0, |share| share.0);
        let held = |group: &CgroupSpan| share(group.throttled).min(share(group.throttled_periods));
        Quotas(Above::of(throttled_groups(scene).map(|group| (&group.id, held(group)))))
    }

    /// The share of the time for which its quota, or that of a group above its own, may have held back a thread of a process.
    pub(super) fn held_back(&self, scene: &Scene, pid: u32) -> f64 {
        // Mostly nobody is held back, and then no process need be looked up.
        let cgroup = Some(pid).filter(|_| !self.0.is_empty()).and_then(|pid| scene.process(pid)?.facts.cgroup.as_ref().ok());
        cgroup.map_or(0.0, |cgroup| self.0.containing(cgroup).sum())
    }
}

fn throttled_groups<'a>(scene: &Scene<'a>) -> impl Iterator<Item = &'a CgroupSpan> + Clone + use<'a> {
    let interval: &'a crate::interval::Interval = scene.interval;
    interval.cgroups.iter().filter(|group| group.throttled.is_some_and(|share| share.0 > 0.0))
}

/// `; most: cc1 (4711) 1.20 CPUs, …`
pub(super) fn most(scene: &Scene) -> String {
    let Some(tasks) = &scene.interval.tasks else { return String::new() };
    let mut users: Vec<_> = tasks.active_processes.iter().filter_map(|span| Some((span.cpu?.0, span.id.pid))).collect();
    users.sort_by(|a, b| b.0.total_cmp(&a.0));
    let told = users.iter().take(3).filter(|(cpus, _)| *cpus >= 0.05).filter_map(|(cpus, pid)| {
        let process = scene.process(*pid)?;
        Some(format!("{} ({pid}) {} CPU", name(&process.comm), figure(*cpus)))
    });
    let told: Vec<_> = told.collect();
    if told.is_empty() { String::new() } else { format!("; most: {}", told.join(", ")) }
}

/// The kernel adds up what each CPU was throttled: above the whole time it is no share of it.
fn throttled_words(share: f64) -> String {
    match share {
        _ if share <= 1.0 => format!("{} of the time", percent(share)),
        cpus => format!("on {} CPUs on average", figure(cpus)),
    }
}

fn cpu_throttled(scene: &Scene) -> Vec<Suspicion> {
    let thresholds = scene.thresholds;
    let mut found = Vec::new();
    let held = |group: &&CgroupSpan| group.throttled.is_some_and(|share| share.0 >= thresholds.throttled_ratio);
    let groups = throttled_groups(scene).filter(held);
    let residents = Residents::of(scene, Controller::Cpu, groups.clone().map(|group| &group.id));
    for group in groups {
        let Some(throttled) = group.throttled else { continue };
        let quota = group.quota_cpus.map_or_else(|| "its quota".into(), |cpus| format!("its quota of {} CPU", figure(cpus)));
        let used = group.used_cpus.map_or_else(|| "is held to".into(), |cpus| format!("used {} CPU of", figure(cpus)));
        let periods = group.throttled_periods.map(|share| format!(", in {} of its periods", percent(share.0.min(1.0))));
        let available = scene.interval.cpu.as_ref().map_or(0.0, |cpu| cpu.available());
        let room =
            if available >= 0.1 { format!(" while {} of the box is available", percent(available)) } else { String::new() };
        let sentence = format!(
            "{}cgroup {} {used} {quota}: throttled {}{}{room}; in it: {}",
            if available >= 0.5 { "idle box, throttled container: " } else { "" },
            name(&group.id.path),
            throttled_words(throttled.0),
            periods.unwrap_or_default(),
            members(scene, residents.as_ref(), &group.id, cpu_wanted),
        );
        found.push(Suspicion {
            severity: Severity::Warning,
            subject: Subject::Cgroup(group.id.clone()),
            value: throttled.0,
            threshold: thresholds.throttled_ratio,
            unit: "ratio",
            sentence,
            evidence: vec![
                number("throttled_ratio", throttled.0),
                maybe("throttled_periods_ratio", group.throttled_periods.map(|share| share.0)),
                maybe("quota_cpus", group.quota_cpus),
                maybe("used_cpus", group.used_cpus),
                maybe("psi_cpu_some_ratio", group.pressure.cpu_some.map(|share| share.0)),
                maybe("box_available_ratio", scene.interval.cpu.as_ref().map(|cpu| cpu.available())),
            ],
            explains: throttled.0.min(1.0) / scene.cpus(),
        });
    }
    found
}

fn cpu_wanted(span: &ProcessSpan) -> f64 {
    span.cpu.map_or(0.0, |cpu| cpu.0) + span.run_queue_wait.map_or(0.0, |wait| wait.0)
}

fn cpu_stolen(scene: &Scene) -> Vec<Suspicion> {
    let thresholds = scene.thresholds;
    let Some(cpu) = scene.interval.cpu.as_ref().filter(|cpu| cpu.total.steal >= thresholds.stolen_ratio) else {
        return Vec::new();
    };
    let n = scene.cpus();
    let (got, stolen) = (cpu.busy() * n, cpu.total.steal * n);
    let sentence = format!(
        "the hypervisor gave {} of the {} CPUs asked for: {} of the box was stolen",
        figure(got),
        figure(got + stolen),
        percent(cpu.total.steal),
    );
    vec![Suspicion {
        severity: if cpu.total.steal >= thresholds.stolen_critical_ratio { Severity::Critical } else { Severity::Warning },
        subject: Subject::Box,
        value: cpu.total.steal,
        threshold: thresholds.stolen_ratio,
        unit: "ratio",
        sentence,
        evidence: vec![
            number("steal_ratio", cpu.total.steal),
            number("busy_ratio", cpu.busy()),
            number("got_cpus", got),
            number("asked_cpus", got + stolen),
        ],
        explains: cpu.total.steal,
    }]
}
