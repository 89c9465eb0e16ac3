//! The learned baseline of one device, operation and size class: the median over days, drift, and confidence.
//! docs/metrics.md, "Baselines".

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::reservoir::{Day, Reservoir, is_valid_latency, median, unix_day};
use super::{BaselineLoad, Drift, Observation, Quantiles};
use crate::units::Millis;

/// Latencies at about one request at a time: of today, of the last days with observations, and of the first days, as the reference
/// for drift.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LearnedBaseline {
    /// Number of observations
    pub intervals: u32,
    /// Set by the user: learning does not change it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_hand_ms: Option<f64>,
    /// Kernel name of the device when it was last learned from
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Seconds after 1970 of the first and the last observation
    pub first_s: i64,
    pub last_s: i64,
    /// The `LOWEST_KEPT` lowest awaits of any interval, ascending
    lowest_ms: Vec<f32>,
    /// The `HIGHEST_LOADS_KEPT` highest completions per second with a latency near the baseline, descending
    well_rates: Vec<f32>,
    /// The same for the mean number of requests in flight
    well_outstanding: Vec<f32>,
    /// The same for KiB per second; empty in files of earlier versions
    #[serde(skip_serializing_if = "Vec::is_empty")]
    well_kib_rates: Vec<f32>,
    /// The last days with observations or uncontended intervals, in time order
    days: Vec<Day>,
    /// Of the last days: the observations under more than light load
    #[serde(skip_serializing_if = "Vec::is_empty")]
    busy_days: Vec<BusyDay>,
    /// Of the last days: p50 and p99 of single requests
    #[serde(skip_serializing_if = "Vec::is_empty")]
    quantile_days: Vec<QuantileDay>,
    /// The first days with observations
    early: Vec<Day>,
    today: Today,
}

/// The current day.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Today {
    day: i32,
    /// Under light load
    taught: Reservoir,
    /// Under more load
    #[serde(skip_serializing_if = "Reservoir::is_empty")]
    taught_busy: Reservoir,
    /// p50 and p99 of single requests, under light load
    #[serde(skip_serializing_if = "Reservoir::is_empty")]
    p50: Reservoir,
    #[serde(skip_serializing_if = "Reservoir::is_empty")]
    p99: Reservoir,
    /// All uncontended intervals, also those too slow to learn from
    seen: Reservoir,
}

/// Day (after 1970-01-01, in UTC), number and median in milliseconds of the observations under more than light load.
type BusyDay = (i32, u32, f32);

/// Day, number of observations with p50 and p99 of single requests, and the medians of both in milliseconds.
type QuantileDay = (i32, u32, f32, f32);

/// How reliable a baseline is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confidence {
    ByHand,
    /// Learned on several days, and recently
    Good,
    /// Learned on one day
    Fair,
    /// Not learned under light load
    UnderLoad,
    /// Not confirmed for months
    Stale,
    /// Too few intervals
    Provisional,
}

impl Confidence {
    /// The word in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Confidence::ByHand => "by hand",
            Confidence::Good => "good",
            Confidence::Fair => "fair",
            Confidence::UnderLoad => "under load",
            Confidence::Stale => "stale",
            Confidence::Provisional => "provisional",
        }
    }
}

/// Observations from which a baseline is learned and no longer provisional.
pub const MIN_INTERVALS: u32 = 10;

/// Observations that must reach the lowest await.
const LOWEST_KEPT: usize = 5;

/// Observations that must reach the highest load.
const HIGHEST_LOADS_KEPT: usize = 3;

/// Intervals above this multiple of the baseline are not learned.
const MAX_LEARNABLE_MULTIPLE: f64 = 2.0;

/// Observations with p50 and p99 of single requests from which these are a baseline. More than `MIN_INTERVALS`: a p99 varies more than a
/// mean, and a baseline that is too low refuses what would raise it.
pub const MIN_TAIL_OBSERVATIONS: u32 = 60;

/// A p99 above this multiple of its baseline is not learned: a tail would become its own baseline.
const MAX_LEARNABLE_TAIL_MULTIPLE: f64 = 4.0;

/// The baseline is the median of this many days, so that one or two unusual days do not change it.
const MEDIAN_DAYS: usize = 8;

/// Number of first days that are the reference for drift.
const REFERENCE_DAYS: usize = 5;

