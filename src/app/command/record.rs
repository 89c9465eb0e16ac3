//! `record`: samples into a file or a pipe, without a screen, until somebody says enough.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::app::baseline_learner::BaselineLearner;
use crate::app::config::Settings;
use crate::app::live_pipeline::LiveEvaluations;
use crate::app::mark_socket::MarkSocket;
use crate::app::operations_command::OperationsCommand;
use crate::app::program::exit::{Exit, Failure};
use crate::app::program::{signals, stdio};
use crate::app::recorder::segments::Segments;
use crate::app::recorder::{self, Session, SharedSession};
use crate::app::sampling::{SamplerCommand, SamplerThread};
use crate::baseline::Baselines;
use crate::cli::{Configuration, Record};
use crate::kernel::Root;
use crate::recording::{Meta, RecorderStatus, RecordingProgress, Redaction};
use crate::report::missing::missing_readings;

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
        (Some(rotate), Some(directory)) => Some(Segments::create(directory, rotate, record.keep)?),
        _ => None,
    };
    let stop = signals::TerminationSignals::block()
        .map_err(|error| Failure::new(Exit::Failed, "cannot wait for signals", error, ""))?;
    let settings = Settings::load_and_warn(&root, configuration)?;
    let lessons = BaselineLearner::for_root(&root);
    let tally = record.ops.as_deref().map(|command| OperationsCommand::start(command, record.interval)).transpose()?;
    let sampler = SamplerThread::start_with_operations(
        root,
        record.interval,
        record.span,
        tally.as_ref().map(OperationsCommand::latest),
    )?;
    let control = sampler.control();
    stop.on_signal(move || control.send(SamplerCommand::Stop));
    let rule_config = settings.rule_config_for(&sampler.host);
    let mut evaluations = LiveEvaluations::new(sampler, rule_config, lessons);
    let host = Arc::clone(&evaluations.sampler.host);
    // The first sample says what cannot be seen here: the recording begins with it.
    let Some(first) = evaluations.next_sample() else { return Err(Failure::already_reported(Exit::Failed)) };
    let redaction = if record.redact { Redaction::Arguments } else { Redaction::Nothing };
    let mut meta = recorder::meta(&host, record.interval, redaction);
    meta.absent = missing_readings(&first.sample).into_iter().map(|(what, why)| (what.to_owned(), why)).collect();
    // Baselines that were said are known to whoever replays it, elsewhere too; the rest is a matter of judgement, then.
    let mut baselines = evaluations.pipeline().initial_baselines().clone();
    if let Ok(disks) = &first.sample.disks {
        settings.rule_config().apply_baseline_overrides(disks, &mut baselines);
    }
    let reader_gone = Arc::new(AtomicBool::new(false));
    let session = if to_stream {
        Session::stream(record.max_size, open_stdout(Arc::clone(&reader_gone))?, &meta, &baselines).map_err(recorder::failure)
    } else {
        create_session(record, segments.as_ref(), &meta, &baselines)
    };
    let session = match session {
        // Whoever was to read did not wait for the first byte.
        Err(_) if reader_gone.load(Ordering::SeqCst) => return Ok(Exit::Success),
        session => SharedSession::new(session?),
    };
    let marked = session.clone();
    let take_in = move |at, text: String| marked.with(|session| session.mark(at, &text)).unwrap_or(Err("it has just ended"));
    // Without a door, whoever knocks is told that nobody is there.
    let _door = MarkSocket::bind(take_in).ok();
    let mut growth = FileGrowth::default();
    let mut next = Some(first);
    let mut turns = false;
    while let Some(taken) = next.take().or_else(|| evaluations.next_sample()) {
        let at = taken.sample.at;
        if let Some(segments) = segments.as_mut().filter(|_| turns) {
            // The new one is there before the old one ends: whoever follows finds it.
            match create_session(record, Some(segments), &meta, &baselines) {
                Ok(new) => {
                    if let Some(ended) = session.replace(Some(new)).map(Session::finish) {
                        stdio::print_stderr(&ended.failure().unwrap_or_else(|| ended.summary()));
                    }
                    segments.rotated();
                    growth = FileGrowth::default();
                }
                // What is there now goes on, as far as it may.
                Err(failure) => segments.postpone_rotation(at, &failure),
            }
        }
        let judged = evaluations.evaluate(&taken);
        let digest = recorder::frame_summary(judged.as_ref());
        let status = session.with(|session| {
            session.offer(taken, digest);
            (session.status(), session.status_change())
        });
        let Some((status, news)) = status else { break };
        if let Some(news) = news {
            stdio::print_stderr(&news);
        }
        growth.samples_offered += 1;
        let large = record.max_size.is_some_and(|most| growth.would_exceed(&status, most));
        let large = large || matches!(status, RecorderStatus::LimitReached(_));
        match &mut segments {
            _ if matches!(
                status,
                RecorderStatus::Failed { .. } | RecorderStatus::LimitReached(RecordingProgress { samples: 0, .. })
            ) =>
            {
                break;
            }
            None if large => break,
            None => {}
            Some(segments) => {
                turns = segments.should_rotate(at, large);
                segments.delete_expired(&host, at);
            }
        }
    }
    evaluations.sampler.send(SamplerCommand::Stop);
    let Some(ended) = session.replace(None).map(Session::finish_patiently) else {
        return Err(Failure::already_reported(Exit::Failed));
    };
    evaluations.finish()?;
    match ended.failure() {
        // Whoever read has seen enough.
        Some(_) if reader_gone.load(Ordering::SeqCst) => Ok(Exit::Success),
        Some(line) => Err(Failure::new(Exit::CannotWrite, line, "", "")),
        None => {
            stdio::print_stderr(&ended.summary());
            Ok(Exit::Success)
        }
    }
}

