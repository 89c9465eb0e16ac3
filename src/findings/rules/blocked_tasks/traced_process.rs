//! Rule traced-process: a process runs under strace or a debugger, which stops it at each system call or signal.

use crate::findings::finding::{Kind, Severity, Subject};
use crate::findings::formatting::{cpu_time, lossy_name, percent};
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{
    Candidate, RuleContext, evidence_chain, evidence_number, evidence_optional, evidence_text,
};
use crate::findings::wait_chain::link::ChainLink;
use crate::interval::traced_processes::TracedSpan;
use crate::sample::task::Process;
use crate::units::reaches_threshold;

pub const TRACED_PROCESS: Rule = Rule {
    kind: Kind::TracedProcess,
    title: "Traced process",
    meaning: "strace, gdb or another tracer (ptrace) is attached to a process that works: the kernel stops the thread at each system \
              call or signal, and the tracer lets it go on. A program with many system calls becomes ten to a hundred times slower.",
    computed: "The time in which a thread of the process neither ran nor waited for a CPU (schedstat), times the share of state t in the \
               sub-samples that saw the stopped threads so; of the thread with most. The threshold must be reached with one sub-sample more in \
               another state. The process ran in the interval. The tracer is `TracerPid` of /proc/PID/task/TID/status.",
    caveats: "Some sandboxes and emulators always run their programs under ptrace. A process that stands at a breakpoint does not run: it is \
              reported as stuck-server if connections wait for it. perf and eBPF do not stop threads.",
    next_steps: &[
        "the tracer: grep TracerPid /proc/PID/status; ps -o user,lstart,args -p TRACER",
        "end the tracer with SIGINT, so that it detaches; perf trace or eBPF see system calls at a fraction of the cost",
    ],
    reference: "Traced processes",
    hysteresis: Hysteresis::TwoOfThree,
    evaluate: traced_process,
};

fn traced_process(context: &RuleContext) -> Vec<Candidate> {
    let threshold = context.thresholds.traced_ratio;
    let often = |span: &&TracedSpan| reaches_threshold(span.least_stopped_share, threshold);
    let spans = context.interval.traced_processes.iter().filter(often);
    spans.filter_map(|span| Some(candidate(context, span, context.process(span.process.pid)?))).collect()
}

fn candidate(context: &RuleContext, span: &TracedSpan, process: &Process) -> Candidate {
    let tracer = context.process(span.tracer);
    let span_of = |tracer: &Process| context.interval.tasks.as_ref()?.process(tracer).cpu;
    let tracer_cpus = tracer.and_then(span_of).map(|cpu| cpu.0);
    let label = tracer
        .map_or_else(|| format!("process {}", span.tracer), |tracer| format!("{} ({})", lossy_name(&tracer.comm), span.tracer));
    let cost = tracer_cpus.map_or_else(String::new, |cpus| format!(", which uses {}", cpu_time(cpus)));
    Candidate {
        severity: Severity::Warning,
        subject: Subject::Group { id: process.group(), name: process.comm.clone() },
        value: span.stopped_share,
        threshold: context.thresholds.traced_ratio,
        unit: "ratio",
        sentence: format!(
            "{} ({}) is traced by {label}{cost}: stopped {} of the time, at system calls or signals",
            lossy_name(&process.comm),
            process.pid,
            percent(span.stopped_share),
        ),
        evidence: vec![
            evidence_number("stopped_ratio", span.stopped_share),
            evidence_number("tracer_pid", f64::from(span.tracer)),
            tracer.map_or(evidence_optional("tracer", None), |tracer| evidence_text("tracer", tracer.comm.clone())),
            evidence_optional("tracer_cpus", tracer_cpus),
        ]
        .into_iter()
        .chain(evidence_chain([
            ChainLink::new(
                format!("{} ({}): stopped {} of the time", lossy_name(&process.comm), process.pid, percent(span.stopped_share)),
                "state t in /proc/PID/task/TID/stat",
            ),
            ChainLink::new(format!("{label} traces it{cost}"), "TracerPid in /proc/PID/task/TID/status"),
        ]))
        .collect(),
        explained_share: 0.0,
    }
}
