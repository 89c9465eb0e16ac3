//! One server of PostgreSQL: where the wait events of its processes are in its shared memory.

use std::fs::File;
use std::path::PathBuf;

use rustc_hash::FxHashMap;

use super::log_events::LogEvents;
use crate::kernel::elf::read_elf;
use crate::kernel::task::files::TaskFiles;
use crate::kernel::task::memory::{read_memory, read_words};
use crate::kernel::waits::look_up::LookUp;
use crate::sample::Absent;
use crate::sample::waits::WaitEvent;

/// The pointer to the event of the process: 0 or into the process's own data before it is in the shared memory
const VARIABLE: &[u8] = b"my_wait_event_info";
/// The exported symbols of version 15 and their names have 0.6 MiB.
const MAX_SECTION_BYTES: u64 = 4 << 20;
/// Processes whose addresses are kept; with more they are read anew.
const MAX_ADDRESSES: usize = 4096;
/// The data of the program is within so many bytes of the variable: version 15 has 0.4 MiB, beside large extensions in the heap.
const MAX_DATA_BYTES: u64 = 16 << 20;
/// `AT_ENTRY` of /proc/PID/auxv: where the program begins
const AT_ENTRY: u64 = 9;

/// A process of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Session {
    pub pid: u32,
    pub start_ticks: u64,
}

/// What is known of a server.
#[derive(Debug, Default)]
pub struct Server {
    /// Where its processes have the pointer: at the same address, since they are forked from the first one
    variable: LookUp<u64>,
    /// Where the event of each process is
    addresses: FxHashMap<Session, u64>,
    pub log_events: LogEvents,
}

/// Addresses in the file of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offsets {
    entry: u64,
    variable: u64,
}

impl Server {
    /// The events of these processes, as far as they could be read; parallel to `sessions`, each with whether it sleeps. `first_pid`: the
    /// server's first process (postmaster), from which they are forked.
    pub fn read_events(
        &mut self,
        first_pid: u32,
        sessions: &[(Session, bool)],
        files: &mut TaskFiles,
    ) -> Vec<Option<WaitEvent>> {
        let mut events = vec![None; sessions.len()];
        let Some(variable) = self.variable(first_pid, files) else { return events };
        if self.addresses.len() > MAX_ADDRESSES {
            self.addresses.clear();
        }
        let (mut places, mut addresses) = (Vec::new(), Vec::new());
        for (place, (session, _)) in sessions.iter().enumerate() {
            if let Some(address) = self.address(*session, variable) {
                places.push(place);
                addresses.push(address);
            }
        }
        // One that ends meanwhile has no memory: rather those that sleep.
        let mut readers: Vec<(Session, bool)> = places.iter().filter_map(|&place| sessions.get(place)).copied().collect();
        readers.sort_by_key(|(_, sleeps)| !sleeps);
        let words = readers.iter().take(2).find_map(|(session, _)| read_words(session.pid, &addresses).ok());
        let Some(words) = words else { return events };
        for (place, word) in places.into_iter().zip(words) {
            if let Some(event) = events.get_mut(place) {
                *event = Some(WaitEvent(word));
            }
        }
        events
    }

    /// The event of a process whose event was read before. `None` if its pointer leads elsewhere now: it ends.
    pub fn read_event(&self, session: Session) -> Option<WaitEvent> {
        let &variable = self.variable.known()?;
        let address = *self.addresses.get(&session)?;
        let words = read_words(session.pid, &[address]).ok()?;
        let is_current = read_pointer(session.pid, variable) == Some(address);
        words.first().copied().filter(|_| is_current).map(WaitEvent)
    }

    fn address(&mut self, session: Session, variable: u64) -> Option<u64> {
        if let Some(&address) = self.addresses.get(&session) {
            return Some(address);
        }
        let address = read_pointer(session.pid, variable).filter(|&address| is_in_shared_memory(address, variable))?;
        self.addresses.insert(session, address);
        Some(address)
    }

    fn variable(&mut self, first_pid: u32, files: &mut TaskFiles) -> Option<u64> {
        if !matches!(self.variable, LookUp::NotBegun) {
            self.variable.advance(|| None);
        } else if self.variable.can_begin() {
            match files.read_once(format_args!("{first_pid}/auxv")).map(parse_entry) {
                Ok(Some(begin)) => {
                    self.variable.advance(move || look_up(PathBuf::from(format!("/proc/{first_pid}/exe")), begin));
                }
                Err(Absent::NoPermission) => self.variable = LookUp::Unknown,
                // It is in execve, or the error is stalltop's own: the next sub-sample reads it again.
                Ok(None) | Err(_) => {}
            }
        }
        self.variable.known().copied()
    }
}

/// The address of the variable, from the file of a program. `begin`: where the program begins in memory.
fn look_up(path: PathBuf, begin: u64) -> Option<u64> {
    let offsets = find_variable(&File::open(path).ok()?)?;
    // Load address: 0 of a program that is not position-independent
    offsets.variable.checked_add(begin.checked_sub(offsets.entry)?)
}

