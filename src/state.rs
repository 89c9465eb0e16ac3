//! Everything that a frame depends on, the present time included, and `update`, the only way to change it.
//!
//! No clock, no file, no terminal and no colour here: whoever runs the program brings in events and acts on effects;
//! whoever draws gets a shared reference. Live and replay share all of it.

pub mod cursor;
pub mod event;
pub mod history;
pub mod keys;
pub mod layout;
pub mod look;
pub mod moment;
pub mod peers;
pub mod rows;
pub mod screen;
pub mod timeline;
pub mod update;

use std::sync::Arc;

use jiff::tz::TimeZone;

pub use event::{Click, Effect, Event, Key, Mark, Notice, Position, Recorder, Tick};
pub use look::{Colours, Glyphs, Look};
pub use rows::{Item, Row};
pub use screen::{Column, Screen};
pub use update::update;

use crate::findings::Judged;
use crate::sample::Instant;
use cursor::Cursor;
use history::History;
use timeline::Timeline;

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
    /// A recording that arrives on standard input; its name in the header
    Pipe {
        name: String,
    },
    /// A recording in files; its name in the header
    Replay {
        name: String,
    },
}

/// What the source of the samples supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// New samples arrive whatever interval is shown; a pause stops the screen only
    pub follows_newest: bool,
    /// The time between samples can be set
    pub set_interval: bool,
    /// Intervals are played at a speed that can be set
    pub set_speed: bool,
    /// The samples in memory can be saved, recorded and marked
    pub record: bool,
}

impl Source {
    pub fn capabilities(&self) -> Capabilities {
        let in_memory = !matches!(self, Source::Replay { .. });
        Capabilities {
            follows_newest: in_memory,
            set_interval: *self == Source::Live,
            set_speed: !in_memory,
            record: in_memory,
        }
    }
}

/// What is on the screen, and what it is drawn from.
#[derive(Clone, Debug)]
pub struct State {
    pub setup: Setup,
    /// What is shown; `None` before the first interval
    pub current: Option<Judged>,
    /// Live: the newest interval, while an older one is shown
    pub newest: Option<Judged>,
    pub history: History,
    pub timeline: Timeline,
    /// The whole recording, a tick an interval; empty when live
    pub strip: Arc<[Tick]>,
    /// Words among what can be gone to, in the order of time
    pub marks: Arc<[Mark]>,
    pub position: Option<Position>,
    pub paused: bool,
    /// Of replay: 1.0 is as it happened
    pub speed: f64,
    pub recorder: Recorder,
    pub notice: Option<Notice>,
    /// Intervals until the notice goes away
    notice_left: u8,
    /// The feed is at its end, and why
    pub ended: Option<Option<String>>,
    /// The present, where the feed has told
    pub now: Option<Instant>,
    pub screen: Screen,
    /// The rows of the list on the screen
    pub rows: Vec<Row>,
    cursors: [Cursor; 6],
    sorts: [usize; 6],
    reversed: [bool; 6],
    searches: [Search; 6],
    /// Tasks: a row a thread; below their parents; grouped by what they wait for
    pub threads: bool,
    pub tree: bool,
    pub by_class: bool,
    /// Network: a row a remote host instead of an interface
    pub peers: bool,
    /// What stands open over the list
    pub details: Option<Details>,
    pub help: Option<usize>,
    pub prompt: Option<Prompt>,
}

/// One item looked at closely.
#[derive(Clone, Debug, PartialEq)]
pub struct Details {
    pub item: Item,
    /// The first visible line
    pub top: usize,
}

/// A line that is being typed.
#[derive(Clone, Debug)]
pub struct Prompt {
    pub asks: Asks,
    pub input: tui_input::Input,
}

/// What a prompt asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    Filter,
    Time,
    Mark,
}

/// The filter of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search(String);

impl Search {
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// What the rows are ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sort {
    pub column: Column,
    pub reversed: bool,
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
            marks: Arc::from([]),
            position: None,
            paused: false,
            speed: 1.0,
            recorder: Recorder::Off,
            notice: None,
            notice_left: 0,
            ended: None,
            now: None,
            screen: Screen::Overview,
            rows: Vec::new(),
            cursors: Default::default(),
            sorts: [0; 6],
            reversed: [false; 6],
            searches: Default::default(),
            threads: false,
            tree: false,
            by_class: false,
            peers: false,
            details: None,
            help: None,
            prompt: None,
        }
    }

    /// What the source of the samples supports.
    pub fn capabilities(&self) -> Capabilities {
        self.setup.source.capabilities()
    }

    /// Whether a time of day alone does not tell when it was: what can be gone to is half a day and more.
    pub fn spans_days(&self) -> bool {
        const HALF_A_DAY_NS: i64 = 43_200_000_000_000;
        let ends = self.strip.first().zip(self.strip.last());
        ends.is_some_and(|(first, last)| last.realtime_ns.saturating_sub(first.realtime_ns) >= HALF_A_DAY_NS)
    }

    /// The cursor of the list on the screen.
    pub fn cursor(&self) -> &Cursor {
        &self.cursors[self.screen as usize]
    }

    /// The filter of the list on the screen.
    pub fn search(&self) -> &Search {
        &self.searches[self.screen as usize]
    }

    /// Whether the rows are kinds of waiting, which have one order and no filter.
    pub fn shows_classes(&self) -> bool {
        self.screen == Screen::Tasks && self.by_class
    }

    /// The order of the list on the screen.
    pub fn sort(&self) -> Sort {
        let at = self.screen as usize;
        let column = self.screen.columns().get(self.sorts[at]).copied().unwrap_or(Column::Name);
        Sort { column, reversed: self.reversed[at] }
    }

    /// The moment that is shown.
    pub fn at(&self) -> Option<Instant> {
        self.current.as_ref().map(|judged| judged.interval.at())
    }

    /// How late the next sample is, in seconds; `None` where it is not, or nobody told the time.
    pub fn late_seconds(&self) -> Option<f64> {
        let newest = self.newest.as_ref().or(self.current.as_ref())?;
        let waited = self.now?.seconds_since(newest.interval.at());
        let due = self.setup.interval_ms as f64 / 1000.0;
        (self.setup.source == Source::Live && self.ended.is_none() && waited > due * 1.5 + 1.0).then_some(waited)
    }
}
