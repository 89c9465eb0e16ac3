//! `w`: the samples in memory of all hosts, as a recording each in a new directory.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;

use super::host_link::HostLink;
use crate::app::disk_jobs::DiskJobs;
use crate::app::program::exit::quoted;
use crate::app::recorder;
use crate::recording::{DirHandle, RecordingError, save_recording};
use crate::report::formatting::pluralize;
use crate::state::Notice;
use crate::units::format;

/// Begins to save; the result follows.
pub fn save(jobs: &mut DiskJobs<Notice>, links: &[Arc<HostLink>]) -> Notice {
    let links: Vec<Arc<HostLink>> = links.to_vec();
    jobs.spawn(|notice| notice, move || write_recordings(&links).unwrap_or_else(Notice::failure));
    Notice::new("saving the last minutes of all hosts …")
}

/// Writes a file for each host that has samples.
fn write_recordings(links: &[Arc<HostLink>]) -> Result<Notice, String> {
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