/// A drift is reported when this many last days show it, at least `MIN_DRIFT_AGE_DAYS` after the first ones.
const DRIFT_DAYS: usize = 3;
const MIN_DRIFT_AGE_DAYS: i32 = 7;

/// A smaller change is no drift, since the kernel counts whole milliseconds.
const MIN_DRIFT_MS: f64 = 0.1;

/// Lower bound of all latencies, since the kernel counts whole milliseconds.
const MIN_LATENCY_MS: f64 = 0.01;

/// With less time than this counted in an interval its await is too coarse to be the lowest.
const MIN_TIME_FOR_LOWEST_MS: f64 = 10.0;

/// A baseline without an observation for this long is stale.
const STALE_AFTER_S: i64 = 90 * 86_400;

impl LearnedBaseline {
    /// The baseline: as set by the user, or the median of enough observations under light load; of all if those are too few; `None`
    /// before that.
    pub fn latency(&self) -> Option<Millis> {
        match self.by_hand_ms {
            Some(by_hand) => Some(Millis(by_hand)),
            None if self.light_load_observations() >= MIN_INTERVALS => Self::median(self.light_load_values()),
            None if self.light_load_observations().saturating_add(self.busy_observations()) >= MIN_INTERVALS => {
                Self::median(self.light_load_values().chain(self.busy_values()))
            }
            None => None,
        }
    }

    /// p50 and p99 of single requests at one request at a time: medians of enough observations; `None` before that, and beside a
    /// baseline that was set by the user, who knows better than what was learned.
    pub fn quantiles(&self) -> Option<Quantiles> {
        let past = self.quantile_days.iter().map(|day| day.1);
        let is_enough = past.fold(self.today.p99.count(), u32::saturating_add) >= MIN_TAIL_OBSERVATIONS;
        if !is_enough || self.by_hand_ms.is_some() {
            return None;
        }
        let values = |today: &Reservoir, of_day: fn(&QuantileDay) -> f32| {
            let past = self.quantile_days.iter().map(|day| (of_day(day), day.1.min(Day::MAX_WEIGHT)));
            median(past.chain(today.values_ms().iter().map(|&ms| (ms, 1))).collect()).map(Millis)
        };
        Some(Quantiles { p50: values(&self.today.p50, |day| day.2)?, p99: values(&self.today.p99, |day| day.3)? })
    }

    /// Whether the baseline was set by the user or learned under light load.
    pub fn is_from_light_load(&self) -> bool {
        self.by_hand_ms.is_some() || self.light_load_observations() >= MIN_INTERVALS
    }

    /// The lowest await that 5 intervals reached.
    pub fn lowest(&self) -> Option<Millis> {
        self.lowest_ms.get(LOWEST_KEPT - 1).map(|&ms| Millis(f64::from(ms).max(MIN_LATENCY_MS)))
    }

    /// The highest load with a latency near the baseline; `None` before `HIGHEST_LOADS_KEPT` intervals have shown it.
    pub fn baseline_load(&self) -> Option<BaselineLoad> {
        let highest = |list: &[f32]| list.get(HIGHEST_LOADS_KEPT - 1).map(|&value| f64::from(value));
        Some(BaselineLoad {
            rate: highest(&self.well_rates)?,
            kib_per_second: highest(&self.well_kib_rates).filter(|&kib| kib > 0.0),
            outstanding: highest(&self.well_outstanding)?,
        })
    }

    /// How reliable the baseline is at this time (seconds after 1970).
    pub fn confidence(&self, now_s: i64) -> Confidence {
        match self.latency() {
            _ if self.by_hand_ms.is_some() => Confidence::ByHand,
            None => Confidence::Provisional,
            Some(_) if now_s.saturating_sub(self.last_s) > STALE_AFTER_S => Confidence::Stale,
            Some(_) if !self.is_from_light_load() => Confidence::UnderLoad,
            Some(_) if self.learned_days().len() >= 2 => Confidence::Good,
            Some(_) => Confidence::Fair,
        }
    }

