//! The stream of the lines: standard output, or standard error while a command writes to standard output.

use std::io::{self, IsTerminal, Write};

use crate::app::program::exit::{Exit, Failure};
use crate::app::program::stdio::{self, ReaderState};
use crate::report::table::Format;
use crate::report::table::Headings;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputStream {
    StandardOutput,
    StandardError,
}

impl OutputStream {
    /// On a terminal, a heading for each page.
    pub fn headings(self) -> Headings {
        let terminal = match self {
            OutputStream::StandardOutput => io::stdout().is_terminal(),
            OutputStream::StandardError => io::stderr().is_terminal(),
        };
        let height = crossterm::terminal::size().ok().filter(|_| terminal).map(|(_, rows)| usize::from(rows));
        height.map_or(Headings::Once, |rows| Headings::Every(rows.saturating_sub(1).max(2)))
    }

    pub fn print(self, format: Format, text: &str) -> Result<ReaderState, Failure> {
        let text = match format {
            Format::Text => stdio::to_glyphs(text, stdio::glyphs(None)),
            Format::Csv { .. } | Format::Json | Format::Parseable => text.into(),
        };
        match self {
            OutputStream::StandardOutput => stdio::print(&text),
            OutputStream::StandardError => {
                let mut stderr = io::stderr().lock();
                let written = stderr.write_all(text.as_bytes());
                written.map_err(|error| Failure::new(Exit::Failed, "cannot write to standard error", error, ""))?;
                Ok(ReaderState::Open)
            }
        }
    }
}
