//! The code of a process: its mappings, and what is known of the files that are mapped. Read once a process, and again if it maps more.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use framehop::x86_64::{CacheX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, Module, Unwinder};
use rustc_hash::FxHashMap;

use super::code_files::CodeFiles;
use super::elf_file::{ElfFile, Section};
use super::frame_pointer::Code;
use super::function_names::{mapping_name, readable};
use super::perf_map::PerfMap;
use super::table_loader::MAX_BYTES;
use crate::kernel::mappings::{Mapping, find_mapping, read_mappings};
use crate::kernel::root::Root;
use crate::sample::{Absent, Reading};

/// Names of one process
const MAX_NAMES: usize = 4096;
/// Code that is in no mapping may be of a library that was loaded since.
const REFRESH: Duration = Duration::from_secs(10);

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
    read_at: Instant,
    /// By the start of the mapping
    loaded: FxHashMap<u64, Reading<Loaded>>,
    pub unwinder: UnwinderX86_64<Arc<[u8]>>,
    pub cache: CacheX86_64,
    names: FxHashMap<u64, Rc<str>>,
    perf_map: PerfMap,
    /// Memory that the mappings, the names, and the index of tables without one take
    bytes: usize,
}

impl ProcessSpace {
    /// Reads the mappings.
    pub fn read(root: &Root, pid: u32, buffer: &mut Vec<u8>) -> Reading<ProcessSpace> {
        let mappings = read_mappings(root, pid, buffer)?;
        Ok(ProcessSpace {
            pid,
            executable: executable_link(root, pid),
            bytes: mappings.iter().map(Mapping::bytes).sum(),
            mappings,
            read_at: Instant::now(),
            loaded: FxHashMap::default(),
            unwinder: UnwinderX86_64::new(),
            cache: CacheX86_64::new(),
            names: FxHashMap::default(),
            perf_map: PerfMap::default(),
        })
    }

    /// Reads the mappings again, if they are older than 10 s. Whether there are others: then no table is loaded.
    pub fn refresh(&mut self, root: &Root, buffer: &mut Vec<u8>) -> bool {
        if self.read_at.elapsed() < REFRESH {
            return false;
        }
        self.read_at = Instant::now();
        let Ok(new) = ProcessSpace::read(root, self.pid, buffer) else { return false };
        let has_changed = new.mappings != self.mappings;
        if has_changed {
            let perf_map = std::mem::take(&mut self.perf_map);
            *self = ProcessSpace { perf_map, ..new };
        }
        has_changed
    }

    /// Memory that it takes, without that of files.
    pub fn bytes(&self) -> usize {
        self.bytes + self.perf_map.bytes()
    }

    /// Whether a thread at this place can be unwound with what is known.
    pub fn is_current(&self, root: &Root, program_counter: u64, stack_pointer: u64) -> bool {
        self.is_code(program_counter) && self.is_mapped(stack_pointer) && self.executable == executable_link(root, self.pid)
    }

