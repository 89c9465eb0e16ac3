//! Two scenarios side by side on one machine, drawn at random: each fault is still found beside the other one, and is the
//! consequence of its own causes only. `STALLTOP_SEED` and `STALLTOP_PAIRS` draw others, and more.

use std::collections::BTreeSet;
use std::env;

use stalltop::findings::{Finding, FindingKey, Kind, Severity, Subject};

use crate::format::{Case, Phase};
use crate::machine::Machine;
use crate::network::SOCKET_OWNERS;
use crate::placed::placed;
use crate::{evaluate, files, sentences};

/// Findings about the sum of both scenarios: neither alone needs to have them.
const SUMS: [Kind; 3] = [Kind::IdleButBlocked, Kind::LoadNotCpu, Kind::CpuSaturated];

#[test]
fn of_two_scenarios_on_one_machine_both_faults_are_found() {
    let from_environment = |name: &str| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = from_environment("STALLTOP_SEED").unwrap_or(14);
    let pairs = from_environment("STALLTOP_PAIRS").unwrap_or(40);
    let cases: Vec<Case> = files().into_iter().flat_map(|(_, file)| file.case).filter(is_eligible).collect();
    let mut random = Random(seed);
    let (mut played, mut wrong) = (0, Vec::new());
    while played < pairs {
        let (first, second) = (random.below(cases.len()), random.below(cases.len()));
        let (a, b) = (&cases[first], &cases[second]);
        if first == second || !are_compatible(&a.phase[0], &b.phase[0]) {
            continue;
        }
        played += 1;
        let name = format!("seed {seed}: {:?} beside {:?}", a.title, b.title);
        Pair::new(a, b).check(|complaint| wrong.push(format!("{name}: {complaint}")));
    }
    assert!(wrong.is_empty(), "{} complaints of {pairs} pairs:\n{}", wrong.len(), wrong.join("\n"));
}

fn is_of_little_idle_time(finding: &Finding) -> bool {
    finding.kind == Kind::KernelLockContention
        && finding.explained_share < stalltop::findings::Thresholds::default().kernel_lock_warning_ratio
}

/// A linear congruential generator (Knuth's MMIX).
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % most
    }
}

/// A constant load of one phase whose parts can be moved to other CPUs, and that raises more than notes.
fn is_eligible(case: &Case) -> bool {
    let [phase] = case.phase.as_slice() else { return false };
    let bound = phase.process.iter().any(|process| process.allowed.is_some() || process.ends || process.renewed.is_some())
        || phase.cgroup.iter().any(|group| group.cpus.is_some());
    let counted = phase.exits.is_some() || phase.forks.is_some() || phase.lost > 0.0 || phase.connection_scan_interval != 1;
    let constant = phase.gap_seconds == 0.0 && phase.suspended_seconds == 0.0 && phase.seconds == 1.0;
    let kills = phase.memory.as_ref().is_some_and(|memory| memory.oom_kills > 0);
    let raises = phase.expect.finding.iter().any(|finding| finding.severity > Severity::Note);
    // The owners of sockets have the same pids in all scenarios.
    let owns_sockets = phase.process.iter().any(|process| SOCKET_OWNERS.contains(&process.pid));
    // The run time of all tasks beside the ticks of all CPUs, which scenarios may have without tasks.
    let compares_sums = phase.expect.finding.iter().any(|finding| finding.kind == Kind::HiddenCpu);
    !compares_sums
        && !case.hidepid
        && case.hypervisor.is_none()
        && !bound
        && !counted
        && constant
        && !kills
        && !owns_sockets
        && raises
}

