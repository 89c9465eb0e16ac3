//! A recording that arrives on standard input: `stalltop record -` on another machine, through ssh.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;

use crate::app::program::exit::{Exit, Failure};
use crate::app::recorder;
use crate::baseline::Baselines;
use crate::recording::{Damage, Meta, RecordingError, StreamEvent, StreamReader};
use crate::report::formatting::pluralize;

/// What could not be done if the stream cannot be read, and a command that does it.
#[derive(Clone, Copy, Debug)]
pub struct StreamPurpose {
    pub what: &'static str,
    pub example: &'static str,
}

/// The beginning of a stream, and its events.
pub struct RecordingStream {
    pub meta: Meta,
    sections: Vec<(String, Vec<u8>)>,
    /// The event that followed the header
    first: Option<StreamEvent>,
    reader: StreamReader<File>,
}

impl RecordingStream {
    /// Blocks until the header has arrived.
    pub fn open_stdin(purpose: StreamPurpose) -> Result<RecordingStream, Failure> {
        let StreamPurpose { what, example } = purpose;
        if io::stdin().is_terminal() {
            let remedy = format!("pipe a recording into it: {example}");
            return Err(Failure::new(Exit::Usage, what, "standard input is a terminal", remedy));
        }
        let stdin = io::stdin().as_fd().try_clone_to_owned().map(File::from);
        let stdin = stdin.map_err(|error| Failure::new(Exit::Failed, "cannot read standard input", error, ""))?;
        let mut reader = StreamReader::open(stdin).map_err(|error| match error {
            RecordingError::NotARecording { looks_like, .. } => {
                let why = format!("it is not a recording: it looks like {looks_like}");
                Failure::new(Exit::NotRecording, what, why, format!("pipe a recording into it: {example}"))
            }
            error => recorder::failure(error),
        })?;
        let mut header = None;
        let mut sections = Vec::new();
        let first = loop {
            match reader.next_event().map_err(recorder::failure)? {
                Some(StreamEvent::Meta(meta)) => header = Some(*meta),
                Some(StreamEvent::Section { name, bytes }) => sections.push((name, bytes)),
                Some(other) if header.is_some() => break other,
                Some(_) => {}
                None => break StreamEvent::End,
            }
        };
        let Some(meta) = header else {
            return Err(Failure::new(Exit::NotRecording, what, "standard input ended before the header of a recording", ""));
        };
        Ok(RecordingStream { meta, sections, first: Some(first), reader })
    }

    /// The baselines of the recorded machine.
    pub fn baselines(&self) -> Baselines {
        let section = self.sections.iter().find(|section| section.0 == recorder::BASELINES_SECTION);
        recorder::baselines(section.map(|section| section.1.as_slice()))
    }

    /// Returns the next event; blocks until it has arrived. `None` at the end of the stream.
    pub fn next_event(&mut self) -> Result<Option<StreamEvent>, RecordingError> {
        match self.first.take() {
            Some(event) => Ok(Some(event)),
            None => self.reader.next_event(),
        }
    }
}

/// A line for the user.
pub fn damage_line(damage: &Damage) -> String {
    let lost = pluralize(damage.lost_samples, "sample");
    format!("damage at byte {}: {}; {lost} lost", damage.bytes.start, damage.kind)
}
