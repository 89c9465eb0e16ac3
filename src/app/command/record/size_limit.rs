//! `--max-size`: ends a file before it grows larger.

use crate::recording::RecorderStatus;

/// Follows the growth of one file.
#[derive(Debug)]
pub struct SizeLimit {
    max_bytes: Option<u64>,
    bytes_written: u64,
    largest_sample_bytes: u64,
    /// Samples given to the recorder, which may not have written them yet
    samples_offered: u64,
}

/// Size of a sample in the index at the end of the file.
const INDEX_ENTRY_BYTES: u64 = 24;
/// The end of the file without the index.
const TRAILER_BYTES: u64 = 512;

impl SizeLimit {
    /// `None`: no limit.
    pub fn new(max_bytes: Option<u64>) -> SizeLimit {
        SizeLimit { max_bytes, bytes_written: 0, largest_sample_bytes: 0, samples_offered: 0 }
    }

    /// Called after each sample: whether the next one, with the end of the file, may not fit.
    pub fn is_reached(&mut self, status: &RecorderStatus) -> bool {
        let progress = status.progress();
        self.samples_offered += 1;
        if self.bytes_written > 0 {
            self.largest_sample_bytes = self.largest_sample_bytes.max(progress.bytes.saturating_sub(self.bytes_written));
        }
        self.bytes_written = progress.bytes;
        let queued = self.samples_offered.saturating_sub(progress.samples + progress.lost_samples);
        let end_bytes = progress.samples * INDEX_ENTRY_BYTES + TRAILER_BYTES;
        let needed = progress.bytes + (2 + queued) * self.largest_sample_bytes + end_bytes;
        matches!(status, RecorderStatus::LimitReached(_)) || self.max_bytes.is_some_and(|max_bytes| needed > max_bytes)
    }
}