/// Whether no figure of the host is in both.
fn are_compatible(a: &Phase, b: &Phase) -> bool {
    let has_peer = |phase: &Phase| phase.process.iter().any(|process| process.waits.peer > 0);
    let is_blocked = |phase: &Phase| {
        phase.process.iter().any(|process| {
            process.holder.is_some() || !process.owner.is_empty() || process.waits.memory > 0 || process.waits.hidden > 0
        })
    };
    // SYNs and SYN/ACKs that are sent again are one counter; clients of a full accept queue send them, too.
    let repeats_handshakes = |phase: &Phase| {
        phase.tcp.as_ref().is_some_and(|tcp| tcp.syn > 0.0)
            || phase.listen.as_ref().is_some_and(|listen| listen.cookies + listen.syn_drops + listen.drops > 0.0)
    };
    // The owners of limits and of listening sockets have the same pid.
    let has_owner = |phase: &Phase| {
        phase.limit.iter().any(|limit| limit.owner.is_some())
            || phase.listen.is_some()
            || phase.namespace.iter().any(|namespace| namespace.listen.is_some())
    };
    let both = [
        (has_owner(a), has_owner(b)),
        (repeats_handshakes(a), repeats_handshakes(b)),
        (a.tcp.is_some() || !a.peer.is_empty(), b.tcp.is_some() || !b.peer.is_empty()),
        (a.udp.is_some(), b.udp.is_some()),
        (a.listen.is_some(), b.listen.is_some()),
        (!a.waiting.is_empty(), !b.waiting.is_empty()),
        (!a.unix_sender.is_empty(), !b.unix_sender.is_empty()),
        (!a.softnet.is_empty(), !b.softnet.is_empty()),
        (!a.limit.is_empty(), !b.limit.is_empty()),
        (a.memory.is_some(), b.memory.is_some()),
        (a.frequency.is_some(), b.frequency.is_some()),
        (has_peer(a), has_peer(b)),
        // Their blocked threads are one figure of the host: different causes only.
        (is_blocked(a), is_blocked(b)),
    ];
    both.iter().all(|&(in_a, in_b)| !(in_a && in_b))
}

/// The phase in which both happen.
fn merged(a: &Phase, b: &Phase) -> Phase {
    let mut both = a.clone();
    let b = b.clone();
    // The packets of all interfaces are segments of one counter.
    let (sent_a, sent_b) = (sent_packets(a), sent_packets(&b));
    both.core.extend(b.core);
    both.process.extend(b.process);
    both.disk.extend(b.disk);
    both.nic.extend(b.nic);
    both.namespace.extend(b.namespace);
    both.peer.extend(b.peer);
    both.softnet.extend(b.softnet);
    both.waiting.extend(b.waiting);
    both.unix_sender.extend(b.unix_sender);
    both.limit.extend(b.limit);
    both.cgroup.extend(b.cgroup);
    both.cgroup.sort_by(|a, b| a.path.cmp(&b.path));
    both.weight.extend(b.weight);
    both.tcp.iter_mut().for_each(|tcp| tcp.out += sent_b);
    let tcp_b = b.tcp.map(|tcp| crate::format::Tcp { out: tcp.out + sent_a, ..tcp });
    both.tcp = both.tcp.or(tcp_b);
    both.udp = both.udp.or(b.udp);
    both.listen = both.listen.or(b.listen);
    both.memory = both.memory.or(b.memory);
    both.frequency = both.frequency.or(b.frequency);
    both.pressure.cpu = both.pressure.cpu.max(b.pressure.cpu);
    both.pressure.io = both.pressure.io.max(b.pressure.io);
    both.pressure.memory = both.pressure.memory.max(b.pressure.memory);
    both.pressure.absent |= b.pressure.absent;
    both.load += b.load;
    both.runnable = both.runnable.zip(b.runnable).map(|(a, b)| a + b);
    both
}

fn sent_packets(phase: &Phase) -> f64 {
    phase.nic.iter().map(|nic| nic.tx_packets).sum()
}

fn segment_parts(a: &Phase, b: &Phase) -> [f64; 2] {
    [(a, b), (b, a)].map(|(phase, other)| {
        let own = phase.tcp.as_ref().map_or(0.0, |tcp| tcp.out);
        own / (own + sent_packets(other)).max(f64::MIN_POSITIVE)
    })
}

fn is_interrupted(phase: &Phase) -> bool {
    let all = phase.core.iter().map(|core| &core.shares).chain([&phase.cpu]);
    all.into_iter().any(|shares| shares.irq + shares.softirq + shares.steal > 0.0)
}

/// The active findings after each interval.
fn play(case: &Case) -> Vec<Vec<Finding>> {
    let mut after_each = Vec::new();
    evaluate(case, &mut Machine::new(case), |_, evaluated| after_each.push(evaluated.active.iter().cloned().collect()));
    after_each
}

/// What a finding is about: the numbers of devices differ between a scenario alone and beside the other one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key(Kind, String);

impl Key {
    fn new(finding: &Finding) -> Key {
        Key(finding.kind, about(&finding.subject))
    }
}

fn about(subject: &Subject) -> String {
    match subject {
        Subject::Disk { name, .. } => name.to_string_lossy(),
        Subject::Nic(id) => id.name.to_string_lossy(),
        other => format!("{other:?}"),
    }
}

