//! `record`: samples into a file or a pipe, without a screen, until somebody says enough.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::app::config::Settings;
use crate::app::judging::{Judging, Lessons};
use crate::app::program::exit::{Exit, Failure};
use crate::app::program::{panics, signals, stdout};
use crate::app::recording::door::Door;
use crate::app::recording::segments::Segments;
use crate::app::recording::tally::Tally;
use crate::app::recording::{self, Session, Shared};
use crate::app::sampling::{Order, Sampling};
use crate::baseline::Baselines;
use crate::cli::{Configuration, Record};
use crate::kernel::Root;
use crate::recording::{Kept, Meta, RecorderStatus, Redaction};

pub fn record(root: Root, configuration: &Configuration, record: &Record) -> Result<Exit, Failure> {
    let to_stream = record.file.as_deref() == Some(Path::new("-"));
    if to_stream && io::stdout().is_terminal() {
        let remedy = "pipe it: stalltop record - | stalltop replay -";
        return Err(Failure::new(Exit::Usage, "cannot record to standard output", "it is a terminal", remedy));
    }
    let mut segments = match (record.rotate, &record.file) {
        (Some(_), _) if to_stream => {
            let remedy = "give the name of a directory";
            return Err(Failure::new(Exit::Usage, "cannot begin new files on standard output", "it is one stream", remedy));
        }
        (Some(rotate), Some(directory)) => Some(Segments::into(directory, rotate, record.keep)?),
        _ => None,
    };
    let stop = signals::Ending::hold().map_err(|error| Failure::new(Exit::Failed, "cannot wait for signals", error, ""))?;
    let settings = Settings::load_or_complain(&root, configuration)?;
    let lessons = if root.is_host() { Lessons::load_or_complain() } else { Lessons::none() };
    let tally = record.ops.as_deref().map(|command| Tally::of(command, record.interval)).transpose()?;
    let mut sampling = Sampling::counting(root, record.interval, record.span, tally.as_ref().map(Tally::latest))?;
    let orders = sampling.orders();
    stop.then(move || orders.send(Order::End));
    // The first sample says what cannot be seen here: the recording begins with it.
    let Some(first) = sampling.samples.blocking_recv() else { return Err(Failure::told(Exit::Failed)) };
    let redaction = if record.redact { Redaction::Arguments } else { Redaction::Nothing };
    let mut meta = recording::meta(&sampling.host, record.interval, redaction);
    meta.absent = first.sample.absent().into_iter().map(|(what, why)| (what.to_owned(), why)).collect();
    // Baselines that were said are known to whoever replays it, elsewhere too; the rest is a matter of judgement, then.
    let mut baselines = lessons.baselines().clone();
    if let Ok(disks) = &first.sample.disks {
        settings.criteria().set_baselines(disks, &mut baselines);
    }
    // Only for the strip of time, which a replay paints before it has judged a day itself.
    let mut judging = Judging::new(Arc::clone(&sampling.host), lessons.judge(settings.criteria_for(&sampling.host)));
    let reader_gone = Arc::new(AtomicBool::new(false));
    let session = if to_stream {
        Session::stream(record.max_size, standard_output(Arc::clone(&reader_gone))?, &meta, &baselines)
            .map_err(recording::failure)
    } else {
        create(record, segments.as_ref(), &meta, &baselines)
    };
    let session = match session {
        // Whoever was to read did not wait for the first byte.
        Err(_) if reader_gone.load(Ordering::SeqCst) => return Ok(Exit::Fine),
        session => Shared::new(session?),
    };
    let marked = session.clone();
    let take_in = move |at, text: String| marked.with(|session| session.mark(at, &text)).unwrap_or(Err("it has just ended"));
    // Without a door, whoever knocks is told that nobody is there.
    let _door = Door::open(take_in).ok();
    let mut growth = Growth::default();
    let mut next = Some(first);
    let mut turns = false;
    while let Some(taken) = next.take().or_else(|| sampling.samples.blocking_recv()) {
        let at = taken.sample.at;
        if let Some(segments) = segments.as_mut().filter(|_| turns) {
            // The new one is there before the old one ends: whoever follows finds it.
            match create(record, Some(segments), &meta, &baselines) {
                Ok(new) => {
                    if let Some(ended) = session.replace(Some(new)).map(Session::finish) {
                        stdout::complain(&ended.failure().unwrap_or_else(|| ended.words()));
                    }
                    segments.turned();
                    growth = Growth::default();
                }
                // What is there now goes on, as far as it may.
                Err(failure) => segments.put_off(at, &failure),
            }
        }
        let judged = judging.take(Arc::clone(&taken.sample));
        let digest = recording::digest(judged.as_ref());
        let status = session.with(|session| {
            session.offer(taken, digest);
            (session.status(), session.news())
        });
        let Some((status, news)) = status else { break };
        if let Some(news) = news {
            stdout::complain(&news);
        }
        growth.given += 1;
        let large = record.max_size.is_some_and(|most| growth.would_pass(&status, most));
        let large = large || matches!(status, RecorderStatus::Full(_));
        match &mut segments {
            _ if matches!(status, RecorderStatus::Failed { .. } | RecorderStatus::Full(Kept { samples: 0, .. })) => break,
            None if large => break,
            None => {}
            Some(segments) => {
                turns = segments.is_due(at, large);
                segments.forget_old(&sampling.host, at);
            }
        }
    }
    sampling.order(Order::End);
    let Some(ended) = session.replace(None).map(Session::finish_at_last) else { return Err(Failure::told(Exit::Failed)) };
    match ended.failure() {
        _ if panics::happened() => Err(Failure::told(Exit::Failed)),
        // Whoever read has seen enough.
        Some(_) if reader_gone.load(Ordering::SeqCst) => Ok(Exit::Fine),
        Some(line) => Err(Failure::new(Exit::CannotWrite, line, "", "")),
        None => {
            stdout::complain(&ended.words());
            Ok(Exit::Fine)
        }
    }
}

