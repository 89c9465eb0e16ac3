//! How a baseline learns: which observations it takes, and which days it keeps.

use super::{DRIFT_DAYS, HIGHEST_LOADS_KEPT, LOWEST_KEPT, LearnedBaseline, MIN_INTERVALS, MIN_TAIL_OBSERVATIONS, Today};
use crate::baseline::reservoir::{Day, is_valid_latency, unix_day};
use crate::baseline::{Observation, Quantiles};
use crate::units::{Millis, SmallSort};

/// Intervals above this multiple of the baseline are not learned.
const MAX_LEARNABLE_MULTIPLE: f64 = 2.0;

/// A p99 above this multiple of its baseline is not learned: a tail would become its own baseline.
const MAX_LEARNABLE_TAIL_MULTIPLE: f64 = 4.0;

/// The baseline is the median of this many days, so that one or two unusual days do not change it.
const MEDIAN_DAYS: usize = 8;

/// Number of first days that are the reference for drift.
const REFERENCE_DAYS: usize = 5;

/// With less time than this counted in an interval its await is too coarse to be the lowest.
const MIN_TIME_FOR_LOWEST_MS: f64 = 10.0;

impl LearnedBaseline {
    /// Whether `add` would change anything: an unchanged baseline stays shared between clones.
    pub(in crate::baseline) fn would_change(&self, observation: &Observation) -> bool {
        observation.uncontended
            || self.is_among_lowest(observation)
            || self.is_among_highest(observation) && is_near_baseline(observation, self.latency())
    }