struct Pair {
    /// The findings of each scenario alone on the machine of both, and on its own one
    alone: [Vec<Finding>; 2],
    on_own: [Vec<Finding>; 2],
    /// Its part of the CPUs
    parts: [f64; 2],
    /// Its part of the segments that TCP sends
    segments: [f64; 2],
    /// Whether it has stolen or interrupt time, which run time of the other one's threads may contain
    is_interrupted: [bool; 2],
    together: Vec<Vec<Finding>>,
}

impl Pair {
    fn new(a: &Case, b: &Case) -> Pair {
        let cpus = a.cpus + b.cpus;
        let placed = [placed(a, 0, cpus, false), placed(b, a.cpus, cpus, true)];
        let both = Case { phase: vec![merged(&placed[0].phase[0], &placed[1].phase[0])], ..placed[0].clone() };
        let last = |case: &Case| play(case).pop().unwrap_or_default();
        let own = |case: &Case, is_second| last(&self::placed(case, 0, case.cpus, is_second));
        Pair {
            alone: [last(&placed[0]), last(&placed[1])],
            on_own: [own(a, false), own(b, true)],
            parts: [a, b].map(|case| f64::from(case.cpus) / f64::from(cpus)),
            segments: segment_parts(&placed[0].phase[0], &placed[1].phase[0]),
            is_interrupted: [a, b].map(|case| is_interrupted(&case.phase[0])),
            together: play(&both),
        }
    }

    fn check(&self, mut complain: impl FnMut(String)) {
        let Some(last) = self.together.last() else { return };
        // More threads than CPUs on the whole host: no CPU is free for another thread.
        let host_is_saturated =
            last.iter().any(|finding| finding.kind == Kind::CpuSaturated && finding.subject == Subject::Host);
        let find = |key: &Key| last.iter().find(|finding| Key::new(finding) == *key);
        for (at, alone) in self.alone.iter().enumerate() {
            let is_required = |finding: &&Finding| {
                let is_hidden = host_is_saturated && finding.kind == Kind::SaturatedThread;
                finding.severity > Severity::Note && !is_hidden && self.is_required(finding, at)
            };
            for finding in alone.iter().filter(is_required) {
                match find(&Key::new(finding)) {
                    None => complain(format!("lost: {} among {}", sentences(std::slice::from_ref(finding)), sentences(last))),
                    // The other one uses the CPUs that were idle: the lock costs no more than a note says.
                    Some(now) if is_of_little_idle_time(now) => {}
                    Some(now) if now.severity < Severity::Warning => {
                        complain(format!("only a note: {}, alone {}", sentences(std::slice::from_ref(now)), finding.sentence));
                    }
                    Some(_) => {}
                }
            }
        }
        let owners = |key: &Key| -> [bool; 2] {
            [0, 1].map(|at| self.alone[at].iter().chain(&self.on_own[at]).any(|finding| Key::new(finding) == *key))
        };
        // A difference of sums: beside another load the CPU may not be known.
        let has_hidden = |at: usize| self.alone[at].iter().any(|finding| finding.kind == Kind::HiddenCpu);
        // Where little of the CPU time is idle the queue is reported in place of it.
        let names_group = |at: usize, finding: &Finding| {
            let Subject::Group { name, .. } = &finding.subject else { return false };
            let name = String::from_utf8_lossy(name.as_bytes()).into_owned();
            self.alone[at].iter().any(|alone| alone.kind == Kind::IdleButBlocked && alone.sentence.contains(&name))
        };
        for finding in last {
            let is_hidden_somewhere = finding.kind == Kind::HiddenCpu && finding.subject == Subject::Host;
            let owner = match owners(&Key::new(finding)) {
                [false, false] if is_hidden_somewhere => [0, 1].map(has_hidden),
                [false, false] if finding.kind == Kind::MutexQueue => [0, 1].map(|at| names_group(at, finding)),
                owner => owner,
            };
            if owner == [false, false] && !SUMS.contains(&finding.kind) {
                complain(format!("in neither of them: {}", sentences(std::slice::from_ref(finding))));
            }
            // A figure of the host may be of both.
            let Some(cause) = finding.follows_from.as_ref().filter(|cause| cause.subject != Subject::Host) else { continue };
            let of_cause = owners(&Key(cause.kind, about(&cause.subject)));
            if finding.subject != Subject::Host && !(0..2).any(|at| owner[at] && of_cause[at]) {
                complain(format!("follows from a fault of the other one, {cause:?}: {}", finding.sentence));
            }
        }
        self.check_consequences(last, &mut complain);
        self.check_first(last, &mut complain);
        let settled: BTreeSet<Vec<FindingKey>> = self.together[self.together.len() * 2 / 3..]
            .iter()
            .map(|findings| findings.iter().map(Finding::key).collect())
            .collect();
        if settled.len() > 1 {
            complain(format!("the order changes at constant load: {settled:?}"));
        }
    }

