//! A stretch of time: its mean figures, and the findings that held at its end or ended within it.

use std::sync::Arc;

use super::formatting::pluralize;
use crate::findings::{ActiveFindings, Evaluation, Finding, Kind, Severity, cross_checks};
use crate::interval::Interval;
use crate::interval::idle_blocked::CrossChecks;
use crate::sample::{Absent, HIDDEN_PROCESSES, HIDDEN_WAIT_CHANNELS, Host, Instant};

/// The kinds of findings that are told: of those named alone where any are, and none of those left out.
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

/// Grows by intervals, in the order of time.
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
    /// The last that was known of threads that cannot be seen, and how many there are in all
    hidden_threads: Option<(u32, u32)>,
    /// The same of threads whose wait channels cannot be read, of those that can be seen
    hidden_waits: Option<(u32, u32)>,
    /// Who was last seen asleep in io_uring while nothing was waited for
    io_uring_sleeper: Option<String>,
}

/// Mean figures over a window, under their names in docs/metrics.md; shares of the host. `None` where it could not be told.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct MeanFigures {
    pub busy_ratio: Option<f64>,
    pub user_ratio: Option<f64>,
    pub system_ratio: Option<f64>,
    pub steal_ratio: Option<f64>,
    pub idle_but_blocked_ratio: Option<f64>,
    /// Wait channels of some tasks were hidden: the ratio is at least so much
    pub idle_but_blocked_is_lower_bound: bool,
    pub free_ratio: Option<f64>,
    pub iowait_ratio: Option<f64>,
    pub cpus: usize,
    pub load1: Option<f64>,
    /// Threads in R: on a CPU or waiting for one
    pub running: Option<f64>,
    /// Threads in D, whatever for
    pub blocked: Option<f64>,
    /// Threads that idle-but-blocked counts
    pub blocked_threads: Option<f64>,
    /// Threads that this user cannot see at all (hidepid, a container); what they do is in no other figure but the CPUs'
    pub hidden_threads: Option<u32>,
}

impl Window {
    /// One that tells of some findings only.
    pub fn with_filter(chosen: KindFilter) -> Window {
        Window { filter: chosen, ..Window::default() }
    }

    /// Whether it tells of all kinds of findings.
    pub fn includes_all_kinds(&self) -> bool {
        self.filter.allows_all()
    }

    pub fn add(&mut self, judged: &Evaluation) {
        let interval = &judged.interval;
        self.spans_boots |= self.host.as_ref().is_some_and(|host| !host.is_same_boot(&interval.host));
        self.host = Some(Arc::clone(&interval.host));
        self.from.get_or_insert(interval.older.at);
        self.to = Some(interval.newer.at);
        self.cpus = interval.online_cpus();
        self.means.add(interval);
        self.ended.extend(judged.ended.iter().cloned());
        self.active = Some(Arc::clone(&judged.active));
        if let Some(tasks) = &interval.tasks
            && let Some(hidden) = tasks.hidden_threads
        {
            self.hidden_threads = Some((hidden, hidden.saturating_add(tasks.counts.threads)));
        }
        let waits = interval.newer.tasks.as_ref().map_or(0, |tasks| tasks.hidden.wait_channels);
        if waits > 0 {
            self.hidden_waits = interval.tasks.as_ref().map(|tasks| (waits, tasks.counts.threads));
        }
        if cross_checks::current_io_uring_artifact(interval).is_some() {
            self.io_uring_sleeper = cross_checks::io_uring_sleeper(&interval.newer);
        }
        for (what, why) in interval.newer.absent() {
            if !self.absent.iter().any(|(known, _)| *known == what) {
                self.absent.push((what, why));
            }
        }
    }

    /// What the classic tools say of the same time, side by side; means. `None` where the threads could not be read.
    pub fn cross_checks(&self) -> Option<CrossChecks> {
        let means = &self.means;
        Some(CrossChecks {
            iowait: means.iowait.mean(),
            psi_io_some: means.psi_io_some.mean(),
            d_threads: means.d_threads.mean()?,
            in_flight: means.in_flight.mean(),
            run_queue_wait: means.run_queue_wait.mean(),
        })
    }

    /// One sentence where iowait or PSI speak of nothing.
    pub fn artefact(&self) -> Option<String> {
        let blocked_threads = self.means.blocked_threads.mean()?;
        cross_checks::io_uring_artifact(&self.cross_checks()?, blocked_threads, self.means.lower_bound, || {
            self.io_uring_sleeper.clone()
        })
    }

    pub fn is_empty(&self) -> bool {
        self.to.is_none()
    }

    pub fn host(&self) -> Option<&Host> {
        self.host.as_deref()
    }

    /// From when to when.
    pub fn time_range(&self) -> Option<(Instant, Instant)> {
        self.from.zip(self.to)
    }

    /// Whether the machine was started anew in between: the clock that counts from boot began again.
    pub fn spans_boots(&self) -> bool {
        self.spans_boots
    }

    /// How long it is, with what may be missing in between.
    pub fn seconds(&self) -> f64 {
        match self.time_range() {
            Some((from, to)) if self.spans_boots => to.realtime_ns.saturating_sub(from.realtime_ns).max(0) as f64 / 1e9,
            Some((from, to)) => to.seconds_since(from),
            None => 0.0,
        }
    }

