//! The code of a process: its mappings, and what is known of the files that are mapped. Read once a process, and again if it maps more.

use std::ffi::OsStr;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use framehop::x86_64::{CacheX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, Module, Unwinder};
use rustc_hash::{FxHashMap, FxHashSet};

use super::elf_file::{ElfFile, Section};
use super::frame_pointer::Code;
use super::function_names::readable;
use super::mappings::{Mapping, find_mapping, read_mappings};
use super::perf_map::PerfMap;
use crate::kernel::root::{Root, absent_from_io_error};
use crate::kernel::sys_admin;
use crate::sample::{Absent, Reading};

/// Files whose tables are kept, and their memory: with more all are forgotten.
const MAX_FILES: usize = 256;
const MAX_FILE_BYTES: usize = 32 << 20;
/// Names of one process
const MAX_NAMES: usize = 4096;

/// What may not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// A file system, by its device number
    Device(u64),
    /// A process whose memory is locked (mmap_lock), or whose root is on such a file system
    Process(u32),
}

/// What the reader's thread touches at the moment.
#[derive(Clone, Debug, Default)]
pub struct TouchedPlace(Arc<Mutex<Option<Place>>>);

impl TouchedPlace {
    pub fn set(&self, place: Option<Place>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = place;
    }

    pub fn get(&self) -> Option<Place> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which file this is, and which state of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct FileIdentity {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

/// The tables of the files that processes have mapped.
#[derive(Debug)]
pub struct CodeFiles {
    root: Root,
    known: FxHashMap<FileIdentity, Reading<Rc<ElfFile>>>,
    bytes: usize,
    hung: FxHashSet<Place>,
    pub touched: TouchedPlace,
}

impl CodeFiles {
    /// `hung`: what did not answer before, and is not touched again.
    pub fn new(root: Root, hung: FxHashSet<Place>, touched: TouchedPlace) -> CodeFiles {
        CodeFiles { root, known: FxHashMap::default(), bytes: 0, hung, touched }
    }

    pub fn root(&self) -> &Root {
        &self.root
    }

    pub fn is_hung(&self, place: Place) -> bool {
        self.hung.contains(&place)
    }

    /// Whether the processes that refer to files must be forgotten, too.
    pub fn forget_if_large(&mut self) -> bool {
        let is_large = self.known.len() > MAX_FILES || self.bytes > MAX_FILE_BYTES;
        if is_large {
            self.known.clear();
            self.bytes = 0;
        }
        is_large
    }

    fn read(&mut self, pid: u32, mapping: &Mapping) -> Reading<Rc<ElfFile>> {
        let place = Place::Device(mapping.device);
        if self.is_hung(place) {
            return Err(Absent::Os(libc::ETIMEDOUT));
        }
        self.touched.set(Some(place));
        let read = self.open_and_read(pid, mapping);
        self.touched.set(Some(Place::Process(pid)));
        read
    }

    fn open_and_read(&mut self, pid: u32, mapping: &Mapping) -> Reading<Rc<ElfFile>> {
        let file = open(&self.root, pid, mapping)?;
        let status = file.metadata().map_err(|error| absent_from_io_error(&error))?;
        let modified = (status.mtime(), status.mtime_nsec());
        let identity = FileIdentity { device: status.dev(), inode: status.ino(), size: status.size(), modified };
        if let Some(known) = self.known.get(&identity) {
            return known.clone();
        }
        let elf = ElfFile::read(file).map(Rc::new).ok_or(Absent::Malformed);
        self.bytes += elf.as_ref().map_or(0, |elf| elf.bytes());
        self.known.insert(identity, elf.clone());
        elf
    }
}

/// Opens the file that is mapped there: of a container's process, also if it was deleted since. Only a regular file with the inode of the
/// mapping.
fn open(root: &Root, pid: u32, mapping: &Mapping) -> Reading<File> {
    let relative = Path::new(OsStr::from_bytes(&mapping.path));
    let below_root = root.path(format!("proc/{pid}/root")).join(relative.strip_prefix("/").unwrap_or(relative));
    open_regular(&below_root, mapping.inode).or_else(|why| {
        // It has no path any more. That of the mapping itself takes CAP_SYS_ADMIN.
        let exact = root.path(format!("proc/{pid}/map_files/{:x}-{:x}", mapping.start, mapping.end));
        let by_mapping = sys_admin::check_permitted()
            .and_then(|()| sys_admin::with_sys_admin(|| open_regular(&exact, mapping.inode)).flatten());
        by_mapping.or_else(|_| open_regular(&root.path(format!("proc/{pid}/exe")), mapping.inode)).map_err(|_| why)
    })
}

fn open_regular(path: &Path, inode: u64) -> Reading<File> {
    // A pipe must not block.
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(|error| absent_from_io_error(&error))?;
    let status = file.metadata().map_err(|error| absent_from_io_error(&error))?;
    if status.is_file() && status.ino() == inode { Ok(file) } else { Err(Absent::NoSuchFile) }
}

/// A mapped file with its place in memory.
#[derive(Clone, Debug)]
struct Loaded {
    elf: Rc<ElfFile>,
    /// Address in memory less address in the file
    bias: u64,
}

/// The code of one process.
pub struct ProcessSpace {
    pid: u32,
    /// The link /proc/PID/exe: another after an exec
    executable: OsString,
    mappings: Vec<Mapping>,
    /// By the start of the mapping
    loaded: FxHashMap<u64, Reading<Loaded>>,
    pub unwinder: UnwinderX86_64<Arc<[u8]>>,
    pub cache: CacheX86_64,
    names: FxHashMap<u64, Rc<str>>,
    perf_map: PerfMap,
}

impl ProcessSpace {
    /// Reads the mappings.
    pub fn read(root: &Root, pid: u32, buffer: &mut Vec<u8>) -> Reading<ProcessSpace> {
        let mappings = read_mappings(root, pid, buffer)?;
        Ok(ProcessSpace {
            pid,
            executable: executable_link(root, pid),
            mappings,
            loaded: FxHashMap::default(),
            unwinder: UnwinderX86_64::new(),
            cache: CacheX86_64::new(),
            names: FxHashMap::default(),
            perf_map: PerfMap::default(),
        })
    }

    /// Whether a thread at this place can be unwound with what is known.
    pub fn is_current(&self, root: &Root, program_counter: u64, stack_pointer: u64) -> bool {
        self.is_code(program_counter)
            && find_mapping(&self.mappings, stack_pointer).is_some()
            && self.executable == executable_link(root, self.pid)
    }

    /// The end of the mapping with this address.
    pub fn mapping_end(&self, address: u64) -> Option<u64> {
        find_mapping(&self.mappings, address).map(|mapping| mapping.end)
    }

    /// Whether the tables of the file with this address are known or known to be missing.
    pub fn is_loaded(&self, address: u64) -> bool {
        find_mapping(&self.mappings, address).is_none_or(|mapping| self.loaded.contains_key(&mapping.start))
    }

    /// Reads them.
    pub fn load(&mut self, files: &mut CodeFiles, address: u64) {
        let Some(mapping) = find_mapping(&self.mappings, address) else { return };
        let read = match mapping.inode {
            0 => Err(Absent::NoSuchFile),
            _ => files.read(self.pid, mapping).and_then(|elf| {
                let bias = elf.load_bias(mapping.start, mapping.offset).ok_or(Absent::Malformed)?;
                Ok(Loaded { elf, bias })
            }),
        };
        if let Ok(Loaded { elf, bias }) = &read {
            let range = |section: &Option<Section>| {
                section.as_ref().map(|section| section.address..section.address.saturating_add(section.bytes.len() as u64))
            };
            let bytes = |section: &Option<Section>| section.as_ref().map(|section| Arc::clone(&section.bytes));
            let sections = ExplicitModuleSectionInfo {
                eh_frame_svma: range(&elf.eh_frame),
                eh_frame: bytes(&elf.eh_frame),
                eh_frame_hdr_svma: range(&elf.eh_frame_header),
                eh_frame_hdr: bytes(&elf.eh_frame_header),
                ..ExplicitModuleSectionInfo::default()
            };
            self.unwinder.add_module(Module::new(String::new(), mapping.start..mapping.end, *bias, sections));
        }
        self.loaded.insert(mapping.start, read);
    }

    /// Where the function with this address begins.
    pub fn function_start(&self, address: u64) -> Option<u64> {
        let Loaded { elf, bias } = self.loaded_at(address)?;
        let (start, _) = elf.functions.find(address.wrapping_sub(*bias))?;
        Some(start.wrapping_add(*bias))
    }

    /// Why a function's caller is not found by tables: of a file that could not be read. `None`: it could.
    pub fn why_not_loaded(&self, address: u64) -> Option<String> {
        let mapping = find_mapping(&self.mappings, address)?;
        let name = String::from_utf8_lossy(mapping.file_name()).into_owned();
        match self.loaded.get(&mapping.start)? {
            Ok(loaded) if loaded.elf.eh_frame.is_some() => None,
            Ok(_) => Some(format!("{name} has no unwind tables")),
            Err(_) if mapping.inode == 0 => Some("compiled at run time, without unwind tables".to_owned()),
            Err(Absent::Os(libc::ETIMEDOUT)) => Some(format!("{name}: its file system did not answer")),
            Err(Absent::Malformed) => Some(format!("{name} is no 64-bit ELF file")),
            Err(why) => Some(format!("{name}: {why}")),
        }
    }

    /// The name of the function with this address; `libpq.so.5+0x1a2b` (an address in the file) if it has none.
    pub fn name(&mut self, root: &Root, address: u64) -> Rc<str> {
        if let Some(known) = self.names.get(&address) {
            return Rc::clone(known);
        }
        let Some(mapping) = find_mapping(&self.mappings, address) else { return Rc::from("?") };
        let loaded = self.loaded.get(&mapping.start).and_then(|read| read.as_ref().ok());
        if loaded.is_none()
            && let Some(name) = self.perf_map.find(root, self.pid, address)
        {
            return readable(name).into();
        }
        if mapping.inode == 0 {
            // It may get a name later.
            return readable(if mapping.path.is_empty() { b"[JIT]" } else { &mapping.path }).into();
        }
        let file = readable(mapping.file_name());
        let is_program = mapping.path[..] == *self.executable.as_bytes();
        let in_file = loaded.map_or(address - mapping.start + mapping.offset, |loaded| address.wrapping_sub(loaded.bias));
        let name: Rc<str> = match loaded.and_then(|loaded| loaded.elf.functions.find(in_file)) {
            Some((_, name)) if is_program => readable(name).into(),
            Some((_, name)) => format!("{} [{file}]", readable(name)).into(),
            None => format!("{file}+{in_file:#x}").into(),
        };
        if self.names.len() >= MAX_NAMES {
            self.names.clear();
        }
        self.names.insert(address, Rc::clone(&name));
        name
    }

    fn loaded_at(&self, address: u64) -> Option<&Loaded> {
        self.loaded.get(&find_mapping(&self.mappings, address)?.start)?.as_ref().ok()
    }
}

impl Code for ProcessSpace {
    fn is_code(&self, address: u64) -> bool {
        find_mapping(&self.mappings, address).is_some_and(|mapping| mapping.is_executable)
    }

    fn begins_function(&self, address: u64) -> bool {
        self.loaded_at(address).is_some_and(|loaded| loaded.elf.functions.begins_at(address.wrapping_sub(loaded.bias)))
    }
}

/// Read from memory, without access to a file system.
fn executable_link(root: &Root, pid: u32) -> OsString {
    root.read_link(format!("proc/{pid}/exe")).map(PathBuf::into_os_string).unwrap_or_default()
}