    /// Whether a finding must be there beside the other scenario: not one about a share of the host, of which the other scenario
    /// uses a part.
    fn is_required(&self, finding: &Finding, at: usize) -> bool {
        let own = self.on_own[at].iter().find(|own| Key::new(own) == Key::new(finding));
        match finding.subject {
            // A share of the segments that the host sends.
            _ if finding.kind == Kind::TcpRetransmits => {
                own.is_some_and(|own| own.value * self.segments[at] >= own.threshold * 1.05)
            }
            // A function that is not known may wait for a device of the other scenario.
            _ if finding.sentence.contains("not for storage") => false,
            Subject::Host if finding.unit == "ratio" => {
                own.is_some_and(|own| own.value * self.parts[at] >= own.threshold * 1.05 && own.severity > Severity::Note)
            }
            // Alone, the CPUs of the other scenario are the idle ones.
            _ if matches!(finding.kind, Kind::SaturatedThread | Kind::KernelLockContention) => own.is_some(),
            // Which time is hidden is not known where the run time may contain other time.
            Subject::Host if finding.kind == Kind::HiddenCpu => !self.is_interrupted[1 - at],
            // On a busy host a CPU that no single thread fills is not reported.
            _ if finding.kind == Kind::SaturatedCore => false,
            _ => true,
        }
    }

    /// What follows from a cause alone follows from it beside the other scenario, too, while the cause is active.
    fn check_consequences(&self, last: &[Finding], mut complain: impl FnMut(String)) {
        // What blocked threads wait for, or the load average, may be mostly that of the other scenario.
        for consequence in self.alone.iter().flatten().filter(|finding| finding.subject != Subject::Host) {
            let Some(cause) = &consequence.follows_from else { continue };
            let is_active = last.iter().any(|finding| Key::new(finding) == Key(cause.kind, about(&cause.subject)));
            let now = last.iter().find(|finding| Key::new(finding) == Key::new(consequence));
            if let Some(now) = now.filter(|finding| is_active && finding.follows_from.is_none()) {
                complain(format!("follows from nothing, alone from {cause:?}: {}", now.sentence));
            }
        }
    }

    /// No incident of the same severity loses clearly more of the host's time than the first one.
    fn check_first(&self, last: &[Finding], mut complain: impl FnMut(String)) {
        let Some(first) = last.first() else { return };
        let incidents = last.chunk_by(|_, finding| finding.follows_from.is_some());
        let lost = |finding: &Finding| if is_used_time(finding) { 0.0 } else { finding.explained_share };
        let weight = |incident: &[Finding]| {
            let worst = incident.iter().map(|finding| finding.severity).max();
            let largest = |share: &dyn Fn(&Finding) -> f64| incident.iter().map(share).fold(0.0, f64::max);
            (worst, largest(&|finding| finding.explained_share), largest(&lost))
        };
        let weights: Vec<_> = incidents.map(weight).collect();
        let (first_severity, first_share, _) = weights[0];
        // What fails or stops has no share of the host, or a small one, and comes before used time; so does memory that tasks wait for.
        let may_come_first = first_share == 0.0 || matches!(first.kind, Kind::CpuThrottled | Kind::MemoryPressure);
        for &(severity, share, lost) in &weights[1..] {
            let weighs_more =
                if may_come_first { lost >= first_share.max(0.25) + 0.05 } else { share > first_share * 1.25 + 0.05 };
            if severity > first_severity || severity == first_severity && weighs_more {
                complain(format!(
                    "the first is {}, of {first_share}, before one of {share}: {}",
                    first.sentence,
                    sentences(last)
                ));
            }
        }
    }
}

/// CPU time that is used, not lost.
fn is_used_time(finding: &Finding) -> bool {
    matches!(finding.kind, Kind::SaturatedCore | Kind::SaturatedThread | Kind::HiddenCpu | Kind::ShortLivedProcesses)
}
