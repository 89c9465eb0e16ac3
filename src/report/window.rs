//! A window of time: its mean figures, and the findings that were active at its end or ended in it.

use std::sync::Arc;

use super::formatting::printable;
use super::mean_figures::{MeanFigures, Means};
use super::missing::{
    CLOSED_NAMESPACES, HIDDEN_NAMESPACES, HIDDEN_PROCESSES, HIDDEN_WAIT_CHANNELS, UNREAD_NAMESPACES, missing_readings,
};
use crate::figures::FigureInput;
use crate::findings::{ActiveFindings, Evaluation, Finding, Kind, Severity, cross_checks};
use crate::interval::idle_blocked::CrossChecks;
use crate::sample::network::namespaces::NetworkNamespaces;
use crate::sample::{Absent, Host, Instant};
use crate::units::SmallSort;
use crate::units::format::{plural, pluralize};

/// The kinds of findings that are reported: only those in `only`, if any, without those in `ignore`.
#[derive(Clone, Debug, Default)]
pub struct KindFilter {
    pub only: Vec<Kind>,
    pub ignore: Vec<Kind>,
}

impl KindFilter {
    pub fn allows(&self, kind: Kind) -> bool {
        (self.only.is_empty() || self.only.contains(&kind)) && !self.ignore.contains(&kind)
    }

    pub fn allows_all(&self) -> bool {
        self.only.is_empty() && self.ignore.is_empty()
    }
}

/// Why no finding may not mean that all is well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incomplete {
    /// Fewer intervals than an all-clear needs
    TooFewIntervals,
    /// The recording ends inside a frame, or with bytes that are none
    EndsInDamage,
}

/// Sums, findings and missing readings of the intervals so far, which are added in the order of time.
#[derive(Clone, Debug, Default)]
pub struct Window {
    filter: KindFilter,
    host: Option<Arc<Host>>,
    from: Option<Instant>,
    to: Option<Instant>,
    spans_boots: bool,
    means: Means,
    cpus: usize,
    active: Option<ActiveFindings>,
    ended: Vec<Finding>,
    absent: Vec<(&'static str, Absent)>,
    /// Hidden threads and all threads, latest values
    hidden_threads: Option<(u32, u32)>,
    /// Threads with hidden wait channels and visible threads, latest values
    hidden_waits: Option<(u32, u32)>,
    /// Other network namespaces at the last sample that has some which are not seen whole
    namespaces: Option<NamespaceCounts>,
    /// The task last seen sleeping in io_uring while iowait was an artefact
    io_uring_sleeper: Option<String>,
    incomplete: Option<Incomplete>,
}

/// Numbers of other network namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NamespaceCounts {
    all: u32,
    closed: u32,
    unread: u32,
    hidden_processes: u32,
}

impl NamespaceCounts {
    fn new(namespaces: &NetworkNamespaces) -> NamespaceCounts {
        NamespaceCounts {
            all: namespaces.count,
            closed: namespaces.closed_count(),
            unread: namespaces.unread_count(),
            hidden_processes: namespaces.hidden_processes,
        }
    }

    fn is_partial(&self) -> bool {
        self.closed > 0 || self.unread > 0 || self.hidden_processes > 0
    }

    /// The number for the name of a missing reading.
    fn describe(self, what: &str) -> Option<String> {
        let all = pluralize(self.all, "namespace");
        match what {
            CLOSED_NAMESPACES => Some(format!(": {} of {all}", self.closed)),
            UNREAD_NAMESPACES => Some(format!(": {} of {all}", self.unread)),
            HIDDEN_NAMESPACES => Some(format!(": those of {}", plural(self.hidden_processes, "process", "processes"))),
            _ => None,
        }
    }
}

impl Window {
    /// Reports only findings that the filter allows.
    pub fn with_filter(chosen: KindFilter) -> Window {
        Window { filter: chosen, ..Window::default() }
    }

    /// Whether all kinds of findings are reported.
    pub fn includes_all_kinds(&self) -> bool {
        self.filter.allows_all()
    }

    pub fn add(&mut self, evaluation: &Evaluation) {
        let interval = &evaluation.interval;
        self.spans_boots |= self.host.as_ref().is_some_and(|host| !host.is_same_boot(&interval.host));
        self.host = Some(Arc::clone(&interval.host));
        self.from.get_or_insert(interval.older.at);
        self.to = Some(interval.newer.at);
        self.cpus = interval.online_cpus();
        self.means.add(&FigureInput::from(evaluation));
        self.ended.extend(evaluation.ended.iter().cloned());
        self.active = Some(Arc::clone(&evaluation.active));
        if let Some(tasks) = &interval.tasks
            && let Some(hidden) = tasks.hidden_threads
        {
            self.hidden_threads = Some((hidden, hidden.saturating_add(tasks.counts.threads)));
        }
        let waits = interval.newer.tasks.as_ref().map_or(0, |tasks| tasks.hidden.wait_channels);
        if waits > 0 {
            self.hidden_waits = interval.tasks.as_ref().map(|tasks| (waits, tasks.counts.threads));
        }
        if let Ok(namespaces) = &interval.newer.network_namespaces {
            let counts = NamespaceCounts::new(namespaces);
            self.namespaces = Some(counts).filter(NamespaceCounts::is_partial).or(self.namespaces);
        }
        if cross_checks::current_io_uring_artefact(interval).is_some() {
            self.io_uring_sleeper = cross_checks::io_uring_sleeper(&interval.newer);
        }
        for (what, why) in missing_readings(&interval.newer) {
            if !self.absent.iter().any(|(known, _)| *known == what) {
                self.absent.push((what, why));
            }
        }
    }