/// The next segment, or the one file.
fn create_session(
    record: &Record,
    segments: Option<&Segments>,
    meta: &Meta,
    baselines: &Baselines,
) -> Result<Session, Failure> {
    let most = record.max_size;
    let session = match (segments, record.file.as_deref()) {
        (Some(segments), _) => Session::create_in(most, segments.folder(), &segments.next_name(&meta.host), meta, baselines),
        (None, Some(file)) => Session::create_with_limit(most, file, meta, baselines),
        (None, None) => Session::create_with_limit(most, Path::new(&recorder::default_name(&meta.host)), meta, baselines),
    };
    session.map_err(recorder::failure)
}

/// Standard output past std's line buffer, which would hold frames back.
fn open_stdout(gone: Arc<AtomicBool>) -> Result<StdoutPipe, Failure> {
    let sink = io::stdout().as_fd().try_clone_to_owned().map(File::from);
    let sink = sink.map_err(|error| Failure::new(Exit::CannotWrite, "cannot write to standard output", error, ""))?;
    Ok(StdoutPipe { sink, reader_gone: gone })
}

/// A pipe that remembers that its reader went away.
struct StdoutPipe {
    sink: File,
    reader_gone: Arc<AtomicBool>,
}

impl Write for StdoutPipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.sink.write(bytes);
        if written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
            self.reader_gone.store(true, Ordering::SeqCst);
        }
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

/// How a file grows: so that it is ended before it is too large.
#[derive(Debug, Default)]
struct FileGrowth {
    bytes_written: u64,
    largest_sample_bytes: u64,
    /// Samples given to the recorder, which may not have written them yet
    samples_offered: u64,
}

impl FileGrowth {
    /// Whether the next sample, with the end that is still to be written, may not fit any more.
    fn would_exceed(&mut self, status: &RecorderStatus, most: u64) -> bool {
        /// Bytes of one sample in the index at the end.
        const INDEX_ENTRY_BYTES: u64 = 24;
        /// What the end is beside the index.
        const TRAILER_BYTES: u64 = 512;
        let kept = status.progress();
        if self.bytes_written > 0 {
            self.largest_sample_bytes = self.largest_sample_bytes.max(kept.bytes.saturating_sub(self.bytes_written));
        }
        self.bytes_written = kept.bytes;
        let waiting = self.samples_offered.saturating_sub(kept.samples + kept.lost_samples);
        kept.bytes + (2 + waiting) * self.largest_sample_bytes + kept.samples * INDEX_ENTRY_BYTES + TRAILER_BYTES > most
    }
}
