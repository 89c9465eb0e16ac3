//! Samples into evaluated intervals, one after the other.

use std::sync::Arc;

use crate::baseline::Baselines;
use crate::findings::{Evaluation, Evaluator};
use crate::interval::Interval;
use crate::interval::boot::since_boot;
use crate::interval::network::LinkOverrides;
use crate::sample::{Host, Sample};

/// A judge with the sample that the next interval begins with.
#[derive(Clone, Debug)]
pub struct SampleEvaluator {
    host: Arc<Host>,
    evaluator: Evaluator,
    last_sample: Option<Arc<Sample>>,
}

impl SampleEvaluator {
    pub fn new(host: Arc<Host>, judge: Evaluator) -> SampleEvaluator {
        SampleEvaluator { host, evaluator: judge, last_sample: None }
    }

    /// The interval that this sample ends; `None` for the first one.
    pub fn evaluate(&mut self, sample: Arc<Sample>) -> Option<Evaluation> {
        let older = self.last_sample.replace(Arc::clone(&sample))?;
        let interval = Interval::with_link_overrides(&self.host, self.link_overrides(), &older, &sample)?;
        Some(self.evaluator.evaluate(interval))
    }

    /// The same of a recording, whose next sample may be of another machine, or of another run of it: no interval reaches from
    /// the one to the other.
    pub fn evaluate_for_host(&mut self, host: &Arc<Host>, sample: Arc<Sample>) -> Option<Evaluation> {
        if !Arc::ptr_eq(&self.host, host) {
            if !self.host.is_same_boot(host) {
                self.last_sample = None;
            }
            self.host = Arc::clone(host);
        }
        self.evaluate(sample)
    }

    /// The time from boot to this sample; nothing is learned of it.
    pub fn evaluate_since_boot(&self, sample: &Arc<Sample>) -> Option<Evaluation> {
        Some(self.evaluator.clone().evaluate(since_boot(&self.host, self.link_overrides(), sample)?))
    }

    /// The next interval begins with this sample; nothing is judged.
    pub fn start_from(&mut self, sample: Arc<Sample>) {
        self.last_sample = Some(sample);
    }

    /// From now on judged by these baselines.
    pub fn set_baselines(&mut self, baselines: Baselines) {
        self.evaluator.set_baselines(baselines);
    }

    fn link_overrides(&self) -> &LinkOverrides {
        &self.evaluator.rule_config().link_overrides
    }

    /// The judge as it is now: what the next interval will be judged by.
    pub fn evaluator(&self) -> &Evaluator {
        &self.evaluator
    }
}
