//! Loads the programs that count queries, and attaches those of the scheduler's tracepoints.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use aya::programs::UProbe;
use aya::{Btf, EbpfLoader};

use super::{LoadError, load_tracepoint, map_descriptor, missing, object_file};
use crate::kernel::probe::query::QueryLayout;
use crate::kernel::probe::query::database::{CommandArgument, Database};
use crate::kernel::sys;

/// The descriptors of the maps, of the links of the tracepoints, and of the programs of functions, in the order of `functions`.
pub(super) fn load(types: &Btf, layout: QueryLayout) -> Result<Vec<OwnedFd>, LoadError> {
    let (states, command) = match layout.database {
        Database::PostgreSql { states, .. } => (states.begin_and_end(), 0),
        Database::MySql { command: CommandArgument::First, .. } => ((0, 0), 0),
        Database::MySql { command: CommandArgument::Third, .. } => ((0, 0), 2),
        Database::MySql { command: CommandArgument::Unknown, .. } => ((0, 0), u32::MAX),
    };
    let mut object = EbpfLoader::new()
        .btf(Some(types))
        // `queries`, which only the programs use
        .allow_unsupported_maps()
        .override_global("only_process", &layout.pid, true)
        .override_global("begin_states", &states.0, true)
        .override_global("end_states", &states.1, true)
        .override_global("command_argument", &command, true)
        .load(&object_file::QUERY.decompress()?)?;
    let mut descriptors = vec![map_descriptor(&object, "totals_map")?, map_descriptor(&object, "preemptors")?];
    for (name, tracepoint) in [("switched", "sched_switch"), ("waking", "sched_waking")] {
        let program = load_tracepoint(&mut object, name, tracepoint, types)?;
        descriptors.push(sys::bpf_raw_tracepoint_open(program.as_fd(), None).map_err(io::Error::from)?);
    }
    for function in layout.database.functions() {
        let name = function.program;
        let program: &mut UProbe = object.program_mut(name).ok_or_else(|| missing(name))?.try_into()?;
        program.load()?;
        descriptors.push(program.fd()?.as_fd().try_clone_to_owned()?);
    }
    Ok(descriptors)
}
