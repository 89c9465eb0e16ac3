//! The state of the user interface: everything that a frame depends on, the current time included.
//!
//! `update` is the only function that changes it. This layer opens no file, reads no clock and does not draw: `app` sends
//! events and carries out the returned effects, `view` draws from a shared reference. Live mode and replay use the same state.

mod actions;
pub mod column_chooser;
pub mod cursor;
pub mod demo;
pub mod event;
mod filter;
pub mod finding_history;
pub mod fleet;
pub mod graph_columns;
mod graph_window;
pub mod history;
mod key;
pub mod key_docs;
pub mod keys;
pub mod layout;
mod list;
mod overview_selection;
pub mod palette;
pub mod panes;
mod playback;
pub mod process_signal;
mod prompt;
pub mod recording_series;
pub mod remote_hosts;
mod row_order;
pub mod rows;
pub mod screen;
pub mod signal_question;
mod sort;
mod span;
mod task_rows;
pub mod terminal_capabilities;
pub mod theme_choice;
pub mod timeline_runs;
pub mod update;

use std::sync::Arc;

use jiff::tz::TimeZone;

pub use column_chooser::{ChoosableColumn, ChosenColumns, ColumnChoices, ColumnChooser};
pub use event::{ClickTarget, Effect, Event, Mark, Notice, Position, RecorderState, TimelineTick};
pub use graph_window::GraphWindow;
pub use key::Key;
pub use list::Sort;
pub use palette::{Palette, PaletteEntry};
pub use panes::{PaneArea, PaneFocus};
pub use prompt::{Prompt, PromptKind};
pub use rows::{Item, NetworkRows, Row, TaskList, TaskRows};
pub use screen::Screen;
pub use sort::SortColumn;
pub use span::Span;
pub use terminal_capabilities::{ColorSupport, GlyphSet, TerminalCapabilities};
pub use theme_choice::ThemeChoice;
pub use update::update;

use crate::findings::Evaluation;
use crate::sample::Instant;
use finding_history::FindingHistory;
use history::{FollowedTask, GraphFigure, History};
use list::ListState;
use recording_series::RecordingSeries;
use signal_question::SignalQuestion;
use timeline_runs::TimelineRuns;

/// Settings that exist before the first sample.
#[derive(Clone, Debug)]
pub struct Setup {
    pub terminal: TerminalCapabilities,
    pub source: Source,
    /// Time zone of all displayed times
    pub time_zone: TimeZone,
    /// Columns and rows of the terminal
    pub size: (u16, u16),
    /// Configured time between two samples
    pub interval_ms: u64,
}

/// Where the samples come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Live,
    /// A recording that arrives on standard input; `name` is displayed in the header
    Pipe {
        name: String,
    },
    /// Another machine, through the fleet; `name` is displayed in the header
    Host {
        name: String,
    },
    /// A recording; `name` is displayed in the header
    Replay {
        name: String,
    },
}

/// What the source of the samples supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// New samples arrive whatever interval is displayed; a pause stops only the screen
    pub follows_newest: bool,
    /// The sampling interval can be set
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

/// The displayed screen and the data that it is drawn from.
#[derive(Clone, Debug)]
pub struct State {
    pub setup: Setup,
    /// The displayed interval; `None` before the first one
    pub current: Option<Evaluation>,
    /// Live: the newest interval, while an older one is displayed
    pub newest: Option<Evaluation>,
    pub history: History,
    /// Replay: figures of graphs over the recording, as far as it has been evaluated
    pub recording_series: RecordingSeries,
    /// Length of the graphs in nanoseconds; `None`: the recording, the intervals in memory, or one interval a column
    pub graph_length_ns: Option<i64>,
    pub finding_history: FindingHistory,
    /// Replay: one tick per interval of the recording; empty in live mode
    pub timeline: Arc<[TimelineTick]>,
    /// The same, as the timeline draws it
    pub timeline_runs: TimelineRuns,
    /// All marks, sorted by time
    pub marks: Arc<[Mark]>,
    pub position: Option<Position>,
    /// The displayed span, if one was begun
    pub span: Option<Span>,
    /// The displayed interval is still being evaluated: its findings may be incomplete
    pub is_provisional: bool,
    pub paused: bool,
    /// Replay speed; 1.0 is real time
    pub speed: f64,
    /// The note on a recording of the demo
    pub demo: Option<demo::DemoNote>,
    pub recorder: RecorderState,
    pub notice: Option<Notice>,
    /// Number of intervals until the notice is removed
    notice_intervals_left: u8,
    pub source_status: SourceStatus,
    /// Current time, as of the last `Event::Now`
    pub now: Option<Instant>,
    /// Another machine, whose clock is another: the first `Event::Now` after its newest interval
    waiting_since: Option<Instant>,
    pub screen: Screen,
    /// Rows of the list on the displayed screen
    pub rows: Vec<Row>,
    /// The order in which they are kept for some seconds
    held_order: Option<row_order::HeldOrder>,
    /// Overview: the order of the process groups
    pub held_groups: row_order::HeldGroups,
    /// The hottest threads, kept in their order for some seconds
    pub held_threads: row_order::HeldThreads,
    /// Cursor, sort order and filter of each screen's list, by `Screen`
    lists: [ListState; Screen::ALL.len()],
    /// Tasks screen: the kind of its rows
    pub task_rows: TaskRows,
    /// Network screen: the kind of its rows
    pub network_rows: NetworkRows,
    /// Overview: the items on the frame, from top to bottom
    drawn_items: Vec<Item>,
    /// The offset at which the list of the last frame ended at the right; `None`: it went on there
    list_end_offset: Option<u16>,
    /// The focus among the panes of each screen, by `Screen`
    pane_focus: [PaneFocus; Screen::ALL.len()],
    /// The open details page
    pub details: Option<Details>,
    /// Scroll offset of the help page, if it is open
    pub help: Option<usize>,
    pub prompt: Option<Prompt>,
    pub palette: Option<Palette>,
    pub column_chooser: Option<ColumnChooser>,
    pub signal_question: Option<SignalQuestion>,
    /// Live: whether signals can be sent to processes
    pub allows_signals: bool,
    /// Esc leads back to the fleet
    pub leads_back: bool,
    pub chosen_columns: ChosenColumns,
    /// The themes that the palette offers
    pub themes: Vec<ThemeChoice>,
}

