//! The options of the screen, live and in `replay`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::time_range::{self, RecordingTime};
use super::value_parsers;
use crate::state::GlyphSet;

/// Colors and characters.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct Appearance {
    /// Draw with ASCII characters only (as with LC_ALL=C)
    #[arg(long)]
    pub ascii: bool,
    /// Draw with all characters, whatever the locale and TERM
    #[arg(long, conflicts_with = "ascii")]
    pub unicode: bool,
    /// Draw without colors (as with NO_COLOR set)
    #[arg(long, visible_alias = "mono")]
    pub no_color: bool,
    /// For a slow line, such as 9600 baud: a frame every 2 seconds, and no graphs. Detected on a serial line of at most 19,200
    /// baud, and where the terminal accepts frames too slowly
    #[arg(long)]
    pub slow: bool,
    /// Colors: terminal, mono, dark, light, high-contrast, color-blind, or a theme of the user (docs/themes.md)
    #[arg(long, value_name = "NAME")]
    pub theme: Option<String>,
}

impl Appearance {
    /// The requested character set; `None`: detected from the environment.
    pub fn glyphs(&self) -> Option<GlyphSet> {
        let options = [(self.ascii, GlyphSet::Ascii), (self.unicode, GlyphSet::Unicode)];
        options.into_iter().find(|(is_set, _)| *is_set).map(|(_, glyphs)| glyphs)
    }
}

#[derive(Args, Clone, Debug, PartialEq)]
pub struct Live {
    /// Time between samples: 100ms to 1h
    #[arg(short, long, visible_short_alias = 'd', default_value = "1s", value_parser = value_parsers::interval)]
    pub interval: Duration,
    /// How long samples are kept in memory, to go back ([), to save (w) and to record from (R); at most 16 MiB
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = value_parsers::positive_duration)]
    pub history: Duration,
    /// Let the key K send a signal to the selected process, after a question
    #[arg(long)]
    pub allow_signals: bool,
    #[command(flatten)]
    pub appearance: Appearance,
}

#[derive(Args, Clone, Debug, PartialEq)]
pub struct Replay {
    /// The recording or a directory of recordings, `-` for a stream on standard input
    pub file: PathBuf,
    /// Start at this time: 12:03, 12:03:15, RFC 3339, -5m before the end, +90s after the start, or the text of a mark
    #[arg(long, value_name = "TIME", value_parser = RecordingTime::parse, allow_hyphen_values = true)]
    pub at: Option<RecordingTime>,
    #[command(flatten)]
    pub range: time_range::TimeRange,
    /// Playback speed as a multiple of real time
    #[arg(long, default_value = "1", value_parser = value_parsers::speed)]
    pub speed: f64,
    #[command(flatten)]
    pub appearance: Appearance,
}
