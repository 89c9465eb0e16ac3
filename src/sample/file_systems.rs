//! Operations of mounted file systems: cumulative counts, as the eBPF programs of assets/probe/file_systems.bpf.c count them.
//! `kernel/probe/file_systems` reads them; `interval/file_systems` computes rates and mean latencies.

use super::{Instant, Name};
use crate::ids::DiskId;
use crate::units::Counter;

/// What was counted up to an instant.
#[derive(Clone, Debug, PartialEq)]
pub struct FileSystems {
    pub at: Instant,
    pub missing: MissingCounts,
    /// In the order in which they were mounted
    pub file_systems: Vec<FileSystem>,
}

/// What is not counted, because the kernel lacks a tracepoint, or refuses its program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MissingCounts {
    /// mm_filemap_add_to_page_cache: `AccessPattern::Page`, reads
    pub page_reads: bool,
    /// writeback_dirty_folio, before 5.18 writeback_dirty_page: `AccessPattern::Page`, writes
    pub page_writes: bool,
    /// io_uring_submit_req, io_uring_complete: the sequential and random ones of io_uring
    pub io_uring: bool,
}

/// One file system. All counts begin at 0 when the probe first finds it mounted, after it was not.
#[derive(Clone, Debug, PartialEq)]
pub struct FileSystem {
    /// `s_dev` of its superblock: 0:N where it has no block device of its own
    pub device: DiskId,
    /// The mount that shows the most of it, the first of several
    pub mount_point: Name,
    pub fs_type: Name,
    /// Device, server and directory, or another name
    pub source: Name,
    /// By `AccessPattern` and `Direction`
    pub flows: [[Flow; 2]; 3],
    /// By `OtherOperation`: calls, failed ones included
    pub others: [Counter; 5],
}

/// How data are read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessPattern {
    /// A read or write that begins where the last one on the open file ended, or at 0 if it is the first
    Sequential,
    /// Any other read or write
    Random,
    /// Mapped files: faults that read pages, and pages that a store makes dirty, when it does
    Page,
}

impl AccessPattern {
    /// In the order of the program
    pub const ALL: [AccessPattern; 3] = [AccessPattern::Sequential, AccessPattern::Random, AccessPattern::Page];
}

/// Index into `FileSystem::flows`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Read,
    Write,
}

/// What is no read and no write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherOperation {
    /// access(2) and its forms
    Access,
    Readdir,
    GetattrSetattr,
    /// Files, directories, links and device nodes
    CreateRemove,
    /// Open of an existing file, rename, readlink, fsync, fallocate
    Other,
}

impl OtherOperation {
    /// In the order of the program
    pub const ALL: [OtherOperation; 5] = [
        OtherOperation::Access,
        OtherOperation::Readdir,
        OtherOperation::GetattrSetattr,
        OtherOperation::CreateRemove,
        OtherOperation::Other,
    ];
}

/// Successful operations of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    pub operations: Counter,
    pub bytes: Counter,
    /// From begin to end, summed up, nanoseconds
    pub time_ns: Counter,
}
