//! Judged intervals in any order, each as a straight run from the first sample gives it: from time to time the judge is
//! remembered, and what lies between is judged again.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::app::judging::Judging;
use crate::findings::{Judge, Judged};
use crate::sample::{Host, Sample};

/// Samples that can be asked for by number.
pub trait Samples {
    /// Those that there are. Numbers stay what they are when old samples are forgotten and new ones come.
    fn numbers(&self) -> Range<u64>;

    /// `None` where it is damaged.
    fn sample(&mut self, number: u64) -> Option<Arc<Sample>>;
}

/// The way of the judge through the samples.
pub struct Course {
    host: Arc<Host>,
    /// The judge after it took the sample of that number
    remembered: BTreeMap<u64, Judge>,
    /// Where somebody went last: the next step from there costs one sample
    cursor: Option<Cursor>,
}

struct Cursor {
    number: u64,
    judging: Judging,
    /// `None` for the first sample
    judged: Option<Judged>,
}

/// Samples between two remembered judges: the most that going somewhere may cost.
const EVERY: u64 = 32;

impl Course {
    pub fn new(host: Arc<Host>) -> Course {
        Course { host, remembered: BTreeMap::new(), cursor: None }
    }

    /// Remembers the straight run, which has just taken the sample of that number.
    pub fn remember(&mut self, number: u64, judging: &Judging) {
        if number.is_multiple_of(EVERY) {
            self.remembered.insert(number, judging.judge().clone());
        }
    }

    /// The first judge that is remembered.
    pub fn oldest(&self) -> Option<&Judge> {
        self.remembered.first_key_value().map(|(_, judge)| judge)
    }

    /// Forgets what lies before the first sample that there is.
    pub fn forget_before(&mut self, first: u64) {
        if self.remembered.first_key_value().is_some_and(|(&number, _)| number < first) {
            self.remembered = self.remembered.split_off(&first);
        }
    }

    /// The interval that ends with the sample of that number; `None` for the first one, and where the sample is damaged.
    pub fn judged(&mut self, samples: &mut impl Samples, number: u64) -> Option<Judged> {
        let Range { start: first, end } = samples.numbers();
        if number < first || number >= end {
            return None;
        }
        let near = self.remembered.range(first..number).next_back().map(|(&at, judge)| (at, judge.clone()));
        let cursor = self.cursor.take().filter(|cursor| (first..=number).contains(&cursor.number));
        let mut cursor = match (cursor, near) {
            (Some(cursor), near) if near.as_ref().is_none_or(|near| cursor.number >= near.0) => cursor,
            (_, Some((at, judge))) => self.begin(samples, at, judge),
            // Older than every judge that is remembered, since what lay before is forgotten: one that knows the baselines.
            (_, None) => {
                let (_, later) = self.remembered.first_key_value()?;
                let judge = Judge::new(later.baselines().clone());
                self.begin(samples, first, judge)
            }
        };
        while cursor.number < number {
            cursor.number += 1;
            cursor.judged = samples.sample(cursor.number).and_then(|sample| cursor.judging.take(sample));
        }
        let judged = cursor.judged.clone();
        self.cursor = Some(cursor);
        judged
    }

    /// Begins in the middle, where no straight run has come by yet: what follows is judged by somebody who remembers
    /// nothing of before.
    pub fn guess(&mut self, samples: &mut impl Samples, number: u64, judge: &Judge) {
        let judge = Judge::new(judge.baselines().clone());
        self.cursor = Some(self.begin(samples, number, judge));
    }

    /// The next one goes by what is remembered.
    pub fn forget_cursor(&mut self) {
        self.cursor = None;
    }

    /// A judge that has just taken the sample of that number.
    fn begin(&self, samples: &mut impl Samples, number: u64, judge: Judge) -> Cursor {
        let mut judging = Judging::new(Arc::clone(&self.host), judge);
        if let Some(sample) = samples.sample(number) {
            judging.begin(sample);
        }
        Cursor { number, judging, judged: None }
    }
}
