//! Where judged intervals come from: the running machine, or a recording.

pub mod live;

use crate::state::{Effect, Event};
use live::Live;

/// Two of them, both ours.
pub enum Feed {
    Live(Live),
}

impl Feed {
    /// What happens next; may be given up while it waits. Empty when nothing will ever happen again.
    pub async fn next(&mut self) -> Vec<Event> {
        match self {
            Feed::Live(live) => live.next().await,
        }
    }

    /// Does what the state asks of the feed; says what came of it.
    pub fn act(&mut self, effect: Effect) -> Vec<Event> {
        match self {
            Feed::Live(live) => live.act(effect),
        }
    }

    /// The end of the program: what must be kept is kept.
    pub fn close(self) {
        match self {
            Feed::Live(live) => live.close(),
        }
    }
}
