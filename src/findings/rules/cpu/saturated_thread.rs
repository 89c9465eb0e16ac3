//! Rule saturated-thread: one thread uses a whole CPU.

use crate::findings::finding::{Kind, Severity, Subject};
use crate::findings::formatting::percent;
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{Candidate, RuleContext, evidence_chain, evidence_number, evidence_optional};
use crate::findings::rules::cpu::clauses::MAX_REPORTED;
use crate::findings::rules::cpu::clauses::unlisted_clause;
use crate::findings::rules::cpu::clock_rate::clock_rate_clause;
use crate::findings::rules::cpu::free_cpus::FreeCpus;
use crate::findings::rules::cpu::kernel_work::kernel_work;
use crate::findings::rules::cpu::low_weight::LowWeightCgroups;
use crate::findings::rules::cpu::priority::{is_low_priority, priority_clause};
use crate::findings::rules::cpu::serialized_threads::serialized_threads;
use crate::findings::rules::cpu::softirq::is_softirq_dominated;
use crate::findings::wait_chain::link::ChainLink;
use crate::findings::wait_chain::pipelines::Pipeline;
use crate::interval::task::ThreadSpan;

pub const SATURATED_THREAD: Rule = Rule {
    kind: Kind::SaturatedThread,
    title: "One thread saturated",
    meaning: "A thread uses a whole CPU all the time, on one CPU or migrating between CPUs so that no single CPU shows it. \
              It is at its limit: more CPUs won't help, only a faster CPU or less work. The same holds for threads that run \
              one at a time because all of them need one lock.",
    computed: "The scheduler's run time of the thread is at least 95 % of the time while at least 0.25 of a CPU is free that it \
               cannot use: idle time of CPUs that are not full themselves, of those that its affinity or cpuset allows where \
               that is known, and these are below 90 % busy, or at least a whole one is idle on CPUs that are half idle or more. The clock rate of its CPU is said where it is below half of the highest one (cpuinfo_max_freq). A note if the thread runs at low priority (nice 10 or \
               more, SCHED_BATCH, SCHED_IDLE) or in a cgroup of low CPU weight, where that was read (cpu-saturated), or if it is a thread of the kernel that polls (io_uring SQPOLL), frees or moves memory (kswapd, kcompactd) or has a nice value above 0 (ksmd). At most eight threads are listed. Threads count as serialized if their process uses 95 % to 110 % of one CPU, no single thread that much or more than 90 % of it, and exactly \
               one of them runs at four of five sub-samples: that they need one lock is an inference, unless half of them wait for one that names its holder, which computes. Named with it are \
               processes that wait in a pipe for its process for at least a fifth of the time, also over further pipes: writers \
               of a full pipe, and readers of an empty one that use at least 1 % of a CPU.",
    caveats: "A batch job that is meant to run like that. A busy-polling thread (DPDK, spinlocks) uses its whole CPU without \
              being limited by it.",
    next_steps: &[
        "what it computes: perf top -t TID",
        "whether its work can be divided among threads",
        "a pipeline is as fast as its slowest part: a parallel program in its place (pigz, zstd -T0), or a cheaper level",
        "serialized threads: processes instead of threads, a finer-grained lock",
    ],
    reference: "Tasks",
    hysteresis: Hysteresis::Sustained,
    evaluate: saturated_thread,
};

fn saturated_thread(context: &RuleContext) -> Vec<Candidate> {
    let thresholds = context.thresholds;
    let (Some(cpu), Some(tasks)) = (&context.interval.cpu, &context.interval.tasks) else { return Vec::new() };
    let is_hot = |thread: &&ThreadSpan| thread.cpu.is_some_and(|used| used.0 >= thresholds.thread_busy_ratio);
    let hot = tasks.threads.iter().filter(is_hot).map(|thread| (thread, FreeCpus::for_thread(context, cpu, thread.id)));
    let hot: Vec<(&ThreadSpan, FreeCpus)> = hot.filter(|(_, free)| free.is_enough(thresholds)).collect();
    let others = unlisted_clause(hot.len(), "more thread", "more threads");
    let low_weights = LowWeightCgroups::from_context(context);
    let mut found = Vec::new();
    // Threads are sorted by identity: the same ones are listed each time.
    for (thread, free) in hot.into_iter().take(MAX_REPORTED) {
        let used = thread.cpu.map_or(0.0, |used| used.0);
        let (thread_name, label) = context.task_label(thread.id);
        let home = cpu.cpus.iter().find(|core| core.id == thread.processor);
        // ksoftirqd: reported by saturated-core.
        if context.process(thread.id.pid).is_some_and(|process| process.kernel_thread) && home.is_some_and(is_softirq_dominated)
        {
            continue;
        }
        let is_full = home.is_some_and(|core| core.busy() >= thresholds.core_busy_ratio);
        let place = match is_full {
            true if context.state.moved_lately(thread.id) => "migrating between CPUs".into(),
            true => format!("on CPU {}", thread.processor.0),
            false => "migrating between CPUs, so no single CPU shows it".into(),
        };
        let low_weight = low_weights.clause(context, thread.id.pid);
        let kernel_work = kernel_work(context, thread);
        let may_wait = is_low_priority(thread) || low_weight.is_some() || kernel_work.is_some();
        let pipeline = Pipeline::from_process(context.interval, thread.id.pid);
        let sentence = format!(
            "{label} uses {} of one CPU, {place}: {}{}{}{}; {}{}{others}",
            percent(used.min(1.0)),
            kernel_work.as_deref().unwrap_or("at its limit, more CPUs won't help"),
            priority_clause(thread),
            low_weight.unwrap_or_default(),
            pipeline.clause(context.interval),
            free.describe(context, cpu),
            clock_rate_clause(context, cpu, |core| core.id == thread.processor),
        );
        let mut evidence = vec![
            evidence_number("cpu_ratio", used),
            evidence_number("user_ratio", thread.states.user),
            evidence_number("system_ratio", thread.states.system),
            evidence_optional("run_queue_wait_ratio", thread.run_queue_wait.map(|wait| wait.0)),
            evidence_number("host_busy_ratio", cpu.busy()),
            evidence_number("free_cpus", free.cpus),
            evidence_number("last_cpu", f64::from(thread.processor.0)),
        ];
        let mut links = pipeline.links(context.interval);
        links.push(ChainLink::new(format!("{label} uses {} of one CPU", percent(used.min(1.0))), "the scheduler's run time"));
        let this_cpu = home.filter(|_| is_full && !context.state.moved_lately(thread.id));
        let limit = match this_cpu {
            None if is_full => "one CPU at a time; it moves between CPUs".to_owned(),
            Some(core) => format!("CPU {}, which is {} busy", thread.processor.0, percent(core.busy())),
            None => "one CPU at a time; it moves between CPUs, so no single CPU shows it".to_owned(),
        };
        links.push(ChainLink::new(limit, "/proc/PID/task/TID/stat, /proc/stat"));
        evidence.extend(evidence_chain(links));
        found.push(Candidate {
            severity: if may_wait { Severity::Note } else { Severity::Warning },
            subject: Subject::Task { id: thread.id, name: thread_name },
            value: used,
            threshold: thresholds.thread_busy_ratio,
            unit: "ratio",
            sentence,
            evidence,
            explained_share: used / context.cpu_count(),
        });
    }
    found.extend(serialized_threads(context));
    found
}