    pub fn figures(&self) -> MeanFigures {
        let means = &self.means;
        MeanFigures {
            busy_ratio: means.busy.mean(),
            user_ratio: means.user.mean(),
            system_ratio: means.system.mean(),
            steal_ratio: means.steal.mean(),
            idle_but_blocked_ratio: means.idle_but_blocked.mean(),
            idle_but_blocked_is_lower_bound: means.lower_bound,
            free_ratio: means.free.mean(),
            iowait_ratio: means.iowait.mean(),
            cpus: self.cpus,
            load1: means.load1.mean(),
            running: means.running.mean(),
            blocked: means.blocked.mean(),
            blocked_threads: means.blocked_threads.mean(),
            hidden_threads: self.hidden_threads.map(|(hidden, _)| hidden),
        }
    }

    /// Those that hold at the end first, as they are ordered; then those that ended, worst first.
    pub fn findings(&self) -> Vec<&Finding> {
        let mut ended: Vec<&Finding> = self.ended.iter().collect();
        ended.sort_by(|a, b| b.severity.cmp(&a.severity).then(b.explained_share.total_cmp(&a.explained_share)));
        let all = self.active.iter().flat_map(|open| open.iter()).chain(ended);
        all.filter(|finding| self.filter.allows(finding.kind)).collect()
    }

    pub fn worst_severity(&self) -> Option<Severity> {
        self.findings().iter().map(|finding| finding.severity).max()
    }

    /// What could not be seen at some time, and why.
    pub fn absent(&self) -> Vec<(&'static str, String)> {
        let reason = |&(what, why): &(&'static str, Absent)| {
            let counted = match what {
                HIDDEN_PROCESSES => self.hidden_threads,
                HIDDEN_WAIT_CHANNELS => self.hidden_waits,
                _ => None,
            };
            let counted =
                counted.map_or_else(String::new, |(hidden, all)| format!(": {hidden} of {}", pluralize(all, "thread")));
            (what, format!("{why}{counted}"))
        };
        self.absent.iter().map(reason).collect()
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Means {
    busy: TimeWeightedMean,
    user: TimeWeightedMean,
    system: TimeWeightedMean,
    steal: TimeWeightedMean,
    iowait: TimeWeightedMean,
    idle_but_blocked: TimeWeightedMean,
    free: TimeWeightedMean,
    load1: TimeWeightedMean,
    running: TimeWeightedMean,
    blocked: TimeWeightedMean,
    blocked_threads: TimeWeightedMean,
    psi_io_some: TimeWeightedMean,
    d_threads: TimeWeightedMean,
    in_flight: TimeWeightedMean,
    run_queue_wait: TimeWeightedMean,
    lower_bound: bool,
}

impl Means {
    fn add(&mut self, interval: &Interval) {
        let seconds = interval.seconds;
        let total = interval.cpu.as_ref().map(|cpu| cpu.total);
        self.busy.add(interval.cpu.as_ref().map(|cpu| cpu.busy()), seconds);
        self.user.add(total.map(|total| total.user + total.nice), seconds);
        self.system.add(total.map(|total| total.system + total.irq + total.softirq), seconds);
        self.steal.add(total.map(|total| total.steal), seconds);
        self.iowait.add(total.map(|total| total.iowait), seconds);
        let stuck = interval.idle_blocked.as_ref();
        self.idle_but_blocked.add(stuck.map(|stuck| stuck.ratio), seconds);
        self.free.add(stuck.map(|stuck| stuck.free), seconds);
        self.blocked_threads.add(stuck.map(|stuck| stuck.blocked_threads), seconds);
        let witnesses = stuck.map(|stuck| stuck.cross_checks);
        self.psi_io_some.add(witnesses.and_then(|seen| seen.psi_io_some), seconds);
        self.d_threads.add(witnesses.map(|seen| seen.d_threads), seconds);
        self.in_flight.add(witnesses.and_then(|seen| seen.in_flight), seconds);
        self.run_queue_wait.add(witnesses.and_then(|seen| seen.run_queue_wait), seconds);
        self.lower_bound |= stuck.is_some_and(|stuck| stuck.lower_bound);
        let (load, cpu) = (interval.newer.load.as_ref().ok(), interval.newer.cpu.as_ref().ok());
        self.load1.add(load.map(|load| load.one), seconds);
        // What the load average is made of, from one sweep; /proc/stat counts only waits with iowait accounting as blocked.
        let counts = interval.tasks.as_ref().map(|tasks| tasks.counts);
        let running = counts.map(|counts| counts.running).or(cpu.and_then(|cpu| cpu.running));
        let blocked = counts.map(|counts| counts.blocked).or(cpu.and_then(|cpu| cpu.blocked));
        self.running.add(running.map(f64::from), seconds);
        self.blocked.add(blocked.map(f64::from), seconds);
    }
}

/// A mean over time, of the intervals in which there was a value.
#[derive(Clone, Copy, Debug, Default)]
struct TimeWeightedMean {
    sum: f64,
    seconds: f64,
}

impl TimeWeightedMean {
    fn add(&mut self, value: Option<f64>, seconds: f64) {
        if let Some(value) = value {
            self.sum += value * seconds;
            self.seconds += seconds;
        }
    }

    fn mean(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.sum / self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_weighs_by_time_and_knows_nothing_of_what_is_missing() {
        let mut mean = TimeWeightedMean::default();
        assert_eq!(mean.mean(), None);
        mean.add(Some(1.0), 1.0);
        mean.add(None, 10.0);
        mean.add(Some(0.0), 3.0);
        assert_eq!(mean.mean(), Some(0.25));
    }
}
