//! What was learned of one operation of one size class on one device.

use serde::{Deserialize, Serialize};

use crate::sample::disk::Disk;
use crate::units::Millis;

/// Awaits of intervals in which the device was nearly alone with its requests, and the lowest ones of all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Learned {
    /// Intervals that taught, all in all
    pub intervals: u32,
    /// Set by hand: nothing learned changes it
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_hand_ms: Option<f64>,
    /// Model, serial and kernel name of the device when it was last learned from
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Seconds after 1970 of the first and the last interval that taught
    #[serde(default)]
    pub first_s: i64,
    #[serde(default)]
    pub last_s: i64,
    /// The last `KEPT` awaits with the device nearly alone, a ring
    #[serde(default)]
    awaits_ms: Vec<f32>,
    /// The `REACHED` lowest awaits of any interval, ascending
    #[serde(default)]
    lowest_ms: Vec<f32>,
}

/// So many intervals make a baseline.
pub const ENOUGH: usize = 10;

/// The lowest await counts once so many intervals reached it.
const REACHED: usize = 5;

/// Awaits that the median is taken of.
const KEPT: usize = 64;

/// With so many awaits their median begins to mean something.
const FEW: usize = 3;

/// An interval above this multiple is a fault, not a lesson.
const FAULT: f64 = 2.0;

impl Learned {
    /// Set by hand, or the median of enough intervals.
    pub fn baseline(&self) -> Option<Millis> {
        match self.by_hand_ms {
            Some(by_hand) => Some(Millis(by_hand)),
            None if self.awaits_ms.len() >= ENOUGH => self.median(),
            None => None,
        }
    }

    /// What it took when nearly alone, from however few intervals.
    pub fn alone(&self) -> Option<Millis> {
        self.median()
    }

    /// The lowest await that 5 intervals reached.
    pub fn lowest(&self) -> Option<Millis> {
        self.lowest_ms.get(REACHED - 1).map(|&ms| Millis(f64::from(ms)))
    }

    /// Whether `add` would do anything: an unchanged baseline stays shared between its clones.
    pub(super) fn would_change(&self, r#await: Millis, alone: bool) -> bool {
        alone && self.teaches(r#await) || self.is_among_lowest(r#await)
    }

    pub(super) fn add(&mut self, r#await: Millis, alone: bool, now_s: i64, disk: &Disk) {
        let teaches = alone && self.teaches(r#await);
        if self.is_among_lowest(r#await) {
            let ms = r#await.0 as f32;
            let at = self.lowest_ms.partition_point(|&lower| lower <= ms);
            self.lowest_ms.insert(at, ms);
            self.lowest_ms.truncate(REACHED);
        }
        if !teaches {
            return;
        }
        if self.awaits_ms.len() < KEPT {
            self.awaits_ms.push(r#await.0 as f32);
        } else if let Some(oldest) = self.awaits_ms.get_mut(self.intervals as usize % KEPT) {
            *oldest = r#await.0 as f32;
        }
        self.intervals = self.intervals.saturating_add(1);
        if self.first_s == 0 {
            self.first_s = now_s;
        }
        self.last_s = now_s;
        let text = |name: &crate::sample::Name| String::from_utf8_lossy(name.as_bytes()).into_owned();
        self.model = disk.facts.model.as_ref().map(text);
        self.serial = disk.facts.serial.as_ref().map(text);
        self.name = Some(text(&disk.name));
    }

    /// The same without what only a damaged file can hold.
    pub(super) fn sound(mut self) -> Learned {
        let sound = |ms: &f32| ms.is_finite() && *ms >= 0.0;
        self.awaits_ms.retain(sound);
        self.awaits_ms.truncate(KEPT);
        self.lowest_ms.retain(sound);
        self.lowest_ms.sort_by(f32::total_cmp);
        self.lowest_ms.truncate(REACHED);
        self.by_hand_ms = self.by_hand_ms.filter(|ms| ms.is_finite() && *ms > 0.0);
        self
    }

    /// Never from an interval above 2× what is known so far, be that the baseline or a few intervals on the way to it.
    fn teaches(&self, r#await: Millis) -> bool {
        let known = self.baseline().or_else(|| self.median().filter(|_| self.awaits_ms.len() >= FEW));
        r#await.0.is_finite() && known.is_none_or(|known| r#await.0 <= known.0 * FAULT)
    }

    fn is_among_lowest(&self, r#await: Millis) -> bool {
        r#await.0.is_finite()
            && (self.lowest_ms.len() < REACHED || self.lowest_ms.last().is_some_and(|&highest| r#await.0 < f64::from(highest)))
    }

    fn median(&self) -> Option<Millis> {
        let mut sorted = self.awaits_ms.clone();
        sorted.sort_by(f32::total_cmp);
        let upper = *sorted.get(sorted.len() / 2)?;
        let lower = *sorted.get((sorted.len() - 1) / 2)?;
        Some(Millis((f64::from(lower) + f64::from(upper)) / 2.0))
    }
}
