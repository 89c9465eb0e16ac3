//! Recordings of a fleet: one file per host in one directory, by the name under which the host is shown.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::host_link::HostLink;
use crate::app::program::exit::{Exit, Failure, quoted};
use crate::app::recorder::{self, Session};
use crate::baseline::Baselines;
use crate::recording::{DirHandle, Meta, RecordingError};

/// How long the end of the program waits for a file that is being created.
const CREATE_TIMEOUT: Duration = Duration::from_secs(1);

/// `fleet --record DIR`
pub struct FleetRecorder {
    folder: Arc<DirHandle>,
}

impl FleetRecorder {
    /// Creates the directory with mode 0700 if it is missing.
    pub fn new(directory: &Path) -> Result<FleetRecorder, Failure> {
        if !directory.is_dir() {
            DirBuilder::new().mode(0o700).create(directory).map_err(|error| {
                let remedy = "give the name of a directory: a file a host is created in it";
                Failure::new(Exit::CannotWrite, format!("cannot record into {}", quoted(directory)), error, remedy)
            })?;
        }
        Ok(FleetRecorder { folder: Arc::new(DirHandle::open(directory).map_err(recorder::failure)?) })
    }

    /// Begins the recording of a host.
    pub fn create(&self, name: &str, meta: &Meta, baselines: &Baselines) -> Result<Session, RecordingError> {
        // Two names of hosts may have one form as a file.
        let name = recorder::free_name(&self.folder, &recorder::recording_name(name));
        Session::create_in(None, &self.folder, &name, meta, baselines)
    }
}

/// Ends the recordings of all hosts; the lines say what could not be written.
pub fn finish(links: &[Arc<HostLink>]) -> Vec<String> {
    let take = |link: &Arc<HostLink>| {
        link.wait_for_recording(CREATE_TIMEOUT);
        link.samples().as_mut()?.take_session()
    };
    let sessions: Vec<Session> = links.iter().filter_map(take).collect();
    sessions.into_iter().filter_map(|session| session.finish_patiently().failure()).collect()
}
