//! Without a terminal: a block of lines a second (or as often as asked for).

use crate::app::config::Settings;
use crate::app::evaluation::{BaselineLearner, SampleEvaluator};
use crate::app::program::exit::{Exit, Failure};
use crate::app::program::stdio::{self, ReaderState};
use crate::app::sampling::SamplerThread;
use crate::cli::{Configuration, Live};
use crate::kernel::Root;
use crate::report::{text, window::Window};

/// Until somebody ends it, or nobody reads any more.
pub fn live(root: Root, configuration: &Configuration, live: &Live) -> Result<Exit, Failure> {
    let settings = Settings::load_and_warn(&root, configuration)?;
    let mut lessons = if root.is_host() { BaselineLearner::load_and_warn() } else { BaselineLearner::empty() };
    let mut sampling = SamplerThread::start(root, live.interval, None)?;
    let mut judging =
        SampleEvaluator::new(sampling.host.clone(), lessons.new_evaluator(settings.rule_config_for(&sampling.host)));
    let glyphs = stdio::glyphs(live.appearance.glyphs());
    while let Some(taken) = sampling.samples.blocking_recv() {
        if let Some(baselines) = lessons.poll_changes() {
            judging.set_baselines(baselines);
        }
        let Some(judged) = judging.evaluate(taken.sample) else { continue };
        lessons.observe(&judged);
        let mut window = Window::default();
        window.add(&judged);
        if stdio::print_with_glyphs(glyphs, &text::summary(&window))? == ReaderState::Closed {
            break;
        }
        if let Some(line) = lessons.write_periodically() {
            stdio::print_stderr(&format!("what was learned of disks is not kept: {line}"));
        }
    }
    if let Some(line) = lessons.write_before_exit() {
        stdio::print_stderr(&line);
    }
    if crate::app::program::panics::has_panicked() { Err(Failure::already_reported(Exit::Failed)) } else { Ok(Exit::Success) }
}
