//! Everything that a frame depends on, the present time included, and `update`, the only way to change it.
//!
//! No clock, no file, no terminal and no colour here: whoever runs the program brings in events and acts on effects;
//! whoever draws gets a shared reference. Live and replay share all of it.

pub mod cursor;
pub mod event;
pub mod finding_history;
pub mod history;
pub mod keys;
pub mod layout;
pub mod remote_hosts;
pub mod rows;
pub mod screen;
mod sort;
pub mod terminal_capabilities;
pub mod time_spec;
pub mod update;

use std::sync::Arc;

use jiff::tz::TimeZone;

pub use event::{ClickTarget, Effect, Event, Key, Mark, Notice, Position, RecorderState, TimelineTick};
pub use rows::{Item, Row};
pub use screen::Screen;
pub use sort::SortColumn;
pub use terminal_capabilities::{ColorSupport, GlyphSet, TerminalCapabilities};
pub use update::update;

use crate::findings::Evaluation;
use crate::sample::Instant;
use cursor::Cursor;
use finding_history::FindingHistory;
use history::History;

/// What is known before the first sample.
#[derive(Clone, Debug)]
pub struct Setup {
    pub terminal: TerminalCapabilities,
    pub source: Source,
    /// In which times of day are shown
    pub time_zone: TimeZone,
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
    pub current: Option<Evaluation>,
    /// Live: the newest interval, while an older one is shown
    pub newest: Option<Evaluation>,
    pub history: History,
    pub finding_history: FindingHistory,
    /// The whole recording, a tick an interval; empty when live
    pub timeline: Arc<[TimelineTick]>,
    /// Words among what can be gone to, in the order of time
    pub marks: Arc<[Mark]>,
    pub position: Option<Position>,
    pub paused: bool,
    /// Of replay: 1.0 is as it happened
    pub speed: f64,
    pub recorder: RecorderState,
    pub notice: Option<Notice>,
    /// Intervals until the notice goes away
    notice_intervals_left: u8,
    /// The feed is at its end, and why
    pub source_ended: Option<Option<String>>,
    /// The present, where the feed has told
    pub now: Option<Instant>,
    pub screen: Screen,
    /// The rows of the list on the screen
    pub rows: Vec<Row>,
    cursors: [Cursor; 6],
    sort_columns: [usize; 6],
    reversed: [bool; 6],
    filters: [Filter; 6],
    /// Tasks: a row a thread; below their parents; grouped by what they wait for
    pub show_threads: bool,
    pub show_tree: bool,
    pub group_by_wait_class: bool,
    /// Network: a row a remote host instead of an interface
    pub show_remote_hosts: bool,
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
    pub scroll_offset: usize,
}

/// A line that is being typed.
#[derive(Clone, Debug)]
pub struct Prompt {
    pub kind: PromptKind,
    pub input: tui_input::Input,
}

/// What a prompt asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptKind {
    Filter,
    Time,
    Mark,
}

/// The filter of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter(String);

impl Filter {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What the rows are ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sort {
    pub column: SortColumn,
    pub reversed: bool,
}

impl State {
    pub fn new(setup: Setup) -> State {
        State {
            setup,
            current: None,
            newest: None,
            history: History::default(),
            finding_history: FindingHistory::default(),
            timeline: Arc::from([]),
            marks: Arc::from([]),
            position: None,
            paused: false,
            speed: 1.0,
            recorder: RecorderState::Off,
            notice: None,
            notice_intervals_left: 0,
            source_ended: None,
            now: None,
            screen: Screen::Overview,
            rows: Vec::new(),
            cursors: Default::default(),
            sort_columns: [0; 6],
            reversed: [false; 6],
            filters: Default::default(),
            show_threads: false,
            show_tree: false,
            group_by_wait_class: false,
            show_remote_hosts: false,
            details: None,
            help: None,
            prompt: None,
        }
    }

    pub fn is_live(&self) -> bool {
        self.setup.source == Source::Live
    }

    /// Whether a time of day alone does not tell when it was: what can be gone to is half a day and more.
    pub fn spans_days(&self) -> bool {
        const HALF_A_DAY_NS: i64 = 43_200_000_000_000;
        let ends = self.timeline.first().zip(self.timeline.last());
        ends.is_some_and(|(first, last)| last.realtime_ns.saturating_sub(first.realtime_ns) >= HALF_A_DAY_NS)
    }

    /// The cursor of the list on the screen.
    pub fn cursor(&self) -> &Cursor {
        &self.cursors[self.screen as usize]
    }

    /// The filter of the list on the screen.
    pub fn filter(&self) -> &Filter {
        &self.filters[self.screen as usize]
    }

    /// Whether the rows are kinds of waiting, which have one order and no filter.
    pub fn shows_wait_classes(&self) -> bool {
        self.screen == Screen::Tasks && self.group_by_wait_class
    }

    /// The order of the list on the screen.
    pub fn sort(&self) -> Sort {
        let at = self.screen as usize;
        let column = self.screen.sort_columns().get(self.sort_columns[at]).copied().unwrap_or(SortColumn::NAME);
        Sort { column, reversed: self.reversed[at] }
    }

    /// The moment that is shown.
    pub fn shown_at(&self) -> Option<Instant> {
        self.current.as_ref().map(|judged| judged.interval.at())
    }

    /// How late the next sample is, in seconds; `None` where it is not, or nobody told the time.
    pub fn late_seconds(&self) -> Option<f64> {
        let newest = self.newest.as_ref().or(self.current.as_ref())?;
        let waited = self.now?.seconds_since(newest.interval.at());
        let due = self.setup.interval_ms as f64 / 1000.0;
        (self.is_live() && self.source_ended.is_none() && waited > due * 1.5 + 1.0).then_some(waited)
    }
}
