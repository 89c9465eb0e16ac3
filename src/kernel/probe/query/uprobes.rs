//! Attaches loaded programs to functions of a server. Not in the loader, which may not look into processes of other users.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use super::QueryLayout;
use super::database::Database;
use crate::kernel::regular_file::path_of_descriptor;
use crate::kernel::sys;

/// The kernel's uprobe events, of perf_event_open(2)
const EVENTS: &str = "/sys/bus/event_source/devices/uprobe";

/// Needs CAP_SYS_ADMIN. The links of the programs, which are one for each of `functions`, in their order. `executable` is the file in which
/// these were found.
pub fn attach(layout: QueryLayout, executable: &File, programs: &[OwnedFd]) -> io::Result<Vec<OwnedFd>> {
    let path = CString::new(path_of_descriptor(executable))?;
    // The processes of PostgreSQL are forked by the one that is named.
    let only = matches!(layout.database, Database::MySql { .. }).then_some(layout.pid);
    let (kind, return_config) = events()?;
    let functions = layout.database.functions();
    let links = functions.iter().zip(programs).map(|(function, program)| {
        let config = if function.returns { return_config } else { 0 };
        let event = sys::perf_uprobe_open(kind, config, &path, function.offset, only)?;
        Ok(sys::bpf_perf_link_create(program.as_fd(), event.as_fd())?)
    });
    links.collect()
}

/// perf's event type of uprobes, and the value of `config` for the return of a function.
pub fn events() -> io::Result<(u32, u64)> {
    let invalid = || io::Error::new(io::ErrorKind::InvalidData, format!("{EVENTS} is not understood"));
    let kind = fs::read_to_string(format!("{EVENTS}/type"))?.trim().parse().map_err(|_| invalid())?;
    // "config:0"
    let format = fs::read_to_string(format!("{EVENTS}/format/retprobe"))?;
    let bit: u32 = format.trim().strip_prefix("config:").and_then(|bit| bit.parse().ok()).ok_or_else(invalid)?;
    Ok((kind, 1_u64.checked_shl(bit).ok_or_else(invalid)?))
}
