//! Where judged intervals come from: samples as they come, or a recording.

pub mod course;
pub mod errands;
pub mod file;
pub mod forecast;
pub mod live;
#[cfg(test)]
mod made;
pub mod replay;
pub mod spring;
pub mod survey;

use crate::app::program::exit::{Exit, Failure};
use crate::state::{Effect, Event};
use live::Live;
use replay::Replay;

/// Two of them, both ours: only one knows the end from the beginning.
pub enum Feed {
    Live(Box<Live>),
    Replay(Box<Replay>),
}

impl Feed {
    /// What happens next; may be given up while it waits, and waits for ever when nothing will happen again.
    pub async fn next(&mut self) -> Vec<Event> {
        match self {
            Feed::Live(live) => live.next().await,
            Feed::Replay(replay) => replay.next().await,
        }
    }

    /// Does what the state asks of the feed; says what came of it.
    pub fn act(&mut self, effect: Effect) -> Vec<Event> {
        match self {
            Feed::Live(live) => live.act(effect),
            Feed::Replay(replay) => replay.act(effect),
        }
    }

    /// The end of the program, when the screen is gone: what must be kept is kept.
    pub fn close(self) -> Option<Failure> {
        match self {
            Feed::Live(live) => live.close().map(|line| Failure::new(Exit::CannotWrite, line, "", "")),
            Feed::Replay(replay) => replay.close(),
        }
    }
}
