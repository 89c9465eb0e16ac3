//! Writes to the recorder's storage: a frame that does not fit is rolled back, and if the disk fails the recording continues in another
//! file.

use std::io;

use super::{RecordingWriter, WriteOutcome, WriterState, write_start};
use crate::recording::Timestamp;
use crate::recording::storage::write_all;
use crate::recording::write::frame_writer::Checkpoint;
use crate::recording::write::recorder::lock_ignoring_poison;

impl RecordingWriter {
    /// Writes frames with one write; if the storage fails, to the next one, which begins with the samples that they refer
    /// to.
    pub(super) fn write_frames(&mut self, at: Timestamp, frames: impl Fn(&mut RecordingWriter)) -> WriteOutcome {
        let write = |writing: &mut RecordingWriter| {
            writing.buffer.clear();
            let checkpoint = writing.frame_writer.checkpoint();
            frames(writing);
            writing.write_buffer(checkpoint, at)
        };
        match write(self) {
            WriteOutcome::StorageFailed if self.switch_to_successor() => write(self),
            written => written,
        }
    }

    /// Writes the buffer; rolls back to the checkpoint if that fails.
    fn write_buffer(&mut self, checkpoint: Checkpoint, at: Timestamp) -> WriteOutcome {
        let Err((taken, error)) = write_all(self.storage.as_mut(), &self.buffer) else { return WriteOutcome::Complete };
        self.frame_writer.roll_back(checkpoint);
        self.encoder.force_key_frame();
        let good = self.frame_writer.offset();
        // Always: a failed write may have written a part.
        let rolled_back = self.storage.truncate(good).is_ok() || taken == 0;
        if rolled_back && matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT)) {
            self.state = WriterState::Paused { reason: error.to_string(), last_attempt_ns: at.boottime_ns };
            return WriteOutcome::NoSpace;
        }
        self.fail_storage(&error, error.to_string(), at)
    }

    /// Syncs; returns whether the disk has all that was written.
    pub(super) fn sync(&mut self, at: Timestamp) -> bool {
        self.samples_since_sync = 0;
        match self.storage.sync() {
            Ok(()) => self.unsynced.drop_before_last_key(),
            // After a failed sync it is unknown what is on the disk: this descriptor is not used again.
            Err(error) => {
                self.fail_storage(&error, format!("the disk did not take it: {error}"), at);
                return false;
            }
        }
        true
    }

    fn fail_storage(&mut self, error: &io::Error, why: String, at: Timestamp) -> WriteOutcome {
        // A limit on the size of files (RLIMIT_FSIZE) holds for the next one too.
        self.state = match error.raw_os_error() {
            Some(libc::EFBIG) => WriterState::Failed { reason: why },
            _ => WriterState::StorageFailed { reason: why, last_attempt_ns: at.boottime_ns },
        };
        WriteOutcome::StorageFailed
    }

    /// Continues in the next storage, if there is one: it begins with what the last one may have lost. False if there is none
    /// now: in the state `StorageFailed` it is tried again, in `Failed` not.
    pub(super) fn switch_to_successor(&mut self) -> bool {
        let WriterState::StorageFailed { reason: why, .. } = &self.state else { return false };
        let Some(successor) = self.storage.create_successor() else {
            self.state = WriterState::Failed { reason: why.clone() };
            return false;
        };
        // Tried again later.
        let Ok(mut storage) = successor else { return false };
        match write_start(storage.as_mut(), &self.meta, &self.options.sections, &self.unsynced, None) {
            Ok(framer) => {
                self.earlier_files_bytes += self.frame_writer.offset();
                lock_ignoring_poison(&self.shared.locations).push(storage.location());
                (self.storage, self.frame_writer) = (storage, framer);
                self.state = WriterState::Recording;
                self.samples_since_sync = 0;
                true
            }
            Err(_) => {
                storage.discard();
                false
            }
        }
    }

    /// The reason to pause, if the file system has too little space.
    pub(super) fn low_space_reason(&self) -> Option<String> {
        const MIB: u64 = 1 << 20;
        let room = self.storage.disk_space().filter(|_| self.options.reserve_free_space)?;
        let floor = (room.total / 20).clamp(64 * MIB, 1024 * MIB);
        let fits = room.available > floor;
        (!fits).then(|| {
            format!("only {} MiB free there, and the last {} MiB are left to others", room.available / MIB, floor / MIB)
        })
    }
}
