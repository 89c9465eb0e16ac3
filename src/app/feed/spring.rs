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
use crate::app::sampling::{Order, Sampling, Taken};
use crate::recording::{Gap, Meta, Moment, RecordingError, StreamEvent, StreamReader};
use crate::report::words::many;

/// One thing that comes.
pub enum Drop {
    Sample(Taken),
    /// A word that somebody put in, and when
    Mark(Moment, String),
    /// Samples that the recorder lost
    Gap(Gap),
    /// Something to be told: damage
    Word(String),
    /// Nothing more; and why, unless that was to be expected
    Ended(Option<String>),
}

pub enum Spring {
    Machine(Sampling),
    Pipe(mpsc::Receiver<Drop>),
    Dry,
}

impl Spring {
    /// What comes next; after the end nothing ever does. May be given up while it waits.
    pub async fn next(&mut self) -> Drop {
        let drop = match self {
            Spring::Machine(sampling) => match sampling.samples.recv().await {
                Some(taken) => Drop::Sample(taken),
                None => Drop::Ended(Some("sampling has ended".to_owned())),
            },
            Spring::Pipe(drops) => drops.recv().await.unwrap_or(Drop::Ended(None)),
            Spring::Dry => pending().await,
        };
        if matches!(drop, Drop::Ended(_)) {
            *self = Spring::Dry;
        }
        drop
    }

    pub fn change_interval(&self, interval: Duration) {
        if let Spring::Machine(sampling) = self {
            sampling.order(Order::Interval(interval));
        }
    }
}

/// What a stream begins with: which machine it is about, and its baselines.
pub struct Beginning {
    pub meta: Meta,
    pub sections: Vec<(String, Vec<u8>)>,
}

/// Reads a recording from standard input. Waits for its beginning.
pub fn pipe() -> Result<(Beginning, Spring), Failure> {
    let stdin = io::stdin().as_fd().try_clone_to_owned().map(File::from);
    let stdin = stdin.map_err(|error| Failure::new(Exit::Failed, "cannot read standard input", error, ""))?;
    let mut reader = StreamReader::open(stdin).map_err(failure)?;
    let mut beginning = None;
    let mut sections = Vec::new();
    let first = loop {
        match reader.event().map_err(failure)? {
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
    let Some(meta) = beginning else { return Err(Failure::told(Exit::Failed)) };
    let (sender, drops) = mpsc::channel(64);
    let body = move || {
        let mut event: Result<_, RecordingError> = Ok(Some(first));
        loop {
            let drop = match event {
                Ok(Some(event)) => tell(event),
                Ok(None) => Some(Drop::Ended(None)),
                Err(error) => Some(Drop::Ended(Some(error.to_string()))),
            };
            let over = matches!(drop, Some(Drop::Ended(_)));
            if drop.is_some_and(|drop| sender.blocking_send(drop).is_err()) || over {
                return;
            }
            event = reader.event();
        }
    };
    let thread = thread::Builder::new().name("pipe".to_owned()).spawn(body);
    thread.map_err(|error| Failure::new(Exit::Failed, "cannot start reading", error, ""))?;
    Ok((Beginning { meta, sections }, Spring::Pipe(drops)))
}

fn tell(event: StreamEvent) -> Option<Drop> {
    Some(match event {
        // What is missing comes as a word of its own.
        StreamEvent::Sample(sample) => Drop::Sample(Taken { sample, missed: 0 }),
        StreamEvent::Gap(gap) => Drop::Gap(gap),
        StreamEvent::Damage(damage) => {
            Drop::Word(format!("damage at byte {}: {}; {} lost", damage.bytes.start, damage.what, many(damage.lost, "sample")))
        }
        StreamEvent::Mark(mark) => Drop::Mark(mark.at, mark.text),
        StreamEvent::End => Drop::Ended(None),
        StreamEvent::Meta(_) | StreamEvent::Section { .. } => return None,
    })
}
