//! The tables of the files that processes have mapped, each file once.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::access_target::AccessedTarget;
use super::elf_file::ElfFile;
use crate::kernel::mapped_files::{AccessTarget, open_mapped};
use crate::kernel::mappings::Mapping;
use crate::kernel::root::{Root, absent_from_io_error};
use crate::sample::{Absent, Reading};

/// Which file this is, and which state of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct FileIdentity {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

#[derive(Debug)]
pub struct CodeFiles {
    root: Root,
    known: FxHashMap<FileIdentity, Reading<Rc<ElfFile>>>,
    bytes: usize,
    hung: FxHashSet<AccessTarget>,
    pub accessed: AccessedTarget,
}

impl CodeFiles {
    /// `hung`: what did not answer before, and is not accessed again.
    pub fn new(root: Root, hung: FxHashSet<AccessTarget>, accessed: AccessedTarget) -> CodeFiles {
        CodeFiles { root, known: FxHashMap::default(), bytes: 0, hung, accessed }
    }

    pub fn root(&self) -> &Root {
        &self.root
    }

    pub fn is_hung(&self, target: AccessTarget) -> bool {
        self.hung.contains(&target)
    }

    /// Memory that they take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many files are known, those that could not be read included.
    pub fn count(&self) -> usize {
        self.known.len()
    }

    /// Forgets those that no process refers to.
    pub fn forget_unused(&mut self) {
        self.known.retain(|_, file| file.as_ref().is_ok_and(|elf| Rc::strong_count(elf) > 1));
        self.bytes = self.known.values().flatten().map(|elf| elf.bytes()).sum();
    }

    /// The file of a mapping. `executable`: the link /proc/PID/exe.
    pub fn read(&mut self, pid: u32, mapping: &Mapping, executable: &OsStr) -> Reading<Rc<ElfFile>> {
        if self.is_hung(AccessTarget::Device(mapping.device)) {
            return Err(Absent::Os(libc::ETIMEDOUT));
        }
        let read = self.open_and_read(pid, mapping, executable);
        self.accessed.set(Some(AccessTarget::Process(pid)));
        read
    }

    fn open_and_read(&mut self, pid: u32, mapping: &Mapping, executable: &OsStr) -> Reading<Rc<ElfFile>> {
        let file = open_mapped(&self.root, pid, mapping, executable, |target| self.accessed.set(Some(target)))?;
        let status = file.metadata().map_err(|error| absent_from_io_error(&error))?;
        let modified = (status.mtime(), status.mtime_nsec());
        let identity = FileIdentity { device: status.dev(), inode: status.ino(), size: status.size(), modified };
        if let Some(known) = self.known.get(&identity) {
            return known.clone();
        }
        let elf = ElfFile::read(&file).map(Rc::new).ok_or(Absent::Malformed);
        self.bytes += elf.as_ref().map_or(0, |elf| elf.bytes());
        self.known.insert(identity, elf.clone());
        elf
    }
}
