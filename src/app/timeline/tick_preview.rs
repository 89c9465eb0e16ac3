//! What the strip shows of samples that nobody has judged here yet: what the recorder saw of them. Of the last ones of a
//! recording that was killed, or still grows, it could not tell any more: these are looked at ahead of the survey.

use std::time::{Duration, Instant};

use super::background_analysis::tick;
use super::checkpoints::IndexedSamples;
use crate::app::evaluation::SampleEvaluator;
use crate::findings::Evaluator;
use crate::state::TimelineTick;

/// No more samples than this are looked at ahead: a recorder tells what it saw of each so many.
const MAX_PREVIEW_SAMPLES: u64 = 120;

/// Samples before those, for a judge who remembers nothing: after as many intervals the rules for the beginning and the end of a
/// finding, and for how bad it is, have had all that they ask for.
const WARM_UP_SAMPLES: u64 = 8;

#[derive(Default)]
pub struct TickPreview {
    /// With the numbers of the samples that end the intervals, in their order
    ticks: Vec<(u64, TimelineTick)>,
    /// The judge who has just taken the sample before `next`
    evaluator: Option<SampleEvaluator>,
    /// The first sample that the recorder did not tell of, and that was not looked at
    next_index: u64,
}

impl TickPreview {
    /// What the recorder told, in the order of numbers.
    pub fn new(ticks: Vec<(u64, TimelineTick)>) -> TickPreview {
        let next = ticks.last().map_or(0, |(number, _)| number + 1);
        TickPreview { ticks, evaluator: None, next_index: next }
    }

    /// From that sample on.
    pub fn ticks_from(&self, number: u64) -> &[(u64, TimelineTick)] {
        self.ticks.get(self.ticks.partition_point(|(at, _)| *at < number)..).unwrap_or_default()
    }

    /// Whether samples are to be looked at while the survey has come as far as it has: none where nobody told of any, since
    /// then it is the survey that shows the strip.
    pub fn is_needed(&self, surveyed: u64, end: u64) -> bool {
        !self.ticks.is_empty() && self.next_index < end && surveyed < self.next_index
    }

    /// Looks at samples for about that long; `judge` knows what they are judged by, and `describe` says what the recording
    /// says of the time before a sample. False when all were looked at.
    pub fn advance(
        &mut self,
        samples: &mut impl IndexedSamples,
        judge: &Evaluator,
        at_most: Duration,
        describe: impl Fn(u64) -> (bool, Option<String>),
    ) -> bool {
        let begun = Instant::now();
        let numbers = samples.indices();
        let first = numbers.end.saturating_sub(MAX_PREVIEW_SAMPLES).max(numbers.start);
        if self.next_index < first {
            (self.next_index, self.evaluator) = (first, None);
        }
        while self.next_index < numbers.end && begun.elapsed() < at_most {
            let number = self.next_index;
            self.next_index += 1;
            let judging = self.evaluator.get_or_insert_with(|| {
                let before = number.saturating_sub(WARM_UP_SAMPLES).max(numbers.start);
                let mut judging = SampleEvaluator::new(samples.host(before), judge.without_history());
                for number in before..number {
                    let _ = samples.sample(number).and_then(|sample| judging.evaluate_for_host(&samples.host(number), sample));
                }
                judging
            });
            let judged = samples.sample(number).and_then(|sample| judging.evaluate_for_host(&samples.host(number), sample));
            if let Some(judged) = judged {
                let (gap, mark) = describe(number);
                self.ticks.push((number, tick(&judged, gap, mark)));
            }
        }
        self.next_index < numbers.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::timeline::synthetic::{Made, host};
    use crate::baseline::Baselines;

    fn judge() -> Evaluator {
        Evaluator::new(Baselines::default())
    }

    /// What somebody who goes through all of it sees.
    fn seen(samples: &mut Made) -> Vec<(u64, TimelineTick)> {
        let mut judging = SampleEvaluator::new(host("before"), judge());
        let run = samples.indices().filter_map(|number| {
            let judged = samples.sample(number).and_then(|sample| judging.evaluate_for_host(&samples.host(number), sample))?;
            Some((number, tick(&judged, number == 140, None)))
        });
        run.collect()
    }

    fn all_of(forecast: &mut TickPreview, samples: &mut Made) {
        while forecast.advance(samples, &judge(), Duration::from_secs(60), |number| (number == 140, None)) {}
    }

    #[test]
    fn what_the_recorder_could_not_tell_any_more_is_what_a_straight_run_sees() {
        for damaged in [None, Some(119), Some(120), Some(125)] {
            let mut samples = Made::new(damaged, 200);
            let seen = seen(&mut samples);
            assert!(seen[119..].iter().any(|(_, tick)| tick.worst_severity.is_some()), "nothing was found");
            let told: Vec<_> = seen.iter().filter(|(number, _)| *number < 120).cloned().collect();
            let mut forecast = TickPreview::new(told);
            assert!(forecast.is_needed(0, 150) && forecast.is_needed(100, 150) && !forecast.is_needed(130, 150));
            all_of(&mut forecast, &mut samples);
            let other = forecast.ticks_from(0).iter().zip(&seen).find(|(told, seen)| told != seen);
            assert_eq!((forecast.ticks_from(0).len(), other), (seen.len(), None), "damaged: {damaged:?}");
            assert_eq!(forecast.ticks_from(148), &seen[seen.len() - 2..]);
            assert!(!forecast.is_needed(0, 150));
        }
    }

    /// It grows while the survey is far behind.
    #[test]
    fn what_comes_later_is_looked_at_as_it_comes() {
        let mut samples = Made::new(None, 200);
        let all = seen(&mut samples);
        samples.numbers = 0..130;
        let mut forecast = TickPreview::new(all[..119].to_vec());
        for end in [130, 131, 150] {
            samples.numbers = 0..end;
            assert!(forecast.is_needed(7, end));
            all_of(&mut forecast, &mut samples);
            assert_eq!(forecast.ticks_from(0).len() as u64, end - 1);
        }
        assert!(forecast.ticks_from(0) == all, "other ticks than those of a straight run");
    }

    #[test]
    fn no_more_is_looked_at_than_a_recorder_leaves_untold() {
        let mut samples = Made::new(None, 400);
        samples.numbers = 0..400;
        let told = seen(&mut samples)[..10].to_vec();
        let mut forecast = TickPreview::new(told);
        all_of(&mut forecast, &mut samples);
        let numbers: Vec<u64> = forecast.ticks_from(0).iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, (1..=10).chain(280..400).collect::<Vec<_>>());
        let nobody = TickPreview::new(Vec::new());
        assert!(!nobody.is_needed(0, 400), "nobody told of any: the survey shows the strip");
    }
}
