//! Rule oom-kill: the kernel killed a process for lack of memory.

use crate::findings::finding::{Kind, Severity, Subject};
use crate::findings::formatting::{bytes, plural};
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{Candidate, RuleContext, evidence_number, evidence_optional, evidence_text};
use crate::interval::cgroup::CgroupSpan;

pub const OOM_KILL: Rule = Rule {
    kind: Kind::OomKill,
    title: "OOM kill",
    meaning: "The host, or a cgroup with a limit, ran out of memory, and the kernel killed a process.",
    computed: "Any growth of oom_kill in /proc/vmstat. A cgroup is named if oom_kill of its memory.events grew, and its limit if `oom` in that file \
               did, too (v1: always, by memory.oom_control). Reported for five intervals after the one that showed it.",
    caveats: "A cgroup may be meant to be killed at its limit (a job with a memory limit).",
    next_steps: &["dmesg: which process was killed, in which cgroup", "the cgroup's limit, or which processes have grown"],
    reference: "Memory and pressure",
    hysteresis: Hysteresis::Immediate,
    evaluate: oom_kill,
};

fn oom_kill(context: &RuleContext) -> Vec<Candidate> {
    let Some(memory) = &context.interval.memory else { return Vec::new() };
    let Some(kills) = memory.oom_kills.filter(|&kills| kills > 0) else { return Vec::new() };
    let kills = kills as f64;
    let groups = &context.interval.cgroups;
    // v2 counts a kill in ancestor groups, too: the group with the longest path is the one at its limit, or the nearest to it.
    // Of nested groups with limits, only the one whose limit was met counts an `oom`, and those above it.
    let counted = groups.iter().filter(|group| group.oom_kills.is_some_and(|kills| kills > 0));
    let is_at_own_limit = |group: &CgroupSpan| group.limit_ooms.is_some_and(|ooms| ooms > 0);
    let counted = counted.max_by_key(|group| (is_at_own_limit(group), group.id.path.as_bytes().len()));
    // A group at its limit whose own count did not grow had no kill.
    let at_limit = groups.iter().filter(|group| group.oom_kills != Some(0)).find(|group| {
        let limit = group.memory_limit.map_or(f64::INFINITY, |limit| limit.0 as f64);
        group.memory_used.is_some_and(|used| used.0 as f64 >= limit * context.thresholds.memory_limit_ratio)
    });
    let limit = |group: &CgroupSpan| group.memory_limit.map_or_else(|| "-".into(), |limit| bytes(limit.0 as f64));
    let whose = match (counted, at_limit) {
        (Some(group), _) if group.limit_ooms == Some(0) => {
            format!(
                "; in {}, which was not at its limit: memory of the host, or of a group above it, ran out",
                context.cgroup_name(&group.id)
            )
        }
        (Some(group), _) => format!("; in {}, whose limit is {}", context.cgroup_name(&group.id), limit(group)),
        (None, Some(group)) => format!("; {} is at its memory limit", context.cgroup_name(&group.id)),
        (None, None) => String::new(),
    };
    vec![Candidate {
        severity: Severity::Critical,
        subject: Subject::Host,
        value: kills,
        threshold: 0.0,
        unit: "count",
        sentence: format!("the OOM killer killed {}{whose}", plural(kills, "process", "processes")),
        evidence: vec![
            evidence_number("oom_kills", kills),
            evidence_optional("available_bytes", memory.available.map(|available| available.0 as f64)),
            evidence_optional(
                "cgroups_at_limit",
                counted.or(at_limit).filter(|group| group.limit_ooms != Some(0)).map(|_| 1.0),
            ),
            counted
                .or(at_limit)
                .map_or(evidence_optional("cgroup", None), |group| evidence_text("cgroup", group.id.path.clone())),
        ],
        explained_share: 0.0,
    }]
}