    /// The means of other measures of the same time. `None`: the threads could not be read.
    pub fn cross_checks(&self) -> Option<CrossChecks> {
        self.means.cross_checks()
    }

    /// A sentence if iowait or PSI are an artefact.
    pub fn artefact(&self) -> Option<String> {
        let figures = self.figures();
        let is_lower_bound = figures.idle_but_blocked_is_lower_bound;
        cross_checks::io_uring_artefact(&self.cross_checks()?, figures.blocked_threads?, is_lower_bound, || {
            self.io_uring_sleeper.clone()
        })
    }

    pub fn is_empty(&self) -> bool {
        self.to.is_none()
    }

    pub fn set_incomplete(&mut self, why: Option<Incomplete>) {
        self.incomplete = why;
    }

    /// Why it is not known whether something is wrong of this severity or a higher one; `None` where it was found, or enough was seen.
    pub fn unknown_reason(&self, at_least: Severity) -> Option<String> {
        let Some(host) = self.host() else { return Some("there were no two samples to compare".to_owned()) };
        let incomplete = self.incomplete.filter(|_| self.worst_severity() < Some(at_least))?;
        let why = match incomplete {
            Incomplete::TooFewIntervals => "too early for an all-clear",
            Incomplete::EndsInDamage => "the recording ends in damage",
        };
        let host = printable(&host.hostname.to_string_lossy());
        Some(format!("only {:.1} s of {host} could be evaluated: {why}", self.seconds()))
    }

    pub fn host(&self) -> Option<&Host> {
        self.host.as_deref()
    }

    /// Begin and end.
    pub fn time_range(&self) -> Option<(Instant, Instant)> {
        self.from.zip(self.to)
    }

    /// Whether the machine was rebooted in between: CLOCK_BOOTTIME began again.
    pub fn spans_boots(&self) -> bool {
        self.spans_boots
    }

    /// Seconds from begin to end, gaps included.
    pub fn seconds(&self) -> f64 {
        match self.time_range() {
            Some((from, to)) if self.spans_boots => to.realtime_ns.saturating_sub(from.realtime_ns).max(0) as f64 / 1e9,
            Some((from, to)) => to.seconds_since(from),
            None => 0.0,
        }
    }

    pub fn figures(&self) -> MeanFigures {
        let hidden_threads = self.hidden_threads.map(|(hidden, _)| hidden);
        MeanFigures { cpus: self.cpus, hidden_threads, ..self.means.figures() }
    }

    /// The active findings in their order, then the ended ones, worst first; what follows from one of them comes after it.
    pub fn findings(&self) -> Vec<&Finding> {
        let (mut ended, mut findings): (Vec<&Finding>, Vec<&Finding>) =
            self.reported().partition(|finding| finding.until.is_some());
        ended.small_sort_by(|a, b| b.severity.cmp(&a.severity).then(b.explained_share.total_cmp(&a.explained_share)));
        findings.extend(ended);
        causes_first(findings)
    }

    fn reported(&self) -> impl Iterator<Item = &Finding> {
        let all = self.active.iter().flat_map(|open| open.iter()).chain(&self.ended);
        all.filter(|finding| self.filter.allows(finding.kind))
    }

    pub fn worst_severity(&self) -> Option<Severity> {
        self.reported().map(|finding| finding.severity).max()
    }

    /// Readings that were missing at some time, and why.
    pub fn absent(&self) -> Vec<(&'static str, String)> {
        let reason = |&(what, why): &(&'static str, Absent)| {
            let counted = match what {
                HIDDEN_PROCESSES => self.hidden_threads,
                HIDDEN_WAIT_CHANNELS => self.hidden_waits,
                _ => None,
            };
            let counted =
                counted.map_or_else(String::new, |(hidden, all)| format!(": {hidden} of {}", pluralize(all, "thread")));
            let counted = self.namespaces.and_then(|counts| counts.describe(what)).unwrap_or(counted);
            // A security module, or the kernel, protects these tasks from root, too.
            let privileged = self.host.as_ref().is_some_and(|host| host.privilege.has_cap_sys_ptrace);
            match what {
                HIDDEN_WAIT_CHANNELS | HIDDEN_NAMESPACES if privileged => {
                    (what, format!("not readable, protected from root{counted}"))
                }
                _ => (what, format!("{why}{counted}")),
            }
        };
        self.absent.iter().map(reason).collect()
    }

