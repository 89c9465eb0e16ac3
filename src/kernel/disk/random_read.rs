//! Times single random reads of a block device with O_DIRECT. Opens the device read-only and has at most one request in
//! flight.

use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// A block device that is open with O_DIRECT.
#[derive(Debug)]
pub struct RandomReader {
    file: File,
    size_bytes: u64,
    /// State of xorshift64: offsets need to be spread, not unpredictable
    rng_state: u64,
    buffer: Vec<u8>,
}

/// Alignment of offset, size and memory for O_DIRECT, on every device with sectors up to this size.
const ALIGNMENT: usize = 4096;

impl RandomReader {
    /// Opens a block device. EINVAL where it does not support O_DIRECT.
    pub fn open(path: &Path) -> io::Result<RandomReader> {
        let mut file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT | libc::O_CLOEXEC).open(path)?;
        let bytes = file.seek(SeekFrom::End(0))?;
        let state = RandomState::new().build_hasher().finish() | 1;
        Ok(RandomReader { file, size_bytes: bytes, rng_state: state, buffer: Vec::new() })
    }

    /// Size of the device in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Reads `bytes`, a multiple of 4 KiB, at a random offset; returns how long that took.
    pub fn timed_read(&mut self, bytes: usize) -> io::Result<Duration> {
        let places = self.size_bytes / bytes.max(1) as u64;
        if bytes == 0 || places == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let at = self.next_random() % places * bytes as u64;
        self.buffer.resize(bytes + ALIGNMENT, 0);
        let start = self.buffer.as_ptr().align_offset(ALIGNMENT);
        let target = self.buffer.get_mut(start..start.saturating_add(bytes)).ok_or(io::ErrorKind::InvalidInput)?;
        let begun = Instant::now();
        let read = self.file.read_at(target, at)?;
        let took = begun.elapsed();
        if read < bytes { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(took) }
    }

    fn next_random(&mut self) -> u64 {
        self.rng_state ^= self.rng_state << 13;
        self.rng_state ^= self.rng_state >> 7;
        self.rng_state ^= self.rng_state << 17;
        self.rng_state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_whole_blocks_and_nothing_beyond_the_end() {
        // In the source directory if it is writable: the directory of temporary files may be in memory.
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).or_else(|_| tempfile::tempdir()).expect("a folder");
        let path = folder.path().join("file");
        std::fs::write(&path, vec![7_u8; 64 << 10]).expect("written");
        // A file in place of the device; a file system without O_DIRECT cannot be tested.
        let Ok(mut trial) = RandomReader::open(&path) else { return println!("skipped: no O_DIRECT here") };
        assert_eq!(trial.size_bytes(), 64 << 10);
        for _ in 0..20 {
            trial.timed_read(16 << 10).expect("it is there");
        }
        assert!(trial.timed_read(128 << 10).is_err() && trial.timed_read(0).is_err());
        assert_eq!(std::fs::read(&path).expect("still there"), vec![7_u8; 64 << 10]);
    }
}
