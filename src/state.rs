//! Everything that a frame depends on, the present time included, and `update`, the only way to change it.
//!
//! No clock, no file, no terminal and no colour here: whoever runs the program brings in events and acts on effects;
//! whoever draws gets a shared reference. Live and replay share all of it.

pub mod event;
pub mod history;
pub mod keys;
pub mod look;
pub mod moment;
pub mod screen;
pub mod update;

use std::sync::Arc;

use jiff::tz::TimeZone;

pub use event::{Click, Effect, Event, Key, Notice, Position, Recorder, Tick};
pub use look::{Colours, Glyphs, Look};
pub use screen::Screen;
pub use update::update;

use crate::findings::Judged;
use crate::sample::Instant;
use history::{History, Timeline};

/// What is known before the first sample.
#[derive(Clone, Debug)]
pub struct Setup {
    pub look: Look,
    pub source: Source,
    /// In which times of day are shown
    pub zone: TimeZone,
    /// Columns and rows of the terminal
    pub size: (u16, u16),
    /// The nominal time between samples
    pub interval_ms: u64,
}

/// Where the samples come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Live,
    /// A recording; what it is called in the head line
    Replay {
        name: String,
    },
}

/// What is on the screen, and what it is drawn from.
#[derive(Clone, Debug)]
pub struct State {
    pub setup: Setup,
    /// What is shown; `None` before the first interval
    pub current: Option<Judged>,
    /// The newest interval, where the one shown is an older one
    pub newest: Option<Judged>,
    pub history: History,
    pub timeline: Timeline,
    /// The whole recording, a tick an interval; empty when live
    pub strip: Arc<[Tick]>,
    pub position: Option<Position>,
    pub paused: bool,
    /// Of replay: 1.0 is as it happened
    pub speed: f64,
    pub recorder: Recorder,
    pub notice: Option<Notice>,
    /// The feed is at its end, and why
    pub ended: Option<String>,
    /// The present, where the feed has told
    pub now: Option<Instant>,
    pub screen: Screen,
}

impl State {
    pub fn new(setup: Setup) -> State {
        State {
            setup,
            current: None,
            newest: None,
            history: History::default(),
            timeline: Timeline::default(),
            strip: Arc::from([]),
            position: None,
            paused: false,
            speed: 1.0,
            recorder: Recorder::Off,
            notice: None,
            ended: None,
            now: None,
            screen: Screen::Overview,
        }
    }

    pub fn is_live(&self) -> bool {
        self.setup.source == Source::Live
    }
}