    /// Whether something is mapped there.
    pub fn is_mapped(&self, address: u64) -> bool {
        find_mapping(&self.mappings, address).is_some()
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
            _ => files.read(self.pid, mapping, &self.executable).and_then(|elf| {
                let bias = elf.load_bias(mapping.start, mapping.offset).ok_or(Absent::Malformed)?;
                Ok(Loaded { elf, bias })
            }),
        };
        if let Ok(Loaded { elf, bias }) = &read {
            let range = |section: &Option<Section>| {
                section.as_ref().map(|section| section.address..section.address.saturating_add(section.bytes.len() as u64))
            };
            // framehop makes an index where the file has none: at most half as large as the table.
            if elf.eh_frame_header.is_none() {
                self.bytes += elf.eh_frame.as_ref().map_or(0, |table| table.bytes.len() / 2);
            }
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

    /// Forgets the tables with this address, which do not fit in memory, and does not read them again.
    pub fn refuse(&mut self, address: u64) {
        let Some(mapping) = find_mapping(&self.mappings, address) else { return };
        self.unwinder.remove_module(mapping.start);
        self.loaded.insert(mapping.start, Err(Absent::TooExpensive));
    }

    /// Forgets the names, and the functions of the perf map.
    pub fn forget_names(&mut self) {
        self.clear_names();
        self.perf_map.clear();
    }

    fn clear_names(&mut self) {
        let names: usize = self.names.values().map(|name| name_bytes(name)).sum();
        self.bytes = self.bytes.saturating_sub(names);
        self.names.clear();
    }

    /// Where the function with this address begins.
    pub fn function_start(&self, address: u64) -> Option<u64> {
        let Loaded { elf, bias } = self.loaded_at(address)?;
        let (start, _) = elf.functions.find(address.wrapping_sub(*bias))?;
        Some(start.wrapping_add(*bias))
    }

    /// Why the file of a function could not be read; `None`: it could.
    pub fn why_not_loaded(&self, address: u64) -> Option<String> {
        let mapping = find_mapping(&self.mappings, address)?;
        let name = mapping_name(mapping.file_name());
        match self.loaded.get(&mapping.start)? {
            Ok(loaded) if loaded.elf.eh_frame.is_some() => None,
            Ok(loaded) if loaded.elf.is_too_large => Some(format!("{name}: its unwind tables are too large")),
            Ok(_) => Some(format!("{name} has no unwind tables")),
            Err(_) if mapping.inode == 0 => Some("compiled at run time, without unwind tables".to_owned()),
            Err(Absent::Os(libc::ETIMEDOUT)) => Some(format!("{name}: its file system did not answer")),
            Err(Absent::Malformed) => Some(format!("{name} is no 64-bit ELF file")),
            Err(Absent::TooExpensive) => Some(format!("{name}: its tables do not fit in {} MiB", MAX_BYTES >> 20)),
            Err(Absent::NoSuchFile) => Some(format!("{name} is not the file that is mapped")),
            Err(why) => Some(format!("{name}: {why}")),
        }
    }

    /// Reads the perf map again if it may have the function with this address, which has no name yet.
    pub fn refresh_perf_map(&mut self, root: &Root, address: u64) {
        let Some(mapping) = find_mapping(&self.mappings, address).filter(|_| !self.names.contains_key(&address)) else {
            return;
        };
        if !self.loaded.get(&mapping.start).is_some_and(Result::is_ok) {
            self.perf_map.refresh(root, self.pid, address);
        }
    }

    /// The name of the function with this address; `libpq.so.5+0x1a2b` (an address in the file) if it has none.
    pub fn name(&mut self, address: u64) -> Rc<str> {
        if let Some(known) = self.names.get(&address) {
            return Rc::clone(known);
        }
        let Some(mapping) = find_mapping(&self.mappings, address) else { return Rc::from("?") };
        let loaded = self.loaded.get(&mapping.start).and_then(|read| read.as_ref().ok());
        if loaded.is_none()
            && let Some(name) = self.perf_map.find(address)
        {
            return readable(name).into();
        }
        if mapping.inode == 0 {
            // It may get a name later.
            return mapping_name(if mapping.path.is_empty() { b"[JIT]" } else { &mapping.path }).into();
        }
        let file = mapping_name(mapping.file_name());
        let is_program = mapping.path[..] == *self.executable.as_bytes();
        let in_file = loaded.map_or(address - mapping.start + mapping.offset, |loaded| address.wrapping_sub(loaded.bias));
        let name: Rc<str> = match loaded.and_then(|loaded| loaded.elf.functions.find(in_file)) {
            Some((_, name)) if is_program => readable(name).into(),
            Some((_, name)) => format!("{} [{file}]", readable(name)).into(),
            None => format!("{file}+{in_file:#x}").into(),
        };
        if self.names.len() >= MAX_NAMES {
            self.clear_names();
        }
        self.bytes += name_bytes(&name);
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

/// Memory that a name takes, with its address.
fn name_bytes(name: &str) -> usize {
    name.len() + 48
}

/// Read from memory, without access to a file system.
fn executable_link(root: &Root, pid: u32) -> OsString {
    root.read_link(format!("proc/{pid}/exe")).map(PathBuf::into_os_string).unwrap_or_default()
}
