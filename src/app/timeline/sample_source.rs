//! Where samples well up: the sampling thread, or a pipe that a thread of its own reads.

use std::fs::File;
use std::future::pending;
use std::io;
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::app::program::exit::{Exit, Failure};
use crate::app::recording::failure;
use crate::app::sampling::{SamplerCommand, SamplerThread, TimedSample};
use crate::recording::{Gap, Meta, RecordingError, StreamEvent, StreamReader, Timestamp};
use crate::report::formatting::pluralize;

/// One thing that comes.
pub enum SourceEvent {
    Sample(TimedSample),
    /// A word that somebody put in, and when
    Mark(Timestamp, String),
    /// Samples that the recorder lost
    Gap(Gap),
    /// Something to be told: damage
    Notice(String),
    /// Nothing more; and why, unless that was to be expected
    Ended(Option<String>),
}

pub enum SampleSource {
    Live(SamplerThread),
    Pipe(mpsc::Receiver<SourceEvent>),
    Closed,
}

impl SampleSource {
    /// What comes next; after the end nothing ever does. May be given up while it waits.
    pub async fn next(&mut self) -> SourceEvent {
        let drop = match self {
            SampleSource::Live(sampling) => match sampling.samples.recv().await {
                Some(taken) => SourceEvent::Sample(taken),
                None => SourceEvent::Ended(Some("sampling has ended".to_owned())),
            },
            SampleSource::Pipe(drops) => drops.recv().await.unwrap_or(SourceEvent::Ended(None)),
            SampleSource::Closed => pending().await,
        };
        if matches!(drop, SourceEvent::Ended(_)) {
            *self = SampleSource::Closed;
        }
        drop
    }

    pub fn set_interval(&self, interval: Duration) {
        if let SampleSource::Live(sampling) = self {
            sampling.send(SamplerCommand::SetInterval(interval));
        }
    }
}

/// What a stream begins with: which machine it is about, and its baselines.
pub struct StreamHeader {
    pub meta: Meta,
    pub sections: Vec<(String, Vec<u8>)>,
}

/// Reads a recording from standard input. Waits for its beginning.
pub fn open_stdin() -> Result<(StreamHeader, SampleSource), Failure> {
    let stdin = io::stdin().as_fd().try_clone_to_owned().map(File::from);
    let stdin = stdin.map_err(|error| Failure::new(Exit::Failed, "cannot read standard input", error, ""))?;
    let mut reader = StreamReader::open(stdin).map_err(failure)?;
    let mut beginning = None;
    let mut sections = Vec::new();
    let first = loop {
        match reader.next_event().map_err(failure)? {
            Some(StreamEvent::Meta(meta)) => beginning = Some(*meta),
            Some(StreamEvent::Section { name, bytes }) => sections.push((name, bytes)),
            Some(other) if beginning.is_some() => break other,
            Some(_) => {}
            None if beginning.is_some() => break StreamEvent::End,
            None => {
                let what = "cannot replay standard input";
                return Err(Failure::new(Exit::NotRecording, what, "it ended before it said which machine it is about", ""));
            }
        }
    };
    let Some(meta) = beginning else { return Err(Failure::already_reported(Exit::Failed)) };
    let (sender, drops) = mpsc::channel(64);
    let body = move || {
        let mut event: Result<_, RecordingError> = Ok(Some(first));
        loop {
            let drop = match event {
                Ok(Some(event)) => source_event(event),
                Ok(None) => Some(SourceEvent::Ended(None)),
                Err(error) => Some(SourceEvent::Ended(Some(error.to_string()))),
            };
            let over = matches!(drop, Some(SourceEvent::Ended(_)));
            if drop.is_some_and(|drop| sender.blocking_send(drop).is_err()) || over {
                return;
            }
            event = reader.next_event();
        }
    };
    let thread = thread::Builder::new().name("pipe".to_owned()).spawn(body);
    thread.map_err(|error| Failure::new(Exit::Failed, "cannot start reading", error, ""))?;
    Ok((StreamHeader { meta, sections }, SampleSource::Pipe(drops)))
}

fn source_event(event: StreamEvent) -> Option<SourceEvent> {
    Some(match event {
        // What is missing comes as a word of its own.
        StreamEvent::Sample(sample) => SourceEvent::Sample(TimedSample { sample, missed: 0 }),
        StreamEvent::Gap(gap) => SourceEvent::Gap(gap),
        StreamEvent::Damage(damage) => SourceEvent::Notice(format!(
            "damage at byte {}: {}; {} lost",
            damage.bytes.start,
            damage.kind,
            pluralize(damage.lost_samples, "sample")
        )),
        StreamEvent::Mark(mark) => SourceEvent::Mark(mark.at, mark.text),
        StreamEvent::End => SourceEvent::Ended(None),
        StreamEvent::Meta(_) | StreamEvent::Section { .. } => return None,
    })
}
