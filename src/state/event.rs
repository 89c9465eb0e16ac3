//! Input of `update` (`Event`) and its output (`Effect`).

use std::sync::Arc;

use super::PageItems;
use super::column_chooser::ChoosableColumn;
use super::history::{IntervalSummary, TaskPoint};
use super::key::Key;
use super::keys::Action;
use super::notice::Notice;
use super::process_signal::ProcessSignal;
use super::rows::Item;
use super::screen::Screen;
use super::sort::SortColumn;
use super::timeline::{Mark, Position, TimelineTick};
use crate::findings::{Evaluation, Finding};
use crate::ids::ProcessId;
use crate::interval::Interval;
use crate::sample::Instant;

/// Input of `update`: keys, mouse, samples, messages of the recorder and the replayer.
#[derive(Clone, Debug)]
pub enum Event {
    Key(Key),
    /// A press of the left button on a part of the frame
    Click(ClickTarget),
    /// The mouse wheel: rows down; negative: up
    Wheel(i32),
    /// Maximum scroll offset of the open page, as computed by `view::max_scroll`. Sent before keys, clicks and wheel events: an
    /// offset beyond the end is reduced, so that the next key for `up` moves the page.
    MaxScroll(usize),
    /// The items on the frame, from top to bottom. Sent before keys, clicks and wheel events: those of the overview are selected
    /// in this order.
    DrawnItems(Vec<Item>),
    /// The items that the open page lists. Sent before keys, clicks and wheel events: they are selected in this order.
    PageItems(PageItems),
    /// The offset at which the list on the frame ends at the right, or `None` if it goes on there. Sent before keys and clicks: a
    /// list is moved no further, and from there after its rows have become shorter.
    ListEndOffset(Option<u16>),
    Resize {
        width: u16,
        height: u16,
    },
    /// The first sample of a source that is not read from a file. It ends no interval.
    FirstSample,
    /// The next interval in time order: the newest one in live mode, the next one to play in a replay.
    Evaluation(Evaluation),
    /// The first reply to a step or a jump whose interval is not evaluated yet: its figures. `SeekCompleted` follows.
    SeekStarted(Evaluation),
    /// The figures from the first to the last sample of the span that was begun, and its number of intervals. Follows the
    /// interval of each move in time.
    Span {
        interval: Arc<Interval>,
        intervals: u64,
    },
    /// The reply to a step or a jump: the interval to display. `preceding` are the intervals before it, oldest first, for the
    /// graphs; it may be empty and may repeat known intervals.
    SeekCompleted {
        evaluation: Evaluation,
        preceding: Vec<Evaluation>,
    },
    /// Position of the displayed interval in the recording, or in the samples that a live session keeps
    Position(Position),
    /// The whole recording, one tick per interval; sent again when more of it has been read
    Timeline(Arc<[TimelineTick]>),
    /// The next evaluated intervals of a recording, in order, for graphs over all of it
    Summaries(Vec<IntervalSummary>),
    /// Intervals of the stretch of time that the graphs show, at other times than the displayed one
    GraphIntervals(Vec<IntervalSummary>),
    /// Figures of the task of the open page in past intervals
    TaskPast(Vec<TaskPoint>),
    /// All marks, sorted by time
    Marks(Arc<[Mark]>),
    /// All findings of the recording, including ended ones
    Findings(Vec<Finding>),
    Recorder(RecorderState),
    Notice(Notice),
    /// No more samples will come: end of the recording or closed pipe (`None`), or the error
    SourceEnded(Option<String>),
    /// The terminal does not accept frames as fast as they are drawn
    TerminalIsSlow,
    /// The current time. Sent about once a second, so that an overdue sample is reported.
    Now(Instant),
    /// The program was resumed or the terminal was overwritten: draw the whole frame
    Redraw,
}

/// The target of a mouse click.
#[derive(Clone, Debug, PartialEq)]
pub enum ClickTarget {
    Nothing,
    Screen(Screen),
    /// What a key does
    Action(Action),
    /// The sign that the list is scrolled sideways, by this number of cells: scrolls it back
    MovedList(u16),
    /// A column heading
    Column(SortColumn),
    /// Index of a row in `State::rows`
    Row(usize),
    /// An item drawn outside a list
    Item(Item),
    /// A pane of the screen, by its index
    Pane(usize),
    /// Index of an entry in `Palette::entries`
    PaletteEntry(usize),
    /// The columns of a table that can be chosen: opens the chooser
    Columns(Vec<ChoosableColumn>),
    /// Index of a line in `ColumnChooser::columns`
    ColumnChoice(usize),
    /// Index of a line in `SettingsMenu::settings`, which takes its next or previous value
    Setting {
        index: usize,
        direction: Direction,
    },
    /// Index in `ProcessSignal::ALL`
    Signal(usize),
    /// Within an overlay, beside what can be chosen there
    Overlay,
    /// Index in `FleetState::hosts`
    FleetHost(usize),
    /// The times of the columns of a graph or of the timeline, in nanoseconds since the Unix epoch
    Times {
        start_ns: i64,
        end_ns: i64,
    },
    /// The time of one column, in nanoseconds since the Unix epoch
    Time(i64),
}

/// What the program has to do after an event. All but `Nothing` require a new frame.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    Nothing,
    Redraw,
    Quit,
    /// Esc on the screens of a host of the fleet: back to the fleet
    Leave,
    /// Ctrl-Z
    Suspend,
    /// Move forward by this number of samples (negative: back); the reply is `Event::SeekCompleted`
    Step(i64),
    /// Move forward by this number of seconds (negative: back); the reply is `Event::SeekCompleted`
    StepTime(i64),
    /// Move to the interval that contains this time, in nanoseconds since the Unix epoch; the reply is `Event::SeekCompleted`
    JumpTo(i64),
    /// Move to the interval in which the finding that starts at this time was raised; the reply is `Event::SeekCompleted`
    GoToFinding(i64),
    /// Move to the start of the next (previous) finding; the reply is `Event::SeekCompleted`
    NextFinding,
    PreviousFinding,
    /// Begin a span at the displayed interval: `Event::Span` is the reply to this, and follows each move until it ends
    BeginSpan,
    EndSpan,
    /// Save the samples of the span as a recording
    SaveSpan,
    /// Pause (true) or resume playback. Live sampling continues while the display is paused.
    Pause(bool),
    /// Play the recording at this multiple of real time
    Speed(f64),
    /// Set the sampling interval in milliseconds
    ChangeInterval(u64),
    /// `w`: save the samples in memory to a file
    Save,
    /// `R`: start or stop recording
    ToggleRecord,
    /// `m`: set a mark with this text in the samples in memory and in the running recording
    Mark(String),
    /// `y`: copy the selected row or sentence to the clipboard of the terminal
    CopySelection,
    /// `Y`: copy the command line of the task, or the next steps of the finding
    CopyCommand,
    /// `P`: save the screen as text, with ANSI sequences, and as SVG
    SaveScreen,
    /// `C`: open the chooser with the columns that the frame has, by `ClickTarget::Columns`
    ChooseColumns,
    /// Save what the next run begins with: the theme, the chosen columns, the hidden panes and the kind of rows of tasks
    SaveChoices,
    /// The user has confirmed: send this signal to this process; the reply is `Event::Notice`
    SendSignal {
        process: ProcessId,
        signal: ProcessSignal,
    },
}

/// Of a move in time or in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Back,
    Forward,
}

/// State of the recorder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RecorderState {
    #[default]
    Off,
    On {
        file: String,
        bytes: u64,
    },
    Failed(String),
}
