//! CPU time that the clock tick does not see, or sees twice: /proc/stat, and every tool that reads it, is wrong then.

use crate::findings::cpu::most;
use crate::findings::rule::{Patience, Rule};
use crate::findings::scene::{Scene, Suspicion, maybe, number, text};
use crate::findings::words::{figure, percent};
use crate::findings::{Kind, Severity, Subject};
use crate::interval::cpu::{CpuSpan, CpuUsage};

pub(in crate::findings) const HIDDEN_CPU: Rule = Rule {
    kind: Kind::HiddenCpu,
    title: "Work that the clock tick does not see",
    meaning: "/proc/stat looks at each CPU only when the clock ticks; the scheduler counts every switch. They disagree: something \
              sleeps whenever the tick comes, or runs only then, by design or because a timer is in step with it. The percentages \
              of top, mpstat, sar and vmstat are wrong for this machine; run times of tasks (schedstat, utime and stime) are right.",
    computed: "Run time of all tasks (those that ended too, by what their parents got) against the ticks of /proc/stat: more than 5 % \
               of a CPU apart in one direction for 3 intervals, and apart by more than reading one after the other (skew) and chance \
               (4 standard deviations of what 100 ticks a second see, over these intervals) explain. A CPU is named where threads that \
               stayed on it ran more than its ticks; ticks above run time count only where the fields of /proc/stat add up to more \
               than the time that passed. Less than a quarter of a CPU that no one CPU hides is a note.",
    wrong: "Work that is woken by a timer of the tick itself hides like that without meaning to. On a virtual machine whose steal \
            time the hypervisor does not tell, run time contains stolen time.",
    next: &[
        "the thread's timers: strace -c -p PID, /proc/PID/timers",
        "judge CPU use by run time: pidstat reads it, /proc/PID/task/TID/schedstat has it",
    ],
    patience: Patience::AtOnce,
    suspect: hidden_cpu,
};

/// So much of one CPU, hidden by tasks that move between CPUs, is a warning.
const SCATTERED_CPUS: f64 = 0.25;

fn hidden_cpu(scene: &Scene) -> Vec<Suspicion> {
    let Some(cpu) = &scene.interval.cpu else { return Vec::new() };
    let Some(gap) = scene.streaks.apart(scene.thresholds) else { return Vec::new() };
    if gap < 0.0 {
        return vec![counted_twice(scene, cpu, -gap)];
    }
    let hiding: Vec<Suspicion> =
        cpu.cpus.iter().filter(|core| core.hidden > 0.0).map(|core| hides_on(scene, cpu, core)).collect();
    if hiding.is_empty() { vec![hides_somewhere(scene, cpu, gap)] } else { hiding }
}

fn hides_on(scene: &Scene, cpu: &CpuSpan, core: &CpuUsage) -> Suspicion {
    let shares = &core.shares;
    let (top_name, who) = who(scene, core);
    let elsewhere = if shares.unaccounted >= 0.02 {
        format!("{} of that CPU's time is in none of its fields", percent(shares.unaccounted))
    } else {
        "it takes the rest for idle".into()
    };
    let sentence = format!(
        "{who} CPU {} by the scheduler's count, but /proc/stat saw only {} busy there, and {elsewhere}: it sleeps when the clock \
         ticks; do not trust the percentages of this CPU",
        core.id.0,
        percent(shares.busy()),
    );
    suspicion(scene, cpu, Some(core), core.hidden, sentence, top_name)
}

/// The thread that ran there most, and how much: `cheat (4711) used 77.0 % of`.
fn who(scene: &Scene, core: &CpuUsage) -> (Option<crate::sample::Name>, String) {
    let used = core.scheduler_busy.min(1.0);
    match core.top_thread.map(|(task, share)| (scene.who(task), share.0.min(1.0))) {
        Some(((name, who), share)) if share >= used * 0.9 => (Some(name), format!("{who} used {} of", percent(share))),
        Some(((name, who), share)) => (Some(name), format!("tasks ({who} most: {}) used {} of", percent(share), percent(used))),
        None => (None, format!("tasks used {} of", percent(used))),
    }
}

fn hides_somewhere(scene: &Scene, cpu: &CpuSpan, gap: f64) -> Suspicion {
    let sentence = format!(
        "tasks used {} CPUs by the scheduler's count, but /proc/stat saw only {}: {} CPUs of work sleep when the clock ticks, and \
         move between CPUs; do not trust percentages that rest on ticks{}",
        figure(cpu.scheduler_busy_cpus.unwrap_or(0.0)),
        figure(cpu.tick_busy_cpus),
        figure(gap),
        most(scene),
    );
    // Throttled I/O and paced packets are woken by timers of the tick: a little of that is on every box.
    let severity = if gap < SCATTERED_CPUS { Severity::Note } else { Severity::Warning };
    Suspicion { severity, ..suspicion(scene, cpu, None, gap, sentence, None) }
}

fn counted_twice(scene: &Scene, cpu: &CpuSpan, gap: f64) -> Suspicion {
    let core = cpu.cpus.iter().max_by(|a, b| a.shares.excess.total_cmp(&b.shares.excess));
    let core = core.filter(|core| core.shares.excess >= gap / 2.0);
    let (place, top) = match core {
        Some(core) => {
            let top = core.top_thread.map(|(task, _)| scene.who(task));
            let named = top.as_ref().map_or_else(String::new, |(_, who)| format!(", most of it {who}"));
            let place = format!(
                "/proc/stat counts {} of CPU {}'s time, as its tasks{named} run whenever the clock ticks",
                percent(1.0 + core.shares.excess),
                core.id.0,
            );
            (place, top.map(|(name, _)| name))
        }
        None => ("/proc/stat counts more time than passed, as tasks run whenever the clock ticks".to_owned(), None),
    };
    let sentence = format!(
        "{place}: {} CPUs busy by ticks, {} by the scheduler's count; do not trust percentages that rest on ticks",
        figure(cpu.tick_busy_cpus.max(cpu.accounting.map_or(0.0, |clocks| clocks.tick_cpus))),
        figure(cpu.scheduler_busy_cpus.unwrap_or(0.0)),
    );
    suspicion(scene, cpu, core, gap, sentence, top)
}

/// `value` is in CPUs; on one CPU that is its share.
fn suspicion(
    scene: &Scene,
    cpu: &CpuSpan,
    core: Option<&CpuUsage>,
    value: f64,
    sentence: String,
    top: Option<crate::sample::Name>,
) -> Suspicion {
    Suspicion {
        severity: Severity::Warning,
        subject: core.map_or(Subject::Box, |core| Subject::Cpu(core.id)),
        value,
        threshold: scene.thresholds.hidden_cpus,
        unit: if core.is_some() { "ratio" } else { "count" },
        sentence,
        evidence: vec![
            maybe("scheduler_busy_cpus", cpu.scheduler_busy_cpus),
            number("tick_busy_cpus", cpu.tick_busy_cpus),
            maybe("core_scheduler_ratio", core.map(|core| core.scheduler_busy)),
            maybe("core_tick_ratio", core.map(|core| core.shares.busy())),
            maybe("core_unaccounted_ratio", core.map(|core| core.shares.unaccounted)),
            maybe("core_counted_twice_ratio", core.map(|core| core.shares.excess)),
            maybe("chance_cpus", cpu.accounting.map(|clocks| clocks.variance.sqrt())),
            maybe("skew_cpus", cpu.accounting.map(|clocks| clocks.read_skew_cpus)),
            top.map_or(maybe("top_thread", None), |name| text("top_thread", name)),
        ],
        explains: value.min(scene.cpus()) / scene.cpus(),
    }
}