    /// Adds an observation.
    pub(in crate::baseline) fn add(&mut self, observation: &Observation) {
        if !observation.r#await.0.is_finite() {
            return;
        }
        let known = self.latency();
        let learned =
            observation.uncontended && known.is_none_or(|known| observation.r#await.0 <= known.0 * MAX_LEARNABLE_MULTIPLE);
        if self.is_among_lowest(observation) {
            insert_sorted(&mut self.lowest_ms, observation.r#await.0 as f32, LOWEST_KEPT, |a, b| a <= b);
        }
        if learned || is_near_baseline(observation, known) {
            insert_sorted(&mut self.rates_near_baseline, observation.rate as f32, HIGHEST_LOADS_KEPT, |a, b| a >= b);
            insert_sorted(&mut self.outstanding_near_baseline, observation.outstanding as f32, HIGHEST_LOADS_KEPT, |a, b| {
                a >= b
            });
            insert_sorted(&mut self.kib_rates_near_baseline, observation.kib_per_second as f32, HIGHEST_LOADS_KEPT, |a, b| {
                a >= b
            });
        }
        if !observation.uncontended {
            return;
        }
        self.advance_to_day(unix_day(observation.at_s));
        let mut is_kept = self.today.seen.push(observation.r#await.0 as f32);
        if learned {
            is_kept |= self.add_learned(observation);
        }
        if is_kept {
            self.medians = self.to_medians();
        }
    }

    /// Adds an observation that is learned from; returns whether a median may have changed.
    fn add_learned(&mut self, observation: &Observation) -> bool {
        let learned = if observation.light_load { &mut self.today.learned } else { &mut self.today.learned_busy };
        let mut is_kept = learned.push(observation.r#await.0 as f32);
        if let Some(quantiles) = observation.quantiles.filter(|_| observation.light_load) {
            is_kept |= self.add_quantiles(quantiles);
        }
        self.intervals = self.intervals.saturating_add(1);
        if self.first_s == 0 {
            self.first_s = observation.at_s;
        }
        self.last_s = self.last_s.max(observation.at_s);
        self.name = Some(observation.name.clone());
        is_kept
    }

    /// Returns whether a median may have changed.
    fn add_quantiles(&mut self, quantiles: Quantiles) -> bool {
        let is_tail = |known: Quantiles| quantiles.p99.0 > known.p99.0 * MAX_LEARNABLE_TAIL_MULTIPLE;
        if self.quantiles().is_some_and(is_tail) {
            return false;
        }
        let is_p50_kept = self.today.p50.push(quantiles.p50.0 as f32);
        let is_p99_kept = self.today.p99.push(quantiles.p99.0 as f32);
        is_p50_kept || is_p99_kept
    }

    /// Removes values that only a damaged file can have.
    pub(in crate::baseline) fn sanitized(mut self) -> LearnedBaseline {
        self.today.p50 = self.today.p50.sanitized();
        self.today.p99 = self.today.p99.sanitized();
        self.quantile_days.retain(|day| day.1 > 0 && is_valid_latency(day.2) && is_valid_latency(day.3));
        self.drop_oldest_quantile_days();
        self.today.learned = self.today.learned.sanitized();
        self.today.learned_busy = self.today.learned_busy.sanitized();
        self.today.seen = self.today.seen.sanitized();
        self.days.retain(Day::is_valid);
        self.days.truncate(5 * MEDIAN_DAYS);
        self.busy_days.retain(|day| is_valid_latency(day.2));
        self.busy_days.truncate(MEDIAN_DAYS);
        self.early.retain(Day::is_valid);
        self.early.truncate(REFERENCE_DAYS);
        let (lower, higher): (Comparator, Comparator) = (f32::total_cmp, |a, b| b.total_cmp(a));
        let lists = [
            (&mut self.lowest_ms, LOWEST_KEPT, lower),
            (&mut self.rates_near_baseline, HIGHEST_LOADS_KEPT, higher),
            (&mut self.outstanding_near_baseline, HIGHEST_LOADS_KEPT, higher),
            (&mut self.kib_rates_near_baseline, HIGHEST_LOADS_KEPT, higher),
        ];
        for (list, most, order) in lists {
            list.retain(|value| is_valid_latency(*value));
            list.small_sort_by(order);
            list.truncate(most);
        }
        self.by_hand_ms = self.by_hand_ms.filter(|ms| ms.is_finite() && *ms > 0.0);
        self.medians = self.to_medians();
        self
    }

    /// Summarizes the current day when a later one begins. An observation of another run from just before midnight counts for the
    /// current day.
    fn advance_to_day(&mut self, day: i32) {
        if day == self.today.day || day.saturating_add(1) == self.today.day {
            return;
        }
        if let Some(over) = self.today() {
            let busy = &self.today.learned_busy;
            let busy_ms = busy.median().unwrap_or_default() as f32;
            // A device that is never under light load is compared with its first days, too.
            let reference = match over.learned {
                0 => Day { learned: busy.count(), learned_ms: busy_ms, ..over },
                _ => over,
            };
            if reference.learned > 0 && self.early.len() < REFERENCE_DAYS {
                self.early.push(reference);
            }
            if busy.count() > 0 {
                self.busy_days.push((over.day, busy.count(), busy_ms));
                self.busy_days.drain(..self.busy_days.len().saturating_sub(MEDIAN_DAYS));
            }
            let (p50, p99) = (&self.today.p50, &self.today.p99);
            if let Some((p50_ms, p99_ms)) = p50.median().zip(p99.median()) {
                self.quantile_days.push((over.day, p99.count(), p50_ms as f32, p99_ms as f32));
                self.drop_oldest_quantile_days();
            }
            self.days.push(over);
        }
        self.today = Today { day, ..Today::default() };
        // Days with few or no learned intervals do not displace the days of the median.
        self.drop_oldest_days(DRIFT_DAYS, 0, |day| day.learned == 0);
        self.drop_oldest_days(MEDIAN_DAYS, MIN_INTERVALS, |day| day.learned > 0);
        self.medians = self.to_medians();
    }

    /// Keeps the last `most` days of a kind, and more if those have fewer than `learned` learned intervals.
    fn drop_oldest_days(&mut self, most: usize, learned: u32, kind: fn(&Day) -> bool) {
        loop {
            let mut of_kind = self.days.iter().enumerate().filter(|(_, day)| kind(day));
            let Some((first, _)) = of_kind.next() else { return };
            let (rest, left) = of_kind.fold((0_usize, 0_u32), |(n, sum), (_, day)| (n + 1, sum.saturating_add(day.learned)));
            if rest < most || left < learned && rest < 4 * MEDIAN_DAYS {
                return;
            }
            self.days.remove(first);
        }
    }

    /// Keeps the last days, and more if those have too few observations for a baseline: each has at least one.
    fn drop_oldest_quantile_days(&mut self) {
        let mut observations = 0_u32;
        let kept = self.quantile_days.iter().rev().enumerate().take_while(|&(days, day)| {
            let is_kept = days < MEDIAN_DAYS || observations < MIN_TAIL_OBSERVATIONS;
            observations = observations.saturating_add(day.1);
            is_kept
        });
        let kept = kept.count();
        self.quantile_days.drain(..self.quantile_days.len().saturating_sub(kept));
    }

    fn is_among_lowest(&self, observation: &Observation) -> bool {
        let lower = || self.lowest_ms.last().is_some_and(|&highest| observation.r#await.0 < f64::from(highest));
        observation.r#await.0.is_finite()
            && observation.time_ms >= MIN_TIME_FOR_LOWEST_MS
            && (self.lowest_ms.len() < LOWEST_KEPT || lower())
    }

    fn is_among_highest(&self, observation: &Observation) -> bool {
        let higher = |list: &[f32], value: f64| {
            list.len() < HIGHEST_LOADS_KEPT || list.last().is_some_and(|&lowest| value > f64::from(lowest))
        };
        higher(&self.rates_near_baseline, observation.rate)
            || higher(&self.outstanding_near_baseline, observation.outstanding)
            || higher(&self.kib_rates_near_baseline, observation.kib_per_second)
    }
}

type Comparator = fn(&f32, &f32) -> std::cmp::Ordering;

/// Whether the latency was near a known baseline.
fn is_near_baseline(observation: &Observation, known: Option<Millis>) -> bool {
    known.is_some_and(|known| observation.r#await.0 < known.0 * MAX_LEARNABLE_MULTIPLE)
}

/// Inserts a value into a sorted list, of which the first `most` values are kept.
fn insert_sorted(list: &mut Vec<f32>, value: f32, most: usize, before: fn(f32, f32) -> bool) {
    let at = list.partition_point(|&other| before(other, value));
    list.insert(at, value);
    list.truncate(most);
}