/// The next segment, or the one file.
fn create(record: &Record, segments: Option<&Segments>, meta: &Meta, baselines: &Baselines) -> Result<Session, Failure> {
    let most = record.max_size;
    let session = match (segments, record.file.as_deref()) {
        (Some(segments), _) => Session::create_in(most, segments.folder(), &segments.next_name(&meta.host), meta, baselines),
        (None, Some(file)) => Session::within(most, file, meta, baselines),
        (None, None) => Session::within(most, Path::new(&recording::default_name(&meta.host)), meta, baselines),
    };
    session.map_err(recording::failure)
}

/// Standard output past std's line buffer, which would hold frames back.
fn standard_output(gone: Arc<AtomicBool>) -> Result<Pipe, Failure> {
    let sink = io::stdout().as_fd().try_clone_to_owned().map(File::from);
    let sink = sink.map_err(|error| Failure::new(Exit::CannotWrite, "cannot write to standard output", error, ""))?;
    Ok(Pipe { sink, gone })
}

/// A pipe that remembers that its reader went away.
struct Pipe {
    sink: File,
    gone: Arc<AtomicBool>,
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.sink.write(bytes);
        if written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
            self.gone.store(true, Ordering::SeqCst);
        }
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

/// How a file grows: so that it is ended before it is too large.
#[derive(Debug, Default)]
struct Growth {
    bytes: u64,
    largest: u64,
    /// Samples given to the recorder, which may not have written them yet
    given: u64,
}

impl Growth {
    /// Whether the next sample, with the end that is still to be written, may not fit any more.
    fn would_pass(&mut self, status: &RecorderStatus, most: u64) -> bool {
        /// Bytes of one sample in the index at the end.
        const ENTRY: u64 = 24;
        /// What the end is beside the index.
        const END: u64 = 512;
        let kept = status.kept();
        if self.bytes > 0 {
            self.largest = self.largest.max(kept.bytes.saturating_sub(self.bytes));
        }
        self.bytes = kept.bytes;
        let waiting = self.given.saturating_sub(kept.samples + kept.lost);
        kept.bytes + (2 + waiting) * self.largest + kept.samples * ENTRY + END > most
    }
}
