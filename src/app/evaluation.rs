//! Computes the intervals between consecutive samples, and evaluates them in order.

use std::sync::Arc;

use crate::baseline::Baselines;
use crate::findings::{Evaluation, Evaluator};
use crate::interval::boot::since_boot;
use crate::interval::network::LinkOverrides;
use crate::interval::task::ProcessTotals;
use crate::interval::{Interval, IntervalContext};
use crate::sample::{Host, Sample};

/// The sample that the next interval begins with, and its host.
#[derive(Clone, Debug)]
pub struct SamplePairing {
    host: Arc<Host>,
    /// Speed and duplex of interfaces from the configuration
    links: LinkOverrides,
    last_sample: Option<Arc<Sample>>,
    /// Over the processes of the last sample
    totals: Option<Arc<ProcessTotals>>,
}

impl SamplePairing {
    pub fn new(host: Arc<Host>, links: LinkOverrides) -> SamplePairing {
        SamplePairing { host, links, last_sample: None, totals: None }
    }

    /// The interval that this sample ends; `None` for the first one.
    pub fn interval(&mut self, sample: Arc<Sample>) -> Option<Interval> {
        let totals = self.totals.take();
        let older = self.last_sample.replace(Arc::clone(&sample))?;
        let context = IntervalContext { links: LinkOverrides::clone(&self.links), older_totals: totals.as_deref() };
        let interval = Interval::with_context(&self.host, &older, &sample, context)?;
        self.totals = interval.process_totals().cloned();
        Some(interval)
    }

    /// The same of a recording, whose next sample may be of another machine, or of another boot: no interval reaches from one
    /// boot to the next.
    pub fn interval_for_host(&mut self, host: &Arc<Host>, sample: Arc<Sample>) -> Option<Interval> {
        if !Arc::ptr_eq(&self.host, host) {
            if !self.host.is_same_boot(host) {
                (self.last_sample, self.totals) = (None, None);
            }
            self.host = Arc::clone(host);
        }
        self.interval(sample)
    }

    /// The next interval begins with this sample.
    pub fn start_from(&mut self, sample: Arc<Sample>) {
        (self.last_sample, self.totals) = (Some(sample), None);
    }
}

/// An evaluator with the sample that the next interval begins with.
#[derive(Clone, Debug)]
pub struct SampleEvaluator {
    pairing: SamplePairing,
    evaluator: Evaluator,
}

impl SampleEvaluator {
    pub fn new(host: Arc<Host>, evaluator: Evaluator) -> SampleEvaluator {
        let links = LinkOverrides::clone(&evaluator.rule_config().link_overrides);
        SampleEvaluator { pairing: SamplePairing::new(host, links), evaluator }
    }

    /// The interval that this sample ends; `None` for the first one.
    pub fn evaluate(&mut self, sample: Arc<Sample>) -> Option<Evaluation> {
        let interval = self.pairing.interval(sample)?;
        Some(self.evaluator.evaluate(interval))
    }

    /// The same of a recording, whose next sample may be of another host or boot.
    pub fn evaluate_for_host(&mut self, host: &Arc<Host>, sample: Arc<Sample>) -> Option<Evaluation> {
        let interval = self.pairing.interval_for_host(host, sample)?;
        Some(self.evaluator.evaluate(interval))
    }

    /// The time from boot to this sample; nothing is learned from it.
    pub fn evaluate_since_boot(&self, sample: &Arc<Sample>) -> Option<Evaluation> {
        Some(self.evaluator.clone().evaluate(since_boot(&self.pairing.host, &self.pairing.links, sample)?))
    }

    /// The next interval begins with this sample; nothing is evaluated.
    pub fn start_from(&mut self, sample: Arc<Sample>) {
        self.pairing.start_from(sample);
    }

    /// Evaluates by these baselines from the next interval on.
    pub fn set_baselines(&mut self, baselines: Baselines) {
        self.evaluator.set_baselines(baselines);
    }

    /// The evaluator as the next interval finds it.
    pub fn evaluator(&self) -> &Evaluator {
        &self.evaluator
    }
}