    /// The increase since the first days; `None` unless every one of the last days is slower than the slowest of the first.
    pub fn drift(&self) -> Option<Drift> {
        if self.by_hand_ms.is_some() {
            return None;
        }
        let (first, last) = (self.early.first()?, self.early.last()?);
        let of_early = |day: &Day| (day.learned_ms, day.weight());
        let was = median(self.early.iter().map(of_early).collect())?.max(MIN_LATENCY_MS);
        let taught: u32 = self.early.iter().map(|day| day.learned).fold(0, u32::saturating_add);
        let worst = self.early.iter().map(|day| day.learned_ms).fold(0.0, f32::max);
        let mut late: Vec<Day> = self.days.iter().copied().chain(self.today()).collect();
        late.retain(|day| day.uncontended >= MIN_INTERVALS && day.day.saturating_sub(last.day) >= MIN_DRIFT_AGE_DAYS);
        late.drain(..late.len().saturating_sub(DRIFT_DAYS));
        let days: BTreeSet<i32> = late.iter().map(|day| day.day).collect();
        if taught < MIN_INTERVALS || days.len() < DRIFT_DAYS || late.iter().any(|day| day.uncontended_ms <= worst) {
            return None;
        }
        let now = median(late.iter().map(|day| (day.uncontended_ms, 1)).collect())?;
        let until = *days.last()?;
        let drift =
            Drift { reference: Millis(was), current: Millis(now), since_day: first.day, days: until.saturating_sub(first.day) };
        (now - was >= MIN_DRIFT_MS).then_some(drift)
    }

    /// Whether `add` would change anything: an unchanged baseline stays shared between clones.
    pub(super) fn would_change(&self, observation: &Observation) -> bool {
        // The median last: it sorts the values of the day.
        observation.uncontended
            || self.is_among_lowest(observation)
            || self.is_among_highest(observation) && is_near_baseline(observation, self.latency())
    }