/// The details page of one item.
#[derive(Clone, Debug, PartialEq)]
pub struct Details {
    pub item: Item,
    /// The first visible line
    pub scroll_offset: usize,
}

/// Whether more samples will come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceStatus {
    Open,
    /// End of the recording or of the pipe
    Ended,
    /// The source failed with this error
    Failed(String),
}

impl State {
    /// The largest value of a figure: of the recording, as far as it has been evaluated, or of the last minutes of a live session.
    pub fn peak(&self, figure: &GraphFigure) -> Option<f32> {
        let spans = self.recording_series.figure(figure).into_iter().flatten();
        let in_recording = spans.filter_map(|sum| sum.spread()).map(|spread| spread.max).max_by(f32::total_cmp);
        in_recording.into_iter().chain(self.history.peak(figure)).max_by(f32::total_cmp)
    }

    /// The process or thread of the open page.
    pub fn followed_task(&self) -> Option<FollowedTask> {
        match self.details.as_ref()?.item {
            Item::Process(id) => Some(FollowedTask::Process(id)),
            Item::Thread(id) => Some(FollowedTask::Thread(id)),
            _ => None,
        }
    }

    pub fn new(setup: Setup) -> State {
        let history = match setup.source {
            Source::Replay { .. } => History::of_recording(),
            Source::Live | Source::Pipe { .. } | Source::Host { .. } => History::default(),
        };
        State {
            setup,
            current: None,
            newest: None,
            demo: None,
            history,
            recording_series: RecordingSeries::default(),
            graph_length_ns: None,
            finding_history: FindingHistory::default(),
            timeline: Arc::from([]),
            timeline_runs: TimelineRuns::default(),
            marks: Arc::from([]),
            position: None,
            span: None,
            is_provisional: false,
            paused: false,
            speed: 1.0,
            recorder: RecorderState::Off,
            notice: None,
            notice_intervals_left: 0,
            source_status: SourceStatus::Open,
            now: None,
            waiting_since: None,
            screen: Screen::Overview,
            rows: Vec::new(),
            held_order: None,
            held_groups: row_order::HeldGroups::default(),
            held_threads: row_order::HeldThreads::default(),
            lists: Default::default(),
            task_rows: TaskRows::default(),
            network_rows: NetworkRows::default(),
            drawn_items: Vec::new(),
            list_end_offset: None,
            pane_focus: Default::default(),
            details: None,
            help: None,
            prompt: None,
            palette: None,
            column_chooser: None,
            signal_question: None,
            allows_signals: false,
            leads_back: false,
            chosen_columns: ChosenColumns::default(),
            themes: Vec::new(),
        }
    }

    /// What the source of the samples supports.
    pub fn capabilities(&self) -> Capabilities {
        self.setup.source.capabilities()
    }

    /// Whether displayed times need a date: the recording covers at least half a day.
    pub fn spans_days(&self) -> bool {
        const HALF_A_DAY_NS: i64 = 43_200_000_000_000;
        let ends = self.timeline.first().zip(self.timeline.last());
        ends.is_some_and(|(first, last)| last.realtime_ns.saturating_sub(first.realtime_ns) >= HALF_A_DAY_NS)
    }

    /// The end of the displayed interval.
    pub fn shown_at(&self) -> Option<Instant> {
        self.current.as_ref().map(|evaluation| evaluation.interval.at())
    }

    /// The end of the interval at the cursor of the timeline: of a span, its moving end.
    pub fn cursor_at(&self) -> Option<Instant> {
        self.cursor_evaluation().map(|evaluation| evaluation.interval.at())
    }

    /// Live: seconds since the newest sample, if the next one is overdue.
    pub fn late_seconds(&self) -> Option<f64> {
        let newest = self.newest.as_ref().or(self.current.as_ref())?;
        let arrived = match self.setup.source {
            Source::Live => newest.interval.at(),
            Source::Host { .. } => self.waiting_since?,
            Source::Pipe { .. } | Source::Replay { .. } => return None,
        };
        let waited = self.now?.seconds_since(arrived);
        let due = self.setup.interval_ms as f64 / 1000.0;
        (self.source_status == SourceStatus::Open && waited > due * 1.5 + 1.0).then_some(waited)
    }
}
