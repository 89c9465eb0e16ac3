//! The state of the user interface: everything that a frame depends on, the current time included.
//!
//! After its set-up `update` alone changes it. This layer opens no file, reads no clock and does not draw: `app` sends
//! events and carries out the returned effects, `view` draws from a shared reference. Live mode and replay use the same state.

mod actions;
pub mod column_chooser;
pub mod cursor;
pub mod demo;
mod details;
pub mod event;
mod filter;
pub mod finding_history;
pub mod fleet;
pub mod graph_columns;
mod graph_data;
mod graph_window;
pub mod history;
mod key;
pub mod key_docs;
pub mod keys;
pub mod layout;
mod list;
mod notice;
mod overlay;
mod overview_selection;
mod page_selection;
pub mod palette;
pub mod panes;
mod playback;
pub mod process_signal;
mod process_tree;
mod prompt;
pub mod recording_series;
pub mod remote_hosts;
mod row_order;
pub mod rows;
pub mod screen;
pub mod settings_menu;
mod setup;
pub mod signal_question;
mod sort;
mod source;
mod span;
mod task_rows;
pub mod terminal_capabilities;
pub mod theme_choice;
pub mod timeline;
pub mod update;

pub use column_chooser::{ChoosableColumn, ChosenColumns, ColumnChoices, ColumnChooser};
pub use details::Details;
pub use event::{ClickTarget, Direction, Effect, Event, RecorderState};
pub use graph_data::GraphData;
pub use graph_window::GraphWindow;
pub use key::Key;
pub use list::{Lists, Sort};
pub use notice::Notice;
pub use overlay::Overlay;
pub use page_selection::PageItems;
pub use palette::{Palette, PaletteEntry};
pub use panes::{PaneArea, PaneFocus};
pub use playback::Playback;
pub use prompt::{Prompt, PromptKind};
pub use rows::{Item, NetworkRows, Row, TaskList, TaskRows};
pub use screen::Screen;
pub use setup::{SessionOptions, Setup};
pub use sort::SortColumn;
pub use source::{Capabilities, SampleArrival, Source, SourceStatus};
pub use span::Span;
pub use terminal_capabilities::{ColorSupport, GlyphSet, TerminalCapabilities};
pub use theme_choice::ThemeChoice;
pub use timeline::{Mark, Position, TimelineTick};
pub use update::update;

use finding_history::FindingHistory;
use notice::ShownNotice;
use settings_menu::HiddenPanes;
use timeline::ShownTimeline;

/// The displayed screen and the data that it is drawn from.
#[derive(Clone, Debug)]
pub struct State {
    pub setup: Setup,
    pub options: SessionOptions,
    pub arrival: SampleArrival,
    pub playback: Playback,
    pub timeline: ShownTimeline,
    pub graphs: GraphData,
    pub finding_history: FindingHistory,
    pub recorder: RecorderState,
    notice: Option<ShownNotice>,
    pub screen: Screen,
    pub lists: Lists,
    /// The focus among the panes of each screen, by `Screen`
    pane_focus: [PaneFocus; Screen::ALL.len()],
    pub hidden_panes: HiddenPanes,
    /// The open page, in place of the screen
    pub details: Option<Details>,
    /// The line editor, in the bottom line
    pub prompt: Option<Prompt>,
    /// What is open above the screen or the page
    pub overlay: Option<Overlay>,
}

impl State {
    /// A session with the usual options.
    pub fn new(setup: Setup) -> State {
        State::with_options(setup, SessionOptions::default())
    }

    pub fn with_options(setup: Setup, options: SessionOptions) -> State {
        State {
            options,
            arrival: SampleArrival::default(),
            playback: Playback::default(),
            timeline: ShownTimeline::default(),
            graphs: GraphData::new(&setup.source),
            finding_history: FindingHistory::default(),
            recorder: RecorderState::Off,
            notice: None,
            screen: Screen::Overview,
            lists: Lists::default(),
            pane_focus: Default::default(),
            hidden_panes: HiddenPanes::new(),
            details: None,
            prompt: None,
            overlay: None,
            setup,
        }
    }
}
