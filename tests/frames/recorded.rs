//! Recordings of the lab's loads, as replays at their end and as live screens.

use std::path::Path;
use std::sync::Arc;

use stalltop::app::evaluation::SampleEvaluator;
use stalltop::baseline::Baselines;
use stalltop::findings::{Evaluation, Evaluator};
use stalltop::recording::Replayer;
use stalltop::state::history::IntervalSummary;
use stalltop::state::{Event, Position, Source, State, TimelineTick, update};

use crate::screen::setup;

pub fn evaluations(name: &str) -> Vec<Evaluation> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/recordings/lab/{name}.stalltop"));
    let mut replayer = Replayer::open(&path).expect(name);
    let host = Arc::new(replayer.meta().host.clone());
    let mut evaluator = SampleEvaluator::new(host, Evaluator::new(Baselines::default()));
    let samples: Vec<_> = (0..replayer.len()).map(|at| (replayer.host(at), replayer.sample(at).expect(name))).collect();
    samples.into_iter().filter_map(|(host, sample)| evaluator.evaluate_for_host(&host, sample)).collect()
}

/// The replay of a recording at its last interval.
pub fn replay(name: &str, evaluations: &[Evaluation], size: (u16, u16)) -> State {
    let mut state = State::new(setup(size, Source::Replay { name: format!("{name}.stalltop") }));
    let ticks = evaluations.iter().map(|evaluation| TimelineTick::new(evaluation, false, None));
    update(&mut state, Event::Timeline(ticks.collect()));
    update(&mut state, Event::Summaries(evaluations.iter().map(IntervalSummary::for_graphs).collect()));
    update(&mut state, Event::Findings(evaluations.last().expect(name).active.to_vec()));
    let (first, last) = (evaluations.first().expect(name).interval.at(), evaluations.last().expect(name).interval.at());
    for (index, evaluation) in evaluations.iter().enumerate() {
        update(&mut state, Event::Evaluation(evaluation.clone()));
        update(&mut state, Event::Position(Position { index, length: evaluations.len(), first, last }));
    }
    state
}
