//! Scans a recording from frame header to frame header, and finds the next intact one after damage.

use std::io;

use crate::recording::format::file_header::{self, FileId};
use crate::recording::format::frame::{FrameHeader, FrameKind, HEADER_LENGTH, SYNC_WORD};
use crate::recording::format::index::{EntryKind, IndexEntry};
use crate::recording::read::damage::{Damage, DamageKind, SequenceStatus, SequenceTracker, Tail};
use crate::recording::storage::{RecordingSource, read_into};

/// The frames of a recording that were found so far.
#[derive(Clone, Debug)]
pub struct FrameScan {
    id: FileId,
    /// Offset up to which the recording was scanned.
    position: u64,
    sequence_tracker: SequenceTracker,
    /// Offset of the frame that ends at `position`: bytes of it may be missing if what follows is no frame.
    previous_frame: Option<u64>,
    /// Whether the last frame is an end frame.
    closed: bool,
    pub entries: Vec<IndexEntry>,
    pub damage: Vec<Damage>,
    pub unknown_frames: u64,
    pub tail: Tail,
}

impl FrameScan {
    pub fn new(id: FileId) -> FrameScan {
        FrameScan {
            id,
            position: file_header::LENGTH as u64 * 2,
            sequence_tracker: SequenceTracker::default(),
            previous_frame: None,
            closed: false,
            entries: Vec::new(),
            damage: Vec::new(),
            unknown_frames: 0,
            tail: Tail::Unfinished,
        }
    }

    /// Scans up to the current end of the source.
    pub fn resume(&mut self, source: &dyn RecordingSource) -> io::Result<()> {
        // Before the length: what is written between the two is found by the next call.
        let growing = source.is_being_written();
        let end = source.length()?;
        let mut window = ReadWindow { end, ..ReadWindow::default() };
        // The search goes back in the file: with a window of its own, or headers inside headers would cost a large read each.
        let mut search = ReadWindow { end, ..ReadWindow::default() };
        while self.position < end {
            let here = window.header_at(source, self.position, &self.id)?;
            match here {
                Some(header) if self.position + header.frame_len() <= end => self.accept(header, self.position),
                Some(_) if growing => {
                    self.tail = Tail::Growing;
                    return Ok(());
                }
                _ if growing && end - self.position < HEADER_LENGTH as u64 => break,
                here => {
                    if !self.resynchronise(source, &mut search, end)? {
                        let need = here.map(|header| header.frame_len());
                        self.tail = match growing {
                            true => Tail::Growing,
                            false => {
                                Tail::Torn { offset: self.position, available_bytes: end - self.position, frame_bytes: need }
                            }
                        };
                        return Ok(());
                    }
                }
            }
        }
        self.tail = match (self.closed, growing) {
            (true, _) => Tail::Closed,
            (false, true) => Tail::Growing,
            (false, false) => Tail::Unfinished,
        };
        Ok(())
    }

    fn accept(&mut self, header: FrameHeader, offset: u64) {
        let end = offset + header.frame_len();
        match self.sequence_tracker.check(&header) {
            SequenceStatus::OutOfOrder => self.add_damage(offset, end, DamageKind::OutOfOrder, 0, &header),
            SequenceStatus::InOrder { lost_samples: lost } => {
                if lost > 0 {
                    // The samples that are missing right after damage are those that were damaged.
                    match self.damage.last_mut().filter(|damage| damage.bytes.end == offset) {
                        Some(damage) => damage.lost_samples = damage.lost_samples.saturating_add(lost),
                        None => self.add_damage(offset, offset, DamageKind::MissingFrames, lost, &header),
                    }
                }
                self.sequence_tracker.accept(&header);
                self.entries.push(IndexEntry {
                    offset,
                    sequence: header.sequence,
                    at: header.at,
                    kind: EntryKind::from_frame_kind(header.kind),
                    key_distance: header.key_distance,
                });
                self.unknown_frames += u64::from(matches!(header.kind, FrameKind::Unknown(_)));
                self.closed = header.kind == FrameKind::End;
            }
        }
        self.previous_frame = Some(offset);
        self.position = end;
    }

    fn add_damage(&mut self, from: u64, to: u64, what: DamageKind, lost: u64, next: &FrameHeader) {
        self.damage.push(Damage {
            bytes: from..to,
            kind: what,
            lost_samples: lost,
            from: self.sequence_tracker.last_timestamp(),
            to: Some(next.at),
        });
    }

