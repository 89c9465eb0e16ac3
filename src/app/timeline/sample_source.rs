//! Where samples come from: the sampling thread, a pipe that a thread reads, or a recording that another program is still
//! writing.

use std::fs::File;
use std::future::pending;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::app::program::exit::{Exit, Failure};
use crate::app::program::threads;
use crate::app::recorder::failure;
use crate::app::sampling::{SamplerCommand, SamplerThread, TimedSample};
use crate::recording::{Gap, Meta, RecordingError, StreamEvent, StreamReader, Timestamp};
use crate::report::formatting::pluralize;

/// How often a growing recording is checked for new samples.
const FILE_POLL_INTERVAL: Duration = Duration::from_millis(400);

/// Samples and marks of a pipe that may wait for the screen.
const PIPE_QUEUE_CAPACITY: usize = 64;

/// What a source delivers.
pub enum SourceEvent {
    Sample(TimedSample),
    /// A mark and its time
    Mark(Timestamp, String),
    /// Samples that the recorder lost
    Gap(Gap),
    /// A line for the user: damage
    Notice(String),
    /// The recording may have grown
    PollFile,
    /// No more samples will come; with the reason where that is an error
    Ended(Option<String>),
}

pub enum SampleSource {
    Sampler(SamplerThread),
    Pipe(mpsc::Receiver<SourceEvent>),
    /// The time of the next check
    GrowingFile(Instant),
    Closed,
}

impl SampleSource {
    pub fn growing_file() -> SampleSource {
        SampleSource::GrowingFile(Instant::now() + FILE_POLL_INTERVAL)
    }

    /// Waits for the next event; forever after the end. Cancel-safe.
    pub async fn next(&mut self) -> SourceEvent {
        let event = match self {
            SampleSource::Sampler(sampler) => match sampler.samples.recv().await {
                Some(sample) => SourceEvent::Sample(sample),
                None => SourceEvent::Ended(Some("sampling has ended".to_owned())),
            },
            SampleSource::Pipe(events) => events.recv().await.unwrap_or(SourceEvent::Ended(None)),
            SampleSource::GrowingFile(poll_at) => {
                sleep_until(*poll_at).await;
                *poll_at = Instant::now() + FILE_POLL_INTERVAL;
                SourceEvent::PollFile
            }
            SampleSource::Closed => pending().await,
        };
        if matches!(event, SourceEvent::Ended(_)) {
            *self = SampleSource::Closed;
        }
        event
    }

    /// Sets the time between samples, where this program takes them.
    pub fn set_interval(&self, interval: Duration) {
        if let SampleSource::Sampler(sampler) = self {
            sampler.send(SamplerCommand::SetInterval(interval));
        }
    }
}

/// The beginning of a stream: the recorded machine, and the sections such as its baselines.
pub struct StreamHeader {
    pub meta: Meta,
    pub sections: Vec<(String, Vec<u8>)>,
}

/// Reads a recording from standard input. Blocks until its header has arrived.
pub fn open_stdin() -> Result<(StreamHeader, SampleSource), Failure> {
    let stdin = io::stdin().as_fd().try_clone_to_owned().map(File::from);
    let stdin = stdin.map_err(|error| Failure::new(Exit::Failed, "cannot read standard input", error, ""))?;
    let mut reader = StreamReader::open(stdin).map_err(failure)?;
    let mut header = None;
    let mut sections = Vec::new();
    let first = loop {
        match reader.next_event().map_err(failure)? {
            Some(StreamEvent::Meta(meta)) => header = Some(*meta),
            Some(StreamEvent::Section { name, bytes }) => sections.push((name, bytes)),
            Some(other) if header.is_some() => break other,
            Some(_) => {}
            None if header.is_some() => break StreamEvent::End,
            None => {
                let what = "cannot replay standard input";
                return Err(Failure::new(Exit::NotRecording, what, "it ended before its header", ""));
            }
        }
    };
    let Some(meta) = header else { return Err(Failure::already_reported(Exit::Failed)) };
    let (sender, events) = mpsc::channel(PIPE_QUEUE_CAPACITY);
    let body = move || {
        let mut event: Result<_, RecordingError> = Ok(Some(first));
        loop {
            let next = match event {
                Ok(Some(event)) => source_event(event),
                Ok(None) => Some(SourceEvent::Ended(None)),
                Err(error) => Some(SourceEvent::Ended(Some(error.to_string()))),
            };
            let over = matches!(next, Some(SourceEvent::Ended(_)));
            if next.is_some_and(|event| sender.blocking_send(event).is_err()) || over {
                return;
            }
            event = reader.next_event();
        }
    };
    threads::spawn("pipe", body)?;
    Ok((StreamHeader { meta, sections }, SampleSource::Pipe(events)))
}

fn source_event(event: StreamEvent) -> Option<SourceEvent> {
    Some(match event {
        // A gap follows as an event of its own.
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
