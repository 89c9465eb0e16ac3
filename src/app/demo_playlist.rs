//! The recordings of the demo, shown one after the other.

use std::collections::VecDeque;

use jiff::tz::TimeZone;
use tempfile::NamedTempFile;

use crate::app::config::Settings;
use crate::app::program::exit::Failure;
use crate::app::screen_setup::{initial_state, setup};
use crate::app::timeline::Timeline;
use crate::cli;
use crate::state::demo::DemoNote;
use crate::state::{SessionOptions, Source, State};

/// A recording of the demo, in a temporary file.
pub struct DemoRecording {
    pub file: NamedTempFile,
    pub name: &'static str,
    pub note: DemoNote,
}

impl DemoRecording {
    /// Opens it for the screen.
    pub fn open(&self, settings: &Settings, appearance: &cli::Appearance) -> Result<(State, Timeline), Failure> {
        let options = cli::Replay {
            file: self.file.path().to_owned(),
            at: None,
            range: cli::time_range::TimeRange::default(),
            speed: 1.0,
            appearance: appearance.clone(),
        };
        let timeline = Timeline::open(&options, &TimeZone::system(), settings)?;
        let source = Source::Replay { name: self.name.to_owned() };
        let options = SessionOptions { demo: Some(self.note), ..SessionOptions::default() };
        let setup = setup(appearance, source, timeline.interval());
        let (state, _) = initial_state(setup, options, settings, appearance)?;
        Ok((state, timeline))
    }
}

/// Recordings of the demo that are shown after the present one.
pub struct Playlist {
    settings: Settings,
    appearance: cli::Appearance,
    rest: VecDeque<DemoRecording>,
    /// The files of those that were shown
    shown: Vec<NamedTempFile>,
}

impl Playlist {
    /// `first` is on the screen already.
    pub fn new(
        settings: Settings,
        appearance: cli::Appearance,
        first: DemoRecording,
        rest: VecDeque<DemoRecording>,
    ) -> Playlist {
        Playlist { settings, appearance, rest, shown: vec![first.file] }
    }

    /// Opens the next recording, if there is one.
    pub fn open_next(&mut self) -> Result<Option<(State, Timeline)>, Failure> {
        let Some(next) = self.rest.pop_front() else { return Ok(None) };
        let opened = next.open(&self.settings, &self.appearance)?;
        self.shown.push(next.file);
        Ok(Some(opened))
    }
}