    /// The sentence if no finding is worse than a note; else `None`.
    pub fn no_problem_sentence(&self) -> Option<String> {
        let notes = self.reported().count() as u64;
        match (self.worst_severity(), self.includes_all_kinds()) {
            (None, true) => Some("Nothing is wrong as far as it can be seen".into()),
            (None, false) => Some("Nothing of the selected kinds is wrong, as far as it can be seen".into()),
            (Some(Severity::Note), true) => {
                Some(format!("Nothing to warn of as far as it can be seen; {}", pluralize(notes, "note")))
            }
            (Some(Severity::Note), false) => Some(format!(
                "Nothing to warn of among the selected kinds, as far as it can be seen; {}",
                pluralize(notes, "note")
            )),
            (Some(_), _) => None,
        }
    }
}

/// Moves each consequence behind its root cause; an incident takes the place of its first finding.
fn causes_first(findings: Vec<&Finding>) -> Vec<&Finding> {
    let causes: Vec<Option<usize>> = findings
        .iter()
        .map(|finding| {
            let cause = finding.cause_among(&findings)?;
            findings.iter().position(|other| std::ptr::eq(*other, cause))
        })
        .collect();
    // Findings that name each other as cause have none: each is its own root after as many steps as there are findings.
    let root_of = |index: usize| {
        let mut root = index;
        for _ in 0..findings.len() {
            match causes.get(root) {
                Some(Some(cause)) => root = *cause,
                _ => return root,
            }
        }
        index
    };
    let roots: Vec<usize> = (0..findings.len()).map(root_of).collect();
    let mut places = vec![usize::MAX; findings.len()];
    for (index, &root) in roots.iter().enumerate() {
        if let Some(place) = places.get_mut(root) {
            *place = (*place).min(index);
        }
    }
    let mut ordered: Vec<(usize, bool, &Finding)> = findings
        .iter()
        .zip(roots)
        .enumerate()
        .map(|(index, (finding, root))| (places.get(root).copied().unwrap_or(index), root != index, *finding))
        .collect();
    ordered.small_sort_by_key(|&(place, is_consequence, _)| (place, is_consequence));
    ordered.into_iter().map(|(_, _, finding)| finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baseline::Baselines;
    use crate::findings::Evaluator;
    use crate::interval::Interval;
    use crate::report::text;
    use crate::synthetic;

    /// A thread fills CPU 0 for ten seconds, and sleeps for ten.
    fn a_thread_at_its_limit_has_ended(filter: KindFilter) -> Window {
        let host = Arc::new(synthetic::host());
        let sample = |second: u64| {
            let busy = second.min(10);
            let cpus =
                [(busy, second - busy), (0, second)].map(|(busy, idle)| synthetic::cpu_times(busy * 100, 0, idle * 100, 0));
            let thread = synthetic::thread(7, "spin").ran(busy * 1_000_000_000, 0, second);
            let process = synthetic::process(7, "spin").ran(busy * 1_000_000_000).threads([thread]);
            synthetic::sample(1.0 + second as f64).cpus(cpus).processes([process]).shared()
        };
        let samples: Vec<_> = (0..20).map(sample).collect();
        let mut evaluator = Evaluator::new(Baselines::default());
        let mut window = Window::with_filter(filter);
        for (older, newer) in samples.iter().zip(samples.iter().skip(1)) {
            window.add(&evaluator.evaluate(Interval::between(&host, older, newer).unwrap()));
        }
        window
    }

    #[test]
    fn too_little_without_a_problem_is_unknown() {
        let mut window = a_thread_at_its_limit_has_ended(KindFilter::default());
        window.set_incomplete(Some(Incomplete::EndsInDamage));
        assert_eq!(window.unknown_reason(Severity::Warning), None, "a warning is a result");
        assert!(window.unknown_reason(Severity::Critical).is_some(), "but none that excludes a critical one");
        let of_oom_kills = KindFilter { only: vec![Kind::OomKill], ..KindFilter::default() };
        let mut window = a_thread_at_its_limit_has_ended(of_oom_kills);
        window.set_incomplete(Some(Incomplete::EndsInDamage));
        let reason = window.unknown_reason(Severity::Warning).unwrap();
        assert!(reason.starts_with("only 19.0 s of ") && reason.ends_with("the recording ends in damage"), "{reason}");
        let text = text::check(&window);
        assert_eq!(text, format!("unknown: {reason}\n"));
        window.set_incomplete(None);
        assert_eq!(window.unknown_reason(Severity::Warning), None);
        assert!(Window::default().unknown_reason(Severity::Warning).is_some());
    }

    #[test]
    fn an_ended_consequence_is_listed_below_its_cause() {
        let window = a_thread_at_its_limit_has_ended(KindFilter::default());
        let listed: Vec<(Kind, bool)> =
            window.findings().iter().map(|finding| (finding.kind, finding.until.is_some())).collect();
        assert_eq!(listed, [(Kind::SaturatedThread, true), (Kind::SaturatedCore, true)]);
        let text = text::check(&window);
        assert!(text.contains("\n  warning: spin (7)") && text.contains("\n    follows: warning: CPU 0"), "{text}");
    }
}