    /// Adds an observation.
    pub(super) fn add(&mut self, observation: &Observation) {
        if !observation.r#await.0.is_finite() {
            return;
        }
        let known = self.latency();
        let taught =
            observation.uncontended && known.is_none_or(|known| observation.r#await.0 <= known.0 * MAX_LEARNABLE_MULTIPLE);
        if self.is_among_lowest(observation) {
            insert_sorted(&mut self.lowest_ms, observation.r#await.0 as f32, LOWEST_KEPT, |a, b| a <= b);
        }
        if taught || is_near_baseline(observation, known) {
            insert_sorted(&mut self.well_rates, observation.rate as f32, HIGHEST_LOADS_KEPT, |a, b| a >= b);
            insert_sorted(&mut self.well_outstanding, observation.outstanding as f32, HIGHEST_LOADS_KEPT, |a, b| a >= b);
            insert_sorted(&mut self.well_kib_rates, observation.kib_per_second as f32, HIGHEST_LOADS_KEPT, |a, b| a >= b);
        }
        if !observation.uncontended {
            return;
        }
        self.advance_to_day(unix_day(observation.at_s));
        self.today.seen.push(observation.r#await.0 as f32);
        if !taught {
            return;
        }
        let taught = if observation.light_load { &mut self.today.taught } else { &mut self.today.taught_busy };
        taught.push(observation.r#await.0 as f32);
        if let Some(quantiles) = observation.quantiles.filter(|_| observation.light_load) {
            self.add_quantiles(quantiles);
        }
        self.intervals = self.intervals.saturating_add(1);
        if self.first_s == 0 {
            self.first_s = observation.at_s;
        }
        self.last_s = self.last_s.max(observation.at_s);
        self.name = Some(observation.name.clone());
    }

    fn add_quantiles(&mut self, quantiles: Quantiles) {
        let is_tail = |known: Quantiles| quantiles.p99.0 > known.p99.0 * MAX_LEARNABLE_TAIL_MULTIPLE;
        if self.quantiles().is_some_and(is_tail) {
            return;
        }
        self.today.p50.push(quantiles.p50.0 as f32);
        self.today.p99.push(quantiles.p99.0 as f32);
    }

    /// Removes values that only a damaged file can have.
    pub(super) fn sanitized(mut self) -> LearnedBaseline {
        self.today.p50 = self.today.p50.sanitized();
        self.today.p99 = self.today.p99.sanitized();
        self.quantile_days.retain(|day| day.1 > 0 && is_valid_latency(day.2) && is_valid_latency(day.3));
        self.drop_oldest_quantile_days();
        self.today.taught = self.today.taught.sanitized();
        self.today.taught_busy = self.today.taught_busy.sanitized();
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
            (&mut self.well_rates, HIGHEST_LOADS_KEPT, higher),
            (&mut self.well_outstanding, HIGHEST_LOADS_KEPT, higher),
            (&mut self.well_kib_rates, HIGHEST_LOADS_KEPT, higher),
        ];
        for (list, most, order) in lists {
            list.retain(|value| is_valid_latency(*value));
            list.sort_by(order);
            list.truncate(most);
        }
        self.by_hand_ms = self.by_hand_ms.filter(|ms| ms.is_finite() && *ms > 0.0);
        self
    }

    fn light_load_observations(&self) -> u32 {
        self.days.iter().map(|day| day.learned).fold(self.today.taught.count(), u32::saturating_add)
    }

    fn busy_observations(&self) -> u32 {
        self.busy_days.iter().map(|day| day.1).fold(self.today.taught_busy.count(), u32::saturating_add)
    }

    /// Latencies with their weights
    fn light_load_values(&self) -> impl Iterator<Item = (f32, u32)> {
        let today = self.today.taught.values_ms().iter().map(|&ms| (ms, 1));
        self.days.iter().map(|day| (day.learned_ms, day.weight())).chain(today)
    }

    fn busy_values(&self) -> impl Iterator<Item = (f32, u32)> {
        let today = self.today.taught_busy.values_ms().iter().map(|&ms| (ms, 1));
        self.busy_days.iter().map(|day| (day.2, day.1.min(Day::MAX_WEIGHT))).chain(today)
    }

    fn median(values: impl Iterator<Item = (f32, u32)>) -> Option<Millis> {
        median(values.collect()).map(|ms| Millis(ms.max(MIN_LATENCY_MS)))
    }

    fn today(&self) -> Option<Day> {
        let (taught, seen) = (&self.today.taught, &self.today.seen);
        let day = Day {
            day: self.today.day,
            learned: taught.count(),
            learned_ms: taught.weighted_median().unwrap_or_default() as f32,
            uncontended: seen.count(),
            uncontended_ms: seen.weighted_median().unwrap_or_default() as f32,
        };
        (day.uncontended > 0).then_some(day)
    }

    fn learned_days(&self) -> BTreeSet<i32> {
        let today = self.today().into_iter();
        let light_load = self.days.iter().copied().chain(today).filter(|day| day.learned > 0).map(|day| day.day);
        let busy_today = (self.today.taught_busy.count() > 0).then_some(self.today.day);
        light_load.chain(self.busy_days.iter().map(|day| day.0)).chain(busy_today).collect()
    }

    /// Summarizes the current day when a later one begins. An observation of another run from just before midnight counts for the
    /// current day.
    fn advance_to_day(&mut self, day: i32) {
        if day == self.today.day || day.saturating_add(1) == self.today.day {
            return;
        }
        if let Some(over) = self.today() {
            let busy = &self.today.taught_busy;
            let busy_ms = busy.weighted_median().unwrap_or_default() as f32;
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
            if let Some((p50_ms, p99_ms)) = p50.weighted_median().zip(p99.weighted_median()) {
                self.quantile_days.push((over.day, p99.count(), p50_ms as f32, p99_ms as f32));
                self.drop_oldest_quantile_days();
            }
            self.days.push(over);
        }
        self.today = Today { day, ..Today::default() };
        // Days with few or no learned intervals do not displace the days of the median.
        self.drop_oldest_days(DRIFT_DAYS, 0, |day| day.learned == 0);
        self.drop_oldest_days(MEDIAN_DAYS, MIN_INTERVALS, |day| day.learned > 0);
    }

    /// Keeps the last `most` days of a kind, and more if those have fewer than `taught` learned intervals.
    fn drop_oldest_days(&mut self, most: usize, taught: u32, kind: fn(&Day) -> bool) {
        loop {
            let mut of_kind = self.days.iter().enumerate().filter(|(_, day)| kind(day));
            let Some((first, _)) = of_kind.next() else { return };
            let (rest, left) = of_kind.fold((0_usize, 0_u32), |(n, sum), (_, day)| (n + 1, sum.saturating_add(day.learned)));
            if rest < most || left < taught && rest < 4 * MEDIAN_DAYS {
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
        higher(&self.well_rates, observation.rate)
            || higher(&self.well_outstanding, observation.outstanding)
            || higher(&self.well_kib_rates, observation.kib_per_second)
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