fn read_pointer(pid: u32, address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    read_memory(pid, address, &mut bytes).ok()?;
    Some(u64::from_ne_bytes(bytes))
}

/// Whether a pointer leads out of the program's own data.
fn is_in_shared_memory(address: u64, variable: u64) -> bool {
    address != 0 && address.is_multiple_of(4) && address.abs_diff(variable) > MAX_DATA_BYTES
}

fn find_variable(file: &File) -> Option<Offsets> {
    read_elf(file, MAX_SECTION_BYTES, |elf| {
        let variable = elf.exported_object(VARIABLE, size_of::<u64>() as u64)?;
        Some(Offsets { entry: elf.entry(), variable })
    })?
}

/// Where the program begins, of /proc/PID/auxv: pairs of type and value.
fn parse_entry(auxv: &[u8]) -> Option<u64> {
    let (words, _) = auxv.as_chunks::<8>();
    let (pairs, _) = words.as_chunks::<2>();
    let entry = pairs.iter().find(|[kind, _]| u64::from_ne_bytes(*kind) == AT_ENTRY)?;
    Some(u64::from_ne_bytes(entry[1]))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::kernel::root::Root;
    use crate::kernel::task::memory::is_readable;
    use crate::proc_tree::ProcTree;

    #[test]
    fn the_beginning_of_a_program_is_in_its_auxiliary_vector() {
        let auxv: Vec<u8> = [6_u64, 4096, 9, 0x5555_0040, 0, 0].iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert_eq!(parse_entry(&auxv), Some(0x5555_0040));
        assert_eq!(parse_entry(&auxv[..24]), None, "cut off");
        assert_eq!(parse_entry(&[]), None);
    }

    #[test]
    fn a_pointer_into_the_data_of_the_program_is_not_into_shared_memory() {
        let variable = 0x5621_fb87_5ec8;
        assert!(is_in_shared_memory(0x7faf_8a91_ece0, variable));
        assert!(!is_in_shared_memory(variable + 8, variable), "local_my_wait_event_info");
        assert!(!is_in_shared_memory(0, variable));
        assert!(!is_in_shared_memory(0x7faf_8a91_ece1, variable));
    }

    #[test]
    fn a_failed_reading_of_the_auxiliary_vector_is_repeated() {
        let tree = ProcTree::with([("proc/7/auxv", "")]);
        let mut files = TaskFiles::open(&tree.root()).unwrap();
        let mut server = Server::default();
        for pid in [7, 8] {
            assert_eq!(server.variable(pid, &mut files), None);
            assert!(matches!(server.variable, LookUp::NotBegun), "{:?}", server.variable);
        }
    }

    #[test]
    fn events_are_read_where_the_pointers_of_the_processes_lead() {
        // In the program's data, far from the stack, on which the pointer is.
        static EVENT: AtomicU32 = AtomicU32::new(0x0100_0008);
        let pid = std::process::id();
        if is_readable(pid) != Ok(true) {
            println!("skipped: this user may not read memory");
            return;
        }
        let pointer = std::ptr::from_ref(&EVENT) as u64;
        let variable = std::ptr::from_ref(&pointer) as u64;
        let mut files = TaskFiles::open(&Root::host()).unwrap();
        let mut server = Server { variable: LookUp::Known(variable), ..Server::default() };
        let (own, ended) = (Session { pid, start_ticks: 1 }, Session { pid: u32::MAX >> 1, start_ticks: 1 });
        let sessions = [(ended, true), (own, false)];
        assert_eq!(server.read_events(pid, &sessions, &mut files), [None, Some(WaitEvent::WAL_WRITE_LOCK)]);
        // As one that ended after its address was read: the next one reads for both.
        server.addresses.insert(ended, std::ptr::from_ref(&EVENT) as u64);
        assert_eq!(server.read_events(pid, &sessions, &mut files), [Some(WaitEvent::WAL_WRITE_LOCK); 2]);
        EVENT.store(0x0a00_0042, Ordering::Relaxed);
        assert_eq!(server.read_event(own), Some(WaitEvent(0x0a00_0042)));
        assert_eq!(server.read_event(ended), None);

        let local = variable;
        let mut starting = Server { variable: LookUp::Known(std::ptr::from_ref(&local) as u64), ..Server::default() };
        assert_eq!(starting.read_events(pid, &[(own, true)], &mut files), [None], "not in shared memory yet");
        let mut older = Server { variable: LookUp::Unknown, ..Server::default() };
        assert_eq!(older.read_events(pid, &[(own, true)], &mut files), [None]);
    }

    #[test]
    fn a_program_without_that_variable_has_no_wait_events() {
        assert_eq!(find_variable(&File::open("/proc/self/exe").unwrap()), None);
        assert_eq!(find_variable(&File::open("Cargo.toml").unwrap()), None);
    }

    #[test]
    fn the_variable_of_postgresql_is_found() {
        let Ok(file) = File::open("/usr/lib/postgresql/15/bin/postgres") else {
            println!("skipped: PostgreSQL 15 is not installed");
            return;
        };
        let found = find_variable(&file).unwrap();
        assert!(found.entry > 0 && found.variable > found.entry, "{found:x?}");
    }
}