    /// Finds the next intact header. It may be inside the frame before, if bytes of that are missing.
    fn resynchronise(&mut self, source: &dyn RecordingSource, window: &mut ReadWindow, end: u64) -> io::Result<bool> {
        let broken = self.position;
        let from = self.previous_frame.map_or(broken, |offset| offset + HEADER_LENGTH as u64);
        let mut at = from;
        while let Some(found) = window.find_sync_word(source, at, end)? {
            let header = window.header_at(source, found, &self.id)?;
            // `broken` itself may have an intact header of a frame that goes past the end.
            match header.filter(|header| found + header.frame_len() <= end) {
                Some(header) if self.sequence_tracker.check(&header) != SequenceStatus::OutOfOrder || found >= broken => {
                    // A frame that begins before `broken` begins inside the frame before, which lacks bytes.
                    let begin = if found < broken { self.previous_frame.unwrap_or(broken) } else { broken };
                    let cut = self.entries.pop_if(|entry| found < broken && entry.offset == begin);
                    let was_sample = cut.is_some_and(|entry| entry.kind == EntryKind::Sample);
                    self.add_damage(begin, found, DamageKind::NotAFrame, u64::from(was_sample), &header);
                    self.previous_frame = None;
                    self.position = found;
                    return Ok(true);
                }
                _ => at = found + 1,
            }
        }
        Ok(false)
    }
}

/// A buffered part of the source, so that small frames do not cost a read each.
#[derive(Default)]
struct ReadWindow {
    /// End of the source.
    end: u64,
    start: u64,
    bytes: Vec<u8>,
}

const WINDOW_BYTES: usize = 256 << 10;
/// Bytes that are read first after a jump.
const INITIAL_READ_BYTES: usize = 4 << 10;

impl ReadWindow {
    fn bytes_at(&mut self, source: &dyn RecordingSource, offset: u64, length: usize) -> io::Result<&[u8]> {
        let inside = offset
            .checked_sub(self.start)
            .and_then(|from| usize::try_from(from).ok())
            .filter(|from| from.checked_add(length).is_some_and(|to| to <= self.bytes.len()));
        let from = match inside {
            Some(from) => from,
            None => {
                let left = usize::try_from(self.end.saturating_sub(offset)).unwrap_or(usize::MAX);
                // More each time, as long as the reads are consecutive.
                let held = self.bytes.len() as u64;
                let follows = (self.start..=self.start + held * 2).contains(&offset);
                let ahead =
                    if follows { (self.bytes.len() * 2).clamp(INITIAL_READ_BYTES, WINDOW_BYTES) } else { INITIAL_READ_BYTES };
                read_into(source, offset, ahead.max(length).min(left), &mut self.bytes)?;
                self.start = offset;
                0
            }
        };
        let rest = self.bytes.get(from..).unwrap_or_default();
        Ok(rest.get(..length).unwrap_or(rest))
    }

    fn header_at(&mut self, source: &dyn RecordingSource, offset: u64, id: &FileId) -> io::Result<Option<FrameHeader>> {
        Ok(FrameHeader::parse(self.bytes_at(source, offset, HEADER_LENGTH)?, id))
    }

    /// Offset of the next sync word from `from` on.
    fn find_sync_word(&mut self, source: &dyn RecordingSource, from: u64, end: u64) -> io::Result<Option<u64>> {
        let mut at = from;
        while at + HEADER_LENGTH as u64 <= end {
            let bytes = read_ahead(self, source, at)?;
            if let Some(found) = sync_word_position(bytes) {
                return Ok(Some(at + found as u64));
            }
            // The last three bytes may begin a sync word.
            match bytes.len().saturating_sub(SYNC_WORD.len() - 1) {
                0 => break,
                searched => at += searched as u64,
            }
        }
        Ok(None)
    }
}

/// The buffered bytes from there on, or a new window.
fn read_ahead<'w>(window: &'w mut ReadWindow, source: &dyn RecordingSource, at: u64) -> io::Result<&'w [u8]> {
    let held = (window.start + window.bytes.len() as u64).saturating_sub(at);
    let inside = at >= window.start && held >= HEADER_LENGTH as u64;
    let length = if inside { usize::try_from(held).unwrap_or(WINDOW_BYTES) } else { WINDOW_BYTES };
    window.bytes_at(source, at, length)
}

/// Index of the next sync word.
pub fn sync_word_position(bytes: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let rest = bytes.get(from..)?;
        let at = rest.iter().position(|&byte| Some(&byte) == SYNC_WORD.first())?;
        if rest.get(at..)?.starts_with(&SYNC_WORD) {
            return Some(from + at);
        }
        from += at + 1;
    }
}
