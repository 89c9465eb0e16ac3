//! What can happen to a state, and what a state can ask for.

use std::sync::Arc;

use super::screen::Screen;
use super::sort::SortColumn;
use crate::findings::{Evaluation, Finding, Severity};
use crate::sample::Instant;

/// One thing that happened. The loop turns everything it waits for into one of these.
#[derive(Clone, Debug)]
pub enum Event {
    Key(Key),
    /// A press of the left button; `view::hit` says what was under it
    Click(ClickTarget),
    /// The mouse wheel: rows down (negative: up)
    Wheel(i32),
    /// By how many lines the page that is open can be scrolled, as `view::furthest` says. Sent before keys and the wheel:
    /// whoever went to the end goes up from there with the next key.
    MaxScroll(usize),
    Resize {
        width: u16,
        height: u16,
    },
    /// The next interval in the order of time: live the newest one, in a replay the one it has played to.
    Evaluation(Evaluation),
    /// The answer to a step or a jump: show this one. `before` are the intervals that lead to it, oldest first, for the
    /// graphs (those that are known already do no harm; may be empty).
    SeekCompleted {
        evaluation: Evaluation,
        preceding: Vec<Evaluation>,
    },
    /// Where in the recording (or in the memory of a live session) the shown interval is
    Position(Position),
    /// The whole recording, one tick an interval; again whenever more of it is known
    Timeline(Arc<[TimelineTick]>),
    /// The words that were put into what can be gone to, in the order of time
    Marks(Arc<[Mark]>),
    /// All findings of the recording, ended ones with their end
    Findings(Vec<Finding>),
    Recorder(RecorderState),
    Notice(Notice),
    /// No more samples will come: the end of a recording, a closed pipe (`None`), or why the feed broke
    SourceEnded(Option<String>),
    /// The time now. Sent every second or so: a sample that does not come shows as late.
    Now(Instant),
    /// The program was stopped and goes on, or the terminal was overwritten: draw all of it
    Redraw,
}

/// A key, free of any terminal library. Shift is in the character; Control with a letter is `Control`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    Char(char),
    Control(char),
    Enter,
    Escape,
    Tab,
    BackTab,
    Backspace,
    Delete,
    Left,
    Right,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    /// F1 … F12
    Function(u8),
}

/// What a click met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClickTarget {
    Nothing,
    Screen(Screen),
    /// A heading of the table on the screen
    Column(SortColumn),
    /// A row of the list on the screen, counted from its first row (not from the first visible one)
    Row(usize),
    /// A cell of the strip of time: the moment it stands for, nanoseconds after 1970 in UTC
    Timeline(i64),
}

/// What the program shall do beyond drawing. All but `Nothing` mean that a new frame is due.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    Nothing,
    Redraw,
    Quit,
    /// Ctrl-Z
    Suspend,
    /// So many samples forward (negative: back); answered with `Event::Moved`
    Step(i64),
    /// So many seconds forward (negative: back); answered with `Event::Moved`
    StepTime(i64),
    /// To the interval that holds this moment, nanoseconds after 1970 in UTC; answered with `Event::Moved`
    JumpTo(i64),
    /// To the beginning of the next (previous) finding after (before) the interval shown; answered with `Event::Moved`
    NextFinding,
    PreviousFinding,
    /// Stop (true) or go on playing. Live goes on sampling; the state keeps showing where it was paused.
    Pause(bool),
    /// Play a recording so many times as fast
    Speed(f64),
    /// Take a sample every so many milliseconds from now on
    ChangeInterval(u64),
    /// `w`: write what is in memory to a file
    Save,
    /// `R`: start recording, or stop
    ToggleRecord,
    /// `m`: put a mark with this text into memory, and into the recording that is being made
    Mark(String),
}

/// A place in what can be stepped through.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Position {
    /// Of the interval shown, from 0
    pub index: usize,
    /// How many there are so far
    pub length: usize,
    pub first: Instant,
    pub last: Instant,
}

/// One interval of a recording, as the strip shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct TimelineTick {
    /// When the interval ended, nanoseconds after 1970 in UTC
    pub realtime_ns: i64,
    /// The worst finding then
    pub worst_severity: Option<Severity>,
    /// Share of the box that was busy, 0 … 1; and idle but blocked
    pub busy: f32,
    pub blocked: f32,
    /// Samples are missing before it
    pub gap: bool,
    /// A mark was set in it
    pub mark: Option<String>,
}

/// A word that somebody put into a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Nanoseconds after 1970 in UTC
    pub realtime_ns: i64,
    /// From outside
    pub text: String,
}

/// What is being recorded.
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

/// A line for the user; it goes away with the next key, or after some intervals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub text: String,
    /// Something went wrong
    pub failure: bool,
}

impl Notice {
    pub fn new(text: impl Into<String>) -> Notice {
        Notice { text: text.into(), failure: false }
    }

    pub fn failure(text: impl Into<String>) -> Notice {
        Notice { text: text.into(), failure: true }
    }
}
