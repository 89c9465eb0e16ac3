//! The jobs of a timeline: recordings are begun, ended and saved.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use super::recorder_control::finish_session;
use crate::app::disk_jobs::DiskJobs;
use crate::app::recorder::{self, Session};
use crate::baseline::Baselines;
use crate::recording::{Copier, CopyTotals, FrameBacklog, Location, Meta, RecordingError, Replayer, save_recording};
use crate::report::formatting::pluralize;
use crate::state::Notice;
use crate::units::format;

/// The outcome of a job.
pub enum JobResult {
    RecordingStarted(Box<Session>),
    RecordingFailed(Notice),
    /// A file was saved or a recording ended, or why not
    Notice(Notice),
}

impl DiskJobs<JobResult> {
    /// Creates a recording that begins with the samples in memory.
    pub fn start_recording(&mut self, backlog: FrameBacklog, name: String, meta: Meta, baselines: Baselines) {
        let create = move |path: &Path| Session::create_with_history(backlog.clone(), path, &meta, &baselines);
        self.spawn(JobResult::RecordingFailed, move || match recorder::with_fallback_directory(&name, create) {
            Ok(session) => JobResult::RecordingStarted(Box::new(session)),
            Err(error) => JobResult::RecordingFailed(Notice::failure(recorder::failure(error).to_string())),
        });
    }

    pub fn stop_recording(&mut self, session: Session) {
        self.spawn(JobResult::Notice, move || JobResult::Notice(finish_session(session)));
    }

    /// Writes a whole recording into a new file.
    pub fn save(&mut self, name: String, bytes: Vec<u8>, samples: usize) {
        self.spawn(JobResult::Notice, move || {
            let saved =
                recorder::with_fallback_directory(&name, |path| save_recording(path, &bytes).map(|()| Location::from(path)));
            JobResult::Notice(match saved {
                Ok(location) => {
                    let (samples, size) = (pluralize(samples as u64, "sample"), format::bytes(bytes.len() as f64));
                    Notice::new(format!("saved {samples}, {size} into {location}"))
                }
                Err(error) => Notice::failure(recorder::failure(error).to_string()),
            })
        });
    }
}

impl DiskJobs<Notice> {
    /// Copies the samples with these sequence numbers to a new recording.
    pub fn save_range(
        &mut self,
        name: String,
        open: impl FnOnce() -> Result<Replayer, RecordingError> + Send + 'static,
        sequences: RangeInclusive<u64>,
    ) {
        let copy = move || -> Result<(CopyTotals, PathBuf), RecordingError> {
            let mut replayer = open()?;
            let is_in = |index: &usize| replayer.sequence(*index).is_some_and(|sequence| sequences.contains(&sequence));
            let first = (0..replayer.len()).find(is_in).unwrap_or(0);
            let count = (first..replayer.len()).take_while(is_in).count();
            recorder::with_fallback_directory(&name, |path| {
                Ok((Copier::copy_range(&mut replayer, first..first + count, path)?, path.to_owned()))
            })
        };
        self.spawn(
            |notice| notice,
            move || match copy() {
                Ok((copied, path)) => {
                    let (samples, size) = (pluralize(copied.samples, "sample"), format::bytes(copied.bytes as f64));
                    Notice::new(format!("saved the span: {samples}, {size} into {}", Location::from(path.as_path())))
                }
                Err(error) => Notice::failure(recorder::failure(error).to_string()),
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::app::disk_jobs::ShutdownStep;

    #[test]
    fn a_recording_is_saved() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("last.stalltop");
        let mut jobs = DiskJobs::default();
        jobs.save(file.to_str().unwrap().to_owned(), vec![7; 1 << 20], 3);
        let ShutdownStep::JobDone(JobResult::Notice(notice)) = jobs.next_within(Duration::from_secs(60)) else {
            panic!("the job has not ended")
        };
        assert!(!notice.failure && notice.text.starts_with("saved 3 samples, 1.00 MiB into "), "{}", notice.text);
        assert_eq!(std::fs::read(file).unwrap().len(), 1 << 20);
    }
}
