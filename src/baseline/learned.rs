//! The learned baseline of one device, operation and size class: the median over days, drift, and confidence.
//! docs/metrics.md, "Baselines".

mod learning;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::reservoir::{Day, Reservoir, median};
use super::{BaselineLoad, Drift, Quantiles};
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
    #[serde(rename = "well_rates")]
    rates_near_baseline: Vec<f32>,
    /// The same for the mean number of requests in flight
    #[serde(rename = "well_outstanding")]
    outstanding_near_baseline: Vec<f32>,
    /// The same for KiB per second; empty in files of earlier versions
    #[serde(rename = "well_kib_rates", skip_serializing_if = "Vec::is_empty")]
    kib_rates_near_baseline: Vec<f32>,
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
    #[serde(skip)]
    medians: Medians,
}

/// The medians of the values above, computed when one of these changes: every interval asks for them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Medians {
    light_load: Option<Millis>,
    /// Of the values under light load and under more
    all_loads: Option<Millis>,
    p50: Option<Millis>,
    p99: Option<Millis>,
    learned_today: Option<f64>,
    seen_today: Option<f64>,
}

/// The current day.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Today {
    day: i32,
    /// Under light load
    #[serde(rename = "taught")]
    learned: Reservoir,
    /// Under more load
    #[serde(rename = "taught_busy", skip_serializing_if = "Reservoir::is_empty")]
    learned_busy: Reservoir,
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

/// Observations with p50 and p99 of single requests from which these are a baseline. More than `MIN_INTERVALS`: a p99 varies more than a
/// mean, and a baseline that is too low refuses what would raise it.
pub const MIN_TAIL_OBSERVATIONS: u32 = 60;

/// A drift is reported when this many last days show it, at least `MIN_DRIFT_AGE_DAYS` after the first ones.
const DRIFT_DAYS: usize = 3;
const MIN_DRIFT_AGE_DAYS: i32 = 7;

/// A smaller change is no drift, since the kernel counts whole milliseconds.
const MIN_DRIFT_MS: f64 = 0.1;

/// Lower bound of all latencies, since the kernel counts whole milliseconds.
const MIN_LATENCY_MS: f64 = 0.01;

/// A baseline without an observation for this long is stale.
const STALE_AFTER_S: i64 = 90 * 86_400;

impl LearnedBaseline {
    /// The baseline: as set by the user, or the median of enough observations under light load; of all if those are too few; `None`
    /// before that.
    pub fn latency(&self) -> Option<Millis> {
        match self.by_hand_ms {
            Some(by_hand) => Some(Millis(by_hand)),
            None if self.light_load_observations() >= MIN_INTERVALS => self.medians.light_load,
            None if self.light_load_observations().saturating_add(self.busy_observations()) >= MIN_INTERVALS => {
                self.medians.all_loads
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
        Some(Quantiles { p50: self.medians.p50?, p99: self.medians.p99? })
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
            rate: highest(&self.rates_near_baseline)?,
            kib_per_second: highest(&self.kib_rates_near_baseline).filter(|&kib| kib > 0.0),
            outstanding: highest(&self.outstanding_near_baseline)?,
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
        let learned: u32 = self.early.iter().map(|day| day.learned).fold(0, u32::saturating_add);
        let worst = self.early.iter().map(|day| day.learned_ms).fold(0.0, f32::max);
        let mut late: Vec<Day> = self.days.iter().copied().chain(self.today()).collect();
        late.retain(|day| day.uncontended >= MIN_INTERVALS && day.day.saturating_sub(last.day) >= MIN_DRIFT_AGE_DAYS);
        late.drain(..late.len().saturating_sub(DRIFT_DAYS));
        if learned < MIN_INTERVALS || late.iter().any(|day| day.uncontended_ms <= worst) {
            return None;
        }
        let days: BTreeSet<i32> = late.iter().map(|day| day.day).collect();
        if days.len() < DRIFT_DAYS {
            return None;
        }
        let of_early = |day: &Day| (day.learned_ms, day.weight());
        let was = median(self.early.iter().map(of_early).collect())?.max(MIN_LATENCY_MS);
        let now = median(late.iter().map(|day| (day.uncontended_ms, 1)).collect())?;
        let until = *days.last()?;
        let drift =
            Drift { reference: Millis(was), current: Millis(now), since_day: first.day, days: until.saturating_sub(first.day) };
        (now - was >= MIN_DRIFT_MS).then_some(drift)
    }

    fn light_load_observations(&self) -> u32 {
        self.days.iter().map(|day| day.learned).fold(self.today.learned.count(), u32::saturating_add)
    }

    fn busy_observations(&self) -> u32 {
        self.busy_days.iter().map(|day| day.1).fold(self.today.learned_busy.count(), u32::saturating_add)
    }

    /// Latencies with their weights
    fn light_load_values(&self) -> impl Iterator<Item = (f32, u32)> {
        let today = self.today.learned.values_ms().iter().map(|&ms| (ms, 1));
        self.days.iter().map(|day| (day.learned_ms, day.weight())).chain(today)
    }

    fn busy_values(&self) -> impl Iterator<Item = (f32, u32)> {
        let today = self.today.learned_busy.values_ms().iter().map(|&ms| (ms, 1));
        self.busy_days.iter().map(|day| (day.2, day.1.min(Day::MAX_WEIGHT))).chain(today)
    }

    fn to_medians(&self) -> Medians {
        let latency = |values: Vec<(f32, u32)>| median(values).map(|ms| Millis(ms.max(MIN_LATENCY_MS)));
        let quantile = |today: &Reservoir, of_day: fn(&QuantileDay) -> f32| {
            let past = self.quantile_days.iter().map(|day| (of_day(day), day.1.min(Day::MAX_WEIGHT)));
            median(past.chain(today.values_ms().iter().map(|&ms| (ms, 1))).collect()).map(Millis)
        };
        Medians {
            light_load: latency(self.light_load_values().collect()),
            all_loads: latency(self.light_load_values().chain(self.busy_values()).collect()),
            p50: quantile(&self.today.p50, |day| day.2),
            p99: quantile(&self.today.p99, |day| day.3),
            learned_today: self.today.learned.median(),
            seen_today: self.today.seen.median(),
        }
    }

    fn today(&self) -> Option<Day> {
        let (learned, seen) = (&self.today.learned, &self.today.seen);
        let day = Day {
            day: self.today.day,
            learned: learned.count(),
            learned_ms: self.medians.learned_today.unwrap_or_default() as f32,
            uncontended: seen.count(),
            uncontended_ms: self.medians.seen_today.unwrap_or_default() as f32,
        };
        (day.uncontended > 0).then_some(day)
    }

    fn learned_days(&self) -> BTreeSet<i32> {
        let today = self.today().into_iter();
        let light_load = self.days.iter().copied().chain(today).filter(|day| day.learned > 0).map(|day| day.day);
        let busy_today = (self.today.learned_busy.count() > 0).then_some(self.today.day);
        light_load.chain(self.busy_days.iter().map(|day| day.0)).chain(busy_today).collect()
    }
}
