//! Rule cpu-stolen: the hypervisor ran other guests.

use crate::findings::finding::{Kind, Severity, Subject};
use crate::findings::formatting::{percent, significant_digits};
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{Candidate, RuleContext, evidence_chain, evidence_number};
use crate::findings::wait_chain::link::ChainLink;

pub const CPU_STOLEN: Rule = Rule {
    kind: Kind::CpuStolen,
    title: "CPU time stolen by the hypervisor",
    meaning: "This machine is virtual, and the hypervisor ran other guests on its CPUs while tasks here were runnable.",
    computed: "steal at least 5 % of the host; critical from 50 %.",
    caveats: "Some hypervisors do not report steal; some report it when the guest is limited by its own contract.",
    next_steps: &[
        "the load of the physical machine, or the instance's CPU credits",
        "noisy neighbours: another or a dedicated physical machine",
    ],
    reference: "CPU time",
    hysteresis: Hysteresis::TwoOfThree,
    evaluate: cpu_stolen,
};

fn cpu_stolen(context: &RuleContext) -> Vec<Candidate> {
    let thresholds = context.thresholds;
    let Some(cpu) = context.interval.cpu.as_ref().filter(|cpu| cpu.total.steal >= thresholds.stolen_ratio) else {
        return Vec::new();
    };
    let n = context.cpu_count();
    let (got, stolen) = (cpu.busy() * n, cpu.total.steal * n);
    let sentence = format!(
        "the hypervisor gave {} of the {} CPUs needed: {} of the host's CPU time was stolen",
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
        ]
        .into_iter()
        .chain(evidence_chain([
            ChainLink::new(format!("tasks need {} CPUs", significant_digits(got + stolen)), "/proc/stat (busy and steal)"),
            ChainLink::new(format!("the hypervisor gives {} of them", significant_digits(got)), "/proc/stat (steal)"),
        ]))
        .collect(),
        explained_share: cpu.total.steal,
    }]
}
