//! Where samples come from: the sampling thread, a pipe that a thread reads, or a recording that another program is still
//! writing.

use std::future::pending;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::app::program::exit::Failure;
use crate::app::program::threads;
use crate::app::recording_stream::{RecordingStream, damage_line};
use crate::app::sampling::{SamplerCommand, SamplerThread, TimedSample};
use crate::recording::{Gap, StreamEvent, Timestamp};

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
    Sampler(Box<SamplerThread>),
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
            SampleSource::Sampler(sampler) => match sampler.next().await {
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

/// Reads the events of a stream on a thread.
pub fn from_stream(mut stream: RecordingStream) -> Result<SampleSource, Failure> {
    let (sender, events) = mpsc::channel(PIPE_QUEUE_CAPACITY);
    let body = move || {
        loop {
            let next = match stream.next_event() {
                Ok(Some(event)) => source_event(event),
                Ok(None) => Some(SourceEvent::Ended(None)),
                Err(error) => Some(SourceEvent::Ended(Some(error.to_string()))),
            };
            let over = matches!(next, Some(SourceEvent::Ended(_)));
            if next.is_some_and(|event| sender.blocking_send(event).is_err()) || over {
                return;
            }
        }
    };
    threads::spawn("pipe", body)?;
    Ok(SampleSource::Pipe(events))
}

/// What of a stream the screens take.
pub fn source_event(event: StreamEvent) -> Option<SourceEvent> {
    Some(match event {
        // A gap follows as an event of its own.
        StreamEvent::Sample(sample) => SourceEvent::Sample(TimedSample::new(sample, 0)),
        StreamEvent::Gap(gap) => SourceEvent::Gap(gap),
        StreamEvent::Damage(damage) => SourceEvent::Notice(damage_line(&damage)),
        StreamEvent::Mark(mark) => SourceEvent::Mark(mark.at, mark.text),
        StreamEvent::End => SourceEvent::Ended(None),
        StreamEvent::Meta(_) | StreamEvent::Section { .. } => return None,
    })
}
