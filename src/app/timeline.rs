//! Where judged intervals come from: samples as they come, or a recording.

pub mod background_analysis;
pub mod background_jobs;
pub mod checkpoints;
pub mod live;
pub mod recording_samples;
pub mod replay;
pub mod sample_source;
#[cfg(test)]
mod synthetic;
pub mod tick_preview;

use crate::app::program::exit::{Exit, Failure};
use crate::state::{Effect, Event};
use live::Live;
use replay::Replay;

/// Two of them, both ours: only one knows the end from the beginning.
pub enum Timeline {
    Live(Box<Live>),
    Replay(Box<Replay>),
}

impl Timeline {
    /// What happens next; may be given up while it waits, and waits for ever when nothing will happen again.
    pub async fn next(&mut self) -> Vec<Event> {
        match self {
            Timeline::Live(live) => live.next().await,
            Timeline::Replay(replay) => replay.next().await,
        }
    }

    /// Does what the state asks of the feed; says what came of it.
    pub fn act(&mut self, effect: Effect) -> Vec<Event> {
        match self {
            Timeline::Live(live) => live.act(effect),
            Timeline::Replay(replay) => replay.act(effect),
        }
    }

    /// The end of the program, when the screen is gone: what must be kept is kept.
    pub fn close(self) -> Option<Failure> {
        match self {
            Timeline::Live(live) => live.close().map(|line| Failure::new(Exit::CannotWrite, line, "", "")),
            Timeline::Replay(replay) => replay.close(),
        }
    }
}
