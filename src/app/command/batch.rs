//! The live mode without a terminal: prints a summary of each interval.

use crate::app::baseline_learner::BaselineLearner;
use crate::app::config::Settings;
use crate::app::live_pipeline::LiveEvaluations;
use crate::app::program::exit::{Exit, Failure};
use crate::app::program::stdio::{self, ReaderState};
use crate::app::sampling::{SamplerThread, SamplingPlan};
use crate::cli::{Configuration, Live};
use crate::kernel::Root;
use crate::report::{text, window::Window};

/// Prints until a signal ends the program, or the reader of standard output has closed it.
pub fn live(root: Root, configuration: &Configuration, live: &Live) -> Result<Exit, Failure> {
    let settings = Settings::load_and_warn(&root, configuration)?;
    settings.require_theme(live.appearance.theme.as_deref())?;
    let baseline_learner = BaselineLearner::for_root(&root);
    let sampler = SamplerThread::start(SamplingPlan::new(root, live.interval, None, settings.probes()))?;
    let rule_config = settings.rule_config_for(&sampler.host);
    let mut evaluations = LiveEvaluations::new(sampler, rule_config, baseline_learner)?;
    let glyphs = stdio::glyphs(live.appearance.glyphs());
    for evaluation in evaluations.by_ref() {
        let mut window = Window::default();
        window.add(&evaluation);
        if stdio::print_with_glyphs(glyphs, &text::summary(&window))? == ReaderState::Closed {
            break;
        }
    }
    evaluations.finish()?;
    Ok(Exit::Success)
}
