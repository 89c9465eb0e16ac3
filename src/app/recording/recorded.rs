//! A recording read from its beginning to its end, and judged on the way.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::tz::TimeZone;

use super::part;
use crate::app::config::Settings;
use crate::app::judging::Judging;
use crate::app::program::exit::{Failure, quoted};
use crate::app::program::stdout;
use crate::app::recording;
use crate::cli::part::Part;
use crate::findings::{Criteria, Judge, Judged, Thresholds};
use crate::recording::{Moment, Replayer};
use crate::report::words::many;
use crate::sample::{Instant, Sample};

/// Gives its intervals, judged one after the other. What is damaged is left out, and told at the end.
pub struct Recorded {
    path: PathBuf,
    replayer: Replayer,
    judging: Judging,
    criteria: Arc<Criteria>,
    next: usize,
}

impl Recorded {
    /// Judged by what is set here, as far as it holds for the machine of the recording.
    pub fn open(path: &Path, settings: &Settings) -> Result<Recorded, Failure> {
        let replayer = Replayer::open(path).map_err(recording::failure)?;
        let baselines = recording::baselines(replayer.section(recording::baselines_section()));
        let host = Arc::new(replayer.meta().host.clone());
        let criteria = settings.criteria_for(&host);
        let judge = Judge::new(baselines).by(Arc::clone(&criteria));
        let judging = Judging::new(host, judge);
        Ok(Recorded { path: path.to_owned(), replayer, judging, criteria, next: 0 })
    }

    /// Only that part of it, judged from where it begins.
    pub fn narrow(&mut self, part: &Part, zone: &TimeZone) -> Result<(), Failure> {
        part::narrow(&mut self.replayer, part, &self.path, zone)
    }

    /// What it is judged by.
    pub fn thresholds(&self) -> &Thresholds {
        &self.criteria.thresholds
    }

    /// From boot to a sample of it.
    pub fn since_boot(&self, sample: &Arc<Sample>) -> Option<Judged> {
        self.judging.since_boot(sample)
    }

    pub fn replayer(&self) -> &Replayer {
        &self.replayer
    }

    /// The sample that ends the interval that it gave last.
    pub fn place(&self) -> usize {
        self.next.saturating_sub(1)
    }

    /// When the last sample was taken; without reading it.
    pub fn end(&self) -> Moment {
        self.replayer.len().checked_sub(1).and_then(|last| self.replayer.instant(last)).unwrap_or_default()
    }

    /// Says on standard error what could not be read.
    pub fn complain(&self) {
        let damage = self.replayer.damage();
        if let Some(first) = damage.first() {
            let (name, places, at) = (quoted(&self.path), many(damage.len() as u64, "place"), first.bytes.start);
            stdout::complain(&match self.replayer.unreadable().first() {
                Some(unreadable) => format!("{name} is not whole: {}: all that is sound was judged", unreadable.why),
                None => format!("{name} is damaged in {places}, first at byte {at}: all that is sound was judged"),
            });
        }
    }
}

impl Iterator for Recorded {
    type Item = Judged;

    fn next(&mut self) -> Option<Judged> {
        while self.next < self.replayer.len() {
            let index = self.next;
            self.next += 1;
            // What is damaged is told at the end.
            let Ok(sample) = self.replayer.sample(index) else { continue };
            if let Some(judged) = self.judging.take_of(&self.replayer.host(index), sample) {
                return Some(judged);
            }
        }
        None
    }
}

/// As the layers above the recording have it; MONOTONIC is not kept beside frames.
pub fn instant(at: Moment) -> Instant {
    Instant { boottime_ns: at.boottime_ns, monotonic_ns: at.boottime_ns, realtime_ns: at.realtime_ns }
}
