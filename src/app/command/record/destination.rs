//! What a recording is written to: a file, a directory of segments, or standard output.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::app::program::exit::{Exit, Failure};
use crate::app::recorder::segments::Segments;
use crate::app::recorder::{self, Session};
use crate::baseline::Baselines;
use crate::cli::Record;
use crate::recording::Meta;

pub enum Destination {
    /// Standard output. The flag is set when its reader has closed it.
    Stream(Arc<AtomicBool>),
    /// `None`: the default name
    File(Option<PathBuf>),
    Segments(Segments),
}

impl Destination {
    /// With `--rotate`, creates the directory.
    pub fn from_options(options: &Record) -> Result<Destination, Failure> {
        let usage = |what, why, remedy| Err(Failure::new(Exit::Usage, what, why, remedy));
        let to_stream = options.file.as_deref() == Some(Path::new("-"));
        if to_stream && io::stdout().is_terminal() {
            let remedy = "pipe it: stalltop record - | stalltop replay -";
            return usage("cannot record to standard output", "it is a terminal", remedy);
        }
        match (options.rotate, &options.file) {
            (Some(_), _) if to_stream => {
                usage("cannot rotate", "standard output is one stream", "give the name of a directory instead of -")
            }
            (Some(rotate), Some(directory)) => Ok(Destination::Segments(Segments::create(directory, rotate, options.keep)?)),
            _ if to_stream => Ok(Destination::Stream(Arc::default())),
            (_, file) => Ok(Destination::File(file.clone())),
        }
    }

    /// Creates the file, the next segment, or the stream.
    pub fn create_session(&self, max_size: Option<u64>, meta: &Meta, baselines: &Baselines) -> Result<Session, Failure> {
        let session = match self {
            Destination::Stream(reader_gone) => {
                Session::stream(max_size, StdoutPipe::open(Arc::clone(reader_gone))?, meta, baselines)
            }
            Destination::File(Some(file)) => Session::create_with_limit(max_size, file, meta, baselines),
            Destination::File(None) => {
                Session::create_with_limit(max_size, Path::new(&recorder::default_name(&meta.host)), meta, baselines)
            }
            Destination::Segments(segments) => {
                Session::create_in(max_size, segments.folder(), &segments.next_name(&meta.host), meta, baselines)
            }
        };
        session.map_err(recorder::failure)
    }

    pub fn segments(&mut self) -> Option<&mut Segments> {
        match self {
            Destination::Segments(segments) => Some(segments),
            Destination::Stream(_) | Destination::File(_) => None,
        }
    }

    /// Whether the reader of standard output has closed it.
    pub fn is_reader_gone(&self) -> bool {
        matches!(self, Destination::Stream(gone) if gone.load(Ordering::SeqCst))
    }
}

/// Standard output without std's line buffer, which would delay frames. Notes when the reader has closed it.
struct StdoutPipe {
    sink: File,
    reader_gone: Arc<AtomicBool>,
}

impl StdoutPipe {
    fn open(reader_gone: Arc<AtomicBool>) -> Result<StdoutPipe, Failure> {
        let sink = io::stdout().as_fd().try_clone_to_owned().map(File::from);
        let sink = sink.map_err(|error| Failure::new(Exit::CannotWrite, "cannot write to standard output", error, ""))?;
        Ok(StdoutPipe { sink, reader_gone })
    }
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
