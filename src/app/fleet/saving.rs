//! `w`: the samples in memory of all hosts, as a recording each in a new directory. Written on a thread: the disk may be slow.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::host_link::HostLink;
use crate::app::program::exit::quoted;
use crate::app::program::threads;
use crate::app::recorder;
use crate::recording::{DirHandle, RecordingError, save_recording};
use crate::report::formatting::pluralize;
use crate::state::Notice;
use crate::units::format;

/// How long the end of the program waits for the files.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// The savings that are under way, and their results.
pub struct SavedFleets {
    sender: UnboundedSender<Notice>,
    results: UnboundedReceiver<Notice>,
    running: usize,
}

impl Default for SavedFleets {
    fn default() -> SavedFleets {
        let (sender, results) = unbounded_channel();
        SavedFleets { sender, results, running: 0 }
    }
}

impl SavedFleets {
    /// Waits for the next result; forever where nothing is being saved. Cancel-safe.
    pub async fn next(&mut self) -> Notice {
        match self.results.recv().await {
            Some(notice) => {
                self.running = self.running.saturating_sub(1);
                notice
            }
            None => std::future::pending().await,
        }
    }

    /// Begins to save; the result follows.
    pub fn save(&mut self, links: &[Arc<HostLink>]) -> Notice {
        let links: Vec<Arc<HostLink>> = links.to_vec();
        let sender = self.sender.clone();
        let job = move || {
            // The receiver is gone only when the program ends.
            let _ = sender.send(save(&links).unwrap_or_else(Notice::failure));
        };
        match threads::spawn("save fleet", job) {
            Ok(_) => {
                self.running += 1;
                Notice::new("saving the last minutes of all hosts …")
            }
            Err(failure) => Notice::failure(failure.to_string()),
        }
    }

    /// At the end of the program: waits for the files; returns why they are not saved.
    pub fn close(mut self) -> Option<String> {
        let end = Instant::now() + SHUTDOWN_TIMEOUT;
        while self.running > 0 && Instant::now() < end {
            match self.results.try_recv() {
                Ok(notice) if notice.failure => return Some(notice.text),
                Ok(_) => self.running -= 1,
                Err(_) => std::thread::sleep(Duration::from_millis(2)),
            }
        }
        (self.running > 0).then(|| "the last minutes of the hosts are not saved: the disk does not answer".to_owned())
    }
}

/// Writes a file for each host that has samples.
fn save(links: &[Arc<HostLink>]) -> Result<Notice, String> {
    let directory = create_directory().map_err(|error| recorder::failure(error).to_string())?;
    let folder = DirHandle::open(&directory).map_err(|error| error.to_string())?;
    let (mut hosts, mut samples, mut bytes) = (0_usize, 0_usize, 0_usize);
    for link in links {
        let kept = match &*link.samples() {
            Some(samples) => samples.kept().map_err(|error| error.to_string())?,
            None => continue,
        };
        let (recording, count) = kept;
        // Two names of hosts may have one form as a file.
        let path = directory.join(recorder::free_name(&folder, &recorder::recording_name(&link.name)));
        save_recording(&path, &recording).map_err(|error| recorder::failure(error).to_string())?;
        hosts += 1;
        samples += count;
        bytes += recording.len();
    }
    let (place, size) = (quoted(&directory), format::bytes(bytes as f64));
    let words = format!("saved {} of {}, {size}", pluralize(samples, "sample"), pluralize(hosts, "host"));
    Ok(Notice::new(format!("{words}: stalltop fleet --replay {place}")))
}

fn create_directory() -> Result<PathBuf, RecordingError> {
    let name = recorder::directory_name("fleet");
    recorder::with_fallback_directory(&name, |path| {
        let created = DirBuilder::new().mode(0o700).create(path);
        created.map(|()| path.to_owned()).map_err(|source| RecordingError::Write { path: path.into(), source })
    })
}
